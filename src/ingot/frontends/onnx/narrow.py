"""Which operators take types for storage: what the standard says, for definitions rarely look.

In: an inferred graph. Out: the same, or ModelError for a node that reads 8-bit floats or something below
where its operator has no such input: arithmetic on them is what no definition was checked for. Operators that
only move or convert elements take all types: some schemas have not heard of the newest.
"""

from __future__ import annotations

import onnx

from ingot.errors import ModelError
from ingot.formula.types import DType
from ingot.graph.ir import Graph, Node

MOVERS = {
    *("Compress", "Concat", "DepthToSpace", "Expand", "Flatten", "Gather", "GatherElements", "GatherND"),
    *("Identity", "Pad", "Reshape", "ReverseSequence", "ScatterElements", "ScatterND", "Slice"),
    *("SpaceToDepth", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze", "Where"),
}


CONVERTERS = {"BitCast", "Cast", "CastLike"}


def require_narrow(graph: Graph) -> Graph:
    """Raise ModelError naming the node, its input and the type."""
    for node in graph.nodes:
        for i, value in enumerate(node.inputs):
            if value is None or value.type is None:
                continue
            t = value.type
            if t.is_narrow and t.bits <= 8 and not _takes(node, i, t):
                what = f"input {value.name!r} is {t}"
                raise ModelError(
                    f"{node.label}: {what}, which {node.op} does not take; cast it to float32 or int8"
                )
        for sub in node.subgraphs.values():
            require_narrow(sub)
    return graph


def _takes(node: Node, i: int, t: DType) -> bool:
    newest = onnx.defs.onnx_opset_version()
    if node.op in CONVERTERS or not onnx.defs.has(node.op, newest, node.domain):
        return True
    schema = onnx.defs.get_schema(node.op, newest, node.domain)
    formal = schema.inputs[min(i, len(schema.inputs) - 1)]
    moved = node.op in MOVERS and formal.type_str == schema.outputs[0].type_str
    return moved or f"tensor({t})" in formal.types
