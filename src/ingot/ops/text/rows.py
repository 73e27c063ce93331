"""What operators on strings share: rows of bytes, uint8 [..., capacity], that end at their first zero."""

from __future__ import annotations

from ingot.errors import UnsupportedError
from ingot.formula.expr import Const, Expr, Extent, Gathered, Tensor, cast, equal, select, static
from ingot.formula.index import product
from ingot.formula.types import INDEX, INT32, UINT8
from ingot.ops.registry import Builder
from ingot.ops.text.regex.automaton import ACCEPTED, compiled
from ingot.ops.text.regex.syntax import PatternError

ZERO = Const(0, UINT8)


def lengths(f: Builder, rows: Tensor) -> Tensor:
    """How many bytes stand before the first zero of each row: int32."""
    (*axes, k) = f.axes(rows.shape)
    capacity = Const(static(rows.shape[-1]), INT32)
    end = select(equal(rows.at((*axes, k)), 0), cast(k, INT32), capacity)
    return f.reduce("min", tuple(axes), (k,), end, init=capacity, name="length")


def fitting(count: Expr, capacity: int) -> Expr:
    """A length, which leaves room for the zero at the end: ERR_CAPACITY if not."""
    return cast(Gathered(count, Const(0), Const(capacity), "ERR_CAPACITY"), INT32)


def full_match(f: Builder, rows: Tensor, pattern: str) -> Tensor:
    """Whether each row matches a pattern of RE2 as a whole. Raises UnsupportedError for a bad pattern."""
    try:
        automaton = compiled(pattern)
    except PatternError as error:
        raise UnsupportedError(f"{f.node.label}: the pattern {pattern[:60]!r}: {error}") from None
    table, classes = f.constant(automaton.table, "transitions"), f.constant(automaton.classes, "classes")
    axes, (k,) = f.axes(rows.shape[:-1]), f.axes(rows.shape[-1:], "k")
    state = f.empty(INT32, rows.shape[:-1], "state", within=(0, len(automaton.table) - 1))
    f.put(state, axes, axes, Const(automaton.start, INT32))

    def following(byte: Expr) -> Expr:
        now, kind = cast(state[axes], INDEX), cast(classes[cast(byte, INDEX)], INDEX)
        return cast(table[now, kind], INT32)

    f.scan(k, (state,), lambda: f.put(state, axes, axes, following(rows.at((*axes, k)))))
    return f.map(axes, equal(following(ZERO), ACCEPTED), name="matches")


def point_of(i: Expr, shape: tuple[Extent, ...]) -> tuple[Expr, ...]:
    """The index of element i in row-major order; the first axis is not wrapped around."""
    wrapped = [i // product(shape[d + 1 :]) for d in range(len(shape))]
    return tuple(w if d == 0 else w % n for d, (w, n) in enumerate(zip(wrapped, shape, strict=True)))


def checked(condition: Expr) -> Expr:
    """A condition that must hold: ERR_INDEX if not."""
    return Gathered(select(condition, Const(1, INT32), Const(0, INT32)), Const(1), Const(2)) > 0
