"""Floats read from decimal text, rounded correctly: half to even, denormals and overflow as IEEE has them.

The digits become an exact decimal (`ops/text/limbs`), which is scaled by a power of two until its whole
part has more bits than any float keeps; what is cut off decides the rounding. One element after the other,
for each needs some memory. Called by `ops/text/numerals.py`.
"""

from __future__ import annotations

from ingot.formula.expr import (
    Bitcast,
    Const,
    Expr,
    Gathered,
    Tensor,
    Var,
    cast,
    equal,
    maximum,
    minimum,
    select,
)
from ingot.formula.index import product
from ingot.formula.types import BOOL, INDEX, INT32, UINT64, DType
from ingot.ops.narrow import converted
from ingot.ops.registry import Builder
from ingot.ops.text.decimals import Binary, binary_of
from ingot.ops.text.limbs import BASE, LIMB, TENS, Span, leading, scaled
from ingot.ops.text.rows import checked, full_match, lengths, point_of

NUMBER = r"[\s\v]*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?[\s\v]*"
INFINITE = r"[\s\v]*[+-]?[iI][nN][fF]([iI][nN][iI][tT][yY])?[\s\v]*"
NAN = r"[\s\v]*[+-]?[nN][aA][nN][\s\v]*"
FAR = 20_000  # an exponent beyond all floats
LEAST_PLACE = -324  # of the leading digit of a number that is not rounded to zero
WHOLE_BITS = 57  # of the scaled number, give or take a few
LOG2_10 = 217706  # times 2^-16
ONE, NONE = Const(1, INT32), Const(0, INT32)


def float_from_text(f: Builder, x: Tensor, to: DType) -> Tensor:
    """Numbers, with an exponent or without, inf and nan; anything else is ERR_INDEX."""
    rows = f.bytes_of(x)
    length, axes = lengths(f, rows), f.axes(x.shape)
    number, infinite, nan = (full_match(f, rows, p) for p in (NUMBER, INFINITE, NAN))
    good = f.map(axes, checked(number[axes] | infinite[axes] | nan[axes]), name="good")
    y, element, k = f.empty(to, x.shape), Var("e", product(x.shape)), Var("k", x.type.bytes)
    point, b = point_of(element, x.shape), binary_of(to.compute)

    def body() -> None:
        inside = cast(k, INT32) < length[point]
        row = f.map((k,), select(inside, rows.at((*point, k)), 0), name="row")
        e, minus = _exponent_mark(f, row)
        size = _rounded(f, *_decimal(f, row, e, b), b, to.is_narrow)
        value = select(number[point], size, Const(float("inf"), b.wide))
        value = select(good[point] & (number[point] | infinite[point]), value, Const(float("nan"), b.wide))
        f.put(y, (), point, converted(select(minus, -value, value), to))

    f.scan(element, (), body)
    return y


def _exponent_mark(f: Builder, row: Tensor) -> tuple[Tensor, Expr]:
    """Where the e stands (behind all if there is none), and whether the number has a minus."""
    (k,), capacity = f.axes(row.shape, "k"), Const(row.count, INT32)
    place = select(equal(row[k] | 0x20, ord("e")), cast(k, INT32), capacity)
    e = f.reduce("min", (), (k,), place, init=capacity, name="e_at")
    minus = equal(row[k], ord("-")) & (cast(k, INT32) < e[()])
    return e, f.reduce("or", (), (k,), minus, init=False, name="minus")[()]


def _is_digit(byte: Expr) -> Expr:
    return (byte >= ord("0")) & (byte <= ord("9"))


def _point(f: Builder, row: Tensor, e: Tensor) -> Tensor:
    """Where the point stands, or would stand: behind the last digit."""
    (k,), capacity = f.axes(row.shape, "k"), Const(row.count, INT32)
    at = cast(k, INT32)
    dot = select(equal(row[k], ord(".")), at, capacity)
    first = f.reduce("min", (), (k,), dot, init=capacity, name="dot")
    behind = select(_is_digit(row[k]) & (at < e[()]), at + 1, NONE)
    last = f.reduce("max", (), (k,), behind, init=0, name="last")
    return f.map((), select(first[()] < capacity, first[()], last[()]), name="point")


def _exponent(f: Builder, row: Tensor, e: Tensor) -> Tensor:
    """The number behind the e."""
    (k,) = f.axes(row.shape, "k")
    at = cast(k, INT32)
    size = f.map((), NONE, name="size")

    def step() -> None:
        grown = minimum(size[()] * 10 + (cast(row[k], INT32) - ord("0")), FAR)
        f.put(size, (), (), select(_is_digit(row[k]) & (at > e[()]), grown, size[()]))

    f.scan(k, (size,), step)
    minus = f.reduce("or", (), (k,), equal(row[k], ord("-")) & (at > e[()]), init=False, name="below")
    return f.map((), select(minus[()], 0 - size[()], size[()]), name="exponent")


def _decimal(f: Builder, row: Tensor, e: Tensor, b: Binary) -> tuple[Tensor, Span, Tensor, Tensor]:
    """The digits at their places; whether some stand beyond the span on either side."""
    fraction = min(b.span.fraction, -(-(row.count - LEAST_PLACE) // LIMB))
    span = Span(b.span.whole, fraction, b.span.power + WHOLE_BITS)
    point, exponent = _point(f, row, e), _exponent(f, row, e)
    t, j = f.axes((1, span.count), "t j")
    limbs = f.map((t, j), Const(0, UINT64), name="limbs")
    small, huge = (f.map((), Const(False, BOOL), name=n) for n in ("small", "huge"))
    (k,), tens = f.axes(row.shape, "k"), f.constant(TENS, "tens")
    at = cast(k, INT32)

    def step() -> None:
        near = select(at < point[()], point[()] - 1 - at, point[()] - at)
        place = f.map((), near + exponent[()], name="place")
        limb = span.whole - 1 - place[()] // LIMB
        counts = _is_digit(row[k]) & (row[k] > ord("0")) & (at < e[()])
        f.put(huge, (), (), huge[()] | (counts & (limb < 0)))
        f.put(small, (), (), small[()] | (counts & (limb >= span.count)))
        inside = counts & (limb >= 0) & (limb < span.count)
        to = (Const(0), Gathered(select(inside, limb, NONE), Const(0), Const(span.count)))
        digit = cast(row[k], UINT64) - ord("0")
        more = digit * tens[cast(place[()] % LIMB, INDEX)]
        f.put(limbs, (), to, limbs.at(to) + select(inside, more, Const(0, UINT64)))

    f.scan(k, (limbs, small, huge), step)
    return limbs, span, small, huge


def _rounded(
    f: Builder, limbs: Tensor, span: Span, small: Tensor, huge: Tensor, b: Binary, to_odd: bool
) -> Expr:
    """The float nearest to a decimal. `to_odd`: the last bit is set where something was cut off instead, for
    who rounds the result again.
    """
    whole, rest, shift = _scaled(f, limbs, span, small)
    (i,) = f.axes((64,), "i")
    used = select(whole[()] >> cast(i, UINT64) > 0, ONE, NONE)
    bits = f.reduce("sum", (), (i,), used, name="bits")
    power = f.map((), maximum(bits[()] - shift[()] - b.precision, b.least), name="power")
    drop = f.map((), cast(minimum(power[()] + shift[()], 64), UINT64), name="drop")
    kept = f.map((), whole[()] >> drop[()], name="kept")
    cut = f.map((), whole[()] - (kept[()] << drop[()]), name="cut")
    half = Const(1, UINT64) << (drop[()] - 1)
    tie = equal(cut[()], half) & (rest[()] | equal(kept[()] & 1, 1))
    up = select((cut[()] > half) | tie, Const(1, UINT64), Const(0, UINT64))
    odd = select((cut[()] > 0) | rest[()], kept[()] | 1, kept[()])
    mantissa = odd if to_odd else kept[()] + up
    infinite = (2 * b.bias + 1) << b.mantissa
    code = mantissa + (cast(power[()] - b.least, UINT64) << b.mantissa)
    code = select(equal(whole[()], 0), Const(0, UINT64), minimum(code, infinite))
    code = f.map((), select(huge[()], Const(infinite, UINT64), code), name="code")[()]
    return f.map((), Bitcast(cast(code, b.word), b.wide), name="number")[()]


def _scaled(f: Builder, limbs: Tensor, span: Span, small: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The decimal times 2^shift as an integer of about WHOLE_BITS bits; whether something is behind it."""
    head, begun = leading(f, limbs, span, 0)
    exponent = (span.whole - 1 - head[()]) * LIMB + begun[()] - 1
    shift = f.map((), WHOLE_BITS - (exponent * LOG2_10 >> 16), name="shift")
    lost = scaled(f, limbs, span, shift[()])
    (j,) = f.axes((span.count,), "j")
    behind = (cast(j, INT32) >= span.whole) & (limbs[0, j] > 0)
    rest = f.reduce("or", (), (j,), behind, init=lost[0] | small[()], name="rest")
    high, middle, low = (limbs[0, span.whole - i] for i in (3, 2, 1))
    return f.map((), (high * BASE + middle) * BASE + low, name="whole"), rest, shift
