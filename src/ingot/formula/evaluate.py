"""The formula evaluator: a definition, run as it stands, is the reference the loops and the C are tested
against.

Points are evaluated on numpy index grids, in tiles: a big convolution never materialises all of axes x
reduction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ingot.errors import InputError
from ingot.formula.compute import Compute, Formula, Scan, Stage, is_one_by_one, writes
from ingot.formula.expr import (
    Array,
    Binary,
    Bitcast,
    Byte,
    Cast,
    Const,
    Entry,
    Expr,
    Extent,
    Fma,
    Gathered,
    Joined,
    Load,
    Param,
    Select,
    Tensor,
    Text,
    Unary,
    Var,
    static,
)
from ingot.formula.operations import BINARY, REDUCE, UNARY, convert, fma
from ingot.formula.types import DType

TILE_POINTS = 1 << 22
Grid = dict[str, Any]
Arrays = dict[Tensor, Array]


class IndexOutOfRange(InputError):
    """A data-dependent index or count left its range (ERR_INDEX, ERR_CAPACITY in a bundle)."""


def evaluate(
    formula: Formula, inputs: Iterable[Array], params: Mapping[str, int] | None = None
) -> list[Array]:
    """The outputs of a formula for concrete inputs. Raises IndexOutOfRange where a bundle would return
    ERR_INDEX.
    """
    arrays: Arrays = dict(zip(formula.inputs, inputs, strict=True))
    with np.errstate(all="ignore"):
        run_stages(formula.stages, arrays, dict(params or {}))
    return [arrays[t] for t in formula.outputs]


def run_stages(stages: Iterable[Stage], arrays: Arrays, grid: Grid) -> None:
    """Run stages in order; what they write is added to `arrays`."""
    for stage in stages:
        if isinstance(stage, Scan):
            for out in writes(stage):
                _allocate(out, arrays, grid)  # here, for there may be no step
            for t in range(size(stage.axis.extent, grid, arrays)):
                if stage.active is not None and not arrays[stage.active]:
                    break
                run_stages(stage.body, arrays, {**grid, stage.axis.name: np.int64(t)})
        else:
            _compute(stage, arrays, grid)


def size(n: Extent | None, grid: Grid, arrays: Mapping[Tensor, Array] | None = None) -> int:
    assert n is not None
    return n if isinstance(n, int) else int(value(n, arrays or {}, grid))


def _allocate(t: Tensor, arrays: Arrays, grid: Grid) -> None:
    if t not in arrays:
        arrays[t] = np.zeros([size(n, grid, arrays) for n in t.shape], t.type.numpy)


def _compute(c: Compute, arrays: Arrays, grid: Grid) -> None:
    _allocate(c.out, arrays, grid)
    extents = [size(a.extent, grid, arrays) for a in c.axes]
    if 0 in extents:
        return
    if is_one_by_one(c):
        for point in np.ndindex(*extents):
            _tile(c, arrays, grid, [(i, i + 1) for i in point])
        return
    inner = int(np.prod([size(a.extent, grid, arrays) for a in c.reduction.axes])) if c.reduction else 1
    for ranges in _tiles([(0, n) for n in extents], max(1, TILE_POINTS // max(1, inner))):
        _tile(c, arrays, grid, ranges)


def _tiles(ranges: list[tuple[int, int]], limit: int) -> Iterable[list[tuple[int, int]]]:
    """Halve the longest range until a tile has at most `limit` points."""
    lengths = [hi - lo for lo, hi in ranges]
    if int(np.prod(lengths, dtype=object)) <= limit or max(lengths) <= 1:
        yield ranges
        return
    i = int(np.argmax(lengths))
    lo, hi = ranges[i]
    for part in ((lo, (lo + hi) // 2), ((lo + hi) // 2, hi)):
        yield from _tiles([*ranges[:i], part, *ranges[i + 1 :]], limit)


def _tile(c: Compute, arrays: Arrays, grid: Grid, ranges: list[tuple[int, int]]) -> None:
    shape = [hi - lo for lo, hi in ranges]
    point = dict(grid)
    for i, (axis, (lo, hi)) in enumerate(zip(c.axes, ranges, strict=True)):
        point[axis.name] = np.arange(lo, hi).reshape([-1 if i == j else 1 for j in range(len(ranges))])
    if c.reduction is not None:
        point["acc"] = _reduce(c, arrays, point, shape)
    result = np.broadcast_to(value(Cast(c.value, c.out.type), arrays, point), shape)
    if not c.at:
        arrays[c.out][tuple(slice(lo, hi) for lo, hi in ranges)] = result
        return
    at = [np.broadcast_to(value(i, arrays, point), shape) for i in c.at]
    for place, n in zip(at, arrays[c.out].shape, strict=True):
        _require(bool(np.all((place >= 0) & (place < n))), f"{c.out.name} is written outside its shape")
    arrays[c.out][tuple(at)] = result


def _reduce(c: Compute, arrays: Arrays, point: Grid, shape: list[int]) -> Array:
    r = c.reduction
    assert r is not None
    rank, extents = len(shape), [size(a.extent, point, arrays) for a in r.axes]
    trailing = (..., *([None] * len(extents)))
    inner = {k: v[trailing] if isinstance(v, np.ndarray) and v.ndim else v for k, v in point.items()}
    for i, (axis, n) in enumerate(zip(r.axes, extents, strict=True)):
        inner[axis.name] = np.arange(n).reshape([-1 if j == i else 1 for j in range(len(extents))])
    init = np.broadcast_to(value(r.init, arrays, point), shape)
    if 0 in extents:
        return init
    term = np.broadcast_to(value(r.term, arrays, inner), [*shape, *extents])
    axes = tuple(range(rank, rank + len(extents)))
    ufunc = REDUCE[r.combine]
    total = ufunc.reduce(term, axis=axes, dtype=term.dtype) if axes else term
    return np.asarray(ufunc(init, total))


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise IndexOutOfRange(message)


def value(e: Expr, arrays: Mapping[Tensor, Array], grid: Grid, guarded: bool = False) -> Any:
    """The value of an expression on an index grid. `guarded`: under a Select, where unread elements may lie
    outside.
    """
    match e:
        case Const(v, dtype) | Text(v, dtype):
            return dtype.numpy.type(v)
        case Param(name, source=source):
            return grid[name] if source is None else np.int64(arrays[source].reshape(-1)[0])
        case Var(name):
            return grid[name]
        case Unary(op, a):
            return UNARY[op](value(a, arrays, grid, guarded))
        case Binary(op, a, b):
            return BINARY[op](value(a, arrays, grid, guarded), value(b, arrays, grid, guarded))
        case Fma(a, b, c):
            return fma(*(value(x, arrays, grid, guarded) for x in (a, b, c)))
        case Select(c, a, b):
            chosen = value(c, arrays, grid, guarded)
            return np.where(chosen, value(a, arrays, grid, True), value(b, arrays, grid, True))
        case Entry(numbers, place, dtype):
            table = np.asarray(numbers, dtype.numpy)
            return table[value(place, arrays, grid, guarded) % len(numbers)]
        case Cast(Load(tensor) as a, dtype) if dtype is tensor.type:
            return _load(a, arrays, grid, guarded, dtype)
        case Cast(a, dtype):
            return convert(value(a, arrays, grid, guarded), dtype)
        case Bitcast(a, dtype):
            return np.asarray(value(a, arrays, grid, guarded)).view(dtype.numpy)
        case Byte(a, k):
            return byte_of(value(a, arrays, grid, guarded), a.dtype, value(k, arrays, grid, guarded))
        case Joined(row, dtype):
            return _joined(row, dtype, arrays, grid)
        case Load():
            return _load(e, arrays, grid, guarded, e.dtype)
        case Gathered(v, lo, hi):
            index = np.asarray(value(v, arrays, grid, guarded)).astype(np.int64)
            low, high = value(lo, arrays, grid), value(hi, arrays, grid)
            inside = guarded or bool(np.all((index >= low) & (index < high)))
            _require(inside, f"an index or a count is out of range ({e.error})")
            return index
    raise TypeError(f"no meaning for {e!r}")


def grid_over(names: Iterable[str], extents: Iterable[int]) -> Grid:
    """The points of a box: for each name its indices, along a dimension of its own."""
    return dict(zip(names, np.ogrid[tuple(map(slice, extents))], strict=True))


def value_over(e: Expr, axes: Sequence[Var]) -> Array:
    """An expression of constants at every point of axes of known extents: an array with their shape."""
    extents = tuple(static(a.extent) for a in axes)
    return np.broadcast_to(value(e, {}, grid_over((a.name for a in axes), extents)), extents)


def byte_of(strings: Any, dtype: DType, k: Any) -> Array:
    """Byte k of each string, zeros behind its end included."""
    flat = np.asarray(strings, dtype.numpy).reshape(-1).view(np.uint8)
    shape = np.broadcast_shapes(np.shape(strings), np.shape(k))
    rows = np.broadcast_to(flat.reshape((*np.shape(strings), dtype.bytes)), (*shape, dtype.bytes))
    return np.asarray(np.take_along_axis(rows, np.broadcast_to(k, shape)[..., None], -1)[..., 0])


def _joined(row: Load, dtype: DType, arrays: Mapping[Tensor, Array], grid: Grid) -> Array:
    """The rows of bytes that begin at `row`, which is the first of its last axis."""
    lead = [np.asarray(value(i, arrays, grid))[..., None] for i in row.index[:-1]]
    array = arrays[row.tensor] if row.tensor.value is None else row.tensor.value
    rows = np.ascontiguousarray(array[tuple([*lead, np.arange(dtype.bytes)])])
    return np.asarray(rows.view(dtype.numpy)[..., 0])


def _load(e: Load, arrays: Mapping[Tensor, Array], grid: Grid, guarded: bool, dtype: DType) -> Any:
    """The element as `dtype`: the tensor's own, or the one it is computed with."""
    array = e.tensor.value if e.tensor.value is not None else arrays[e.tensor]
    index = [np.asarray(value(i, arrays, grid, guarded)) for i in e.index]
    inside: Any = True
    for i, n in zip(index, array.shape, strict=True):
        inside = inside & (i >= 0) & (i < n)
    everywhere = bool(np.all(inside))
    if everywhere:
        return array[tuple(index)].astype(dtype.numpy)
    _require(guarded or e.outside is not None, f"{e.tensor.name} is read outside its shape")
    other = convert(value(e.outside, arrays, grid), dtype) if e.outside is not None else dtype.numpy.type(0)
    if array.size == 0:
        return np.broadcast_to(other, np.broadcast_shapes(*(i.shape for i in index)))
    clipped = tuple(np.clip(i, 0, n - 1) for i, n in zip(index, array.shape, strict=True))
    return np.where(inside, array[clipped].astype(dtype.numpy), other)
