"""Images stored without the halo that their readers ask for, where these copy some rows into frames instead.

    x [1, 34, 34, 16] -> conv -> y        ->        x [1, 32, 32, 16] -> rows of it in a frame -> conv -> y

A halo around one of the network's largest images makes the arena larger, a frame holds a few rows of it.
What a stage reads at the very element that it makes is stored as the result is, so that it may be
overwritten. In: a region and the layouts of its tensors. Out: the layouts. Called by the driver, but not
where rows of images are streamed: line buffers have halos of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from ingot.formula.compute import Compute, computes, same_point
from ingot.formula.expr import Tensor, loads
from ingot.loops.kernels.contraction.framed_rows import is_framed
from ingot.loops.layout import Layout, Storage
from ingot.loops.region import Group, Region
from ingot.targets.record import Target

LARGE = 2  # images that fit the largest one together, at most, if their halo counts


def without_halos(region: Region, layouts: Mapping[Tensor, Layout], target: Target) -> dict[Tensor, Layout]:
    """The layouts, without halos around large images all of whose readers make frames."""
    stages = [c for item in region.items if isinstance(item, Group) for c in computes(item.stages)]
    plain = {t: _plain(layout) if layout.has_halo else layout for t, layout in layouts.items()}
    wanted = set(_large(layouts))
    wanted -= set(_unframed(stages, plain, wanted, target))
    haloed = {t for t, layout in layouts.items() if layout.has_halo}
    pairs = [p for p in _replaced(stages) if haloed.issuperset(p)]
    while apart := {t for p in pairs for t in p if t in wanted and not wanted.issuperset(p)}:
        wanted -= apart
    return {t: plain[t] if t in wanted else layout for t, layout in layouts.items()}


def _plain(layout: Layout) -> Layout:
    none = (0,) * len(layout.order)
    return replace(layout, before=none, after=none)


def _large(layouts: Mapping[Tensor, Layout]) -> Iterator[Tensor]:
    """Images with a halo that count, which are no parts of others and have none."""
    images = {t: layout for t, layout in layouts.items() if t.value is None and _is_fixed(t)}
    wholes = {layout.place.whole for layout in images.values() if layout.place is not None}
    largest = max((t.bytes for t in images), default=0)
    for t, layout in images.items():
        if layout.has_halo and layout.place is None and t not in wholes and t.bytes * LARGE >= largest:
            yield t


def _is_fixed(t: Tensor) -> bool:
    return all(isinstance(n, int) for n in t.shape)


def _unframed(
    stages: list[Compute], plain: dict[Tensor, Layout], wanted: set[Tensor], target: Target
) -> Iterator[Tensor]:
    """Of some images those that a stage reads beyond without a frame."""
    for c in stages:
        every = (*loads(c.value), *(loads(c.reduction.term) if c.reduction else ()))
        beyond = {x.tensor for x in every if x.outside is not None} & wanted
        if beyond and not is_framed(c, Storage(dict(plain)), target):
            yield from beyond


def _replaced(stages: list[Compute]) -> list[tuple[Tensor, Tensor]]:
    """What a stage reads at the very element that it makes, and what it makes."""
    return [
        (x.tensor, c.out)
        for c in stages
        for x in loads(c.value)
        if not c.at and x.tensor.shape == c.out.shape and same_point(x, c.axes)
    ]
