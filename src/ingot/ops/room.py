"""Operators that no model has: `infer` puts them where branches, or turns of a loop, make different shapes.

In: what one way through the graph makes. Out: the same in the room that serves all ways, checked where it may
not fit (ERR_CAPACITY).
"""

from __future__ import annotations

import numpy as np

from ingot.formula.expr import Const, Expr, Extent, Gathered, Tensor, cast, equal, select, wrap
from ingot.formula.index import as_expr
from ingot.formula.types import INT64, DType
from ingot.ops.registry import Builder, op
from ingot.ops.sequence import NONE, Three, integer, room_of


@op("Pinned", domain="ingot")
def pinned(f: Builder, x: Tensor, *, shape: tuple[int, ...]) -> Tensor:
    """x in the shape that the model declares, which is checked (ERR_CAPACITY)."""
    f.require(len(shape) == x.rank, f"declared as {list(shape)}, but it has {x.rank} axes")
    for n, found in zip(shape, x.shape, strict=True):
        if isinstance(found, int):
            f.require(n == found, f"declared as {list(shape)}, but it is {list(map(str, x.shape))}")
        else:
            there = Gathered(cast(as_expr(found), INT64), Const(n), Const(n + 1), "ERR_CAPACITY")
            f.map((), cast(there, INT64), name="there")
    axes = f.axes(shape)
    return f.map(axes, x.at(axes, outside=0), x.type)


@op("SequenceFit", domain="ingot")
def sequence_fit(
    f: Builder,
    data: Tensor,
    extents: Tensor,
    length: Tensor,
    *,
    count: int,
    shape: tuple[int, ...],
    dtype: DType,
) -> Three:
    """A sequence in other room: up to `count` elements of up to the extents `shape`."""
    had, old = room_of(data)
    rank = len(shape)
    f.require(data.type is dtype or not had, f"elements are {data.type} here, {dtype} elsewhere")
    k, *axes = f.axes((count, *shape))
    zero = wrap(0, dtype.compute)
    inner = (k, *axes[: len(old)])
    out = f.map((k, *axes), data.at(inner, outside=0) if had else zero, dtype, "data")
    if extents.value is not None and had <= count:
        rows = np.full((count, rank), -1, np.int64)
        rows[:had, : len(old)] = extents.value
        table = f.constant(rows, "extents")
    else:
        k, d = f.axes((count, rank), "k d")
        table = f.map((k, d), extents.at((k, d), outside=-1) if had else NONE, INT64, "extents")
    fits = had <= count and all(n <= m for n, m in zip(old, shape, strict=False))
    return out, table, length if fits else _fitting(f, extents, length, old, count, shape)


def _fitting(
    f: Builder, extents: Tensor, length: Tensor, old: tuple[int, ...], count: int, shape: tuple[int, ...]
) -> Tensor:
    """The length of a sequence that is found to fit."""
    (k,) = f.axes((extents.shape[0],), "k")
    one, zero = Const(1, INT64), Const(0, INT64)
    large = [extents[k, d] > m for d, (n, m) in enumerate(zip(old, shape, strict=False)) if n > m]
    found = integer(length)
    if large:
        bad: Expr = zero
        for condition in large:
            bad = select(condition, one, bad)
        live = cast(k, INT64) < found
        wrong = f.reduce("max", (), (k,), select(live, bad, zero), init=0, name="wrong")
        found = select(equal(wrong[()], 0), found, NONE)
    there = Gathered(found, Const(0), Const(count + 1), "ERR_CAPACITY")
    return f.map((), cast(there, INT64), INT64, "length")


def static_shape(shape: tuple[Extent, ...] | None) -> tuple[int, ...] | None:
    """A shape of which every extent is known now."""
    if shape is None:
        return None
    known = tuple(n for n in shape if isinstance(n, int))
    return known if len(known) == len(shape) else None
