"""Softmax of int16: exponentials and reciprocals from tables of 513 places, straight lines between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ingot.formula.types import INT32, INT64
from ingot.frontends.orders import like
from ingot.frontends.tflite.fixed import Array, multiplier_of
from ingot.frontends.tflite.ops.requantise import DOMAIN, floor_shift, scaled_by
from ingot.frontends.tflite.ops.table import Call
from ingot.graph.ir import Value

STEPS = 512
LEAST, MOST = -(1 << 15), (1 << 15) - 1
FAR = 10.0
"""Exponentials of what is further below the largest element are 0."""


def table16(f: Callable[[Array], Array], scale: float, zero: int, to_scale: float) -> Array:
    """f at 513 places of int16, moved a little so that the lines between err less in their middles
    (LUTPopulateInt16), all in float32.
    """
    one = np.float32
    low, high = (one(scale) * one(n - zero) for n in (LEAST, MOST))
    step = (high - low) / one(STEPS)
    inverse = one(1 << 16) / (one(to_scale) * one(MOST) - one(to_scale) * one(LEAST))
    places = low + np.arange(STEPS + 1, dtype=np.float32) * step
    values = f(places) * inverse
    middle = _round(f(places[:-1] + step / one(2)) * inverse)
    between = _round((values[1:] + _round(values[:-1])) / one(2))
    bias = _round((between - middle) / one(2))
    made = np.append(_round(values[:-1]) - bias, _round(f(np.array([high], np.float32)) * inverse))
    clipped: Array = np.clip(made, LEAST, MOST).astype(np.int32)
    return clipped


def _round(x: Any) -> Any:
    """Halves away from 0."""
    return np.copysign(np.floor(np.abs(x) + np.float32(0.5)), x)


def _looked_up(c: Call, x: Value, table: Array) -> Value:
    """The line between two entries at each int32 from -2^15 to 2^15 - 1 (LUTLookup)."""
    b = c.b
    place = floor_shift(b, x, 7)
    rest = b.one("Sub", x, b.one("Mul", place, like(b, x, 128)))
    index = b.one("Add", place, like(b, x, STEPS // 2))
    base, slope = (b.one("Gather", b.constant(t, INT32), index, axis=0) for t in (table[:-1], np.diff(table)))
    line = b.one("Add", b.one("Mul", slope, rest), like(b, x, 64))
    return b.one("Add", base, floor_shift(b, line, 7))


def softmax16(c: Call, beta: float) -> Value:
    """Along the last axis (SoftmaxInt16)."""
    b, t, to = c.b, c.info(0), c.result()
    c.require(t.kind == to.kind == "INT16", f"{t.kind} to {to.kind} is not supported")
    x = b.cast(c.plain(0), INT32)
    axis = b.ints([c.tensor(0).rank - 1])
    difference = b.one("Sub", x, b.one("ReduceMax", x, axis, keepdims=1))
    scaled = scaled_by(b, difference, *multiplier_of(c.scale(t)[0] * beta / (FAR / 65535.0)))
    moved = b.one("Add", scaled, like(b, x, MOST))
    inside = b.one("Clip", moved, like(b, x, LEAST), like(b, x, MOST))
    exponentials = _looked_up(c, inside, table16(np.exp, FAR / 65535, MOST, 2 / 65535))
    total = b.one("ReduceSum", exponentials, axis, keepdims=1)
    return _divided(c, exponentials, total)


def _divided(c: Call, exponentials: Value, total: Value) -> Value:
    """Each exponential by the sum: the sum is shifted until it lies between 1 and 2, whose reciprocal is a
    table's.
    """
    b = c.b
    zeros = b.one(f"{DOMAIN}.LeadingZeros", total)
    wide = b.cast(total, INT64)
    left = b.one("Sub", b.cast(zeros, INT64), b.constant(1, INT64))
    raised = b.one("Mul", wide, b.one("Pow", b.constant(2, INT64), left))
    shifted = floor_shift(b, b.one("Add", raised, b.constant(1 << 13, INT64)), 14)
    centred = b.one("Sub", b.cast(shifted, INT32), b.constant((1 << 15) + (1 << 16), INT32))
    inside = b.one("Clip", centred, b.constant(LEAST, INT32), b.constant(MOST, INT32))
    reciprocal = _looked_up(c, inside, table16(_over_one_plus, 1 / 65535, LEAST, 2 / 65535))
    product = b.one("Mul", b.cast(exponentials, INT64), b.cast(reciprocal, INT64))
    right = b.one("Sub", b.constant(31, INT64), b.cast(zeros, INT64))
    half = b.one("Pow", b.constant(2, INT64), b.one("Sub", right, b.constant(1, INT64)))
    rounded = b.one("Div", b.one("Add", product, half), b.one("Pow", b.constant(2, INT64), right))
    inside = b.one("Clip", rounded, b.constant(0, INT64), b.constant(MOST, INT64))
    return b.cast(inside, c.result().dtype)


def _over_one_plus(x: Array) -> Array:
    found: Array = np.float32(1) / (np.float32(1) + x)
    return found
