"""sqrt: correctly rounded, by integers.

The reciprocal root is guessed from the halved exponent (straight lines on a logarithmic scale) and sharpened
by Newton's iteration y <- y*(3 - m*y^2)/2, then s = m*y by Heron's. That is within one unit, and the integer
remainder R = M*2^k - S^2, known modulo 2^bits and small, says which neighbour is nearest: S+1 where R > S,
S-1 where R <= -S. Targets with the instruction use that instead.

Measured: 0.5 ulp (every float32; float64 sampled).
"""

from __future__ import annotations

from ingot.formula.expr import Const, Expr, Select, equal
from ingot.loops.math.body import Body, clamp


def sqrt(b: Body, x: Expr) -> Expr:
    """sqrt(-0.0) == -0.0, sqrt(x < 0) is NaN."""
    scale = 2 * (b.digits // 2) + 2
    is_small = x < b.smallest
    scaled = b.let("scaled", Select(is_small, x * 2.0**scale, x))
    bits = b.let("bits", b.bits(scaled))
    half = b.let("half", (bits - (b.bias << b.digits - 1)) >> b.digits)  # floor(exponent / 2)
    m = b.let("m", b.floating(bits - (half << b.digits)))  # 1 <= m < 4
    root = b.let("root", _significand(b, m))
    result: Expr = b.let("result", root * b.two_to(half))
    result = Select(is_small, result * 2.0 ** (-scale // 2), result)
    ordinary = Select(x > 0.0, result, Select(equal(x, 0.0), x, b.number(float("nan"))))
    return Select(x < float("inf"), ordinary, x)


def _significand(b: Body, m: Expr) -> Expr:
    """The root of 1 <= m < 4, between 1 and 2, correctly rounded."""
    half_m = b.let("half_m", 0.5 * m)
    y: Expr = b.let("y", b.floating(_guess_bits(b) - (b.bits(m) >> 1)))
    for _ in range(2 if b.digits == 24 else 3):
        y = b.let("y", y * (1.5 - half_m * y * y))
    s: Expr = b.let("s", m * y)
    s = b.let("s", s + 0.5 * y * (m - s * s))
    s = b.let("s", clamp(s, 1.0, 2.0 - 2.0 ** (1 - b.digits)))
    fraction = (1 << b.digits - 1) - 1
    s_bits = b.let("s_bits", b.bits(s))
    whole = b.let("whole", (s_bits & fraction) | (fraction + 1))
    square = _fixed_point(b, m)
    left = b.let("left", square - whole * whole)
    zero, one = Const(0, b.integer), Const(1, b.integer)
    return b.floating(s_bits + Select(left > whole, one, Select(left <= -whole, -one, zero)))


def _guess_bits(b: Body) -> int:
    """bits(1/sqrt(m)) ~ 3/2 * bits(1.0) - bits(m)/2, lowered by 3/2 of half the largest log2(1+f) - f."""
    return (3 * b.bias << b.digits - 2) - (int(1.5 * 0.0430357 * 2**23) << b.digits - 24)


def _fixed_point(b: Body, m: Expr) -> Expr:
    """m * 2^(2*digits-2), modulo 2^bits: the significand shifted by digits - 1, or digits from 2 on."""
    fraction = (1 << b.digits - 1) - 1
    significand = b.let("significand", (b.bits(m) & fraction) | (fraction + 1))
    shift = b.digits - 1
    return Select(m < 2.0, significand << shift, significand << shift + 1)
