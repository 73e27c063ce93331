"""Weights of few bits with a scale for each block of terms, as the loops of `block_product` read them.

    (q[n, k] - zero[n, k / 32]) * scale[n, k / 32]        one stage's term, besides what it multiplies

    int32 [block, k / 8, lane]        eight weights of 4 bits, neighbours along k, in every lane
    uint8 [block, k / 8, lane, 4]     the same, as dot products of bytes take them: four terms, then four more
    float32 [block, k / 32, lane]     scales; zero points likewise, as bytes or floats

A block is the channels of a register tile, a lane one channel. Where the zero point is the middle of the
range the weights are kept with a sign, which subtracts it. In: a term, bound to physical tensors. Out: the
packed constants; None where a term is not that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from ingot.formula.evaluate import grid_over
from ingot.formula.evaluate import value as evaluate
from ingot.formula.expr import (
    Array,
    Binary,
    Cast,
    Const,
    Expr,
    Load,
    Tensor,
    Var,
    loads,
    static,
    substitute,
    transform,
    walk,
)
from ingot.formula.index import mentions, simplify
from ingot.formula.types import FLOAT32, INT32, UINT8, DType
from ingot.loops.kernels.contraction.tiles import Segment
from ingot.loops.layout import Storage

WORD = 32  # bits of what a lane loads
WIDTHS = (2, 4, 8)
GROUP = 4  # bytes of a lane: terms that a dot product takes at once
CHANNELS_AT_ONCE = 1 << 10  # that are packed together: indices of all weights are many times the weights


@dataclass(frozen=True, slots=True)
class WeightBlocks:
    """The weight of `channel` and `term`: codes of `bits` bits less `zero`, times `scale`, both of which stay
    for `block` terms. `zero` is None for the middle of the range.
    """

    codes: Expr
    zero: Expr | None
    scale: Expr
    bits: int
    block: int
    channel: Var
    term: Var

    @property
    def per_word(self) -> int:
        return WORD // self.bits

    @property
    def middle(self) -> int:
        """The zero point where there is none of its own."""
        return 1 << (self.bits - 1)

    @property
    def terms(self) -> int:
        return static(self.term.extent)

    @property
    def words(self) -> int:
        return -(-self.terms // self.per_word)

    @property
    def blocks(self) -> int:
        return -(-self.terms // self.block)

    def packed(self, s: Segment, storage: Storage) -> Tensor:
        """int32 [block of channels, word, lane]."""
        per, bits = self.per_word, self.bits

        def pack(array: Array) -> Array:
            rows = self._rows(array, s)
            if self.zero is None:
                rows[:, : self.terms] ^= np.uint8(self.middle)
            shifts = np.arange(per, dtype=np.uint32) * np.uint32(bits)
            words = np.bitwise_or.reduce(
                rows.reshape(len(rows), self.words, per).astype(np.uint32) << shifts, axis=2
            )
            return _in_lanes(words.view(np.int32), s)

        return self._derived(self.codes, ("words", s), pack, INT32, storage)

    def grouped(self, s: Segment, storage: Storage) -> Tensor:
        """uint8 [block of channels, word, byte of a lane]: field f of byte j is term 4 * f + j of a word."""
        fields = self.per_word // GROUP

        def pack(array: Array) -> Array:
            rows = self._rows(array, s)
            shifts = np.arange(fields, dtype=np.uint8)[:, None] * np.uint8(self.bits)
            fielded = rows.reshape(len(rows), self.words, fields, GROUP) << shifts
            packed = np.bitwise_or.reduce(fielded, axis=2).reshape(s.blocks, s.size, self.words, GROUP)
            return np.ascontiguousarray(packed.swapaxes(1, 2)).reshape(s.blocks, self.words, -1)

        return self._derived(self.codes, ("grouped", s), pack, UINT8, storage)

    def _rows(self, array: Array, s: Segment) -> Array:
        """uint8 [channel of a segment, term of whole words]: a code each."""
        rows = np.zeros((s.blocks * s.size, self.words * self.per_word), np.uint8)
        for lo in range(s.first, s.first + min(len(rows), s.blocks * s.channels), CHANNELS_AT_ONCE):
            made = self._over(self.codes, array, lo, s, np.arange(self.terms))
            rows[lo - s.first : lo - s.first + len(made), : self.terms] = made
        return rows

    def scales(self, s: Segment, storage: Storage) -> Tensor:
        """float32 [block of channels, block of terms, lane]."""
        return self._per_block(self.scale, "scales", s, FLOAT32, storage)

    def zeros(self, s: Segment, storage: Storage) -> Tensor:
        """uint8 or float32 [block of channels, block of terms, lane]."""
        assert self.zero is not None
        dtype = FLOAT32 if self.zero.dtype.is_float else UINT8
        return self._per_block(self.zero, "zeros", s, dtype, storage)

    def _per_block(self, e: Expr, what: str, s: Segment, dtype: DType, storage: Storage) -> Tensor:
        def pack(array: Array) -> Array:
            count, first = s.blocks * s.size, np.arange(self.blocks) * self.block
            rows = np.zeros((count, self.blocks), dtype.numpy)
            for lo in range(s.first, s.first + min(count, s.blocks * s.channels), CHANNELS_AT_ONCE):
                made = self._over(e, array, lo, s, first)
                rows[lo - s.first : lo - s.first + len(made)] = made
            return _in_lanes(rows, s)

        return self._derived(e, (what, s), pack, dtype, storage)

    def _over(self, e: Expr, array: Array, lo: int, s: Segment, terms: Array) -> Array:
        """An expression of one constant at some channels from `lo` on, and terms."""
        hi = min(lo + CHANNELS_AT_ONCE, s.first + (s.blocks - 1) * s.size + s.channels)

        def held(node: Expr) -> Expr | None:
            return replace(node, tensor=replace(node.tensor, value=array)) if isinstance(node, Load) else None

        grid = grid_over([self.channel.name, self.term.name], (hi - lo, len(terms)))
        grid[self.channel.name] = grid[self.channel.name] + lo
        grid[self.term.name] = terms[None, :]
        return np.broadcast_to(evaluate(transform(e, held), {}, grid), (hi - lo, len(terms)))

    def _derived(
        self,
        e: Expr,
        how: tuple[object, ...],
        pack: Callable[[Array], Array],
        dtype: DType,
        storage: Storage,
    ) -> Tensor:
        (source,) = {x.tensor for x in loads(e)}
        shape = (self.bits, self.block, self.terms, static(self.channel.extent), self.zero is None)
        return storage.derived(source, (*how, *shape), pack, dtype, str(how[0]))


def _in_lanes(rows: Array, s: Segment) -> Array:
    """[channel, column] as [block, column, lane]."""
    return np.ascontiguousarray(rows.reshape(s.blocks, s.size, -1).swapaxes(1, 2))


def weight_blocks(weight: Expr, channel: Var, term: Var) -> WeightBlocks | None:
    """The weights that an expression is: ((codes - zero) as a float) * scale."""
    match weight:
        case Binary("mul", Cast(Binary("sub", codes, zero)), scale) if codes.dtype is INT32:
            pass
        case Binary("mul", Binary("sub", Cast(codes), zero), scale) if codes.dtype is INT32:
            pass
        case _:
            return None
    bits = _bits(codes)
    if bits is None or not _is_of_one_constant(codes) or not _is_of_one_constant(scale):
        return None
    is_middle = isinstance(zero, Const) and zero.value == 1 << (bits - 1)
    if not is_middle and not _is_of_one_constant(zero):
        return None
    block = max((b for b in _divisors(scale, term)), default=static(term.extent))
    per = WORD // bits
    block = block if block < static(term.extent) else -(-static(term.extent) // per) * per
    if block % per or not all(_stays(e, term, block) for e in (scale, zero)):
        return None
    return WeightBlocks(codes, None if is_middle else zero, scale, bits, block, channel, term)


def _bits(codes: Expr) -> int | None:
    """How many bits an element has, of several in a byte, or of one."""
    match codes:
        case Binary("and", Binary("shr", Cast(Load())), Const(mask)):
            bits = int(mask).bit_length()
        case Cast(Load()):
            bits = 8
        case _:
            return None
    return bits if bits in WIDTHS else None


def _is_of_one_constant(e: Expr) -> bool:
    found = {x.tensor for x in loads(e)}
    return len(found) == 1 and all(t.value is not None for t in found)


def _stays(e: Expr, term: Var, block: int) -> bool:
    """Whether a number is the same for all terms of a block."""
    first, within = Var("block", None), Var("within", None)
    bounds = {first.name: (0, static(term.extent) // block), within.name: (0, block - 1)}
    at = {term.name: first * block + within}
    indices = (simplify(substitute(i, at), bounds) for load in loads(e) for i in load.index)
    return not any(mentions(i, within.name) for i in indices)


def _divisors(e: Expr, term: Var) -> Iterator[int]:
    """By what the term is divided where it is an index."""
    for load in loads(e):
        for i in load.index:
            for n in walk(i):
                match n:
                    case Binary("floordiv", a, Const(b)) if mentions(a, term.name):
                        yield int(b)
