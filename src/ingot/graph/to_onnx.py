"""A graph as an ONNX model. In: an inferred Graph; out: a ModelProto. Called by frontends of other formats.

Constants become initializers of the outermost graph, and Constant nodes where a graph returns them.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import onnx
from onnx import helper, numpy_helper

from ingot.errors import InternalError, UnsupportedError
from ingot.formula.index import upper
from ingot.graph.ir import Graph, Node, Value
from ingot.graph.onnx_types import dtype_to_onnx

IR_VERSION = 8
SIZE_LIMIT = (1 << 31) - (1 << 20)


def to_onnx(graph: Graph) -> onnx.ModelProto:
    """The model. All shapes must be static, all nodes of a domain of one opset."""
    versions = {"": 17} | {n.domain: n.version for n in _nodes(graph)}
    if odd := {(n.domain, n.version) for n in _nodes(graph)} - versions.items():
        raise InternalError(f"{graph.name}: nodes of several opsets, {sorted({*odd, *versions.items()})}")
    constants: dict[Value, None] = {}
    proto = _graph(graph, constants)
    size = sum(v.constant.nbytes for v in constants if v.constant is not None)
    if size > SIZE_LIMIT:
        raise UnsupportedError(f"{graph.name}: constants of {size:,} bytes; an ONNX file holds two gigabytes")
    proto.initializer.extend(
        numpy_helper.from_array(np.asarray(v.constant, order="C"), v.name) for v in constants
    )
    opsets = [helper.make_opsetid(domain, version) for domain, version in sorted(versions.items())]
    return helper.make_model(proto, ir_version=IR_VERSION, opset_imports=opsets, producer_name="ingot")


def _nodes(graph: Graph) -> Iterable[Node]:
    for node in graph.nodes:
        yield node
        for inner in node.subgraphs.values():
            yield from _nodes(inner)


def _graph(graph: Graph, constants: dict[Value, None]) -> onnx.GraphProto:
    made = {v for n in graph.nodes for v in n.outputs}
    nodes = [_node(n, constants) for n in graph.nodes]
    nodes += [_constant(v) for v in graph.outputs if v.constant is not None and v not in made]
    inputs, outputs = ([_info(v) for v in values] for values in (graph.inputs, graph.outputs))
    return helper.make_graph(nodes, graph.name or "graph", inputs, outputs)


def _node(node: Node, constants: dict[Value, None]) -> onnx.NodeProto:
    constants.update((v, None) for v in node.inputs if v is not None and v.constant is not None)
    inputs, outputs = (
        ["" if v is None else v.name for v in values] for values in (node.inputs, node.outputs)
    )
    proto = helper.make_node(node.op, inputs, outputs, name=node.name, domain=node.domain or None)
    for name, value in node.attributes.items():
        given = _graph(value, constants) if isinstance(value, Graph) else value
        proto.attribute.append(helper.make_attribute(name, given))
    return proto


def _constant(value: Value) -> onnx.NodeProto:
    tensor = numpy_helper.from_array(np.asarray(value.constant, order="C"))
    return helper.make_node("Constant", [], [value.name], name=f"{value.name}/constant", value=tensor)


def _info(value: Value) -> onnx.ValueInfoProto:
    if value.type is None or value.shape is None:
        raise InternalError(f"{value.name} has not been inferred")
    return helper.make_tensor_value_info(
        value.name, dtype_to_onnx(value.type), [int(upper(n)) for n in value.shape]
    )
