"""A recurrent cell written out becomes one kernel: a product, and the maps that join its gates.

    z = xh W                              one group:
    i, f = split(z)                           z = xh W
    c' = sigmoid(f) * c + sigmoid(i)  ->      c' = sigmoid(z[.., j + 32]) * c + sigmoid(z[.., j])

Generators then keep what the product gives in registers, where the gates are
(`kernels/recurrent/recurrent_cell.py`). Only for a single row: many rows make tiles of their own, with
weights prefetched.

In: a region after `reorder`, so that each part of a Split stands alone, and after whatever changes formulas.
Out: the same region, these groups merged where the last of them stood.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from ingot.formula.compute import Compute, reads
from ingot.formula.expr import Expr, Load, Tensor, Var, static, substitute, transform
from ingot.formula.index import simplify
from ingot.loops.inner_products import weighs
from ingot.loops.region import Group, Item, Region, reads_beside, regions_of
from ingot.loops.region_passes.fuse import MOST_NODES, pointwise
from ingot.loops.region_passes.reordered import Reordered, reordered

MOST_WEIGHTS = 1 << 18  # elements that stay in a second cache


@dataclass(frozen=True, slots=True)
class Cell:
    """A product, the groups that part what it gives, those parts, and the maps that read them."""

    product: Group
    splits: tuple[Group, ...]
    parts: dict[Tensor, Reordered]
    maps: tuple[Group, ...]

    @property
    def groups(self) -> tuple[Group, ...]:
        return (self.product, *self.splits, *self.maps)


def join_gates(region: Region) -> Region:
    """Merge in place, regions of branches and loops included, and return the region."""
    for item in region.items:
        for inner in regions_of(item):
            join_gates(inner)
    beside, places = reads_beside(region), _places(region)
    for product in list(places.at):
        cell = _cell(product, places, beside)
        if cell is not None:
            places.replace(cell, _merged(cell))
    region.items = [i for i in places.items if i is not None]
    return region


@dataclass(slots=True)
class _Places:
    """The items of a region, None where groups were merged into others; where each group stands, and the
    groups that read each tensor.
    """

    items: list[Item | None]
    at: dict[Group, int]
    readers: dict[Tensor, set[Group]]

    def reading(self, tensors: Iterable[Tensor]) -> list[Group]:
        """The groups that read one of the tensors, in their order."""
        found = set[Group]().union(*(self.readers.get(t, ()) for t in tensors))
        return sorted(found, key=self.at.__getitem__)

    def replace(self, cell: Cell, merged: Group) -> None:
        """The merged group stands where the last map of its cell stood."""
        where = self.at[cell.maps[-1]]
        for g in cell.groups:
            for t in g.reads:
                self.readers[t].discard(g)
            self.items[self.at.pop(g)] = None
        self.items[where], self.at[merged] = merged, where
        for t in merged.reads:
            self.readers.setdefault(t, set()).add(merged)


def _places(region: Region) -> _Places:
    at = {item: i for i, item in enumerate(region.items) if isinstance(item, Group)}
    readers: dict[Tensor, set[Group]] = {}
    for group in at:
        for t in group.reads:
            readers.setdefault(t, set()).add(group)
    return _Places(list(region.items), at, readers)


def _cell(product: Group, places: _Places, beside: set[Tensor]) -> Cell | None:
    """What can be merged with a group whose last stage is a product; None if several maps cannot."""
    z = _one_row(product) if product in places.at else None
    if z is None:
        return None
    splits = tuple(g for g in places.reading([z]) if g is not product and _part(g) is not None)
    parts = {t: part for g in splits if (part := _part(g)) is not None for t in g.writes}
    others = {product, *splits}
    maps = tuple(g for g in places.reading([z, *parts]) if g not in others)
    cell = Cell(product, splits, parts, maps)
    nodes = sum(len(g.nodes) for g in (product, *maps))
    known = not beside & {z, *parts} and len(parts) > 1 and nodes <= MOST_NODES
    return cell if known and _are_units(z, maps) and _can_move(cell, places) else None


def _one_row(group: Group) -> Tensor | None:
    """What a group makes at last, if that is one row: a vector times constant weights that stay near."""
    last = group.stages[-1]
    if not isinstance(last, Compute) or not weighs(last) or group.view or last.at:
        return None
    weights = sum(t.count for t in set(reads(last)) if t.value is not None)
    one_row = all(n == 1 for n in last.out.shape[:-1])
    return last.out if one_row and weights <= MOST_WEIGHTS else None


def _part(group: Group) -> Reordered | None:
    found = reordered(group)
    return found if found is not None and found.is_shift and found.outside is None else None


def _are_units(z: Tensor, maps: tuple[Group, ...]) -> bool:
    """Whether each map goes through the units of which the row has several gates side by side."""
    stages = [pointwise(g) for g in maps]
    if not stages or any(s is None for s in stages):
        return False
    (size, *more) = {s.out.shape[-1] if s.out.rank else 0 for s in stages if s is not None}
    one_row = all(n == 1 for s in stages if s is not None for n in s.out.shape[:-1])
    known = isinstance(size, int) and size != 0
    return one_row and not more and known and static(z.shape[-1]) % static(size) == 0


def _can_move(cell: Cell, places: _Places) -> bool:
    """Whether nothing between the product and the last map needs what they make."""
    made = {t for g in cell.groups for t in g.writes}
    begin, end = (places.at[g] for g in (cell.product, cell.maps[-1]))
    merged: set[Item] = set(cell.groups)
    between = [i for i in places.items[begin:end] if i is not None and i not in merged]
    return all(isinstance(i, Group) and not i.reads & made for i in between)


def _merged(cell: Cell) -> Group:
    """All stages in their order; the maps read the row itself, over one axis of units."""
    maps = [s for g in cell.maps for s in g.stages if isinstance(s, Compute)]
    unit = Var("unit", maps[0].axes[-1].extent)

    def whole(node: Expr) -> Expr | None:
        if not isinstance(node, Load) or node.tensor not in cell.parts:
            return None
        load = cell.parts[node.tensor].read(node)
        assert load is not None, "what is shifted keeps every index"
        return load

    stages = []
    for s in maps:
        value = substitute(transform(s.value, whole), {s.axes[-1].name: unit})
        stages.append(replace(s, axes=(*s.axes[:-1], unit), value=simplify(value)))
    nodes = (n for g in (cell.product, *cell.maps) for n in g.nodes)
    return Group(tuple(nodes), (*cell.product.stages, *stages))
