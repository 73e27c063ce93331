"""Entries of columns as a Huffman-coded stream, and the loops that expand it, some columns at a time.

    for each tile of columns:
        for each of its entries: ring[entry] = the next code and the next gap of the stream
        walk the columns of the tile, their entries read from the ring

Codes and gaps have a canonical code each, of at most ten bits, and take turns in the stream. In front of the
loops a table in memory is made of each: for ten bits of the stream the symbol that they begin with, and how
many bits it has. Whatever the stream says, reads stay within it and symbols within the ring. In: entries.
Out: what is stored of them, and statements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ingot.formula.expr import Array, Binary, Const, Expr, Load, Tensor, Var, cast
from ingot.formula.statements import Assign, For, Let, Statement, Store
from ingot.formula.types import INDEX, INT32, UINT8, UINT16, UINT32, DType
from ingot.graph.huffman import bits_of, canonical, lengths_of

LONGEST = 10  # bits of a code: its table has 2 KB at most
ROOM = 256  # entries of a ring, more where one column has more
SEEN = 32  # bits of the stream that are looked at, seven of which may be over already
Constant = Callable[[str, Array, DType], Tensor]
Scratch = Callable[[tuple[int, ...], str, DType], Tensor]


@dataclass(frozen=True, slots=True, eq=False)
class Alphabet:
    """A canonical code: its symbols in ascending order of their codes; those of n bits are number first[n] to
    first[n + 1]. `bits` is the longest.
    """

    symbols: Array
    first: Array
    bits: int

    @property
    def bytes(self) -> int:
        return self.symbols.nbytes + self.first.nbytes


@dataclass(frozen=True, slots=True, eq=False)
class Coded:
    """`stream` ends with bytes that are looked at, not used; a tile of `columns` fits the ring's `room`."""

    stream: Array
    codes: Alphabet
    gaps: Alphabet
    columns: int
    room: int

    @property
    def bytes(self) -> int:
        return self.stream.nbytes + self.codes.bytes + self.gaps.bytes


def coded(entries: Array, first: Array, code_bits: int) -> Coded:
    """Entries that hold a code in the low bits and a gap of eight bits above it; first[j]: where column j
    begins."""
    symbols = entries & ((1 << code_bits) - 1), entries >> code_bits
    lengths = [lengths_of(np.bincount(s, minlength=256), LONGEST) for s in symbols]
    numbers = [canonical(n) for n in lengths]
    turns = [np.stack([t[s] for t, s in zip(of, symbols, strict=True)], 1) for of in (numbers, lengths)]
    bits = bits_of(turns[0].reshape(-1), turns[1].reshape(-1))
    stream = np.concatenate([np.packbits(bits), np.zeros(SEEN // 8, np.uint8)])
    count = int(np.diff(first).max(initial=1))
    room = max(ROOM, 1 << (count - 1).bit_length())
    return Coded(stream, _alphabet(lengths[0]), _alphabet(lengths[1]), _tile(first, room), room)


def _alphabet(lengths: Array) -> Alphabet:
    used = np.flatnonzero(lengths)
    symbols = used[np.lexsort((used, lengths[used]))].astype(np.uint8)
    longest = int(lengths.max())
    first = np.searchsorted(lengths[symbols], np.arange(longest + 2)).astype(np.uint16)
    return Alphabet(symbols, first, longest)


def _tile(first: Array, room: int) -> int:
    """How many columns fit the ring, wherever they begin."""
    terms = len(first) - 1
    size = 1
    while size < terms:
        edges = [*range(0, terms, 2 * size), terms]
        if max(int(first[b] - first[a]) for a, b in pairwise(edges)) > room:
            break
        size *= 2
    return size


class Expansion:
    """The loops of one stream; `constant` and `scratch` make the tensors that they touch."""

    def __init__(self, coded: Coded, code_bits: int, constant: Constant, scratch: Scratch) -> None:
        self.coded, self.code_bits, self.constant = coded, code_bits, constant
        self.ring = scratch((coded.room,), "ring", UINT16)
        sizes = {"code": coded.codes.bits, "gap": coded.gaps.bits}
        self.tables = {what: scratch((1 << n,), f"{what}_table", UINT16) for what, n in sizes.items()}

    def look_up(self) -> Iterator[Statement]:
        """Tables of what bits of the stream begin with: the symbol, and above it how many bits it has."""
        for what, a in (("code", self.coded.codes), ("gap", self.coded.gaps)):
            first, symbols = (
                self.constant(f"{what}_first", a.first, UINT16),
                self.constant(f"{what}_symbols", a.symbols, UINT8),
            )
            length, turn, slot = Var("length"), Var("turn"), Var(f"{what}_slot", None, INT32)
            sizes = self.constant(f"{what}_sizes", (1 << a.bits) >> np.arange(a.bits + 1), UINT16)
            taken = cast(Load(sizes, (length,)), INT32)
            at = cast((slot + cast(turn, INT32)) & Const((1 << a.bits) - 1, INT32), INDEX)
            said = cast(Load(symbols, (Var("symbol"),)), INT32) | cast(length * 256, INT32)
            fill = For(
                "turn",
                Const(0),
                cast(taken, INDEX),
                1,
                (Store(Load(self.tables[what], (at,)), cast(said, UINT16)),),
            )
            lo, hi = (cast(Load(first, (n,)), INDEX) for n in (length, length + 1))
            each = For("symbol", lo, hi, 1, (fill, Assign(slot.name, slot + taken)))
            yield Let(slot.name, Const(0, INT32), mutable=True)
            yield For("length", Const(1), Const(a.bits + 1), 1, (each,))
        yield Let("bit", Const(0, UINT32), mutable=True)

    def expand(self, lo: Expr, hi: Expr) -> Statement:
        """Entries number `lo` to `hi` into the ring."""
        stream = self.constant("stream", self.coded.stream, UINT8)
        bit, seen, rest = (Var(n, None, UINT32) for n in ("bit", "seen", "rest"))
        byte = Binary(
            "min", cast(Binary("shr", bit, Const(3, UINT32)), INDEX), Const(stream.count - SEEN // 8)
        )
        word: Expr = Const(0, UINT32)
        for k in range(SEEN // 8):
            one = cast(Load(stream, (Var("byte") + k,)), UINT32)
            word = one if k == 0 else Binary("shl", word, Const(8, UINT32)) | one
        code, gap = Var("code", None, UINT32), Var("gap", None, UINT32)
        size = [Binary("shr", x, Const(8, UINT32)) for x in (code, gap)]
        low = [x & Const(255, UINT32) for x in (code, gap)]
        entry = Binary("shl", low[1], Const(self.code_bits, UINT32)) | low[0]
        body = (
            Let("byte", byte),
            Let("seen", Binary("shl", word, bit & Const(7, UINT32))),
            Let("code", self.said("code", self.coded.codes, seen)),
            Let("rest", Binary("shl", seen, size[0])),
            Let("gap", self.said("gap", self.coded.gaps, rest)),
            Assign("bit", bit + size[0] + size[1]),
            Store(self.at(Var("e")), cast(entry, UINT16)),
        )
        return For("e", lo, hi, 1, body)

    def said(self, what: str, a: Alphabet, bits: Expr) -> Expr:
        """What the table says of the highest bits."""
        high = Binary("shr", bits, Const(SEEN - a.bits, UINT32)) & Const((1 << a.bits) - 1, UINT32)
        return cast(Load(self.tables[what], (cast(high, INDEX),)), UINT32)

    def at(self, e: Expr) -> Load:
        """Where the ring has an entry."""
        return Load(self.ring, (cast(cast(e, INT32) & Const(self.coded.room - 1, INT32), INDEX),))
