"""What quantisation did to each layer, in numbers. In: a plan; out: rows of a table. Called by `quantize`."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import onnx

from ingot.quantization.network import Network, float_array, label
from ingot.quantization.plan import Plan
from ingot.quantization.roles import PRODUCTS, RECURRENT


@dataclass(frozen=True, slots=True)
class Row:
    """A layer: its weights' bytes before and after, their signal to noise in decibels, its activations' type.

    `note` says why a layer computes in float.
    """

    name: str
    operator: str
    before: int
    after: int
    sqnr: float | None
    activations: str
    note: str


def account(net: Network, plan: Plan) -> tuple[Row, ...]:
    """Return the layers of a network, and the nodes that stay float, in order."""
    return tuple(
        _row(net, node, plan)
        for node in net.nodes
        if label(node) in plan.floats or node.op_type in PRODUCTS | RECURRENT
    )


def _row(net: Network, node: onnx.NodeProto, plan: Plan) -> Row:
    before = after = 0
    signal = noise = 0.0
    for place in range(len(node.input)):
        array = float_array(net, node, place)
        if array is None:
            continue
        stored = plan.constants.get((label(node), place))
        before += array.nbytes
        after += array.nbytes if stored is None else stored.integers.nbytes + stored.how.scale.nbytes
        if stored is not None and array.ndim > 1:
            signal += float(np.square(array.astype(np.float64)).sum())
            noise += float(np.square(stored.numbers.astype(np.float64) - array).sum())
    how = next((plan.tensors[name] for name in node.input if name in plan.tensors), None)
    sqnr = 10 * math.log10(signal / noise) if noise and signal else None
    why = plan.floats.get(label(node), "")
    kind = "float32" if how is None or why else how.type
    return Row(node.name or label(node), node.op_type, before, after, sqnr, kind, why)
