"""fmod: exact for all arguments.

A quotient with fewer digits than the type is rounded, and the remainder follows by exact products. Where it
has more (`is_far`), `fmod_far` divides as by hand: the significands are brought between 1 and 2, and each
turn of a loop shifts the remainder by as many digits as one quotient can have.
"""

from __future__ import annotations

from typing import NamedTuple

from ingot.formula.expr import Const, Expr, Select
from ingot.loops.math.body import Body, size
from ingot.loops.math.pairs import residue
from ingot.loops.math.rounding import trunc


def is_far(b: Body, x: Expr, y: Expr) -> Expr:
    """Whether the quotient has too many digits, or is infinite."""
    return size(x) / size(y) >= 2.0 ** (b.digits - 1)


def fmod(b: Body, x: Expr, y: Expr) -> Expr:
    return _defined(x, y, b.with_sign(_remainder(b, b.let("a", size(x)), b.let("modulus", size(y))), x))


def fmod_far(b: Body, x: Expr, y: Expr) -> Expr:
    """x, y == m * 2^e, m' * 2^e': (m * 2^(e - e') modulo m') * 2^e'."""
    dividend, modulus = _normal(b, size(x)), _normal(b, size(y))
    m, step = modulus.significand, b.digits - 1
    first = b.let("first", dividend.significand)
    start = {"rest": Select(first < m, first, first - m), "left": dividend.exponent - modulus.exponent}

    def turn(rest: Expr, left: Expr) -> tuple[Expr, Expr]:
        shift = b.let("shift", Select(left > step, Const(step, b.integer), left))
        return _remainder(b, b.let("shifted", rest * b.two_to(shift)), m), left - shift

    most = 2 * b.bias + b.digits - 2  # of all finite arguments
    rest, _ = b.repeat(-(-most // step), start, turn)
    half = b.let("half", modulus.exponent >> 1)  # 2^e' may be denormal, its factors are not
    return _defined(x, y, b.with_sign(rest * b.two_to(half) * b.two_to(modulus.exponent - half), x))


class Normal(NamedTuple):
    """A number as significand * 2^exponent, 1 <= significand < 2."""

    significand: Expr
    exponent: Expr


def _normal(b: Body, a: Expr) -> Normal:
    """Of a finite a > 0, denormals included."""
    is_small = a < b.smallest
    bits = b.let("bits", b.bits(Select(is_small, a * 2.0**b.digits, a)))
    fraction = (1 << b.digits - 1) - 1
    significand = b.let("significand", b.floating((bits & fraction) | (b.bias << b.digits - 1)))
    low, high = Const(b.bias + b.digits, b.integer), Const(b.bias, b.integer)
    return Normal(significand, b.let("exponent", (bits >> b.digits - 1) - Select(is_small, low, high)))


def _remainder(b: Body, x: Expr, y: Expr) -> Expr:
    """x modulo y, both >= 0, x/y < 2^(digits-1).

    The rounded quotient is the right one or one too large. No product leaves the type's range: none is
    greater than x but for its rounding.
    """
    q = b.let("q", b.call("trunc", trunc, b.let("ratio", x / y)))
    rest = b.let("rest", residue(b, x, q, y))
    return b.let("remainder", Select(rest < 0.0, rest + y, rest))


def _defined(x: Expr, y: Expr, result: Expr) -> Expr:
    """C99 F.9.7.1: NaN for infinite x and for y == 0; x where it is the smaller one."""
    defined = Select(size(x) < size(y), x, result)
    return Select((size(x) < float("inf")) & (size(y) > 0.0), defined, (x * y) / (x * y))
