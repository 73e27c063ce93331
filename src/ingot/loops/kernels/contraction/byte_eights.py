"""Products of bytes by a routine that makes the sums of one point, eight channels at a time.

    sums[p][c] += sum over k of a[p][r][k] * (w[c][r][k] - 128)     for all channels c, by the routine `dot8`
    y[p][c]     = post(sums[p][c] - zero * total[c])

For cores of few registers, whose compilers keep fewer sums in them. In: a product of bytes whose terms lie
side by side, in rows r of a multiple of four. Out: statements.
"""

from __future__ import annotations

import numpy as np

from ingot.formula.expr import Array, Const, Expr, Load, Tensor, Var, cast, static, substitute
from ingot.formula.index import as_expr, simplify
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
    if f"dot8_{c.a.tensor.type.name}" not in target.routines:
        return False
    terms = c.reduce[-1]
    return c.channels >= CHANNELS and static(terms.extent) % UNROLLED == 0 and step(c.a, terms.name) == 1


class ByEights(DotLoops):
    """Builds the loops of one product."""

    def __init__(self, p: Product, storage: Storage) -> None:
        super().__init__(p, storage, 1, 0)
        *self.rows, self.terms = self.c.reduce
        self.blocks = -(-self.c.channels // CHANNELS)
        self.eights = self._eights()
        points = 1 if self.x is None else min(POINTS, static(self.x.extent))
        self.sums = storage.scratch(self.c.to.tensor, (points, self.blocks * CHANNELS), "sums", INT32)

    def _eights(self) -> Tensor:
        """uint8 [groups.., rows.., block, term, channel of the block]: weights and 128."""

        def pack(array: Array) -> Array:
            w = np.moveaxis(self.weights(array), 0, -1)  # groups.., rows.., term, channel
            w = np.pad(w, [*[(0, 0)] * (w.ndim - 1), (0, -self.c.channels % CHANNELS)])
            w = w.reshape(*w.shape[:-1], self.blocks, CHANNELS)
            return np.ascontiguousarray(np.moveaxis(w, -2, -3) + OFFSET).astype(np.uint8)

        return self.derived("eights", (), pack, UINT8)

    def points(self, count: int) -> tuple[Statement, ...]:
        """Sums of all channels at a few points, then what becomes of them."""
        point = Var("point", count)
        made = (For(self.c.vector.name, Const(0), Const(self.c.channels), 1, (self._store(point),)),)
        sums = [s for p in range(count) for s in (self._zeros(p), self._summed(p))]
        return (*sums, For("point", Const(0), Const(count), 1, made))

    def _zeros(self, point: int) -> Statement:
        channel = Var("channel", self.blocks * CHANNELS)
        body = (Store(Load(self.sums, (Const(point), channel)), Const(0, INT32)),)
        return For(channel.name, Const(0), Const(static(channel.extent)), 1, body)

    def _summed(self, point: int) -> Statement:
        """The call of the routine for each row of a point, and what it does."""
        block, term = Var("block", self.blocks), self.terms
        adds = []
        for c in range(CHANNELS):
            total = Load(self.sums, (Const(point), simplify(block * CHANNELS + c)))
            w = cast(self._w(block, term, c), INT32) - OFFSET
            adds.append(Store(total, total + cast(self._a(point, term), INT32) * w))
        inner = For(term.name, Const(0), Const(static(term.extent)), 1, tuple(adds))
        start = (self._a(point, Const(0)), self._w(Const(0), Const(0), 0))
        name, numbers = f"dot8_{self.c.a.tensor.type.name}", (static(term.extent), self.blocks)
        call = Routine(name, (*start, Load(self.sums, (Const(point), Const(0)))), numbers)
        made: Statement = For(block.name, Const(0), Const(self.blocks), 1, (inner,), routine=call)
        for row in reversed(self.rows):
            made = For(row.name, Const(0), as_expr(row.extent or 0), 1, (made,))
        return made

    def _a(self, point: int, term: Expr) -> Load:
        found = simplify(
            substitute(self.moved(self.c.a, Const(point)), {self.terms.name: term}), self.c.bounds
        )
        assert isinstance(found, Load)
        return found

    def _w(self, block: Expr, term: Expr, channel: int) -> Load:
        return Load(self.eights, (*self.moving, *self.rows, block, term, Const(channel)))

    def _store(self, point: Var) -> Statement:
        """The result of one channel at one point."""
        total = self.corrected(Load(self.sums, (point, self.c.vector)), point)
        to, value = (self.moved(e, point) for e in (self.c.to, self.c.value))
        assert isinstance(to, Load)
        return Store(to, substitute(value, {"acc": total}))
