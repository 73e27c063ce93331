"""The column generator: products with a sparse constant matrix where there are no look-ups in registers.

    for each column j whose element x[j] is not 0:
        for each entry of the column: sums[row] += value[code] * x[j], rows told by their distance

An entry is a byte, or two: the code of its value below, above it the number of zeros between it and the
entry before it in its column. Longer runs of zeros are bridged by entries of value 0. The sums are made in
memory, of which there is a power of two, so that whatever an entry says is a row. Zero activations cost
nothing but a test. In: a product that `lanes` has no way for. Out: statements, or None.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ingot.formula.compute import Compute
from ingot.formula.expr import Array, Binary, Const, Load, Tensor, Var, cast, static, substitute
from ingot.formula.index import Bounds, as_expr, simplify
from ingot.formula.statements import Assign, For, Let, Madd, Remark, Statement, Store, When
from ingot.formula.types import FLOAT32, INDEX, INT8, INT32, UINT8, UINT16, DType
from ingot.loops.access import step
from ingot.loops.generators.lanes import Matrix, encoded_product, matrix_of
from ingot.loops.generators.roles import Contraction
from ingot.loops.layout import Storage
from ingot.targets.record import Target

ENTRY_BITS = (8, 16)
MOST_VALUES = 256
WORTH = 0.5  # the density up to which a walk through the entries beats one through all elements


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Entries of all columns behind each other; those of column j are number first[j] to first[j + 1]."""

    first: Array
    entries: Array
    code_bits: int


def columns_of(matrix: Matrix) -> Columns:
    """The entries of a matrix of codes, of which 0 is none, as wide as makes them the fewest bytes."""
    code_bits = max(len(matrix.values) - 1, 1).bit_length()
    made = [_entries(matrix, code_bits, bits) for bits in ENTRY_BITS if bits > code_bits]
    return min(made, key=lambda m: m.entries.nbytes)


def _entries(matrix: Matrix, code_bits: int, bits: int) -> Columns:
    """The entries of so many bits."""
    reach = 1 << (bits - code_bits)
    dtype = np.uint8 if bits == 8 else np.uint16
    column, row = np.nonzero(matrix.codes.T)
    begins = np.diff(column, prepend=-1) != 0
    zeros = np.where(begins, row, np.diff(row, prepend=0) - 1)
    fillers = zeros // reach
    ends = np.cumsum(fillers + 1) - 1
    entries = np.full(int(ends[-1]) + 1 if len(ends) else 0, (reach - 1) << code_bits, dtype)
    entries[ends] = (zeros % reach) << code_bits | matrix.codes[row, column]
    counts = np.bincount(column, fillers + 1, matrix.codes.shape[1]).astype(np.int64)
    return Columns(np.append(0, np.cumsum(counts)), entries, code_bits)


def columns(c: Compute, storage: Storage, target: Target, bounds: Bounds) -> tuple[Statement, ...] | None:
    """Statements for a product with a sparse encoded matrix, or None where that does not pay."""
    found = encoded_product(c, storage, bounds)
    if found is None or len(found.reduce) != 1 or target.lanes(4) > 4:
        return None
    if (found.a.tensor.type, found.b.tensor.type) not in ((FLOAT32, FLOAT32), (UINT8, INT8)):
        return None
    matrix = matrix_of(found, MOST_VALUES)
    if matrix is None or matrix.density > WORTH or (step(found.a, found.reduce[0].name) or 0) < 0:
        return None
    made = columns_of(matrix)
    return _Generator(found, matrix, made, storage).statements() if made.entries.size else None


@dataclass(slots=True)
class _Generator:
    """Builds the loops of one product."""

    c: Contraction
    matrix: Matrix
    made: Columns
    storage: Storage

    @property
    def type(self) -> DType:
        """Of the sums."""
        return self.c.init.dtype

    def statements(self) -> tuple[Statement, ...]:
        """Around a point's loops go those over the points."""
        rows = Var("row", self.c.channels)
        size = 1 << max(self.c.channels - 1, 1).bit_length()
        sums = self.storage.scratch(self.c.to.tensor, (size,), "sums", self.type)
        zero = For("row", Const(0), Const(self.c.channels), 1, (Store(Load(sums, (rows,)), self.zero),))
        column = Var("column", self.c.terms)
        walk = For("column", Const(0), Const(self.c.terms), 1, self.column(column, sums))
        body: tuple[Statement, ...] = (zero, walk, self.store(rows, sums))
        for x in reversed((*self.c.outer, *self.c.tile)):
            body = (For(x.name, Const(0), as_expr(x.extent or 0), 1, body),)
        return (self.remark(), *body)

    def remark(self) -> Remark:
        size, kept = self.made.entries.nbytes, self.matrix.density
        shape = f"{self.c.channels}x{self.c.terms}"
        return Remark(f"{self.c.b.tensor.name}: {kept:.1%} of {shape}, column by column; {size:,} bytes")

    @property
    def zero(self) -> Const:
        return Const(0.0 if self.type.is_float else 0, self.type)

    def constant(self, what: str, array: Array, dtype: DType) -> Tensor:
        """A table made of the weights; `Storage` keeps those apart that are made differently."""
        how = (what, "columns", self.c.b.index, self.c.reduce[0].name, self.c.channels)
        return self.storage.derived(self.c.b.tensor, how, lambda _: array.astype(dtype.numpy), dtype, what)

    def column(self, column: Var, sums: Tensor) -> tuple[Statement, ...]:
        """The element of the operand; if it is not zero, the column's entries."""
        first = self.constant("first", self.made.first, _counting(self.made.entries.size))
        lo, hi = (cast(Load(first, (simplify(i),)), INDEX) for i in (column, column + 1))
        read = simplify(substitute(self.c.a, {self.c.reduce[0].name: column}), self.c.bounds)
        a = cast(read, self.type)
        entries = For("place", lo, hi, 1, tuple(self.entry(Var("place"), sums)))
        other = Binary("ne", Var("active", None, self.type), self.zero)
        return Let("active", a), When(other, (Let("at", Const(-1, INT32), 1, True), entries))

    def entry(self, e: Var, sums: Tensor) -> list[Statement]:
        """Go to the entry's row and add there."""
        bits, last = self.made.code_bits, static(sums.shape[0]) - 1
        table = self.constant("values", self.table(), INT8 if self.type is INT32 else FLOAT32)
        wide = self.made.entries.dtype == np.uint16
        packed = self.constant("entries", self.made.entries, UINT16 if wide else UINT8)
        entry, at = Var("entry", None, INT32), Var("at", None, INT32)
        row = (at + Binary("shr", entry, Const(bits, INT32)) + Const(1, INT32)) & Const(last, INT32)
        code = cast(entry & Const((1 << bits) - 1, INT32), INDEX)
        value = cast(Load(table, (code,)), self.type)
        index = Load(sums, (Var("row"),))
        a = Var("active", None, self.type)
        total = Var("sum", None, self.type)
        add = Madd("sum", a, value) if self.type.is_float else Assign("sum", total + a * value)
        return [
            Let("entry", cast(Load(packed, (e,)), INT32)),
            Let("row", cast(row, INDEX)),
            Assign("at", cast(Var("row"), INT32)),
            Let("sum", index, 1, mutable=True),
            add,
            Store(index, total),
        ]

    def table(self) -> Array:
        """The values by their codes: as many as there are codes."""
        out = np.zeros(1 << self.made.code_bits, self.matrix.values.dtype)
        out[: len(self.matrix.values)] = self.matrix.values
        return out

    def store(self, row: Var, sums: Tensor) -> Statement:
        """What becomes of the sums."""
        c = self.c
        made = Load(sums, (row,))
        start = made if c.init == self.zero else Binary("add", c.init, made)
        moved = {c.vector.name: row}
        to, value = (simplify(substitute(e, moved), c.bounds) for e in (c.to, c.value))
        assert isinstance(to, Load)
        body = Store(to, substitute(value, {"acc": start}))
        return For("row", Const(0), Const(c.channels), 1, (body,))


def _counting(most: int) -> DType:
    return UINT16 if most < 1 << 16 else INT32
