"""Where elements are set: NonZero and Compress. How many there are is data, so the model declares the shape.

In: a tensor, or a condition. Out: places, or the elements there. A bundle returns an error code where it
finds another number of them than the model declares.
"""

from __future__ import annotations

from ingot.errors import UnsupportedError
from ingot.formula.expr import (
    Const,
    Expr,
    Extent,
    Gathered,
    Tensor,
    Var,
    call,
    cast,
    equal,
    extent,
    select,
    wrap,
)
from ingot.formula.index import as_expr, product
from ingot.formula.types import BOOL, INT64
from ingot.ops.registry import Builder, op


def set_places(f: Builder, x: Tensor, count: Extent) -> Tensor:
    """The places of the elements that are not 0, counted in row-major order: `count` of them, then a spare.

    The spare takes what is not set. A place too many would go behind it, one too few stays -1: either leaves
    its range where it is used.
    """
    m = as_expr(count)
    (k,) = f.axes((extent(m + 1),), "k")
    places = f.map((k,), Const(-1, INT64), name="places")
    found = f.map((), Const(0, INT64), name="found")
    n = product(x.shape)
    i = Var("i", n)

    def body() -> None:
        e = x[_point(i, x.shape)]
        is_set: Expr = e if x.type is BOOL else call("not", equal(e, wrap(0, e.dtype)))
        spare = cast(m, INT64)
        slot = select(is_set, select(found[()] < spare, found[()], spare + 1), spare)
        f.put(places, (), (Gathered(slot, Const(0), m + 1),), cast(i, INT64))
        f.put(found, (), (), found[()] + select(is_set, Const(1, INT64), Const(0, INT64)))

    f.scan(i, (places, found), body)
    return places


def _point(i: Expr, shape: tuple[Extent, ...]) -> tuple[Expr, ...]:
    """The index of element i in row-major order; the first axis is not wrapped around."""
    strides = [product(shape[d + 1 :]) for d in range(len(shape))]
    wrapped = [i // s for s in strides]
    return tuple(w if d == 0 else w % n for d, (w, n) in enumerate(zip(wrapped, shape, strict=True)))


def _data_point(place: Expr, shape: tuple[Extent, ...]) -> tuple[Expr, ...]:
    """The same for a place that is data."""
    strides = [cast(product(shape[d + 1 :]), INT64) for d in range(len(shape))]
    index = []
    for d, (s, n) in enumerate(zip(strides, shape, strict=True)):
        at = place // s
        index.append(Gathered(at if d == 0 else at % cast(as_expr(n), INT64), Const(0), as_expr(n)))
    return tuple(index)


def _declared(f: Builder) -> tuple[Extent, ...]:
    shape = f.node.outputs[0].shape if f.node.outputs and f.node.outputs[0] is not None else None
    if shape is None:
        reason = "the shape of its output is known at run time only; declare it in the model"
        raise UnsupportedError(f"{f.node.label}: {reason}")
    return shape


@op("Compress", since=9)
def compress(f: Builder, x: Tensor, condition: Tensor, *, axis: int | None = None) -> Tensor:
    """The slices along an axis (without one: the elements) whose condition is set (Compress-11)."""
    f.same_type((condition,), "b")
    f.require(condition.rank == 1 and x.rank > 0, "a condition of one axis is needed")
    shape = _declared(f)
    a = 0 if axis is None else f.axis(axis, x.rank)
    f.require(len(shape) == (1 if axis is None else x.rank), f"declared as {list(shape)}")
    places = set_places(f, condition, shape[a])
    axes = f.axes(shape)
    if axis is None:
        return f.map(axes, x.at(_data_point(places[axes[0]], x.shape)), x.type)
    place = Gathered(places[axes[a]], Const(0), as_expr(x.shape[a]))
    return f.map(axes, x.at((*axes[:a], place, *axes[a + 1 :])), x.type)


@op("NonZero", since=9)
def non_zero(f: Builder, x: Tensor) -> Tensor:
    """y[d, k] = the index along axis d of the k-th element that is not 0 (NonZero-13)."""
    shape = _declared(f)
    f.require(len(shape) == 2 and shape[0] == x.rank, f"declared as {list(shape)}")
    places = set_places(f, x, shape[1])
    y = f.empty(INT64, shape)
    (k,) = f.axes(shape[1:], "k")
    for d, index in enumerate(_data_point(places[k], x.shape)):
        f.put(y, (k,), (d, k), cast(index, INT64))
    return y
