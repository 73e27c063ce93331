"""What integer dot products have in common: their constants, the loops around a tile, what becomes of a sum.

In: a product of bytes as `byte_product` reads it. Used by `int_dot` and `paired_tiles`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import overload

import numpy as np

from ingot.formula.evaluate import value_over
from ingot.formula.expr import Array, Const, Expr, Load, Tensor, Var, static, substitute
from ingot.formula.index import simplify
from ingot.formula.statements import For, Routine, Statement, Store
from ingot.formula.types import INT32, DType
from ingot.loops.access import step
from ingot.loops.cuts import pieces
from ingot.loops.kernels.contraction.byte_product import Product
from ingot.loops.kernels.naive import nested
from ingot.loops.layout import Storage

POINTS = 2  # of a tile
GROUP = 4  # terms that one load brings where pairs are multiplied
HALVES = ((0, 2), (1, 3))  # the terms of a load that make a pair of 16 bits


class DotLoops:
    """The loops of one product. `sign` is what was taken from each element of `a`; `reads_in_order`: results
    may replace operands that have been read, so no loop goes over the operand again.
    """

    reads_in_order = True

    def __init__(self, p: Product, storage: Storage, group: int, sign: int) -> None:
        self.p, self.c, self.storage, self.group, self.sign = p, p.c, storage, group, sign
        self.x = self.c.tile[-1] if self.c.tile else None
        self.moving = tuple(v for v in self.c.outer if step(self.c.b, v.name) != 0)

    def points(self, count: int) -> tuple[Statement, ...]:
        """Sums of all channels at a few points, and what becomes of them."""
        raise NotImplementedError

    def statements(self) -> tuple[Statement, ...]:
        """Around a tile's points go the loops over all of them."""
        if self.x is None:
            body = self.points(1)
        else:
            rows, last = self.c.tile[:-1], static(self.x.extent) // POINTS * POINTS
            if rows and last < static(self.x.extent):
                body = nested(rows[:-1], self._by_rows(rows, last))
            else:
                body = nested(rows, self._pieces(static(self.x.extent)))
        return nested(self.c.outer, body)

    def _pieces(self, extent: int) -> tuple[Statement, ...]:
        """The loops over so many points, two by two."""
        assert self.x is not None
        cut = pieces(extent, POINTS)
        return tuple(
            For(self.x.name, Const(lo), Const(hi), n, self.points(n), routine=self.all_points(lo, hi, n))
            for lo, hi, n in cut
        )

    def _tile(self, count: int) -> tuple[Statement, ...]:
        """The points of one place alone."""
        routine = self.all_points(None, count, count)
        body = self.points(count)
        return (For("tile", Const(0), Const(1), 1, body, routine=routine),) if routine else body

    def all_points(self, lo: int | None, hi: int, count: int) -> Routine | None:
        """The call that does what the loop over some points does, `count` at a time; None: from where the
        loops around are.
        """
        return None

    def _by_rows(self, rows: tuple[Var, ...], last: int) -> tuple[Statement, ...]:
        """Rows of an odd number of points: those that are left at the ends of two make a pair."""
        assert self.x is not None
        row, next_row = rows[-1], Var("next", POINTS)
        ends = self._at({self.x.name: Const(last)}, row, rows)
        if not self.reads_in_order:
            return (*nested((row,), self._pieces(last)), *ends._pieces(static(row.extent)))
        either = self._at({row.name: row + next_row}, self.x, self.c.tile)
        made = []
        for lo, hi, count in pieces(static(row.extent), POINTS):
            inner = self._pieces(last) if count == 1 else nested((next_row,), either._pieces(last))
            made.append(For(row.name, Const(lo), Const(hi), count, (*inner, *ends._tile(count))))
        return tuple(made)

    def _at(self, where: Mapping[str, Expr], x: Var, tile: tuple[Var, ...]) -> DotLoops:
        """The loops of the points at a place, two by two along x."""
        a, to = (simplify(substitute(e, where), self.c.bounds) for e in (self.c.a, self.c.to))
        value, init = (simplify(substitute(e, where), self.c.bounds) for e in (self.c.value, self.c.init))
        made = copy(self)
        made.x, made.c = x, replace(self.c, a=a, to=to, value=value, init=init, tile=tile)
        return made

    def in_blocks(self, size: int) -> Iterator[tuple[int, int, int]]:
        """The first of blocks of so many channels, how many blocks, their channels: whole ones, the rest."""
        whole, rest = divmod(self.c.channels, size)
        if whole:
            yield 0, whole, size
        if rest:
            yield whole, 1, rest

    def term(self, axes: Sequence[Var]) -> Expr:
        """Where a term is among all along some axes of its point."""
        at: Expr = Const(0)
        for k in axes:
            at = at * static(k.extent) + k
        return at

    # -- constants

    def weights(self, array: Array) -> Array:
        """Of the constant: int32 [channel, groups.., terms..], shifted."""
        axes = (self.c.vector, *self.moving, *self.c.reduce)
        read = replace(self.c.b, tensor=replace(self.c.b.tensor, value=array))
        return value_over(read, axes).astype(np.int32) - self.p.shift

    def derived(
        self, what: str, part: tuple[int, ...], make: Callable[[Array], Array], type: DType
    ) -> Tensor:
        names = tuple(v.name for v in (*self.moving, *self.c.reduce))
        how = ("int_dot", what, part, self.c.b.index, names, self.p.shift, self.group)
        return self.storage.derived(self.c.b.tensor, how, make, type, what)

    def totals(self) -> Expr:
        """What a zero point of 1 adds to the sum of a channel."""

        def add(array: Array) -> Array:
            w = self.weights(array)
            terms = tuple(range(w.ndim - len(self.c.reduce), w.ndim))
            return np.asarray(w.sum(terms, dtype=np.int32))

        return Load(self.derived("totals", (), add, INT32), (self.c.vector, *self.moving))

    def corrected(self, total: Expr, point: Expr) -> Expr:
        """A sum of all products at a point, with what zero points and the first value add to it."""
        zero = self.p.zero - Const(self.sign, INT32) if self.sign else self.p.zero
        if zero != Const(0, INT32):
            total = total - zero * self.totals()
        return total if self.c.init == Const(0, INT32) else self.moved(self.c.init, point) + total

    def stored(self, total: Expr, point: Expr) -> Store:
        """The result at a point, of a sum that nothing has to be added to."""
        value = substitute(self.moved(self.c.value, point), {"acc": total})
        return Store(self.moved(self.c.to, point), value)

    @overload
    def moved(self, e: Load, by: Expr) -> Load: ...

    @overload
    def moved(self, e: Expr, by: Expr) -> Expr: ...

    def moved(self, e: Expr, by: Expr) -> Expr:
        """The expression at a later point of the tile."""
        if self.x is None:
            return e
        return simplify(substitute(e, {self.x.name: self.x + by}), self.c.bounds)
