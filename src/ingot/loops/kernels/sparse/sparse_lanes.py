"""Sparse lanes: products with a constant matrix of few values, most of them zero.

    acc[r] += value[code[s, r]] * x[start[s] + pick[s, r]]        for all rows r of a block at once

Rows stand in the lanes of the accumulators. A step loads a window of the operand into registers and picks
from it, for every lane, what its next entries multiply; codes pick the weights from a register too. When
which entry is served is settled at compile time (`schedule`). Floats are added one entry a lane; bytes four,
by the target's dot product, the operand's zero point taken out of the sums behind the steps. What is not an
entry is not multiplied, so no NaN passes a pruned connection.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from ingot.formula.compute import Compute
from ingot.formula.evaluate import grid_over
from ingot.formula.evaluate import value as evaluate
from ingot.formula.expr import (
    Array,
    Binary,
    Const,
    Expr,
    Lane,
    Load,
    Pick,
    Tensor,
    Var,
    cast,
    static,
    substitute,
)
from ingot.formula.extents import extent
from ingot.formula.index import (
    Bounds,
    coefficient,
    from_linear,
    linear,
    mentions,
    product,
    simplify,
)
from ingot.formula.statements import Assign, For, Instruction, Let, Madd, Prefetch, Remark, Statement, Store
from ingot.formula.types import FLOAT32, INDEX, INT8, INT32, UINT8, DType
from ingot.loops.access import NotVectorizable, known_strides, step, vectorize
from ingot.loops.axes import normal_axes
from ingot.loops.cuts import parts
from ingot.loops.kernels.contraction.byte_product import byte_product
from ingot.loops.kernels.contraction.products import SIGN
from ingot.loops.kernels.contraction.roles import Contraction, match, merge_terms
from ingot.loops.kernels.naive import nested
from ingot.loops.kernels.sparse.schedule import Schedule, schedule
from ingot.loops.kernels.sparse.ways import FEW, GROUP, MANY, Way, most_values, way_of
from ingot.loops.layout import Storage
from ingot.targets.record import Target

AHEAD = 4096  # bytes by which steps are asked for


@dataclass(frozen=True, slots=True, eq=False)
class Matrix:
    """The constant as a matrix: which element of `a` each column multiplies, and which value each code is.

    `places` are element offsets within what `a` reads of a point, from the first on; ascending.
    """

    codes: Array
    places: Array
    values: Array

    @property
    def density(self) -> float:
        return float(np.count_nonzero(self.codes)) / max(self.codes.size, 1)


def sparse_lanes(
    c: Compute, storage: Storage, target: Target, bounds: Bounds
) -> tuple[Statement, ...] | None:
    """Statements for a product with an encoded matrix, or None: it is none, or the target has no way."""
    found, zero = encoded_product(c, storage, bounds)
    if found is None:
        return None
    way = way_of(found, target)
    if way is None or _span(found) < way.form.window:
        return None
    if not is_row(found) and found.a.tensor in storage.fixed:
        return None
    matrix = matrix_of(found, most_values(found, target))
    if matrix is None:
        return None
    try:
        return _Generator(found, zero, way, matrix, storage).statements()
    except NotVectorizable:
        return None


def encoded_product(c: Compute, storage: Storage, bounds: Bounds) -> tuple[Contraction | None, Expr]:
    """A contraction whose constant operand is encoded and whose other one lies in memory as one array; and
    what is subtracted from each element of that one.
    """
    r = c.reduction
    if r is None or r.term.dtype.is_float:
        return encoded(None if r is None else match(normal_axes(c), storage, bounds), storage), Const(
            0.0, FLOAT32
        )
    found = byte_product(c, storage, bounds)
    if found is None or found.shift:
        return None, Const(0, INT32)
    return encoded(found.c, storage), found.zero


def encoded(found: Contraction | None, storage: Storage) -> Contraction | None:
    """The contraction, if it is one with an encoded constant and an operand in one array."""
    if found is None or found.b.tensor.value is None or found.b.tensor.codebook is None:
        return None
    if found.around or any(step(found.b, x.name) != 0 for x in found.outer):
        return None
    if found.a.tensor.pitch is not None:
        return None
    moving = (*found.tile, *found.outer, *found.reduce)
    if None in known_strides(found.a.tensor) or any(step(found.a, x.name) is None for x in moving):
        return None
    return merge_terms(found, storage)


def is_row(c: Contraction) -> bool:
    """Whether what a point reads are neighbours along the last axis of the operand."""
    a, k = c.a, c.reduce[0].name
    alone = len(c.reduce) == 1 and coefficient(a.index[-1], k) == 1
    return alone and not any(mentions(i, k) for i in a.index[:-1])


def _span(c: Contraction) -> int:
    """Elements of `a` from the first to the last that one point reads."""
    return 1 + sum(abs(step(c.a, k.name) or 0) * (static(k.extent) - 1) for k in c.reduce)


def matrix_of(c: Contraction, most: int) -> Matrix | None:
    """The constant's codes by rows and columns; None where it has more than so many values."""
    assert c.b.tensor.codebook is not None
    extents = tuple(static(k.extent) for k in c.reduce)
    names = [c.vector.name, *(k.name for k in c.reduce)]
    grid = grid_over(names, (c.channels, *extents))
    moves = [(step(c.a, k.name) or 0) * grid[k.name] for k in c.reduce]
    places = np.broadcast_to(sum(moves[1:], moves[0]), (1, *extents)).reshape(-1)
    order = np.argsort(places, kind="stable")
    elements = np.broadcast_to(evaluate(c.b, {}, grid), (c.channels, *extents)).reshape(c.channels, -1)
    values = np.unique(c.b.tensor.codebook)
    values = np.concatenate([np.zeros(1, values.dtype), values[values != 0]])
    if len(values) > most or np.isnan(values).any():
        return None
    codes = np.zeros(elements.shape, np.uint8)
    for code, v in enumerate(values[1:], 1):
        codes[elements == v] = code
    return Matrix(np.ascontiguousarray(codes[:, order]), (places - places.min())[order], values)


@dataclass(slots=True)
class _Generator:
    """Builds the loops of one product."""

    c: Contraction
    subtracted: Expr
    way: Way
    matrix: Matrix
    storage: Storage
    made: Schedule = field(init=False)

    def __post_init__(self) -> None:
        self.made = schedule(self.matrix.codes, self.matrix.places, self.way.form)
        if self.is_signed:
            self.subtracted = self.subtracted + Const(SIGN, INT32)

    @property
    def is_signed(self) -> bool:
        """Whether bytes are int8: made uint8, as the dot product takes them, as they are loaded."""
        return self.c.a.tensor.type is INT8

    @property
    def is_bytes(self) -> bool:
        return bool(self.way.dot)

    def statements(self) -> tuple[Statement, ...]:
        """All whole blocks of rows, then what is left of the last."""
        c, rows = self.c, self.way.form.rows
        whole, rest = divmod(c.channels, rows)
        out: list[Statement] = [self.remark()]
        if whole:
            block = Var("block", whole)
            out.append(For("block", Const(0), Const(whole), 1, self.points(block, rows)))
        if rest:
            out += self.points(Const(whole), rest)
        return tuple(out)

    def remark(self) -> Remark:
        form, kept = self.way.form, self.matrix.density
        slots = self.made.steps * form.rows * form.slots
        held = slots * 3 // 2 if self.is_bytes and self.size == FEW else slots * 2
        size = f"{held:,} bytes, {slots / max(self.entries, 1):.2f}"
        shape = f"{kept:.1%} of {self.c.channels}x{self.c.terms}"
        how = f"{form.rows} rows in lanes, {form.window} columns in sight"
        return Remark(f"{self.c.b.tensor.name}: {shape}, {how}; {size} slots an entry")

    @property
    def size(self) -> int:
        """Values in the table."""
        return FEW if len(self.matrix.values) <= FEW else MANY

    @property
    def entries(self) -> int:
        return int(np.count_nonzero(self.matrix.codes))

    # -- what the loops read

    def constant(self, what: str, array: Array, dtype: DType) -> Tensor:
        """A table made of the weights; `Storage` keeps those apart that are made differently."""
        how = (what, self.way, self.c.b.index, tuple(k.name for k in self.c.reduce), self.c.channels)
        return self.storage.derived(self.c.b.tensor, how, lambda _: array.astype(dtype.numpy), dtype, what)

    def table(self) -> Iterator[Statement]:
        """The values, in one register, or two where one holds less."""
        dtype, lanes = (INT8, FEW) if self.is_bytes else (FLOAT32, min(self.way.part, FEW))
        values = np.zeros(self.size, dtype.numpy)
        values[: len(self.matrix.values)] = self.matrix.values
        held = self.constant("values", values, dtype)
        for k in range(self.size // lanes):
            yield Let(f"values{k}", Load(held, (Const(k * lanes),), lanes=lanes), lanes)

    def weights(self, code: Expr) -> Pick:
        dtype, lanes = (INT8, FEW) if self.is_bytes else (FLOAT32, min(self.way.part, FEW))
        count = self.size // lanes
        return Pick(tuple(Var(f"values{k}", None, dtype) for k in range(count)), code)

    # -- the loops

    def points(self, block: Expr, rows: int) -> tuple[Statement, ...]:
        """Around the steps of a block of rows go the points that it serves."""
        body = tuple(self.one(block, rows))
        return (*self.table(), *nested((*self.c.outer, *self.c.tile), body))

    def one(self, block: Expr, rows: int) -> Iterator[Statement]:
        """One point: sums of a block of rows."""
        lanes, sums = self.way.form.rows, self.sums
        zero = Const(0, INT32) if self.is_bytes else Const(0.0, FLOAT32)
        for k in range(sums):
            yield Let(f"c{k}", self.c.init if k == 0 else zero, lanes, mutable=True)
        first = self.constant("first", self.made.first, INT32)
        lo, hi = (cast(Load(first, (simplify(i),)), INDEX) for i in (block, block + 1))
        yield For("step", lo, hi, 1, tuple(self.step(Var("step"))))
        for k in range(1, sums):
            yield Assign("c0", Binary("add", self.sum(0), self.sum(k)), lanes)
        yield from self.stores(block, rows)

    @property
    def sums(self) -> int:
        """Accumulators: one for each vector of a step."""
        return 2

    def sum(self, k: int) -> Var:
        return Var(f"c{k}", None, INT32 if self.is_bytes else FLOAT32)

    def step(self, s: Var) -> Iterator[Statement]:
        """The window's registers, then the entries."""
        starts = self.constant("starts", self.made.starts, INT32)
        yield Let("start", cast(Load(starts, (s,)), INDEX))
        x = self.window(Var("start"))
        for k in range(2):
            last = simplify(x.index[-1] + k * self.way.part)
            at = replace(x, index=(*x.index[:-1], last), lanes=self.way.part)
            x_k = cast(at ^ Const(-SIGN, INT8), UINT8) if self.is_signed else at
            yield Let(f"x{k}", x_k, self.way.part)
        yield from self.bytes_step(s) if self.is_bytes else self.float_step(s)

    def window(self, start: Expr) -> Load:
        """The operand from an element of what the point reads on: along its row, or as one array."""
        a = self.c.a
        if is_row(self.c):
            return substitute(a, {self.c.reduce[0].name: start})
        at: Expr = Const(0)
        zero = {k.name: Const(0) for k in self.c.reduce}
        for i, size in zip(a.index, known_strides(a.tensor), strict=True):
            at = at + substitute(i, zero) * (size or 0)
        back = sum(min(step(a, k.name) or 0, 0) * (static(k.extent) - 1) for k in self.c.reduce)
        count = extent(product(a.tensor.shape))
        flat = self.storage.view(a.tensor, (count,), (count,))
        return Load(flat, (from_linear(linear(simplify(at + start + back, self.c.bounds))),))

    def picked(self, index: Expr) -> Pick:
        dtype = UINT8 if self.is_bytes else FLOAT32
        return Pick((Var("x0", None, dtype), Var("x1", None, dtype)), index)

    def float_step(self, s: Var) -> Iterator[Statement]:
        rows = self.way.form.rows
        picks = self.constant("picks", self.made.picks, UINT8)
        codes = self.constant("codes", self.made.codes, UINT8)
        yield from self.ahead(s, picks, codes)
        for k in range(self.way.form.slots):
            at = (s, Const(k), Const(0))
            for name, t in ((f"p{k}", picks), (f"q{k}", codes)):
                yield Let(name, cast(Load(t, at, lanes=rows), INT32), rows)
            p, q = Var(f"p{k}", None, INT32), Var(f"q{k}", None, INT32)
            yield Madd(f"c{k % self.sums}", self.picked(p), self.weights(q), rows)

    def bytes_step(self, s: Var) -> Iterator[Statement]:
        """Of few values the codes of the first vector are the low halves of bytes, those of the second the
        high ones.
        """
        rows, width = self.way.form.rows, GROUP * self.way.form.rows
        picks = self.constant("picks", _by_lanes(self.made.picks), UINT8)
        low, high = np.moveaxis(_by_lanes(self.made.codes), 1, 0)
        halves = [low | high << 4] if self.size == FEW else [low, high]
        codes = self.constant("codes", np.stack(halves, 1), UINT8)
        yield from self.ahead(s, picks, codes)
        for k in range(len(halves)):
            yield Let(f"q{k}", Load(codes, (s, Const(k), Const(0)), lanes=width), width)
        q, q1 = Var("q0", None, UINT8), Var("q1", None, UINT8)
        both = (q & Const(15, UINT8), Binary("shr", q, Const(4, UINT8))) if self.size == FEW else (q, q1)
        for k, code in enumerate(both):
            yield Let(f"p{k}", Load(picks, (s, Const(k), Const(0)), lanes=width), width)
            a, b = self.picked(Var(f"p{k}", None, UINT8)), self.weights(code)
            yield Instruction(self.way.dot, f"c{k}", a, b, rows)

    def ahead(self, s: Var, picks: Tensor, codes: Tensor) -> Iterator[Statement]:
        """Ask for later steps, a line at a time."""
        for t in (picks, codes):
            size = t.bytes // max(self.made.steps, 1)
            rest = (Const(0),) * (t.rank - 1)
            for line in range(0, size, 64):
                yield Prefetch(Load(t, (s, *rest)), AHEAD * size // 64 // 4 * 4 + line)

    # -- the results

    def stores(self, block: Expr, rows: int) -> Iterator[Statement]:
        """The epilogue, and stores of as many rows as there are."""
        c, lanes, first = self.c, self.way.form.rows, 0
        for width in (lanes,) if rows == lanes else parts(rows, lanes):
            row = simplify(block * lanes + first)
            moved = {c.vector.name: c.vector + row}
            to, value = (simplify(substitute(e, moved), c.bounds) for e in (c.to, self.value()))
            if width > 1:
                vectorize(to, c.vector.name, width)
                value = vectorize(value, c.vector.name, width)
            zero = {c.vector.name: Const(0)}
            at, value = (simplify(substitute(e, zero), c.bounds) for e in (to, value))
            assert isinstance(at, Load)
            acc: Expr = self.sum(0) if width == lanes else Lane(self.sum(0), first, width)
            yield Store(at, substitute(value, {"acc": acc}), width)
            first += width

    def value(self) -> Expr:
        """The epilogue of sums of the operand's elements as they are."""
        if self.subtracted in (Const(0, INT32), Const(0.0, FLOAT32)):
            return self.c.value
        weights = self.matrix.values.astype(np.int32)[self.matrix.codes].sum(1, dtype=np.int32)
        total = Load(self.constant("totals", weights, INT32), (self.c.vector,))
        acc = Var("acc", None, INT32)
        return substitute(self.c.value, {"acc": acc - self.subtracted * total})


def _by_lanes(array: Array) -> Array:
    """[step, slot, row] -> [step, vector, row and slot]: four entries of a row beside each other."""
    steps, slots, rows = array.shape
    grouped = array.reshape(steps, slots // GROUP, GROUP, rows)
    return np.ascontiguousarray(grouped.transpose(0, 1, 3, 2)).reshape(steps, slots // GROUP, rows * GROUP)
