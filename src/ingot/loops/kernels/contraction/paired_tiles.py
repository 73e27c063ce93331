"""Products of bytes by routines: two points and four channels, pairs of terms widened once for all channels.

    pairs[k/2][p][2] = int16(x[p][k])                       for two points p, by the routine `widen2`
    sums[p][c]      += pairs[..][p][..] * duo[..][c][..]    for four channels c
    y[p][c]          = post(sums[p][c])

Where one instruction multiplies pairs of 16 bits, widening costs as much as multiplying: done once for two
points it serves all channels. The terms of a load of four bytes make the pairs (0, 2) and (1, 3), as
instructions widen them. Where one term of each row is left, those of four rows are gathered behind these. The
routine `dot2_tile` adds products to sums; where sums become bytes and nothing else, `paired_bytes` has them
made by a routine too. In: a product of bytes of at least two points. Out: statements.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod
from typing import overload

import numpy as np

from ingot.formula.expr import Array, Const, Expr, Load, Tensor, Var, cast, static, substitute
from ingot.formula.index import simplify, value_range
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
        whole, rest = divmod(static(self.inner.extent), GROUP)
        self.rows = static(self.outer[-1].extent) if self.outer else 1
        self.is_gathered = rest == 1 and whole > 0
        self.loads = whole + (rest > 0 and not self.is_gathered)
        self.all_loads = self.rows * self.loads + (-(-self.rows // GROUP) if self.is_gathered else 0)
        self.pairs = prod(static(k.extent) for k in self.outer[:-1]) * self.all_loads * len(HALVES)
        self.blocks = -(-self.c.channels // CHANNELS)
        self.duo = self._duo()
        self.wide = storage.scratch(self.c.to.tensor, (self.pairs, POINTS, 2), "pairs", INT16)

    def _duo(self) -> Tensor:
        """int16 [groups.., block, pair of terms, two channels, term]: 256 * the second + the first."""

        def pack(array: Array) -> Array:
            w = np.moveaxis(self.weights(array), 0, len(self.moving))  # groups.., channel, terms..
            before = w.shape[: len(self.moving)]
            short = [*[(0, 0)] * len(before), (0, -self.c.channels % CHANNELS)]
            w = self._in_loads(np.pad(w, [*short, *[(0, 0)] * len(self.c.reduce)]))
            w = w.reshape(*before, self.blocks, CHANNELS // 2, 2, -1, GROUP)
            both = w[..., 1, :, :] * 256 + w[..., 0, :, :]  # groups.., block, duo, load, term
            halves = np.stack([both[..., list(h)] for h in HALVES], axis=-2)
            flat = halves.reshape(*halves.shape[:-3], -1, 2)  # groups.., block, duo, pair, term of it
            return np.ascontiguousarray(np.moveaxis(flat, -3, -2).astype(np.int16))

        return self.derived("duo", (), pack, INT16)

    def _in_loads(self, w: Array) -> Array:
        """Terms [.., outer.., inner] in the order of their loads, zeros in place of what is missing."""
        w, whole = w if self.outer else w[..., None, :], self.loads * GROUP
        short = [(0, 0)] * (w.ndim - 2)
        if not self.is_gathered:
            return np.pad(w, [*short, (0, 0), (0, whole - w.shape[-1])])
        parts = []
        for first in range(0, self.rows, GROUP):
            rows, rest = w[..., first : first + GROUP, :whole], w[..., first : first + GROUP, whole]
            parts += [
                rows.reshape(*rows.shape[:-2], -1),
                np.pad(rest, [*short, (0, -rest.shape[-1] % GROUP)]),
            ]
        return np.concatenate(parts, -1)

    # -- the loops

    def points(self, count: int) -> tuple[Statement, ...]:
        """Both points widened, then block by block sums and results."""
        out = list(self.widened(count))
        for first, blocks, size in self.in_blocks(CHANNELS):
            out += self.channels(first, blocks, size, count)
        return tuple(out)

    def widened(self, count: int) -> tuple[Statement, ...]:
        """All terms of two points as pairs; where there is one point it is there twice."""
        along, routine = self.along, self.widening(count)
        if not self.is_gathered:
            rows = replace(self._rows(along, 0, self.rows, count), routine=routine)
            return nested(self.outer[:-1], (rows,))
        body: list[Statement] = []
        for first in range(0, self.rows, GROUP):
            last = min(first + GROUP, self.rows)
            body.append(self._rows(along, first, last, count))
            reads = [
                substitute(self._read(Const(self.loads * GROUP)), {along.name: Const(row)})
                for row in range(first, last)
            ]
            load = self._load(Const(last), Const(first // GROUP))
            body += self._widened(load, reads, count)
        once = For("once", Const(0), Const(1), 1, tuple(body), routine=routine)
        return nested(self.outer[:-1], (once,))

    def _rows(self, along: Var, first: int, last: int, count: int) -> For:
        """The loads of some rows."""
        whole, rest = divmod(static(self.inner.extent), GROUP)
        body: list[Statement] = []
        if whole:
            load = Var("load", whole)
            reads = [self._read(load * GROUP + term) for term in range(GROUP)]
            stores = self._widened(self._load(along, load + first // GROUP), reads, count)
            body.append(For(load.name, Const(0), Const(whole), 1, tuple(stores)))
        if rest and not self.is_gathered:
            reads = [self._read(Const(whole * GROUP + term)) for term in range(rest)]
            body += self._widened(self._load(along, Const(whole)), reads, count)
        return For(along.name, Const(first), Const(last), 1, tuple(body))

    @property
    def along(self) -> Var:
        """The rows that one call widens."""
        return self.outer[-1] if self.outer else Var("row", 1)

    def widening(self, count: int) -> Routine | None:
        """The call that widens all rows of an axis. It reads whole words, which a row of four terms has."""
        if static(self.inner.extent) < GROUP:
            return None
        along = self.along
        start = {along.name: Const(0)}
        read = substitute(self._read(Const(0)), start)
        a = (self._point(read, min(p, count - 1)) for p in range(POINTS))
        to = Load(self.wide, (self._pair(self._load(Const(0), Const(0)), 0), Const(0), Const(0)))
        numbers = (self.rows, step(self.c.a, along.name) or 0, static(self.inner.extent))
        return Routine(f"widen2_{self.c.a.tensor.type.name}", (*a, to), numbers)

    def _load(self, row: Expr, load: Expr) -> Expr:
        """Where a load of a row is among all."""
        return self.term(self.outer[:-1]) * self.all_loads + row * self.loads + load

    def _pair(self, load: Expr, half: int) -> Expr:
        return simplify(load * len(HALVES) + half)

    def _read(self, term: Expr) -> Expr:
        return substitute(self.c.a, {self.inner.name: term})

    def _point(self, read: Expr, point: int) -> Load:
        """What a read of the first point is at another."""
        found = simplify(self.moved(read, Const(point)), self.c.bounds)
        assert isinstance(found, Load)
        return found

    def _widened(self, load: Expr, reads: Sequence[Expr], count: int) -> Iterator[Statement]:
        """The terms of a load of each point, and zeros in place of what is missing."""
        for h, half in enumerate(HALVES):
            for p in range(POINTS):
                for i, term in enumerate(half):
                    value: Expr = Const(0, INT16)
                    if term < len(reads):
                        value = cast(self._point(reads[term], min(p, count - 1)), INT16)
                    yield Store(Load(self.wide, (self._pair(load, h), Const(p), Const(i))), value)

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
