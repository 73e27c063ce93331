"""TFLite's and gemmlowp's fixed-point functions, for tables of bytes. In: integers; out: integers.

Numbers are Q formats of 32 bits: a raw integer of `i` integer bits stands for raw * 2^(i - 31). All is plain
integers of Python, run when a model is imported.
"""

from __future__ import annotations

import math

import numpy as np

from ingot.formula.types import DType
from ingot.frontends.tflite.fixed import Array, multiplier_of, rounded, table_of

MOST, LEAST = (1 << 31) - 1, -(1 << 31)
ONE_IN_2 = 1 << 29
"""1 with two integer bits."""
QUARTERS = (
    (-2, 1672461947),
    (-1, 1302514674),
    (0, 790015084),
    (1, 290630308),
    (2, 39332535),
    (3, 720401),
    (4, 242),
)
"""e^-(2^k) without integer bits, by k."""


def high(a: int, b: int) -> int:
    """The upper half of 2ab, rounded (SaturatingRoundingDoublingHighMul)."""
    return min((a * b + (1 << 30)) >> 31, MOST)


def divided(x: int, exponent: int) -> int:
    """x / 2^exponent, halves away from 0 (RoundingDivideByPOT)."""
    if exponent == 0:
        return x
    return (x + (1 << (exponent - 1)) - (x < 0)) >> exponent


def saturated(x: int, bits: int = 32) -> int:
    return max(min(x, (1 << (bits - 1)) - 1), -(1 << (bits - 1)))


def scaled(x: int, multiplier: int, shift: int) -> int:
    """MultiplyByQuantizedMultiplier."""
    return divided(high(x << max(shift, 0), multiplier), max(-shift, 0))


def exp_of_negative(a: int, integer_bits: int) -> int:
    """e^a without integer bits, of a <= 0 (exp_on_negative_values)."""
    if a == 0:
        return MOST
    fraction = 31 - integer_bits
    quarter = 1 << (fraction - 2)
    rest = (a & (quarter - 1)) - quarter
    result, remainder = _exp_of_quarter(saturated(rest << integer_bits)), rest - a
    for exponent, factor in QUARTERS:
        if integer_bits > exponent and remainder & (1 << (fraction + exponent)):
            result = high(result, factor)
    return result


def _exp_of_quarter(a: int) -> int:
    """e^a of -1/4 <= a < 0: Taylor's series around -1/8."""
    constant, third = 1895147668, 715827883
    x = a + (1 << 28)
    x2 = high(x, x)
    x3, x4 = high(x2, x), high(x2, x2)
    rest = divided(high(divided(x4, 2) + x3, third) + x2, 1)
    return constant + high(constant, x + rest)


def _newton(a: int) -> tuple[int, int]:
    """2 / (1 + a) with two integer bits, of 0 <= a <= 1, and half of 1 + a."""
    half = (a + MOST + 1) // 2
    x = 1515870810 + high(half, -1010580540)
    for _ in range(3):
        x = x + saturated(high(x, ONE_IN_2 - high(half, x)) << 2)
    return x, half


def one_over_one_plus(a: int) -> int:
    return saturated(_newton(a)[0] << 1)


def logistic(a: int, integer_bits: int) -> int:
    """Without integer bits (gemmlowp::logistic)."""
    if a == 0:
        return 1 << 30
    positive = one_over_one_plus(exp_of_negative(-abs(a), integer_bits))
    return positive if a > 0 else MOST - positive


def tanh(a: int, integer_bits: int) -> int:
    if a == 0:
        return 0
    x, _ = _newton(exp_of_negative(-abs(a), integer_bits + 1))
    size = saturated((x - ONE_IN_2) << 2)
    return size if a > 0 else -size


def radius(integer_bits: int, shift: int, total_bits: int = 31) -> int:
    """Beyond which a difference no longer fits the format (CalculateInputRadius)."""
    return math.floor(((1 << integer_bits) - 1) * float(1 << (total_bits - integer_bits)) / (1 << shift))


def sigmoid_table(scale: float, zero: int, dtype: DType, which: str) -> Array:
    """LOGISTIC or TANH of bytes. The result's scale is the operator's own: 1/256 or 1/128."""
    mantissa, shift = math.frexp(scale * (1 << 27))
    multiplier = rounded(mantissa * (1 << 31))
    far = radius(4, shift) if shift >= 0 else 1 << 31
    low, most = int(dtype.lowest), int(dtype.highest)
    middle = (
        0
        if which == "LOGISTIC" and dtype.kind == "u"
        else low
        if which == "LOGISTIC"
        else (low + most + 1) // 2
    )

    def entry(q: int) -> int:
        x = q - zero
        if x <= -far:
            return low
        if x >= far:
            return most
        raw = scaled(x, multiplier, shift)
        y = divided(logistic(raw, 4), 23) if which == "LOGISTIC" else divided(tanh(raw, 4), 24)
        return min(max(y + middle, low), most)

    return table_of(entry, dtype)


def exp_table(beta_scale: float) -> tuple[Array, int]:
    """e^(d * scale) of differences d = 0, -1, ... -255 without integer bits, and how many of them count
    (SoftmaxParams' diff_min).
    """
    factor = min(beta_scale * (1 << 26), float((1 << 31) - 1))
    multiplier, shift = multiplier_of(factor)
    least = -radius(5, shift)
    values = [
        exp_of_negative(saturated(high(-d << shift, multiplier)), 5) if -d >= least else 0 for d in range(256)
    ]
    return np.array(values, np.int32), least


def log_table(scale: float, least: int) -> tuple[Array, int, int]:
    """Differences 0, -1, ... -255 with five integer bits, those that count; and what brings them back to
    steps (PreprocessLogSoftmaxScalingExp).
    """
    multiplier, shift = multiplier_of(min(scale * (1 << 26), float((1 << 31) - 1)))
    values = [saturated(high(-d << shift, multiplier)) if -d >= least else 0 for d in range(256)]
    return np.array(values, np.int32), *multiplier_of(float(1 << (31 - shift)) / multiplier)


def hard_swish_table(scales: tuple[float, int], to: tuple[float, int], dtype: DType) -> Array:
    """x * relu6(x + 3) / 6 of bytes, in 16 bits (reference HardSwish)."""
    fine = np.float32(1 / 128) * np.float32(scales[0])
    output = multiplier_of(float(fine / np.float32(to[0])))
    reluish = multiplier_of(float(fine / np.float32(np.float32(3) / np.float32(32768))))
    low, most = int(dtype.lowest), int(dtype.highest)
    out16, relu16 = (_sixteen(m) for m, _ in (output, reluish))

    def entry(q: int) -> int:
        x = (q - scales[1]) * 128
        relu = x
        if reluish[1] > 0:
            relu = saturated(relu << (reluish[1] - 1), 16)
        relu = _high16(relu, relu16)
        if reluish[1] > 0:
            relu = saturated(relu << 1, 16)
        elif reluish[1] < 0:
            relu = divided(relu, -reluish[1])
        relu = (relu + (1 << 15)) >> 1
        product = relu * _high16(x, out16)
        y = divided(int(product / (1 << 15)), -output[1])
        return min(max(y + to[1], low), most)

    return table_of(entry, dtype)


def _sixteen(multiplier: int) -> int:
    """A multiplier of 31 bits as one of 15 (DownScaleInt32ToInt16Multiplier)."""
    return 32767 if multiplier >= MOST - (1 << 15) else (multiplier + (1 << 15)) >> 16


def _high16(a: int, b: int) -> int:
    """Of 16 bits: rounded, halves away from 0 with gemmlowp's nudge; only -2^15 times itself saturates."""
    if a == b == -(1 << 15):
        return (1 << 15) - 1
    product = a * b
    nudged = product + ((1 << 14) if product >= 0 else 1 - (1 << 14))
    return int(nudged / (1 << 15))


def inverse_sqrt(x: int) -> tuple[int, int]:
    """1 / sqrt(x) as multiplier and shift, by Newton's method with three integer bits from 1 on
    (GetInvSqrtQuantizedMultiplierExp with reverse_shift -1).
    """
    if x <= 1:
        return MOST, 0
    shift = 11
    while x >= 1 << 29:
        x, shift = x // 4, shift + 1
    pairs = (31 - x.bit_length()) // 2 - 1
    shift, x = shift - pairs, x << (2 * pairs)
    half, result = divided(x >> 1, 1), 1 << 28
    for _ in range(5):
        cube = saturated(high(high(result, result), result) << 6)
        result = saturated((high(3 << 27, result) - high(half, cube)) << 3)
    result = high(result, 1518500250)
    return (result << -shift, 0) if shift < 0 else (result, -shift)


def rsqrt_table(scales: tuple[float, int], to: tuple[float, int], dtype: DType) -> Array:
    """1/sqrt of bytes: of the integer, then by the scales. What no number has a root of is the largest."""
    low, most = int(dtype.lowest), int(dtype.highest)
    factor = 1.0 / float(np.sqrt(np.float32(scales[0])) * np.float32(to[0]))
    multiplier, shift = multiplier_of(factor)

    def entry(q: int) -> int:
        if q <= scales[1]:
            return most
        inverse, exponent = inverse_sqrt(q - scales[1])
        fine = scaled(1, inverse, exponent + 20)
        return min(max(scaled(fine, multiplier, shift - 20) + to[1], low), most)

    return table_of(entry, dtype)
