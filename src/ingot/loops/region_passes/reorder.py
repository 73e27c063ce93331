"""Reordered tensors that nobody needs: who reads one reads its source instead.

    y = transpose(reshape(x))                 z = conv(w, ..., x[.., (ic % 4) * 68 + ic // 4, ..])
    z = conv(w, y)                    ->

A view, a Transpose, a Split or a Slice makes tensors whose elements are a source's under another index. Here
such stages are chained into one, and a sum of products by constants reads the source: the order of its
reduction is free, the constants are laid out to fit at compile time. Zeros that a Pad puts around a source
are what such a sum finds beyond it anyway. A permutation of channels moves below what works on each channel
by itself (a depthwise convolution: its constants are permuted), to where it may vanish.

In: a fused region. Out: the same region without the tensors that nobody reads any more.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from ingot.formula.compute import Compute, Stage, reads
from ingot.formula.evaluate import value as evaluate
from ingot.formula.expr import (
    Array,
    Binary,
    Const,
    Expr,
    Load,
    Tensor,
    Var,
    loads,
    static,
    substitute,
    transform,
    walk,
)
from ingot.formula.index import mentions, simplify
from ingot.loops.axes import normal_axes
from ingot.loops.inner_products import is_inner_product, is_product, weighs
from ingot.loops.region import Either, Group, Item, Iterate, Region, reads_beside
from ingot.loops.region_passes.layout_assignment import channels_last
from ingot.loops.region_passes.reordered import Reordered, reordered
from ingot.loops.region_passes.transposed_products import transposed_product
from ingot.loops.region_passes.window_copies import windows


def reorder(region: Region) -> Region:
    """Read sources instead of reordered tensors, in place, and return the region."""
    for item in region.items:
        match item:
            case Either():
                reorder(item.then)
                reorder(item.other)
            case Iterate():
                reorder(item.body)
    waiting = [part for item in region.items for part in _alone(item)]
    work = _Work(channels_last(region), reads_beside(region))
    for item in waiting:
        if isinstance(item, Group):
            for t in item.reads:
                work.readers.setdefault(t, []).append(item)
    for item in waiting:
        work.items += work.group(item) if isinstance(item, Group) else [item]
    region.items = _still_read(work.items, work.beside)
    for item in region.items:
        if isinstance(item, Group) and not item.view and reordered(item):
            item.stages = tuple(map(_even, item.stages))
    return region


@dataclass(slots=True)
class _Work:
    """What is known on the way through a region. `beside`: what others than its groups read."""

    spatial: set[Tensor]
    beside: set[Tensor]
    readers: dict[Tensor, list[Group]] = field(default_factory=dict)
    known: dict[Tensor, Reordered] = field(default_factory=dict)
    items: list[Item] = field(default_factory=list)

    def group(self, group: Group) -> list[Item]:
        found = reordered(group)
        if found is not None:
            return [self.chained(group, found)]
        if (made := self.pushed(group) or self.transposed(group)) is not None:
            return made
        group.stages = tuple(map(self.folded, group.stages))
        return [group]

    def chained(self, group: Group, found: Reordered) -> Group:
        """A reordered tensor of a reordered one is one of the first source."""
        (stage,) = group.stages
        assert isinstance(stage, Compute)
        view, before = group.view, self.known.get(found.source)
        load = None if before is None else before.read(Load(found.source, found.index))
        padded = found.outside is not None or (before is not None and before.outside is not None)
        if before is not None and load is not None and not padded and self.is_passed_on(found.source):
            together = replace(stage, value=load)
            if before.is_view and view:
                stage, view = together, (stage.out, before.source)
            elif _is_affine(together):
                stage, view = together, None
        is_free = view is not None and view[1] not in self.spatial
        load = _loaded(stage)
        self.known[stage.out] = Reordered(
            group.nodes, load.tensor, stage.axes, load.index, view is not None, is_free, load.outside
        )
        return Group(group.nodes, (stage,), view)

    def is_passed_on(self, t: Tensor) -> bool:
        """Whether a tensor is read by others that reorder it only, and no element twice."""
        users = [reordered(g) for g in self.readers[t]]
        if t in self.beside or not all(users):
            return False
        return sum(x.count for g in self.readers[t] for x in g.writes) <= t.count

    def folded(self, stage: Stage) -> Stage:
        """A sum of products by constants reads the source, if its axes still move through memory evenly, and
        one of two tensors where it becomes an inner product.
        """
        if not isinstance(stage, Compute) or not is_product(stage):
            return stage
        r, is_weighed = stage.reduction, weighs(stage)
        assert r is not None
        for load in loads(r.term):
            before = self.known.get(load.tensor)
            if before is None or before.is_free or (before.is_shift and before.outside is None):
                continue
            if load in windows(stage) and not before.keeps_channels(load):
                continue
            now = before.read(load)
            if now is not None:
                trial = replace(stage, reduction=replace(r, term=_swapped(r.term, load, now)))
                if not is_weighed:
                    return trial if is_inner_product(trial) else stage
                if before.is_shift or (_is_affine(trial) and _is_broadcast(normal_axes(trial))):
                    return trial
        return stage

    def transposed(self, group: Group) -> list[Item] | None:
        """A product of two tensors that are both transposed is transposed itself."""
        (stage, *others), nodes = group.stages, group.nodes
        if others or not isinstance(stage, Compute) or group.view:
            return None

        def source(load: Load) -> Load | None:
            before = self.known.get(load.tensor)
            return None if before is None or before.is_free or before.is_shift else before.read(load)

        made = transposed_product(stage, source)
        return None if made is None else [Group(nodes, (part,)) for part in made]

    def pushed(self, group: Group) -> list[Item] | None:
        """A permutation of channels goes below a stage that works on each channel by itself."""
        stage = group.stages[0] if len(group.stages) == 1 else None
        if not isinstance(stage, Compute) or stage.at or group.view or stage.out in self.beside:
            return None
        for y in dict.fromkeys(reads(stage)):
            before = self.known.get(y)
            if before is None or before.is_free or y in self.beside or len(self.readers[y]) > 1:
                continue
            if before.outside is not None:
                continue
            axis = _permuted(before)
            if axis is None:
                continue
            below = _below(stage, y, before, axis)
            if below is not None:
                made, again = below
                index = _loaded(again).index
                self.known[stage.out] = Reordered(before.nodes, made.out, again.axes, index)
                return [Group(group.nodes, (made,)), Group(before.nodes, (again,))]
        return None


def _swapped(e: Expr, old: Load, new: Load) -> Expr:
    return transform(e, lambda node: new if node == old else None)


def _loaded(stage: Compute) -> Load:
    assert isinstance(stage.value, Load)
    return stage.value


def _alone(item: Item) -> list[Item]:
    """A group of several reordered tensors as one group each."""
    if not isinstance(item, Group) or len(item.stages) == 1:
        return [item]
    parts: list[Item] = [Group(item.nodes, (s,)) for s in item.stages]
    return parts if all(isinstance(p, Group) and reordered(p) for p in parts) else [item]


def _is_affine(c: Compute) -> bool:
    """Whether every index is a sum of multiples of axes, once they are split where it asks for it."""
    accesses = [i for e in normal_axes(c).expressions for load in loads(e) for i in load.index]
    divided = (n for i in accesses for n in walk(i) if isinstance(n, Binary) and n.op in ("floordiv", "mod"))
    return not any(True for _ in divided)


def _is_broadcast(c: Compute) -> bool:
    """Whether an axis moves the constants only: what is weighed is then read element by element."""
    if c.reduction is None:
        return False  # of a single term: a map
    sides = list(loads(c.reduction.term))
    fixed = [x for x in sides if x.tensor.value is not None]
    others = [x for x in sides if x.tensor.value is None]
    return any(_moves(fixed, a) and not _moves(others, a) for a in c.axes)


def _moves(some: list[Load], a: Var) -> bool:
    return any(mentions(i, a.name) for x in some for i in x.index)


def _permuted(r: Reordered) -> int | None:
    """The one axis whose elements stand in another order, everything else being where it was."""
    if r.source.shape != tuple(a.extent for a in r.axes):
        return None
    other = [d for d, (i, a) in enumerate(zip(r.index, r.axes, strict=True)) if i != a]
    if len(other) != 1:
        return None
    (axis,) = other
    if any(mentions(r.index[axis], a.name) for a in r.axes if a is not r.axes[axis]):
        return None
    order = _order(r, axis)
    return axis if len(np.unique(order)) == len(order) else None


def _order(r: Reordered, axis: int) -> Array:
    a = r.axes[axis]
    every = np.arange(static(a.extent))
    return np.broadcast_to(evaluate(r.index[axis], {}, {a.name: every}), every.shape)


def _below(stage: Compute, y: Tensor, before: Reordered, axis: int) -> tuple[Compute, Compute] | None:
    """The stage on the source, and its result in the order asked for; None unless it works on each channel by
    itself and knows the constants it weighs them with.
    """
    squeezed = {a.name: Const(0) for a in stage.axes if a.extent == 1}
    inner = stage.reduction.axes if stage.reduction else ()
    squeezed |= {a.name: Const(0) for a in inner if a.extent == 1}
    places = {
        simplify(substitute(load.index[axis], squeezed))
        for e in stage.expressions
        for load in loads(e)
        if load.tensor is y
    }
    channel = next(iter(places)) if len(places) == 1 else None
    if not isinstance(channel, Var) or channel not in stage.axes:
        return None
    if channel.extent != before.axes[axis].extent:
        return None  # a Pad or a part of it: places are not those of the source in another order
    inverse = np.argsort(_order(before, axis))
    put = _Put(y, before.source, axis, channel, inverse, squeezed)
    try:
        made = Tensor(f"{stage.out.name}_natural", stage.out.type, stage.out.shape)
        r = stage.reduction and stage.reduction.over(put)
        natural = replace(stage, out=made, value=put(stage.value), reduction=r)
    except _Mixed:
        return None
    at = stage.axes.index(channel)
    name = {before.axes[axis].name: channel}
    index = (*stage.axes[:at], substitute(before.index[axis], name), *stage.axes[at + 1 :])
    return natural, Compute(stage.out, stage.axes, made[index])


class _Mixed(Exception):
    """A stage needs more than one channel for an element, or does not know what it weighs them with."""


@dataclass(slots=True)
class _Put:
    """Rewrites expressions of a stage to the order of its source."""

    y: Tensor
    source: Tensor
    axis: int
    channel: Var
    inverse: Array
    squeezed: dict[str, Const]
    permuted: dict[tuple[Tensor, int], Tensor] = field(default_factory=dict)

    def __call__(self, e: Expr) -> Expr:
        return transform(e, self.node)

    def node(self, e: Expr) -> Expr | None:
        if isinstance(e, Load):
            return self.load(e)
        if e == self.channel:
            raise _Mixed
        return None

    def load(self, load: Load) -> Load:
        index = [simplify(substitute(i, self.squeezed)) for i in load.index]
        moving = [d for d, i in enumerate(index) if mentions(i, self.channel.name)]
        if load.outside is not None and mentions(load.outside, self.channel.name):
            raise _Mixed
        if load.tensor is self.y:
            if moving != [self.axis]:
                raise _Mixed
            return replace(load, tensor=self.source)
        if not moving:
            return load
        value = load.tensor.value
        if value is None or len(moving) > 1 or index[moving[0]] != self.channel or load.outside is not None:
            raise _Mixed
        key = load.tensor, moving[0]
        if key not in self.permuted:
            constant = np.ascontiguousarray(np.take(value, self.inverse, moving[0]))
            self.permuted[key] = replace(load.tensor, value=constant)
        return replace(load, tensor=self.permuted[key])


def _still_read(items: Iterable[Item], beside: set[Tensor]) -> list[Item]:
    """Without reordered tensors that nobody reads."""
    wanted, kept = set(beside), list[Item]()
    for item in reversed(list(items)):
        if isinstance(item, Group):
            if reordered(item) and not item.writes & wanted:
                continue
            wanted |= item.reads
        kept.append(item)
    return kept[::-1]


def _even(stage: Stage) -> Stage:
    """The stage with its axes split where an index divides them."""
    if not isinstance(stage, Compute):
        return stage
    divides = any(isinstance(n, Binary) and n.op in ("floordiv", "mod") for n in walk(stage.value))
    return normal_axes(stage) if divides and _is_affine(stage) else stage
