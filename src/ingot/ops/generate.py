"""Tensors made from little or nothing: constants of a shape, ranges, identity matrices."""

from __future__ import annotations

import math

import numpy as np

from ingot.formula.expr import (
    Array,
    Const,
    Expr,
    Extent,
    Tensor,
    call,
    cast,
    equal,
    maximum,
    select,
    static,
    wrap,
)
from ingot.formula.extents import extent
from ingot.formula.index import as_expr
from ingot.formula.types import FLOAT64, INT64, dtype_of
from ingot.graph.onnx_types import dtype_from_onnx
from ingot.ops.registry import Builder, op

FAR = 1 << 30  # beyond every axis: diagonals further out are all the same


@op("ConstantOfShape", since=9)
def constant_of_shape(f: Builder, shape: Tensor, *, value: Array | None = None) -> Tensor:
    """One value everywhere; float32 zeros by default (ConstantOfShape-20)."""
    if f.is_late(shape):
        counts = [cast(shape[k], INT64) for k in range(static(shape.shape[0]))]
        extents = f.measured_shape(counts, [None] * len(counts))
    else:
        extents = f.extents(shape, "shape")
    f.require(all(not isinstance(n, int) or n >= 0 for n in extents), f"shape {list(extents)} is negative")
    fill = np.zeros(1, np.float32) if value is None else np.asarray(value)
    f.require(fill.size == 1, f"the value has {fill.size} elements instead of one")
    dtype = dtype_of(fill)
    return f.map(f.axes(extents), wrap(fill.reshape(-1)[0].item(), dtype.compute), dtype)


@op("EyeLike", since=9)
def eye_like(f: Builder, x: Tensor, *, dtype: int | None = None, k: int = 0) -> Tensor:
    """1 on the k-th diagonal of a matrix, 0 elsewhere (EyeLike-22)."""
    f.require(x.rank == 2, f"rank {x.rank}, a matrix is needed")
    to = x.type if dtype is None else dtype_from_onnx(dtype)
    i, j = f.axes(x.shape, "i j")
    on = equal(j, i + min(max(k, -FAR), FAR))
    return f.map((i, j), select(on, wrap(1, to.compute), wrap(0, to.compute)), to)


@op("Range", since=11)
def range_(f: Builder, start: Tensor, limit: Tensor, delta: Tensor, *, stash_type: int = 1) -> Tensor:
    """y[i] = start + i * delta, for max(ceil((limit - start) / delta), 0) elements (Range-27)."""
    for t in (start, limit, delta):
        f.require(t.count == 1, f"{t.name!r} is {list(t.shape)}, one element is needed")
    if f.is_late(start, limit, delta):
        n: Extent = f.measured(f.map((), _count(start, limit, delta), name="count"), None)
    elif any(t.known is not None for t in (start, limit)):
        n = _known_count(f, start, limit, delta)
    else:
        first, last, step = (
            f.static(t, what).reshape(-1)[0].item()
            for t, what in ((start, "start"), (limit, "limit"), (delta, "delta"))
        )
        f.require(step != 0, "delta is 0")
        n = max(_steps(first, last, step), 0)
    (i,) = f.axes((n,), "i")
    x: Expr = start[(Const(0),) * start.rank]
    return f.map((i,), x + cast(i, x.dtype) * delta[(Const(0),) * delta.rank], start.type)


def _known_count(f: Builder, start: Tensor, limit: Tensor, delta: Tensor) -> Extent:
    """The number of elements between run-time extents."""
    (first,), (last,) = f.extents(start, "start"), f.extents(limit, "limit")
    (step,) = f.integers(delta, "delta")
    f.require(step != 0, "delta is 0")
    span = as_expr(last) - first if step > 0 else as_expr(first) - last
    return extent(maximum((span + (abs(step) - 1)) // abs(step), 0))


def _count(start: Tensor, limit: Tensor, delta: Tensor) -> Expr:
    """The number of elements; the quotient is a float64, as in onnxruntime. -1 where delta is 0."""
    first, last, step = (t[(0,) * t.rank] for t in (start, limit, delta))
    wide = INT64 if first.dtype.is_integer else first.dtype
    turns = call("ceil", cast(cast(last, wide) - cast(first, wide), FLOAT64) / cast(step, FLOAT64))
    return select(equal(step, wrap(0, step.dtype)), Const(-1, INT64), maximum(cast(turns, INT64), 0))


def _steps(first: float, last: float, step: float) -> int:
    if isinstance(first, int) and isinstance(last, int) and isinstance(step, int):
        return -((first - last) // step)
    return math.ceil((last - first) / step)
