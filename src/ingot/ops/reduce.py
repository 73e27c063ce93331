"""Reductions: over axes to a number, to the position of the extreme, and running along an axis.

In: tensors, axes as attributes or as inputs. Out: reductions, and Scans for CumSum and CumProd. Axes that are
known at run time only are served where the model declares the output's shape.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ingot.formula.expr import (
    Const,
    Expr,
    Extent,
    Operand,
    Tensor,
    Var,
    binary,
    call,
    cast,
    equal,
    select,
    wrap,
)
from ingot.formula.extents import extent
from ingot.formula.index import as_expr, product
from ingot.formula.types import BOOL, FLOAT64, INT64, DType
from ingot.ops.registry import Builder, op

Axes = tuple[Var, ...]
Step = Callable[[Expr], Expr]


def same(x: Expr) -> Expr:
    return x


@dataclass(frozen=True, slots=True)
class Over:
    """What a reduction of x runs over: its result's axes and its own, the element read, which of them count.

    `point` is the result's index for an element of x, `count` how many elements one result comes from.
    """

    outer: Axes
    inner: Axes
    index: tuple[Expr, ...]
    count: Expr
    guard: Expr | None = None

    def reduce(
        self,
        f: Builder,
        combine: str,
        term: Expr,
        *,
        init: Operand = 0,
        post: Step = same,
        dtype: DType | None = None,
        name: str = "y",
    ) -> Tensor:
        """The reduction of `term`; a term that does not count is the start value, which changes nothing."""
        if self.guard is not None:
            term = select(self.guard, term, init)
        return f.reduce(combine, self.outer, self.inner, term, init=init, post=post, dtype=dtype, name=name)


def over_axes(f: Builder, x: Tensor, axes: tuple[int, ...], keepdims: int) -> Over:
    """Over axes that are known: each stays with extent 1 where `keepdims` is set."""
    chosen = {f.axis(a, x.rank) for a in axes}
    outer = [Var(f"i{d}", 1 if d in chosen else extent(n)) for d, n in enumerate(x.shape)]
    inner = {d: Var(f"k{d}", extent(x.shape[d])) for d in sorted(chosen)}
    index = tuple(inner.get(d, outer[d]) for d in range(x.rank))
    kept = [v for d, v in enumerate(outer) if keepdims or d not in chosen]
    return Over(
        tuple(kept), tuple(inner.values()), index, product(tuple(v.extent or 0 for v in inner.values()))
    )


def over_input(f: Builder, x: Tensor, axes: Tensor | None, keepdims: int, noop: int) -> Over:
    """Over the axes that an input names; none of them means all, or with `noop` none."""
    if axes is None or axes.count == 0:
        return over_axes(f, x, () if noop else tuple(range(x.rank)), keepdims)
    shape = f.node.outputs[0].shape if f.node.outputs[0] is not None else None
    if axes.value is not None or shape is None:
        return over_axes(f, x, f.integers(axes, "axes"), keepdims)
    if keepdims and len(shape) == x.rank:
        # the shape says which: an axis of extent 1 that stays 1 is the same reduced or not
        return over_axes(f, x, tuple(d for d in range(x.rank) if shape[d] != x.shape[d]), 1)
    return _over_unknown(f, x, axes, shape)


def _over_unknown(f: Builder, x: Tensor, axes: Tensor, shape: tuple[Extent, ...]) -> Over:
    """Over axes known at run time only: every element is read, those of another result do not count."""
    d, e = Var("d", x.rank), Var("e", x.rank)
    j = f.axes(axes.shape, "j")
    named = equal(axes[j], cast(d, axes.type)) | equal(axes[j], cast(d - x.rank, axes.type))
    reduced = f.reduce("or", (d,), j, named, init=False, name="reduced")
    before = (e < d) & call("not", reduced[e])  # axis d of x is axis `place` of the result
    place = f.reduce("sum", (d,), (e,), cast(before, INT64), name="place")
    extents = f.constant(np.array(f.fixed(x.shape, "what axes known at run time reduce")), "extents")
    counted = select(reduced[d], extents[d], 1)
    count = f.reduce("prod", (), (d,), counted, init=1, name="count")
    outer, inner = f.axes(shape, _letters("o", len(shape))), f.axes(x.shape, _letters("k", x.rank))
    guard: Expr = Const(True, BOOL)
    for i, k in enumerate(inner):
        at: Expr = Const(0)
        for p, o in enumerate(outer):
            at = select(equal(place[i], p), o, at)
        guard = guard & (reduced[i] | equal(k, at))
    return Over(outer, inner, inner, count[()], guard)


def _letters(letter: str, count: int) -> str:
    return " ".join(f"{letter}{i}" for i in range(count))


Kernel = Callable[[Builder, Tensor, Over], Tensor]


def reduction(name: str, kernel: Kernel, *, kinds: str = "fiu", since: int = 18) -> None:
    """Register a reduction; its axes became an input with opset `since`."""

    @op(name, since=since)
    def newer(
        f: Builder,
        x: Tensor,
        axes: Tensor | None = None,
        *,
        keepdims: int = 1,
        noop_with_empty_axes: int = 0,
    ) -> Tensor:
        f.same_type((x,), kinds)
        return kernel(f, x, over_input(f, x, axes, keepdims, noop_with_empty_axes))

    @op(name)
    def older(f: Builder, x: Tensor, *, axes: tuple[int, ...] | None = None, keepdims: int = 1) -> Tensor:
        f.same_type((x,), kinds)
        return kernel(f, x, over_axes(f, x, axes or tuple(range(x.rank)), keepdims))


def simple(combine: str, term: Step = same, post: Step = same, init: Operand = 0) -> Kernel:
    """`post` of a sum or product of `term`s."""

    def kernel(f: Builder, x: Tensor, over: Over) -> Tensor:
        return over.reduce(f, combine, term(x[over.index]), init=init, post=post, dtype=x.type)

    return kernel


def in_floats(function: str) -> Step:
    """The function; integers go through float64 and are truncated."""
    return lambda x: cast(call(function, cast(x, x.dtype if x.dtype.is_float else FLOAT64)), x.dtype)


def extreme(f: Builder, x: Tensor, over: Over, largest: bool, name: str = "y") -> Tensor:
    """The largest or smallest element; of none, the least or greatest of the type (ReduceMax-20)."""
    e = x[over.index]
    if x.type is BOOL:
        return over.reduce(f, "or" if largest else "and", e, init=not largest, name=name)
    init = x.type.compute.lowest if largest else x.type.compute.highest
    return over.reduce(f, "max" if largest else "min", e, init=init, dtype=x.type, name=name)


def mean(f: Builder, x: Tensor, over: Over) -> Tensor:
    """The sum divided by the count, truncated for integers."""
    t = x.type.compute
    n = wrap(over.count.value, t) if isinstance(over.count, Const) else cast(over.count, t)
    return over.reduce(f, "sum", x[over.index], post=lambda acc: acc / n, dtype=x.type)


def log_sum_exp(f: Builder, x: Tensor, over: Over) -> Tensor:
    """log(sum(e^x)) == m + log(sum(e^(x - m))) with m the largest x, or 0 where that is infinite."""
    top = extreme(f, x, over, True, name="top")
    t = x.type.compute if x.type.is_float else FLOAT64
    m = cast(top[over.outer], t)
    m = select(call("isinf", m), 0, m)
    term = call("exp", cast(x[over.index], t) - m)
    return over.reduce(
        f, "sum", term, post=lambda acc: cast(call("log", acc) + m, x.type.compute), dtype=x.type
    )


reduction("ReduceSum", simple("sum"), since=13)
reduction("ReduceProd", simple("prod", init=1))
reduction("ReduceMean", mean)
reduction("ReduceMax", lambda f, x, over: extreme(f, x, over, True), kinds="fiub")
reduction("ReduceMin", lambda f, x, over: extreme(f, x, over, False), kinds="fiub")
reduction("ReduceL1", simple("sum", lambda x: call("abs", x)))
reduction("ReduceL2", simple("sum", lambda x: x * x, in_floats("sqrt")))
reduction("ReduceSumSquare", simple("sum", lambda x: x * x))
reduction("ReduceLogSum", simple("sum", post=in_floats("log")))
reduction("ReduceLogSumExp", log_sum_exp)


# -- positions of extremes


def position(f: Builder, x: Tensor, over: Over, largest: bool, last: bool, name: str = "y") -> Tensor:
    """Where the extreme stands, counted in row-major order along the axes reduced: first or last of equals.

    A NaN is the extreme, as in numpy.
    """
    top = extreme(f, x, over, largest, name="top")[over.outer]
    here = equal(x[over.index], top)
    if x.type.is_float:
        here = here | call("isnan", x[over.index])
    flat: Expr = Const(0)
    for k in over.inner:
        flat = flat * (k.extent if k.extent is not None else 1) + k
    at, n = cast(flat, INT64), cast_count(over.count)
    if last:
        return over.reduce(f, "max", select(here, at, 0), init=0, name=name)
    return over.reduce(f, "min", select(here, at, n), init=n, name=name)


def cast_count(n: Expr) -> Expr:
    return Const(n.value, INT64) if isinstance(n, Const) else cast(n, INT64)


def _arg(name: str, largest: bool) -> None:
    @op(name)
    def define(
        f: Builder, x: Tensor, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0
    ) -> Tensor:
        f.same_type((x,), "fiu")
        return position(f, x, over_axes(f, x, (axis,), keepdims), largest, bool(select_last_index))


_arg("ArgMax", True)
_arg("ArgMin", False)


def _hardmax(f: Builder, x: Tensor, over: tuple[int, ...]) -> Tensor:
    """1 at the first largest element, 0 elsewhere."""
    where = over_axes(f, x, over, 0)
    first = position(f, x, where, True, False, "first")
    axes = f.axes(x.shape)
    flat: Expr = Const(0)
    for d in over:
        flat = flat * x.shape[d] + axes[d]
    is_first = equal(cast(flat, INT64), first[tuple(a for d, a in enumerate(axes) if d not in over)])
    return f.map(axes, select(is_first, Const(1.0, x.type.compute), 0), x.type)


@op("Hardmax", since=13)
def hardmax(f: Builder, x: Tensor, *, axis: int = -1) -> Tensor:
    f.same_type((x,), "f")
    return _hardmax(f, x, (f.axis(axis, x.rank),))


@op("Hardmax")
def hardmax_1(f: Builder, x: Tensor, *, axis: int = 1) -> Tensor:
    """Before opset 13, over all axes from `axis` on together."""
    f.same_type((x,), "f")
    first = x.rank if axis == x.rank else f.axis(axis, x.rank)
    return _hardmax(f, x, tuple(range(first, x.rank)))


@op("LpNormalization")
def lp_normalization(f: Builder, x: Tensor, *, axis: int = -1, p: int = 2) -> Tensor:
    """x / ||x||_p along an axis; 0 where the norm is."""
    f.same_type((x,), "f")
    f.require(p in (1, 2), f"p is {p}, the operator knows 1 and 2")
    over = over_axes(f, x, (axis,), 0)
    e = x[over.index]
    norm = (
        over.reduce(f, "sum", call("abs", e), name="norm")
        if p == 1
        else over.reduce(f, "sum", e * e, post=lambda acc: call("sqrt", acc), name="norm")
    )
    axes = f.axes(x.shape)
    n = norm[tuple(a for d, a in enumerate(axes) if d != f.axis(axis, x.rank))]
    return f.map(axes, select(equal(n, 0.0), 0.0, x[axes] / n), x.type)


# -- running sums and products


def _running(f: Builder, x: Tensor, axis: int, combine: str, exclusive: int, reverse: int) -> Tensor:
    """y[t] combines x[0] .. x[t] (exclusive: .. x[t-1]; reverse: from the end); it is carried unrounded."""
    axes = f.axes(x.shape)
    rest, step = (*axes[:axis], *axes[axis + 1 :]), Var("t", extent(x.shape[axis]))
    start = wrap(0 if combine == "add" else 1, x.type.compute)
    total = f.map(rest, start, name="total")
    y = f.empty(x.type, x.shape)
    t = as_expr(x.shape[axis]) - 1 - step if reverse else step
    at = (*axes[:axis], t, *axes[axis + 1 :])

    def body() -> None:
        if exclusive:
            f.put(y, rest, at, total[rest])
        f.put(total, rest, rest, binary(combine, total[rest], x[at]))
        if not exclusive:
            f.put(y, rest, at, total[rest])

    f.scan(step, (total,), body)
    return y


def _cumulative(name: str, combine: str, since: int) -> None:
    @op(name, since=since)
    def define(f: Builder, x: Tensor, axis: Tensor, *, exclusive: int = 0, reverse: int = 0) -> Tensor:
        f.same_type((x,), "fiu")
        f.require(x.rank > 0 and axis.count == 1, "a vector or more and one axis are needed")
        if axis.value is not None:
            a = f.axis(int(axis.value.item()), x.rank)
            return _running(f, x, a, combine, exclusive, reverse)
        # an axis known at run time only: each axis' answer, then the one asked for
        answers = [_running(f, x, a, combine, exclusive, reverse) for a in range(x.rank)]
        axes, asked = f.axes(x.shape), axis[(0,) * axis.rank]
        y: Expr = answers[-1][axes]
        for a in range(x.rank - 1):
            y = select(equal(asked, a) | equal(asked, a - x.rank), answers[a][axes], y)
        return f.map(axes, y, x.type)


_cumulative("CumSum", "add", 11)
_cumulative("CumProd", "mul", 26)
