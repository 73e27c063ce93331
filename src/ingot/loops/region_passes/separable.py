"""Large windows of pooling taken apart: along one axis, then along the next.

    y[n, c, oh, ow] = max(x[n, c, oh + kh, ow + kw] for kh < 9, kw < 9)

    y_rows[n, c, oh, w] = max(x[n, c, oh + kh, w] for kh < 9)
    y[n, c, oh, ow] = max(y_rows[n, c, oh, ow + kw] for kw < 9)

Eighteen elements are combined for each result instead of 81. Small windows stay whole where vectors are along
channels: `sliding_window` shares their columns in registers. Along the rows of a result of the bundle small
ones are taken apart too: what is made first reads the caller's rows where they lie.

In: a fused region. Out: the same region; its stages that were taken apart make tensors in between.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

from ingot.formula.compute import Compute, Stage, accumulator
from ingot.formula.expr import Expr, Load, Tensor, Var, static
from ingot.formula.index import mentions
from ingot.loops.region import Group, Region

FEWEST_TAPS, FEWEST_IN_ROWS = 25, 9


def separate_windows(region: Region) -> dict[Tensor, Compute]:
    """Take large windows apart in place; returns what is made in between, and the stage that reads it, those
    nearest to the result first.
    """
    between: dict[Tensor, Compute] = {}
    for group in [i for i in region.items if isinstance(i, Group)]:
        stages = list[Stage]()
        for s in group.stages:
            in_rows = isinstance(s, Compute) and s.out in region.outputs
            stages += _parts(s, FEWEST_IN_ROWS if in_rows else FEWEST_TAPS, between)
        if len(group.stages) == 1 < len(stages):
            at = region.items.index(group)
            region.items[at : at + 1] = [Group(group.nodes, (s,)) for s in stages]
        else:
            group.stages = tuple(stages)
    return between


def _parts(stage: Stage, fewest: int, between: dict[Tensor, Compute]) -> Iterator[Stage]:
    if not isinstance(stage, Compute) or (axis := _first(stage, fewest)) is None:
        yield stage
        return
    made, rest = _apart(stage, axis)
    between[made.out] = rest
    yield made
    yield from _parts(rest, fewest, between)


def _first(c: Compute, fewest: int) -> Var | None:
    """The outermost axis of a window of at least `fewest` taps."""
    r = c.reduction
    if r is None or c.at or not isinstance(r.term, Load) or r.init != r.identity or not _is_float(c, r.term):
        return None
    taps = [k for k in r.axes if static(k.extent) > 1]
    if len(taps) < 2 or prod(static(k.extent) for k in taps) < fewest:
        return None
    if len(r.term.index) != len(c.axes) or not all(_is_simple(i, c) for i in r.term.index):
        return None
    return min(taps, key=lambda k: _dimension(r.term, k))


def _is_float(c: Compute, x: Load) -> bool:
    """Whether floats are read and made, of known extents."""
    static_ = all(isinstance(n, int) for n in (*c.out.shape, *x.tensor.shape))
    return static_ and all(t.type.is_float and t.type.compute is t.type for t in (c.out, x.tensor))


def _is_simple(i: Expr, c: Compute) -> bool:
    """Whether an index moves with one axis of the result and one tap at most, or is such an axis."""
    assert c.reduction is not None
    taps = sum(mentions(i, k.name) for k in c.reduction.axes)
    return (taps == 0 and i in c.axes) or (taps == 1 and sum(mentions(i, a.name) for a in c.axes) == 1)


def _dimension(x: Expr, k: Var) -> int:
    assert isinstance(x, Load)
    return next(d for d, i in enumerate(x.index) if mentions(i, k.name))


def _apart(c: Compute, k: Var) -> tuple[Compute, Compute]:
    """The stage that combines along one axis of the window, and the one that combines what that made."""
    r = c.reduction
    assert r is not None and isinstance(r.term, Load) and r.identity is not None
    x, others = r.term, tuple(a for a in r.axes if a is not k)
    whole = {d for d, i in enumerate(x.index) if any(mentions(i, a.name) for a in others)}
    axes = tuple(
        Var(f"i{d}", x.tensor.shape[d]) if d in whole else next(a for a in c.axes if mentions(i, a.name))
        for d, i in enumerate(x.index)
    )
    made = Tensor(f"{c.out.name}_rows", x.dtype, tuple(static(a.extent) for a in axes))
    term = replace(x, index=tuple(axes[d] if d in whole else i for d, i in enumerate(x.index)))
    first = Compute(made, axes, accumulator(r.term.dtype), replace(r, axes=(k,), init=r.identity, term=term))
    index = tuple(i if d in whole else axes[d] for d, i in enumerate(x.index))
    combine = "largest number" if r.combine == "largest" else r.combine  # what was combined is no NaN
    rest = replace(r, combine=combine, axes=others, term=Load(made, index, x.outside))
    return first, replace(c, reduction=rest)
