"""Roundings of sums of scaled bytes by integers: a residual addition without one operation on floats.

    round(((x - zx) * sx + (y - zy) * sy) / s)   ->   t >> k                where t is not next to a tie
        t = (x - zx) * p + (y - zy) * q + half,   p = round(sx / s * 2^k), ...

The error of t, and how far the roundings of floats move their result, have a bound that is known at compile
time: nearer to a tie than that, as few sums are, floats are computed as they are written.

In: what is rounded. Out: its integers, and where they do not say the result. Called by `soft_floats.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, fsum

from ingot.formula.expr import Binary, Cast, Const, Expr, Fma, Unary, cast
from ingot.formula.types import FLOAT32, INT32
from ingot.loops.access import magnitude

EXACT = float(1 << 24)  # whole numbers up to here are floats
ROUNDING = 2.0**-24  # of a result
SMALLEST = 2.0**-149  # of what is below the normal range
MOST_BITS = 24
RARE = 64  # sums, of which one at most may lie next to a tie
SLACK = 1.001  # for what is lost in the computation of bounds
HIGHEST = float(1 << 31)


@dataclass(frozen=True, slots=True)
class ScaledSum:
    """The sum of `terms`, integers times numbers, and of `constant`, as floats make it: within `size` of 0,
    off by `error` at most.
    """

    terms: tuple[tuple[Expr, float], ...]
    constant: float
    size: float
    error: float

    def rounded(self) -> ScaledSum:
        """After one more operation on floats."""
        error = self.error + self.size * ROUNDING + SMALLEST
        return ScaledSum(self.terms, self.constant, self.size, error)

    def times(self, factor: float) -> ScaledSum:
        terms = tuple((e, c * factor) for e, c in self.terms)
        most = abs(factor)
        return ScaledSum(terms, self.constant * factor, self.size * most, self.error * most).rounded()

    def plus(self, other: ScaledSum) -> ScaledSum:
        both = (*self.terms, *other.terms)
        size, error = self.size + other.size, self.error + other.error
        return ScaledSum(both, self.constant + other.constant, size, error).rounded()


@dataclass(frozen=True, slots=True)
class Rounded:
    """The nearest integer as `whole`, but for where `is_near` a tie: an integer below 2^k, small there."""

    whole: Expr
    is_near: Expr


def rounded(x: Expr) -> Rounded | None:
    """How integers round a float; None where it is no sum of scaled bytes, or too many lie next to ties."""
    found = scaled_sum(x)
    if found is None or not found.terms:
        return None
    for bits in range(MOST_BITS, 7, -1):
        one = float(1 << bits)
        sizes = [magnitude(e) for e, _ in found.terms]
        room = ceil((fsum(sizes) + 1) * 0.5 + found.error * one * SLACK) + 1
        most = fsum(n * (abs(c) * one + 1) for n, (_, c) in zip(sizes, found.terms, strict=True))
        if most + (abs(found.constant) + 1) * one + 2 * room < HIGHEST:
            return _written(found, bits, room) if room * RARE <= one else None
    return None


def _written(found: ScaledSum, bits: int, room: int) -> Rounded:
    total: Expr = Const(round(found.constant * (1 << bits)) + (1 << (bits - 1)), INT32)
    for e, c in found.terms:
        total = e * round(c * (1 << bits)) + total
    part = Binary("and", total + room, Const((1 << bits) - 1, INT32))
    return Rounded(total >> bits, part <= 2 * room)


def scaled_sum(x: Expr) -> ScaledSum | None:
    """A float as a sum of scaled integers, if it is one that bytes and constants make."""
    match x:
        case Const(value, t) if t is FLOAT32:
            return ScaledSum((), float(value), abs(float(value)), 0.0)
        case Cast(a, t) if t is FLOAT32 and a.dtype.kind in "iu" and magnitude(a) <= EXACT:
            return ScaledSum(((cast(a, INT32), 1.0),), 0.0, magnitude(a), 0.0)
        case Unary("neg", a):
            return None if (found := scaled_sum(a)) is None else found.times(-1.0)
        case Binary("div", a, Const(value)) if value:
            return None if (found := scaled_sum(a)) is None else found.times(1.0 / float(value))
        case Fma(a, b, c):  # one rounding less than the bound has
            return scaled_sum(a * b + c)
        case Binary("add" | "sub" | "mul" as op, a, b):
            one, other = scaled_sum(a), scaled_sum(b)
            if one is None or other is None:
                return None
            if op == "mul":
                return _product(one, other)
            return one.plus(other if op == "add" else other.times(-1.0))
    return None


def _product(a: ScaledSum, b: ScaledSum) -> ScaledSum | None:
    """The product with a number, or of two integers that are scaled alone."""
    if not a.terms:
        a, b = b, a
    if not b.terms:
        return a.times(b.constant)
    if len(a.terms) > 1 or len(b.terms) > 1 or a.constant or b.constant:
        return None
    ((x, p),), ((y, q),) = a.terms, b.terms
    error = a.error * b.size + b.error * a.size + a.error * b.error
    return ScaledSum(((x * y, p * q),), 0.0, a.size * b.size, error).rounded()
