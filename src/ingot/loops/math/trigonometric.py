"""sin, cos, tan: |x| = k*pi/2 + r + lo, minimax polynomials on |r| <= pi/4, a choice by k's two low bits.

The reduction (after Cody & Waite 1980, ch. 8) takes pi/2 in four parts and k in two, so short that all
products but the last are exact; the differences are exact up to cancellation, and summed as pairs from there.
It holds for |x| <= 2^18 (float32) and 2^40 (float64), results near multiples of pi/2 included. Larger
arguments, whose neighbours are already far apart on the circle, count as 0: sin 0, cos 1, tan 0. Infinities
give NaN.

Measured in that range, ulp (float32, float64): sin 0.80, 0.78; cos 0.81, 0.82; tan 1.48, 1.27.
"""

from __future__ import annotations

from typing import NamedTuple

from ingot.formula.expr import Expr, Select, equal
from ingot.loops.math.body import Body, size
from ingot.loops.math.pairs import exact_sum, quick_sum, residue


class Angle(NamedTuple):
    """|x| == k*pi/2 + r + lo."""

    k: Expr
    r: Expr
    lo: Expr


def reduce(b: Body, x: Expr) -> Angle:
    p1, p2, p3, p4 = (b.number(p) for p in b.constants("HALF_PI_PARTS"))
    a = b.let("a", Select(size(x) <= 2.0 ** (18 if b.digits == 24 else 40), size(x), x - x))
    n, k = b.nearest(a * b.constant("TWO_OVER_PI"))
    coarse = 1.5 * 2.0 ** (b.digits - 1 + (8 if b.digits == 24 else 22))
    high = b.let("high", (n + coarse) - coarse)
    low = b.let("low", n - high)
    hi: Expr = b.let("hi", ((a - high * p1) - low * p1) - high * p2)
    lost: Expr = b.number(0.0)
    for part in (low * p2, high * p3, low * p3, n * p4):
        hi, error = exact_sum(b, hi, b.let("part", -part))
        lost = lost + error
    return Angle(k, *quick_sum(b, hi, b.let("lost", lost)))


def _sine(b: Body, angle: Angle, z: Expr) -> Expr:
    """sin(r + lo) == r + (r^3*P(r^2) + lo*cos(r))."""
    return b.let("sine", angle.r + (angle.r * (z * b.polynomial("sin", z)) + angle.lo * (1.0 - 0.5 * z)))


def _cosine(b: Body, angle: Angle, z: Expr) -> Expr:
    """cos(r + lo) == 1 - r^2/2 + (r^4*P(r^2) - r*lo), what 1 - r^2/2 loses added to the tail."""
    hi, lo = quick_sum(b, b.number(1.0), -0.5 * z)
    return b.let("cosine", hi + (lo + (z * z * b.polynomial("cos", z) - angle.r * angle.lo)))


def _circular(b: Body, x: Expr, shift: int) -> tuple[Expr, Expr]:
    """sin((k + shift)*pi/2 + r) without the sign of x, and the quadrant."""
    angle = reduce(b, x)
    z = b.let("z", angle.r * angle.r)
    sine, cosine = _sine(b, angle, z), _cosine(b, angle, z)
    quadrant = b.let("quadrant", angle.k + shift if shift else angle.k)
    turned = Select(equal(quadrant & 1, 0), sine, cosine)
    return turned, (quadrant & 2) << b.dtype.bits - 2


def sin(b: Body, x: Expr) -> Expr:
    magnitude, sign = _circular(b, x, 0)
    return b.floating(b.bits(magnitude) ^ sign ^ (b.bits(x) & b.sign_bit))


def cos(b: Body, x: Expr) -> Expr:
    magnitude, sign = _circular(b, x, 1)
    return b.floating(b.bits(magnitude) ^ sign)


def tan(b: Body, x: Expr) -> Expr:
    """tan(r) as a pair; -1/tan(r) for odd k, the division's remainder divided again."""
    angle = reduce(b, x)
    z = b.let("z", angle.r * angle.r)
    t, lo = quick_sum(
        b, angle.r, b.let("tail", angle.r * (z * b.polynomial("tan", z)) + angle.lo * (1.0 + z))
    )
    inverse = b.let("inverse", -1.0 / t)
    error = residue(b, b.number(-1.0), inverse, t) - inverse * lo
    cotangent = inverse - inverse * error
    turned = Select(equal(angle.k & 1, 0), t, cotangent)
    return b.floating(b.bits(turned) ^ (b.bits(x) & b.sign_bit))
