"""Depthwise sums of bytes: rows are interleaved, so that one instruction multiplies four taps of a channel.

    acc[oh, ow, c] = sum over kh, kw of x[oh + kh, ow + kw, c] * w[c, kh, kw]

    x[r, c..], x[r + 1, c..], x[r + 2, c..], x[r + 3, c..]    four rows of one column, in vectors of channels
    -> the four rows of channel 0, of channel 1, ...          eight shuffles give four vectors
    acc = dot4(acc, vector, w)

The four rows serve every output row whose window lies in them, two for windows of three rows, with weights of
0 at the rows that are not its own; a column serves every output column whose window it lies in. Shuffles work
within groups of 16 bytes, so lanes hold channels in another order: constants are laid out in it at compile
time, and bytes come out in their own order as they are packed.

In: a sum of products of bytes with constant ones, every channel by itself, channels last, the halo filled.
Out: statements, or None; machines without such an instruction multiply elements (`elementwise`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from ingot.formula.compute import Compute
from ingot.formula.evaluate import grid_over
from ingot.formula.evaluate import value as evaluate
from ingot.formula.expr import (
    Array,
    Cast,
    Const,
    Expr,
    Load,
    Shuffle,
    Var,
    cast,
    loads,
    static,
    substitute,
    transform,
)
from ingot.formula.index import Bounds, as_expr, mentions, simplify
from ingot.formula.statements import For, Instruction, Let, Statement, Store
from ingot.formula.types import INT8, INT16, INT32
from ingot.loops.access import NotVectorizable, vectorize
from ingot.loops.axes import normal_axes
from ingot.loops.instructions import GROUP_BYTES, packed_lanes
from ingot.loops.kernels.contraction.products import Product, cost, instructions_of, products_of_bytes
from ingot.loops.kernels.contraction.roles import around
from ingot.loops.kernels.shuffles import Network
from ingot.loops.kernels.windows.depthwise_match import Depthwise, flattened, match
from ingot.loops.layout import Storage
from ingot.loops.requantise import in_integers, limited, unlimited
from ingot.targets.record import Target

TAPS = 4  # that an instruction multiplies
VECTORS = 4  # that four interleaved rows are
FEWEST_ACCUMULATORS, FREE = 16, 8  # and registers for rows, before and after they are interleaved
MOST_COLUMNS = 3
MOST_INSTRUCTIONS = 4  # that a product may be: one that is put together of more costs more than its parts


def depthwise_dot(
    c: Compute, storage: Storage, target: Target, bounds: Bounds
) -> tuple[Statement, ...] | None:
    """Statements for a depthwise sum of bytes, or None."""
    found = match(normal_axes(c), storage, bounds)
    how = None if found is None else _product_of(found, target)
    if found is None or how is None:
        return None
    widths = [n for n in (64, 32, 16) if target.spelling("dot4", how.a.name, n)]
    found = flattened(found, storage, widths[0]) if widths else found
    widths = [n for n in widths if found.period <= n <= static(found.vector.extent)]
    try:
        return _Generator(found, how, widths, storage, target.registers).statements() if widths else None
    except NotVectorizable:
        return None


def _product_of(d: Depthwise, target: Target) -> Product | None:
    """How the target multiplies four bytes at once; None where that is put together of many instructions."""
    found = (p for p in products_of_bytes(d.x.tensor, d.w.tensor, target) if p.group == TAPS)
    short = (p for p in found if instructions_of(p, target) <= MOST_INSTRUCTIONS)
    return min(short, key=lambda p: cost(p, target), default=None)


@dataclass(frozen=True, slots=True)
class _Segment:
    """`blocks` blocks of `width` channels from `first` on."""

    first: int
    blocks: int
    width: int

    @property
    def end(self) -> int:
        return self.first + self.blocks * self.width

    @property
    def lanes(self) -> int:
        return self.width // TAPS


def _segments(n: int, widths: list[int]) -> Iterator[_Segment]:
    """Whole vectors; the rest is one that ends with the last channel, and makes some again."""
    count = n // widths[0]
    yield _Segment(0, count, widths[0])
    rest = n - count * widths[0]
    if rest:
        width = min((w for w in widths if w >= rest), default=widths[0])
        yield _Segment(n - width, 1, width)


class _Generator:
    """Builds the loops of one stage."""

    def __init__(
        self, d: Depthwise, product: Product, widths: list[int], storage: Storage, registers: int
    ) -> None:
        self.d, self.product, self.storage = d, product, storage
        self.segments = list(_segments(static(d.vector.extent), widths))
        most = 1 if d.down is None else static(d.down.extent)
        self.count = min(range(1, min(most, FEWEST_ACCUMULATORS // VECTORS) + 1), key=self._cost)
        room = max(FEWEST_ACCUMULATORS, registers - FREE) // (VECTORS * self.count)
        self.columns = 1 if d.along is None else min(MOST_COLUMNS, room, static(d.along.extent))
        self.offsets = d.read(self.count)
        self.groups = -(-len(self.offsets) // TAPS)

    def _cost(self, count: int) -> float:
        """Shuffles and products for each output row of a tile of `count`."""
        groups = -(-len(self.d.read(count)) // TAPS)
        return groups * (2 + count) / count

    def statements(self) -> tuple[Statement, ...]:
        out: list[Statement] = []
        for s in self.segments:
            body = self._down(s)
            out.append(For(self.d.vector.name, Const(s.first), Const(s.end), s.width, body))
        nest = tuple(out)
        for a in reversed(self.d.outer):
            nest = (For(a.name, Const(0), as_expr(a.extent or 0), 1, nest),)
        return nest

    def _down(self, s: _Segment) -> tuple[Statement, ...]:
        """The loop over output rows; the last tile ends with the last row, and may make some again."""
        if self.d.down is None:
            return self._along(s)
        return tuple(
            For(self.d.down.name, Const(lo), Const(hi), self.count, self._along(s))
            for lo, hi in _ends(static(self.d.down.extent), self.count)
        )

    def _along(self, s: _Segment) -> tuple[Statement, ...]:
        if self.d.along is None:
            return tuple(self._tile(s))
        return tuple(
            For(self.d.along.name, Const(lo), Const(hi), self.columns, tuple(self._tile(s)))
            for lo, hi in _ends(static(self.d.along.extent), self.columns)
        )

    # -- a tile

    def _points(self) -> list[tuple[int, int]]:
        """(row, column) of the outputs of a tile."""
        return list(product(range(self.count), range(self.columns)))

    def _tile(self, s: _Segment) -> Iterator[Statement]:
        for (i, k), j in product(self._points(), range(VECTORS)):
            yield Let(f"c{i}_{k}_{j}", self._first(s, j), s.lanes, mutable=True)
        made: dict[Expr, list[Var]] = {}
        for at in product(*(range(static(k.extent)) for k in self.d.taps)):
            taps = dict(zip(self.d.taps, at, strict=True))
            for g, k in product(range(self.groups), range(self.columns)):
                yield from self._column(s, taps, g, k, made)
        for i, k in self._points():
            yield from self._store(s, i, k)

    def _column(
        self, s: _Segment, taps: dict[Var, int], g: int, k: int, made: dict[Expr, list[Var]]
    ) -> Iterator[Statement]:
        """The products of four rows of one column with the weights of every output row."""
        rows = [self._row(taps, o, k) for o in self._offsets(g)]
        if rows[0] not in made:
            name = f"x{len(made)}_"
            registers = [Var(f"{name}{r}", None, self.product.a) for r in range(TAPS)]
            for r, load in enumerate(rows):
                yield from self._loaded(registers[r].name, load, s.width)
            made[rows[0]], statements = _interleaved(registers, f"{name}v", s.width)
            yield from statements
        weights = self._weights(s)
        for i, j in product(range(self.count), range(VECTORS)):
            at = (*(Const(taps[t]) for t in self.d.taps), Const(g), Const(i), Const(j), Const(0))
            read = replace(weights, index=(*weights.index, *at), lanes=s.width)
            yield Instruction("dot4", f"c{i}_{k}_{j}", made[rows[0]][j], read, s.lanes)

    def _loaded(self, name: str, load: Load, width: int) -> Iterator[Statement]:
        """A row of the operand in a register: as it lies, or every second column. Of these, two registers end
        with the last.
        """
        if self.d.stride == 1:
            yield Let(name, self.product.operand(replace(load, lanes=width)), width)
            return
        period = self.d.period
        last = replace(
            load, index=(*load.index[:-1], simplify(load.index[-1] + (width - period), self.d.bounds))
        )
        for part, at in enumerate((load, last)):
            yield Let(f"{name}_{part}", replace(at, lanes=width), width)
        a, b = (Var(f"{name}_{part}", None, load.dtype) for part in range(2))
        column, channel = np.divmod(np.arange(width), period)
        place = 2 * column * period + channel
        lanes = tuple(int(n) if n < width else int(n) + period for n in place)
        yield Let(name, self.product.operand(Shuffle(a, b, lanes)), width)

    def _offsets(self, g: int) -> list[int]:
        """The rows of a group; what is missing in the last is any row, and multiplied by 0."""
        some = self.offsets[g * TAPS : (g + 1) * TAPS]
        return [some[min(r, len(some) - 1)] for r in range(TAPS)]

    def _row(self, taps: dict[Var, int], offset: int, k: int) -> Load:
        """A row of the operand, `offset` rows down and `k` columns on from the tile's first."""
        d = self.d
        index = []
        for i in d.x.index:
            own = mentions(i, d.rows.name)
            at = substitute(i, {d.rows.name: Const(0), **{t.name: Const(n) for t, n in taps.items()}})
            at = substitute(at, {d.along.name: d.along + k}) if d.along is not None and k else at
            index.append(simplify(at + offset if own else at, d.bounds))
        return Load(d.x.tensor, tuple(index))

    # -- constants in the order of the lanes

    def _channels(self, s: _Segment) -> Array:
        """[block, vector, lane]: the channel that a lane holds; where these come round, of one block."""
        group = GROUP_BYTES // TAPS
        j, lane = np.ogrid[:VECTORS, : s.lanes]
        within = GROUP_BYTES * (lane // group) + group * j + lane % group
        found = s.first + s.width * np.arange(self._blocks(s))[:, None, None] + within
        return np.asarray(found % self.d.period if self.d.period else found)

    def _blocks(self, s: _Segment) -> int:
        return 1 if self.d.period else s.blocks

    def _block(self, s: _Segment) -> Expr:
        return (self.d.vector - s.first) // s.width if self._blocks(s) > 1 else Const(0)

    def _weights(self, s: _Segment) -> Load:
        """int8 [block, taps.., group, output row, vector, bytes]"""
        d, count, offsets = self.d, self.count, self.offsets
        taps = [static(t.extent) for t in d.taps]
        steps = static(d.rows.extent)

        def pack(array: Array) -> Array:
            channels = self._channels(s)
            shape = (self._blocks(s), *taps, self.groups, count, VECTORS, s.lanes, TAPS)
            packed = np.zeros(shape, np.int8)
            for at in product(*map(range, taps)):
                where = {t.name: np.int64(n) for t, n in zip(d.taps, at, strict=True)}
                for i, tap in product(range(count), range(steps)):
                    o = offsets.index(d.tap_row(i, tap))
                    grid = {**where, d.rows.name: np.int64(tap), d.channel.name: channels}
                    found = evaluate(replace(d.w, tensor=replace(d.w.tensor, value=array)), {}, grid)
                    place: tuple[Any, ...] = (slice(None), *at, o // TAPS, i, ..., o % TAPS)
                    packed[place] = found
            return packed.reshape(*shape[:-2], s.width)

        how = ("depthwise", d.w.index, s, count, offsets)
        made = self.storage.derived(d.w.tensor, how, pack, INT8)
        return Load(made, (self._block(s),))

    def _laid_out(
        self, load: Load, s: _Segment, j: int, factor: int = 1, summed: tuple[Var, ...] = ()
    ) -> Load:
        """A constant for each lane of the j-th vector, or `factor` times its sum over some axes."""
        d = self.d
        others = around(load, (d.channel, *summed))
        if load.tensor.value is None or others:
            raise NotVectorizable(f"{load.tensor.name} is not one constant for each channel")
        extents = [static(k.extent) for k in summed]

        def pack(array: Array) -> Array:
            channels = self._channels(s)
            grid = grid_over((k.name for k in summed), extents)
            grid[d.channel.name] = channels.reshape(*channels.shape, *(1 for _ in extents))
            found = evaluate(replace(load, tensor=replace(load.tensor, value=array)), {}, grid)
            every = np.broadcast_to(found, (*channels.shape, *extents))
            if not summed:
                return np.ascontiguousarray(every)
            sums = every.sum(tuple(range(3, every.ndim)), dtype=np.int32)
            return np.asarray(sums * np.int32(factor))

        kind = INT32 if summed else load.tensor.type
        made = self.storage.derived(load.tensor, ("depthwise", load.index, s, factor), pack, kind)
        return Load(made, (self._block(s), Const(j), Const(0)), None, s.lanes)

    def _first(self, s: _Segment, j: int) -> Expr:
        """What the sums of the j-th vector begin with."""
        init, d = self._in_lanes(self.d.init, s, j), self.d
        if not self.product.excess:
            return init
        total = self._laid_out(d.w, s, j, -self.product.excess, (d.rows, *d.taps))
        return total if init == Const(0, INT32) else init + total

    def _in_lanes(self, e: Expr, s: _Segment, j: int) -> Expr:
        """The expression in the lanes of the j-th vector."""

        def put(n: Expr) -> Expr | None:
            moves = isinstance(n, Load) and mentions(n, self.d.channel.name)
            return self._laid_out(n, s, j) if isinstance(n, Load) and moves else None

        return transform(e, put)

    # -- the results

    def _store(self, s: _Segment, i: int, k: int) -> Iterator[Statement]:
        """The four vectors of one output, packed to bytes as they are narrowed."""
        d, to = self.d, self.d.to.tensor.type
        moved = {d.down.name: d.down + i} if d.down is not None and i else {}
        moved |= {d.along.name: d.along + k} if d.along is not None and k else {}
        value = in_integers(d.value)
        assert isinstance(value, Cast)
        if any(mentions(x, a) for x in loads(d.value) for a in moved):
            raise NotVectorizable("what follows the sum moves from point to point")
        for j in range(VECTORS):
            scaled = substitute(
                self._in_lanes(unlimited(value), s, j), {"acc": Var(f"c{i}_{k}_{j}", None, INT32)}
            )
            yield Let(f"q{i}_{k}_{j}", cast(scaled, INT32), s.lanes)
        whole: list[Var] = []
        for half in range(2):
            a, b = (Var(f"q{i}_{k}_{2 * half + j}", None, INT32) for j in range(2))
            lanes = 2 * s.lanes
            both = Shuffle(a, b, packed_lanes(lanes, 4))
            yield Let(f"p{i}_{k}_{half}", limited(both, INT16), lanes)
            whole.append(Var(f"p{i}_{k}_{half}", None, INT16))
        packed = limited(Shuffle(whole[0], whole[1], packed_lanes(s.width, 8)), to)
        at = simplify(substitute(d.to, moved), d.bounds)
        assert isinstance(at, Load)
        vectorize(at, d.vector.name, s.width)
        yield Store(at, packed, s.width)


def _interleaved(rows: list[Var], name: str, lanes: int) -> tuple[list[Var], list[Statement]]:
    """The elements of rows of bytes by turns: vectors of as many lanes, and the statements that make them."""
    network = Network(name, lanes, GROUP_BYTES)
    a, b, c, d = rows
    pairs = [(network.mixed(a, b, 1, half), network.mixed(c, d, 1, half)) for half in (0, 1)]
    made = [network.mixed(*pair, 2, half) for pair in pairs for half in (0, 1)]
    return made, network.statements


def _ends(extent: int, size: int) -> Iterator[tuple[int, int]]:
    """From where to where tiles go: as many as there are whole ones, then one that ends with the last."""
    whole = extent // size * size
    yield 0, whole
    if whole < extent:
        yield extent - size, extent
