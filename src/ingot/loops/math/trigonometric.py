"""sin, cos, tan: |x| = k*pi/2 + r + lo, minimax polynomials on |r| <= pi/4, a choice by k's two low bits.

The reduction (after Cody & Waite 1980, ch. 8) takes pi/2 in four parts and k in two, so short that all
products but the last are exact; the differences are exact up to cancellation, and summed as pairs from there.
With fused multiply-adds three parts of full length do, and k as it is. Both hold for |x| <= 2^18 (float32)
and 2^40 (float64), results near multiples of pi/2 included.

Beyond (`is_far`) the fraction of x * 2/pi is computed in integers (Payne & Hanek, "Radian reduction for
trigonometric functions", 1983): x = m * 2^e, and of the binary digits of 2/pi only those matter that turn m
by less than a circle and are not too small. These six limbs of half a word each are picked by e from the
first 208 (1184) digits.

Measured, ulp (float32, float64): sin 0.82, 0.78; cos 0.82, 0.82; tan 1.48, 1.27.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import NamedTuple

from ingot.formula.expr import Const, Expr, Select, binary, equal
from ingot.loops.math.body import Body, size
from ingot.loops.math.coefficients import TWO_OVER_PI_LIMBS
from ingot.loops.math.pairs import Pair, exact_sum, product, quick_sum, residue

LIMBS = 6  # of the window


class Angle(NamedTuple):
    """|x| == k*pi/2 + r + lo."""

    k: Expr
    r: Expr
    lo: Expr


def is_far(b: Body, x: Expr) -> Expr:
    """Whether `near` does not hold."""
    return size(x) > 2.0 ** (18 if b.digits == 24 else 40)


def near(b: Body, x: Expr) -> Angle:
    """NaN for infinities."""
    a = b.let("a", size(x))
    n, k = b.nearest(a, b.constant("TWO_OVER_PI"))
    return _near_fused(b, a, n, k) if b.is_fused else _near(b, a, n, k)


def _near_fused(b: Body, a: Expr, n: Expr, k: Expr) -> Angle:
    """A fused product with the first part is exact, and says of that with the second what rounding lost."""
    p1, p2, p3 = (b.number(-p) for p in b.constants("HALF_PI_FULL"))
    second = b.let("second", n * p2)
    hi, error = exact_sum(b, b.fma(n, p1, a), second)
    lost = b.fma(n, p3, b.fma(n, p2, -second))
    return Angle(k, *quick_sum(b, hi, b.let("lost", error + lost)))


def _near(b: Body, a: Expr, n: Expr, k: Expr) -> Angle:
    p1, p2, p3, p4 = (b.number(p) for p in b.constants("HALF_PI_PARTS"))
    coarse = 1.5 * 2.0 ** (b.digits - 1 + (8 if b.digits == 24 else 22))
    high = b.let("high", (n + coarse) - coarse)
    low = b.let("low", n - high)
    hi: Expr = b.let("hi", ((a - high * p1) - low * p1) - high * p2)
    return _summed(b, k, hi, (-(low * p2), -(high * p3), -(low * p3), -(n * p4)))


def _summed(b: Body, k: Expr, hi: Expr, parts: Iterable[Expr]) -> Angle:
    """The sum of hi and ever smaller parts, each exact but for cancellation."""
    lost: Expr = b.number(0.0)
    for part in parts:
        hi, error = exact_sum(b, hi, b.let("part", part))
        lost = lost + error
    return Angle(k, *quick_sum(b, hi, b.let("lost", lost)))


def far(b: Body, x: Expr) -> Angle:
    """|x| == m * 2^e: the window of 2/pi begins with the digit that 2^e gives the weight 2."""
    word = b.dtype.bits // 2
    fraction = (1 << b.digits - 1) - 1
    bits = b.let("bits", b.bits(x))
    m = b.let("m", (bits & fraction) | (fraction + 1))
    biased = (bits >> b.digits - 1) & (2 * b.bias + 1)
    start = b.let("start", biased - (b.bias + b.digits + 1 - word))  # e - 2 + word: one limb of zeros leads
    first, *rest = _times(b, m, _window(b, start))
    k = b.let("k", (first + (1 << word - 3)) >> word - 2)
    centred = b.let("centred", first - (k << word - 2))
    parts = [b.to_float(p) * 2.0 ** (2 - word * (i + 1)) for i, p in enumerate((centred, *rest))]
    turned = _summed(b, k, b.let("turn", parts[0]), parts[1:])
    return Angle(k, *product(b, Pair(turned.r, turned.lo), Pair(*map(b.number, b.constants("HALF_PI")))))


def _window(b: Body, start: Expr) -> list[Expr]:
    """LIMBS limbs of 2/pi from the digit `start` on: limbs are picked by its high digits, one after the other
    halving what may be left, and moved by the low ones.
    """
    word = b.dtype.bits // 2
    limbs: list[Expr] = [Const(limb, b.integer) for limb in TWO_OVER_PI_LIMBS[b.digits]]
    step = 1 << (len(limbs) - LIMBS - 1).bit_length() - 1
    while step:
        is_later = b.let("later", start & step * word)
        pairs = zip(limbs[step:], limbs[: LIMBS + step], strict=False)
        limbs = [b.let("limb", Select(binary("ne", is_later, 0), y, x)) for y, x in pairs]
        step >>= 1
    return _moved(b, limbs, b.let("shift", start & word - 1))


def _moved(b: Body, limbs: list[Expr], shift: Expr | int) -> list[Expr]:
    """Limbs shifted to the left, each filled from the next; what the last one lacks is lost."""
    word = b.dtype.bits // 2
    mask = (1 << word) - 1
    filled = [(x << shift | y >> word - shift) & mask for x, y in pairwise(limbs)]
    return [b.let("moved", limb) for limb in filled]


def _times(b: Body, m: Expr, window: list[Expr]) -> list[Expr]:
    """Limbs of m times the window, modulo its size; m in two parts, so short that sums of products fit."""
    word, short = b.dtype.bits // 2, b.digits // 2
    high, low = b.let("m_high", m >> short), b.let("m_low", m & (1 << short) - 1)
    zero = Const(0, b.integer)
    carry: Expr = zero
    out: list[Expr] = []
    for x, y in reversed(list(zip(window, _moved(b, [*window, zero], short), strict=True))):
        column = b.let("column", x * low + y * high + carry)
        carry = column >> word
        out.append(b.let("product", column & (1 << word) - 1))
    return out[::-1]


def _sine(b: Body, angle: Angle, z: Expr) -> Expr:
    """sin(r + lo) == r + (r^3*P(r^2) + lo*cos(r))."""
    return b.let("sine", angle.r + (angle.r * (z * b.polynomial("sin", z)) + angle.lo * (1.0 - 0.5 * z)))


def _cosine(b: Body, angle: Angle, z: Expr) -> Expr:
    """cos(r + lo) == 1 - r^2/2 + (r^4*P(r^2) - r*lo), what 1 - r^2/2 loses added to the tail."""
    hi, lo = quick_sum(b, b.number(1.0), -0.5 * z)
    return b.let("cosine", hi + (lo + (z * z * b.polynomial("cos", z) - angle.r * angle.lo)))


def _circular(b: Body, angle: Angle, shift: int) -> tuple[Expr, Expr]:
    """sin((k + shift)*pi/2 + r) without the sign of x, and the quadrant."""
    z = b.let("z", angle.r * angle.r)
    sine, cosine = _sine(b, angle, z), _cosine(b, angle, z)
    quadrant = b.let("quadrant", angle.k + shift if shift else angle.k)
    turned = Select(equal(quadrant & 1, 0), sine, cosine)
    return turned, (quadrant & 2) << b.dtype.bits - 2


def _sin(b: Body, x: Expr, angle: Angle) -> Expr:
    magnitude, sign = _circular(b, angle, 0)
    return b.floating(b.bits(magnitude) ^ sign ^ (b.bits(x) & b.sign_bit))


def _cos(b: Body, x: Expr, angle: Angle) -> Expr:
    magnitude, sign = _circular(b, angle, 1)
    return b.floating(b.bits(magnitude) ^ sign)


def _tan(b: Body, x: Expr, angle: Angle) -> Expr:
    """tan(r) as a pair; -1/tan(r) for odd k, the division's remainder divided again."""
    z = b.let("z", angle.r * angle.r)
    t, lo = quick_sum(
        b, angle.r, b.let("tail", angle.r * (z * b.polynomial("tan", z)) + angle.lo * (1.0 + z))
    )
    inverse = b.let("inverse", -1.0 / t)
    error = residue(b, b.number(-1.0), inverse, t) - inverse * lo
    cotangent = inverse - inverse * error
    turned = Select(equal(angle.k & 1, 0), t, cotangent)
    return b.floating(b.bits(turned) ^ (b.bits(x) & b.sign_bit))


def sin(b: Body, x: Expr) -> Expr:
    return _sin(b, x, near(b, x))


def cos(b: Body, x: Expr) -> Expr:
    return _cos(b, x, near(b, x))


def tan(b: Body, x: Expr) -> Expr:
    return _tan(b, x, near(b, x))


def _beyond(b: Body, x: Expr, f: Callable[[Body, Expr, Angle], Expr]) -> Expr:
    return Select(size(x) < float("inf"), f(b, x, far(b, x)), x - x)


def sin_far(b: Body, x: Expr) -> Expr:
    return _beyond(b, x, _sin)


def cos_far(b: Body, x: Expr) -> Expr:
    return _beyond(b, x, _cos)


def tan_far(b: Body, x: Expr) -> Expr:
    return _beyond(b, x, _tan)
