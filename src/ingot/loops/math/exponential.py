"""exp, exp2, expm1 and sigmoid; exp of what is never positive, as softmax has it, needs less.

Argument reduction: x = n*ln(2) + r, |r| <= ln(2)/2, ln(2) in two parts of which the first is short enough for
n*part to be exact (Cody & Waite, "Software Manual for the Elementary Functions", 1980, ch. 6); exp(r) is a
minimax polynomial. The power of two is applied by the target's own instruction or in two factors, so that
denormal results are rounded once and overflow gives infinity.

Where a register is a table of m float32 entries, n is a multiple of 1/m, and the table gives 2 to the power
of its fraction: a polynomial of two coefficients is then enough for exp(r) (Tang, "Table-driven
implementation of the exponential function in IEEE floating-point arithmetic", 1989).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ingot.formula.expr import Entry, Expr, Select, Var, maximum
from ingot.loops.math.body import Body, clamp, size
from ingot.loops.math.pairs import Pair, quick_sum

# Beyond these the results are 0 and infinity; far enough for sinh and cosh, whose results are halved.
LIMITS = {24: (-104.0, 90.0), 53: (-746.0, 711.0)}
RAISED = {24: 64, 53: 128}  # added to the exponents of results that are at most 1, to make all of them normal


@dataclass(frozen=True, slots=True)
class Power:
    """2^n. `k` is n + more as an integer; None where the target scales by n itself."""

    n: Expr
    k: Expr | None
    more: int = 0

    def plus(self, more: int) -> Expr:
        """n + more as an integer."""
        assert self.k is not None
        return self.k if more == self.more else self.k + (more - self.more)


@dataclass(frozen=True, slots=True)
class Reduced:
    """x == n*ln(2) + r, the power 2^n beside the rounded remainder r; `head` is r before the last step."""

    power: Power
    head: Var
    r: Var


def whole(b: Body, x: Expr, factor: float = 1.0, more: int = 0) -> Power:
    """2 to the integer nearest to x * factor; `more` costs nothing here."""
    if "scalef" in b.native:
        return Power(b.nearest_float(x, factor)[0], None)
    return Power(*b.nearest(x, factor, more), more)


def reduce(b: Body, x: Expr, more: int = 0) -> Reduced:
    x = b.named(x)
    ln2_hi, ln2_lo = b.constants("LN2")
    power = whole(b, x, b.constant("LOG2_E"), more)
    head = b.let("head", b.fma(power.n, -ln2_hi, x))
    return Reduced(power, head, b.let("r", b.fma(power.n, -ln2_lo, head)))


def value(b: Body, power: Power, extra: int = 0) -> Expr:
    """2^(n + extra) itself, where that is a normal number."""
    if power.k is None:
        return b.scaled(b.number(2.0**extra), power.n)
    return b.of_exponent(power.plus(b.bias + extra))


def scaled(b: Body, x: Expr, power: Power, extra: int = 0) -> Expr:
    """x * 2^(n + extra) for any n that exp meets, 1/2 <= x <= 2, rounded once."""
    if power.k is None:
        return b.scaled(x, power.n + float(extra) if extra else power.n)
    both = power.plus(2 * b.bias + extra)
    a = b.let("a", both >> 1)
    return x * b.of_exponent(a) * b.of_exponent(both - a)


def grown(b: Body, r: Var) -> Expr:
    """exp(r)."""
    return b.named(b.polynomial("exp", r, 1.0, 1.0))


def grown_less_one(b: Body, x: Reduced) -> Expr:
    """exp(r) - 1, to the last digit near 0 too: what the rounding of r lost comes back."""
    lost = b.fma(x.power.n, -b.constants("LN2")[1], x.head - x.r)
    return b.let("q", x.r + b.fma(b.let("z", x.r * x.r), b.polynomial("exp", x.r), lost))


@dataclass(frozen=True, slots=True)
class Rooted:
    """x == n*ln(2) + r, n a multiple of 1/m where a register is a table of m entries; `shifted` holds
    (n + more)*m in its low bits.
    """

    n: Var
    shifted: Var
    more: int
    r: Var

    def times_grown(self, b: Body, x: Expr) -> Expr:
        """x * exp(r)."""
        less_one = b.fma(
            b.let("z", self.r * self.r), b.polynomial(f"exp_{1 << b.table_bits}", self.r), self.r
        )
        return b.fma(x, b.let("less_one", less_one), x)

    def whole(self, b: Body) -> Power:
        """2^floor(n)."""
        if "scalef" in b.native:
            return Power(self.n, None)
        bits = b.table_bits
        zero = (b.bias + b.digits - 1 - bits << b.digits - 1) | 1 << b.digits - 2
        return Power(self.n, b.let("k", b.bits(self.shifted) - zero >> bits), self.more)

    def root(self, b: Body) -> Expr:
        """2^(n - floor(n))."""
        return b.let("root", Entry(_roots(b.table_bits), b.bits(self.shifted), b.dtype))

    def power(self, b: Body) -> Expr:
        """2^n, where that is a normal number; its bits have the fraction of n too, so the table lacks it."""
        bits, low = b.table_bits, b.bits(self.shifted)
        less = _roots(bits, 1 << b.digits - 1 - bits)
        return b.let("power", b.floating(b.bits(Entry(less, low, b.dtype)) + (low << b.digits - 1 - bits)))


def _roots(bits: int, less: int = 0) -> tuple[float, ...]:
    """2^(j / 2^bits) as float32, j times `less` subtracted from their bits."""
    places = np.arange(2**bits, dtype=np.int32)
    roots = np.exp2(places / 2**bits).astype(np.float32)
    return tuple(map(float, (roots.view(np.int32) - places * less).view(np.float32)))


def _rooted(b: Body, x: Expr, more: int = 0) -> Rooted:
    ln2_hi, ln2_lo = b.constants("LN2")
    n, shifted = b.nearest_float(x, b.constant("LOG2_E"), more, b.table_bits)
    r = b.let("r", b.fma(n, -ln2_lo, b.let("head", b.fma(n, -ln2_hi, x))))
    return Rooted(n, shifted, more, r)


def exp_limited(b: Body, x: Expr, extra: int = 0) -> Expr:
    """exp(x) * 2^extra, for functions that magnify its error: without the roundings of a table."""
    reduced = reduce(b, b.let("limited", clamp(x, *LIMITS[b.digits])), 2 * b.bias + extra)
    return scaled(b, grown(b, reduced.r), reduced.power, extra)


def exp(b: Body, x: Expr) -> Expr:
    if not b.table_bits:
        return exp_limited(b, x)
    rooted = _rooted(b, b.let("limited", clamp(x, *LIMITS[b.digits])), 2 * b.bias)
    return scaled(b, b.let("p", rooted.times_grown(b, rooted.root(b))), rooted.whole(b))


def exp_nonpositive(b: Body, x: Expr) -> Expr:
    """exp(x) for x <= 0 or NaN: nothing overflows, so the second factor is a constant."""
    up, limited = RAISED[b.digits], b.let("limited", maximum(x, LIMITS[b.digits][0]))
    if b.table_bits:
        rooted = _rooted(b, limited, up)
        if "scalef" in b.native:
            return scaled(b, rooted.times_grown(b, rooted.root(b)), rooted.whole(b))
        return rooted.times_grown(b, rooted.power(b)) * 2.0**-up
    reduced = reduce(b, limited, b.bias + up)
    p = grown(b, reduced.r)
    if reduced.power.k is None:
        return scaled(b, p, reduced.power)
    return p * value(b, reduced.power, up) * 2.0**-up


def exp_steady(b: Body, x: Expr) -> Expr:
    """exp(x) for x <= 0 or NaN by operations that every target rounds alike, so that what integers are made
    of it are the same everywhere.
    """
    return exp_nonpositive(replace(b, native=frozenset()), x)


def exp2_pair(b: Body, x: Pair) -> Expr:
    """2^(x.hi + x.lo), x.hi within the limits of exp2."""
    power = whole(b, x.hi, more=2 * b.bias)
    f, lo = quick_sum(b, x.hi - power.n, x.lo)
    ln2 = b.constant("LN2_EXACT")
    tail = b.fma(b.let("z", f * f), b.polynomial("exp2", f), lo * ln2)
    return scaled(b, b.let("p", 1.0 + b.fma(f, ln2, tail)), power)


def exp2(b: Body, x: Expr) -> Expr:
    lo, hi = (-151.0, 129.0) if b.digits == 24 else (-1076.0, 1025.0)
    x = b.let("limited", clamp(x, lo, hi))
    power = whole(b, x, more=2 * b.bias)
    f = b.let("f", x - power.n)
    return scaled(b, b.named(b.polynomial("exp2", f, 1.0, b.constant("LN2_EXACT"))), power)


def expm1(b: Body, x: Expr) -> Expr:
    """2 * (s*(exp(r) - 1) + (s - 1/2)), s = 2^(n-1): 2^128 is out of range, but half of it is not."""
    limited = b.let("limited", clamp(x, -0.75 * b.digits, 89.0 if b.digits == 24 else 710.0))
    reduced = reduce(b, limited, b.bias - 1)
    s = b.let("s", value(b, reduced.power, -1))
    result = b.let("result", 2.0 * b.fma(s, grown_less_one(b, reduced), s - 0.5))
    return Select(size(x) < 2.0**-b.digits, x, result)


def sigmoid(b: Body, x: Expr) -> Expr:
    """1 / (1 + e) or e / (1 + e) with e = exp(-|x|): nothing overflows, and e alone may be denormal."""
    e = b.let("e", exp_nonpositive(b, -size(x)))
    return Select(x < 0.0, e, b.number(1.0)) / (e + 1.0)
