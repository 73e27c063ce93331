"""exp, exp2, expm1 and sigmoid.

Argument reduction: x = n*ln(2) + r, |r| <= ln(2)/2, ln(2) in two parts of which the first is short enough for
n*part to be exact (Cody & Waite, "Software Manual for the Elementary Functions", 1980, ch. 6); exp(r) is a
minimax polynomial. The power of two is applied in two factors, so that denormal results are rounded once and
overflow gives infinity.

Measured, ulp (float32, float64): exp 0.91, 0.92; exp2 1.05, 1.13; expm1 1.19, 1.18; sigmoid 1.52, 1.55.
"""

from __future__ import annotations

from typing import NamedTuple

from ingot.formula.expr import Const, Expr, Select
from ingot.loops.math.body import Body, clamp, size
from ingot.loops.math.pairs import Pair, exact_sum, quick_sum

# Beyond these the results are 0 and infinity; far enough for sinh and cosh, whose results are halved.
LIMITS = {24: (-104.0, 90.0), 53: (-746.0, 711.0)}


class Reduced(NamedTuple):
    """x == n*ln(2) + r + c: the integer k == n, the rounded remainder r and what its rounding lost."""

    k: Expr
    r: Expr
    c: Expr


def reduce(b: Body, x: Expr) -> Reduced:
    ln2_hi, ln2_lo = b.constants("LN2")
    n, k = b.nearest(x * b.constant("LOG2_E"))
    head = b.let("head", x - n * ln2_hi)
    tail = b.let("tail", n * ln2_lo)
    r = b.let("r", head - tail)
    return Reduced(k, r, b.let("c", (head - r) - tail))


def scaled(b: Body, x: Expr, k: Expr) -> Expr:
    """x * 2^k for any k that exp meets, 1/2 <= x <= 2, rounded once."""
    a = b.let("a", k >> 1)
    return x * b.two_to(a) * b.two_to(k - a)


def exp_reduced(b: Body, x: Reduced) -> Expr:
    """exp(r + c), within 0.8 ulp."""
    return b.let("p", 1.0 + (x.r + (x.r * x.r * b.polynomial("exp", x.r) + x.c)))


def exp_limited(b: Body, x: Expr, extra: int = 0) -> Expr:
    """exp(x) * 2^extra."""
    x = b.let("limited", clamp(x, *LIMITS[b.digits]))
    reduced = reduce(b, x)
    return scaled(b, exp_reduced(b, reduced), reduced.k + extra if extra else reduced.k)


def exp(b: Body, x: Expr) -> Expr:
    return exp_limited(b, x)


def exp2_pair(b: Body, x: Pair) -> Expr:
    """2^(x.hi + x.lo), x.hi within the limits of exp2."""
    n, k = b.nearest(x.hi)
    f, lo = quick_sum(b, x.hi - n, x.lo)
    ln2 = b.constant("LN2_EXACT")
    p = b.let("p", 1.0 + (f * ln2 + (f * f * b.polynomial("exp2", f) + lo * ln2)))
    return scaled(b, p, k)


def exp2(b: Body, x: Expr) -> Expr:
    lo, hi = (-151.0, 129.0) if b.digits == 24 else (-1076.0, 1025.0)
    x = b.let("limited", clamp(x, lo, hi))
    n, k = b.nearest(x)
    f = b.let("f", x - n)
    p = b.let("p", 1.0 + (f * b.constant("LN2_EXACT") + f * f * b.polynomial("exp2", f)))
    return scaled(b, p, k)


def expm1(b: Body, x: Expr) -> Expr:
    """(2^(k-1) - 1/2) + 2^(k-1)*(exp(r) - 1), the head summed exactly, then doubled."""
    limited = b.let("limited", clamp(x, -0.75 * b.digits, 89.0 if b.digits == 24 else 710.0))
    k, r, c = reduce(b, limited)
    s = b.let("s", b.two_to(k - 1))
    low = b.let("low", r * r * b.polynomial("exp", r) + c)
    base, grown = b.let("base", s - 0.5), b.let("grown", s * r)
    hi = b.let("hi", base + grown)
    back = b.let("back", hi - base)
    lost = b.let("lost", (base - (hi - back)) + (grown - back))
    result = b.let("result", 2.0 * (hi + (lost + s * low)))
    return Select(size(x) < 2.0**-b.digits, x, result)


def sigmoid(b: Body, x: Expr) -> Expr:
    """1 / (1 + exp(-x)), exp(-x) = 2^k*((1 + r) + low); 1 + 2^k*(1 + r) is summed exactly, rounded once.

    Below -40 all is scaled by 2^-64 until the end, so that denormal results come out.
    """
    limited = b.let("limited", clamp(-x, -0.75 * b.digits, -LIMITS[b.digits][0]))
    k, r, c = reduce(b, limited)
    tiny = 64 if b.digits == 24 else 128
    far = limited > 40.0
    one = b.let("one", Select(far, b.number(2.0**-tiny), b.number(1.0)))
    power = b.let("power", b.two_to(k - Select(far, Const(tiny, b.integer), Const(0, b.integer))))
    hi, lo = quick_sum(b, b.number(1.0), r)
    low = b.let("low", lo + (r * r * b.polynomial("exp", r) + c))
    total, lost = exact_sum(b, one, power * hi)
    return 1.0 / b.let("sum", total + (lost + power * low)) * one
