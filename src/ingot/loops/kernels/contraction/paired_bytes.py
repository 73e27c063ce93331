"""Products of bytes that become bytes by a routine: scaled, rounded and limited where they are summed.

    y[p][c] = limited(round(sums[p][c] * scale[c]) + zero)     for two points p and all channels c, by fours

In: a product that `paired_tiles` serves and whose sums become bytes (`requantise.requantised`), two of which
fit a register before they are limited (`sum_range`). What else is made of the bytes (a residual addition,
narrower limits) reads them from scratch. Out: statements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from ingot.formula.evaluate import value as evaluate
from ingot.formula.expr import (
    Array,
    Binary,
    Const,
    Expr,
    Load,
    Tensor,
    Unary,
    Var,
    cast,
    static,
    transform,
)
from ingot.formula.index import simplify
from ingot.formula.statements import Assign, For, Let, Routine, Statement, Store
from ingot.formula.types import FLOAT32, INT8, INT32, DType
from ingot.loops.access import step
from ingot.loops.kernels.contraction.byte_product import Product
from ingot.loops.kernels.contraction.dot_loops import POINTS
from ingot.loops.kernels.contraction.paired_tiles import CHANNELS, PairedTiles
from ingot.loops.kernels.contraction.products import SIGN
from ingot.loops.kernels.contraction.requantise import Requantised, limited, requantised
from ingot.loops.kernels.contraction.roles import around
from ingot.loops.layout import Storage

SUM = Var("acc", None, INT32)
SHIFT = 256  # of the second of two channels in a register


def made_bytes(p: Product) -> Requantised | None:
    """What the sums of a product become, where the routine can tell: scales and first values are constants
    of the channels.
    """
    found = requantised(p.c.value, SUM)
    if found is None or p.zero != Const(0, INT32):
        return None
    own = (p.c.vector, *(v for v in p.c.outer if step(p.c.b, v.name) != 0))
    for e in (found.scale, p.c.init):
        if isinstance(e, Load):
            if e.tensor.value is None or e.outside is not None or around(e, own):
                return None
        elif not isinstance(e, Const):
            return None
    return found


class PairedBytes(PairedTiles):
    """Builds the loops, a call of the routine for all channels of two points."""

    def __init__(self, p: Product, storage: Storage, found: Requantised) -> None:
        super().__init__(p, storage)
        self.found = found
        assert isinstance(p.c.init, Const | Load)
        self.first = self._constant(p.c.init, INT32, "first", _shared_sums)
        self.scale = self._constant(found.scale, FLOAT32, "scale", _shared_scales)

    def _constant(
        self, e: Const | Load, type: DType, what: str, of_two: Callable[[Array, Array], Array]
    ) -> Tensor:
        """[groups.., block, channel] of a constant, of two channels what the routine begins or ends with."""
        axes = (*self.moving, self.c.vector)
        extents = tuple(static(v.extent) for v in axes)
        grid = dict(zip((v.name for v in axes), np.ogrid[tuple(map(slice, extents))], strict=True))

        def pack(array: Array) -> Array:
            read = replace(e, tensor=replace(e.tensor, value=array)) if isinstance(e, Load) else e
            every = np.broadcast_to(evaluate(read, {}, grid), extents)
            short = [*[(0, 0)] * len(self.moving), (0, -self.c.channels % CHANNELS)]
            blocks = np.pad(every, short).reshape(*extents[:-1], self.blocks, CHANNELS)
            made = blocks.astype(type.numpy)
            made[..., 1::2] = of_two(blocks[..., ::2], blocks[..., 1::2])
            return made

        of, part = (e.tensor, e.index) if isinstance(e, Load) else (self.c.b.tensor, (e,))
        how = ("paired", what, part, tuple(v.name for v in axes))
        return self.storage.derived(of, how, pack, type, what)

    def channels(self, first: int, blocks: int, size: int, count: int) -> tuple[Statement, ...]:
        """Bytes of blocks of channels: where they belong, or in scratch for what else becomes of them."""
        if self._is_direct(size):
            return (self._made(first, blocks, count, None),)
        made = self.storage.scratch(
            self.c.to.tensor, (POINTS, blocks * CHANNELS), "made", self.found.node.type
        )
        end = min((first + blocks) * CHANNELS, self.c.channels)
        span = (Const(first * CHANNELS), Const(end))
        stores = (For(self.c.vector.name, *span, 1, (self._store(made, first, p),)) for p in range(count))
        return (self._made(first, blocks, POINTS, made), *stores)

    def _is_direct(self, size: int) -> bool:
        """Whether the bytes are the results, and four of them lie side by side."""
        whole = self.found.node == self.c.value and self.found.is_whole
        return whole and size == CHANNELS and step(self.c.to, self.c.vector.name) == 1

    def _made(self, first: int, blocks: int, count: int, made: Tensor | None) -> Statement:
        """The call of the routine. Where there is one point it is made twice, at the same place."""
        block, none = Var("block", first + blocks), Const(0)

        def to(p: int, block: Expr, r: int) -> Load:
            if made is not None:
                return Load(made, (Const(p), simplify((block - first) * CHANNELS + r)))
            found = self.of_channel(self.moved(self.c.to, Const(p)), block, r)
            assert isinstance(found, Load)
            return found

        constants = (Load(t, (*self.moving, Const(first), none)) for t in (self.first, self.scale))
        w = Load(self.duo, (*self.moving, Const(first), none, none, none))
        addresses = (Load(self.wide, (none, none, none)), w, *constants, to(0, Const(first), 0))
        if made is not None:
            apart = blocks * CHANNELS
        else:
            apart = step(self.c.to, self.x.name) or 0 if self.x is not None and count == POINTS else 0
        is_signed = self.found.node.type is INT8
        zero, flip = self.found.zero + (SIGN if is_signed else 0), SIGN if is_signed else 0
        numbers = (blocks, self.pairs, apart, _signed(zero & 0xFFFF, 16), _signed(flip, 8))
        body = (*self._sums(block), *self._limited(block, count, to))
        call = Routine("dot2_bytes", addresses, numbers)
        return For(block.name, Const(first), Const(first + blocks), 1, body, routine=call)

    def _sums(self, block: Expr) -> Iterator[Statement]:
        """What the routine does with a block of channels, up to its sums."""
        for p in range(POINTS):
            for r in range(CHANNELS):
                low, raw = (Load(self.first, (*self.moving, block, Const(n))) for n in (r // 2 * 2, r))
                first = (raw - low) // SHIFT if r % 2 else low
                yield Let(f"c{p}_{r}", first, mutable=True)
        pair, body = Var("pair", self.pairs), list[Statement]()
        for p, r, product in self.products(pair, block, body):
            body.append(Assign(f"c{p}_{r}", Var(f"c{p}_{r}", None, INT32) + product))
        yield For(pair.name, Const(0), Const(self.pairs), 1, tuple(body))

    def _limited(self, block: Expr, count: int, to: Callable[[int, Expr, int], Load]) -> Iterator[Statement]:
        """The sums as bytes."""
        kind = self.found.node.type
        for p in range(count):
            for r in range(CHANNELS):
                total: Expr = Var(f"c{p}_{r}", None, INT32)
                scale = Load(self.scale, (*self.moving, block, Const(r)))
                scaled = cast(total * SHIFT if r % 2 else total, FLOAT32) * scale
                moved = cast(Unary("round", scaled), INT32) + self.found.zero
                yield Store(to(p, block, r), limited(moved, kind))

    def _store(self, made: Tensor, first: int, point: int) -> Statement:
        """What becomes of one byte."""
        byte: Expr = Load(made, (Const(point), simplify(self.c.vector - first * CHANNELS)))
        if not self.found.is_whole:
            lo, hi = (Const(v, INT32) for v in self.found.limits)
            byte = cast(Binary("min", Binary("max", cast(byte, INT32), lo), hi), self.found.node.type)
        value = transform(self.c.value, lambda n: byte if n == self.found.node else None)
        to, value = (self.moved(e, Const(point)) for e in (self.c.to, value))
        assert isinstance(to, Load)
        return Store(to, value)


def _shared_sums(low: Array, high: Array) -> Array:
    """What the sum of both channels begins with; integers of numpy wrap."""
    return np.asarray(low.astype(np.int32) + high.astype(np.int32) * np.int32(SHIFT))


def _shared_scales(_: Array, high: Array) -> Array:
    """The sum of the second channel is multiplied by 256."""
    return np.asarray(high.astype(np.float32) / np.float32(SHIFT))


def _signed(part: int, bits: int) -> int:
    """A word made of one number again and again, as an int32."""
    word = sum(part << at for at in range(0, 32, bits))
    return word - (word >> 31 << 32)
