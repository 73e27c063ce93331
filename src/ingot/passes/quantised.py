"""What the integers of a quantised value stand for: scale, zero point, axis.

    value = (q - zero point) * scale

Exporters write a quantised value as a QuantizeLinear and a DequantizeLinear; `quantisation` reads the latter.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ingot.formula.expr import Array
from ingot.formula.types import FLOAT32, INT8, UINT8, DType
from ingot.graph.ir import Node, Value

BYTES = (INT8, UINT8)


@dataclass(frozen=True, slots=True, eq=False)
class Quantisation:
    """The integers `q` of a value; `axis` is the one that scales go along, if there are several."""

    q: Value
    scale: Array
    zero: Array
    axis: int | None = None

    @property
    def type(self) -> DType:
        """Of the integers."""
        assert self.q.type is not None
        return self.q.type

    @property
    def farthest(self) -> int:
        """How far from the zero point an integer can be, with one zero point for all."""
        return max(abs(int(end) - int(self.zero.item())) for end in (self.type.lowest, self.type.highest))

    def is_like(self, other: Quantisation) -> bool:
        """Whether equal integers stand for equal numbers, one scale for all."""
        return (
            self.axis is None
            and other.axis is None
            and self.type is other.type
            and bool(self.scale == other.scale and self.zero == other.zero)
        )

    def integer(self, number: float) -> int:
        """The integer that stands for a number."""
        lo, hi = int(self.type.lowest), int(self.type.highest)
        moved = np.rint(np.float32(number) / self.scale.item()) + self.zero.item()
        return int(min(max(float(moved), lo), hi))  # not np.clip, whose ends are floats: 2^31 is no int32

    def holds(self, least: float, most: float) -> bool:
        """Whether integers stand for every number that is left by cutting off what lies beyond two limits."""
        lowest, highest = (self.number(int(end)) for end in (self.type.lowest, self.type.highest))
        return all(
            is_beyond or self.number(self.integer(limit)) == np.float32(limit)
            for limit, is_beyond in ((least, least <= lowest), (most, most >= highest))
        )

    def number(self, integer: int) -> float:
        """What an integer stands for."""
        return float(np.float32(integer - self.zero.item()) * np.float32(self.scale))


def quantisation(node: Node, integers: Value | None) -> Quantisation | None:
    """What a QuantizeLinear or DequantizeLinear says of integers; None unless scale and zero are constants.

    Scales per block, of other floats than float32, and such as are not positive count as none.
    """
    _, scale, zero, *_ = (*node.inputs, None)
    if integers is None or integers.type is None or integers.shape is None or integers.type.kind not in "iu":
        return None
    if scale is None or scale.constant is None or scale.type is not FLOAT32 or not (scale.constant > 0).all():
        return None
    if (zero is not None and zero.constant is None) or node.attributes.get("block_size", 0):
        return None
    points = np.zeros(scale.constant.shape, np.int32) if zero is None else zero.constant
    assert points is not None
    if scale.constant.size == points.size == 1:
        return Quantisation(integers, scale.constant.reshape(()), points.astype(np.int32).reshape(()))
    if scale.constant.ndim != 1 or points.shape != scale.constant.shape:
        return None
    axis = node.attributes.get("axis", 1)
    assert isinstance(axis, int)
    return Quantisation(integers, scale.constant, points.astype(np.int32), axis % max(len(integers.shape), 1))


def is_bytes(found: Quantisation | None) -> bool:
    """Whether a value is 8 bits, with one scale."""
    return found is not None and found.type in BYTES and found.axis is None


def as_int8(found: Quantisation) -> Array | None:
    """The integers of constant weights as 8-bit ones; None where they are wider, or data."""
    array = found.q.constant
    if array is None or found.type.bits > 8:
        return None
    return np.asarray(array) if found.type in BYTES else np.asarray(array).astype(np.int8)


def accumulated(bias: Array, unit: Array) -> Array:
    """A bias in units of the accumulators, rounded: integers as float64."""
    return np.rint(bias.astype(np.float64) / unit.astype(np.float64))


def largest_sums(weights: Array, w: Quantisation, x: Quantisation, axis: int) -> Array:
    """How far from 0 the sums for each output can get, whatever the activations."""
    shape = [-1 if d == axis % weights.ndim else 1 for d in range(weights.ndim)]
    centred = weights.astype(np.int64) - (w.zero if w.axis is None else w.zero.reshape(shape))
    others = tuple(d for d in range(weights.ndim) if d != axis % weights.ndim)
    return np.asarray(np.abs(centred).sum(axis=others) * x.farthest)
