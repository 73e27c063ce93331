"""log, log1p, log2.

x = 2^k * m, sqrt(1/2) <= m < sqrt(2), from the bits; f = m - 1 is exact. log(1+f) is a minimax polynomial in
f (float32) or in s = f/(2+f), log(1+f) = 2*atanh(s) (float64: fewer terms), with f - f^2/2 as the head so
that rounding errors stay in the tail. ln(2) comes in two parts, the first short enough for k*part to be
exact. log1p adds to log(u), u = 1 + x rounded, what the rounding lost, divided by u.

Measured, ulp (float32, float64): log 0.72, 0.68; log1p 0.77, 0.72; log2 0.51, 0.51.
"""

from __future__ import annotations

from typing import NamedTuple

from ingot.formula.expr import Expr, Select, equal
from ingot.loops.math.body import Body, size
from ingot.loops.math.pairs import Pair, exact_sum, product, quick_sum, upper_half

ROOT_HALF_BITS = {24: 0x3F3504F3, 53: 0x3FE6A09E667F3BCD}


class Parts(NamedTuple):
    """x == 2^k * (1 + f); k as a float and as an integer."""

    k: Expr
    f: Expr
    whole: Expr


def parts_of(b: Body, x: Expr) -> Parts:
    """For x > 0 and finite, denormals included."""
    is_small = x < b.smallest
    x = b.let("scaled", Select(is_small, x * 2.0**b.digits, x))
    bits = b.let("bits", b.bits(x))
    whole = b.let("whole", (bits - ROOT_HALF_BITS[b.digits]) >> b.digits - 1)
    f = b.let("f", b.floating(bits - (whole << b.digits - 1)) - 1.0)
    k = b.to_float(whole)
    return Parts(b.let("k", Select(is_small, k - float(b.digits), k)), f, whole)


def log_parts(b: Body, k: Expr, f: Expr, correction: Expr | None = None) -> Expr:
    """k*ln(2) + log(1+f) + correction, which is small."""
    k, (ln2_hi, ln2_lo) = b.named(k), b.constants("LN2")
    half = b.let("half", 0.5 * f * f)
    if b.digits == 24:
        tail = f * (f * f) * b.polynomial("log_polynomial", f)
    else:
        s = b.let("s", f / (2.0 + f))
        z = b.let("z", s * s)
        tail = s * (half + z * b.polynomial("log", z))
    small = k * ln2_lo if correction is None else k * ln2_lo + correction
    hi, lo = quick_sum(b, k * ln2_hi, f)
    hi, rest = quick_sum(b, hi, -half)
    return hi + ((lo + rest) + (tail + small))


def _special(b: Body, x: Expr, result: Expr) -> Expr:
    """log(0) is -inf, of negative numbers NaN; +inf and NaN come back."""
    bad = Select(equal(x, 0.0), b.number(float("-inf")), b.number(float("nan")))
    return Select(x < float("inf"), Select(x > 0.0, result, bad), x)


def log(b: Body, x: Expr) -> Expr:
    k, f, _ = parts_of(b, x)
    return _special(b, x, b.let("result", log_parts(b, k, f)))


def log1p(b: Body, x: Expr) -> Expr:
    result = b.let("result", log1p_pair(b, Pair(x, b.number(0.0))))
    small = size(x) < 2.0**-b.digits
    at_pole = Select(equal(x, -1.0), b.number(float("-inf")), b.number(float("nan")))
    return Select(small, x, Select(x < float("inf"), Select(x > -1.0, result, at_pole), x))


def log1p_pair(b: Body, x: Pair) -> Expr:
    """log(1 + x.hi + x.lo): the sum is rounded to u, what that lost comes back as lost/u."""
    u, lost = exact_sum(b, b.number(1.0), x.hi)
    k, f, _ = parts_of(b, u)
    return log_parts(b, k, f, (lost + x.lo) / u)


def log_pair(b: Body, x: Pair, doublings: Expr) -> Expr:
    """log((x.hi + x.lo) * 2^doublings)."""
    k, f, _ = parts_of(b, x.hi)
    return log_parts(b, k + doublings, f, x.lo / x.hi)


def log2_pair(b: Body, x: Expr) -> Pair:
    """log2(x) to about 10 digits (float32) or 13 (float64) more than the type has, for x > 0.

    s = f/(2+f) as a pair; log2(1+f) = s*(A + s^2*(B + s^2*P(s^2))), A = 2/ln(2), B = A/3, all but P as pairs.
    """
    k, f, _ = parts_of(b, x)
    s = _ratio_pair(b, f)
    z = product(b, s, s)
    b_hi, b_lo = b.constants("TWO_THIRDS_LOG2_E")
    a_hi, a_lo = b.constants("TWO_LOG2_E")
    inner = quick_sum(b, b.number(b_hi), z.hi * b.polynomial("log2_tail", z.hi) + b_lo)
    inner = product(b, z, inner)
    outer = quick_sum(b, b.number(a_hi), inner.hi)
    outer = product(b, s, Pair(outer.hi, b.let("low", outer.lo + (inner.lo + a_lo))))
    hi, lo = quick_sum(b, k, outer.hi)
    return quick_sum(b, hi, lo + outer.lo)


def _ratio_pair(b: Body, f: Expr) -> Pair:
    """f / (2 + f) as a pair: what is left of f after the rounded quotient, divided again."""
    inverse = b.let("inverse", 1.0 / (2.0 + f))
    s = upper_half(b, f * inverse, "s")
    divisor = upper_half(b, 2.0 + f, "divisor")
    low = b.let("low", f - (divisor - 2.0))
    return quick_sum(b, s, b.let("s_low", ((f - s * divisor) - s * low) * inverse))


def log2(b: Body, x: Expr) -> Expr:
    hi, lo = log2_pair(b, x)
    return _special(b, x, b.let("result", hi + lo))
