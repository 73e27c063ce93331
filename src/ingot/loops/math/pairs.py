"""Numbers as unevaluated sums hi + lo of two floats, where more digits are needed than the type has.

Sums: Knuth, TAOCP 2, 4.2.2 theorem B; products: Dekker, "A floating-point technique for extending the
available precision" (1971), but split by masking bits, which no multiplication touches: every product whose
rounding would matter is exact, so contraction to fused multiply-adds changes nothing here. A target with that
instruction says what a product's rounding lost in one operation.
"""

from __future__ import annotations

from typing import NamedTuple

from ingot.formula.expr import Expr
from ingot.loops.math.body import Body


class Pair(NamedTuple):
    hi: Expr
    lo: Expr


def upper_half(b: Body, x: Expr, name: str = "upper") -> Expr:
    """x with the lower half of its digits cleared (12 of 24, 26 of 53 are kept)."""
    return b.let(name, b.floating(b.bits(x) & -(1 << (b.digits + 1) // 2)))


def split(b: Body, x: Expr) -> Pair:
    x = b.named(x)
    hi = upper_half(b, x)
    return Pair(hi, b.let("lower", x - hi))


def quick_sum(b: Body, x: Expr, y: Expr) -> Pair:
    """x + y as a pair, |x| >= |y| or x == 0."""
    x, y = b.named(x), b.named(y)
    hi = b.let("hi", x + y)
    return Pair(hi, b.let("lo", y - (hi - x)))


def exact_sum(b: Body, x: Expr, y: Expr) -> Pair:
    """x + y as a pair, in any order of size."""
    x, y = b.named(x), b.named(y)
    hi = b.let("hi", x + y)
    back = b.let("back", hi - x)
    return Pair(hi, b.let("lo", (x - (hi - back)) + (y - back)))


def product(b: Body, x: Pair, y: Pair) -> Pair:
    """x * y, to about 3/2 of the type's digits."""
    if b.is_fused:
        head = b.let("head", x.hi * y.hi)
        lost = b.fma(x.hi, y.hi, -head)
        return quick_sum(b, head, b.let("rest", b.fma(x.hi, y.lo, b.fma(x.lo, y.hi, lost))))
    (xh, xl), (yh, yl) = split(b, x.hi), split(b, y.hi)
    rest = b.let("rest", (xh * yl + xl * y.hi) + (x.hi * y.lo + x.lo * y.hi))
    return quick_sum(b, b.let("head", xh * yh), rest)


def square(b: Body, x: Expr) -> Pair:
    """x * x, as exactly as a pair can."""
    if b.is_fused:
        x = b.named(x)
        head = b.let("head", x * x)
        return Pair(head, b.let("rest", b.fma(x, x, -head)))
    hi, lo = split(b, x)
    return quick_sum(b, b.let("head", hi * hi), b.let("rest", 2.0 * hi * lo + lo * lo))


def residue(b: Body, x: Expr, q: Expr, y: Expr) -> Expr:
    """x - q*y where q*y is close to x: all the products are exact, the sums nearly."""
    if b.is_fused:
        return b.let("residue", b.fma(-q, y, x))
    (qh, ql), (yh, yl) = split(b, q), split(b, y)
    return b.let("residue", (((x - qh * yh) - qh * yl) - ql * yh) - ql * yl)
