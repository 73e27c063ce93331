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

from ingot.formula.evaluate import value_over
from ingot.formula.expr import (
    Array,
    Binary,
    Bitcast,
    Const,
    Expr,
    Load,
    Select,
    Tensor,
    Unary,
    Var,
    cast,
    substitute,
    transform,
)
from ingot.formula.index import simplify
from ingot.formula.statements import Assign, For, Let, Routine, Statement, Store
from ingot.formula.types import FLOAT32, INT8, INT32, INT64, UINT32, DType
from ingot.loops.access import step
from ingot.loops.exact_scales import words
from ingot.loops.kernels.contraction.byte_product import Product
from ingot.loops.kernels.contraction.dot_loops import POINTS, DotLoops
from ingot.loops.kernels.contraction.paired_tiles import CHANNELS, PairedTiles
from ingot.loops.kernels.contraction.products import SIGN
from ingot.loops.kernels.contraction.roles import around
from ingot.loops.layout import Storage
from ingot.loops.requantise import LEAST_MULTIPLIER, Requantised, limited, requantised
from ingot.targets.record import Target
from ingot.targets.routines import bytes_name

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
    for e in (*found.constants, p.c.init):
        if isinstance(e, Load):
            if e.tensor.value is None or e.outside is not None or around(e, own):
                return None
        elif not isinstance(e, Const):
            return None
    return found


class PairedBytes(PairedTiles):
    """Builds the loops, a call of the routine for all channels of two points."""

    def __init__(self, p: Product, storage: Storage, found: Requantised, target: Target) -> None:
        super().__init__(p, storage)
        self.found, self.target = found, target
        self.first, self.scale = constants_of_channels(self, found, CHANNELS, in_words=True)
        self.is_doubled = found.is_fixed and is_plain(found, target)
        if self.is_doubled:
            self.scale = storage.derived(self.scale, "doubled", _doubled, INT32, "doubled")

    def channels(self, first: int, blocks: int, size: int, count: int) -> tuple[Statement, ...]:
        """Bytes of blocks of channels: where they belong, or in scratch for what else becomes of them."""
        if size == CHANNELS and is_direct(self, self.found):
            return (self._made(first, blocks, count, None),)
        made = self.storage.scratch(
            self.c.to.tensor, (POINTS, blocks * CHANNELS), "made", self.found.node.type
        )
        span = (first * CHANNELS, min((first + blocks) * CHANNELS, self.c.channels))
        return (self._made(first, blocks, POINTS, made), *stores(self, self.found, made, span, count))

    def _made(self, first: int, blocks: int, count: int, made: Tensor | None) -> Statement:
        """The call of the routine. Where there is one point it is made twice, at the same place."""
        block, none = Var("block", first + blocks), Const(0)

        def to(p: int, block: Expr, r: int) -> Load:
            if made is not None:
                return Load(made, (Const(p), simplify((block - first) * CHANNELS + r)))
            return self._to(p, block, r)

        addresses = (Load(self.wide, (none, none, none)), *self._constants(first), to(0, Const(first), 0))
        if made is not None:
            apart = blocks * CHANNELS
        else:
            apart = step(self.c.to, self.x.name) or 0 if self.x is not None and count == POINTS else 0
        numbers = (apart, blocks, self.pairs, unsigned_zero(self.found))
        body = (*self._sums(block), *self._limited(block, count, to))
        call = Routine(routine_of("dot2_bytes", self.found, self.target), addresses, numbers)
        return For(block.name, Const(first), Const(first + blocks), 1, body, routine=call)

    def _to(self, p: int, block: Expr, r: int) -> Load:
        return self.of_channel(self.moved(self.c.to, Const(p)), block, r)

    def _constants(self, first: int) -> tuple[Load, ...]:
        """Weights, first values and scales from a block on."""
        every = (self.duo, self.first, self.scale)
        return tuple(
            Load(t, (*self.moving, Const(first), *[Const(0)] * (t.rank - len(self.moving) - 1)))
            for t in every
        )

    def all_points(self, lo: int | None, hi: int, count: int) -> Routine | None:
        """Where points lie evenly, and whole rows of terms become bytes of all channels; but code that has to
        be small has one routine for all products.
        """
        assert self.x is not None
        if self.target.accumulators:
            return None
        apart, to_next = (step(e, self.x.name) for e in (self.c.a, self.c.to))
        widening = self.widening(count)
        if widening is None or apart is None or to_next is None or len(self.outer) > 1:
            return None
        if self.c.channels % CHANNELS != 0 or not is_direct(self, self.found):
            return None
        a, _, wide = widening.arguments
        addresses = (a, wide, *self._constants(0), self._to(0, Const(0), 0))
        at = {} if lo is None else {self.x.name: Const(lo)}
        moved = tuple(simplify(substitute(e, at), self.c.bounds) for e in addresses)
        if count == 1:  # is made twice at the same place
            apart = to_next = 0
        blocks = (self.blocks, self.pairs, to_next, unsigned_zero(self.found))
        numbers = (*widening.numbers, apart, *blocks, (hi - (lo or 0)) // count)
        of = self.c.a.tensor.type.name
        return Routine(
            routine_of(f"dot2_points_{of}", self.found, self.target), moved, numbers, in_order=True
        )

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
        for p in range(count):
            for r in range(CHANNELS):
                total, parts = Var(f"c{p}_{r}", None, INT32), ((Const(0),), (Const(1),))
                scales = (
                    Load(self.scale, (*self.moving, block, Const(r), *part))
                    for part in (parts if self.found.is_fixed else ((),))
                )
                by, *shift = scales
                of_doubled = self.is_doubled and r % 2 == 0
                made = as_byte(total, r, self.found, halved(by) if of_doubled else by, *shift)
                yield Store(to(p, block, r), made)


def is_direct(loops: DotLoops, found: Requantised) -> bool:
    """Whether the bytes are the results, and those of the channels lie side by side."""
    return found.node == loops.c.value and found.is_whole and step(loops.c.to, loops.c.vector.name) == 1


def stores(
    loops: DotLoops, found: Requantised, made: Tensor, span: tuple[int, int], count: int
) -> Iterator[Statement]:
    """What becomes of the bytes [point, channel] that a routine left in scratch, of a span of channels."""
    c, point = loops.c, Var("point", count)
    p: Expr = point if count > 1 else Const(0)
    byte = Load(made, (p, simplify(c.vector - span[0])))
    store = Store(loops.moved(c.to, p), loops.moved(with_byte(c.value, found, byte), p))
    stored = For(c.vector.name, Const(span[0]), Const(span[1]), 1, (store,))
    yield For(point.name, Const(0), Const(count), 1, (stored,)) if count > 1 else stored


def with_byte(value: Expr, found: Requantised, made: Load) -> Expr:
    """The value that reads a byte as a routine made it: limited to its type."""
    byte: Expr = made
    if not found.is_whole:
        lo, hi = (Const(v, INT32) for v in found.limits)
        byte = cast(Binary("min", Binary("max", cast(byte, INT32), lo), hi), found.node.type)
    return transform(value, lambda n: byte if n == found.node else None)


def halved(multiplier: Expr) -> Expr:
    """The positive multiplier of which a word holds twice as much, modulo 2^32."""
    return cast(cast(multiplier, UINT32) >> 1, INT32)


def as_byte(total: Expr, channel: int, found: Requantised, scale: Expr, shift: Load | None = None) -> Expr:
    """What a routine makes of a sum; of the second of two channels the scale is a 256th. In fixed point by a
    multiplier and a shift; by an int32 alone as `exact_scales` has it.
    """
    if shift is not None:
        made = Binary("rounding_shr", Binary("doubling_high", total, scale), shift)
        return limited(made + found.zero, found.node.type)
    factor = -Bitcast(scale, FLOAT32) if scale.dtype is INT32 else scale
    scaled = cast(total * SHIFT if channel % 2 else total, FLOAT32) * factor
    rounded: Expr = cast(Unary("round", scaled), INT32)
    if scale.dtype is INT32:
        wide = cast(total, INT64) * cast(scale, INT64) + Const(1 << 31, INT64)
        rounded = Select(Binary("gt", scale, Const(0, INT32)), cast(wide >> 32, INT32), rounded)
    return limited(rounded + found.zero, found.node.type)


def is_plain(found: Requantised, target: Target) -> bool:
    """Whether a routine is for bytes that stand for numbers from 0 on: their zero point is the smallest of
    their type. Code that has to be small has one routine for bytes of all zero points.
    """
    return target.accumulators == 0 and found.zero == found.node.type.lowest


def routine_of(name: str, found: Requantised, target: Target) -> str:
    """The routine that makes such bytes."""
    return bytes_name(name, found.node.type.name, is_plain(found, target), found.is_fixed)


def unsigned_zero(found: Requantised) -> int:
    """The zero point of unsigned bytes."""
    return found.zero + (SIGN if found.node.type is INT8 else 0)


def constants_of_channels(
    loops: DotLoops, found: Requantised, size: int, in_words: bool = False
) -> tuple[Tensor, Tensor]:
    """[groups.., block, channel] for blocks of so many channels: first values, and scales, `in_words` if
    asked for; in fixed point [groups.., block, channel, 2], multipliers and shifts.
    """
    init = loops.c.init
    assert isinstance(init, Const | Load)
    first = constant_of_channels(loops, init, INT32, ("first", size), _shared_sums)
    if not found.is_fixed and not in_words:
        return first, constant_of_channels(loops, found.scale, FLOAT32, ("scale", size), _shared_scales)
    plain = scales_of_channels(loops, found, size)
    if found.is_fixed:
        return first, plain
    ends = found.ends
    return first, loops.storage.derived(plain, ("words", ends), lambda a: _words(a, ends), INT32, "words")


def scales_of_channels(loops: DotLoops, found: Requantised, size: int, apart: bool = False) -> Tensor:
    """[groups.., block, channel] for blocks of so many channels: scales as they are; in fixed point
    [groups.., block, channel, 2], multipliers and shifts, or `apart` [groups.., block, 2, channel].
    """
    if found.shift is None:
        return constant_of_channels(loops, found.scale, FLOAT32, ("scale", size))
    multipliers = constant_of_channels(loops, found.scale, INT32, ("multiplier", size))
    shifts = constant_of_channels(loops, found.shift, INT32, ("shift", size))
    axis = -2 if apart else -1
    how = ("fixed", axis, multipliers.shape)
    return loops.storage.combined(
        multipliers, shifts, how, lambda m, s: np.stack([m, s], axis), INT32, "fixed"
    )


def _doubled(scales: Array) -> Array:
    """[.., channel, 2], multipliers and shifts, with the multipliers of the first of two channels doubled
    modulo 2^32. What such a multiplier makes is at least a half: 0 becomes one that leaves nothing.
    """
    made = scales.copy()
    first = made[..., ::2, :]
    first[first[..., 0] == 0] = (LEAST_MULTIPLIER, 31)
    first[..., 0] = (first[..., 0].astype(np.int64) * 2).astype(np.int32)
    return np.asarray(made)


def _words(scales: Array, ends: tuple[int, int]) -> Array:
    """Of blocks of channels; where they are floats the second of two has a 256th."""
    made = words(scales, *ends, block=scales.shape[-1])
    shared = scales.copy()
    shared[..., 1::2] = _shared_scales(shared[..., ::2], shared[..., 1::2])
    return np.where(made > 0, made, (-shared).view(np.int32))


def constant_of_channels(
    loops: DotLoops,
    e: Const | Load,
    type: DType,
    what: tuple[str, int],
    of_two: Callable[[Array, Array], Array] | None = None,
) -> Tensor:
    """[groups.., block, channel] for blocks of so many channels: a constant of each; of the second of two
    what `of_two` makes of both.
    """
    c, (name, size) = loops.c, what

    axes = (*loops.moving, c.vector)

    def pack(array: Array) -> Array:
        read = replace(e, tensor=replace(e.tensor, value=array)) if isinstance(e, Load) else e
        every = value_over(read, axes)
        short = [*[(0, 0)] * len(loops.moving), (0, -c.channels % size)]
        blocks = np.pad(every, short).reshape(*every.shape[:-1], -1, size)
        made = blocks.astype(type.numpy)
        if of_two is not None:
            made[..., 1::2] = of_two(blocks[..., ::2], blocks[..., 1::2])
        return made

    of, part = (e.tensor, e.index) if isinstance(e, Load) else (c.b.tensor, (e,))
    how = ("paired", what, part, tuple(v.name for v in axes))
    return loops.storage.derived(of, how, pack, type, name)


def _shared_sums(low: Array, high: Array) -> Array:
    """What the sum of both channels begins with; integers of numpy wrap."""
    return np.asarray(low.astype(np.int32) + high.astype(np.int32) * np.int32(SHIFT))


def _shared_scales(_: Array, high: Array) -> Array:
    """The sum of the second channel is multiplied by 256."""
    return np.asarray(high.astype(np.float32) / np.float32(SHIFT))
