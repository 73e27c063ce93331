"""What the integers of a model's inputs and outputs stand for.

    y = DequantizeLinear(x, 0.02, 128)      ->      x: value = (integer - 128) * 0.02

In: an inferred graph before layers become integer ones. Out: the same graph, with `scales` of the inputs that
all their readers take for the same numbers, and of the outputs that one operator quantises. What a frontend
has noted stays.
"""

from __future__ import annotations

from collections.abc import Mapping

from ingot.formula.types import FLOAT32
from ingot.graph.ir import Graph, Node, Scale, Value, uses

READ: Mapping[str, Mapping[int, int]] = {
    "DequantizeLinear": {0: 1},
    "QLinearConv": {0: 1},
    "QLinearMatMul": {0: 1, 3: 4},
    "QLinearAdd": {0: 1, 3: 4},
    "QLinearMul": {0: 1, 3: 4},
    "QGemm": {0: 1},
    "QLinearAveragePool": {0: 1},
    "QLinearGlobalAveragePool": {0: 1},
    "QLinearSigmoid": {0: 1},
    "QLinearLeakyRelu": {0: 1},
    "QLinearSoftmax": {0: 1},
}
"""Where an operator has the scale of each operand; the zero point is next."""

MADE: Mapping[str, int] = {
    "QuantizeLinear": 1,
    "QLinearConv": 6,
    "QLinearMatMul": 6,
    "QLinearAdd": 6,
    "QLinearMul": 6,
    "QGemm": 7,
    "QLinearAveragePool": 3,
    "QLinearGlobalAveragePool": 3,
    "QLinearSigmoid": 3,
    "QLinearLeakyRelu": 3,
    "QLinearSoftmax": 3,
}
"""Where it has the scale of its result."""


def edge_scales(graph: Graph) -> Graph:
    """Note the scales in place and return the graph."""
    readers = uses(graph)
    makers = {v: n for n in graph.nodes for v in n.outputs if v is not None}
    for v in graph.inputs:
        found = {_read(n, v) for n in dict.fromkeys(readers.get(v, ()))}  # a node reads a value many times
        if len(found) == 1 and (scale := found.pop()) is not None:
            graph.scales.setdefault(v.name, scale)
    for v in graph.outputs:
        maker = makers.get(v)
        if maker is not None and maker.op in MADE and (scale := _scale(maker, MADE[maker.op])) is not None:
            graph.scales.setdefault(v.name, scale)
    return graph


def _read(node: Node, value: Value) -> Scale | None:
    """What a node takes a value for, wherever it reads it."""
    scales = READ.get(node.op)
    if scales is None:  # most operators, of which some read thousands of values
        return None
    places = [i for i, v in enumerate(node.inputs) if v is value]
    found = {_scale(node, scales.get(i, len(node.inputs))) for i in places}
    return found.pop() if len(found) == 1 else None


def _scale(node: Node, at: int) -> Scale | None:
    """Of one number: its scale, and its zero point, which may be left out."""
    scale, zero, *_ = (*node.inputs[at : at + 2], None, None)
    if scale is None or scale.constant is None or scale.constant.size != 1 or scale.type is not FLOAT32:
        return None
    if zero is None:
        return Scale(float(scale.constant.item()), 0)
    if zero.constant is None or zero.constant.size != 1:
        return None
    return Scale(float(scale.constant.item()), int(zero.constant.item()))
