"""round, floor, ceil, trunc and fmod: exact.

|x| + 2^(digits-1) has no fraction, so the addition itself rounds, half to even. Directed roundings correct
that by one. The sign bit is copied from x: floor(-0.0) is -0.0, ceil(-0.5) too. NaN and infinities come back
as is.
"""

from __future__ import annotations

from ingot.formula.expr import Expr, Select, binary, select
from ingot.loops.math.body import Body, size
from ingot.loops.math.pairs import split


def _rounded_size(b: Body, x: Expr) -> tuple[Expr, Expr, Expr]:
    """|x|, |x| rounded to an integer where it has a fraction, and the condition for that."""
    whole = 2.0 ** (b.digits - 1)
    magnitude = b.let("magnitude", size(x))
    return magnitude, b.let("rounded", (magnitude + whole) - whole), magnitude < whole


def nearest(b: Body, x: Expr) -> Expr:
    """round: half to even, as ONNX Round and C rint."""
    _, rounded, fractional = _rounded_size(b, x)
    return Select(fractional, b.with_sign(rounded, x), x)


def trunc(b: Body, x: Expr) -> Expr:
    magnitude, rounded, fractional = _rounded_size(b, x)
    whole = rounded - select(rounded > magnitude, b.number(1.0), b.number(0.0))
    return Select(fractional, b.with_sign(whole, x), x)


def _directed(b: Body, x: Expr, comparison: str, step: float) -> Expr:
    _, rounded, fractional = _rounded_size(b, x)
    candidate = b.let("candidate", b.with_sign(rounded, x))
    whole = candidate + Select(binary(comparison, candidate, x), b.number(step), b.number(0.0))
    return Select(fractional, b.with_sign(size(whole), x), x)


def floor(b: Body, x: Expr) -> Expr:
    return _directed(b, x, "gt", -1.0)


def ceil(b: Body, x: Expr) -> Expr:
    return _directed(b, x, "lt", 1.0)


def fmod(b: Body, x: Expr, y: Expr) -> Expr:
    """x - trunc(x/y)*y, exact for |x/y| < 2^46 (float32), 2^104 (float64); beyond that 0 with x's sign.

    Two stages: modulo |y|*2^(digits-2), then modulo |y|.
    """
    huge = size(x) > 2.0 ** (b.bias - 23)
    scale = b.let("scale", Select(huge, b.number(2.0**-30), b.number(1.0)))
    modulus = b.let("modulus", size(y) * scale)
    first = _remainder(b, b.let("a", size(x) * scale), b.let("large", modulus * 2.0 ** (b.digits - 2)))
    rest = _remainder(b, first, modulus) / scale
    defined = Select(size(x) < size(y), x, b.with_sign(rest, x))
    return Select((size(x) < float("inf")) & (size(y) > 0.0), defined, (x * y) / (x * y))


def _remainder(b: Body, x: Expr, y: Expr) -> Expr:
    """x modulo y, both >= 0; 0 where the quotient has more digits than the type.

    The rounded quotient is the right one or one too large. q is split at an integer and y by its bits, so
    short that all four products are exact; so are the sums, which shrink as their digits get finer.
    """
    ratio = b.let("ratio", x / y)
    q = b.let("q", trunc(b, ratio))
    coarse = 1.5 * 2.0 ** (b.digits - 1 + (b.digits + 1) // 2)
    high = b.let("high", (q + coarse) - coarse)
    low = b.let("low", q - high)
    y_high, y_low = split(b, y)
    rest = b.let("rest", (((x - high * y_high) - high * y_low) - low * y_high) - low * y_low)
    rest = b.let("rest", Select(rest < 0.0, rest + y, rest))
    inside = Select(ratio < 2.0**b.digits, rest, b.number(0.0))
    return b.let("remainder", Select(x < y, x, inside))
