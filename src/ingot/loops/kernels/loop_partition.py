"""Maps whose conditions turn at fixed places of an axis, cut there: each piece is a map without them.

    y[i] = 0 <= i - 1 < 57 ? x[i - 1] : 0    ->    y[0] = 0;  y[i] = x[i - 1] for 1 <= i < 58;  y[58] = 0

The conditions are guards of reads that may lie outside (Pad), comparisons, minima and maxima of indices
(edges that are repeated), and remainders that begin anew (edges that are mirrored). Halide and TVM know this
as loop partitioning. In: a stage that maps elements to elements. Out: the statements that other families
write for the pieces, or None if there is nothing to cut. Called by `generate`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from ingot.formula.compute import Compute
from ingot.formula.expr import (
    Binary,
    Const,
    Expr,
    Load,
    Var,
    loads,
    static,
    substitute,
    walk,
)
from ingot.formula.index import (
    Bounds,
    Linear,
    as_expr,
    from_linear,
    interval,
    linear,
    mentions,
    simplify,
)
from ingot.formula.statements import For, Statement
from ingot.formula.types import INDEX
from ingot.loops.decided import HOLDS, decided, index_range
from ingot.loops.kernels.family import Request, Written
from ingot.loops.layout import Storage, bind
from ingot.loops.rewrite import hoisted

MOST_PIECES = 6  # of an axis: each of them has loops of its own
DIVISIONS = ("mod", "floordiv")
Decision = Callable[[int], tuple[int, ...]]


def partitioned(r: Request) -> Written | None:
    """The pieces of the outermost axis that is cut, inside loops over those around it that its conditions
    leave alone.
    """
    c = r.compute
    if r.target.vector_bytes == 0 or c.reduction is not None:
        return None
    if not c.axes or not all(isinstance(a.extent, int) for a in c.axes):
        return None
    order = _in_storage_order(c, r.storage)
    cut = next(((a, ends) for a in order if (ends := _ends(c, a, r))), None)
    if cut is None:
        return None
    axis, ends = cut
    r = replace(r, storage=_with_all_axes(c, r.storage))
    beside = _beside(c, axis, r)
    outer = next((a for a in order[: order.index(axis)] if a not in beside), None)
    if outer is None:
        return tuple(_pieces(c, axis, ends, r)), 1
    body = r.around((_restricted(c, outer, (), outer, r.bounds),), outer)
    return hoisted(For(outer.name, Const(0), as_expr(outer.extent or 0), 1, body)), 1


def _in_storage_order(c: Compute, storage: Storage) -> tuple[Var, ...]:
    """The axes as the elements that they lead to stand in memory, the outermost first."""
    index = storage.layout(c.out).index(c.index)

    def place(a: Var) -> int:
        return next((d for d, i in enumerate(index) if mentions(i, a.name)), len(index))

    return tuple(sorted(c.axes, key=place))


def _with_all_axes(c: Compute, storage: Storage) -> Storage:
    """The storage with the tensors' axes as they are: pieces of one kernel share no views of their own."""
    tensors = {storage.tensor(t) for t in (c.out, *(x.tensor for x in loads(c.value)))}
    return replace(storage, fixed=storage.fixed | tensors)


def _pieces(c: Compute, axis: Var, ends: list[int], r: Request) -> Iterator[Statement]:
    for lo, hi in zip([0, *ends], [*ends, static(axis.extent)], strict=True):
        part = Var(axis.name, hi - lo)
        yield from r.some_rows(c, _restricted(c, axis, (part,), part + lo, r.bounds), {})


def _restricted(c: Compute, axis: Var, inner: tuple[Var, ...], value: Expr, bounds: Bounds) -> Compute:
    """The stage with the axis at `value`, which may run over `inner`; what is decided there is left out."""
    axes = tuple(x for a in c.axes for x in (inner if a is axis else (a,)))
    everywhere = {**bounds, axis.name: interval(axis), **{a.name: interval(a) for a in axes}}
    here = {axis.name: value}
    index = tuple(simplify(substitute(i, here), everywhere) for i in c.index)
    return replace(c, axes=axes, value=decided(substitute(c.value, here), everywhere), at=index)


def _ends(c: Compute, axis: Var, r: Request) -> list[int]:
    """Where the pieces of an axis end, but for the last; empty where it is not cut."""
    if not any(map(_may_turn, walk(c.value))):
        return []
    ends, first, extent = list[int](), 0, static(axis.extent)
    bounds = {**r.bounds, **{a.name: interval(a) for a in c.axes}}
    while first < extent and len(ends) < MOST_PIECES:
        here = {**bounds, axis.name: (first, extent - 1)}
        value = bind(decided(c.value, here), r.storage, here)
        turns = [t for n in walk(value) if (t := _turn(n, axis, first, extent, bounds)) is not None]
        if not turns:
            return ends
        first = min(turns)
        ends.append(first)
    return []


def _beside(c: Compute, axis: Var, r: Request) -> set[Expr | None]:
    """The axes that conditions compare together with one that is cut: pieces have them inside."""
    bounds = {**r.bounds, **{a.name: interval(a) for a in c.axes}}
    conditions = (n for n in walk(bind(c.value, r.storage, bounds)) if isinstance(n, Binary) and _may_turn(n))
    forms = (linear(n.a - n.b) for n in conditions if n.op in HOLDS)
    return {a for form in forms if axis in form for a in form}


def _turn(e: Expr, axis: Var, first: int, extent: int, bounds: Bounds) -> int | None:
    """The first place behind `first` at which an expression decides otherwise than it does there."""
    decision = _decision(e, axis, bounds)
    if decision is None:
        return None
    before = decision(first)
    found = bisect_left(range(extent), True, lo=first, key=lambda i: decision(i) != before)
    return found if found < extent else None


def _may_turn(e: Expr) -> bool:
    """Whether an expression guards a read, or compares, picks or divides indices."""
    if isinstance(e, Load):
        return e.outside is not None
    return isinstance(e, Binary) and e.a.dtype is INDEX and (e.op in HOLDS or e.op in DIVISIONS)


def _decision(e: Expr, axis: Var, bounds: Bounds) -> Decision | None:
    """What an expression decides at a place of the axis, if it turns once or ever on; None without one."""
    if not isinstance(e, Binary) or not _may_turn(e):
        return None
    if e.op in HOLDS:
        return _compared(linear(e.a - e.b), axis, HOLDS[e.op], bounds)
    if isinstance(e.b, Const) and e.b.value > 0:
        return _along(linear(e.a), axis, partial(_periods, int(e.b.value)))
    return None


def _periods(period: int, i: int) -> int:
    """How many periods have begun."""
    return i // period


def _along(form: Linear, axis: Var, what: Callable[[int], int]) -> Decision | None:
    """What is said of an index, by the place of the axis; None where it moves with something else."""
    if form.keys() - {None} != {axis}:
        return None
    slope, start = form[axis], form.get(None, 0)
    return lambda i: (what(slope * i + start),)


def _compared(form: Linear, axis: Var, holds: Callable[[float], bool], bounds: Bounds) -> Decision | None:
    """Whether a comparison holds for the least and for the largest difference that others make at a place of
    the axis; None where another axis moves it further, which is the one to cut.
    """
    others = {a: n for a, n in form.items() if a is not axis}
    moving = others.keys() - {None}
    if axis not in form or not all(isinstance(a, Var) and a.name in bounds for a in moving):
        return None
    slope = form[axis]
    if any(abs(others[a]) >= abs(slope) for a in moving):
        return None
    least, most = index_range(from_linear(others), bounds)
    return lambda i: (holds(slope * i + least), holds(slope * i + most))
