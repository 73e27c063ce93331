"""Elements chosen, or replaced, by indices that are data: Gather, Scatter and their kin, OneHot.

Indices known now are checked now and become constants; others are `Gathered`: checked when the bundle runs.
Where two updates of a Scatter meet, they take effect in row-major order.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ingot.formula.expr import (
    Array,
    Const,
    Expr,
    Extent,
    Gathered,
    Operand,
    Tensor,
    Var,
    binary,
    cast,
    equal,
    select,
)
from ingot.formula.extents import alike
from ingot.formula.index import as_expr, span
from ingot.formula.types import INDEX, INT64
from ingot.ops.registry import Builder, is_data, op, shapes_text
from ingot.ops.runtime import scalar

Position = Callable[[tuple[Operand, ...]], Expr]
REDUCTIONS = {"add": "add", "mul": "mul", "max": "max", "min": "min"}


def positions(f: Builder, indices: Tensor, n: Extent, last: int | None = None) -> Position:
    """How elements of an index tensor address an axis of `n`; negative ones count from its end (Gather-13).

    `last` fixes the index tensor's last axis.
    """
    f.require(indices.type.is_integer, f"indices are {indices.type}, not integers")
    if indices.value is not None and isinstance(n, int):
        known: Array = indices.value.astype(np.int64)
        known = known if last is None else known[..., last]
        known = np.where(known < 0, known + n, known)
        f.require(bool(np.all((known >= 0) & (known < n))), f"an index is out of range for {n} elements")
        if known.size == 1:
            only = Const(int(known.reshape(())))
            return lambda at: only
        table = f.constant(known.astype(np.int32), indices.name)
        return lambda at: cast(table.at(at), INDEX)
    size = as_expr(n)

    def position(at: tuple[Operand, ...]) -> Expr:
        i = indices.at(at if last is None else (*at, last))
        return Gathered(select(i < 0, i + cast(size, i.dtype), i), Const(0), size)

    return position


@op("Gather")
def gather(f: Builder, data: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    """y[p..., i..., q...] = x[p..., indices[i...], q...] (Gather-13)."""
    a = f.axis(axis, data.rank)
    before, after, rank = data.shape[:a], data.shape[a + 1 :], indices.rank
    axes = f.axes((*before, *indices.shape, *after))
    i = positions(f, indices, data.shape[a])(axes[a : a + rank])
    return f.map(axes, data.at((*axes[:a], i, *axes[a + rank :])), data.type)


@op("GatherElements", since=11)
def gather_elements(f: Builder, data: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    """y[i, j, k] = x[indices[i, j, k], j, k] for axis 0, and likewise for others (GatherElements-13)."""
    f.require(indices.rank == data.rank, f"ranks {data.rank} and {indices.rank} differ")
    a = f.axis(axis, data.rank)
    _require_within(f, data, indices, a)
    axes = f.axes(indices.shape)
    return f.map(axes, data.at(_places(f, data, indices, axes, a)), data.type)


def _places(f: Builder, data: Tensor, indices: Tensor, axes: tuple[Var, ...], a: int) -> tuple[Expr, ...]:
    """Where in the data the indices point: along axis `a`, and at their own place along the others.

    Whether an extent that is data has that place shows when the bundle runs.
    """
    places: list[Expr] = list(axes)
    for d, (n, m) in enumerate(zip(indices.shape, data.shape, strict=True)):
        if (is_data(n) or is_data(m)) and not alike(n, m):
            places[d] = Gathered(axes[d], Const(0), as_expr(m))
    places[a] = positions(f, indices, data.shape[a])(axes)
    return tuple(places)


def _require_within(f: Builder, data: Tensor, indices: Tensor, axis: int) -> None:
    """Raise ShapeError where the indices have more places than the data along an axis that they do not
    index."""
    pairs = [(n, m) for d, (n, m) in enumerate(zip(indices.shape, data.shape, strict=True)) if d != axis]
    known = [(n, m) for n, m in pairs if not (is_data(n) or is_data(m))]
    fits = all(alike(n, m) or span(n)[1] <= span(m)[0] for n, m in known)
    shapes = shapes_text((data.shape, indices.shape))
    f.require(fits, f"the indices reach beyond the data on an axis other than {axis}: shapes {shapes}")


@op("GatherND", since=11)
def gather_nd(f: Builder, data: Tensor, indices: Tensor, *, batch_dims: int = 0) -> Tensor:
    """y[b..., i..., r...] = x[b..., *indices[b..., i..., :], r...] (GatherND-13)."""
    k, b = _tuple_length(f, data, indices, batch_dims), batch_dims
    apart = f"the batch axes of shapes {shapes_text((data.shape, indices.shape))} differ"
    batch = tuple(m if is_data(n) else n for n, m in zip(data.shape, indices.shape[:b], strict=False))
    data = f.settled(data, (*batch, *data.shape[b:]), apart)
    indices = f.settled(indices, (*batch, *indices.shape[b:]), apart)
    lead = indices.rank - 1
    axes = f.axes((*indices.shape[:-1], *data.shape[b + k :]))
    chosen = _tuples(f, data.shape[b : b + k], indices, axes[:lead])
    return f.map(axes, data.at((*axes[:b], *chosen, *axes[lead:])), data.type)


def _tuple_length(f: Builder, data: Tensor, indices: Tensor, batch_dims: int) -> int:
    f.require(0 <= batch_dims < max(indices.rank, 1), f"batch_dims {batch_dims} is out of range")
    k = indices.shape[-1]
    f.require(isinstance(k, int), "the last axis of the indices must be static")
    assert isinstance(k, int)
    f.require(1 <= k <= data.rank - batch_dims, f"index tuples of {k} do not fit rank {data.rank}")
    return k


def _tuples(
    f: Builder, shape: tuple[Extent, ...], indices: Tensor, lead: tuple[Operand, ...]
) -> tuple[Expr, ...]:
    """The positions in the axes of `shape` that the tuple indices[lead..., :] holds."""
    return tuple(positions(f, indices, n, j)(lead) for j, n in enumerate(shape))


@op("Scatter", since=9)
@op("ScatterElements", since=11)
def scatter_elements(
    f: Builder, data: Tensor, indices: Tensor, updates: Tensor, *, axis: int = 0, reduction: str = "none"
) -> Tensor:
    """y = x; then y[indices[i, j, k], j, k] = updates[i, j, k], or combined with it (ScatterElements-18)."""
    apart = f"shapes {shapes_text((data.shape, indices.shape, updates.shape))} do not fit"
    f.require(data.rank == indices.rank == updates.rank, apart)
    pairs = zip(indices.shape, updates.shape, strict=True)
    shape = tuple(m if is_data(n) else n for n, m in pairs)
    indices, updates = f.settled(indices, shape, apart), f.settled(updates, shape, apart)
    a = f.axis(axis, data.rank)
    _require_within(f, data, indices, a)
    out = _copy(f, data)
    axes = f.axes(indices.shape)
    return _update(f, out, axes, _places(f, data, indices, axes, a), updates, reduction)


@op("ScatterND", since=11)
def scatter_nd(
    f: Builder, data: Tensor, indices: Tensor, updates: Tensor, *, reduction: str = "none"
) -> Tensor:
    """y = x; then y[indices[i..., :], r...] = updates[i..., r...], or combined with it (ScatterND-18)."""
    k = _tuple_length(f, data, indices, 0)
    shape = (*indices.shape[:-1], *data.shape[k:])
    needed = f"updates have shape {shapes_text((updates.shape,))}, {shapes_text((shape,))} is needed"
    updates = f.settled(updates, shape, needed)
    out = _copy(f, data)
    axes = f.axes(shape)
    lead = indices.rank - 1
    chosen = _tuples(f, data.shape[:k], indices, axes[:lead])
    return _update(f, out, axes, (*chosen, *axes[lead:]), updates, reduction)


@op("TensorScatter", since=24)
def tensor_scatter(
    f: Builder,
    past_cache: Tensor,
    update: Tensor,
    write_indices: Tensor | None = None,
    *,
    axis: int = -2,
    mode: str = "linear",
) -> Tensor:
    """y = x; then y[b, ..., w[b] + s, ...] = updates[b, ..., s, ...], circular: modulo the axis (-24)."""
    f.require(mode in ("linear", "circular"), f"mode {mode!r} is unknown")
    f.require(past_cache.rank == update.rank, f"ranks {past_cache.rank} and {update.rank} differ")
    a = f.axis(axis, past_cache.rank)
    out = _copy(f, past_cache)
    axes, n = f.axes(update.shape), past_cache.shape[a]
    start: Expr = Const(0, INT64) if write_indices is None else cast(write_indices.at(axes[:1]), INT64)
    place = start + cast(axes[a], INT64)
    if mode == "circular":
        place = place % cast(as_expr(n), INT64)
    at = Gathered(place, Const(0), as_expr(n))
    return _update(f, out, axes, (*axes[:a], at, *axes[a + 1 :]), update, "none")


def _copy(f: Builder, data: Tensor) -> Tensor:
    axes = f.axes(data.shape)
    return f.map(axes, data[axes], data.type)


def _update(
    f: Builder, out: Tensor, axes: tuple[Var, ...], at: tuple[Expr, ...], updates: Tensor, reduction: str
) -> Tensor:
    """Later updates see earlier ones: each reads the element it is about to replace."""
    f.require(updates.type is out.type, f"data are {out.type}, updates {updates.type}")
    f.require(reduction == "none" or reduction in REDUCTIONS, f"reduction {reduction!r} is unknown")
    new: Expr = updates[axes]
    f.put(out, axes, at, new if reduction == "none" else binary(REDUCTIONS[reduction], out[at], new))
    return out


@op("OneHot", since=9)
def one_hot(f: Builder, indices: Tensor, depth: Tensor, values: Tensor, *, axis: int = -1) -> Tensor:
    """y[p..., d, q...] = values[indices[p..., q...] == d]; negative ones count from the end (OneHot-11)."""
    a = f.axis(axis, indices.rank + 1)
    f.require(depth.count == 1, f"depth is {list(depth.shape)}, one element is needed")
    if f.is_late(depth):
        n = f.measured(f.map((), scalar(depth), name="depth"), None, axis=a)
    else:
        n = int(np.asarray(f.static(depth, "depth")).reshape(-1)[0])
    axes = f.axes((*indices.shape[:a], n, *indices.shape[a:]))
    i = cast(indices.at((*axes[:a], *axes[a + 1 :])), INT64)
    place = select(i < 0, i + cast(as_expr(n), INT64), i)
    return f.map(axes, select(equal(place, cast(axes[a], INT64)), values[1], values[0]), values.type)
