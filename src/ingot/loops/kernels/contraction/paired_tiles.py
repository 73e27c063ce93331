"""Products of bytes by a routine: two points and four channels, pairs of terms widened once for all channels.

    pairs[k/2][p][2] = int16(x[p][k])                       for two points p
    sums[p][c]      += pairs[..][p][..] * duo[..][c][..]    by the routine `dot2_tile`, for four channels c
    y[p][c]          = post(sums[p][c])

Where one instruction multiplies pairs of 16 bits, widening costs as much as multiplying: done once for two
points it serves all channels. The terms of a load of four bytes make the pairs (0, 2) and (1, 3), as
instructions widen them. uint8 operands lose 128 of each element, which the first values make up for. In: a
product of bytes of at least two points. Out: statements.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

import numpy as np

from ingot.formula.expr import (
    Array,
    Binary,
    Const,
    Expr,
    Load,
    Shuffle,
    Tensor,
    Var,
    cast,
    static,
    substitute,
)
from ingot.formula.index import as_expr, simplify, value_range
from ingot.formula.statements import For, Let, Routine, Statement, Store
from ingot.formula.types import INT8, INT16, INT32, UINT8
from ingot.loops.kernels.contraction.byte_product import Product
from ingot.loops.kernels.contraction.dot_loops import GROUP, HALVES, POINTS, DotLoops
from ingot.loops.kernels.contraction.products import SIGN
from ingot.loops.layout import Storage
from ingot.targets.record import Target
from ingot.targets.routines import MOST_TERMS, dot2_tile

CHANNELS = 4  # of a tile
LOWEST = -127  # of a weight that shares an int16 with another


def is_paired(p: Product, target: Target) -> bool:
    """Whether the routine serves a product: enough points, terms and channels, and weights that fit."""
    if not target.routines or not p.c.tile or static(p.c.tile[-1].extent) < POINTS:
        return False
    lowest, _ = value_range(p.c.b.tensor) or (LOWEST, 0)
    inner = static(p.c.reduce[-1].extent)
    return lowest - p.shift >= LOWEST and p.c.channels >= CHANNELS and _whole(inner) <= MOST_TERMS


def paired_tiles(p: Product, storage: Storage) -> tuple[Statement, ...]:
    """The statements of a product that `is_paired`."""
    return _PairedTiles(p, storage).statements()


def _whole(terms: int) -> int:
    """Terms of an axis with those that fill its last load."""
    return -(-terms // GROUP) * GROUP


class _PairedTiles(DotLoops):
    """Builds the loops: `rows` of terms, each with as many as the routine is called for at once."""

    def __init__(self, p: Product, storage: Storage) -> None:
        super().__init__(p, storage, GROUP, SIGN if p.c.a.tensor.type is UINT8 else 0)
        *self.outer, self.inner = self.c.reduce
        self.terms = _whole(static(self.inner.extent))
        rows = prod(static(k.extent) for k in self.outer)
        self.rows = 1 if rows * self.terms <= MOST_TERMS else rows
        self.pairs = rows // self.rows * self.terms // 2
        self.blocks = -(-self.c.channels // CHANNELS)
        self.duo = self._duo()
        own = self.c.to.tensor
        self.wide = storage.scratch(own, (self.rows * self.pairs, POINTS, 2), "pairs", INT16)
        self.sums = storage.scratch(own, (POINTS, CHANNELS), "sums", INT32)

    def _duo(self) -> Tensor:
        """int16 [block, groups.., pair of terms, two channels, term]: 256 * the second + the first."""

        def pack(array: Array) -> Array:
            w = self.weights(array)
            short = [(0, -len(w) % CHANNELS)] + [(0, 0)] * (w.ndim - 2) + [(0, -w.shape[-1] % GROUP)]
            w = np.pad(w, short)
            w = w.reshape(self.blocks, CHANNELS // 2, 2, *w.shape[1 : 1 + len(self.moving)], -1, GROUP)
            both = w[:, :, 1] * 256 + w[:, :, 0]  # block, duo, groups.., load, term
            halves = np.stack([both[..., list(h)] for h in HALVES], axis=-2)
            flat = halves.reshape(*halves.shape[:-3], -1, 2)  # block, duo, groups.., pair, term of it
            return np.ascontiguousarray(np.moveaxis(flat, 1, -2).astype(np.int16))

        return self.derived("duo", (), pack, INT16)

    # -- the loops

    def points(self, count: int) -> tuple[Statement, ...]:
        """Both points widened, then block by block sums and results."""
        whole, rest = divmod(self.c.channels, CHANNELS)
        out = [*self._widened(count)]
        for first, blocks, size in ((0, whole, CHANNELS), (whole, 1, rest)):
            if blocks and size:
                block = Var("block", blocks) if blocks > 1 or not first else Const(first)
                body = (*self._first(block, size), *self._summed(block), *self._results(block, size, count))
                out += [For("block", Const(0), Const(blocks), 1, body)] if block != Const(first) else body
        return tuple(out)

    def _widened(self, count: int) -> Iterator[Statement]:
        """All terms of two points as pairs; where there is one point it is there twice."""
        loads, rest = divmod(static(self.inner.extent), GROUP)
        row: Expr = Const(0)
        for k in self.outer:
            row = row * static(k.extent) + k
        load = Var("load", loads)
        body: list[Statement] = []
        if loads:
            body.append(For("load", Const(0), Const(loads), 1, tuple(self._loaded(row, load, count))))
        if rest:
            body += self._last(row, loads, rest, count)
        for k in reversed(self.outer):
            body = [For(k.name, Const(0), as_expr(k.extent or 0), 1, tuple(body))]
        yield from body

    def _pair(self, row: Expr, load: Expr, half: int) -> Expr:
        return simplify(row * (self.terms // 2) + load * len(HALVES) + half)

    def _loaded(self, row: Expr, load: Expr, count: int) -> Iterator[Statement]:
        """Four terms of each point at once."""
        for p in range(count):
            four: Expr = replace(self._a(p, load * GROUP), lanes=GROUP)
            four = cast(Binary("xor", four, Const(SIGN, UINT8)), INT8) if self.sign else four
            yield Let(f"a{p}", four, GROUP)
        for h, half in enumerate(HALVES):
            for p in range(POINTS):
                register = Var(f"a{min(p, count - 1)}", None, INT8)
                wide = cast(Shuffle(register, register, half), INT16)
                at = (self._pair(row, load, h), Const(p), Const(0))
                yield Store(Load(self.wide, at, lanes=2), wide, 2)

    def _last(self, row: Expr, load: int, rest: int, count: int) -> Iterator[Statement]:
        """The terms that fill no load, and zeros in place of what is missing."""
        for h, half in enumerate(HALVES):
            for p in range(POINTS):
                for i, term in enumerate(half):
                    element = self._a(min(p, count - 1), Const(load * GROUP + term))
                    value = cast(element, INT32) - Const(self.sign, INT32) if term < rest else Const(0, INT32)
                    to = Load(self.wide, (self._pair(row, Const(load), h), Const(p), Const(i)))
                    yield Store(to, cast(value, INT16))

    def _a(self, point: int, term: Expr) -> Load:
        read = self.moved(self.c.a, Const(point))
        found = simplify(substitute(read, {self.inner.name: term}), self.c.bounds)
        assert isinstance(found, Load)
        return found

    def _first(self, block: Expr, size: int) -> Iterator[Statement]:
        """What the sums begin with: the same at both points."""
        for r in range(CHANNELS):
            first = self.corrected(Const(0, INT32)) if r < size else Const(0, INT32)
            yield Let(f"first{r}", self._of_channel(first, block, r))
        for p in range(POINTS):
            for r in range(CHANNELS):
                yield Store(Load(self.sums, (Const(p), Const(r))), Var(f"first{r}", None, INT32))

    def _of_channel(self, e: Expr, block: Expr, lane: int) -> Expr:
        channel = block * CHANNELS + lane
        return simplify(substitute(e, {self.c.vector.name: channel}), self.c.bounds)

    def _summed(self, block: Expr) -> Iterator[Statement]:
        """Calls of the routine, one for all terms or one for each row of them."""
        row, pair = Var("row", self.rows), Var("pair", self.pairs)
        at = row * self.pairs + pair if self.rows > 1 else pair
        start = row * self.pairs if self.rows > 1 else Const(0)
        duo = (block, *self.moving)
        a = Load(self.wide, (start, Const(0), Const(0)))
        w = Load(self.duo, (*duo, start, Const(0), Const(0)))
        sums = Load(self.sums, (Const(0), Const(0)))
        routine = Routine(dot2_tile(self.pairs), (a, w, sums), self.pairs)
        body = tuple(self._products(at, duo))
        loop = For("pair", Const(0), Const(self.pairs), 1, body, routine=routine)
        yield For("row", Const(0), Const(self.rows), 1, (loop,)) if self.rows > 1 else loop

    def _products(self, pair: Expr, duo: tuple[Expr, ...]) -> Iterator[Statement]:
        """What the routine does with a pair of terms."""
        for d in range(CHANNELS // 2):
            for t in range(2):
                both = Var(f"both{d}_{t}", None, INT32)
                yield Let(both.name, cast(Load(self.duo, (*duo, pair, Const(d), Const(t))), INT32))
                yield Let(f"low{d}_{t}", cast(cast(both, INT8), INT32))
                low = Var(f"low{d}_{t}", None, INT32)
                for p in range(POINTS):
                    a = cast(Load(self.wide, (pair, Const(p), Const(t))), INT32)
                    for r, w in ((2 * d, low), (2 * d + 1, (both - low) // 256)):
                        total = Load(self.sums, (Const(p), Const(r)))
                        yield Store(total, total + w * a)

    def _results(self, block: Expr, size: int, count: int) -> Iterator[Statement]:
        """What becomes of the sums of the points that there are."""
        for p in range(count):
            for r in range(size):
                to, value = (
                    self._of_channel(self.moved(e, Const(p)), block, r) for e in (self.c.to, self.c.value)
                )
                assert isinstance(to, Load)
                yield Store(to, substitute(value, {"acc": Load(self.sums, (Const(p), Const(r)))}))
