"""Axes whose extent is known at run time only become loops around what generators write.

    y[n, oc] = ... for n < N          ->          for (n = 0; n < N - N % 8; n += 8)  the kernel for 8 rows
                                                  for (n = N - N % 8; n < N; n++)     the kernel for one

Along such an axis everything must be independent: it is one of a stage's axes, never of its reduction. In a
block it is an axis of fixed extent like any other, so that a matrix product has its tile of rows and a map
its vectors. Stages that touch each other's results at the same element only go around together, as those of a
softmax do. Called by `generate`, once per axis; what is around already is in the bounds, like a scan's step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ingot.formula.compute import Compute, Stage
from ingot.formula.expr import Binary, Const, Expr, Extent, Load, Tensor, Var, loads, substitute
from ingot.formula.index import Bounds, as_expr, interval, mentions, upper
from ingot.formula.statements import For, Statement
from ingot.loops.access import known_strides
from ingot.loops.layout import Storage
from ingot.loops.rewrite import hoisted
from ingot.targets.record import Target

ROWS = 8  # of a matrix product at once
Around = Callable[[tuple[Stage, ...], Var], tuple[Statement, ...]]
"""What generators write for stages inside the loop of a variable."""


def peeled(
    stages: tuple[Stage, ...], storage: Storage, target: Target, around: Around
) -> tuple[tuple[Statement, ...], int] | None:
    """Statements for the first stages, and for how many; None where no axis is to be peeled."""
    first = stages[0]
    axis = _axis(first, storage) if isinstance(first, Compute) else None
    if axis is None:
        return None
    assert isinstance(first, Compute)
    together = list(_together(stages, axis))
    size = _block(first, axis, storage, target) if len(together) == 1 else 1
    extent = as_expr(axis.extent or 0)
    whole = extent - extent % size if size > 1 else Const(0)
    out: list[Statement] = []
    if size > 1:
        outer, inner = Var(axis.name, whole - (size - 1)), Var(f"{axis.name}_in", size)
        body = tuple(_moved(c, axis, (inner,), outer + inner) for c in together)
        out += hoisted(For(axis.name, Const(0), whole, size, around(body, outer)))
    body = tuple(_moved(c, axis, (), axis) for c in together)
    out += hoisted(For(axis.name, whole, extent, 1, around(body, axis)))
    return tuple(out), len(together)


def is_cut(c: Compute, storage: Storage, target: Target) -> bool:
    """Whether the stage is written several times: in blocks, and for what is left of an axis."""
    return any(_block(c, a, storage, target) > 1 for a in c.axes)


def at_one(c: Compute, storage: Storage) -> tuple[Compute, Storage, Bounds]:
    """A stage at one place of every axis to be peeled, its storage, and the range of those places."""
    far = [a for a in c.axes if not isinstance(a.extent, int)]
    for a in far:
        c = _moved(c, a, (), a)
    return c, storage, {a.name: interval(a) for a in far}


def _axis(c: Compute, storage: Storage) -> Var | None:
    """The axis to go around next: outermost in memory first, but what vectors run along before all others."""
    order = c.axes if c.at else tuple(c.axes[i] for i in storage.layout(c.out).order)
    found = [a for a in order if not isinstance(a.extent, int) or _is_far(c, a, storage)]
    if c.reduction is not None and found and found[-1] == order[-1]:
        return found[-1]
    return found[0] if found else None


def _is_far(c: Compute, a: Var, storage: Storage) -> bool:
    """Whether a step of a fixed axis is a distance known at run time only."""
    if any(not isinstance(x.extent, int) for x in c.axes) or c.reduction is None:
        return False
    return any(_moves_unknown(x, a, storage) for x in (*loads(c.reduction.term), *loads(c.value)))


def _moves_unknown(load: Load, a: Var, storage: Storage) -> bool:
    layout = storage.layout(load.tensor)
    sizes = known_strides(storage.tensor(load.tensor))
    index = tuple(load.index[i] for i in layout.order)
    return any(s is None and mentions(i, a.name) for i, s in zip(index, sizes, strict=True))


def _together(stages: Sequence[Stage], axis: Var) -> Iterator[Compute]:
    """The first stage, and those after it that may stand in the same loop, their axis called the same."""
    made: dict[Tensor, tuple[int, ...]] = {}
    read: list[Load] = []
    for stage in stages:
        if not isinstance(stage, Compute) or not _goes_around(stage, axis):
            return
        mine = [x for e in stage.expressions for x in loads(e)]
        at = tuple(d for d, i in enumerate(stage.index) if i == axis)
        elsewhere = [d for d, i in enumerate(stage.index) if mentions(i, axis.name) and d not in at]
        places = {**made, stage.out: at}
        if len(at) != 1 or elsewhere or made.get(stage.out, at) != at:  # other iterations may write there too
            yield from () if made else (stage,)
            return
        if not all(_is_here(x, axis, made) for x in mine) or not all(_is_here(x, axis, places) for x in read):
            return
        made = places
        read += mine
        yield stage


def _goes_around(c: Compute, axis: Var) -> bool:
    """Whether a stage has an axis of that name that goes as far: names alone make axes equal."""
    return any(a == axis and as_expr(a.extent or 0) == as_expr(axis.extent or 0) for a in c.axes)


def _is_here(load: Load, axis: Var, made: dict[Tensor, tuple[int, ...]]) -> bool:
    """Whether a read of what the loop makes, now or later in its body, is of this iteration's part."""
    return load.tensor not in made or all(load.index[d] == axis for d in made[load.tensor])


def _moved(c: Compute, axis: Var, inner: tuple[Var, ...], value: Expr) -> Compute:
    """The stage at one value of the axis, or over a block of it."""

    def put(e: Expr) -> Expr:
        return substitute(e, {axis.name: value})

    r = c.reduction and c.reduction.over(put)
    axes = tuple(x for a in c.axes for x in (inner if a == axis else (a,)))
    return Compute(c.out, axes, put(c.value), r, tuple(map(put, c.index)))


def _block(c: Compute, axis: Var, storage: Storage, target: Target) -> int:
    """How many of the axis go through the generators at once."""
    most: Extent = axis.extent or 0
    if isinstance(most, int) or any(
        _moves_unknown(x, axis, storage) for e in c.expressions for x in loads(e)
    ):
        return 1
    layout = storage.layout(c.out)
    along = tuple(c.index[i] for i in layout.order)[storage.tensor(c.out).lane_axis] == axis
    r = c.reduction
    lanes = target.lanes(c.out.type.bytes) if target.vector_bytes and c.out.type.is_float else 1
    size = lanes if along else 1
    if r is not None:
        moved = [mentions(x, axis.name) for x in loads(r.term)]
        product = r.combine == "sum" and isinstance(r.term, Binary) and r.term.op == "mul"
        size = (max(size, ROWS) if moved.count(True) == 1 and len(moved) == 2 else 1) if product else 1
    return size if size <= upper(most) else 1
