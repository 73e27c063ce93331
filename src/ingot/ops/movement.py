"""Operators that move elements and compute none: Transpose, Concat, Split, Slice, Expand, Tile, ...

Extents are ints or bounded `Param`s wherever that is possible. Parameters known at run time only are read
there; what they address is checked, and the extents of the output are measured.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ingot.formula.expr import (
    Const,
    Expr,
    Extent,
    Gathered,
    Tensor,
    cast,
    equal,
    maximum,
    minimum,
    select,
    static,
    wrap,
)
from ingot.formula.extents import alike, extent
from ingot.formula.index import as_expr, interval, simplify, span
from ingot.formula.types import INT64
from ingot.ops.elementwise import AT_ONCE
from ingot.ops.registry import Builder, broadcast_shape, is_data, op, shapes_text, stretched
from ingot.ops.runtime import FAR, parameter, within


@op("Transpose")
def transpose(f: Builder, data: Tensor, *, perm: tuple[int, ...] | None = None) -> Tensor:
    """Axis i of the result is axis perm[i] of the input; reversed by default (Transpose-13)."""
    order = tuple(reversed(range(data.rank))) if perm is None else tuple(perm)
    f.require(
        sorted(order) == list(range(data.rank)), f"perm {list(order)} does not permute {data.rank} axes"
    )
    axes = f.axes(tuple(data.shape[i] for i in order))
    return f.map(axes, data[tuple(axes[order.index(i)] for i in range(data.rank))], data.type)


@op("Concat")
def concat_1(f: Builder, *inputs: Tensor, axis: int = 1) -> Tensor:
    """Concat-1: the axis is 1 by default."""
    return concat(f, *inputs, axis=axis)


@op("Concat", since=4)
def concat(f: Builder, *inputs: Tensor, axis: int) -> Tensor:
    """The inputs one behind the other along an axis (Concat-13)."""
    first = inputs[0]
    a = f.axis(axis, first.rank)
    for t in inputs:
        if t.rank != first.rank:
            f.require(False, f"shapes {_listed(inputs)} differ in rank")
        f.require(t.type is first.type, f"element types {first.type} and {t.type} differ")
    offsets: list[Expr] = [Const(0)]
    for t in inputs:
        offsets.append(simplify(offsets[-1] + t.shape[a]))
    shape = [extent(offsets[-1]) if d == a else _common(f, inputs, d) for d in range(first.rank)]
    out = f.empty(first.type, tuple(shape))
    for k, (t, offset) in enumerate(zip(inputs, offsets, strict=False)):
        if k and k % AT_ONCE == 0:
            f.cuts.append(len(f.stages))
        axes = f.axes((*shape[:a], t.shape[a], *shape[a + 1 :]))
        sure = all(d == a or n == m for d, (n, m) in enumerate(zip(t.shape, shape, strict=True)))
        element = t[axes] if sure else t.at(axes, outside=0)
        f.put(out, axes, (*axes[:a], axes[a] + offset, *axes[a + 1 :]), element)
    return out


def _common(f: Builder, inputs: Sequence[Tensor], d: int) -> Extent:
    """The extent of an axis that all inputs share; where that is data, the bundle finds out."""
    found = list(dict.fromkeys(t.shape[d] for t in inputs))
    wanted = next((n for n in found if not is_data(n)), found[0])
    for n in found:
        if not alike(n, wanted):
            f.require(is_data(n), f"shapes {_listed(inputs)} differ in axis {d}")
            f.confirm(f.map((), cast(as_expr(n), INT64), name="count"), wanted)
    return wanted


def _listed(inputs: Sequence[Tensor]) -> str:
    return shapes_text(t.shape for t in inputs)


@op("Split")
def split_1(
    f: Builder, x: Tensor, sizes: Tensor | None = None, *, axis: int = 0, split: tuple[int, ...] = ()
) -> tuple[Tensor, ...]:
    """Split-1, -2, -11: the sizes are an attribute; in Split-1 possibly an input."""
    return _split(f, x, axis, tuple(split) or (None if sizes is None else f.integers(sizes, "split")), None)


@op("Split", since=13)
def split_13(
    f: Builder, x: Tensor, split: Tensor | None = None, *, axis: int = 0, num_outputs: int | None = None
) -> tuple[Tensor, ...]:
    """Consecutive parts along an axis: of given sizes, or equal, the last possibly smaller (Split-18)."""
    if split is not None and f.is_late(split):
        return _split_at_run_time(f, x, f.axis(axis, x.rank), split)
    return _split(f, x, axis, None if split is None else f.extents(split, "split"), num_outputs)


def _split(
    f: Builder, x: Tensor, axis: int, sizes: tuple[Extent, ...] | None, num_outputs: int | None
) -> tuple[Tensor, ...]:
    a, count, n = f.axis(axis, x.rank), len(f.node.outputs), x.shape[f.axis(axis, x.rank)]
    f.require(num_outputs in (None, count), f"num_outputs is {num_outputs}, and it has {count} outputs")
    f.require(num_outputs is None or sizes is None, "num_outputs and split are both given")
    if sizes is None:
        whole = as_expr(n)
        chunk = extent(simplify((whole + (count - 1)) // count))
        return _parts(
            f, x, a, [*[chunk] * (count - 1), extent(simplify(whole - as_expr(chunk) * (count - 1)))]
        )
    apart = f"parts {shapes_text([sizes])} do not make up axis {a} of {shapes_text([x.shape])}"
    f.require(min((span(size)[0] for size in sizes), default=0) >= 0, apart)
    total = extent(sum(map(as_expr, sizes), Const(0)))
    return _parts(f, f.settled(x, (*x.shape[:a], total, *x.shape[a + 1 :]), apart), a, sizes)


def _split_at_run_time(f: Builder, x: Tensor, a: int, split: Tensor) -> tuple[Tensor, ...]:
    """Parts whose sizes are data and make up the axis."""
    f.require(split.rank == 1 and split.shape[0] == len(f.node.outputs), f"split is {list(split.shape)}")
    given = [cast(split[i], INT64) for i in range(len(f.node.outputs))]
    starts: list[Expr] = [Const(0, INT64)]
    for n in given:
        starts.append(within(starts[-1] + within(n), 2 * FAR))
    total = f.map((), starts[-1], name="total")
    f.confirm(total, x.shape[a])
    counts = [f.map((), n, name="count") for n in given]
    sizes = [f.measured(n, x.shape[a], axis=a, output=i) for i, n in enumerate(counts)]
    out = []
    for i, (size, start) in enumerate(zip(sizes, starts, strict=False)):
        axes = f.axes((*x.shape[:a], size, *x.shape[a + 1 :]))
        at = Gathered(start + cast(axes[a], INT64), Const(0), as_expr(x.shape[a]))
        out.append(f.map(axes, x.at((*axes[:a], at, *axes[a + 1 :])), x.type, f"y{i}"))
    return tuple(out)


def _parts(f: Builder, x: Tensor, a: int, sizes: Sequence[Extent]) -> tuple[Tensor, ...]:
    f.require(len(sizes) >= len(f.node.outputs), f"{len(sizes)} parts for {len(f.node.outputs)} outputs")
    f.require(all(not isinstance(n, int) or n >= 0 for n in sizes), f"a part of {list(sizes)} is negative")
    out, offset = [], as_expr(0)
    for i, n in enumerate(sizes):
        axes = f.axes((*x.shape[:a], n, *x.shape[a + 1 :]))
        at = (*axes[:a], axes[a] + offset, *axes[a + 1 :])
        out.append(f.map(axes, f.element(x, at, axes), x.type, f"y{i}"))
        offset = simplify(offset + as_expr(n))
    f.require(
        not isinstance(x.shape[a], int) or offset == as_expr(x.shape[a]), f"parts {list(sizes)} do not fit"
    )
    return tuple(out)


@op("Slice")
def slice_1(
    f: Builder,
    data: Tensor,
    *,
    starts: tuple[int, ...],
    ends: tuple[int, ...],
    axes: tuple[int, ...] | None = None,
) -> Tensor:
    """Slice-1: the bounds are attributes, the steps 1."""
    return _slice(f, data, tuple(starts), tuple(ends), axes, None)


@op("Slice", since=10)
def slice_(
    f: Builder,
    data: Tensor,
    starts: Tensor,
    ends: Tensor,
    axes: Tensor | None = None,
    steps: Tensor | None = None,
) -> Tensor:
    """y[i] = x[start + i * step], bounds clamped into the axis (Slice-13)."""
    if f.is_late(starts, ends, axes, steps):
        return _slice_at_run_time(f, data, starts, ends, axes, steps)
    return _slice(
        f,
        data,
        f.extents(starts, "starts"),
        f.extents(ends, "ends"),
        None if axes is None else f.integers(axes, "axes"),
        None if steps is None else f.integers(steps, "steps"),
    )


def _slice(
    f: Builder,
    x: Tensor,
    starts: tuple[Extent, ...],
    ends: tuple[Extent, ...],
    axes: tuple[int, ...] | None,
    steps: tuple[int, ...] | None,
) -> Tensor:
    where = [f.axis(a, x.rank) for a in (range(len(starts)) if axes is None else axes)]
    strides = steps or (1,) * len(starts)
    f.require(
        len(starts) == len(ends) == len(where) == len(strides),
        f"starts {list(starts)}, ends {list(ends)}, axes {where} and steps {list(strides)} differ in length",
    )
    f.require(len({*where}) == len(where), f"an axis is repeated in the axes {where}")
    f.require(0 not in strides, "a step is 0")
    first: list[Expr] = [Const(0)] * x.rank
    shape, stride = list(x.shape), [1] * x.rank
    for a, start, end, step in zip(where, starts, ends, strides, strict=True):
        begin, shape[a] = _range(x.shape[a], start, end, step)
        if shape[a] != 0:
            first[a], stride[a] = begin, 1 if shape[a] == 1 else step
    points = f.axes(tuple(shape))
    index = tuple(b + p * s for b, p, s in zip(first, points, stride, strict=True))
    return f.map(points, x[index], x.type)


def _counted(bound: Extent, size: Expr) -> Expr:
    """A bound from the start of the axis. Raises ValueError where only the bundle's run shows its sign."""
    lo, hi = interval(bound)
    if lo < 0 <= hi:
        raise ValueError("a bound may be negative or not")
    return as_expr(bound) if lo >= 0 else as_expr(bound) + size


def _range(n: Extent, start: Extent, end: Extent, step: int) -> tuple[Expr, Extent]:
    """The first element and how many: negative bounds count from n, then both are clamped (Slice-13)."""
    size = as_expr(n)
    lo, hi = (Const(0), size) if step > 0 else (Const(-1), size - 1)
    begin = simplify(minimum(maximum(_counted(start, size), 0), hi))  # 0 also backwards, unlike numpy's
    stop = simplify(maximum(minimum(_counted(end, size), hi), lo))
    span = stop - begin if step > 0 else begin - stop
    return begin, extent(simplify(maximum((span + (abs(step) - 1)) // abs(step), 0)))


def _slice_at_run_time(
    f: Builder, x: Tensor, starts: Tensor, ends: Tensor, axes: Tensor | None, steps: Tensor | None
) -> Tensor:
    """Starts, ends, axes and steps are read when the bundle runs."""
    for t in (starts, ends, axes, steps):
        f.require(t is None or (t.rank == 1 and t.shape == starts.shape), "the parameters differ in length")
    counts, lines = [], []
    for a, n in enumerate(x.shape):
        size = cast(as_expr(n), INT64)
        start = parameter(starts, axes, a, x.rank, 0)
        end = parameter(ends, axes, a, x.rank, FAR)
        step = within(Const(1, INT64) if steps is None else parameter(steps, axes, a, x.rank, 1))
        lo, hi = select(step < 0, Const(-1, INT64), Const(0, INT64)), select(step < 0, size - 1, size)
        begin = minimum(maximum(within(select(start < 0, start + size, start)), 0), hi)  # -1 if empty
        stop = maximum(minimum(within(select(end < 0, end + size, end)), hi), lo)
        span, pace = select(step < 0, begin - stop, stop - begin), maximum(maximum(step, -step), 1)
        many = maximum((span + pace - 1) // pace, 0)
        counts.append(select(equal(step, 0), Const(-1, INT64), many))
        lines.append((begin, step))
    points = f.axes(f.measured_shape(counts, x.shape))
    index = []
    for p, n, (begin, step) in zip(points, x.shape, lines, strict=True):
        index.append(Gathered(begin + cast(p, INT64) * step, Const(0), as_expr(n)))
    return f.map(points, x[tuple(index)], x.type)


@op("Expand", since=8)
def expand(f: Builder, x: Tensor, shape: Tensor) -> Tensor:
    """Broadcast to a shape, both ways (Expand-13)."""
    if f.is_late(shape):
        return _expand_at_run_time(f, x, shape)
    axes = f.axes(broadcast_shape(f, x.shape, f.extents(shape, "shape")))
    return f.map(axes, stretched(f, x, axes), x.type)


def _expand_at_run_time(f: Builder, x: Tensor, shape: Tensor) -> Tensor:
    """An axis of the input with several elements stays, whatever stands for it must be 1 or as many.

    One that has one element only in some runs grows where the user's capacity for the output says how far.
    """
    f.require(shape.rank == 1, f"the shape has rank {shape.rank}, 1 is needed")
    rank = max(x.rank, static(shape.shape[0]))
    own: list[Extent] = [*[1] * (rank - x.rank), *x.shape]
    made: list[Extent] = []
    for d, n in enumerate(own):
        k, size = d - rank + static(shape.shape[0]), cast(as_expr(n), INT64)
        asked = cast(shape[k], INT64) if k >= 0 else Const(1, INT64)
        stays = equal(asked, 1) | equal(asked, size)
        grown = select(equal(size, 1), asked, Const(-1, INT64))
        count = f.map((), asked if n == 1 else select(stays, size, grown), INT64, "count")
        if isinstance(n, int) and n != 1:
            f.confirm(count, n)
        made.append(n if isinstance(n, int) and n != 1 else f.measured(count, f.reach(n, d), axis=d))
    axes = f.axes(tuple(made))
    index: list[Expr] = []
    for n, a in zip(x.shape, axes[rank - x.rank :], strict=True):
        one = equal(as_expr(n), 1)
        index.append(Const(0) if n == 1 else a if isinstance(n, int) else select(one, Const(0), a))
    return f.map(axes, x.at(tuple(index), outside=0), x.type)


@op("Tile")
def tile_1(f: Builder, x: Tensor, tiles: Tensor, axis: Tensor) -> Tensor:
    """Tile-1: one axis, repeated. Both numbers have the type of the elements there, floats too."""
    numbers = []
    for tensor, what in ((axis, "axis"), (tiles, "tiles")):
        found = f.static(tensor, what).reshape(-1)
        whole = found.size == 1 and np.isfinite(found).all() and (found == np.floor(found)).all()
        f.require(bool(whole), f"{what} {found[:9].tolist()} is no whole number")
        numbers.append(int(found[0]))
    a, times = f.axis(numbers[0], x.rank), numbers[1]
    return _tile(f, x, tuple(extent(as_expr(n) * times) if i == a else n for i, n in enumerate(x.shape)))


@op("Tile", since=6)
def tile(f: Builder, x: Tensor, repeats: Tensor) -> Tensor:
    """y[i] = x[i mod n] along every axis (Tile-13)."""
    f.require(repeats.shape == (x.rank,), f"{list(repeats.shape)} repeats for rank {x.rank}")
    if f.is_late(repeats):
        many = [cast(as_expr(n), INT64) * within(cast(repeats[d], INT64)) for d, n in enumerate(x.shape)]
        return _tile(f, x, f.measured_shape(many, [None] * x.rank), is_late=True)
    times = f.extents(repeats, "repeats")
    return _tile(f, x, tuple(extent(as_expr(n) * t) for n, t in zip(x.shape, times, strict=True)))


def _tile(f: Builder, x: Tensor, shape: tuple[Extent, ...], is_late: bool = False) -> Tensor:
    f.require(all(not isinstance(n, int) or n >= 0 for n in shape), f"shape {list(shape)} is negative")
    axes = f.axes(shape)
    index = tuple(remainder(i, n) for i, n in zip(axes, x.shape, strict=True))
    return f.map(axes, x.at(index, outside=0) if is_late else f.element(x, index, axes), x.type)


def remainder(i: Expr, n: Extent) -> Expr:
    """i mod n; of an empty axis nothing is read, whatever the index."""
    return i % n if n != 0 else Const(0)


@op("DepthToSpace")
def depth_to_space(f: Builder, x: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    """Blocks of channels become squares of pixels (DepthToSpace-13)."""
    f.require(x.rank == 4, f"rank {x.rank}, 4 is needed")
    f.require(mode in ("DCR", "CRD"), f"mode {mode!r} is unknown")
    n, channels, height, width = x.shape
    b = blocksize
    depth = _divided(f, channels, b * b)
    axes = f.axes((n, depth, _times(height, b), _times(width, b)), "n c h w")
    batch, c, h, w = axes
    within = h % b * b + w % b
    source = within * depth + c if mode == "DCR" else c * (b * b) + within
    return f.map(axes, x[batch, source, h // b, w // b], x.type)


@op("SpaceToDepth")
def space_to_depth(f: Builder, x: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    """Squares of pixels become blocks of channels (SpaceToDepth-13; CRD order since 28)."""
    f.require(x.rank == 4, f"rank {x.rank}, 4 is needed")
    f.require(mode in ("DCR", "CRD"), f"mode {mode!r} is unknown")
    n, channels, height, width = x.shape
    b = blocksize
    axes = f.axes((n, _times(channels, b * b), _divided(f, height, b), _divided(f, width, b)), "n c h w")
    batch, c, h, w = axes
    within, source = (c // channels, c % channels) if mode == "DCR" else (c % (b * b), c // (b * b))
    return f.map(axes, x[batch, source, h * b + within // b, w * b + within % b], x.type)


def _times(n: Extent, k: int) -> Extent:
    return extent(as_expr(n) * k)


def _divided(f: Builder, n: Extent, k: int) -> Extent:
    f.require(k > 0 and simplify(as_expr(n) % k) == Const(0), f"{n} is not divisible by {k}")
    return extent(simplify(as_expr(n) // k))


@op("ReverseSequence", since=10)
def reverse_sequence(
    f: Builder, x: Tensor, sequence_lens: Tensor, *, batch_axis: int = 1, time_axis: int = 0
) -> Tensor:
    """The first sequence_lens[b] elements of each sequence backwards, then the rest (ReverseSequence-10)."""
    f.require({batch_axis, time_axis} == {0, 1} and x.rank >= 2, "the batch and time axes must be 0 and 1")
    f.require(sequence_lens.shape == (x.shape[batch_axis],), "one length per batch is needed")
    axes = f.axes(x.shape)
    t, count = cast(axes[time_axis], INT64), cast(sequence_lens[axes[batch_axis]], INT64)
    source = Gathered(select(t < count, count - 1 - t, t), Const(0), as_expr(x.shape[time_axis]))
    return f.map(axes, x[tuple(source if i == time_axis else a for i, a in enumerate(axes))], x.type)


@op("Trilu", since=14)
def trilu(f: Builder, x: Tensor, k: Tensor | None = None, *, upper: int = 1) -> Tensor:
    """The upper or lower triangle of matrices from the k-th diagonal on, else 0 or "" (Trilu-14)."""
    f.require(x.rank >= 2, f"rank {x.rank}, matrices are needed")
    f.require(k is None or k.count == 1, f"k is {k and list(k.shape)}, one element is needed")
    axes = f.axes(x.shape)
    distance = axes[-1] - axes[-2]
    bound: Expr = Const(0)
    if k is not None and k.value is not None:
        bound = Const(int(np.clip(k.value.reshape(-1)[0], -FAR, FAR)))
    elif k is not None:
        bound = k[(0,) * k.rank]
        distance = cast(distance, bound.dtype)
    keep = distance >= bound if upper else distance <= bound
    return f.map(axes, select(keep, x[axes], wrap(0, x.type.compute)), x.type)
