"""Layouts: where the elements of a logical tensor stand in memory.

A layout permutes the logical axes into a storage order and surrounds them with a halo that holds one fill value. Formulas
never see it; `bind` turns their logical reads into physical ones.
"""

from __future__ import annotations

from dataclasses import dataclass

from ingot.formula.expr import Expr, Extent, Load, Select, Tensor, transform
from ingot.formula.index import NO_BOUNDS, Bounds, as_expr, interval, simplify
from ingot.formula.types import BOOL


@dataclass(frozen=True, slots=True)
class Layout:
    """`order[i]` is the logical axis stored i-th; the halo is given per logical axis."""

    order: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    fill: float | int = 0

    def shape(self, shape: tuple[Extent, ...]) -> tuple[Extent, ...]:
        """The physical shape of a logical one."""
        padded = [n + b + a if b + a else n for n, b, a in zip(shape, self.before, self.after, strict=True)]
        return tuple(padded[i] for i in self.order)

    def index(self, index: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """The physical index of a logical one."""
        moved = [i + b for i, b in zip(index, self.before, strict=True)]
        return tuple(moved[i] for i in self.order)

    @property
    def has_halo(self) -> bool:
        return any(self.before) or any(self.after)

    @property
    def is_dense(self) -> bool:
        """Whether it is plain row-major order."""
        return self.order == tuple(range(len(self.order))) and not self.has_halo


def dense(rank: int) -> Layout:
    return Layout(tuple(range(rank)), (0,) * rank, (0,) * rank)


@dataclass(slots=True)
class Storage:
    """The physical tensor of each logical one, made on first use."""

    layouts: dict[Tensor, Layout]
    physical: dict[Tensor, Tensor]

    def layout(self, t: Tensor) -> Layout:
        return self.layouts.get(t) or dense(t.rank)

    def tensor(self, t: Tensor) -> Tensor:
        if t not in self.physical:
            self.physical[t] = Tensor(t.name, t.type, self.layout(t).shape(t.shape), t.value)
        return self.physical[t]


def bind(e: Expr, storage: Storage, bounds: Bounds = NO_BOUNDS) -> Expr:
    """The expression over physical tensors, indices in normal form, a guard only where a read may lie outside."""

    def physical(node: Expr) -> Expr | None:
        return _bind_load(node, storage, bounds) if isinstance(node, Load) else None

    return simplify(transform(e, physical), bounds)


def _bind_load(load: Load, storage: Storage, bounds: Bounds) -> Expr:
    index = tuple(simplify(bind(i, storage, bounds), bounds) for i in load.index)
    layout = storage.layout(load.tensor)
    read = Load(storage.tensor(load.tensor), layout.index(index))
    if load.outside is None:
        return read
    guards = [
        g
        for i, n, b, a in zip(index, load.tensor.shape, layout.before, layout.after, strict=True)
        for g in _guards(i, n, b, a, bounds)
    ]
    if not guards:
        return read
    condition = guards[0]
    for g in guards[1:]:
        condition = condition & g
    return Select(condition, read, bind(load.outside, storage, bounds))


def _guards(i: Expr, n: Extent, before: int, after: int, bounds: Bounds) -> list[Expr]:
    """The comparisons that keep i in -before <= i < n + after, without those that always hold."""
    out = []
    try:
        lo, hi = interval(i, bounds)
        room = interval(simplify(as_expr(n) + after - 1 - i, bounds), bounds)[0]
    except ValueError:
        lo, room = -1, -1
    if lo < -before:
        out.append(i >= -before)
    if room < 0:
        out.append(i < n + after)
    assert all(g.dtype is BOOL for g in out)
    return out
