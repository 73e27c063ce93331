"""What depends on the place of a result alone, as a table that vectors along rows load.

    y[n, c, oh, ow] = sum(x[..]) / float(taps(oh, ow))    ->    y[n, c, oh, ow] = sum(x[..]) / taps_at[oh, ow]

An average beside padding is of fewer elements. Along channels all lanes divide by one count; along a row
every lane has its own, which only a table gives at once. The share of an element, one over a count, is
tabulated as a whole. In: a fused region. Out: the same region; its results that windows make divide by
elements of tables, or are multiplied by them, where these are small beside the results.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from ingot.formula.compute import Compute, Stage
from ingot.formula.evaluate import grid_over
from ingot.formula.evaluate import value as evaluate
from ingot.formula.expr import Binary, Cast, Const, Expr, Load, Param, Var, constant, static, transform, walk
from ingot.loops.region import Group, Region

SMALL = 2  # a table has at most one element for so many of the result


def tabulate_places(region: Region) -> None:
    """Replace counts in the values of the region's results, in place."""
    for group in (i for i in region.items if isinstance(i, Group)):
        group.stages = tuple(_tabulated(s, region) for s in group.stages)


def _tabulated(stage: Stage, region: Region) -> Stage:
    if not isinstance(stage, Compute) or stage.reduction is None or stage.out not in region.outputs:
        return stage
    if not all(isinstance(n, int) for n in stage.out.shape) or not all(a.extent for a in stage.axes):
        return stage
    return replace(stage, value=transform(stage.value, lambda e: _table(e, stage)))


def _table(e: Expr, c: Compute) -> Expr | None:
    """The table's element for a count, or one over it, that moves along the rows of a result."""
    if (count := _count(e)) is None:
        return None
    nodes = list(walk(count))
    names = {n.name for n in nodes if isinstance(n, Var)}
    axes = [a for a in c.axes if a.name in names]
    if any(isinstance(n, Load | Param) for n in nodes) or len(axes) < len(names):
        return None  # data, the caller or a loop around decides, too
    if not axes or axes[-1] is not c.axes[-1]:
        return None
    extents = [static(a.extent) for a in axes]
    if prod(extents) * SMALL > c.out.count:
        return None
    grid = grid_over([a.name for a in axes], extents)
    counts = np.ascontiguousarray(np.broadcast_to(evaluate(e, {}, grid), extents))
    return Load(
        constant(counts.astype(e.dtype.numpy), "counts" if isinstance(e, Cast) else "shares"), tuple(axes)
    )


def _count(e: Expr) -> Expr | None:
    """The integer that is made a float."""
    match e:
        case Cast(n, to) if to.is_float and not n.dtype.is_float:
            return n
        case Binary("div", Const(), Cast() as count):
            return _count(count)
    return None
