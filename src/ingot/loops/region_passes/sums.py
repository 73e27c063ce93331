"""A product of a vector put together is a sum of products of its parts.

    xh = concat(x, h)              y_part[n] = sum(x[k] * w[n, k])
    y[n] = sum(xh[k] * w[n, k])    y[n] = sum(h[k] * w[n, k + 9]) + y_part[n]

Nobody can make a caller's tensor, or what a loop carries, inside of a larger one: it would be copied, element
by element or in vectors that cross cache lines, and the product would wait for the copies. The recurrent
state comes last in the cells that frameworks write out, so that the other products need not wait for it.

In: a region after `reorder`. Out: the same region without the vectors that nobody reads any more.
"""

from __future__ import annotations

from dataclasses import replace

from ingot.formula.compute import Compute, accumulator, reads
from ingot.formula.expr import (
    Binary,
    Expr,
    Load,
    Tensor,
    Var,
    children,
    loads,
    static,
    substitute,
    transform,
    walk,
)
from ingot.loops.inner_products import weighs
from ingot.loops.region import Group, Item, Region, reads_beside, regions_of
from ingot.loops.region_passes.fuse import is_concatenation
from ingot.loops.region_passes.subviews import Move, move_of

MOST_PARTS = 4  # the products of each go through memory once


def split_sums(region: Region) -> Region:
    """Split in place, regions of branches and loops included, and return the region."""
    for item in region.items:
        for inner in regions_of(item):
            split_sums(inner)
    beside, inputs = reads_beside(region), set(region.inputs)
    together = [i for i in region.items if isinstance(i, Group) and is_concatenation(i)]
    readers = _readers(region) if together else {}
    gone: set[Item] = set()
    for group in together:
        moves, whole = _parts(group), group.stages[0].out if isinstance(group.stages[0], Compute) else None
        given = any(m.source in inputs for m in moves)
        if whole is None or whole in beside or not given or not readers.get(whole):
            continue
        if all(_axis(r, whole) is not None for r in readers[whole]):
            gone.add(group)
            for r in readers[whole]:
                r.stages = _split(r, whole, moves)
                for m in moves:
                    readers.setdefault(m.source, {})[r] = None
    region.items = [i for i in region.items if i not in gone]
    return region


def _readers(region: Region) -> dict[Tensor, dict[Group, None]]:
    """The groups that read each tensor."""
    readers: dict[Tensor, dict[Group, None]] = {}
    for group in (i for i in region.items if isinstance(i, Group)):
        for t in group.reads:
            readers.setdefault(t, {})[group] = None
    return readers


def _parts(group: Group) -> list[Move]:
    """The parts of a vector in their order; none if what is put together is more than that."""
    moves = [m for s in group.stages if (m := move_of(s)) is not None]
    whole = moves[0].out
    along = [d for d, n in enumerate(whole.shape) if n != 1]
    computed = all(m.source.value is None for m in moves)
    return moves if len(along) == 1 and computed and len(moves) <= MOST_PARTS else []


def _axis(group: Group, whole: Tensor) -> Var | None:
    """The axis along which a group's one stage sums a vector, each element by its own weights."""
    (stage, *others) = group.stages
    if others or not isinstance(stage, Compute) or not weighs(stage) or stage.reduction is None:
        return None
    r = stage.reduction
    if reads(stage).count(whole) != 1 or r.term.dtype is not stage.out.type:
        return None
    load = next((x for x in loads(r.term) if x.tensor is whole), None)
    along = next(d for d, n in enumerate(whole.shape) if n != 1)
    axis = load.index[along] if load is not None and load.outside is None else None
    plain = len(r.axes) == 1 and axis == r.axes[0] and axis.extent == whole.shape[along]
    encoded = any(x.tensor.codebook is not None for x in loads(r.term))
    return r.axes[0] if plain and not encoded and r.init == r.identity else None


def _split(group: Group, whole: Tensor, moves: list[Move]) -> tuple[Compute, ...]:
    """A stage for each part; each adds what the one before it made."""
    (stage,), axis = group.stages, _axis(group, whole)
    assert isinstance(stage, Compute) and stage.reduction is not None and axis is not None
    r, acc = stage.reduction, accumulator(stage.out.type)
    extents = tuple(static(a.extent) for a in stage.axes)
    total = _total(stage.value, acc)
    stages: list[Compute] = []
    added = total  # to the sum over a part: a bias first, then what the part before it made
    for m in sorted(moves, key=lambda m: m.to):
        k = Var(axis.name, max(m.extents))
        term = substitute(_of_part(r.term, whole, m), {axis.name: k})
        part = Tensor(f"{stage.out.name}_part", stage.out.type, extents)
        stages.append(Compute(part, stage.axes, added, replace(r, axes=(k,), term=term)))
        added = acc + part[stage.axes]
    *parts, last = stages
    value = transform(stage.value, lambda n: last.value if n == total else None)
    return (*parts, replace(stage, value=value, reduction=last.reduction))


def _total(value: Expr, acc: Var) -> Expr:
    """The sum, with what is added to it wherever it is read."""
    readers = [n for n in walk(value) if acc in children(n)]
    with_bias = {n for n in readers if isinstance(n, Binary) and n.op == "add" and n.a == acc and n.b != acc}
    return readers[0] if len(with_bias) == 1 and with_bias == set(readers) else acc


def _of_part(term: Expr, whole: Tensor, m: Move) -> Expr:
    """The term with the part read for the whole, and the weights from where the part begins."""
    along = next(d for d, n in enumerate(whole.shape) if n != 1)
    load = next(x for x in loads(term) if x.tensor is whole)
    axis = load.index[along]
    assert isinstance(axis, Var)

    def put(node: Expr) -> Expr | None:
        if not isinstance(node, Load):
            return None
        if node.tensor is whole:
            return Load(m.source, node.index)
        return substitute(node, {axis.name: axis + m.to[along]}) if m.to[along] else node

    return transform(term, put)
