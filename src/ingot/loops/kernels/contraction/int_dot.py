"""Integer dot products: sums of products of bytes on machines without vectors of floats.

    sums[p][c] = sum over k of a[p][k] * w[c][k]        for a few points p, a few channels c
    y[p][c]    = post(sums[p][c] - zero * total[c])     total[c] = sum over k of w[c][k]

Weights are constants whose zero point is subtracted when the bundle is made; the zero point of the operand
is taken out of each sum behind the loop, so that a term is one product of bytes. Where the target multiplies
sixteen bytes at once (`dot16`) or pairs of 16 bits (`dot2`), so many terms are loaded at once, or four that
are widened as their even and odd halves; elsewhere a tile of sums saves loads. In: a sum of products of
integers. Out: statements, or None.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from ingot.formula.compute import Compute
from ingot.formula.expr import (
    Array,
    Binary,
    Const,
    Expr,
    Load,
    Shuffle,
    Tensor,
    Var,
    cast,
    static,
    substitute,
)
from ingot.formula.index import Bounds, simplify
from ingot.formula.statements import Assign, Barrier, For, Instruction, Let, Statement, Store
from ingot.formula.types import INT8, INT16, INT32, UINT8
from ingot.loops.access import step
from ingot.loops.kernels.contraction.byte_eights import ByEights, is_by_eights
from ingot.loops.kernels.contraction.byte_product import Product, byte_product
from ingot.loops.kernels.contraction.dense_bytes import DenseBytes, is_dense
from ingot.loops.kernels.contraction.dot_loops import GROUP, HALVES, POINTS, DotLoops
from ingot.loops.kernels.contraction.long_bytes import LongBytes, is_long
from ingot.loops.kernels.contraction.paired_bytes import PairedBytes, made_bytes
from ingot.loops.kernels.contraction.paired_tiles import PairedTiles, is_paired
from ingot.loops.kernels.contraction.products import SIGN
from ingot.loops.kernels.contraction.roles import Contraction, merge_points, merge_terms
from ingot.loops.kernels.naive import nested
from ingot.loops.layout import Storage
from ingot.loops.sum_range import room
from ingot.targets.record import Target

LONG = 16  # terms that one load brings where all are multiplied at once
ALONE, TOGETHER = 4, 2  # channels of a tile that has one point, and of one that has two
WIDE, ROOMY = 4, 12  # channels of one that has two, of single products, and the registers that hold it


def int_dot(c: Compute, storage: Storage, target: Target, bounds: Bounds) -> tuple[Statement, ...] | None:
    """Statements for a sum of products of bytes, or None: it is none, or the target has vectors."""
    if target.lanes(4) > 1:
        return None
    found = byte_product(c, storage, bounds)
    if found is None or found.c.channels == 1:
        return None
    merged = merge_points(merge_terms(found.c, storage), storage)
    product, group = replace(found, c=merged), _group(merged, target)
    space = room(c)
    made = made_bytes(product) if space.results else None
    floats = None if made is None or made.is_fixed else made
    if made is not None and is_long(product, target):
        return LongBytes(product, storage, made, target).statements()
    if group == GROUP and is_paired(product, space, target):
        if made is None:
            return PairedTiles(product, storage).statements()
        return PairedBytes(product, storage, made, target).statements()
    if floats is not None and group == GROUP and is_dense(product, space, target):
        return DenseBytes(product, storage, floats, target).statements()
    if group == 1 and is_by_eights(product, target):
        own = made if space.scales or (made is not None and made.is_fixed) else None
        return ByEights(product, storage, own).statements()
    is_roomy = group == 1 and target.registers >= ROOMY and not target.accumulators
    return _Generator(product, storage, group, WIDE if is_roomy else TOGETHER).statements()


def _group(c: Contraction, target: Target) -> int:
    """How many terms are multiplied at once, or widened to be multiplied two at a time."""
    inner = c.reduce[-1]
    if step(c.a, inner.name) != 1:
        return 1
    if target.spelling("dot16", "int8", LONG) and static(inner.extent) >= LONG:
        return LONG
    return GROUP if target.spelling("dot2", "int16", GROUP) else 1


@dataclass(frozen=True, slots=True)
class _Segment:
    """`blocks` blocks of `size` channels from `first` on; `weights` as the loops read them."""

    first: int
    blocks: int
    size: int
    weights: Tensor


class _Generator(DotLoops):
    """Builds the loops of one product, `group` terms at a time, of two points `together` channels."""

    reads_in_order = False  # results never replace operands without routines

    def __init__(self, p: Product, storage: Storage, group: int, together: int) -> None:
        super().__init__(p, storage, group, SIGN if group == LONG and p.c.a.tensor.type is UINT8 else 0)
        size = ALONE if self.x is None else together
        cut = ((block * size, blocks, each) for block, blocks, each in self.in_blocks(size))
        self.segments = [_Segment(*s, self.packed(*s)) for s in cut]
        points = 1 if self.x is None else min(POINTS, static(self.x.extent))
        self.sums = storage.scratch(self.c.to.tensor, (points, self.c.channels), "sums", INT32)

    def packed(self, first: int, blocks: int, size: int) -> Tensor:
        """int8 [block, groups.., terms.., channel of the block, term of the load]."""

        def pack(array: Array) -> Array:
            w = self.grouped(self.weights(array)[first : first + blocks * size])
            w = w.reshape(blocks, size, *w.shape[1:-1], -1, self.group)
            return np.ascontiguousarray(np.moveaxis(w, 1, -2).astype(np.int8))

        return self.derived("bytes", (first, blocks, size), pack, INT8)

    def grouped(self, w: Array) -> Array:
        """Whole groups of terms. Of long ones the last ends with the last term; what was multiplied before is
        0 in it.
        """
        short = -w.shape[-1] % self.group
        last = w.shape[-1] // self.group * self.group if self.group == LONG else w.shape[-1]
        zeros = np.zeros((*w.shape[:-1], short), w.dtype)
        return np.concatenate([w[..., :last], zeros, w[..., last:]], axis=-1)

    def points(self, count: int) -> tuple[Statement, ...]:
        """Sums of all channels at a few points, then what becomes of them."""
        out: list[Statement] = []
        for s in self.segments:
            body = tuple(_Tile(self, s, count).statements())
            out.append(For("block", Const(0), Const(s.blocks), 1, body))
        point = Var("point", count)
        body = (For(self.c.vector.name, Const(0), Const(self.c.channels), 1, (self.store(point),)),)
        return (*out, For("point", Const(0), Const(count), 1, body))

    def store(self, point: Var) -> Statement:
        """The result of one channel at one point."""
        total = self.corrected(Load(self.sums, (point, self.c.vector)), point)
        return self.stored(total, point)


class _Tile:
    """The statements of one tile of sums: `count` points by the channels of a block."""

    def __init__(self, g: _Generator, segment: _Segment, count: int) -> None:
        self.g, self.c, self.segment, self.count = g, g.c, segment, count

    def statements(self) -> Iterator[Statement]:
        pairs = [(p, r) for p in range(self.count) for r in range(self.segment.size)]
        for p, r in pairs:
            yield Let(f"c{p}_{r}", Const(0, INT32), mutable=True)
        yield from self.loops()
        for p, r in pairs:
            channel = Var("block") * self.segment.size + (self.segment.first + r)
            yield Store(Load(self.g.sums, (Const(p), channel)), Var(f"c{p}_{r}", None, INT32))

    def loops(self) -> Iterator[Statement]:
        """Whole groups of terms along the innermost axis, then the terms that are left."""
        *outer, inner = self.c.reduce
        whole, rest = divmod(static(inner.extent), self.g.group)
        term = Var("term", whole)
        body: list[Statement] = []
        if whole:
            body.append(For("term", Const(0), Const(whole), 1, tuple(self.terms(term))))
        if rest and self.g.group == LONG:
            body += self.long(Const(whole), Const(rest - LONG), "_last")
        else:
            for t in range(rest):
                body += self.one(Const(whole), Const(t), f"_{t}")
        yield from nested(outer, body)

    def terms(self, group: Expr) -> Iterator[Statement]:
        """The products of a group of terms."""
        if self.g.group == LONG:
            yield from self.long(group, Const(0), "")
        else:
            yield from self.group(group) if self.g.group == GROUP else self.one(group, Const(0), "")

    def a(self, point: int, group: Expr, term: Expr) -> Load:
        """The operand's element, the first of a group's."""
        at = {self.c.reduce[-1].name: group * self.g.group + term}
        return simplify(substitute(self.g.moved(self.c.a, Const(point)), at), self.c.bounds)

    def b(self, channel: int, group: Expr, term: Expr) -> Load:
        where = (Var("block"), *self.g.moving, *self.c.reduce[:-1], group, Const(channel), term)
        return Load(self.segment.weights, where)

    def one(self, group: Expr, term: Expr, suffix: str) -> Iterator[Statement]:
        """The products of one term."""
        for p in range(self.count):
            yield Let(f"a{p}{suffix}", cast(self.a(p, group, term), INT32))
        for r in range(self.segment.size):
            yield Let(f"b{r}{suffix}", cast(self.b(r, group, term), INT32))
            for p in range(self.count):
                a, b = Var(f"a{p}{suffix}", None, INT32), Var(f"b{r}{suffix}", None, INT32)
                yield Assign(f"c{p}_{r}", Var(f"c{p}_{r}", None, INT32) + a * b)

    def long(self, group: Expr, term: Expr, suffix: str) -> Iterator[Statement]:
        """The products of sixteen terms from one of a group's on, the weights those of the group."""
        for p in range(self.count):
            a: Expr = replace(self.a(p, group, term), lanes=LONG)
            a = cast(Binary("xor", a, Const(SIGN, UINT8)), INT8) if self.g.sign else a
            yield Let(f"a{p}{suffix}", a, LONG)
        for r in range(self.segment.size):
            yield Let(f"b{r}{suffix}", replace(self.b(r, group, Const(0)), lanes=LONG), LONG)
            for p in range(self.count):
                a, b = (Var(f"{x}{suffix}", None, INT8) for x in (f"a{p}", f"b{r}"))
                yield Instruction("dot16", f"c{p}_{r}", a, b, 1)

    def group(self, group: Expr) -> Iterator[Statement]:
        """The products of four terms. Of one point the loop is not unrolled: its registers are all in use."""
        for p in range(self.count):
            yield from _halves(f"a{p}", self.a(p, group, Const(0)))
        for r in range(self.segment.size):
            yield from _halves(f"b{r}", self.b(r, group, Const(0)))
            for p in range(self.count):
                for h in range(len(HALVES)):
                    a, b = (Var(f"{x}_{h}", None, INT16) for x in (f"a{p}", f"b{r}"))
                    yield Instruction("dot2", f"c{p}_{r}", a, b, 1)
        if self.count == 1:
            yield Barrier()


def _halves(name: str, load: Load) -> Iterator[Statement]:
    """Four bytes as two pairs of 16 bits."""
    yield Let(name, replace(load, lanes=GROUP), GROUP)
    four = Var(name, None, load.tensor.type)
    for h, half in enumerate(HALVES):
        yield Let(f"{name}_{h}", cast(Shuffle(four, four, half), INT16), len(half))
