"""Floats as decimal text, exactly: the shortest digits that read back as the same number.

The number and the two borders between it and its neighbours are written down as exact decimals
(`ops/text/limbs`), and the shortest decimal between the borders is taken (R. G. Burger and R. K. Dybvig,
"Printing floating-point numbers quickly and accurately", 1996). One element after the other, for each needs
some memory. Called by `ops/text/numerals.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ingot.formula.expr import (
    Bitcast,
    Const,
    Expr,
    Operand,
    Tensor,
    Var,
    call,
    cast,
    equal,
    maximum,
    minimum,
    select,
)
from ingot.formula.index import product
from ingot.formula.types import FLOAT16, FLOAT32, FLOAT64, INDEX, INT32, UINT8, UINT32, UINT64, DType
from ingot.ops.registry import Builder
from ingot.ops.text.limbs import BASE, LIMB, TENS, Span, leading, scaled
from ingot.ops.text.rows import fitting, point_of

PREFIX = 18  # digits that a 64-bit integer holds with one to spare
MOST_DIGITS = 17  # tell any two floats apart
LOW, HERE, HIGH = range(3)  # the number and its borders
PLAIN_FROM = 1e-4
PLAIN_BELOW = {"float16": 1e3, "float64": 1e16}
"""From here on numpy writes an exponent; for all other types from 1e6 on."""


@dataclass(frozen=True, slots=True)
class Binary:
    """How numbers of a type are made: `precision` bits times 2^`least` and more, held by `wide`."""

    wide: DType
    precision: int
    least: int

    @property
    def mantissa(self) -> int:
        return 52 if self.wide is FLOAT64 else 23

    @property
    def bias(self) -> int:
        return 1023 if self.wide is FLOAT64 else 127

    @property
    def word(self) -> DType:
        return UINT64 if self.wide is FLOAT64 else UINT32

    @property
    def span(self) -> Span:
        """Room for four times the largest number, and for a quarter of the least."""
        digits = math.ceil((self.bias + 4) * math.log10(2))
        return Span(-(-digits // LIMB), -(-(2 - self.least) // LIMB), max(self.bias, 2 - self.least))


def binary_of(t: DType) -> Binary:
    """Types that numpy does not know count as the float32 that they are read as."""
    if t is FLOAT64:
        return Binary(t, 53, -1074)
    return Binary(FLOAT32, 11, -24) if t is FLOAT16 else Binary(FLOAT32, 24, -149)


@dataclass(frozen=True, slots=True)
class Decimal:
    """`count` digits as one integer; the first of them counts 10^`exponent`. Scalars."""

    digits: Tensor
    count: Tensor
    exponent: Tensor


def text_from_float(f: Builder, x: Tensor, to: DType) -> Tensor:
    """Each number as numpy writes it, with an exponent where it is far from 1."""
    axes, (k,) = f.axes(x.shape), f.axes((to.bytes,), "k")
    rows = f.map((*axes, k), Const(0, UINT8), name="rows")
    element = Var("e", product(x.shape))
    point = point_of(element, x.shape)

    def body() -> None:
        value = f.map((), x.at(point), x.type.compute, "value")
        size = f.map((), call("abs", value[()]), name="size")
        decimal = _shortest(f, size, binary_of(x.type))
        _written(f, rows, point, value, size, decimal, PLAIN_BELOW.get(x.type.name, 1e6))

    f.scan(element, (rows,), body)
    return f.text_of(rows)


# -- digits


def _shortest(f: Builder, size: Tensor, b: Binary) -> Decimal:
    """The digits of a positive number; 0, infinity and NaN give some that mean nothing."""
    limbs, even = _expanded(f, size, b)
    t, j = f.axes(limbs.shape, "t j")
    head, begun = leading(f, limbs, b.span, HERE)
    tens = f.constant(TENS, "tens")

    def limb(ahead: int) -> Expr:
        return limbs.at((t, cast(head[()], INDEX) + ahead), outside=0)

    def ten(power: Expr) -> Expr:
        return tens.at((cast(power, INDEX),), outside=1)

    top = limb(-1) * BASE + limb(0)
    lower = limb(1) * ten(LIMB - begun[()]) + limb(2) // ten(begun[()])
    prefix = f.map((t,), top * ten(PREFIX - begun[()]) + lower, name="prefix")
    later = (cast(j, INT32) > head[()] + 2) & (limbs[t, j] > 0)
    more = f.reduce("or", (t,), (j,), later, init=limb(2) % ten(begun[()]) > 0, name="more")
    exponent = (b.span.whole - 1 - head[()]) * LIMB + begun[()] - 1
    return _rounded(f, prefix, more, even, exponent)


def _expanded(f: Builder, size: Tensor, b: Binary) -> tuple[Tensor, Tensor]:
    """(4m - 1 or 2, 4m, 4m + 2) * 2^(e - 2), where the size is m * 2^e; and whether m is even."""
    bits = Bitcast(size[()], b.word)
    field = f.map((), cast(bits >> b.mantissa, INT32), name="field")
    hidden = select(field[()] > 0, Const(1 << b.mantissa, UINT64), Const(0, UINT64))
    whole = cast(bits & ((1 << b.mantissa) - 1), UINT64) | hidden
    first = maximum(field[()], 1) - b.bias  # of the leading bit
    power = f.map((), maximum(first - (b.precision - 1), b.least), name="power")
    drop = cast(b.mantissa - (first - power[()]), UINT64)
    m = f.map((), whole >> drop, name="m")
    at_border = equal(m[()], 1 << (b.precision - 1)) & (power[()] > b.least)
    below = select(at_border, Const(1, UINT64), Const(2, UINT64))
    (t,) = f.axes((3,), "t")
    borders = select(equal(t, LOW), m[()] * 4 - below, select(equal(t, HIGH), m[()] * 4 + 2, m[()] * 4))
    numbers = f.map((t,), borders, name="numbers")
    (j,) = f.axes((b.span.count,), "j")
    limb: Expr = Const(0, UINT64)
    for i in range(3):
        limb = select(equal(j, b.span.whole - 1 - i), numbers[t] // BASE**i % BASE, limb)
    limbs = f.map((t, j), limb, name="limbs")
    scaled(f, limbs, b.span, power[()] - 2)
    return limbs, f.map((), equal(m[()] & 1, 0), name="even")


def _rounded(f: Builder, prefix: Tensor, more: Tensor, even: Tensor, exponent: Expr) -> Decimal:
    """The fewest digits that lie between the borders, and of those the nearest."""
    (i,) = f.axes((MOST_DIGITS,), "i")
    tens = f.constant(TENS, "tens")
    cut = tens[PREFIX - 1 - i]
    low, here, high = (prefix[t] // cut for t in (LOW, HERE, HIGH))
    on_low = even[()] & equal(prefix[LOW] % cut, 0) & equal(more[LOW], False)
    within = even[()] | (prefix[HIGH] % cut > 0) | more[HIGH]
    down = f.map((i,), (here > low) | (equal(here, low) & on_low), name="down")
    up = f.map((i,), (here + 1 < high) | (equal(here + 1, high) & within), name="up")
    tried = select(down[i] | up[i], cast(i, INT32), Const(MOST_DIGITS - 1, INT32))
    last = f.reduce("min", (), (i,), tried, init=MOST_DIGITS - 1, name="last")
    place = (cast(last[()], INDEX),)
    unit = f.map((), tens.at((PREFIX - 1 - place[0],), outside=1), name="unit")
    kept, rest = prefix[HERE] // unit[()], prefix[HERE] % unit[()] * 2
    tie = equal(rest, unit[()]) & (more[HERE] | equal(kept & 1, 1))
    nearest = (rest > unit[()]) | tie
    raised = up.at(place, outside=False) & (nearest | equal(down.at(place, outside=False), False))
    digits = f.map((), kept + select(raised, Const(1, UINT64), Const(0, UINT64)), name="digits")
    count = last[()] + 1
    carried = f.map((), digits[()] >= tens.at((cast(count, INDEX),), outside=1), name="carried")
    f.put(digits, (), (), select(carried[()], Const(1, UINT64), digits[()]))
    one, none = Const(1, INT32), Const(0, INT32)
    shown = f.map((), select(carried[()], one, count), name="shown")
    return Decimal(digits, shown, f.map((), exponent + select(carried[()], one, none), name="exponent"))


# -- text


def _written(
    f: Builder,
    rows: Tensor,
    point: tuple[Operand, ...],
    value: Tensor,
    size: Tensor,
    d: Decimal,
    below: float,
) -> None:
    """One row: the sign, then the digits in one of two ways, or a word."""
    capacity = rows.shape[-1]
    assert isinstance(capacity, int), "strings have a fixed capacity"
    one, none = Const(1, INT32), Const(0, INT32)
    is_zero = equal(size[()], 0.0)
    digits = f.map((), select(is_zero, Const(0, UINT64), d.digits[()]), name="digits")
    count = f.map((), select(is_zero, one, d.count[()]), name="count")
    exponent = f.map((), select(is_zero, none, d.exponent[()]), name="exponent")
    decimal = Decimal(digits, count, exponent)
    minus = select(_is_negative(value[()]), one, none)
    sign = f.map((), select(call("isnan", value[()]), none, minus), name="sign")
    plain = is_zero | ((size[()] >= _least(PLAIN_FROM, size.type)) & (size[()] < below))
    is_plain = f.map((), plain, name="is_plain")
    is_word = f.map((), call("isnan", size[()]) | equal(size[()], math.inf), name="is_word")
    far = select(call("abs", exponent[()]) >= 100, Const(3, INT32), Const(2, INT32))
    with_exponent = select(count[()] > 1, count[()] + 1, one) + 2 + far
    whole = maximum(exponent[()], 0) + 1
    length = select(is_plain[()], whole + 1 + maximum(count[()] - 1 - exponent[()], 1), with_exponent)
    total = f.map(
        (), fitting(select(is_word[()], Const(3, INT32), length) + sign[()], capacity), name="total"
    )
    (k,) = f.axes((capacity,), "k")
    at = cast(k, INT32) - sign[()]
    number = select(is_plain[()], _plain(f, decimal, whole, at), _scientific(f, decimal, at))
    byte = select(is_word[()], _word(f, size, at), number)
    byte = select(at < 0, Const(ord("-"), UINT8), byte)
    f.put(rows, (k,), (*point, k), select(cast(k, INT32) < total[()], byte, Const(0, UINT8)))


def _is_negative(x: Expr) -> Expr:
    """The sign bit: of -0 too."""
    word = UINT64 if x.dtype is FLOAT64 else UINT32
    return Bitcast(x, word) >= 1 << (word.bits - 1)


def _least(x: float, t: DType) -> float:
    """The least number of a type that is not below x."""
    near = t.numpy.type(x)
    return float(near if float(near) >= x else np.nextafter(near, t.numpy.type(np.inf)))


def _digit(f: Builder, d: Decimal, i: Expr) -> Expr:
    """Digit i as a character; 0 where there is none."""
    tens = f.constant(TENS, "tens")
    power = tens.at((cast(d.count[()] - 1 - i, INDEX),), outside=1)
    inside = (i >= 0) & (i < d.count[()])
    return cast(select(inside, d.digits[()] // power % 10, Const(0, UINT64)), UINT8) + ord("0")


def _plain(f: Builder, d: Decimal, whole: Expr, at: Expr) -> Expr:
    """123.45: `whole` digits, the point, the others."""
    weight = select(at < whole, whole - 1 - at, whole - at)
    return select(equal(at, whole), Const(ord("."), UINT8), _digit(f, d, d.exponent[()] - weight))


def _scientific(f: Builder, d: Decimal, at: Expr) -> Expr:
    """1.2345e+02: at least two digits of the exponent."""
    mark = select(d.count[()] > 1, d.count[()] + 1, Const(1, INT32))  # where the e stands
    size, behind = call("abs", d.exponent[()]), at - mark
    big = size >= 100
    hundreds, tens, ones = size // 100, size // 10 % 10, size % 10
    first, second = select(big, hundreds, tens), select(big, tens, ones)
    figure = select(equal(behind, 2), first, select(equal(behind, 3), second, ones))
    sign = select(d.exponent[()] < 0, Const(ord("-"), UINT8), Const(ord("+"), UINT8))
    tail = select(equal(behind, 1), sign, cast(figure, UINT8) + ord("0"))
    point = select(equal(at, 1), Const(ord("."), UINT8), _digit(f, d, select(at > 0, at - 1, at)))
    return select(behind < 0, point, select(equal(behind, 0), Const(ord("e"), UINT8), tail))


def _word(f: Builder, size: Tensor, at: Expr) -> Expr:
    words = f.constant(np.frombuffer(b"infnan", np.uint8), "words")
    start = select(call("isnan", size[()]), Const(3, INT32), Const(0, INT32))
    return words.at((cast(start + minimum(maximum(at, 0), 2), INDEX),), outside=0)
