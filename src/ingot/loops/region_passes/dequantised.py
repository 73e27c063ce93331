"""Stages read bytes and dequantise what they read, instead of a whole tensor of floats.

    x = (qx - 128) * 0.03
    y = round((c + x) / 0.05)      ->      y = round((c + (qx - 128) * 0.03) / 0.05)

In: a region before fusion. Out: the same region, in which a map from one tensor of bytes to floats is
repeated by every stage that reads its result at most about once, and gone where all do. A convolution, which
reads each element many times, keeps the tensor of floats.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from ingot.formula.compute import Compute, same_point
from ingot.formula.expr import Expr, Load, Tensor, Var, loads, transform
from ingot.formula.types import FLOAT32
from ingot.loops.region import Either, Group, Iterate, Region
from ingot.loops.region_passes.fuse import pointwise, readers_of

MOST_READS = 2  # of an element


def inline_dequantised(region: Region) -> Region:
    """Rewrite in place, regions of branches and loops included, and return the region."""
    made: dict[Tensor, Compute] = {}
    for item in region.items:
        match item:
            case Either():
                inline_dequantised(item.then)
                inline_dequantised(item.other)
            case Iterate(body=body):
                inline_dequantised(body)
            case Group(view=None):  # a view lies in the bytes of what it reads
                item.stages = tuple(
                    _reading_bytes(s, made) if isinstance(s, Compute) else s for s in item.stages
                )
                stage = pointwise(item)
                if stage is not None and _is_dequantisation(stage):
                    made[stage.out] = stage
    wanted = {t for t, count in readers_of(region).items() if count}
    region.items = [i for i in region.items if not (isinstance(i, Group) and _is_idle(i, made, wanted))]
    return region


def _is_idle(group: Group, made: dict[Tensor, Compute], wanted: set[Tensor]) -> bool:
    stage = pointwise(group)
    return stage is not None and stage.out in made and stage.out not in wanted


def _is_dequantisation(c: Compute) -> bool:
    """A float of one byte at the same place, and of constants."""
    read = [x for x in loads(c.value) if x.tensor.value is None]
    return (
        c.out.type is FLOAT32
        and len(read) == 1
        and read[0].tensor.type.kind in "iu"
        and read[0].tensor.type.bits <= 8
        and same_point(read[0], c.axes)
    )


def _reading_bytes(c: Compute, made: dict[Tensor, Compute]) -> Compute:
    axes = (*c.axes, *(c.reduction.axes if c.reduction is not None else ()))
    if not all(isinstance(a.extent, int) for a in axes):
        return c
    points = prod(int(a.extent) for a in axes if isinstance(a.extent, int))

    def replaced(node: Expr) -> Expr | None:
        if (
            not isinstance(node, Load)
            or node.outside is not None
            or (source := made.get(node.tensor)) is None
        ):
            return None
        if not isinstance(node.tensor.count, int) or points > MOST_READS * node.tensor.count:
            return None
        at = {a.name: i for a, i in zip(source.axes, node.index, strict=True)}
        return transform(source.value, lambda e: at.get(e.name) if isinstance(e, Var) else None)

    r = c.reduction
    summed = None if r is None else replace(r, term=transform(r.term, replaced))
    return replace(c, value=transform(c.value, replaced), reduction=summed)
