"""Casts between strings and numbers: which way each goes; integers and bools themselves.

In: a tensor of one of the two. Out: the other. What is no number, or none that the type can hold, is
ERR_INDEX; a text that does not fit its string is ERR_CAPACITY. Called by `ops/cast.py`.
"""

from __future__ import annotations

import numpy as np

from ingot.formula.expr import Const, Tensor, Text, cast, equal, select
from ingot.formula.types import BOOL, INDEX, INT32, UINT8, UINT64, DType
from ingot.ops.registry import Builder
from ingot.ops.text.decimals import text_from_float
from ingot.ops.text.readings import float_from_text
from ingot.ops.text.rows import checked, fitting, full_match

INTEGER = r"[\s\v]*[+-]?\d+(\.\d*)?[\s\v]*"
TENS = np.array([10**n for n in range(20)], np.uint64)
ZERO, MINUS = ord("0"), ord("-")


def text_from_number(f: Builder, x: Tensor, to: DType) -> Tensor:
    """As numpy writes it: the shortest text that reads back as the same number."""
    axes = f.axes(x.shape)
    if x.type.kind == "b":
        return f.map(axes, select(x[axes], Text(b"True", to), Text(b"False", to)), to)
    return text_from_float(f, x, to) if x.type.is_float else _text_from_integer(f, x, to)


def number_from_text(f: Builder, x: Tensor, to: DType) -> Tensor:
    """The nearest number; integers drop what stands behind a point. Space around a number does not count."""
    return float_from_text(f, x, to) if to.is_float else _integer_from_text(f, x, to)


def _text_from_integer(f: Builder, x: Tensor, to: DType) -> Tensor:
    axes, tens = f.axes(x.shape), f.constant(TENS, "tens")
    (j,) = f.axes((len(TENS) - 1,), "j")
    is_signed = x.type.kind == "i"
    wide, none, one = cast(x[axes], UINT64), Const(0, INT32), Const(1, INT32)
    minus = select(x[axes] < 0, one, none) if is_signed else none
    size = f.map(axes, select(x[axes] < 0, 0 - wide, wide) if is_signed else wide, name="size")
    more = select(size[axes] >= tens[j + 1], one, none)
    digits = f.reduce("sum", axes, (j,), more, init=1, name="digits")
    total = f.map(axes, fitting(digits[axes] + minus, to.bytes), name="total")
    (k,) = f.axes((to.bytes,), "k")
    place = total[axes] - 1 - cast(k, INT32)
    digit = size[axes] // tens.at((cast(place, INDEX),), outside=1) % 10
    plain = select(place >= 0, cast(digit, UINT8) + ZERO, Const(0, UINT8))
    value = select(cast(k, INT32) < minus, Const(MINUS, UINT8), plain)
    return f.text_of(f.map((*axes, k), value, name="text"))


def _integer_from_text(f: Builder, x: Tensor, to: DType) -> Tensor:
    """The digits before a point, one after the other; `over` is set where they outgrow 64 bits."""
    rows = f.bytes_of(x)
    is_number = full_match(f, rows, INTEGER)
    axes, (k,) = f.axes(x.shape), f.axes((x.type.bytes,), "k")
    value = f.map(axes, Const(0, UINT64), name="value")
    over, ended, minus = (f.map(axes, Const(False, BOOL), name=n) for n in ("over", "ended", "minus"))
    byte, (most, last) = rows.at((*axes, k)), divmod(2**64 - 1, 10)

    def body() -> None:
        f.put(ended, axes, axes, ended[axes] | equal(byte, ord(".")) | equal(byte, 0))
        digit = cast(byte, UINT64) - ZERO
        counts = (byte >= ZERO) & (byte <= ZERO + 9) & equal(ended[axes], False)
        grown = (value[axes] > most) | (equal(value[axes], most) & (digit > last))
        f.put(over, axes, axes, over[axes] | (counts & grown))
        f.put(value, axes, axes, select(counts, value[axes] * 10 + digit, value[axes]))
        sign = equal(byte, MINUS) & equal(ended[axes], False)
        f.put(minus, axes, axes, minus[axes] | sign)

    f.scan(k, (value, over, ended, minus), body)
    if to.kind == "b":
        return f.map(axes, checked(is_number[axes]) & (value[axes] > 0))
    limit = select(minus[axes], Const(-int(to.lowest), UINT64), Const(int(to.highest), UINT64))
    good = is_number[axes] & equal(over[axes], False) & (value[axes] <= limit)
    right = f.map(axes, checked(good), name="right")
    signed = cast(select(minus[axes], 0 - value[axes], value[axes]), to.compute)
    return f.map(axes, select(right[axes], signed, 0), to)
