"""Which layout each tensor gets: channels last with a halo around what convolutions read, dense elsewhere.

    image[1, 3, 32, 32] -> conv -> relu -> pool        image -> import -> conv -> ...
                                                              [1, 34, 34, 3] with a border of zeros

In: a fused region. Out: a layout per tensor, and the region with the copies that `window_copies` inserts.
Parts of a concatenation, and slices, get a place in the whole where both are stored alike; a part that cannot
have one is copied to a tensor that has (a group of its own). ONNX's spatial operators put channels at axis 1;
that is the one thing taken from the operators here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ingot.formula.compute import Compute, Stage, computes, same_point
from ingot.formula.expr import Const, Load, Tensor, loads
from ingot.formula.index import coefficient
from ingot.loops.doubled_windows import doubled_load
from ingot.loops.kernels.windows.own_borders import makes_border
from ingot.loops.layout import Layout, Place, dense
from ingot.loops.region import Either, Group, Item, Iterate, Region
from ingot.loops.region_passes.subviews import Rectangle, is_in_place, move_of, rectangles
from ingot.loops.region_passes.window_copies import Fills, Halo, grow, insert_copies, is_gathered, windows
from ingot.targets.record import Target


def assign_layouts(region: Region, target: Target, fast: bool = True) -> dict[Tensor, Layout]:
    """Layouts of the tensors that a region and the regions inside it make; `fast`: convolutions may be."""
    in_rows = insert_copies(region, target, fast)
    stages = [c for g in _groups(region) for c in computes(g.stages)]
    free = _free(region)
    parts = rectangles(_groups(region), free)
    fills = _fills(stages, in_rows)
    plain = _without_halos(stages, in_rows)
    around = [c for c in stages if not makes_border(c, plain, target) and not _doubled(c, in_rows, target)]
    halos, parts = _shared_halos(_halos(around, fills), stages, parts)
    for r in parts:
        fills.setdefault(r.part, fills.get(r.whole, 0))
    layouts: dict[Tensor, Layout] = {}
    for t in _spatial(stages):
        if t in free or t.value is not None:
            layouts[t] = _around(t, t in in_rows, halos if t in free else {}, fills)
    for item in region.items:
        for inner in _inside(item):
            layouts.update(assign_layouts(inner, target, fast))
    copied = set(_copied(region))
    layouts = {t: layout for t, layout in layouts.items() if t not in copied}
    _place(region, layouts, [r for r in parts if r.part not in copied])
    return layouts


def _without_halos(stages: list[Compute], in_rows: Fills) -> dict[Tensor, Layout]:
    """The layouts of what windows touch, had none of it a halo."""
    return {t: _around(t, t in in_rows, {}, {}) for t in _spatial(stages)}


def _doubled(c: Compute, in_rows: Fills, target: Target) -> bool:
    """Whether vectors at the ends of the rows that windows leave are put together in registers."""
    x = doubled_load(c, target)
    return x is not None and x.tensor in in_rows


def channels_last(region: Region) -> set[Tensor]:
    """The tensors of a region that get their channels stored last."""
    stages = [c for g in _groups(region) for c in computes(g.stages)]
    return set(_spatial(stages)) & _free(region)


def _copied(region: Region) -> Iterator[Tensor]:
    """What steps between kernels copy byte for byte, constants too: it stays as the model has it."""
    yield from region.outputs
    for item in region.items:
        if isinstance(item, Iterate):
            yield from item.reads
        for inner in _inside(item):
            yield from _copied(inner)


def _inside(item: object) -> Iterator[Region]:
    match item:
        case Either(_, _, then, other, _):
            yield then
            yield other
        case Iterate(body=body):
            yield body


def _groups(region: Region) -> list[Group]:
    return [i for i in region.items if isinstance(i, Group)]


def _around(t: Tensor, in_rows: bool, halos: Halo, fills: Fills) -> Layout:
    """Channels last, or in rows of each channel, with a halo around."""
    order = tuple(range(t.rank)) if in_rows else (0, *range(2, t.rank), 1)
    before, after = halos.get(t, ([0] * t.rank, [0] * t.rank))
    return Layout(order, tuple(before), tuple(after), fills.get(t, 0))


def _spatial(stages: list[Compute]) -> list[Tensor]:
    """What windows read and what they make, and what is stored like it."""
    found: set[Tensor] = set()
    for c in stages:
        for load in windows(c):
            found |= {load.tensor, c.out}
    found = {t for t in found if t.rank >= 3}
    return [t for component in _components(stages) if any(u in found for u in component) for t in component]


def _free(region: Region) -> set[Tensor]:
    """Tensors whose every writer and reader is a group of this region: nobody outside sees their layout."""
    made = {t for g in _groups(region) for t in g.writes}
    views = {t for g in _groups(region) if g.view for t in g.view[:1]}
    seen: set[Tensor] = {*region.inputs, *region.outputs, *views}
    for item in region.items:
        match item:
            case Either(_, condition, then, other, results):
                seen |= {condition, *results, *_outer(then), *_outer(other)}
            case Iterate(body=body):
                seen |= {*item.reads, *item.writes, *_outer(body)}
    return made - seen


def _outer(region: Region) -> set[Tensor]:
    """Everything a region's items touch."""
    out: set[Tensor] = {*region.inputs, *region.outputs}
    for item in region.items:
        if isinstance(item, Group):
            out |= item.reads | item.writes
        for inner in _inside(item):
            out |= _outer(inner)
    return out


def _fills(stages: list[Compute], in_rows: Fills) -> Fills:
    """What lies around each tensor that a sum reads beyond: zero, or the zero point of bytes."""
    out = dict(in_rows)
    for c, load in _padded(stages):
        if c.reduction is not None and c.reduction.combine == "sum" and isinstance(load.outside, Const):
            out.setdefault(load.tensor, 0 if load.dtype.is_float else load.outside.value)
    return out


def _halos(stages: list[Compute], fills: Fills) -> Halo:
    """How far windows read beyond each tensor, where what they yield there is what lies around it."""
    out: Halo = {}
    for _, load in _padded(stages):
        if isinstance(load.outside, Const) and load.outside.value == fills.get(load.tensor):
            grow(out, load)
    return out


def _padded(stages: list[Compute]) -> Iterator[tuple[Compute, Load]]:
    """The reads of reductions that may go beyond their tensor.

    What reads where data says (GridSample, DeformConv) may read anywhere beyond: no halo can hold that.
    """
    for c in stages:
        for load in loads(c.reduction.term) if c.reduction is not None else ():
            if load.outside is not None and not is_gathered(load):
                yield c, load


def _components(stages: list[Compute]) -> list[list[Tensor]]:
    """Tensors of equal rank that some stage reads and writes at the same place, up to constants."""
    reads = [(load, c) for c in stages for e in c.expressions for load in loads(e)]
    pairs = [(x.tensor, c.out) for x, c in reads if x.tensor.rank == c.out.rank >= 3 and _aligned(x, c)]
    return _classes([*(c.out for c in stages), *(x.tensor for x, _ in reads)], pairs)


def _classes(members: list[Tensor], pairs: list[tuple[Tensor, Tensor]]) -> list[list[Tensor]]:
    """The members, grouped by what the pairs connect."""
    parent = {t: t for t in members}

    def root(t: Tensor) -> Tensor:
        while parent[t] is not t:
            parent[t] = parent[parent[t]]
            t = parent[t]
        return t

    for t, other in pairs:
        parent[root(t)] = root(other)
    groups: dict[Tensor, list[Tensor]] = {}
    for t in parent:
        groups.setdefault(root(t), []).append(t)
    return list(groups.values())


def _shared_halos(halos: Halo, stages: list[Compute], parts: list[Rectangle]) -> tuple[Halo, list[Rectangle]]:
    """What a stage reads at the very element it makes gets the same halo: then it may be overwritten. So do
    parts and their wholes; a part that is shorter where a halo would lie has no place in its whole.
    """
    pairs = [
        (load.tensor, c.out)
        for c in stages
        for load in loads(c.value)
        if not c.at and load.tensor.shape == c.out.shape and same_point(load, c.axes)
    ]
    all_placed = _united_halos(halos, [*pairs, *((r.part, r.whole) for r in parts)])
    parts = [r for r in parts if not any(side[d] for side in all_placed.get(r.whole, ()) for d in r.moved)]
    return _united_halos(halos, [*pairs, *((r.part, r.whole) for r in parts)]), parts


def _united_halos(halos: Halo, pairs: list[tuple[Tensor, Tensor]]) -> Halo:
    """Halos large enough for everyone whom the pairs connect."""
    out = dict(halos)
    for group in _classes([t for pair in pairs for t in pair], pairs):
        known = [halos[t] for t in group if t in halos]
        if known:
            before, after = (
                [max(sides) for sides in zip(*(h[i] for h in known), strict=True)] for i in (0, 1)
            )
            out.update({t: (before, after) for t in group})
    return out


def _place(region: Region, layouts: dict[Tensor, Layout], parts: list[Rectangle]) -> None:
    """Give the parts that are stored like their wholes a place there, and copies a place where only some
    could have one.
    """
    for r in parts:
        own, whole = (layouts.get(t) or dense(t.rank) for t in (r.part, r.whole))
        if replace(own, place=None) == replace(whole, place=None):
            layouts[r.part] = replace(own, place=Place(r.whole, r.corner))
    items: list[Item] = []
    for item in region.items:
        items += _copied_others(item, layouts) if isinstance(item, Group) else []
        items.append(item)
    region.items = items


def _copied_others(group: Group, layouts: dict[Tensor, Layout]) -> list[Group]:
    """Parts without a place in a whole that has parts: a copy of each, made in place before the group."""
    moves = [move_of(s) for s in group.stages]
    placed = [m is not None and is_in_place(m, layouts) for m in moves]
    if not any(placed) or any(m is None for m in moves):
        return []
    copies, stages = list[Group](), list(group.stages)
    for i, m in enumerate(moves):
        if m is None or placed[i] or m.extents == m.out.shape:
            continue
        copy = Tensor(f"{m.source.name}_copy", m.source.type, m.extents)
        first, stages[i] = _in_two(stages[i], copy)
        layouts[copy] = replace(layouts.get(m.out) or dense(m.out.rank), place=Place(m.out, m.to))
        copies.append(Group(group.nodes, (first,)))
    group.stages = tuple(stages)
    return copies


def _in_two(stage: Stage, copy: Tensor) -> tuple[Compute, Compute]:
    """copy = source, out[..] = copy"""
    assert isinstance(stage, Compute)
    return Compute(copy, stage.axes, stage.value), replace(stage, value=copy[stage.axes])


def _aligned(load: Load, c: Compute) -> bool:
    """Whether each index of the load moves only with what moves the same index of the output."""
    names = [a.name for a in c.axes]
    for i, at in zip(load.index, c.index, strict=True):
        for name in names:
            moved, wanted = coefficient(i, name), coefficient(at, name)
            if wanted == 0 and moved != 0:  # None: other than linearly, as where a resized axis is read
                return False
    return True
