"""erf: an odd polynomial below 7/8, beyond it 1 - 2^P(|x| - 7/8).

log2(1 - erf(x)) is smooth, and as 1 - erf shrinks fewer of its digits matter; float64 takes it in two pieces,
choosing the coefficients. At 3.97 (5.94), where |x| is limited, the difference rounds to 1.

Where registers of 16 lanes are tables, float32 takes polynomials about 16 points: half the instructions.
"""

from __future__ import annotations

from ingot.formula.expr import Expr, Select, maximum, minimum
from ingot.loops.math.body import Body, size
from ingot.loops.math.coefficients import POLYNOMIALS
from ingot.loops.math.exponential import value, whole


def _log_of_rest(b: Body, x: Expr) -> Expr:
    """log2(1 - erf(x)), x >= 7/8."""
    start = b.constant("ERF_SPLIT")
    if b.digits == 24:
        return b.polynomial("erf_tail", b.let("u", x - start))
    border = b.constant("ERF_FAR")
    u = b.let("u", x - Select(x < border, b.number(start), b.number(border)))
    near, far = (list(POLYNOMIALS[name][53]) for name in ("erf_tail_near", "erf_tail_far"))
    far += [0.0] * (len(near) - len(far))
    chosen = (Select(x < border, b.number(p), b.number(q)) for p, q in zip(near, far, strict=True))
    return b.horner(chosen, u)


def _by_table(b: Body, x: Expr) -> Expr:
    """erf(c + t) == start + t * P(t), |t| <= 0.131; start is erf(c), but t about 0, where t is larger."""
    step, inverse = b.constants("ERF_STEP")
    limited = b.let("limited", minimum(size(x), b.constant("ERF_END")))
    shifted = b.let("shifted", b.fma(limited, inverse, b.magic))
    t = b.let("t", b.fma(shifted - b.magic, -step, limited))
    first, *rest = b.entries("erf", b.let("index", b.bits(shifted)))
    return b.with_sign(b.fma(b.horner(rest, t), t, b.let("start", maximum(first, t))), x)


def erf(b: Body, x: Expr) -> Expr:
    if b.table_bits == 4:
        return _by_table(b, x)
    magnitude = b.let("magnitude", size(x))
    z = b.let("z", magnitude * magnitude)
    central = b.fma(magnitude, b.polynomial("erf", z, b.constant("ERF_LEAD")), magnitude)
    limited = b.let("limited", minimum(magnitude, b.constant("ERF_END")))
    exponent = b.named(_log_of_rest(b, limited))
    power = whole(b, exponent)
    f = b.let("f", exponent - power.n)
    rest = b.polynomial("exp2", f, 1.0, b.constant("LN2_EXACT"))
    outer = b.fma(-rest, value(b, power), 1.0)
    return b.with_sign(Select(magnitude < b.constant("ERF_SPLIT"), central, outer), x)
