"""The logistic function and tanh of 16 bits: a table of 256 places of the logistic function up to 10.7, and
straight lines between; tanh(x) = 2 sigmoid(2x) - 1, by the same table (reference kernels of int16).
"""

from __future__ import annotations

import math

import numpy as np

from ingot.formula.types import INT32
from ingot.frontends.orders import Builder
from ingot.frontends.tflite.fixed import Array
from ingot.frontends.tflite.ops.requantise import floor_shift
from ingot.graph.ir import Value

ONE_HIGHER = 0x800000000000000000000000000000800011009020440005C0467BAEFA7BD110
"""Places, as bits, where TFLite's table is one higher than what is nearest."""


def sigmoid16(b: Builder, x: Value, scale: float, is_tanh: bool) -> Value:
    """int32 of int16's range at a scale, to int32 in 32768ths: straight lines between a table's places."""
    multiplier, shift = _sixteen_bits(scale, is_tanh)
    wide = b.one("Mul", x, b.constant(multiplier, INT32))
    if shift:
        half = b.one("Add", wide, b.constant(1 << (shift - 1), INT32))
        wide = floor_shift(b, half, shift)
    size, bits = b.one("Abs", wide), 8 if is_tanh else 9
    place = b.one("Div", size, b.constant(1 << bits, INT32))
    place = b.one("Min", place, b.constant(255, INT32))
    rest = b.one("Sub", size, b.one("Mul", place, b.constant(1 << bits, INT32)))
    table = _sigmoid_table()
    low, step = (b.one("Gather", b.constant(t), place, axis=0) for t in (table[:-1], np.diff(table)))
    line = b.one("Add", b.one("Mul", low, b.constant(1 << bits, INT32)), b.one("Mul", rest, step))
    far = b.one("GreaterOrEqual", place, b.constant(255, INT32))
    line = b.one("Where", far, b.constant(0xFFFF << 8 if is_tanh else 0x7FFF << 10, INT32), line)
    return _signed(b, line, wide, is_tanh)


def _signed(b: Builder, line: Value, wide: Value, is_tanh: bool) -> Value:
    """The result of a negative operand mirrors that of its size; then the upper 16 bits."""
    is_negative = b.one("Less", wide, b.constant(0, INT32))
    if is_tanh:
        up = b.one("Add", line, b.constant((1 << 7) - (1 << 23), INT32))
        down = b.one("Sub", b.constant((1 << 23) + (1 << 7) - 1, INT32), line)
    else:
        up = b.one("Add", line, b.constant(1 << 9, INT32))
        down = b.one("Sub", b.constant((1 << 25) + (1 << 9) - 1, INT32), line)
    chosen = b.one("Where", is_negative, down, up)
    return floor_shift(b, chosen, 8 if is_tanh else 10)


def _sixteen_bits(scale: float, is_tanh: bool) -> tuple[int, int]:
    """A multiplier below 2^15 and a shift right that bring an operand to 1 / (3 * 4096)."""
    mantissa, exponent = math.frexp(scale)
    left = 12 + exponent - 1
    if mantissa == 0.5 and left in ((0, 1) if is_tanh else (0,)):
        return 3 << left, 0
    factor, shift = scale * 4096.0 * 3.0, 0
    while factor <= 32767.0 / 2.0 and shift <= 30:
        factor, shift = factor * 2.0, shift + 1
    return int(factor), shift


def _sigmoid_table() -> Array:
    """1 / (1 + e^-x) at 256 places up to 10.7, in 16 bits; the last one twice, for the line behind it.

    TFLite's table is one higher than rounding at the places of `ONE_HIGHER`.
    """
    places = np.arange(256)
    made = np.minimum(np.floor(65536.0 / (1.0 + np.exp(-places / 24.0)) + 0.5), 65535)
    made = made + [ONE_HIGHER >> int(i) & 1 for i in places]
    table: Array = np.append(made, made[-1]).astype(np.int32)
    return table
