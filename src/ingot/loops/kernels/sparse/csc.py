"""Compressed sparse columns: products with a sparse matrix where registers have no look-ups.

    for each column j whose element x[j] is not 0:
        for each entry of the column: sums[row] += value[code] * x[j], rows told by their distance

An entry is a byte, or two: the code of its value below, above it the number of zeros between it and the
entry before it in its column. Longer runs of zeros are bridged by entries of value 0. The sums are made in
memory, of which there is a power of two, so that whatever an entry says is a row. Zero activations cost
nothing but a test. Of bytes the zero point is subtracted first: what was 0 before it was quantised is 0.
A count of entries is stored for each column; where they begin is added up on the way.

What many entries of a byte say is looked up: a table in memory, made in front of the loop, has for each the
rows to go on, of integers in the upper half of a word whose lower half is the value. So an entry of code 0
may go as many times further as there are gaps.

With Huffman coding the entries are a stream, expanded some columns at a time (`coded`).

In: a product that `sparse_lanes` has no way for. Out: statements, or None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod

import numpy as np

from ingot.formula.compute import Compute
from ingot.formula.expr import Array, Binary, Const, Expr, Load, Tensor, Var, cast, static, substitute
from ingot.formula.index import Bounds, simplify
from ingot.formula.statements import Assign, For, Instruction, Let, Madd, Remark, Statement, Store, When
from ingot.formula.types import FLOAT32, INDEX, INT8, INT32, UINT8, UINT16, DType
from ingot.loops.access import step
from ingot.loops.cuts import pieces
from ingot.loops.kernels.contraction.roles import Contraction
from ingot.loops.kernels.naive import loop, nested
from ingot.loops.kernels.sparse.coded import Expansion, coded
from ingot.loops.kernels.sparse.sparse_lanes import Matrix, encoded_product, matrix_of
from ingot.loops.layout import Storage
from ingot.targets.record import Target

ENTRY_BITS = (8, 16)
HALF = 16  # bits of a word of the table
MOST = (1 << 31) - 1  # as a mask: a number without its sign
POINTS = 4  # that share each entry that is read
GAP_BITS = 8  # of an entry that is stored in Huffman codes
MOST_SUMS = 64 << 10  # bytes of the sums of all points, which a stream that is read once needs at once
TYPES = ((FLOAT32, FLOAT32), (UINT8, INT8), (INT8, INT8))
MOST_VALUES = 256
WORTH_TABLE = 1024  # entries whose table is worth being made
WORTH = 0.5  # the density up to which a walk through the entries beats one through all elements


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Entries of all columns behind each other; those of column j are number first[j] to first[j + 1].

    Of code 0 an entry skips zeros: `reach`, or with `far` as many times `reach` as its gap says, and one.
    """

    first: Array
    entries: Array
    code_bits: int
    far: bool

    @property
    def counts(self) -> Array:
        return np.diff(self.first)

    @property
    def reach(self) -> int:
        """Gaps that there are."""
        return 1 << (8 * self.entries.itemsize - self.code_bits)


def columns_of(matrix: Matrix) -> Columns:
    """The entries of a matrix of codes, of which 0 is none, as wide as makes them the fewest bytes."""
    code_bits = _code_bits(matrix)
    made = [_entries(matrix, code_bits, bits, False) for bits in ENTRY_BITS if bits > code_bits]
    least = min(made, key=lambda m: m.entries.nbytes)
    far = least.entries.dtype == np.uint8 and least.entries.size >= WORTH_TABLE
    return _entries(matrix, code_bits, ENTRY_BITS[0], True) if far else least


def _entries(matrix: Matrix, code_bits: int, bits: int, far: bool) -> Columns:
    """The entries of so many bits."""
    reach = 1 << (bits - code_bits)
    dtype = np.uint8 if bits == 8 else np.uint16
    column, row = np.nonzero(matrix.codes.T)
    begins = np.diff(column, prepend=-1) != 0
    zeros = np.where(begins, row, np.diff(row, prepend=0) - 1)
    skips = zeros // reach
    most = reach if far else 1  # skips of one filler
    fillers = -(-skips // most)
    ends = np.cumsum(fillers + 1) - 1
    entries = np.full(int(ends[-1]) + 1 if len(ends) else 0, (reach - 1) << code_bits, dtype)
    if far:  # the last filler in front of an entry skips what is left
        bridged = fillers > 0
        entries[ends[bridged] - 1] = (skips[bridged] - 1) % most << code_bits
    entries[ends] = (zeros % reach) << code_bits | matrix.codes[row, column]
    counts = np.bincount(column, fillers + 1, matrix.codes.shape[1]).astype(np.int64)
    return Columns(np.append(0, np.cumsum(counts)), entries, code_bits, far)


def csc(
    c: Compute, storage: Storage, target: Target, bounds: Bounds, huffman: bool = False
) -> tuple[Statement, ...] | None:
    """Statements for a product with a sparse encoded matrix, or None where that does not pay.

    `huffman`: its entries are stored entropy-coded, for who has asked `saved_bytes` whether that saves any.
    """
    if target.lanes(4) > 4 and not huffman:
        return None
    found, zero = encoded_product(c, storage, bounds)
    if found is None or (found.a.tensor.type, found.b.tensor.type) not in TYPES or not _ascends(found):
        return None
    is_long = target.spelling("dot16", "int8", 16) is not None  # faster than one entry at a time
    if is_long and found.b.tensor.type is INT8 and not huffman:
        return None
    matrix = matrix_of(found, MOST_VALUES)
    if matrix is None or (matrix.density > WORTH and not huffman) or not matrix.codes.any():
        return None
    bits = _code_bits(matrix)
    made = _entries(matrix, bits, bits + GAP_BITS, False) if huffman else columns_of(matrix)
    return _Generator(found, zero, matrix, made, storage, huffman).statements()


def saved_bytes(c: Contraction) -> int:
    """How many bytes Huffman codes save of what an encoded matrix is stored in otherwise; 0: do not."""
    points = prod(static(x.extent) for x in (*c.tile, *c.outer))
    sums = points * _power(c.channels) * c.init.dtype.bytes
    if (c.a.tensor.type, c.b.tensor.type) not in TYPES or not _ascends(c) or sums > MOST_SUMS:
        return 0
    matrix = matrix_of(c, MOST_VALUES)
    if matrix is None or not matrix.codes.any():
        return 0
    bits = _code_bits(matrix)
    made = _entries(matrix, bits, bits + GAP_BITS, False)
    plain = matrix.codes.size * (4 if bits <= 4 and c.b.dtype.is_float else 8) // 8
    if matrix.density <= WORTH:
        plain = min(plain, columns_of(matrix).entries.nbytes)
    return max(0, plain - coded(made.entries, made.first, bits).bytes)


def _ascends(c: Contraction) -> bool:
    """Whether the terms, axis by axis, go forward through the operand."""
    reach = 0
    for k in reversed(c.reduce):
        moved = step(c.a, k.name) or 0
        if moved < reach:
            return False
        reach += moved * (static(k.extent) - 1)
    return True


def _code_bits(matrix: Matrix) -> int:
    return max(len(matrix.values) - 1, 1).bit_length()


def _power(rows: int) -> int:
    """The power of two that is no less, from 2 on."""
    return 1 << max(rows - 1, 1).bit_length()


class _Generator:
    """Builds the loops of one product."""

    def __init__(
        self, c: Contraction, subtracted: Expr, matrix: Matrix, made: Columns, storage: Storage, huffman: bool
    ) -> None:
        self.c, self.subtracted, self.matrix, self.made, self.storage = c, subtracted, matrix, made, storage
        self.axes = (*c.outer, *c.tile)
        self.x = c.tile[-1] if c.tile else None
        self.table: Tensor | None = None
        self.together = 1 if self.x is None else min(POINTS, static(self.x.extent))
        points = prod(static(x.extent) for x in self.axes) if huffman else self.together
        self.sums = self.scratch((points * _power(c.channels),), "sums", self.type)
        self.stream: Expansion | None = None
        if huffman:
            stored = coded(made.entries, made.first, made.code_bits)
            self.stream = Expansion(stored, made.code_bits, self.constant, self.scratch)

    @property
    def type(self) -> DType:
        """Of the sums."""
        return self.c.init.dtype

    def statements(self) -> tuple[Statement, ...]:
        """Around a point's loops go those over the points; a stream is read once, for all points."""
        if self.stream is None:
            made = tuple(self.look_up())  # first: who reads entries has to know of the table
            start, end = Const(0), Const(self.c.terms)
            walk = self.around(lambda n: (self.clear(n), *self.walk(start, end, start, n), *self.store(n)))
            return (self.remark(), *made, *walk)
        made = (*self.around(lambda n: (self.clear(n),)), *self.stream.look_up())
        tile, size = Var("tile"), self.stream.coded.columns
        first, last = self.edge(tile), self.edge(tile + 1)
        lo, hi = tile * size, Binary("min", tile * size + size, Const(self.c.terms))
        expand = self.stream.expand(first, last)
        body = (expand, *self.around(lambda n: self.walk(lo, hi, first, n)))
        tiles = For("tile", Const(0), Const(-(-self.c.terms // size)), 1, body)
        return (self.remark(), *made, tiles, *self.around(self.store))

    def around(self, body: Callable[[int], tuple[Statement, ...]]) -> tuple[Statement, ...]:
        """The loops over all points, some of which share each entry that is read."""
        if self.x is None:
            made = body(1)
        else:
            cut = pieces(static(self.x.extent), POINTS)
            made = tuple(For(self.x.name, Const(lo), Const(hi), n, body(n)) for lo, hi, n in cut)
        return nested((*self.c.outer, *self.c.tile[:-1]), made)

    def scratch(self, shape: tuple[int, ...], what: str, dtype: DType) -> Tensor:
        return self.storage.scratch(self.c.to.tensor, shape, what, dtype)

    def sum_at(self, row: Expr, p: int) -> Load:
        """The sum of a row, at the p-th point from that of the loops around."""
        at = row * self.together + p
        if self.stream is not None:
            at = Const(0)
            for x in self.axes:
                at = at * static(x.extent) + (x + p if x is self.x else x)
            at = at * _power(self.c.channels) + row
        return Load(self.sums, (simplify(at, self.c.bounds),))

    def clear(self, points: int) -> Statement:
        row = Var("row", self.c.channels)
        stores = tuple(Store(self.sum_at(row, p), self.zero) for p in range(points))
        return For("row", Const(0), Const(self.c.channels), 1, stores)

    def edge(self, tile: Expr) -> Expr:
        """The number of a tile's first entry in the stream."""
        assert self.stream is not None
        edges = np.append(self.made.first[: -1 : self.stream.coded.columns], self.made.first[-1])
        return cast(Load(self.constant("edges", edges, _counting(edges[-1])), (simplify(tile),)), INDEX)

    def walk(self, lo: Expr, hi: Expr, first: Expr, points: int) -> tuple[Statement, ...]:
        """Columns, the first of whose entries is number `first`."""
        column = tuple(self.column(Var("column", self.c.terms), points))
        return (Let("begin", cast(first, INT32), 1, True), For("column", lo, hi, 1, column))

    def count(self, column: Expr) -> Expr:
        """How many entries a column has."""
        counts = self.made.counts
        return cast(Load(self.constant("counts", counts, _counting(int(counts.max()))), (column,)), INDEX)

    def begin(self, column: Expr) -> Iterator[Statement]:
        """`lo`, the number of a column's first entry. What `begin` says is bounded, so that entries can be
        proved to exist: behind the last are as many as a column has at most.
        """
        begin, last = Var("begin", None, INT32), int(self.made.first[-1])
        within = Binary("min", begin & Const(MOST, INT32), Const(last, INT32))
        yield Let("lo", cast(begin if self.stream is not None else within, INDEX))
        yield Assign("begin", begin + cast(self.count(column), INT32))

    def moved(self, e: Expr, by: int) -> Expr:
        """The expression at a later point."""
        return e if self.x is None or not by else substitute(e, {self.x.name: self.x + by})

    def remark(self) -> Remark:
        size, how = self.made.entries.nbytes, "column by column"
        if self.stream is not None:
            size, how = self.stream.coded.bytes, f"{how}, Huffman-coded"
        shape = f"{self.matrix.density:.1%} of {self.c.channels}x{self.c.terms}"
        return Remark(f"{self.c.b.tensor.name}: {shape}, {how}; {size:,} bytes")

    @property
    def zero(self) -> Const:
        return Const(0.0 if self.type.is_float else 0, self.type)

    def constant(self, what: str, array: Array, dtype: DType) -> Tensor:
        """A table made of the weights; `Storage` keeps those apart that are made differently."""
        names = tuple(k.name for k in self.c.reduce)
        how = (what, "csc", self.stream is None, self.c.b.index, names, self.c.channels)
        return self.storage.derived(self.c.b.tensor, how, lambda _: array.astype(dtype.numpy), dtype, what)

    def column(self, column: Var, points: int) -> Iterator[Statement]:
        """The elements of the operand; if not all are zero, the column's entries."""
        term = dict[str, Expr]()
        at: Expr = column
        for k in reversed(self.c.reduce[1:]):
            term[k.name], at = at % static(k.extent), at // static(k.extent)
        term[self.c.reduce[0].name] = at
        bounds = {**self.c.bounds, "column": (0, self.c.terms - 1)}
        read = substitute(self.c.a, term)
        other: Expr | None = None
        for p in range(points):
            a = cast(simplify(self.moved(read, p), bounds), self.type)
            yield Let(f"active{p}", a if self.subtracted == self.zero else a - self.subtracted)
            nonzero = Binary("ne", self.active(p), self.zero)
            other = nonzero if other is None else Binary("or", other, nonzero)
        assert other is not None
        yield from self.begin(column)
        place = Var("lo") + Var("place")
        entries = For("place", Const(0), self.count(column), 1, tuple(self.entry(place, points)))
        yield When(other, (Let("at", Const(-1, INT32), 1, True), entries))

    def active(self, p: int) -> Var:
        return Var(f"active{p}", None, self.type)

    def look_up(self) -> Iterator[Statement]:
        """What all entries of a byte say: rows to go on, and of integers the value."""
        if not self.made.far:
            return
        self.table = self.scratch((1 << ENTRY_BITS[0],), "table", INT32 if self.type is INT32 else UINT16)
        codes, count = 1 << self.made.code_bits, 1 << ENTRY_BITS[0]
        e, gap = Var("e", count), Var("gap", self.made.reach)
        rows = self.word(cast(e // codes + 1, INT32))
        if self.type is INT32:
            value = cast(Load(self.constant("values", self.values(), INT8), (e % codes,)), INT32)
            rows = rows | value & Const((1 << HALF) - 1, INT32)
        skipped = self.word(cast((gap + 1) * self.made.reach, INT32))
        for at, said in ((e, rows), (gap * codes, skipped)):
            store = Store(Load(self.table, (at,)), cast(said, self.table.type))
            yield loop(e if at is e else gap, (store,))

    def word(self, rows: Expr) -> Expr:
        """Rows to go on, as the table has them."""
        return Binary("shl", rows, Const(HALF, INT32)) if self.type is INT32 else rows

    def entry(self, e: Expr, points: int) -> Iterator[Statement]:
        """Go to the entry's row and add there."""
        entry, row = Var("entry", None, INT32), Var("row")
        last, read = Const(_power(self.c.channels) - 1, INT32), self.read(e)
        is_word = self.table is not None and self.type is INT32
        yield Let("entry", cast(self.said(read) if is_word else read, INT32))
        yield Let("row", cast((Var("at", None, INT32) + self.rows(entry, read)) & last, INDEX))
        yield Assign("at", cast(row, INT32))
        if not is_word:
            yield Let("value", self.value(entry))
        for p in range(points):
            yield Let(f"sum{p}", self.sum_at(row, p), 1, mutable=True)
            yield self.add(p, entry)
            yield Store(self.sum_at(row, p), Var(f"sum{p}", None, self.type))

    def add(self, p: int, entry: Var) -> Statement:
        """A product to the sum of a point: of the value that stands in the table, or of `value`."""
        a, total, value = self.active(p), Var(f"sum{p}", None, self.type), Var("value", None, self.type)
        if self.table is not None and self.type is INT32:
            return Instruction("madd16", total.name, entry, a, 1)
        return Madd(total.name, a, value) if self.type.is_float else Assign(total.name, total + a * value)

    def said(self, entry: Load) -> Load:
        assert self.table is not None
        return Load(self.table, (cast(entry, INDEX),))

    def read(self, e: Expr) -> Load:
        """An entry, as it is stored or as it has been expanded."""
        if self.stream is not None:
            return self.stream.at(e)
        entries, most = self.made.entries, int(self.made.counts.max())
        held = np.append(entries, np.zeros(most, entries.dtype))
        wide = entries.dtype == np.uint16
        return Load(self.constant("entries", held, UINT16 if wide else UINT8), (e,))

    def rows(self, entry: Var, read: Load) -> Expr:
        """How many to go on from what an entry, or the table, says."""
        if self.table is None:
            return Binary("shr", entry, Const(self.made.code_bits, INT32)) + Const(1, INT32)
        is_word = self.type is INT32
        return Binary("shr", entry, Const(HALF, INT32)) if is_word else cast(self.said(read), INT32)

    def value(self, entry: Var) -> Expr:
        """Of an entry itself."""
        code = cast(entry & Const((1 << self.made.code_bits) - 1, INT32), INDEX)
        values = self.constant("values", self.values(), INT8 if self.type is INT32 else FLOAT32)
        return cast(Load(values, (code,)), self.type)

    def values(self) -> Array:
        """The values by their codes: as many as there are codes."""
        out = np.zeros(1 << self.made.code_bits, self.matrix.values.dtype)
        out[: len(self.matrix.values)] = self.matrix.values
        return out

    def store(self, points: int) -> tuple[Statement, ...]:
        """What becomes of the sums."""
        return tuple(self.stored(p) for p in range(points))

    def stored(self, p: int) -> Statement:
        c, row = self.c, Var("row", self.c.channels)
        at_row = {c.vector.name: row}
        to, value, init = (
            simplify(substitute(self.moved(e, p), at_row), c.bounds) for e in (c.to, c.value, c.init)
        )
        assert isinstance(to, Load)
        made = self.sum_at(row, p)
        start = made if c.init == self.zero else Binary("add", init, made)
        body = Store(to, substitute(value, {"acc": start}))
        return For("row", Const(0), Const(c.channels), 1, (body,))


def _counting(most: int) -> DType:
    return UINT8 if most < 1 << 8 else UINT16 if most < 1 << 16 else INT32
