"""Integers from one scale to another, as TFLite's reference kernels do it: the end of every integer kernel.

In: values of int32 or int64 and scales; out: values of the result's type. Multipliers are constants, for all
elements or for each channel.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ingot.formula.types import FLOAT32, INT32, DType
from ingot.frontends.orders import Builder, like
from ingot.frontends.tensorflow.ops.table import Result
from ingot.frontends.tensorflow.values import Tensor
from ingot.frontends.tflite.fixed import multiplier_of, multipliers_of, rounded
from ingot.frontends.tflite.model import TensorInfo
from ingot.frontends.tflite.ops.table import LIMITS, NONE, RELU, Call
from ingot.graph.ir import Value

DOMAIN = "ai.ingot.tflite"


def rescaled(b: Builder, x: Value, factor: float) -> Value:
    """x * factor as int32, in fixed point."""
    return scaled_by(b, x, *multiplier_of(factor))


def scaled_by(b: Builder, x: Value, multiplier: int, shift: int) -> Value:
    operands = (b.constant(n, INT32) for n in (multiplier, shift))
    return b.one(f"{DOMAIN}.FixedPointMultiply", x, *operands)


def scaled_along(b: Builder, x: Value, factors: Sequence[float], axis: int) -> Value:
    """The same with a factor for each element of an axis, or one for all."""
    if len(set(factors)) == 1:
        return rescaled(b, x, factors[0])
    assert x.shape is not None, "every value of the importer is inferred"
    spread = [1] * len(x.shape)
    spread[axis] = len(factors)
    multipliers, shifts = (b.constant(m.reshape(spread)) for m in multipliers_of(factors))
    return b.one(f"{DOMAIN}.FixedPointMultiply", x, multipliers, shifts)


def doubling_high(b: Builder, x: Value, y: Value) -> Value:
    """The upper half of 2xy (gemmlowp's SaturatingRoundingDoublingHighMul)."""
    return b.one(f"{DOMAIN}.FixedPointMultiply", x, y, b.constant(0, INT32))


def divided_by_power(b: Builder, x: Value, exponent: int) -> Value:
    """x / 2^exponent, halves away from 0 (gemmlowp's RoundingDivideByPOT)."""
    return b.one(f"{DOMAIN}.RoundingShift", x, b.constant(exponent, INT32))


def floor_shift(b: Builder, x: Value, by: int) -> Value:
    """x >> by, which rounds down: the rest that ONNX's Mod gives has the divisor's sign."""
    assert x.type is not None, "every value of the importer is inferred"
    power = b.constant(1 << by, x.type)
    return b.one("Div", b.one("Sub", x, b.one("Mod", x, power)), power)


def limits(c: Call, t: TensorInfo, which: int | None = None) -> tuple[int, int]:
    """What a fused activation leaves of a type's range (CalculateActivationRangeQuantized)."""
    number = c.option("fused_activation_function") if which is None else which
    scale, zero = c.scale(t)
    lowest, highest = int(t.dtype.lowest), int(t.dtype.highest)
    if number == NONE:
        return lowest, highest
    if number == RELU:
        return max(lowest, zero), highest
    if number not in LIMITS:
        raise c.refuse(f"fused activation {number} of integers is not supported")
    low, high = (zero + rounded(float(np.float32(n) / np.float32(scale))) for n in LIMITS[number])
    return max(lowest, low), min(highest, high)


def narrowed(b: Builder, x: Value, low: int, high: int, to: DType) -> Value:
    """Limited, then of the result's type."""
    assert x.type is not None, "every value of the importer is inferred"
    return b.cast(b.one("Clip", x, like(b, x, low), like(b, x, high)), to)


def moved(b: Builder, x: Value, by: int) -> Value:
    """x + by, of x's type."""
    return x if by == 0 else b.one("Add", x, like(b, x, by))


def finished(c: Call, x: Value, t: TensorInfo, which: int | None = None) -> Value:
    """int32 at the result's scale: moved by its zero point, limited, narrowed."""
    low, high = limits(c, t, which)
    return narrowed(c.b, moved(c.b, x, c.scale(t)[1]), low, high, t.dtype)


def centred(c: Call, x: Value, t: TensorInfo) -> Value:
    """int32 less the zero point."""
    return moved(c.b, c.b.cast(x, INT32), -c.scale(t)[1])


def requantised(c: Call) -> Result:
    """QUANTIZE: from floats, halves away from 0; or from integers at another scale."""
    x, t, to = c.tensor(0), c.info(0), c.result()
    scale, zero = c.scale(to)
    if not t.dtype.is_float:
        factor = c.scale(t)[0] / scale
        same = c.scale(t) == (scale, zero) and t.kind == to.kind
        if same:
            return x
        made = rescaled(c.b, centred(c, x.value, t), factor)
        return Tensor(finished(c, made, to, NONE), x.order)
    divided = c.b.one("Div", x.value, c.b.constant(scale, FLOAT32))
    return Tensor(quantised_float(c, divided, to), x.order)


def away(b: Builder, x: Value) -> Value:
    """Rounded to the nearest, halves away from 0: C's round."""
    return b.one(f"{DOMAIN}.RoundAway", x)


def quantised_float(c: Call, x: Value, to: TensorInfo) -> Value:
    """The integers of a quotient by the scale."""
    b, zero = c.b, c.scale(to)[1]
    lowest, highest = (float(n - zero) for n in (to.dtype.lowest, to.dtype.highest))
    inside = b.one("Clip", away(b, x), like(b, x, lowest), like(b, x, highest))
    return b.cast(moved(b, b.cast(inside, INT32), zero), to.dtype)


def rescaled_by_float(c: Call, x: Tensor, t: TensorInfo, to: TensorInfo) -> Tensor:
    """By the ratio of scales in float32, halves away from 0 (ConcatenationWithScaling)."""
    b, (scale, zero), (to_scale, to_zero) = c.b, c.scale(t), c.scale(to)
    factor = np.float32(scale) * (np.float32(1) / np.float32(to_scale))
    bias = np.float32(-zero) * factor
    y = b.one("Add", b.one("Mul", b.cast(x.value, FLOAT32), b.constant(factor)), b.constant(bias))
    low, high = int(to.dtype.lowest), int(to.dtype.highest)
    whole = moved(b, b.cast(away(b, y), INT32), to_zero)
    return Tensor(narrowed(b, whole, low, high, to.dtype), x.order)
