"""Views: the elements of the input in row-major order under another shape. And Shape and Size themselves.

In: tensors whose shapes are known; out: formulas that set `view`, which the planner makes cost nothing.
"""

from __future__ import annotations

import numpy as np

from ingot.formula.expr import Const, Expr, Extent, Tensor, cast, equal, maximum, minimum, select, static
from ingot.formula.extents import alike, extent
from ingot.formula.index import as_expr, interval, product, simplify
from ingot.formula.types import INT64
from ingot.graph.verify import RANK_LIMIT
from ingot.ops.registry import Builder, is_data, op, shapes_text
from ingot.ops.runtime import FAR


def reshape_to(f: Builder, x: Tensor, shape: tuple[Extent, ...]) -> Tensor:
    """The elements of `x` in row-major order under another shape.

    Where extents are data, only the run tells whether they fit: the bundle returns ERR_CAPACITY if not.
    """
    f.require(len(shape) <= RANK_LIMIT, f"a shape of {len(shape)} axes, more than {RANK_LIMIT}")
    before, after = product(x.shape), product(shape)
    fits = alike(before, after)
    if not fits and any(map(is_data, (*x.shape, *shape))):
        f.confirm(f.map((), cast(before, INT64), name="count"), extent(simplify(after)))
    else:
        f.require(
            fits, f"shape {shapes_text((shape,))} does not hold the elements of {shapes_text((x.shape,))}"
        )
    axes = f.axes(shape)
    f.view = x if fits else None
    first, last = _kept(x.shape, shape)
    flat: Expr = Const(0)
    for a, n in zip(axes[first : len(shape) - last], shape[first : len(shape) - last], strict=True):
        flat = flat * n + a
    middle: list[Expr] = []
    for n in reversed(x.shape[first + 1 : x.rank - last]):
        size = as_expr(n) if n != 0 else Const(1)  # nothing is read of an empty tensor
        middle.append(flat % size)
        flat = flat // size
    if x.rank > first + last:
        middle.append(flat)
    index = (*axes[:first], *reversed(middle), *axes[len(shape) - last :])
    return f.map(axes, f.element(x, index, axes), x.type)


def _kept(old: tuple[Extent, ...], new: tuple[Extent, ...]) -> tuple[int, int]:
    """How many axes at the front, and how many at the end, stay as they are."""
    most = min(len(old), len(new))
    first = next((d for d in range(most) if old[d] != new[d]), most)
    last = next((d for d in range(most - first) if old[-1 - d] != new[-1 - d]), most - first)
    return first, last


def _resolve(f: Builder, x: Tensor, wanted: tuple[Extent, ...], allowzero: bool) -> tuple[Extent, ...]:
    """Reshape-14: 0 keeps an extent (unless `allowzero`), one -1 takes what is left."""
    least = min((n for n in wanted if isinstance(n, int)), default=0)
    f.require(least >= -1 and wanted.count(-1) <= 1, f"shape {list(wanted)} is not a shape")
    f.require(not (allowzero and 0 in wanted and -1 in wanted), "0 and -1 together leave -1 undetermined")
    shape: list[Extent] = []
    for i, n in enumerate(wanted):
        f.require(
            n != 0 or allowzero or i < x.rank, f"axis {i} of the shape copies an axis that is not there"
        )
        shape.append(x.shape[i] if n == 0 and not allowzero else n)
    if -1 in wanted:
        at = wanted.index(-1)
        shape[at] = _quotient(f, x.shape, (*shape[:at], *shape[at + 1 :]))
    return tuple(shape)


def _quotient(f: Builder, whole: tuple[Extent, ...], part: tuple[Extent, ...]) -> Extent:
    """The product of `whole` over that of `part`; what stands in both cancels."""
    f.require(0 not in part, f"shape {list(part)} leaves -1 undetermined")
    above, below = list(whole), list[Extent]()
    for n in part:
        if n in above:
            above.remove(n)
        else:
            below.append(n)
    return extent(simplify(product(tuple(above)) // product(tuple(below))))


@op("Reshape")
def reshape_1(
    f: Builder, data: Tensor, *, shape: tuple[int, ...], consumed_inputs: tuple[int, ...] = ()
) -> Tensor:
    """Reshape-1: the shape is an attribute."""
    return reshape_to(f, data, _resolve(f, data, tuple(shape), False))


@op("Reshape", since=5)
def reshape(f: Builder, data: Tensor, shape: Tensor, *, allowzero: int = 0) -> Tensor:
    """The same elements in row-major order (Reshape-14)."""
    if f.is_late(shape):
        return _reshape_at_run_time(f, data, shape, bool(allowzero))
    wanted = f.extents(shape, "shape")
    if not allowzero:
        _require_no_copies(f, data, wanted)
    return reshape_to(f, data, _resolve(f, data, wanted, bool(allowzero)))


def _require_no_copies(f: Builder, x: Tensor, wanted: tuple[Extent, ...]) -> None:
    """A computed extent that is 0 in a run would keep the operand's: the bundle returns ERR_CAPACITY where
    that is another one.
    """
    for old, new in zip(x.shape, wanted, strict=False):
        if not isinstance(new, int) and new != old and interval(new)[0] <= 0:
            n = cast(new, INT64)
            f.confirm(f.map((), select(equal(n, 0), cast(as_expr(old), INT64), n), INT64, "kept"), new)


def _reshape_at_run_time(f: Builder, x: Tensor, shape: Tensor, allowzero: bool) -> Tensor:
    """The extents are read when the bundle runs, and must hold the elements of the input."""
    f.require(shape.rank == 1, f"the shape has rank {shape.rank}, 1 is needed")
    minus, total = Const(-1, INT64), cast(product(x.shape), INT64)

    def number(value: Expr, name: str) -> Expr:
        """A scalar of its own: what reads it several times does not compute it again."""
        return f.map((), value, INT64, name)[()]

    wanted: list[Expr] = []
    for k in range(static(shape.shape[0])):
        n = cast(shape[k], INT64)
        kept = cast(as_expr(x.shape[k]), INT64) if k < x.rank else minus - 1
        n = n if allowzero else select(equal(n, 0), kept, n)
        wanted.append(number(select((n < -1) | (n > FAR), minus - 1, n), "wanted"))
    others: Expr = Const(1, INT64)
    for n in wanted:  # cut at each step: no overflow
        factor = select(equal(n, -1), Const(1, INT64), maximum(n, 0))
        others = number(minimum(others * factor, total + 1), "others")
    rest = number(select(others > 0, total // maximum(others, 1), 0), "rest")
    resolved = [select(equal(n, -1), rest, n) for n in wanted]
    held: Expr = Const(1, INT64)
    for n in resolved:
        held = number(minimum(held * maximum(n, 0), total + 1), "held")
    counts = [select(equal(held, total), n, minus) for n in resolved]
    extents = f.measured_shape(counts, [extent(product(x.shape)) if len(counts) == 1 else None] * len(counts))
    if simplify(product(extents) - product(x.shape)) == Const(0):
        return reshape_to(f, x, extents)
    f.view = x
    axes = f.axes(extents)
    flat: Expr = Const(0)
    for a, m in zip(axes, extents, strict=True):
        flat = flat * as_expr(m) + a
    index: list[Expr] = []
    for m in reversed(x.shape[1:]):
        index.append(flat % as_expr(m) if m != 0 else Const(0))
        flat = flat // as_expr(m) if m != 0 else flat
    place = (flat, *reversed(index)) if x.rank else ()
    return f.map(axes, x.at(place, outside=0), x.type)


@op("Flatten")
def flatten(f: Builder, x: Tensor, *, axis: int = 1) -> Tensor:
    """[d0 .. d(axis-1), d(axis) .. dn] as a matrix (Flatten-13)."""
    f.require(-x.rank <= axis <= x.rank, f"axis {axis} is out of range for rank {x.rank}")
    axis = axis + x.rank if axis < 0 else axis
    return reshape_to(f, x, (extent(product(x.shape[:axis])), extent(product(x.shape[axis:]))))


@op("Squeeze")
def squeeze_1(f: Builder, data: Tensor, *, axes: tuple[int, ...] | None = None) -> Tensor:
    """Squeeze-1, -11: the axes are an attribute. Without them no extent may leave open whether it is one; of
    an extent that is data the run tells, and the bundle returns ERR_CAPACITY where it is.
    """
    if axes is None:
        drop, open_ = {d for d, n in enumerate(data.shape) if n == 1}, _may_be_one(data)
        chosen = [str(d) for d in open_ if not is_data(data.shape[d])]
        f.require(
            not chosen,
            f"without axes, and axis {', '.join(chosen)} of {shapes_text((data.shape,))} may have one element"
            " or more: the rank would depend on the run. Give the axes, or another bound of the dimension",
        )
    else:
        drop = {f.axis(a, data.rank) for a in axes}
        open_ = [a for a in sorted(drop) if is_data(data.shape[a])]
        for a in sorted(drop - {*open_}):
            f.require(data.shape[a] == 1, f"axis {a} of {list(data.shape)} has more than one element")
    kept = tuple(n for i, n in enumerate(data.shape) if i not in drop)
    if not open_:
        return reshape_to(f, data, kept)
    for a in open_:  # whether it has one element shows when the bundle runs
        is_one = equal(as_expr(data.shape[a]), 1)
        f.confirm(f.map((), select(is_one, Const(1, INT64), Const(0, INT64)), name="one"), int(a in drop))
    points = f.axes(kept)
    rest = iter(points)
    index = tuple(Const(0) if i in drop else next(rest) for i in range(data.rank))
    return f.map(points, data.at(index, outside=0), data.type)


def _may_be_one(t: Tensor) -> list[int]:
    """The axes that may have one element or another number."""
    ends = [interval(n) for n in t.shape]
    return [d for d, (lo, hi) in enumerate(ends) if lo <= 1 <= hi and lo != hi]


@op("Squeeze", since=13)
def squeeze(f: Builder, data: Tensor, axes: Tensor | None = None) -> Tensor:
    """Without the given axes of one element, or without all of them (Squeeze-13)."""
    declared = f.declared(axes)
    if declared is not None:
        return reshape_to(f, data, declared)
    return squeeze_1(f, data, axes=None if axes is None else f.integers(axes, "axes"))


@op("Unsqueeze")
def unsqueeze_1(f: Builder, data: Tensor, *, axes: tuple[int, ...]) -> Tensor:
    """Unsqueeze-1, -11: the axes are an attribute."""
    rank = data.rank + len(axes)
    new = {f.axis(a, rank) for a in axes}
    f.require(len(new) == len(axes), f"axes {list(axes)} repeat")
    old = iter(data.shape)
    return reshape_to(f, data, tuple(1 if i in new else next(old) for i in range(rank)))


@op("Unsqueeze", since=13)
def unsqueeze(f: Builder, data: Tensor, axes: Tensor) -> Tensor:
    """With axes of one element put in at the given places of the result (Unsqueeze-13)."""
    declared = f.declared(axes)
    if declared is not None:
        return reshape_to(f, data, declared)
    return unsqueeze_1(f, data, axes=f.integers(axes, "axes"))


@op("Shape")
def shape(f: Builder, data: Tensor, *, start: int = 0, end: int | None = None) -> Tensor:
    """The extents of axes start .. end (Shape-15: both clamped to the rank, negative ones count from it)."""
    first, last = (min(max(v + data.rank if v < 0 else v, 0), data.rank) for v in (start, _end(data, end)))
    return _numbers(f, data.shape[first : max(first, last)])


def _end(data: Tensor, end: int | None) -> int:
    return data.rank if end is None else end


def _numbers(f: Builder, extents: tuple[Extent, ...]) -> Tensor:
    if all(isinstance(n, int) for n in extents):
        return f.constant(np.array(extents, np.int64), "shape")
    out = f.empty(INT64, (len(extents),), "shape")
    for i, n in enumerate(extents):
        f.put(out, (), (i,), cast(as_expr(n), INT64))
    return out


@op("Size")
def size(f: Builder, data: Tensor) -> Tensor:
    """How many elements there are (Size-13)."""
    total = extent(product(data.shape))
    if isinstance(total, int):
        return f.constant(np.array(total, np.int64), "size")
    return f.map((), cast(as_expr(total), INT64), name="size")
