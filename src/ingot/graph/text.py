"""The text form of a graph: one line a node, for dumps, golden tests and `ingot inspect`."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ingot.formula.expr import text
from ingot.graph.ir import Attribute, Graph, Node, Value
from ingot.tables import shown

MOST = 16  # elements of an attribute that are written


def graph_text(graph: Graph) -> str:
    """`graph name(inputs) -> outputs`, then the nodes; subgraphs are indented below their node."""
    return "\n".join(_lines(graph, ""))


def describe(value: Value) -> str:
    """name: type[shape], with the elements of a small constant."""
    shape = "?" if value.shape is None else "[" + ", ".join(map(text, value.shape)) + "]"
    head = f"{value.name}: {value.type or '?'}{shape}"
    if value.constant is not None and value.constant.size <= 4:
        return f"{head} = {np.asarray(value.constant).tolist()}"
    return f"{head} constant" if value.constant is not None else head


def _lines(graph: Graph, indent: str) -> Iterator[str]:
    inputs = ", ".join(describe(v) for v in graph.inputs)
    yield f"{indent}graph {graph.name}({inputs}) -> {', '.join(v.name for v in graph.outputs)}"
    for s in graph.states:
        yield f"{indent}  state {graph.inputs[s.input].name} = {graph.outputs[s.output].name}"
    for node in graph.nodes:
        yield f"{indent}  {_node(node)}"
        for name, sub in node.subgraphs.items():
            yield f"{indent}    {name}:"
            yield from _lines(sub, indent + "      ")


def _node(node: Node) -> str:
    outputs = ", ".join("_" if v is None else describe(v) for v in node.outputs)
    inputs = ", ".join(
        "_" if v is None else describe(v) if v.constant is not None else v.name for v in node.inputs
    )
    attributes = ", ".join(
        f"{k}={attribute_text(v)}" for k, v in sorted(node.attributes.items()) if not isinstance(v, Graph)
    )
    return f"{outputs} = {node.op}({inputs})" + (f" {{{attributes}}}" if attributes else "")


def attribute_text(value: Attribute) -> str:
    """An attribute on one line; of a long list or text the beginning."""
    if isinstance(value, np.ndarray):
        return f"tensor{list(value.shape)}"
    if isinstance(value, tuple):
        more = f", ... {len(value):,} in all" if len(value) > MOST else ""
        return f"[{', '.join(shown(str(v)) for v in value[:MOST])}{more}]"
    return shown(str(value))
