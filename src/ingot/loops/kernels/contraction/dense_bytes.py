"""One row of bytes by a matrix, to bytes, by a routine: dense layers.

    sums[c] = first[c] + sum over k of x[k] * duo[k][c]                for eight channels c
    y[c]    = limited(round(sums[c] * scale[c]) + zero)

Of one point there is nothing to share but loads: four terms are widened in registers for eight channels, two
of which share an int16. A row that does not end with a load, or lies in pieces, is copied first. In: a
product of one point that fits registers (`sum_range`) and becomes bytes (`requantise.requantised`). Out:
statements.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from ingot.formula.expr import Array, Const, Expr, Load, Tensor, Var, cast, static, substitute
from ingot.formula.index import simplify, value_range
from ingot.formula.statements import Assign, For, Let, Routine, Statement, Store
from ingot.formula.types import INT8, INT16, INT32, DType
from ingot.loops.access import step
from ingot.loops.kernels.contraction.byte_product import Product
from ingot.loops.kernels.contraction.dot_loops import GROUP, HALVES, DotLoops
from ingot.loops.kernels.contraction.paired_bytes import (
    SHIFT,
    as_byte,
    constants_of_channels,
    is_plain,
    unsigned_zero,
    with_byte,
)
from ingot.loops.kernels.contraction.paired_tiles import LOWEST
from ingot.loops.kernels.naive import nested
from ingot.loops.layout import Storage
from ingot.loops.requantise import Requantised
from ingot.loops.sum_range import Room
from ingot.targets.record import Target
from ingot.targets.routines import from_zero

CHANNELS = 8  # of a block
FEWEST = 4  # channels for which a block pays


def is_dense(p: Product, room: Room, target: Target) -> bool:
    """Whether the routine serves a product: of one point, with weights and sums that fit."""
    if not target.routines or p.c.tile or not room.results or p.c.channels < FEWEST or p.shift:
        return False
    lowest, _ = value_range(p.c.b.tensor) or (LOWEST, 0)
    return lowest >= LOWEST


class DenseBytes(DotLoops):
    """Builds the loops."""

    def __init__(self, p: Product, storage: Storage, found: Requantised, target: Target) -> None:
        super().__init__(p, storage, GROUP, 0)
        self.found, self.target = found, target
        self.terms = prod(static(k.extent) for k in self.c.reduce)
        self.loads = -(-self.terms // GROUP)
        self.duo = self._duo()
        self.first, self.scale = constants_of_channels(self, found, CHANNELS)
        whole = len(self.c.reduce) == 1 and self.terms % GROUP == 0
        own = None if whole else storage.scratch(self.c.to.tensor, (self.loads * GROUP,), "row", self.kind)
        self.row = own

    @property
    def kind(self) -> DType:
        return self.c.a.tensor.type

    def _duo(self) -> Tensor:
        """int16 [groups.., block, load, two channels, half of a load, term]: 256 * the second + the first."""

        def pack(array: Array) -> Array:
            w = np.moveaxis(self.weights(array), 0, len(self.moving))  # groups.., channel, terms..
            before = w.shape[: len(self.moving)]
            w = w.reshape(*before, self.c.channels, -1)
            short = ((0, -self.c.channels % CHANNELS), (0, -self.terms % GROUP))
            w = np.pad(w, [*[(0, 0)] * len(before), *short])
            w = w.reshape(*before, -1, CHANNELS // 2, 2, self.loads, GROUP)
            both = w[..., 1, :, :] * SHIFT + w[..., 0, :, :]  # groups.., block, duo, load, term
            halves = np.stack([both[..., list(h)] for h in HALVES], axis=-2)
            return np.ascontiguousarray(np.moveaxis(halves, -4, -3).astype(np.int16))

        return self.derived("duo8", (), pack, INT16)

    def points(self, count: int) -> tuple[Statement, ...]:
        """The row where the routine reads it, then blocks of channels."""
        out = list(self._copied())
        for first, blocks, size in self.in_blocks(CHANNELS):
            out += self._channels(first, blocks, size)
        return tuple(out)

    def _copied(self) -> Iterator[Statement]:
        if self.row is None:
            return
        at = simplify(self.term(self.c.reduce))
        yield from nested(self.c.reduce, (Store(Load(self.row, (at,)), self.c.a),))
        for term in range(self.terms, self.loads * GROUP):
            yield Store(Load(self.row, (Const(term),)), Const(0, self.kind))

    def _x(self, term: Expr) -> Load:
        if self.row is not None:
            return Load(self.row, (simplify(term),))
        return simplify(substitute(self.c.a, {self.c.reduce[0].name: term}), self.c.bounds)

    def _channels(self, first: int, blocks: int, size: int) -> Iterator[Statement]:
        """Bytes of blocks of channels: where they belong, or in scratch for what else becomes of them."""
        whole = self.found.node == self.c.value and self.found.is_whole
        if whole and size == CHANNELS and step(self.c.to, self.c.vector.name) == 1:
            yield self._made(first, blocks, None)
            return
        made = self.storage.scratch(self.c.to.tensor, (blocks * CHANNELS,), "made", self.found.node.type)
        yield self._made(first, blocks, made)
        end = min((first + blocks) * CHANNELS, self.c.channels)
        byte = Load(made, (simplify(self.c.vector - first * CHANNELS),))
        store = Store(self.c.to, with_byte(self.c.value, self.found, byte))
        yield For(self.c.vector.name, Const(first * CHANNELS), Const(end), 1, (store,))

    def _made(self, first: int, blocks: int, made: Tensor | None) -> Statement:
        """The call of the routine."""
        block, none = Var("block", first + blocks), Const(0)

        def to(block: Expr, r: int) -> Load:
            if made is not None:
                return Load(made, (simplify((block - first) * CHANNELS + r),))
            at = {self.c.vector.name: block * CHANNELS + r}
            return simplify(substitute(self.c.to, at), self.c.bounds)

        begin = (*self.moving, Const(first), none)
        constants = (Load(t, begin) for t in (self.first, self.scale))
        w = Load(self.duo, (*begin, none, none, none))
        numbers = (blocks, self.loads, unsigned_zero(self.found))
        addresses = (self._x(none), w, *constants, to(Const(first), 0))
        stores = (
            Store(
                to(block, r),
                as_byte(_sum(r), r, self.found, Load(self.scale, (*begin[:-2], block, Const(r)))),
            )
            for r in range(CHANNELS)
        )
        name = f"dot2_row_{self.kind.name}_{self.found.node.type.name}"
        call = Routine(from_zero(name, is_plain(self.found, self.target)), addresses, numbers)
        body = (*self._sums(block), *stores)
        return For(block.name, Const(first), Const(first + blocks), 1, body, routine=call)

    def _sums(self, block: Expr) -> Iterator[Statement]:
        """What the routine does with a block of channels, up to its sums."""
        for r in range(CHANNELS):
            low, raw = (Load(self.first, (*self.moving, block, Const(n))) for n in (r // 2 * 2, r))
            yield Let(f"c{r}", (raw - low) // SHIFT if r % 2 else low, mutable=True)
        load = Var("load", self.loads)
        body: list[Statement] = []
        for h, half in enumerate(HALVES):
            for i, term in enumerate(half):
                a = cast(self._x(load * GROUP + term), INT32)
                for d in range(CHANNELS // 2):
                    read = Load(self.duo, (*self.moving, block, load, Const(d), Const(h), Const(i)))
                    both, own = (Var(f"{n}{d}_{term}", None, INT32) for n in ("both", "low"))
                    body += (Let(both.name, cast(read, INT32)), Let(own.name, cast(cast(both, INT8), INT32)))
                    for r, w in ((2 * d, own), (2 * d + 1, (both - own) // SHIFT)):
                        body.append(Assign(f"c{r}", _sum(r) + w * a))
        yield For(load.name, Const(0), Const(self.loads), 1, tuple(body))


def _sum(channel: int) -> Var:
    return Var(f"c{channel}", None, INT32)
