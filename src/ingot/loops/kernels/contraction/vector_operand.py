"""The operand of a contraction that is read as vectors, in the order the loops read it.

    w[oc, kh, kw, ic]    ->    w[block, kh, kw, ic, lane]            one term of a lane at a time
                         ->    w[block, kh, kw, ic / 4, lane, 4]     groups of four, as `dot4` multiplies them

In: a contraction, its product and the segments its channels are cut into. Out: a load for each segment: of a
constant packed at compile time, of the operand as it is, or of a copy made at run time, whose statements come
with it. Where a group does not divide the terms the last group ends with the last term, and what was
multiplied before is 0 in it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from operator import add

import numpy as np

from ingot.formula.evaluate import grid_over
from ingot.formula.evaluate import value as evaluate
from ingot.formula.expr import (
    Array,
    Const,
    Expr,
    Extent,
    Load,
    Tensor,
    Var,
    cast,
    static,
    substitute,
    walk,
)
from ingot.formula.index import interval, mentions, simplify
from ingot.formula.statements import For, Statement, Store
from ingot.formula.types import INT32, UINT8, DType
from ingot.loops.access import NotVectorizable, step
from ingot.loops.cuts import in_vectors
from ingot.loops.kernels.contraction.codes import MOST_VALUES, Codes
from ingot.loops.kernels.contraction.products import Product
from ingot.loops.kernels.contraction.roles import Contraction, around
from ingot.loops.kernels.contraction.tiles import Segment
from ingot.loops.kernels.naive import loop
from ingot.loops.kernels.transpose import Turn, turned
from ingot.loops.layout import Storage

Grid = dict[str, Array]
First = Callable[[int, int], Expr]
ZERO = Const(0, INT32)


class VectorOperand:
    """What the loops of a contraction load registers of; `group` counts the groups of the innermost terms."""

    def __init__(
        self, c: Contraction, product: Product, storage: Storage, lanes: int, codes: Codes | None
    ) -> None:
        self.c, self.product, self.storage, self.lanes, self.codes = c, product, storage, lanes, codes
        inner, size = c.reduce[-1], product.group
        self.group = inner if size == 1 else Var(f"{inner.name}_group", -(-static(inner.extent) // size))
        self.reduce = (*c.reduce[:-1], self.group)

    @property
    def is_in_order(self) -> bool:
        """Whether `b` can be read where it is, along its vectors."""
        return self.c.b.tensor.value is None and step(self.c.b, self.c.vector.name) == 1

    def packed(self, s: Segment) -> Load:
        """A constant's registers of a segment, from the first lane of a term on."""
        axes = [
            *self._moving(),
            *_fixed(self.c.around, self.c.b),
        ]  # once, for all iterations of the loops around
        extents = (s.blocks, *(static(x.extent) for x in (*axes, *self.reduce)), s.size)
        return Load(self._constant(axes, extents, s), (self._block(s), *axes, *self.reduce, Const(0)))

    def copied(self, s: Segment) -> tuple[Load, tuple[Statement, ...]]:
        """The registers of a segment in a copy of all its blocks, and the statements that make it."""
        axes, block = self._moving(), Var("block", s.blocks)
        extents = (s.blocks, *(static(x.extent) for x in (*axes, *self.reduce)), s.size)
        copy = self.storage.scratch(self.c.b.tensor, extents)
        made = self._copying(copy, (block, *axes), s, block * s.size + s.first)
        return Load(copy, (self._block(s), *axes, *self.reduce, Const(0))), made

    def copied_block(self, s: Segment) -> tuple[Load, tuple[Statement, ...]]:
        """The registers of the block that the vector axis is at, and the statements that copy them."""
        extents = (*(static(x.extent) for x in self.reduce), s.size)
        copy = self.storage.scratch(self.c.b.tensor, extents)
        return Load(copy, (*self.reduce, Const(0))), self._copying(copy, (), s, self.c.vector)

    def _moving(self) -> list[Var]:
        """The outer axes that the operand moves with."""
        return [x for x in self.c.outer if step(self.c.b, x.name) != 0]

    def first(self, s: Segment) -> First:
        """What the accumulators of a segment begin with, by the offset and the width of a register."""
        init, loads = self.c.init, list[Load]()
        if any(mentions(init, x.name) for x in self.c.tile):
            raise NotVectorizable("the first value of the sums moves from point to point")
        if mentions(init, self.c.vector.name):
            if not isinstance(init, Load) or init.tensor.value is None:
                raise NotVectorizable("the first value of the sums is no constant")
            loads.append(self._lanes_of(init, s, (), 1))
        if self.product.excess:
            loads.append(self._lanes_of(self.c.b, s, self.c.reduce, -self.product.excess))

        def at(offset: int, width: int) -> Expr:
            values: list[Expr] = [
                replace(x, index=(*x.index[:-1], Const(offset)), lanes=width) for x in loads
            ]
            if not mentions(init, self.c.vector.name) and (init != ZERO or not values):
                values.append(init)
            return reduce(add, values)

        return at

    def _block(self, s: Segment) -> Expr:
        return simplify((self.c.vector - s.first) // s.size, self.c.bounds) if s.blocks > 1 else Const(0)

    def _lanes_of(self, load: Load, s: Segment, summed: tuple[Var, ...], factor: int) -> Load:
        """int32 for each lane of a segment: a constant, or `factor` times its sum along the `summed` axes."""
        c = self.c
        if any(mentions(load, x.name) for x in c.tile):
            raise NotVectorizable(f"{load.tensor.name} moves from point to point")
        moving = [x for x in c.outer if mentions(load, x.name)]
        axes = [*moving, *_fixed(around(load, (c.vector, *c.tile, *c.outer, *c.reduce)), load)]
        names = [x.name for x in (*axes, *summed)]
        extents = (s.blocks, s.size, *(static(x.extent) for x in (*axes, *summed)))

        def pack(array: Array) -> Array:
            grid = grid_over(["block", "lane", *names], extents)
            exists = self._channels(grid, s)
            every = np.broadcast_to(evaluate(_with(load, array), {}, grid), extents)
            terms = tuple(range(2 + len(axes), every.ndim))
            sums = every.sum(terms, dtype=np.int32, keepdims=True) * np.int32(factor)
            kept = np.where(exists, sums, 0).reshape(extents[: 2 + len(axes)])
            return np.ascontiguousarray(np.moveaxis(kept.astype(np.int32), 1, -1))

        how = ("lanes", load.index, *names, extents, s.first, factor)
        made = self.storage.derived(load.tensor, how, pack, INT32, "totals" if summed else "")
        return Load(made, (self._block(s), *axes, Const(0)))

    def _channels(self, grid: Grid, s: Segment) -> Array:
        """Put the channel of every lane in the grid; whether there is such a channel."""
        channel = grid["block"] * s.size + grid["lane"] + s.first
        grid[self.c.vector.name] = np.minimum(channel, self.c.channels - 1)
        return np.asarray(channel < self.c.channels)

    def _constant(self, axes: list[Var], extents: tuple[int, ...], s: Segment) -> Tensor:
        b, group = self.c.b, self.product.group
        names = [x.name for x in (*axes, *self.c.reduce)]

        def pack(array: Array) -> Array:
            grid = grid_over(["block", *names, "lane", "term"], (*extents, group))
            exists = self._channels(grid, s) & self._terms(grid)
            packed = np.broadcast_to(evaluate(_with(b, array), {}, grid), (*extents, group))
            shape = (*extents[:-1], extents[-1] * group)
            if self.codes is not None:
                return self.codes.packed(packed.reshape(shape), exists[..., 0], self.lanes)
            return np.where(exists, packed, 0).astype(self.product.stored.numpy).reshape(shape)

        how = (b.index, *names, extents, s.first)
        if self.codes is not None:
            return self.storage.derived(b.tensor, (*how, "codes"), pack, UINT8, "codes", (0, MOST_VALUES - 1))
        return self.storage.derived(b.tensor, (*how, group), pack, self.product.stored)

    def _terms(self, grid: Grid) -> Array:
        """Put the innermost terms of every group in the grid; whether a term is not multiplied before."""
        inner, size = self.c.reduce[-1], self.product.group
        if size == 1:
            return np.ones((), bool)
        count = static(inner.extent)
        whole = count // size
        group, term = grid[inner.name], grid["term"]
        is_rest = group >= whole
        grid[inner.name] = np.where(is_rest, count - size + term, group * size + term)
        return np.asarray(~is_rest | (grid[inner.name] >= whole * size))

    def _copying(self, copy: Tensor, axes: tuple[Var, ...], s: Segment, first: Expr) -> tuple[Statement, ...]:
        """Copy `b` from the channel `first` on into scratch; lanes beyond the last channel are zero.

        Terms that run on in memory are turned in registers.
        """
        b, outer = self.c.b, (*axes, *self.c.reduce)
        lane = Var("lane", min(s.channels, s.size))
        bounds = {**self.c.bounds, **{x.name: interval(x) for x in (*axes, lane)}}
        read = simplify(substitute(b, {self.c.vector.name: first + lane}), bounds)
        assert isinstance(read, Load)
        to = Load(copy, (*outer, lane))
        run = next((k for k in self.c.reduce if step(b, k.name) == 1), None)
        if run is None:
            made = _loops((*outer, lane), Store(to, read))
        else:
            rest = tuple(x for x in outer if x is not run)
            made = turned(Turn(to, read, (read,), lane, run, rest, bounds), self.lanes)
        if static(lane.extent) == s.size:
            return made
        none = Store(Load(copy, (*outer, lane + static(lane.extent))), Const(0.0, b.tensor.type.compute))
        return (*made, *_loops((*outer, Var("lane", s.size - s.channels)), none))


def _loops(axes: tuple[Var, ...], body: Statement) -> tuple[Statement, ...]:
    for x in reversed(axes):
        body = loop(x, (body,))
    return (body,)


def widened(c: Contraction, to: DType, storage: Storage, lanes: int) -> tuple[Load, tuple[Statement, ...]]:
    """The load of `a` from a copy whose elements are of another type, and the statements that make the copy.

    Every element is read for many channels: that is less work than to widen it where it is read. Along
    dimensions whose extent is known at run time only the copy holds what one turn of the loops around reads.
    """
    places = [_place(i, n, c) for i, n in zip(c.a.index, c.a.tensor.shape, strict=True)]
    copy = storage.scratch(c.a.tensor, tuple(extent for _, _, extent in places), "wide", to)
    *outer, n = copy.shape
    own = [*(Var(f"wide{d}", extent) for d, extent in enumerate(outer)), Var("lane")]  # no axis is called so
    source = tuple(first + v for (first, _, _), v in zip(places, own, strict=True))
    body: list[Statement] = []
    for lo, hi, width in in_vectors(static(n), lanes):
        store = Store(Load(copy, tuple(own)), cast(Load(c.a.tensor, source, None, width), to), width)
        body += [For("lane", Const(lo), Const(hi), width, (store,))] if hi > lo else []
    for x in reversed(own[:-1]):
        body = [loop(x, tuple(body))]
    return replace(c.a, tensor=copy, index=tuple(i for _, i, _ in places)), tuple(body)


def _place(index: Expr, n: Extent, c: Contraction) -> tuple[Expr, Expr, int]:
    """Where a copy begins in one dimension, the index within it, and its extent.

    Raises NotVectorizable where a turn of the loops around reads no part of known size.
    """
    if isinstance(n, int):
        return Const(0), index, n
    own = {x.name: Const(0) for x in (*c.tile, *c.outer, *c.reduce)}
    first = simplify(substitute(index, own), c.bounds)
    within = simplify(index - first, c.bounds)
    lo, hi = interval(within, c.bounds)
    if lo < 0 or any(v.name not in own for v in walk(within) if isinstance(v, Var)):
        raise NotVectorizable(f"{c.a.tensor.name} is read from a place of its own by every turn")
    return first, within, hi + 1


def _fixed(axes: tuple[Var, ...], load: Load) -> tuple[Var, ...]:
    """The axes, whose extents a packed constant needs."""
    if not all(isinstance(x.extent, int) for x in axes):
        raise NotVectorizable(f"{load.tensor.name} moves with an axis of unknown extent")
    return axes


def _with(load: Load, array: Array) -> Load:
    """The load from a constant of these elements."""
    return replace(load, tensor=replace(load.tensor, value=array))
