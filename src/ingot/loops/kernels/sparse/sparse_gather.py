"""Sparse gathers: products of bytes with a sparse constant matrix, sixteen entries of a row at a time.

    sum[r] += x[start[g] + offset[g, 0..15]] * weight[g, 0..15]        for the groups g of row r

A group is up to sixteen entries of a row that lie within a window of columns: where the window starts, how
far behind that each stands, and their weights. The target gathers the elements of the operand from memory
and adds all products to a number (`dot16`). Slots without an entry have weight 0. Weights are stored as
bytes, not as codes: looking a code up would be one more gather, which takes as long as several other
instructions.

The zero point is taken out of each sum, as in `int_dot`. In: a product of bytes with an encoded matrix. Out:
statements, or None.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ingot.formula.compute import Compute
from ingot.formula.expr import Array, Binary, Const, Expr, Load, Pick, Tensor, Var, cast, substitute
from ingot.formula.index import Bounds
from ingot.formula.statements import For, Instruction, Let, Remark, Statement, Store
from ingot.formula.types import INDEX, INT8, INT32, UINT8, UINT16, DType
from ingot.loops.kernels.contraction.int_dot import LONG
from ingot.loops.kernels.contraction.products import SIGN
from ingot.loops.kernels.contraction.roles import Contraction
from ingot.loops.kernels.naive import nested
from ingot.loops.kernels.sparse.csc import MOST_VALUES
from ingot.loops.kernels.sparse.sparse_lanes import Matrix, encoded_product, is_row, matrix_of
from ingot.loops.layout import Storage
from ingot.targets.record import Target

WINDOW = 256  # columns that an offset of a byte tells apart
WORTH = 0.3  # the density up to which eight instructions a group are fewer than `int_dot` has for all terms


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """Those of row r are number first[r] to first[r + 1]; `offsets` and `weights` have sixteen of each."""

    first: Array
    starts: Array
    offsets: Array
    weights: Array

    @property
    def bytes(self) -> int:
        return self.first.size * 2 + self.starts.size * 2 + self.offsets.size + self.weights.size


def groups_of(weights: Array, window: int) -> Groups:
    """The entries of int8 [rows, columns], of which a group sees so many columns."""
    starts, offsets, held, first = [], [], [], [0]
    for row in weights:
        columns = np.flatnonzero(row)
        while columns.size:
            start = min(int(columns[0]), weights.shape[1] - window)
            seen = columns[:LONG][columns[:LONG] < start + window]
            rest = LONG - seen.size
            starts.append(start)
            offsets.append(np.pad(seen - start, (0, rest)))
            held.append(np.pad(row[seen], (0, rest)))
            columns = columns[seen.size :]
        first.append(len(starts))
    shape = (len(starts), LONG)
    made = (np.array(v, t).reshape(shape) for v, t in ((offsets, np.uint8), (held, np.int8)))
    return Groups(np.array(first), np.array(starts, np.int64), *made)


def sparse_gather(
    c: Compute, storage: Storage, target: Target, bounds: Bounds
) -> tuple[Statement, ...] | None:
    """Statements for a product of bytes with an encoded matrix, or None: it is none, too few of its elements
    are zero, or the target does not gather.
    """
    if not all(target.spelling(op, "int8", LONG) for op in ("gather", "dot16")):
        return None
    found, zero = encoded_product(c, storage, bounds)
    if found is None or found.b.tensor.type is not INT8 or not is_row(found) or found.terms < LONG:
        return None
    matrix = matrix_of(found, MOST_VALUES)
    if matrix is None or matrix.density > WORTH or not matrix.codes.any():
        return None
    return _Generator(found, zero, matrix, storage).statements()


class _Generator:
    """Builds the loops of one product."""

    def __init__(self, c: Contraction, zero: Expr, matrix: Matrix, storage: Storage) -> None:
        self.c, self.matrix, self.storage = c, matrix, storage
        self.sign = SIGN if c.a.tensor.type is UINT8 else 0
        self.zero = zero - Const(self.sign, INT32) if self.sign else zero
        self.weights = matrix.values[matrix.codes]
        self.window = min(WINDOW, 1 << (c.terms.bit_length() - 1))
        self.made = groups_of(self.weights, self.window)

    def statements(self) -> tuple[Statement, ...]:
        """Around the rows go the loops over the points."""
        row = self.c.vector
        rows = For(row.name, Const(0), Const(self.c.channels), 1, tuple(self.row(row)))
        return (self.remark(), *nested((*self.c.outer, *self.c.tile), (rows,)))

    def remark(self) -> Remark:
        shape = f"{self.matrix.density:.1%} of {self.c.channels}x{self.c.terms}"
        how = f"{LONG} entries of a row at once"
        return Remark(f"{self.c.b.tensor.name}: {shape}, {how}; {self.made.bytes:,} bytes")

    def constant(self, what: str, array: Array, dtype: DType) -> Tensor:
        """A table made of the weights; `Storage` keeps those apart that are made differently."""
        how = (what, "sparse_gather", self.c.b.index, tuple(k.name for k in self.c.reduce), self.c.channels)
        return self.storage.derived(self.c.b.tensor, how, lambda _: array.astype(dtype.numpy), dtype, what)

    def row(self, row: Var) -> Iterator[Statement]:
        """The sum of one row, and what becomes of it."""
        first = self.constant("first", self.made.first, _counting(self.made.first[-1]))
        lo, hi = (cast(Load(first, (at,)), INDEX) for at in (row, row + 1))
        yield Let("sum", Const(0, INT32), mutable=True)
        yield For("group", lo, hi, 1, tuple(self.group(Var("group"))))
        total: Expr = Var("sum", None, INT32)
        if self.zero != Const(0, INT32):
            sums = self.constant("totals", self.weights.sum(1, dtype=np.int32), INT32)
            total = total - self.zero * Load(sums, (row,))
        if self.c.init != Const(0, INT32):
            total = self.c.init + total
        assert isinstance(self.c.to, Load)
        yield Store(self.c.to, substitute(self.c.value, {"acc": total}))

    def group(self, group: Var) -> Iterator[Statement]:
        """Sixteen products."""
        starts = self.constant("starts", self.made.starts, _counting(self.c.terms))
        offsets = self.constant("offsets", self.made.offsets, UINT8)
        weights = self.constant("weights", self.made.weights, INT8)
        yield Let("start", cast(Load(starts, (group,)), INDEX))
        seen = substitute(self.c.a, {self.c.reduce[0].name: Var("start")})
        window = Load(seen.tensor, seen.index, lanes=self.window)
        a: Expr = Pick((window,), Load(offsets, (group, Const(0)), lanes=LONG))
        if self.sign:
            a = cast(Binary("xor", a, Const(SIGN, UINT8)), INT8)
        yield Let("a", a, LONG)
        yield Let("b", Load(weights, (group, Const(0)), lanes=LONG), LONG)
        yield Instruction("dot16", "sum", Var("a", None, INT8), Var("b", None, INT8), 1)


def _counting(most: int) -> DType:
    return UINT16 if most < 1 << 16 else INT32
