"""Bytes have the sign that the target multiplies, where nobody outside of the network sees them.

    q: int8 = QuantizeLinear(x, s, 11)           q: uint8 = QuantizeLinear(x, s, 139)
    y = QLinearConv(q, s, 11, w, ...)     ->     y = QLinearConv(q, s, 139, w, ...)

An instruction that multiplies uint8 by int8 needs each int8 moved by 128 whenever it is loaded. Moved
together with its zero point, an integer stands for the same number, and results keep their bits. Operators
that pick or limit elements join their operand and their result, which change together or not at all. Needs an
inferred graph behind `integer_layers`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from ingot.formula.types import INT8, UINT8, DType
from ingot.graph.ir import Graph, Node, Value, constant_value, uses
from ingot.passes.quantised import BYTES
from ingot.targets.record import Target

PICKS = frozenset(
    (
        *("Reshape", "Flatten", "Transpose", "Squeeze", "Unsqueeze", "Slice", "Gather", "Identity", "Expand"),
        *("Tile", "DepthToSpace", "SpaceToDepth", "MaxPool", "Clip"),
    )
)
"""Operators whose result has elements of the first operand, or limits for them."""
READ: Mapping[str, Mapping[int, int]] = {
    "DequantizeLinear": {0: 2},
    "QLinearConv": {0: 2},
    "QLinearConvTranspose": {0: 2},
    "QLinearMatMul": {0: 2, 3: 5},
    "QGemm": {0: 2},
    "ConvInteger": {0: 2},
    "MatMulInteger": {0: 2, 1: 3},
    "QLinearAveragePool": {0: 2},
    "QLinearGlobalAveragePool": {0: 2},
}
"""Where operators that subtract integers have the zero point of each operand."""
MADE: Mapping[str, int] = {
    "QuantizeLinear": 2,
    "QLinearConv": 7,
    "QLinearConvTranspose": 6,
    "QLinearMatMul": 7,
    "QGemm": 8,
}
"""Where operators that add the zero point to a rounded result have it."""
PRODUCTS = frozenset(READ) - {"DequantizeLinear", "QLinearAveragePool", "QLinearGlobalAveragePool"}
DOMAINS = {"QGemm": "com.microsoft", "QLinearConvTranspose": "ingot", "QLinearAveragePool": "com.microsoft"}
DOMAINS["QLinearGlobalAveragePool"] = "com.microsoft"
"""Of the operators that are none of ONNX's."""


def byte_signs(graph: Graph, target: Target) -> Graph:
    """Rewrite in place, subgraphs too, and return the graph."""
    found = [t for t in BYTES if any(target.spelling(op, t.name) for op in ("dot4", "dot4s"))]
    if len(found) == 1:  # the target multiplies bytes of one sign
        _rewrite(graph, found[0])
    return graph


def _rewrite(graph: Graph, wanted: DType) -> None:
    for node in graph.nodes:
        for sub in node.subgraphs.values():
            _rewrite(sub, wanted)
    changed = set[Value]()
    for group in _groups(graph, INT8 if wanted is UINT8 else UINT8):
        changed |= group
    for value in changed:
        value.type = wanted
    for node in graph.nodes:
        for at in _numbers(node, changed):
            number = node.inputs[at]
            assert number is not None
            node.inputs[at] = _moved(number, wanted)
        if node.op == "QuantizeLinear" and node.outputs[0] in changed:
            node.attributes.pop("output_dtype", None)  # the zero point says it


def _groups(graph: Graph, old: DType) -> Iterator[set[Value]]:
    """Values that change together: a product reads one, and whoever makes or reads one can change with it."""
    makers = {v: n for n in graph.nodes for v in n.outputs if v is not None}
    readers, seen = uses(graph), set[Value]()
    for value in makers:
        if value in seen or value.type is not old:
            continue
        group = _joined(value, makers, readers)
        seen |= group
        around = [n for v in group for n in (makers.get(v), *readers.get(v, ()))]
        if any(v in graph.outputs or v not in makers for v in group) or not all(
            n is not None and _follows(n, group) for n in around
        ):
            continue
        if any(n is not None and n.op in PRODUCTS and group.intersection(n.inputs) for n in around):
            yield group


def _joined(start: Value, makers: dict[Value, Node], readers: dict[Value, list[Node]]) -> set[Value]:
    """A value and those that share its elements."""
    found, left = set[Value](), [start]
    while left:
        value = left.pop()
        if value in found:
            continue
        found.add(value)
        near = [n for n in (makers.get(value), *readers.get(value, ())) if n is not None and _picks(n)]
        left += [
            v for n in near for v in (n.inputs[0], n.outputs[0]) if v is not None and v.type is value.type
        ]
    return found


def _picks(node: Node) -> bool:
    return not node.domain and node.op in PICKS


def _follows(node: Node, group: set[Value]) -> bool:
    """Whether a node can change with a group of values: their zero points are constants."""
    if node.subgraphs or node.domain != DOMAINS.get(node.op, ""):
        return False
    own = {at for at, v in enumerate(node.inputs) if v in group}
    if _picks(node):
        return (
            own == {0} and len([v for v in node.outputs if v is not None]) == 1 and _are_constant(node, group)
        )
    known = set(READ.get(node.op, ()))
    makes = node.outputs[0] in group
    return own <= known and (not makes or node.op in MADE) and _are_constant(node, group)


def _are_constant(node: Node, group: set[Value]) -> bool:
    numbers = (node.inputs[at] if at < len(node.inputs) else None for at in _numbers(node, group))
    return all(v is not None and v.constant is not None for v in numbers)


def _numbers(node: Node, group: set[Value]) -> list[int]:
    """Which operands of a node are zero points or limits of values in a group."""
    if node.op == "Clip" and node.outputs[0] in group:
        return [at for at in range(1, len(node.inputs)) if node.inputs[at] is not None]
    found = [zero for at, zero in READ.get(node.op, {}).items() if node.inputs[at] in group]
    return [*found, MADE[node.op]] if node.op in MADE and node.outputs[0] in group else found


def _moved(number: Value, wanted: DType) -> Value:
    """An integer in the other sign: 128 further from the lowest integer of its own."""
    assert number.constant is not None
    moved = number.constant.astype(np.int16) + (128 if wanted is UINT8 else -128)
    return constant_value(f"{number.name}_{wanted.name}", np.asarray(moved.astype(wanted.numpy)))
