"""Transposed convolutions of bytes to few channels are summed in floats, where no sum of floats is rounded.

    y = QLinearConvTranspose(x, sx, zx, w, sw, sy, zy, b)   ->   c = ConvTranspose(float(x - zx), float(w), b)
                                                                 y = QuantizeLinear(c * (sx * sw / sy), 1, zy)

    s = ConvTransposeInteger(x, w, zx); f = Cast(s)         ->   f = ConvTranspose(float(x - zx), float(w))

Few channels fill no vectors of integers; floats go along rows. Whole numbers up to 2^24 are floats, so the
bytes are those of integers. Needs an inferred graph after `integer_layers`, and a target with vectors. Sums
that may be larger stay integers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import gcd

import numpy as np

from ingot.formula.expr import Array
from ingot.formula.types import FLOAT32
from ingot.graph.ir import Attribute, Graph, Node, Value
from ingot.graph.onnx_types import dtype_to_onnx
from ingot.passes.exact_products import EXACT, Made, operand
from ingot.passes.quantised import Quantisation
from ingot.targets.record import Target

FEW_CHANNELS = 4  # of a result, or of each group's: below, no algorithm of floats rounds anything either


def exact_transposed(graph: Graph, target: Target) -> Graph:
    """Rewrite in place, subgraphs too, and return the graph."""
    if target.vector_bytes:
        _rewrite(graph)
    return graph


def _rewrite(graph: Graph) -> None:
    nodes: list[Node] = []
    sums: dict[Value, Node] = {}  # of integers, and who makes them
    for node in graph.nodes:
        for sub in node.subgraphs.values():
            _rewrite(sub)
        if node.domain == "ingot" and node.op == "QLinearConvTranspose":
            nodes += _quantised(node) or [node]
        else:
            nodes += _read(node, sums) or [node]
        if node.domain == "ingot" and node.op == "ConvTransposeInteger":
            sums.update((v, node) for v in node.outputs if v is not None)
    graph.nodes = nodes


@dataclass(frozen=True, slots=True)
class _Sums:
    """The operands of a transposed convolution of bytes, whose sums are floats."""

    x: Quantisation
    weights: Array
    bias: Array | None

    def floats(self, made: Made, out: Value | None = None) -> Value:
        """The nodes that sum, added to those of `made`."""
        operands = [made.whole(self.x), made.constant("weights", self.weights.astype(np.float32))]
        if self.bias is not None:
            operands.append(made.constant("bias", self.bias.astype(np.float32)))
        return made.add("ConvTranspose", operands, out, made.node.attributes)


def _sums(node: Node, x: Quantisation | None, w: Value | None, b: Value | None) -> _Sums | None:
    """None where channels are many, or sums may be no floats."""
    if x is None or w is None or w.constant is None or w.constant.shape[1] > FEW_CHANNELS:
        return None
    bias = None if b is None else b.constant
    most = 0.0 if bias is None else float(np.abs(bias.astype(np.float64)).max(initial=0))
    if (b is not None and bias is None) or most + largest(w.constant, node.attributes) * x.farthest > EXACT:
        return None
    return _Sums(x, w.constant, bias)


def largest(weights: Array, attributes: Mapping[str, Attribute]) -> float:
    """The largest sum of the sizes of the weights that meet in one result: those of one phase."""
    group, rank = attributes.get("group", 1), weights.ndim - 2
    strides, dilations = (_steps(attributes, k, rank) for k in ("strides", "dilations"))
    assert isinstance(group, int)
    sizes = np.abs(weights.astype(np.float64)).reshape(group, -1, *weights.shape[1:]).sum(1)
    for d, (stride, apart) in enumerate(zip(strides, dilations, strict=True), 2):
        every = stride // gcd(stride, apart)
        phases = (sizes.take(range(k, sizes.shape[d], every), d) for k in range(every))
        sizes = np.concatenate([p.sum(d, keepdims=True) for p in phases], d)
    return float(sizes.max(initial=0))


def _steps(attributes: Mapping[str, Attribute], name: str, rank: int) -> tuple[int, ...]:
    given = attributes.get(name) or (1,) * rank
    assert isinstance(given, tuple)
    return tuple(int(n) for n in given)


def _quantised(node: Node) -> list[Node] | None:
    _, x_scale, _, w, w_scale, y_scale, y_zero, *b = node.inputs
    found = _sums(node, operand(node.inputs[:3]), w, b[0] if b else None)
    if found is None or w_scale is None or y_scale is None or y_zero is None:
        return None
    assert x_scale is not None and x_scale.constant is not None
    if w_scale.constant is None or y_scale.constant is None:
        return None
    made = Made(node)
    sums = found.floats(made)
    multiplier = x_scale.constant.reshape(()) * w_scale.constant / y_scale.constant.reshape(())
    along = np.asarray(multiplier, np.float32).reshape(-1, *(1 for _ in range(found.weights.ndim - 2)))
    scaled = made.add("Mul", [sums, made.constant("multiplier", along)])
    made.add("QuantizeLinear", [scaled, made.one, y_zero], node.outputs[0])
    return made.nodes


def _read(node: Node, sums: dict[Value, Node]) -> list[Node] | None:
    """What makes floats of sums of integers, which are pruned if nobody else reads them."""
    maker = sums.get(node.inputs[0]) if node.inputs and node.inputs[0] is not None else None
    if maker is None or node.op != "Cast" or node.attributes.get("to") != dtype_to_onnx(FLOAT32):
        return None
    q, w, zero = maker.inputs
    made = Made(maker)
    found = _sums(maker, operand([q, made.one, zero]), w, None)
    if found is None:
        return None
    found.floats(made, node.outputs[0])
    return made.nodes
