"""The statements of one register tile of a contraction: some points by one block of channels.

    c0_0 = c0_1 = c1_0 = c1_1 = first          a tile of two points by two registers
    for each term:
        b0, b1 = w[..]                         the registers of the block
        a0 = splat(x[..]); c0_0 += a0 * b0; c0_1 += a0 * b1
        a1 = splat(x[..]); c1_0 += a1 * b0; c1_1 += a1 * b1
    y[..] = value(c0_0), ..

In: the contraction, its product, a segment of its channels and the points taken along the tile axes. Out: the
statements, accumulators to stores.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ingot.formula.expr import Binary, Const, Expr, Lane, Load, Var, cast, static, substitute
from ingot.formula.index import as_expr, coefficient, simplify
from ingot.formula.statements import Assign, Barrier, For, Instruction, Let, Madd, Prefetch, Statement
from ingot.formula.types import INT32, DType
from ingot.loops.access import step
from ingot.loops.kernels.contraction.epilogue import Epilogue, Offsets, decided_in, points_of
from ingot.loops.kernels.contraction.roles import Contraction, Padded
from ingot.loops.kernels.contraction.tiles import Segment, Tile, is_by_element, terms_per_iteration
from ingot.loops.kernels.contraction.vector_operand import VectorOperand
from ingot.loops.nearby import placer
from ingot.targets.record import Target

UNROLLED_TAPS = 4


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """What all tiles of a block of channels share.

    `weights` are the registers of its segment, from the first lane of a term on, which the statements of
    `copying` put there; `chains` sums of every accumulator are in flight.
    """

    operand: VectorOperand
    segment: Segment
    weights: Load
    copying: tuple[Statement, ...]
    chains: int
    is_packed: bool
    target: Target

    @property
    def c(self) -> Contraction:
        return self.operand.c


class RegisterTile:
    """The statements of one tile; `ahead` is what to ask for at every term."""

    def __init__(self, block: Block, sizes: Offsets, ahead: tuple[Prefetch, ...]) -> None:
        self.block, self.operand, self.c, self.segment = block, block.operand, block.c, block.segment
        self.product, self.codes, self.ahead = self.operand.product, self.operand.codes, ahead
        self.lanes, self.chains = self.operand.lanes, block.chains
        self.points = list(points_of(self.c.tile, sizes))
        self.names, self.sizes = [x.name for x in self.c.tile], sizes
        self.read = placer(self.c.a, self.names, self.c.bounds)
        inner, tile = self.c.reduce[-1], Tile(len(self.points), len(self.segment.widths))
        self.whole, self.rest = divmod(static(inner.extent), self.product.group)
        is_row = step(self.c.a, inner.name) == 1 and static(inner.extent) >= self.lanes
        is_plain = self.c.b.dtype.is_float and is_row
        self.is_by_element = is_plain and is_by_element(block.target, self.lanes, tile)
        if self.is_by_element:  # whole vectors of values
            self.unroll = -(-self.chains // self.lanes) * self.lanes
        else:
            self.unroll = max(self.chains, terms_per_iteration(block.target, tile, max(1, self.whole)))

    def statements(self) -> Iterator[Statement]:
        zero = Const(0.0 if self.c.init.dtype.is_float else 0, self.c.init.dtype)
        s, first = self.segment, self.operand.first(self.segment)
        for u in range(self.chains):
            for i in range(len(self.points)):
                for j, (offset, width) in enumerate(zip(s.offsets, s.widths, strict=True)):
                    value = zero if u else first(offset, width)
                    yield Let(_register(i, j, u), value, width, mutable=True)
        yield from self._reduction()
        for u in range(1, self.chains):
            for i in range(len(self.points)):
                for j, width in enumerate(s.widths):
                    name = _register(i, j)
                    both = Binary("add", self._accumulator(i, j), self._accumulator(i, j, u))
                    yield Assign(name, both, width)
        storage = self.operand.storage
        value = decided_in(s, self.c.value, self.c.vector, self.c.bounds)
        epilogue = Epilogue(self.c.to, value, self.c.vector, self.names, self.c.bounds, storage)
        for j in range(len(s.widths)):
            sums = [self._accumulator(i, j) for i in range(len(self.points))]
            yield from epilogue.stores(s, j, self.points, sums)

    def _accumulator(self, i: int, j: int, u: int = 0) -> Var:
        return Var(_register(i, j, u), None, self.c.init.dtype)

    def _reduction(self) -> Iterator[Statement]:
        """Rolled loops over the reduction; a short innermost axis is unrolled, its taps kept apart by
        barriers, so that no value is carried from one to the next.
        """
        inner, count = self.operand.group, self.whole + (1 if self.rest else 0)
        body: list[Statement] = []
        if len(self.c.reduce) > 1 and count <= UNROLLED_TAPS:
            for t in range(count):
                body += [Barrier()] if t else []
                body += self._terms(f"_{t}", Const(t))
        else:
            body += self._turns(inner)
            body += self._terms("_rest", Const(self.whole)) if self.rest else []
        skipped = self.c.skipped
        for k in reversed(self.c.reduce[:-1]):
            ends = self._inside(k, skipped[k]) if k in skipped else None
            lo, hi = ends or (Const(0), as_expr(k.extent or 0))
            body = [For(k.name, lo, hi, 1, tuple(body))]
        yield from body

    def _inside(self, k: Var, padded: Padded) -> tuple[Expr, Expr] | None:
        """What the loop over a window runs over: rows of zeros beside the image add nothing."""
        moved = {x: coefficient(padded.first, x) for x in self.sizes}
        if any(m is None or m < 0 for m in moved.values()):
            return None
        more = sum((m or 0) * (self.sizes[x] - 1) for x, m in moved.items())
        lo, hi = padded.inside(k, Const(more))
        return simplify(lo, self.c.bounds), simplify(hi, self.c.bounds)

    def _turns(self, inner: Var) -> Iterator[Statement]:
        """The loop over the terms. Neighbouring ones go to accumulators of their own where there are few: one
        chain would wait for itself.
        """
        whole = self.whole // self.unroll * self.unroll
        body: list[Statement] = []
        for u in range(self.unroll):
            if self.is_by_element and u % self.lanes == 0:
                body += self._values(inner, u)
            elif u and self.chains == 1 and not self.is_by_element:
                body.append(Barrier())
            body += self._terms(f"_{u}" if u else "", inner + u if u else inner, u)
        yield For(inner.name, Const(0), Const(whole), self.unroll, tuple(body))
        if whole < self.whole:
            rest = tuple(self._terms("", inner))
            yield For(inner.name, Const(whole), Const(self.whole), 1, rest)

    def _values(self, inner: Var, u: int) -> Iterator[Statement]:
        """What the terms from the u-th of an iteration on multiply, of every point in a vector."""
        for i, point in enumerate(self.points):
            read = self.read(point)
            assert isinstance(read, Load)
            at = self._at(read, {inner.name: inner + u} if u else {})
            yield Let(f"v{i}_{u}", replace(at, lanes=self.lanes), self.lanes)

    def _terms(self, suffix: str, at: Expr, u: int | None = None) -> Iterator[Statement]:
        """All products of one term, or group of terms, which stands at `at` along the innermost reduction
        axis.

        It is the u-th of an iteration of the loop, if any. Where the last register is narrower, it takes the
        first lanes of what is repeated for the others.
        """
        widths, group = self.segment.widths, self.product.group
        shared = max(widths) if len(set(widths)) > 1 and group == 1 else 1
        inner = self.operand.group
        term = {} if at is inner else {inner.name: at}
        for p in self.ahead:
            yield replace(p, at=self._at(p.at, term))
        for j, width in enumerate(widths):
            yield from self._loaded(j, width, suffix, term)
        for i, point in enumerate(self.points):
            value = self._value(i, point, at, u)
            yield Let(f"a{i}{suffix}", value, shared if group == 1 else group)
            a = Var(f"a{i}{suffix}", None, value.dtype)
            for j, width in enumerate(widths):
                some = Lane(a, 0, width) if width < shared else a
                to = _register(i, j, (u or 0) % self.chains)
                yield self._multiplied(to, some, Var(f"b{j}{suffix}", None, self._factor), width)

    @property
    def _factor(self) -> DType:
        """The type of what registers of weights hold."""
        return self.product.b

    def _multiplied(self, name: str, a: Expr, b: Expr, width: int) -> Statement:
        """name += a * b"""
        if self.product.instruction:
            return Instruction(self.product.instruction, name, a, b, width)
        if a.dtype.is_float:
            return Madd(name, a, b, width)
        return Assign(name, Var(name, None, a.dtype) + a * b, width)

    def _value(self, i: int, point: Offsets, at: Expr, u: int | None) -> Expr:
        """What a term of the i-th point multiplies: an element of a vector, or loaded by itself."""
        if self.is_by_element and u is not None:
            first = u // self.lanes * self.lanes
            return Lane(Var(f"v{i}_{first}", None, self.c.b.dtype), u - first)
        inner, group = self.c.reduce[-1], self.product.group
        read = self.read(point)
        assert isinstance(read, Load)
        if group == 1:
            return self.product.operand(self._at(read, {} if at is inner else {inner.name: at}))
        is_rest = self.rest and at == Const(self.whole)
        first_term = Const(static(inner.extent) - group) if is_rest else at * group
        return self.product.operand(replace(self._at(read, {inner.name: first_term}), lanes=group))

    def _loaded(self, j: int, width: int, suffix: str, term: dict[str, Expr]) -> Iterator[Statement]:
        """Register j of the block's weights; two registers share the bytes of their codes."""
        if self.codes is None:
            lanes = width * self.product.group
            yield Let(f"b{j}{suffix}", cast(self._weights(j, lanes, term), self._factor), lanes)
            return
        sharing = 2 if self.codes.shared else 1
        name = f"q{j // sharing}{suffix}"
        if j % sharing == 0:
            w = self.block.weights
            at = replace(w, index=(*w.index[:-1], Const(j // sharing * width)), lanes=width)
            yield Let(name, cast(self._at(at, term), INT32), width)
        half = self.codes.half(Var(name, None, INT32), j)
        yield Let(f"b{j}{suffix}", self.codes.value(half), width)

    def _at(self, load: Load, term: dict[str, Expr]) -> Load:
        moved = simplify(substitute(load, term), self.c.bounds) if term else load
        assert isinstance(moved, Load)
        return moved

    def _weights(self, j: int, lanes: int, term: dict[str, Expr]) -> Load:
        """Register j of the block, of the term that `term` says."""
        w, offset, v = self.block.weights, self.segment.offsets[j], self.c.vector
        if self.block.is_packed:
            at = Const(offset * self.product.group)
            return self._at(replace(w, index=(*w.index[:-1], at), lanes=lanes), term)
        return self._at(replace(w, lanes=lanes), {v.name: v + offset, **term})


def _register(i: int, j: int, chain: int = 0) -> str:
    return f"c{i}_{j}_{chain}" if chain else f"c{i}_{j}"
