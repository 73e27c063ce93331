"""tanh, sinh, cosh and their inverses: an odd polynomial near zero, exponentials and logarithms elsewhere."""

from __future__ import annotations

from ingot.formula.expr import Expr, Select
from ingot.loops.math.body import Body, clamp, size
from ingot.loops.math.exponential import exp_reduced, reduce


def odd(b: Body, name: str, x: Expr) -> Expr:
    """x + x^3 * P(x^2)."""
    z = b.let("z", x * x)
    return x + x * (z * b.polynomial(name, z))


def tanh(b: Body, x: Expr) -> Expr:
    """1 - 2/(exp(2*|x|) + 1) from 5/8 on; |x| is limited where the result is 1."""
    magnitude = b.let("magnitude", size(x))
    limited = b.let("limited", clamp(magnitude, 0.0, 10.0 if b.digits == 24 else 22.0))
    reduced = reduce(b, 2.0 * limited)
    grown = exp_reduced(b, reduced) * b.two_to(reduced.k)
    outer = 1.0 - 2.0 / (grown + 1.0)
    return b.with_sign(Select(magnitude < 0.625, odd(b, "tanh", magnitude), outer), x)
