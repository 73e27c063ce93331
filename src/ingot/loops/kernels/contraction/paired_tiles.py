"""Products of bytes by routines: two points and four channels, pairs of terms widened once for all channels.

    pairs[k/2][p][2] = int16(x[p][k])                       for two points p, by the routine `widen2`
    sums[p][c]      += pairs[..][p][..] * duo[..][c][..]    for four channels c
    y[p][c]          = post(sums[p][c])

Where one instruction multiplies pairs of 16 bits, widening costs as much as multiplying: done once for two
points it serves all channels. The terms of a load of four bytes make the pairs (0, 2) and (1, 3), as
instructions widen them. The routine `dot2_tile` adds products to sums; where sums become bytes and nothing
else, `paired_bytes` has them made by a routine too. In: a product of bytes of at least two points. Out:
statements.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import overload

import numpy as np

from ingot.formula.expr import Array, Const, Expr, Load, Tensor, Var, cast, static, substitute
from ingot.formula.index import as_expr, simplify, value_range
from ingot.formula.statements import For, Let, Routine, Statement, Store
from ingot.formula.types import INT8, INT16, INT32
from ingot.loops.access import step
from ingot.loops.kernels.contraction.byte_product import Product
from ingot.loops.kernels.contraction.dot_loops import GROUP, HALVES, POINTS, DotLoops
from ingot.loops.kernels.naive import nested
from ingot.loops.layout import Storage
from ingot.loops.sum_range import Room
from ingot.targets.record import Target

CHANNELS = 4  # of a tile
LOWEST = -127  # of a weight that shares an int16 with another


def is_paired(p: Product, room: Room, target: Target) -> bool:
    """Whether the routines serve a product: enough points and channels, and weights and sums that fit."""
    if not target.routines or not p.c.tile or static(p.c.tile[-1].extent) < POINTS or not room.sums:
        return False
    lowest, _ = value_range(p.c.b.tensor) or (LOWEST, 0)
    return not p.shift and lowest >= LOWEST and p.c.channels >= CHANNELS


class PairedTiles(DotLoops):
    """Builds the loops; what a block of channels becomes, those who inherit may say otherwise."""

    def __init__(self, p: Product, storage: Storage) -> None:
        super().__init__(p, storage, GROUP, 0)
        *self.outer, self.inner = self.c.reduce
        self.loads = -(-static(self.inner.extent) // GROUP)
        self.pairs = prod(static(k.extent) for k in self.outer) * self.loads * len(HALVES)
        self.blocks = -(-self.c.channels // CHANNELS)
        self.duo = self._duo()
        self.wide = storage.scratch(self.c.to.tensor, (self.pairs, POINTS, 2), "pairs", INT16)

    def _duo(self) -> Tensor:
        """int16 [groups.., block, pair of terms, two channels, term]: 256 * the second + the first."""

        def pack(array: Array) -> Array:
            w = np.moveaxis(self.weights(array), 0, len(self.moving))  # groups.., channel, terms..
            before = w.shape[: len(self.moving)]
            short = [*[(0, 0)] * len(before), (0, -self.c.channels % CHANNELS)]
            w = np.pad(w, [*short, *[(0, 0)] * len(self.outer), (0, -w.shape[-1] % GROUP)])
            w = w.reshape(*before, self.blocks, CHANNELS // 2, 2, -1, GROUP)
            both = w[..., 1, :, :] * 256 + w[..., 0, :, :]  # groups.., block, duo, load, term
            halves = np.stack([both[..., list(h)] for h in HALVES], axis=-2)
            flat = halves.reshape(*halves.shape[:-3], -1, 2)  # groups.., block, duo, pair, term of it
            return np.ascontiguousarray(np.moveaxis(flat, -3, -2).astype(np.int16))

        return self.derived("duo", (), pack, INT16)

    # -- the loops

    def points(self, count: int) -> tuple[Statement, ...]:
        """Both points widened, then block by block sums and results."""
        out = list(self.widened(count))
        for first, blocks, size in self.in_blocks(CHANNELS):
            out += self.channels(first, blocks, size, count)
        return tuple(out)

    def widened(self, count: int) -> tuple[Statement, ...]:
        """All terms of two points as pairs; where there is one point it is there twice."""
        terms = static(self.inner.extent)
        whole, rest = divmod(terms, GROUP)
        row = self.term(self.outer)
        body: list[Statement] = []
        if whole:
            load = Var("load", whole)
            stores = tuple(self._widened(row, load, GROUP, count))
            body.append(For(load.name, Const(0), Const(whole), 1, stores))
        if rest:
            body += self._widened(row, Const(whole), rest, count)
        along = self.outer[-1] if self.outer else Var("row", 1)
        routine = self._widening(along, count) if terms >= GROUP else None
        rows = For(along.name, Const(0), as_expr(along.extent or 0), 1, tuple(body), routine=routine)
        return nested(self.outer[:-1], (rows,))

    def _widening(self, along: Var, count: int) -> Routine:
        """The call that widens all rows of an axis. It reads whole words, which a row of four terms has."""
        start = {along.name: Const(0)}
        a = (self._a(min(p, count - 1), {**start, self.inner.name: Const(0)}) for p in range(POINTS))
        first = simplify(substitute(self._pair(self.term(self.outer), Const(0), 0), start), self.c.bounds)
        to = Load(self.wide, (first, Const(0), Const(0)))
        numbers = (static(along.extent), step(self.c.a, along.name) or 0, static(self.inner.extent))
        return Routine(f"widen2_{self.c.a.tensor.type.name}", (*a, to), numbers)

    def _pair(self, row: Expr, load: Expr, half: int) -> Expr:
        return simplify((row * self.loads + load) * len(HALVES) + half)

    def _widened(self, row: Expr, load: Expr, terms: int, count: int) -> Iterator[Statement]:
        """So many terms of a load of each point, and zeros in place of what is missing."""
        for h, half in enumerate(HALVES):
            for p in range(POINTS):
                for i, term in enumerate(half):
                    read = self._a(min(p, count - 1), {self.inner.name: load * GROUP + term})
                    value = cast(read, INT16) if term < terms else Const(0, INT16)
                    yield Store(Load(self.wide, (self._pair(row, load, h), Const(p), Const(i))), value)

    def _a(self, point: int, at: dict[str, Expr]) -> Load:
        read = self.moved(self.c.a, Const(point))
        found = simplify(substitute(read, at), self.c.bounds)
        assert isinstance(found, Load)
        return found

    # -- blocks of channels

    def channels(self, first: int, blocks: int, size: int, count: int) -> tuple[Statement, ...]:
        """The results of blocks of channels at the points that there are."""
        sums = self.storage.scratch(self.c.to.tensor, (POINTS, CHANNELS), "sums", INT32)
        block = Var("block", first + blocks)
        body = (
            *self._first(sums, block, size, count),
            self._summed(sums, block),
            *self._results(sums, block, size, count),
        )
        return (For(block.name, Const(first), Const(first + blocks), 1, body),)

    def _first(self, sums: Tensor, block: Expr, size: int, count: int) -> Iterator[Statement]:
        """What the sums begin with: the same at both points, unless the first value moves with them."""
        starts = [self.corrected(Const(0, INT32), Const(min(p, count - 1))) for p in range(POINTS)]
        apart = [f"{p}_" if start != starts[0] else "" for p, start in enumerate(starts)]
        for p, start in enumerate(starts):
            for r in range(CHANNELS if p == 0 or apart[p] else 0):
                first = start if r < size else Const(0, INT32)
                yield Let(f"first{apart[p]}{r}", self.of_channel(first, block, r))
        for p in range(POINTS):
            for r in range(CHANNELS):
                yield Store(Load(sums, (Const(p), Const(r))), Var(f"first{apart[p]}{r}", None, INT32))

    @overload
    def of_channel(self, e: Load, block: Expr, lane: int) -> Load: ...

    @overload
    def of_channel(self, e: Expr, block: Expr, lane: int) -> Expr: ...

    def of_channel(self, e: Expr, block: Expr, lane: int) -> Expr:
        channel = block * CHANNELS + lane
        return simplify(substitute(e, {self.c.vector.name: channel}), self.c.bounds)

    def _summed(self, sums: Tensor, block: Expr) -> Statement:
        """The call of the routine."""
        pair = Var("pair", self.pairs)
        a = Load(self.wide, (Const(0), Const(0), Const(0)))
        w = Load(self.duo, (*self.moving, block, Const(0), Const(0), Const(0)))
        routine = Routine("dot2_tile", (a, w, Load(sums, (Const(0), Const(0)))), (self.pairs,))
        body: list[Statement] = []
        for p, r, product in self.products(pair, block, body):
            total = Load(sums, (Const(p), Const(r)))
            body.append(Store(total, total + product))
        return For(pair.name, Const(0), Const(self.pairs), 1, tuple(body), routine=routine)

    def products(self, pair: Expr, block: Expr, body: list[Statement]) -> Iterator[tuple[int, int, Expr]]:
        """What routines do with a pair of terms: (point, channel, product); registers go to `body`."""
        for d in range(CHANNELS // 2):
            for t in range(2):
                both = Var(f"both{d}_{t}", None, INT32)
                read = Load(self.duo, (*self.moving, block, pair, Const(d), Const(t)))
                body.append(Let(both.name, cast(read, INT32)))
                low = Var(f"low{d}_{t}", None, INT32)
                body.append(Let(low.name, cast(cast(both, INT8), INT32)))
                for p in range(POINTS):
                    a = cast(Load(self.wide, (pair, Const(p), Const(t))), INT32)
                    for r, w in ((2 * d, low), (2 * d + 1, (both - low) // 256)):
                        yield p, r, w * a

    def _results(self, sums: Tensor, block: Expr, size: int, count: int) -> Iterator[Statement]:
        """What becomes of the sums of the points that there are."""
        for p in range(count):
            for r in range(size):
                to = self.of_channel(self.moved(self.c.to, Const(p)), block, r)
                value = self.of_channel(self.moved(self.c.value, Const(p)), block, r)
                yield Store(to, substitute(value, {"acc": Load(sums, (Const(p), Const(r)))}))
