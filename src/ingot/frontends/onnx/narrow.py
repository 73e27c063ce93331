"""Which operators take types for storage: what the standard says, for definitions rarely look.

In: an inferred graph. Out: the same, or ModelError for a node that reads 8-bit floats or something below
where its operator has no such input: arithmetic on them is what no definition was checked for.
"""

from __future__ import annotations

from functools import cache

import onnx

from ingot.errors import ModelError
from ingot.formula.types import DType
from ingot.graph.ir import Graph, Node


def require_narrow(graph: Graph) -> Graph:
    """Raise ModelError naming the node, its input and the type."""
    for node in graph.nodes:
        for i, value in enumerate(node.inputs):
            t = None if value is None else value.type
            if t is not None and t.is_narrow and t.bits <= 8 and not _takes(node, i, t):
                what = f"input {value.name!r} is {t}"  # type: ignore[union-attr]
                raise ModelError(
                    f"{node.label}: {what}, which {node.op} does not take; cast it to float32 or int8"
                )
        for sub in node.subgraphs.values():
            require_narrow(sub)
    return graph


def _takes(node: Node, i: int, t: DType) -> bool:
    allowed = _inputs(node.op, node.domain)
    known = "float4e2m1" if t.bits == 6 else t.name  # schemas that move anything have not all heard of float6
    return not allowed or f"tensor({known})" in allowed[min(i, len(allowed) - 1)]


@cache
def _inputs(op: str, domain: str) -> tuple[frozenset[str], ...]:
    """The types of each input by the newest version; nothing for an operator that is not ONNX's."""
    newest = onnx.defs.onnx_opset_version()
    if not onnx.defs.has(op, newest, domain):
        return ()
    return tuple(frozenset(p.types) for p in onnx.defs.get_schema(op, newest, domain).inputs)
