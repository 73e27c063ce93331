"""Products of bytes that become bytes by routines that multiply sixteen at once: of two points, or of one.

    row[p][k] = x[p][k], signed                                           by the routine `bytes2`, `bytes1`
    y[p][c]   = limited(round((first[c] + sum of row[p][k] * w[c][k]) * scale[c]) + zero)  `long2`, `long1`

The terms of a point are copied side by side, so that all vectors but the last are whole however windows lie;
128 is taken from each unsigned one, which first values make up for. Where the bytes are results and terms lie
in rows, `long2` does this itself, pair after pair, and reads points that are whole vectors where they are.
In: a product that becomes bytes (`paired_bytes.made_bytes`). What else is made of the bytes reads them from
scratch. Out: statements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from math import prod

import numpy as np

from ingot.formula.evaluate import value_over
from ingot.formula.expr import Array, Binary, Const, Expr, Load, Tensor, Var, cast, static, substitute
from ingot.formula.index import simplify
from ingot.formula.statements import Assign, For, Let, Routine, Statement, Store
from ingot.formula.types import INT8, INT32, UINT8
from ingot.loops.access import step
from ingot.loops.cuts import pieces
from ingot.loops.kernels.contraction.byte_product import Product
from ingot.loops.kernels.contraction.dot_loops import POINTS, DotLoops
from ingot.loops.kernels.contraction.paired_bytes import (
    as_byte,
    is_direct,
    is_plain,
    scales_of_channels,
    stores,
)
from ingot.loops.kernels.contraction.products import SIGN
from ingot.loops.kernels.naive import loop, nested
from ingot.loops.layout import Storage
from ingot.loops.requantise import Requantised
from ingot.targets.mve_products import LONG, SUMS, walk_of
from ingot.targets.record import Target

FEWEST = 4  # channels for which a block pays
REACH = (1 << 16) - LONG  # bytes from a result to that of the next point, at most


ROW = Var("row", 1)  # where terms have one row


def is_long(p: Product, target: Target) -> bool:
    """Whether the routines serve a product of bytes that becomes bytes: its last terms lie side by side."""
    if walk_of(1, False).name(1, "uint8") not in target.routines or not FEWEST <= p.c.channels <= REACH:
        return False
    return step(p.c.a, p.c.reduce[-1].name) == 1


class LongBytes(DotLoops):
    """Builds the loops."""

    def __init__(self, p: Product, storage: Storage, found: Requantised, target: Target) -> None:
        super().__init__(p, storage, LONG, SIGN if p.c.a.tensor.type is UINT8 else 0)
        self.found = found
        self.each = 1 if self.x is None or static(self.x.extent) < POINTS else POINTS
        self.size = len(SUMS) // self.each
        self.terms = prod(static(k.extent) for k in self.c.reduce)
        self.vectors = -(-self.terms // LONG)
        self.walk = walk_of(self.vectors, is_small=target.accumulators > 0)
        self.plain = is_plain(self.found, target)
        self.packed = self.derived("long", (self.size,), self._packed, INT8)
        self.first = self._first()
        self.scale = scales_of_channels(self, found, self.size, apart=True)
        self.row = storage.scratch(self.c.to.tensor, (self.each, self.vectors * LONG), "row", INT8)

    # -- constants

    def _packed(self, array: Array) -> Array:
        """int8 [groups.., block, vector, channel of the block, term]."""
        w = np.moveaxis(self.weights(array), 0, len(self.moving))
        groups = w.shape[: len(self.moving)]
        w = w.reshape(*groups, self.c.channels, self.terms)
        short = ((0, -self.c.channels % self.size), (0, -self.terms % LONG))
        w = np.pad(w, [*[(0, 0)] * len(groups), *short])
        w = w.reshape(*groups, -1, self.size, self.vectors, LONG)
        return np.ascontiguousarray(np.swapaxes(w, -3, -2).astype(np.int8))

    def _first(self) -> Tensor:
        """int32 [groups.., block, channel]: with what was taken from the operand."""
        init = self.c.init
        assert isinstance(init, Const | Load)

        def make(array: Array, own: Array | None = None) -> Array:
            w = self.weights(array)
            totals = w.sum(tuple(range(w.ndim - len(self.c.reduce), w.ndim)), dtype=np.int64)
            read = replace(init, tensor=replace(init.tensor, value=own)) if isinstance(init, Load) else init
            first = value_over(read, (*self.moving, self.c.vector)) + self.sign * np.moveaxis(totals, 0, -1)
            short = [*[(0, 0)] * len(self.moving), (0, -self.c.channels % self.size)]
            return np.pad(first.astype(np.int32), short).reshape(*first.shape[:-1], -1, self.size)

        if isinstance(init, Const):
            return self.derived(f"first{init.value}_", (self.size,), make, INT32)
        how = ("long", self.size, init.index, *self._own())
        return self.storage.combined(self.c.b.tensor, init.tensor, how, make, INT32, "first")

    def _scales(self, block: Expr, r: Expr) -> tuple[Load, ...]:
        """The scale of a channel of a block, or its multiplier and its shift."""
        parts = ((Const(0),), (Const(1),)) if self.found.is_fixed else ((),)
        return tuple(Load(self.scale, (*self.moving, block, *part, r)) for part in parts)

    def _own(self) -> tuple[object, ...]:
        names = tuple(v.name for v in (*self.moving, self.c.vector))
        return (*names, self.c.channels, self.c.b.index, self.p.shift, self.sign)

    # -- the loops

    def _pieces(self, extent: int) -> tuple[Statement, ...]:
        """All pairs of points by one call, where nothing but the bytes is made."""
        is_whole = self._is_direct(POINTS) and self.c.channels % self.size == 0
        if self.each == 1 or not is_whole or len(self.c.reduce) > 2:
            return super()._pieces(extent)
        return tuple(self._pairs(*cut) for cut in pieces(extent, POINTS))

    def _pairs(self, lo: int, hi: int, count: int) -> Statement:
        """Pairs of points, or one: their terms, unless they are read where they are, and their bytes."""
        assert self.x is not None
        here, none, last = count == POINTS and self._is_in_vectors(), Const(0), self.c.reduce[-1]
        block = Var("block", self.c.channels // self.size)
        made = (*self._sums(block, here), *self._limited(block, count, self._to))
        blocks = loop(block, made)
        body = (blocks,) if here else (self._row(count), blocks)
        rows, down = (0, 0) if here else self._rows()
        x = self._x(0, {k.name: none for k in self.c.reduce})
        begin, y = (simplify(substitute(e, {self.x.name: Const(lo)})) for e in (x, self._to(0, none, 0)))
        along = step(self.c.a, self.x.name) or 0 if count == POINTS else 0
        points = ((hi - lo) // count, along, rows, down, static(last.extent))
        call = self._two(begin, Const(0), y, points, self._apart(count, None), static(block.extent))
        return For(self.x.name, Const(lo), Const(hi), count, body, routine=replace(call, in_order=True))

    def points(self, count: int) -> tuple[Statement, ...]:
        """The terms of the points, then the bytes of blocks of channels."""
        out = list(self._copied(count))
        for first, blocks, size in self.in_blocks(self.size):
            out += self._channels(first, blocks, size, count)
        return tuple(out)

    def _copied(self, count: int) -> tuple[Statement, ...]:
        """The terms by calls. Where there is one point of two it is there twice."""
        row, inner = self._row(count), self.c.reduce[-1]
        start = {row.var: Const(0), inner.name: Const(0)}
        addresses = [self._x(min(p, count - 1), start) for p in range(self.each)]
        to = Load(self.row, (Const(0), simplify(substitute(self.term(self.c.reduce), start))))
        numbers = (*self._rows(), static(inner.extent))
        pitch = (self.vectors * LONG,) if self.each == POINTS else ()
        name = f"bytes{self.each}_{self.c.a.tensor.type.name}"
        call = Routine(name, (*addresses, to), (*numbers, *pitch))
        return nested(self.c.reduce[:-2], (replace(row, routine=call),))

    def _row(self, count: int) -> For:
        """The loop that copies rows of terms."""
        *outer, inner = self.c.reduce
        reads = [self._x(min(p, count - 1), {}) for p in range(self.each)]
        flipped = (cast(Binary("xor", r, Const(SIGN, UINT8)), INT8) if self.sign else r for r in reads)
        term = simplify(self.term(self.c.reduce))
        body = tuple(Store(Load(self.row, (Const(p), term)), r) for p, r in enumerate(flipped))
        along = outer[-1] if outer else ROW
        return loop(along, (loop(inner, body),))

    def _rows(self) -> tuple[int, int]:
        """The rows that are copied at once, and how far apart they lie."""
        along = (ROW, *self.c.reduce)[-2]
        return static(along.extent), step(self.c.a, along.name) or 0

    def _is_in_vectors(self) -> bool:
        """Whether the terms of points are whole vectors side by side, signed."""
        is_row = self.x is not None and step(self.c.a, self.x.name) == self.terms
        return is_row and len(self.c.reduce) == 1 and self.terms % LONG == 0 and not self.sign

    def _x(self, point: int, at: Mapping[str, Expr]) -> Load:
        return simplify(substitute(self.moved(self.c.a, Const(point)), at), self.c.bounds)

    def _to(self, point: int, block: Expr, r: int) -> Load:
        """Where the byte of a channel of a block belongs."""
        channel = {self.c.vector.name: block * self.size + r}
        return simplify(substitute(self.moved(self.c.to, Const(point)), channel), self.c.bounds)

    def _is_direct(self, count: int) -> bool:
        """Whether the routine can store bytes where they belong."""
        return is_direct(self, self.found) and self._apart(count, None) <= REACH

    def _channels(self, first: int, blocks: int, size: int, count: int) -> Iterator[Statement]:
        """Bytes of blocks of channels: where they belong, or in scratch for what else becomes of them."""
        if size == self.size and self._is_direct(count):
            yield self._made(first, blocks, count, None)
            return
        shape = (self.each, blocks * self.size)
        made = self.storage.scratch(self.c.to.tensor, shape, "made", self.found.node.type)
        yield self._made(first, blocks, self.each, made)
        span = (first * self.size, min((first + blocks) * self.size, self.c.channels))
        yield from stores(self, self.found, made, span, count)

    def _made(self, first: int, blocks: int, count: int, made: Tensor | None) -> Statement:
        """The call of the routine. Where there is one point of two it is made twice, at the same place."""
        block, none = Var("block", first + blocks), Const(0)

        def to(p: int, block: Expr, r: int) -> Load:
            if made is not None:
                return Load(made, (Const(p), simplify((block - first) * self.size + r)))
            return self._to(p, block, r)

        body = (*self._sums(block), *self._limited(block, count, to))
        row, y, pitch = Load(self.row, (none, none)), to(0, Const(first), 0), self.vectors * LONG
        if self.each == POINTS:
            points = (1, pitch, 0, 0, self.terms)
            call = self._two(row, Const(first), y, points, self._apart(count, made), blocks)
        else:
            numbers = (blocks, self.terms, pitch, self.found.zero)
            call = Routine(
                self._name(self.found.node.type.name), (row, *self._constants(Const(first)), y), numbers
            )
        return For(block.name, Const(first), Const(first + blocks), 1, body, routine=call)

    def _two(
        self, x: Load, first: Expr, y: Load, points: tuple[int, ...], apart: int, blocks: int
    ) -> Routine:
        """The call for two points: pairs, from a point to the next, rows, how far apart, terms of a row.
        Without rows to copy, no room is given for them.
        """
        row = Load(self.row, (Const(0), Const(0))) if points[2] else y
        numbers = (*points, apart, blocks, self.vectors * LONG, self.found.zero)
        kinds = (x.tensor.type.name, self.found.node.type.name)
        return Routine(self._name(*kinds), (x, row, *self._constants(first), y), numbers)

    def _name(self, *kinds: str) -> str:
        return self.walk.name(self.each, *kinds, is_fixed=self.found.is_fixed, plain=self.plain)

    def _constants(self, first: Expr) -> tuple[Load, ...]:
        """Weights, first values and scales from a block on."""
        begin = (*self.moving, first, Const(0))
        return (
            Load(self.packed, (*begin, Const(0), Const(0))),
            Load(self.first, begin),
            self._scales(first, Const(0))[0],
        )

    def _apart(self, count: int, made: Tensor | None) -> int:
        """From the bytes of a point to those of the next."""
        if made is not None:
            return static(made.shape[-1])
        return step(self.c.to, self.x.name) or 0 if self.x is not None and count == POINTS else 0

    def _sums(self, block: Expr, here: bool = False) -> Iterator[Statement]:
        """What the routine does with a block of channels, up to its sums; `here`: without copies."""
        for p in range(self.each):
            for r in range(self.size):
                first = Load(self.first, (*self.moving, block, Const(r)))
                yield Let(f"c{p}_{r}", first, mutable=True)
        whole, rest = divmod(self.terms, LONG)
        for vector, vectors, lanes in ((Var("vector", whole), whole, LONG), (Const(whole), 1, rest)):
            if not vectors or not lanes:
                continue
            term = Var("term", lanes)
            products = tuple(self._products(block, vector, term, here))
            body = (For(term.name, Const(0), Const(lanes), 1, products),)
            yield For(vector.name, Const(0), Const(whole), 1, body) if isinstance(vector, Var) else body[0]

    def _products(self, block: Expr, vector: Expr, term: Expr, here: bool) -> Iterator[Statement]:
        k = simplify(vector * LONG + term)
        for p in range(self.each):
            read = self._x(p, {self.c.reduce[-1].name: k}) if here else Load(self.row, (Const(p), k))
            a = cast(read, INT32)
            for r in range(self.size):
                w = cast(Load(self.packed, (*self.moving, block, vector, Const(r), term)), INT32)
                yield Assign(f"c{p}_{r}", Var(f"c{p}_{r}", None, INT32) + a * w)

    def _limited(self, block: Expr, count: int, to: Callable[[int, Expr, int], Load]) -> Iterator[Statement]:
        """The sums as bytes."""
        for p in range(count):
            for r in range(self.size):
                made = as_byte(Var(f"c{p}_{r}", None, INT32), 0, self.found, *self._scales(block, Const(r)))
                yield Store(to(p, block, r), made)
