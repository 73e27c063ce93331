"""Upper and lower case: characters for characters, as Unicode's simple mappings have them.

In: strings as rows of bytes. Out: rows in the other case. A character may take another number of bytes
afterwards; what then does not fit is ERR_CAPACITY. Called by `ops/text/strings.py`.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from ingot.formula.expr import Array, Const, Expr, Gathered, Tensor, cast, select
from ingot.formula.types import INDEX, INT32, UINT8
from ingot.ops.registry import Builder

BASIC = 1 << 16  # the characters beyond keep their case
PAGE = 64
LONGEST = 4  # bytes of a character


def other_case(text: str, case: str) -> str:
    """What the bundle makes of a string; `case` is LOWER or UPPER."""
    return "".join(chr(_mapped(ord(c), case)) for c in text)


def _mapped(code: int, case: str) -> int:
    """The simple mapping; where Python's answer is two characters, the title case may be the one."""
    c = chr(code)
    if code >= BASIC or 0xD800 <= code < 0xE000:
        return code
    if case == "LOWER":
        return ord("i") if c == "\u0130" else ord(c.lower()) if len(c.lower()) == 1 else code
    found = c.upper() if len(c.upper()) == 1 else c.title()
    return ord(found) if len(found) == 1 and ord(found) < BASIC else code


@cache
def _tables(case: str) -> tuple[Array, Array]:
    """Which page holds a code's row of 64, and the pages: what to add, modulo 2^16. Equal pages are one."""
    deltas = np.array([_mapped(c, case) - c for c in range(BASIC)], np.int64).astype(np.uint16)
    pages, numbers = np.unique(deltas.reshape(-1, PAGE), axis=0, return_inverse=True)
    return numbers.reshape(-1).astype(np.uint8), pages


def changed(f: Builder, rows: Tensor, length: Tensor, case: str) -> Tensor:
    """The rows in another case; `length` says where each ends."""
    (*axes, k) = f.axes(rows.shape)
    capacity = k.extent
    assert isinstance(capacity, int), "strings have a fixed capacity"
    code = _code(f, rows, length, case)
    room = f.axes((*rows.shape[:-1], capacity + LONGEST))
    out = f.map(room, Const(0, UINT8), name="changed")
    at = f.map(tuple(axes), Const(0, INT32), name="at")
    point = tuple(axes)

    def body() -> None:
        c = code.at((*axes, k))
        place = Gathered(at[point], Const(0), Const(capacity), "ERR_CAPACITY")
        for b in range(LONGEST):  # what is too much the next character overwrites
            f.put(out, point, (*axes, place + b), cast(_byte(c, b), UINT8))
        f.put(at, point, point, at[point] + _size(c))

    f.scan(k, (out, at), body)
    fits = cast(Gathered(at[point], Const(0), Const(capacity), "ERR_CAPACITY"), INT32)
    total = f.map(point, fits, name="total")
    kept = select(cast(k, INT32) < total[point], out.at((*axes, k)), Const(0, UINT8))
    return f.map((*axes, k), kept, name="changed")


def _code(f: Builder, rows: Tensor, length: Tensor, case: str) -> Tensor:
    """The changed character that begins at each byte; 0 where none does."""
    (*axes, k) = f.axes(rows.shape)
    first, *rest = (cast(rows.at((*axes, k + i), outside=0), INT32) for i in range(LONGEST))
    second, third, fourth = (x & 63 for x in rest)
    two = (first & 31) << 6 | second
    three = (first & 15) << 12 | second << 6 | third
    four = (first & 7) << 18 | second << 12 | third << 6 | fourth
    long = select(first < 0xF0, three, four)
    code = select(first < 0x80, first, select(first < 0xE0, two, long))
    begins = ((first < 0x80) | (first >= 0xC0)) & (cast(k, INT32) < length[tuple(axes)])
    read = f.map((*axes, k), select(begins, code, 0), name="code")
    numbers, pages = (f.constant(t, n) for t, n in zip(_tables(case), ("numbers", "pages"), strict=True))
    c = read.at((*axes, k))
    i = cast(c, INDEX) % BASIC
    delta = pages[cast(numbers[i // PAGE], INDEX), i % PAGE]
    moved = (c + cast(delta, INT32)) & (BASIC - 1)
    return f.map((*axes, k), select(c < BASIC, moved, c), name="changed")


def _size(code: Expr) -> Expr:
    """How many bytes a character takes."""
    size: Expr = Const(LONGEST, INT32)
    for n, end in ((3, 1 << 16), (2, 1 << 11), (1, 1 << 7), (0, 1)):
        size = select(code < end, Const(n, INT32), size)
    return size


def _byte(code: Expr, b: int) -> Expr:
    """Byte b of a character; 0 behind its last."""
    out: Expr = Const(0, INT32)
    for n, begin, mark in ((1, 0, 0), (2, 1 << 7, 0xC0), (3, 1 << 11, 0xE0), (4, 1 << 16, 0xF0)):
        if n > b:
            part = code >> (6 * (n - 1 - b))
            out = select(code >= begin, part | mark if b == 0 else part & 63 | 0x80, out)
    return out
