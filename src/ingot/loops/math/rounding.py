"""round, away, floor, ceil, trunc: exact.

|x| + 2^(digits-1) has no fraction, so the addition itself rounds, half to even. Directed roundings correct
that by one. The sign bit is copied from x: floor(-0.0) is -0.0, ceil(-0.5) too. NaN and infinities come back
as is.
"""

from __future__ import annotations

from ingot.formula.expr import Expr, Select, binary, select
from ingot.loops.math.body import Body, size


def _rounded_size(b: Body, x: Expr) -> tuple[Expr, Expr, Expr]:
    """|x|, |x| rounded to an integer where it has a fraction, and the condition for that."""
    whole = 2.0 ** (b.digits - 1)
    magnitude = b.let("magnitude", size(x))
    return magnitude, b.let("rounded", (magnitude + whole) - whole), magnitude < whole


def nearest(b: Body, x: Expr) -> Expr:
    """round: half to even, as ONNX Round and C rint."""
    _, rounded, fractional = _rounded_size(b, x)
    return Select(fractional, b.with_sign(rounded, x), x)


def away(b: Body, x: Expr) -> Expr:
    """Half away from 0, as C round: half to even rounds down what lies a half above an even number."""
    magnitude, rounded, fractional = _rounded_size(b, x)
    more = select(magnitude - rounded >= b.number(0.5), b.number(1.0), b.number(0.0))
    return Select(fractional, b.with_sign(rounded + more, x), x)


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
