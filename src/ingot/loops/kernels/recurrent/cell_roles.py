"""What the stages of a recurrent cell are to each other: a product, the maps that join its gates, and other
products that it only adds to.

In: the first stages of a group or of a scan's step. Out: `Gates`, their loads bound to physical tensors, and
how many stages they stand for. Called by `recurrent_cell`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ingot.formula.compute import Compute, Scan, Stage, accumulator, reads, same_point
from ingot.formula.expr import (
    Binary,
    Const,
    Expr,
    Gathered,
    Load,
    Tensor,
    Var,
    loads,
    static,
    transform,
    walk,
)
from ingot.formula.index import Bounds, linear, simplify
from ingot.loops.access import has_vector_form, step
from ingot.loops.axes import normal_axes
from ingot.loops.kernels.contraction.roles import Contraction, match
from ingot.loops.layout import Storage, bind, destination


@dataclass(frozen=True, slots=True)
class Map:
    """A stage that joins gates: over physical tensors, its axes those of the states."""

    out: Tensor
    to: Load
    value: Expr


@dataclass(frozen=True, slots=True)
class Gates:
    """The product, and the maps over `unit` (and the product's tile axis) that follow it.

    `before`: products of constants whose sums it goes on from; `start`: what all of them are added to.
    """

    product: Contraction
    unit: Var
    maps: tuple[Map, ...]
    bounds: Bounds
    before: tuple[Contraction, ...] = ()
    start: Expr | None = None

    @property
    def count(self) -> int:
        return self.product.channels // static(self.unit.extent)

    def gate(self, load: Load) -> int | None:
        """Which gate of this unit a read of the product's result is; None for any other read."""
        if load.tensor is not self.product.to.tensor:
            return None
        form = linear(simplify(load.index[-1] - self.unit, self.bounds))
        first, size = form.get(None, 0), static(self.unit.extent)
        here = load.index[:-1] == self.product.to.index[:-1] and not form.keys() - {None}
        return first // size if here and first % size == 0 else None


def match_gates(stages: tuple[Stage, ...], storage: Storage, bounds: Bounds) -> tuple[Gates, int] | None:
    """The gates, and how many products stand before theirs; None if the stages are nothing such."""
    first, *others = stages
    parts: list[Compute] = []
    while isinstance(first, Compute) and others and _is_part(first, others, storage):
        parts.append(first)
        first, *others = others
    found = _match((first, *others), storage, bounds) if others else None
    found = found and _with_parts(found, parts, storage, bounds)
    return None if found is None else (found, len(parts))


def _match(stages: tuple[Stage, ...], storage: Storage, bounds: Bounds) -> Gates | None:
    """The product and as many maps as go with it; None unless one reads several gates of a unit."""
    first = normal_axes(stages[0]) if isinstance(stages[0], Compute) else None
    product = None if first is None else match(first, storage, bounds)
    if product is None or product.outer or len(product.tile) > 1 or len(product.reduce) != 1:
        return None
    if step(product.to, product.vector.name) != 1 or (product.b.tensor.value is not None and product.around):
        return None
    found: Gates | None = None
    for stage in stages[1:]:
        added = None if isinstance(stage, Scan) else _joined(normal_axes(stage), product, found, storage)
        if added is None:
            break
        found = added
    seen = {found.gate(x) for m in found.maps for x in loads(m.value)} if found else set()
    return found if found is not None and len(seen - {None}) > 1 else None


def _joined(c: Compute, product: Contraction, found: Gates | None, storage: Storage) -> Gates | None:
    """With one more map, if all it reads is at hand when a vector of units is done."""
    units = [a for a in c.axes if a not in product.tile]
    simple = c.reduction is None and len(units) == 1 and isinstance(units[0].extent, int)
    if not simple or any(isinstance(n, Gathered) for e in c.expressions for n in walk(e)):
        return None
    unit = units[0]
    if product.channels % static(unit.extent) or (found is not None and unit != found.unit):
        return None
    inner = {**product.bounds, unit.name: (0, static(unit.extent) - 1)}
    new = Map(c.out, destination(c, storage, inner), bind(c.value, storage, inner))
    old = found.maps if found is not None else ()
    gates = Gates(product, unit, (*old, new), inner)
    return gates if _fits(gates, new, old) else None


def _fits(g: Gates, new: Map, old: tuple[Map, ...]) -> bool:
    made = {m.to.tensor: m.to.index for m in old}
    read = {x.tensor for m in old for x in loads(m.value)} | {g.product.b.tensor}
    if new.to.tensor.type is not g.product.b.tensor.type or not has_vector_form(new.value):
        return False
    for x in loads(new.value):
        if x.tensor is g.product.to.tensor and g.gate(x) is None:
            return False
        if x.tensor in made and x.index != made[x.tensor]:
            return False
        if x.tensor is new.to.tensor and x.index != new.to.index:
            return False
    before = all(x.index == new.to.index for m in old for x in loads(m.value) if x.tensor is new.to.tensor)
    moves = [step(x, g.unit.name) for x in loads(new.value)]
    fresh = new.to.tensor not in made and (new.to.tensor not in read or before)
    return fresh and step(new.to, g.unit.name) == 1 and all(m in (0, 1) for m in moves)


def _is_part(c: Compute, others: list[Stage], storage: Storage) -> bool:
    """Whether what a stage sums is only what the next one goes on from."""
    following, *rest = others
    if not isinstance(following, Compute) or following.reduction is None or c.out not in storage.inner:
        return False
    points = [x for x in loads(following.value) if x.tensor is c.out]
    read = {t for s in rest for t in reads(s)} | _tensors(following.reduction.term)
    return len(points) == 1 and same_point(points[0], following.axes) and c.out not in read


def _tensors(e: Expr) -> set[Tensor]:
    return {x.tensor for x in loads(e)}


def _with_parts(g: Gates, parts: list[Compute], storage: Storage, bounds: Bounds) -> Gates | None:
    """The gates with the products in front in the same registers; None if they cannot be there."""
    before: list[Contraction] = []
    start: Expr | None = None
    for c in parts:
        p = match(normal_axes(c), storage, bounds)
        if p is None or p.b.tensor.value is None or p.around or p.outer or len(p.reduce) != 1:
            return None
        if (p.vector, p.tile, p.init) != (g.product.vector, g.product.tile, g.product.init):
            return None
        if before and _gone_on(p.value, before[-1]) != accumulator(p.b.dtype):
            return None
        if not before and (start := _added(p.value)) is None:
            return None
        before.append(p)
    if not before:
        return g
    value = _gone_on(g.product.value, before[-1])
    read = {x.tensor for m in g.maps for x in loads(m.value)} | _tensors(value)
    written = {m.to.tensor for m in g.maps}
    alone = not read & {p.to.tensor for p in before} and not written & {p.a.tensor for p in before}
    return (
        replace(g, product=replace(g.product, value=value), before=tuple(before), start=start)
        if alone
        else None
    )


def _added(value: Expr) -> Expr | None:
    """What is added to a sum where nothing else is done with it."""
    match value:
        case Var("acc"):
            return Const(0.0, value.dtype)
        case Binary("add", Var("acc"), other) if "acc" not in {
            v.name for v in walk(other) if isinstance(v, Var)
        }:
            return other
    return None


def _gone_on(value: Expr, before: Contraction) -> Expr:
    """The value of a sum that has begun with another."""

    def joined(node: Expr) -> Expr | None:
        match node:
            case Binary("add", Var("acc") as acc, Load(tensor)) if tensor is before.to.tensor:
                return acc
        return None

    return transform(value, joined)
