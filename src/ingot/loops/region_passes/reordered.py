"""What a stage makes that only moves elements: a source's under another index.

In: a group of a region. Out: a `Reordered`, which says how whoever reads the tensor reads the source instead.
"""

from __future__ import annotations

from dataclasses import dataclass

from ingot.formula.compute import Compute
from ingot.formula.expr import Const, Expr, Gathered, Load, Select, Tensor, Var, static, substitute, walk
from ingot.formula.index import interval, linear, mentions, simplify
from ingot.loops.region import Group


@dataclass(frozen=True, slots=True, eq=False)
class Reordered:
    """y[axes] = source[index], for these nodes. `is_free`: a view of a tensor stored in row-major order."""

    nodes: tuple[str, ...]
    source: Tensor
    axes: tuple[Var, ...]
    index: tuple[Expr, ...]
    is_view: bool = False
    is_free: bool = False
    outside: Expr | None = None

    @property
    def is_shift(self) -> bool:
        """Whether it is a corner of its source, perhaps within zeros: a corner is read in place as it is."""
        return len(self.axes) == self.source.rank and all(
            {**linear(i), None: 0} in ({a: 1, None: 0}, {None: 0} if a.extent == 1 else {})
            for i, a in zip(self.index, self.axes, strict=True)
        )

    def keeps_channels(self, load: Load) -> bool:
        """Whether the source may be stored like the tensor: what slides over it keeps channels at axis 1."""
        if self.source.rank < 3 or load.tensor.rank < 3 or self.outside is not None:
            return True
        places = list(zip(self.index, self.axes, strict=False))
        return len(self.index) == len(self.axes) and all(i == a for d, (i, a) in enumerate(places) if d != 1)

    def read(self, load: Load) -> Load | None:
        """The load made one of the source; None where what lies outside could become something else."""
        if load.outside is not None and not self._keeps_outside(load):
            return None
        env = {a.name: i for a, i in zip(self.axes, load.index, strict=True)}
        index = tuple(simplify(substitute(i, env)) for i in self.index)
        return Load(self.source, index, self.outside if load.outside is None else load.outside)

    def _keeps_outside(self, load: Load) -> bool:
        """Whether the load may leave the source where it leaves the tensor, and finds the same there."""
        if self.outside is None:
            return all(map(self._keeps, range(len(self.axes)), load.index))
        before = [-linear(i).get(None, 0) for i in self.index]
        places = zip(before, self.source.shape, self.axes, strict=True)
        return load.outside == self.outside and all(
            b >= 0 and b + static(n) <= static(a.extent) for b, n, a in places
        )

    def _keeps(self, d: int, index: Expr) -> bool:
        """Whether an index along axis d stays inside, or is the source's index along one of its own."""
        a, n = self.axes[d], static(self.axes[d].extent)
        try:
            lo, hi = interval(index)
        except ValueError:
            lo, hi = -1, n
        if lo >= 0 and hi < n:
            return True
        users = [e for e, i in enumerate(self.index) if mentions(i, a.name)]
        return len(users) == 1 and self.index[users[0]] == a and self.source.shape[users[0]] == n


def reordered(group: Group) -> Reordered | None:
    """What a group makes, if that is all of one tensor's elements under another index."""
    stage = group.stages[0] if len(group.stages) == 1 else None
    if not isinstance(stage, Compute) or stage.reduction or stage.at or not isinstance(stage.value, Load):
        return None
    load = stage.value
    plain = load.tensor.type is stage.out.type and load.tensor.value is None
    if not plain or not all(isinstance(n, int) and n for t in (load.tensor, stage.out) for n in t.shape):
        return None
    if any(isinstance(n, Load | Gathered | Select) for i in load.index for n in walk(i)):
        return None
    index = tuple(map(simplify, load.index))
    found = Reordered(group.nodes, load.tensor, stage.axes, index, bool(group.view), outside=load.outside)
    zero = isinstance(load.outside, Const) and load.outside.value == 0
    return found if load.outside is None or (zero and found.is_shift) else None
