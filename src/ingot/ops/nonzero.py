"""Where elements are set: NonZero and Compress. How many there are is data.

In: a tensor, or a condition. Out: places, or the elements there. Where the model declares their number, a
bundle returns an error code if it finds another.
"""

from __future__ import annotations

import numpy as np

from ingot.formula.expr import (
    Array,
    Const,
    Expr,
    Extent,
    Gathered,
    Tensor,
    Var,
    call,
    cast,
    equal,
    select,
    static,
    wrap,
)
from ingot.formula.extents import extent
from ingot.formula.index import as_expr, product
from ingot.formula.types import BOOL, INDEX, INT64
from ingot.ops.gather import gather
from ingot.ops.registry import Builder, is_data, op


def set_places(f: Builder, x: Tensor) -> tuple[Tensor, Tensor]:
    """The places of the elements that are not 0, in row-major order, and how many there are.

    The first tensor has room for all elements and a spare, which takes what is not set.
    """
    n = product(x.shape)
    (k,) = f.axes((extent(n + 1),), "k")
    places = f.map((k,), Const(0, INT64), name="places")
    found = f.map((), Const(0, INT64), name="found")
    i = Var("i", n)

    met = x.rank > 1 and any(map(is_data, x.shape))  # beyond what is provable

    def body() -> None:
        e = x.at(point(i, x.shape), outside=0 if met else None)
        is_set: Expr = e if x.type is BOOL else call("not", equal(e, wrap(0, e.dtype)))
        slot = select(is_set, found[()], cast(n, INT64))
        f.put(places, (), (Gathered(slot, Const(0), n + 1),), cast(i, INT64))
        f.put(found, (), (), found[()] + select(is_set, Const(1, INT64), Const(0, INT64)))

    f.scan(i, (places, found), body)
    return places, found


def point(i: Expr, shape: tuple[Extent, ...]) -> tuple[Expr, ...]:
    """The index of element i in row-major order; the first axis is not wrapped around."""
    wrapped = [i // _divisor(product(shape[d + 1 :])) for d in range(len(shape))]
    extents = zip(wrapped, shape, strict=True)
    return tuple(w if d == 0 else w % _divisor(n) for d, (w, n) in enumerate(extents))


def _divisor(n: Extent) -> Expr:
    """1 where a tensor is empty: no element's place is asked for, but the quotient is printed."""
    e = as_expr(n)
    return Const(1) if e == Const(0) else e


def data_point(place: Expr, shape: tuple[Extent, ...]) -> tuple[Expr, ...]:
    """The same for a place that is data."""
    strides = [cast(_divisor(product(shape[d + 1 :])), INT64) for d in range(len(shape))]
    index = []
    for d, (s, n) in enumerate(zip(strides, shape, strict=True)):
        at = place // s
        rest = at if d == 0 else at % cast(_divisor(n), INT64)
        index.append(Gathered(rest, Const(0), as_expr(n)))
    return tuple(index)


@op("Compress", since=9)
def compress(f: Builder, x: Tensor, condition: Tensor, *, axis: int | None = None) -> Tensor:
    """The slices along an axis (without one: the elements) whose condition is set (Compress-11)."""
    f.same_type((condition,), "b")
    f.require(condition.rank == 1 and x.rank > 0, "a condition of one axis is needed")
    if condition.value is not None and all(isinstance(n, int) for n in x.shape):
        return _chosen(f, x, np.flatnonzero(condition.value), axis)
    places, found = set_places(f, condition)
    if axis is None:
        axes = f.axes((f.measured(found, condition.shape[0]),))
        return f.map(axes, x.at(data_point(places.at((axes[0],), outside=0), x.shape)), x.type)
    a = f.axis(axis, x.rank)
    count = f.measured(found, condition.shape[0], axis=a)
    axes = f.axes((*x.shape[:a], count, *x.shape[a + 1 :]))
    place = Gathered(places.at((axes[a],), outside=0), Const(0), as_expr(x.shape[a]))
    return f.map(axes, x.at((*axes[:a], place, *axes[a + 1 :])), x.type)


def _chosen(f: Builder, x: Tensor, places: Array, axis: int | None) -> Tensor:
    """The same where it is known now which: how many is no data then."""
    if axis is not None:
        return gather(f, x, f.constant(places, "places"), axis=axis)
    f.require(places.size == 0 or places[-1] < x.count, f"the condition is set beyond {x.count} elements")
    (k,) = f.axes((places.size,), "k")
    index = np.unravel_index(places, tuple(map(static, x.shape)))
    tables = [f.constant(i.astype(np.int32), "places") for i in index]
    return f.map((k,), x.at(tuple(cast(t.at((k,)), INDEX) for t in tables)), x.type)


@op("NonZero", since=9)
def non_zero(f: Builder, x: Tensor) -> Tensor:
    """y[d, k] = the index along axis d of the k-th element that is not 0 (NonZero-13)."""
    places, found = set_places(f, x)
    count = f.measured(found, extent(product(x.shape)), axis=1)
    if x.rank == 0:  # without an index: onnxruntime has a row of a 0, against ONNX
        return f.map(f.axes((0, count)), Const(0, INT64))
    y = f.empty(INT64, (x.rank, count))
    (k,) = f.axes((count,), "k")
    for d, index in enumerate(data_point(places.at((k,), outside=0), x.shape)):
        f.put(y, (k,), (d, k), cast(index, INT64))
    return y
