"""Products of bytes by a routine that makes the sums of one point, eight channels at a time.

    sums[p][c] += sum over k of a[p][r][k] * (w[c][r][k] - 128)     for all channels c, by the routine `dot8`
    y[p][c]     = post(sums[p][c] - zero * total[c])

For cores of few registers, whose compilers keep fewer sums in them. Where results are bytes that lie side by
side, sums begin with the first value of a channel, and the routine `scale8` makes bytes of them. If one is
near a tie, about which its product leaves open, all of that point are computed anew. In: a product of bytes
whose terms lie side by side, in rows r of a multiple of four. Out: statements.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ingot.formula.expr import (
    Array,
    Binary,
    Const,
    Expr,
    Load,
    Select,
    Tensor,
    Var,
    cast,
    static,
    substitute,
)
from ingot.formula.index import simplify
from ingot.formula.statements import For, Routine, Statement, Store, When
from ingot.formula.types import FLOAT32, INT32, INT64, UINT8
from ingot.loops.access import step
from ingot.loops.kernels.contraction.byte_product import Product
from ingot.loops.kernels.contraction.dot_loops import POINTS, DotLoops
from ingot.loops.kernels.contraction.paired_bytes import (
    as_byte,
    constant_of_channels,
    is_direct,
    unsigned_zero,
)
from ingot.loops.kernels.naive import nested
from ingot.loops.layout import Storage
from ingot.loops.requantise import Requantised, limited
from ingot.targets.record import Target
from ingot.targets.thumb_routines import CHANNELS, FRACTION, NEAR, OFFSET, UNROLLED


def is_by_eights(p: Product, target: Target) -> bool:
    """Whether the routine serves a product."""
    c = p.c
    if f"dot8_{c.a.tensor.type.name}" not in target.routines:
        return False
    terms = c.reduce[-1]
    return c.channels >= CHANNELS and static(terms.extent) % UNROLLED == 0 and step(c.a, terms.name) == 1


class ByEights(DotLoops):
    """Builds the loops of one product."""

    reads_in_order = False  # which would take more code

    def __init__(self, p: Product, storage: Storage, found: Requantised | None) -> None:
        """`found`: what the sums become, where products of 32 bits scale them."""
        super().__init__(p, storage, 1, 0)
        self.found = found if found is not None and is_direct(self, found) else None
        *self.rows, self.terms = self.c.reduce
        self.blocks = -(-self.c.channels // CHANNELS)
        self.eights = self._eights()
        points = 1 if self.x is None else min(POINTS, static(self.x.extent))
        self.sums = storage.scratch(self.c.to.tensor, (points, self.blocks * CHANNELS), "sums", INT32)
        if self.found is not None:
            assert isinstance(self.c.init, Const | Load)
            self.first = constant_of_channels(self, self.c.init, INT32, ("first", CHANNELS))
            self.by = self._by(self.found)
            self.near = (
                None if self.found.is_fixed else storage.scratch(self.c.to.tensor, (1,), "near", INT32)
            )

    def _by(self, found: Requantised) -> Tensor:
        """int32 [groups.., channel, 1]: scales; in fixed point [.., channel, 2], multipliers and shifts."""
        if found.shift is None:
            scales = constant_of_channels(self, found.scale, FLOAT32, ("scale", 1))
            return self.storage.derived(scales, ("whole",), _whole, INT32, "whole")
        m, s = (
            constant_of_channels(self, e, INT32, (what, 1))
            for e, what in ((found.scale, "multiplier"), (found.shift, "shift"))
        )
        how = ("by", m.shape)
        return self.storage.combined(m, s, how, lambda m, s: np.concatenate([m, s], -1), INT32, "by")

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
        point, channel = Var("point", count), self.c.vector
        plain = For(channel.name, Const(0), Const(self.c.channels), 1, (self._store(point),))
        made: tuple[Statement, ...] = (plain,)
        if self.found is not None and self.near is None:
            made = (self._in_fixed_point(point, self.found),)
        elif self.found is not None and self.near is not None:
            made = (*self._scaled(point, self.found, self.near), self._anew(plain, self.near))
        sums = [s for p in range(count) for s in (*self._begun(p), *self._summed(p))]
        return (*sums, For("point", Const(0), Const(count), 1, made))

    def _begun(self, point: int) -> Iterator[Statement]:
        """What the sums begin with, where the routine does not read it elsewhere: its rows add to them."""
        if self.found is not None and not self.rows:
            return
        block, lane = Var("block", self.blocks), Var("lane", CHANNELS)
        first = Const(0, INT32) if self.found is None else self._first(block, lane)
        store = Store(self._sum(point, block, lane), first)
        inner = For(lane.name, Const(0), Const(CHANNELS), 1, (store,))
        yield For(block.name, Const(0), Const(self.blocks), 1, (inner,))

    def _first(self, block: Expr, lane: Expr) -> Load:
        return Load(self.first, (*self.moving, block, lane))

    def _sum(self, point: int, block: Expr, lane: Expr) -> Load:
        return Load(self.sums, (Const(point), simplify(block * CHANNELS + lane)))

    def _summed(self, point: int) -> tuple[Statement, ...]:
        """The call of the routine for each row of a point, and what it does."""
        block, term, none = Var("block", self.blocks), self.terms, Const(0)
        begins = self.found is not None and not self.rows
        body: list[Statement] = []
        adds = []
        for c in map(Const, range(CHANNELS)):
            total = self._sum(point, block, c)
            w = cast(self._w(block, term, c), INT32) - OFFSET
            adds.append(Store(total, total + cast(self._a(point, term), INT32) * w))
            body += (Store(total, self._first(block, c)),) if begins else ()
        body.append(For(term.name, none, Const(static(term.extent)), 1, tuple(adds)))
        sums = self._sum(point, none, none)
        start = (self._a(point, none), self._w(none, none, none))
        name, numbers = f"dot8_{self.c.a.tensor.type.name}", (static(term.extent), self.blocks)
        call = Routine(name, (*start, self._first(none, none) if begins else sums, sums), numbers)
        made = For(block.name, none, Const(self.blocks), 1, tuple(body), routine=call)
        return nested(self.rows, (made,))

    def _in_fixed_point(self, point: Var, found: Requantised) -> Statement:
        """The call of the routine that makes bytes of the sums of a point, and what it does."""
        channel = self.c.vector
        m, s = (Load(self.by, (*self.moving, channel, Const(n))) for n in range(2))
        made = as_byte(Load(self.sums, (point, channel)), 0, found, m, s)
        numbers = (self.c.channels, unsigned_zero(found))
        call = Routine(f"fixed_scale8_{found.node.type.name}", self._told(point, m), numbers)
        store = Store(self.moved(self.c.to, point), made)
        return For(channel.name, Const(0), Const(self.c.channels), 1, (store,), routine=call)

    def _told(self, point: Var, by: Load) -> tuple[Load, ...]:
        """Where the sums of a point, what scales them and its results begin."""
        start = {self.c.vector.name: Const(0)}
        to = substitute(self.moved(self.c.to, point), start)
        return Load(self.sums, (point, Const(0))), substitute(by, start), to

    def _scaled(self, point: Var, found: Requantised, mark: Tensor) -> Iterator[Statement]:
        """The same by products of 32 bits, which mark results that are near a tie."""
        channel, near = self.c.vector, Load(mark, (Const(0),))
        yield Store(near, Const(0, INT32))
        by = Load(self.by, (*self.moving, channel, Const(0)))
        wide = cast(Load(self.sums, (point, channel)), INT64) * cast(by, INT64) >> FRACTION
        wide = wide + Const((1 << FRACTION - 1) + NEAR, INT64)
        behind = wide & Const((1 << FRACTION) - 1, INT64)
        body = (
            Store(near, Select(behind < Const(2 * NEAR, INT64), Const(1, INT32), near)),
            Store(
                self.moved(self.c.to, point),
                limited(cast(wide >> FRACTION, INT32) + found.zero, found.node.type),
            ),
        )
        numbers = (self.c.channels, unsigned_zero(found))
        call = Routine(f"scale8_{found.node.type.name}", (*self._told(point, by), near), numbers)
        yield For(channel.name, Const(0), Const(self.c.channels), 1, body, routine=call)

    def _anew(self, plain: Statement, near: Tensor) -> Statement:
        """The bytes of a point, if one of them is open."""
        return When(Binary("ne", Load(near, (Const(0),)), Const(0, INT32)), (plain,))

    def _a(self, point: int, term: Expr) -> Load:
        moved = self.moved(self.c.a, Const(point))
        return simplify(substitute(moved, {self.terms.name: term}), self.c.bounds)

    def _w(self, block: Expr, term: Expr, channel: Expr) -> Load:
        return Load(self.eights, (*self.moving, *self.rows, block, term, channel))

    def _store(self, point: Var) -> Statement:
        """The result of one channel at one point."""
        total: Expr = Load(self.sums, (point, self.c.vector))
        if self.found is None:
            total = self.corrected(total, point)
        return self.stored(total, point)


def _whole(scales: Array) -> Array:
    """Scales as numbers of 2^-32."""
    return np.asarray(np.rint(scales.astype(np.float64) * 2.0**32)).astype(np.int32)
