"""Products with weights of few bits in blocks, each with a scale: unpacked where they are multiplied.

    for each block of 32 terms:                          a tile of one point by two registers, 4 bits
        c0 = c1 = 0
        for each word of the block:
            w0, w1 = words[..]                           eight terms of every lane
            c0 += x[k] * (w0 << 28 >> 28), c1 += ..
            c0 += x[k + 1] * (w0 << 24 >> 28), ..
        t0 += c0 * scales[..], t1 += ..
    y[..] = value(t0), ..

A matrix by a vector is as fast as memory gives the weights, so that these are read once, in the order they
lie; each is unpacked for all points of a tile. Where the target looks up sixteen floats in a register, that
is how four bits become a float. Where it multiplies bytes, and `is_rounded` allows it, x becomes integers of
three bytes first, for all channels (`block_floating_point`, `digit_tile`). In: a stage. Out: statements, or
None.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

from ingot.formula.compute import Compute, Reduction
from ingot.formula.expr import (
    Binary,
    Cast,
    Const,
    Entry,
    Expr,
    Load,
    Tensor,
    Var,
    cast,
    static,
    substitute,
    transform,
)
from ingot.formula.index import Bounds, as_expr, from_linear, interval, linear, mentions, simplify
from ingot.formula.statements import For, Let, Madd, Prefetch, Remark, Statement
from ingot.formula.types import FLOAT32, INT32
from ingot.loops.cuts import pieces
from ingot.loops.kernels.contraction.block_floating_point import DIGITS, BlockFloats, block_floats
from ingot.loops.kernels.contraction.digit_tile import DigitTile, Dot, dot_of
from ingot.loops.kernels.contraction.epilogue import Epilogue, points_of
from ingot.loops.kernels.contraction.tiles import AHEAD, LINE, Segment, segments
from ingot.loops.kernels.contraction.weight_blocks import GROUP, WORD, WeightBlocks, weight_blocks
from ingot.loops.layout import Storage, bind, destination
from ingot.loops.nearby import placer
from ingot.targets.record import Target

MOST_POINTS, MOST_VECTORS = 4, 8
LOOKED_UP = 16  # floats in a register, of which four bits pick one
LOOK_UP, UNPACKING = 2, 3  # instructions that make a register of floats of codes


@dataclass(frozen=True, slots=True)
class BlockProduct:
    """A matched stage: to = value(init + sum of a * weight), loads bound to physical tensors. The axes
    `points` move `a` alone, innermost last.
    """

    a: Load
    weights: WeightBlocks
    to: Load
    value: Expr
    init: Expr
    points: tuple[Var, ...]
    bounds: Bounds


def block_product(
    c: Compute, storage: Storage, target: Target, bounds: Bounds, is_rounded: bool = False
) -> tuple[Statement, ...] | None:
    """Statements for a product with weights in blocks, or None if the stage is not one. `is_rounded`: the
    other operand may be rounded to integers of one exponent in every block.
    """
    found = _match(c, storage, bounds)
    return None if found is None else tuple(_Loops(found, storage, target, is_rounded).statements())


def _match(c: Compute, storage: Storage, bounds: Bounds) -> BlockProduct | None:
    """Recognise a sum of products of an element and an unpacked weight."""
    r = c.reduction
    if r is None or not r.axes or r.combine != "sum" or c.out.type is not FLOAT32:
        return None
    if not all(isinstance(x.extent, int) and x.extent for x in (*c.axes, *r.axes)):
        return None
    r, term = _joined(r)
    inner = {**bounds, **{x.name: interval(x) for x in (*c.axes, term)}}
    match bind(r.term, storage, inner):
        case Binary("mul", Load() as a, weight) if a.tensor.value is None:
            pass
        case _:
            return None
    moved = [x for x in c.axes if mentions(weight, x.name)]
    if len(moved) != 1 or mentions(a, moved[0].name) or a.dtype is not FLOAT32:
        return None
    (channel,) = moved
    weights = weight_blocks(weight, channel, term)
    if weights is None or mentions(r.init, channel.name):
        return None
    to = destination(c, storage, inner)
    points = tuple(x for x in c.axes if x is not channel)
    value, init = bind(c.value, storage, inner), bind(r.init, storage, inner)
    return BlockProduct(a, weights, to, value, init, points, inner)


def _joined(r: Reduction) -> tuple[Reduction, Var]:
    """The reduction over one axis, where what is read through a view had it split."""
    if len(r.axes) == 1:
        return r, r.axes[0]
    every = Var("term", prod(static(k.extent) for k in r.axes))
    at, steps = dict[str, Expr](), dict[Expr | None, int]()
    left, size = as_expr(every), 1
    for k in reversed(r.axes):
        n = static(k.extent)
        at[k.name], steps[k] = left if k is r.axes[0] else left % n, size
        left, size = left // n, size * n

    def whole(node: Expr) -> Expr | None:
        """Where the axes are added up to what they were before the split."""
        form = linear(node) if isinstance(node, Binary) and node.op == "add" else {}
        each = form.get(r.axes[-1], 0)
        if not each or any(form.get(k, 0) != each * step for k, step in steps.items()):
            return None
        rest = from_linear({atom: c for atom, c in form.items() if atom not in steps})
        return every * each + transform(rest, whole)

    bounds = {every.name: interval(every)}
    term = substitute(transform(r.term, whole), at)
    return replace(r, axes=(every,), term=simplify(term, bounds)), every


class _Loops:
    """Builds the loops around tiles of points by registers of channels."""

    def __init__(self, p: BlockProduct, storage: Storage, target: Target, is_rounded: bool) -> None:
        self.p, self.w, self.storage, self.target = p, p.weights, storage, target
        self.lanes = target.lanes(FLOAT32.bytes)
        self.is_looked_up = (
            (self.w.bits, self.w.zero) == (4, None)
            and self.lanes == LOOKED_UP
            and target.spelling(f"pick{LOOKED_UP}", "float32") is not None
        )
        inner = static(p.points[-1].extent) if p.points else 1
        self.rows = min(inner, MOST_POINTS)
        self.dot = self._dot() if is_rounded else None
        self.floats = self._floats() if self.dot is not None else None
        self.segments = segments(static(self.w.channel.extent), self.lanes, self._vectors())

    def _dot(self) -> Dot | None:
        """What multiplies digits by codes, if it pays: floats of four registers take as many multiply-adds
        for each row, and more to unpack. Zero points that are floats leave no integers to multiply.
        """
        found = dot_of(self.target, self.w.bits)
        if found is None or (self.w.zero is not None and self.w.zero.dtype.is_float):
            return None
        by_floats = GROUP * (self.rows + (LOOK_UP if self.is_looked_up else UNPACKING))
        return found if DIGITS * found.instructions * self.rows + UNPACKING / 2 < by_floats else None

    def _floats(self) -> BlockFloats | None:
        """The operand as digits."""
        p, w = self.p, self.w
        return block_floats(p.a, p.points, w.term, w.block, self.lanes, p.bounds, self.storage)

    def _vectors(self) -> int:
        """Registers of a tile: each holds sums of a block, or of its digits, and of all, beside a word and
        what it becomes. As many as divide the channels, if that leaves most of them.
        """
        each = 2 * self.rows + 2 if self.floats is None else (DIGITS + 1) * self.rows
        most = max(1, min(MOST_VECTORS, (self.target.registers - 2) // each))
        count = -(-static(self.w.channel.extent) // self.lanes)
        return next((v for v in range(most, most // 2, -1) if count % v == 0), most)

    def statements(self) -> Iterator[Statement]:
        w = self.w
        shape = f"{static(w.channel.extent)}x{w.terms}"
        yield Remark(f"weights: {shape} of {w.bits} bits, a scale for {w.block}")
        if self.floats is not None:
            yield from self.floats.statements()
        for s in self.segments:
            s = replace(s, widths=(self.lanes,) * len(s.widths))
            body = tuple(self._points(s, self.p.points, {}))
            yield For(w.channel.name, Const(s.first), Const(s.end), s.size, body)

    def _points(self, s: Segment, axes: tuple[Var, ...], sizes: dict[str, int]) -> Iterator[Statement]:
        """Loops over the points; the last axis in tiles."""
        if not axes:
            yield from _Tile(self, s, sizes).statements()
            return
        x, *inner = axes
        for lo, hi, part in pieces(static(x.extent), 1 if inner else self.rows):
            body = tuple(self._points(s, tuple(inner), {x.name: part}))
            yield For(x.name, Const(lo), Const(hi), part, body)


class _Tile:
    """The statements of one tile."""

    def __init__(self, loops: _Loops, s: Segment, sizes: dict[str, int]) -> None:
        self.loops, self.p, self.w, self.s, self.lanes = loops, loops.p, loops.w, s, loops.lanes
        names = list(sizes)
        self.points = list(points_of(self.p.points[-1:], sizes))
        at = placer(self.p.a, names, self.p.bounds)
        self.reads = [at(point) for point in self.points]
        self.epilogue = Epilogue(self.p.to, self.p.value, self.w.channel, names, self.p.bounds, loops.storage)
        self.block: Expr = self.w.channel // s.size if s.blocks > 1 else Const(0)

    def statements(self) -> Iterator[Statement]:
        count = range(len(self.s.widths))
        for i in range(len(self.points)):
            for j in count:
                yield Let(f"t{i}_{j}", self.p.init, self.lanes, mutable=True)
        yield from self._by_digits() if self.loops.floats is not None else self._by_floats()
        for j in count:
            sums = [Var(f"t{i}_{j}", None, FLOAT32) for i in range(len(self.points))]
            yield from self.epilogue.stores(self.s, j, self.points, sums)

    def _by_digits(self) -> Iterator[Statement]:
        """The sums of integers."""
        loops = self.loops
        assert loops.floats is not None and loops.dot is not None
        shifts = tuple(self.points)
        return DigitTile(
            loops.floats, self.w, loops.dot, self.s, loops.storage, self.lanes, shifts, self.block
        ).statements()

    def _by_floats(self) -> Iterator[Statement]:
        """The sums of floats: whole blocks, then what is left of the last one."""
        self.words = self.w.packed(self.s, self.loops.storage)
        self.scales = self.w.scales(self.s, self.loops.storage)
        self.zeros = None if self.w.zero is None else self.w.zeros(self.s, self.loops.storage)
        whole, rest = divmod(self.w.terms, self.w.block)
        n = Var("block", whole)
        if whole:
            yield For(n.name, Const(0), Const(whole), 1, tuple(self._block(n, self.w.block, "")))
        if rest:
            yield from self._block(Const(whole), rest, "_rest")

    def _block(self, n: Expr, terms: int, tag: str) -> Iterator[Statement]:
        """The terms of one block, whose sums are scaled at its end."""
        count, per = range(len(self.s.widths)), self.w.per_word
        for i in range(len(self.points)):
            for j in count:
                yield Let(f"c{i}_{j}{tag}", Const(0.0, FLOAT32), self.lanes, mutable=True)
        if self.zeros is not None:
            for j in count:
                yield Let(f"z{j}{tag}", self._zero(self._at(self.zeros, n, j)), self.lanes)
        whole, rest = divmod(terms, per)
        first, word = simplify(n * (self.w.block // per)), Var("word", whole)
        if whole:
            yield For(word.name, Const(0), Const(whole), 1, tuple(self._word(first + word, per, tag, tag)))
        if rest:
            yield from self._word(first + whole, rest, tag, f"{tag}_part")
        for j in count:
            yield Let(f"s{j}{tag}", self._at(self.scales, n, j), self.lanes)
            for i in range(len(self.points)):
                c, scale = (Var(name, None, FLOAT32) for name in (f"c{i}_{j}{tag}", f"s{j}{tag}"))
                yield Madd(f"t{i}_{j}", c, scale, self.lanes)

    def _zero(self, zero: Load) -> Expr:
        return zero if zero.tensor.type.is_float else cast(zero, INT32)

    def _at(self, t: Tensor, n: Expr, j: int) -> Load:
        return Load(t, (self.block, simplify(n), Const(j * self.lanes)), lanes=self.lanes)

    def _word(self, word: Expr, terms: int, sums: str, tag: str) -> Iterator[Statement]:
        """The terms of one word of every lane: each is unpacked once for all points."""
        count = range(len(self.s.widths))
        for j in count:
            yield Let(f"w{j}{tag}", self._at(self.words, word, j), self.lanes)
        line = LINE // INT32.bytes
        for lane in range(0, self.s.size, line):
            yield Prefetch(Load(self.words, (self.block, simplify(word), Const(lane))), AHEAD)
        for u in range(terms):
            place = {self.w.term.name: word * self.w.per_word + u}
            for i, read in enumerate(self.reads):
                yield Let(f"a{i}_{u}{tag}", simplify(substitute(read, place), self.p.bounds))
            for j in count:
                yield Let(f"q{j}_{u}{tag}", self._unpacked(j, u, sums, tag), self.lanes)
                for i in range(len(self.points)):
                    a, q = (Var(name, None, FLOAT32) for name in (f"a{i}_{u}{tag}", f"q{j}_{u}{tag}"))
                    yield Madd(f"c{i}_{j}{sums}", a, q, self.lanes)

    def _unpacked(self, j: int, u: int, sums: str, tag: str) -> Expr:
        """Weight u of a word, less its zero point, as a float."""
        bits, word = self.w.bits, Var(f"w{j}{tag}", None, INT32)
        if self.zeros is None:
            if self.loops.is_looked_up:
                half = LOOKED_UP // 2
                table = tuple(float(v) for v in (*range(half), *range(-half, 0)))
                return Entry(table, _shifted(word, u * bits), FLOAT32)
            left = WORD - bits - u * bits
            up = Binary("shl", word, Const(left, INT32)) if left else word
            return Cast(Binary("shr", up, Const(WORD - bits, INT32)), FLOAT32)
        q = _shifted(word, u * bits) & Const((1 << bits) - 1, INT32)
        zero = Var(f"z{j}{sums}", None, FLOAT32 if self.zeros.type.is_float else INT32)
        return Cast(q, FLOAT32) - zero if zero.dtype.is_float else Cast(q - zero, FLOAT32)


def _shifted(word: Expr, bits: int) -> Expr:
    return Binary("shr", word, Const(bits, INT32)) if bits else word
