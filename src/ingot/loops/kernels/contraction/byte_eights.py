"""Products of bytes by a routine that makes the sums of one point, eight channels at a time.

    sums[p][c] = sum over k of a[p][k] * (w[c][k] - 128)        for all channels c, by the routine `dot8`
    y[p][c]    = post(sums[p][c] - zero * total[c])

For cores of few registers, whose compilers keep fewer sums in them. In: a product of bytes with one axis of
terms that lie side by side, a multiple of four. Out: statements.
"""

from __future__ import annotations

import numpy as np

from ingot.formula.expr import Array, Const, Expr, Load, Tensor, Var, cast, static, substitute
from ingot.formula.index import simplify
from ingot.formula.statements import For, Routine, Statement, Store
from ingot.formula.types import INT32, UINT8
from ingot.loops.access import step
from ingot.loops.kernels.contraction.byte_product import Product
from ingot.loops.kernels.contraction.dot_loops import POINTS, DotLoops
from ingot.loops.layout import Storage
from ingot.targets.record import Target
from ingot.targets.thumb_routines import CHANNELS, OFFSET, UNROLLED


def is_by_eights(p: Product, target: Target) -> bool:
    """Whether the routine serves a product."""
    c = p.c
    if f"dot8_{c.a.tensor.type.name}" not in target.routines or len(c.reduce) != 1:
        return False
    (terms,) = c.reduce
    return c.channels >= CHANNELS and static(terms.extent) % UNROLLED == 0 and step(c.a, terms.name) == 1


class ByEights(DotLoops):
    """Builds the loops of one product."""

    def __init__(self, p: Product, storage: Storage) -> None:
        super().__init__(p, storage, 1, 0)
        (self.terms,) = self.c.reduce
        self.blocks = -(-self.c.channels // CHANNELS)
        self.eights = self._eights()
        points = 1 if self.x is None else min(POINTS, static(self.x.extent))
        self.sums = storage.scratch(self.c.to.tensor, (points, self.blocks * CHANNELS), "sums", INT32)

    def _eights(self) -> Tensor:
        """uint8 [groups.., block, term, channel of the block]: weights and 128."""

        def pack(array: Array) -> Array:
            w = np.moveaxis(self.weights(array), 0, -1)  # groups.., term, channel
            w = np.pad(w, [*[(0, 0)] * (w.ndim - 1), (0, -self.c.channels % CHANNELS)])
            w = w.reshape(*w.shape[:-1], self.blocks, CHANNELS)
            return np.ascontiguousarray(np.moveaxis(w, -2, -3) + OFFSET).astype(np.uint8)

        return self.derived("eights", (), pack, UINT8)

    def points(self, count: int) -> tuple[Statement, ...]:
        """Sums of all channels at a few points, then what becomes of them."""
        point = Var("point", count)
        made = (For(self.c.vector.name, Const(0), Const(self.c.channels), 1, (self._store(point),)),)
        return (*map(self._summed, range(count)), For("point", Const(0), Const(count), 1, made))

    def _summed(self, point: int) -> Statement:
        """The call of the routine for a point, and what it does."""
        block, term = Var("block", self.blocks), self.terms
        totals = [Load(self.sums, (Const(point), simplify(block * CHANNELS + c))) for c in range(CHANNELS)]
        adds = tuple(
            Store(
                total,
                total + cast(self._a(point, term), INT32) * (cast(self._w(block, term, c), INT32) - OFFSET),
            )
            for c, total in enumerate(totals)
        )
        zeros = (Store(total, Const(0, INT32)) for total in totals)
        inner = For(term.name, Const(0), Const(static(term.extent)), 1, adds)
        start = (
            self._a(point, Const(0)),
            self._w(Const(0), Const(0), 0),
            Load(self.sums, (Const(point), Const(0))),
        )
        call = Routine(f"dot8_{self.c.a.tensor.type.name}", start, (static(term.extent), self.blocks))
        return For(block.name, Const(0), Const(self.blocks), 1, (*zeros, inner), routine=call)

    def _a(self, point: int, term: Expr) -> Load:
        found = simplify(
            substitute(self.moved(self.c.a, Const(point)), {self.terms.name: term}), self.c.bounds
        )
        assert isinstance(found, Load)
        return found

    def _w(self, block: Expr, term: Expr, channel: int) -> Load:
        return Load(self.eights, (*self.moving, block, term, Const(channel)))

    def _store(self, point: Var) -> Statement:
        """The result of one channel at one point."""
        total = self.corrected(Load(self.sums, (point, self.c.vector)), point)
        to, value = (self.moved(e, point) for e in (self.c.to, self.c.value))
        assert isinstance(to, Load)
        return Store(to, substitute(value, {"acc": total}))
