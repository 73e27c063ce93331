"""The Winograd generator: convolutions with a stride of 1 or 2, or with gaps, by fewer multiplications.

    y = A [ sum over channels of (G w) * (B x) ]        F(m, taps) along each axis of the window

A kernel of three stages under a loop over blocks of tiles: the inputs of every tile are transformed into `V`;
for each block of output channels every point of the transform is a small matrix product with the transformed
constant weights, into `M`; the outputs of every tile are transformed back, and stored with bias and
activation. `V` and `M` are scratch that stays in the cache. Where tiles do not divide the image, and where
the channels do not fill a vector, tiles pass through a buffer of their own size, in and out.

The outputs of a tile of a dilated convolution are as far apart as its taps: the elements between belong to
neighbouring tiles, each of which is a convolution without gaps.

Measured, one AVX-512 core: 82 to 95 % of the multiplication bound for 32 channels and more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product

from ingot.formula.compute import Compute
from ingot.formula.expr import Binary, Const, Expr, Load, Var, equal, static, substitute
from ingot.formula.index import Bounds, simplify
from ingot.formula.statements import For, Remark, Statement, Store, When
from ingot.formula.types import FLOAT32
from ingot.loops.access import NotVectorizable, vectorize
from ingot.loops.cuts import parts
from ingot.loops.kernels.winograd.frame import block_name, number_of
from ingot.loops.kernels.winograd.match import match
from ingot.loops.kernels.winograd.products import Products
from ingot.loops.kernels.winograd.transforms import along
from ingot.loops.layout import Storage
from ingot.loops.rewrite import substituted
from ingot.targets.record import Target

Keep = Callable[[tuple[int, ...], Expr, Expr], Statement]  # of an output: place in the tile, lane, value


def winograd(
    c: Compute, storage: Storage, target: Target, bounds: Bounds, m: int, cold: bool = False
) -> tuple[Statement, ...] | None:
    """Statements by F(m, taps), or None if the stage is no such convolution."""
    found = match(c, storage, bounds)
    if found is None or found.c.a.tensor.value is not None:
        return None
    try:
        return _Generator(found, storage, target, found.algorithm(m), cold).statements()
    except NotVectorizable:
        return None


class _Generator(Products):
    """Builds the loops of one convolution."""

    def statements(self) -> tuple[Statement, ...]:
        m, taps = self.algorithm.m, self.algorithm.r
        apart = f" with stride {self.algorithm.stride}" if self.algorithm.stride > 1 else ""
        if (gaps := self.conv.windows[0].dilation) > 1:
            apart = f" with dilation {gaps}"
        first = Remark(f"Winograd's F({m}, {taps}){apart}: the inputs of every tile, transformed")
        body: tuple[Statement, ...] = (first, *self._inputs(), *self._features())
        for w, size in reversed(list(zip(self.conv.windows, self.blocking.tiles, strict=True))):
            body = (For(block_name(w), Const(0), Const(w.tiles(self.algorithm.m)), size, body),)
        for x in reversed(self.conv.outer):
            body = (For(x.name, Const(0), Const(static(x.extent)), 1, body),)
        return body

    def _features(self) -> tuple[Statement, ...]:
        products = Remark("for every point the sum over the channels, with transformed weights")
        outputs = Remark("transformed back, and stored")
        rows = (*self._inputs_ahead(), self._products())
        if self.blocking.by_point:
            return (products, self._points(self._blocks(rows)), outputs, self._blocks(self._outputs()))
        return (self._blocks((products, self._points(*rows), outputs, *self._outputs())),)

    def _inputs(self) -> tuple[Statement, ...]:
        """V[point][tile, channel] = B x, for every tile of the block."""
        n, lanes, channel = self.conv.channels, self.in_lanes, self.conv.channel
        turns = -(-n // lanes)
        start: Expr = Var(channel.name)
        if n % lanes:  # the last vector overlaps the one before: the same again
            start = Binary("min", start, Const(n - lanes))
        fill = () if self.tile_in is None else tuple(self._fill(start))
        body = (*fill, *self._transform_inputs(start))
        return self._tiles((For(channel.name, Const(0), Const(turns * lanes), lanes, body),))

    def _read(self, offsets: tuple[Expr, ...], start: Expr) -> Load:
        """The input `offsets` into the tile."""
        env: dict[str, Expr] = {self.conv.channel.name: start}
        for w, i in zip(self.conv.windows, offsets, strict=True):
            env |= {w.axis.name: self._first(w), w.tap.name: i}
        return simplify(substitute(self.c.a, env))

    def _fill(self, start: Expr) -> Iterator[Statement]:
        """The tile's inputs, zeros beyond the image."""
        assert self.tile_in is not None
        names = [f"{w.axis.name}_in" for w in self.conv.windows]
        index = tuple(map(Var, names))
        copy: Statement = Store(
            Load(self.tile_in, (*index, Const(0))),
            replace(self._read(index, start), lanes=self.in_lanes),
            self.in_lanes,
        )
        zero: Statement = Store(Load(self.tile_in, (*index, Const(0))), Const(0.0, FLOAT32), self.in_lanes)
        points = Const(self.algorithm.points)
        inside = [self._inside(w) for w in self.conv.windows]
        for d in range(self.dims):  # what lies beyond along this window, inside along those before
            body: tuple[Statement, ...] = (zero,)
            for j in reversed(range(self.dims)):
                lo = inside[d] if j == d else Const(0)
                body = (For(names[j], lo, inside[j] if j < d else points, 1, body),)
            yield from body
        inner: tuple[Statement, ...] = (copy,)
        for name, hi in reversed(list(zip(names, inside, strict=True))):
            inner = (For(name, Const(0), hi, 1, inner),)
        yield from inner

    def _transform_inputs(self, start: Expr) -> Iterator[Statement]:
        n, lanes = self.algorithm.points, self.in_lanes
        values: dict[tuple[int, ...], Expr] = {}
        for at in product(range(n), repeat=self.dims):
            index = tuple(Const(i) for i in at)
            read = (
                self._read(index, start) if self.tile_in is None else Load(self.tile_in, (*index, Const(0)))
            )
            values[at] = replace(read, lanes=lanes)
        lines = self.algorithm.inputs()
        for axis in range(self.dims):
            statements, values = along(axis, lines, values, lanes, f"{'dtv'[axis]}")
            yield from statements
        place = simplify(self._place() * self.row + start)
        for at, value in values.items():
            yield Store(Load(self.v, (Const(number_of(at, n)), place)), value, lanes)

    def _outputs(self) -> tuple[Statement, ...]:
        """y = value(A M) for every tile of the block and every feature of the pass."""
        b, v = self.blocking, self.c.vector
        lane = Var(f"{v.name}_lane")
        if self.tile_out is None:
            body = tuple(self._transform_outputs(lane, self._store))
            return self._tiles((For(lane.name, Const(0), self._lanes(self.conv.features), b.lanes, body),))
        body = tuple(self._transform_outputs(lane, self._keep))
        return self._tiles((For(lane.name, Const(0), Const(b.block), b.lanes, body), *self._drain()))

    def _transform_outputs(self, lane: Expr, store: Keep) -> Iterator[Statement]:
        n, b = self.algorithm.points, self.blocking
        place = simplify(self._place() * b.block + lane)
        values: dict[tuple[int, ...], Expr] = {
            at: Load(self.m, (simplify(self._plane(Const(number_of(at, n)))), place), None, b.lanes)
            for at in product(range(n), repeat=self.dims)
        }
        lines = self.algorithm.outputs()
        for axis in range(self.dims):
            statements, values = along(axis, lines, values, b.lanes, f"{'dtv'[axis]}")
            yield from statements
        for at, value in values.items():
            yield store(at, lane, value)

    def _store(self, at: tuple[int, ...], lane: Expr, value: Expr) -> Statement:
        """The element itself, bias and activation applied."""
        return self._element(tuple(Const(i) for i in at), lane, value, self.blocking.lanes)

    def _keep(self, at: tuple[int, ...], lane: Expr, value: Expr) -> Statement:
        """The sum, in the tile's own buffer."""
        assert self.tile_out is not None
        return Store(Load(self.tile_out, (*(Const(i) for i in at), lane)), value, self.blocking.lanes)

    def _element(self, at: tuple[Expr, ...], lane: Expr, acc: Expr, lanes: int) -> Statement:
        v, block = self.c.vector, Var(f"{self.c.vector.name}_block")
        env: dict[str, Expr] = {v.name: simplify(block * self.blocking.block + lane)}
        for w, i in zip(self.conv.windows, at, strict=True):
            env[w.axis.name] = simplify(self._first(w) + i * w.dilation)
        to, value = simplify(substitute(self.c.to, env)), simplify(substitute(self.c.value, env))
        if lanes > 1:
            vectorize(to, f"{v.name}_lane", lanes)
            value = vectorize(value, f"{v.name}_lane", lanes)
        return Store(to, substitute(value, {"acc": acc}), lanes)

    def _drain(self) -> Iterator[Statement]:
        """From the tile's buffer to the image, what lies inside."""
        assert self.tile_out is not None
        b, v, features = self.blocking, self.c.vector, self.conv.features
        names = [f"{w.axis.name}_out" for w in self.conv.windows]
        index, lane = tuple(map(Var, names)), Var(f"{v.name}_lane")
        kept = Load(self.tile_out, (*index, lane))
        if self.scattered:
            each = self._over_tile(names, (self._element(index, lane, kept, 1),))
            yield For(lane.name, Const(0), self._lanes(features), 1, each)
            return
        whole = features // b.lanes * b.lanes
        if whole:
            vector = self._element(index, lane, replace(kept, lanes=b.lanes), b.lanes)
            every = For(lane.name, Const(0), self._lanes(whole), b.lanes, (vector,))
            yield from self._over_tile(names, (every,))
        if whole < features:
            yield from self._tail(names, whole % b.block, features - whole)

    def _tail(self, names: list[str], first: int, count: int) -> Iterator[Statement]:
        """The features of the last pass that do not fill a vector, `first` lanes into it."""
        assert self.tile_out is not None
        b, v = self.blocking, self.c.vector
        index, lane = tuple(map(Var, names)), Var(f"{v.name}_lane")
        stores, at = [], 0
        for n in parts(count, b.lanes):
            kept = Load(self.tile_out, (*index, simplify(lane + at)), None, n)
            stores.append(self._element(index, lane + at, kept, n))
            at += n
        body = For(lane.name, Const(first), Const(first + count), count, tuple(stores))
        block, last = Var(f"{v.name}_block"), Const(-(-self.conv.features // b.block) - 1)
        tile = substituted(self._over_tile(names, (body,)), {block.name: last}, {})
        yield from (When(equal(block, last), tile),) if last.value else tile
