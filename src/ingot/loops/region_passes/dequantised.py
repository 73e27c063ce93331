"""Stages read bytes and dequantise what they read, instead of a whole tensor of floats.

    x = (qx - 128) * 0.03
    y = round((c + x) / 0.05)      ->      y = round((c + (qx - 128) * 0.03) / 0.05)

In: a region before fusion. Out: the same region, in which a map from one tensor of bytes to floats is
repeated by every stage that reads its result at most about once, and gone where all do. A convolution, which
reads each element many times, keeps the tensor of floats. So does a transposed one where there are vectors:
its products of two elements have fast kernels. Elsewhere the tensor would only take memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod

import numpy as np

from ingot.formula.compute import Compute, reads, same_point
from ingot.formula.evaluate import value as evaluate
from ingot.formula.expr import Const, Expr, Load, Tensor, Var, loads, transform
from ingot.formula.types import FLOAT32
from ingot.loops.inner_products import is_product
from ingot.loops.region import Either, Group, Iterate, Region
from ingot.loops.region_passes.fuse import pointwise, readers_of

MOST_READS = 2  # of an element


def inline_dequantised(region: Region) -> Region:
    """Rewrite all but the sums over images in place, regions of branches and loops too; return the region."""
    return _inlined(region, lambda c: not _sums_images(c))


def inline_dequantised_sums(region: Region) -> Region:
    """Rewrite the sums over images too."""
    return _inlined(region, _sums_images)


def _inlined(region: Region, in_sums_of: Callable[[Compute], bool]) -> Region:
    made: dict[Tensor, Compute] = {}
    for item in region.items:
        match item:
            case Either():
                _inlined(item.then, in_sums_of)
                _inlined(item.other, in_sums_of)
            case Iterate(body=body):
                _inlined(body, in_sums_of)
            case Group(view=None):  # a view lies in the bytes of what it reads
                item.stages = tuple(
                    _reading_bytes(s, made, in_sums_of(s)) if isinstance(s, Compute) else s
                    for s in item.stages
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


def _dequantised(source: Compute, load: Load) -> Expr | None:
    """What a load reads, of the byte itself; None where no byte stands for what lies outside."""
    at = {a.name: i for a, i in zip(source.axes, load.index, strict=True)}
    outside = None
    if load.outside is not None and (outside := _byte_of(load.outside, source)) is None:
        return None

    def moved(node: Expr) -> Expr | None:
        match node:
            case Var(name):
                return at.get(name)
            case Load(tensor, index) if tensor.value is None:
                return Load(tensor, tuple(transform(i, moved) for i in index), outside)
        return None

    return transform(source.value, moved)


def _byte_of(number: Expr, source: Compute) -> Const | None:
    """The byte that a map of bytes turns into this number, the same at all places."""
    (read,) = (x for x in loads(source.value) if x.tensor.value is None)
    constants = [x.tensor for x in loads(source.value) if x != read]
    if not isinstance(number, Const) or any(t.count != 1 for t in constants):
        return None
    kind = read.tensor.type
    every = np.arange(int(kind.lowest), int(kind.highest) + 1).astype(kind.numpy)
    byte = Var("byte", None, kind)
    value = transform(source.value, lambda n: byte if n == read else None)
    found = np.flatnonzero(evaluate(value, {}, {"byte": every}) == number.value)
    return Const(int(every[found[0]]), kind) if found.size else None


def _sums_images(c: Compute) -> bool:
    """Whether products of elements are summed for the points of an image or a signal."""
    return is_product(c) and c.out.rank > 2


def _reading_bytes(c: Compute, made: dict[Tensor, Compute], in_sum: bool) -> Compute:
    axes = (*c.axes, *(c.reduction.axes if c.reduction is not None else ()))
    if not any(t in made for t in reads(c)) or not all(isinstance(a.extent, int) for a in axes):
        return c  # the very stage: it is known to be sound
    points = prod(int(a.extent) for a in axes if isinstance(a.extent, int))

    def replaced(node: Expr) -> Expr | None:
        if not isinstance(node, Load) or (source := made.get(node.tensor)) is None:
            return None
        if not isinstance(node.tensor.count, int) or points > MOST_READS * node.tensor.count:
            return None
        return _dequantised(source, node)

    r = c.reduction
    summed = r if r is None or not in_sum else replace(r, term=transform(r.term, replaced))
    return replace(c, value=transform(c.value, replaced), reduction=summed)
