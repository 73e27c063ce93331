"""Narrow convolutions: so few channels that a vector holds several points of all of them.

    8 channels, 16 lanes:    y[oh, 2p .. 2p+1, 0 .. 8]  +=  (x x x x x x x x X X X X X X X X) * (w w)

The outputs of neighbouring points lie side by side in memory, so a vector of them is stored as it is. Its
inputs are a few elements, each repeated for all channels: made once by a shuffle and used for every tap they
feed, all taps of a tile of outputs being unrolled. Weights are repeated at compile time.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod

import numpy as np

from ingot.formula.compute import Compute
from ingot.formula.evaluate import grid_over
from ingot.formula.evaluate import value as evaluate
from ingot.formula.expr import (
    Array,
    Const,
    Expr,
    Load,
    Shuffle,
    Tensor,
    Var,
    static,
    substitute,
    transform,
    walk,
)
from ingot.formula.index import Bounds, as_expr, interval, simplify
from ingot.formula.statements import Barrier, For, Let, Madd, Statement, Store
from ingot.loops.access import NotVectorizable, step, strides
from ingot.loops.axes import normal_axes
from ingot.loops.cuts import balanced, in_vectors
from ingot.loops.kernels.windows.narrow_match import NarrowConvolution, match
from ingot.loops.kernels.windows.sliding_window import in_memory_order
from ingot.loops.layout import Storage
from ingot.targets.record import Target

MOST_STATEMENTS = 240  # multiply-adds of one tile: keeps the code readable
MOST_ROWS, MOST_GROUPS, MOST_OUTPUTS = 6, 4, 12
BETWEEN_BARRIERS = 12
CHAINS = 6  # accumulators below which each waits for itself

Point = dict[str, Expr]


def narrow_convolution(
    c: Compute, storage: Storage, target: Target, bounds: Bounds
) -> tuple[Statement, ...] | None:
    """Statements for a convolution to few channels, or None if the stage is not one."""
    found = match(normal_axes(c), storage, bounds)
    if found is None:
        return None
    lanes = target.lanes(found.x.dtype.bytes)
    side = lanes >> (static(found.channel.extent) - 1).bit_length()
    if side < 2 or static(found.across.extent) < side:
        return None
    if side == 2 and (step(found.x, found.across.name) or 0) >= lanes:
        return None  # `contract` multiplies half vectors twice as often, and has no inputs to join
    try:
        return _Generator(found, storage, target, lanes, side).statements()
    except NotVectorizable:
        return None


class _Generator:
    """Builds the loops of one stage; `side` points stand side by side in a vector of `lanes`.

    Each has `channels` lanes: a power of two, so that some may be idle.
    """

    def __init__(self, p: NarrowConvolution, storage: Storage, target: Target, lanes: int, side: int) -> None:
        self.p, self.storage, self.lanes, self.side = p, storage, lanes, side
        self.channels, self.count = lanes // side, static(p.channel.extent)
        self.apart = step(p.x, p.across.name) or 0
        taps = prod(static(k.extent) for k in p.window)
        self.places: list[Point] = [
            {k.name: Const(i) for k, i in zip(p.window, at, strict=True)}
            for at in product(*(range(static(k.extent)) for k in p.window))
        ]
        self.rows, self.groups = self._best_tile(target)
        self.keeps = self.rows * self.groups + taps + 4 <= target.registers
        self.weights = self._packed()

    # -- the shape of a tile

    def _best_tile(self, target: Target) -> tuple[int, int]:
        """Rows and groups of a tile that take the fewest cycles: two multiply-adds or two loads go in one."""
        p = self.p
        offsets = [step(p.x, k.name) or 0 for k in p.window]
        taps = [
            sum(i * s for i, s in zip(at, offsets, strict=True))
            for at in product(*(range(static(k.extent)) for k in p.window))
        ]
        height = 1 if p.down is None else static(p.down.extent)
        width = -(-static(p.across.extent) // self.side)
        down = 0 if p.down is None else step(p.x, p.down.name) or 0
        best, shape = float("inf"), (1, 1)
        for rows, groups in product(range(1, MOST_ROWS + 1), range(1, MOST_GROUPS + 1)):
            outputs = rows * groups
            too_big = (
                outputs > min(MOST_OUTPUTS, target.registers - 6) or outputs * len(taps) > MOST_STATEMENTS
            )
            if rows > height or groups > width or (outputs > 1 and too_big):
                continue
            cycles = 0.0
            for (r, n), (g, m) in product(_tiles(height, rows), _tiles(width, groups)):
                reads = {
                    i * down + j * self.side * self.apart + t
                    for i in range(r)
                    for j in range(g)
                    for t in taps
                }
                kept = r * g + len(taps) + 4 <= target.registers
                loaded = 2 * len(reads) + (len(taps) if kept else r * g * len(taps))
                busy = max(max(r * g, CHAINS) * len(taps), loaded) / 2
                cycles += n * m * (busy + len(reads) / 2 + r * g + 3)
            if cycles < best:
                best, shape = cycles, (rows, groups)
        return shape

    # -- constants

    def _packed(self) -> Load:
        """The weights as the loops read them: for each term a vector, once for each point."""
        p, terms = self.p, (*self.p.rolled, *self.p.window)
        return Load(self._repeated(p.w, terms), (*terms, Const(0)))

    def _repeated(self, load: Load, axes: tuple[Var, ...] = ()) -> Tensor:
        """A constant's elements for all channels, once for each point of a vector."""
        extents = (*(static(a.extent) for a in axes), self.lanes)

        def make(array: Array) -> Array:
            names = [*(a.name for a in axes), self.p.channel.name]
            grid = grid_over(names, extents)
            lane = grid[self.p.channel.name] % self.channels
            grid[self.p.channel.name] = np.minimum(lane, self.count - 1)
            read = Load(Tensor(load.tensor.name, load.tensor.type, array.shape, array), load.index)
            repeated = np.broadcast_to(evaluate(read, {}, grid), extents)
            return np.where(lane < self.count, repeated, 0).astype(array.dtype)

        return self.storage.derived(load.tensor, ("narrow", load.index, axes, extents), make)

    # -- loops

    def statements(self) -> tuple[Statement, ...]:
        p = self.p
        body = tuple(self._down())
        if self.keeps and not p.rolled:
            body = (*self._kept(), *body)
        for a in sorted(p.outer, key=lambda a: step(p.to, a.name) or 0):
            body = (For(a.name, Const(0), as_expr(a.extent or 0), 1, body),)
        return body

    def _kept(self) -> Iterator[Statement]:
        """The weights of all taps of the window, in registers."""
        for i, place in enumerate(self.places):
            yield Let(f"w{i}", self._weight(place), self.lanes)

    def _weight(self, place: Point) -> Expr:
        read = simplify(substitute(self.weights, place), self.p.bounds)
        assert isinstance(read, Load)
        return Load(read.tensor, read.index, None, self.lanes)

    def _down(self) -> Iterator[Statement]:
        a = self.p.down
        if a is None:
            yield from self._across(1, self.p.bounds)
            return
        for lo, hi, rows in _loops(static(a.extent), self.rows):
            inner = {**self.p.bounds, a.name: (lo, hi - rows)}
            yield For(a.name, Const(lo), Const(hi), rows, tuple(self._across(rows, inner)))

    def _across(self, rows: int, bounds: Bounds) -> Iterator[Statement]:
        """Groups of points; what is left over is one group that repeats some points of its neighbour."""
        a, n = self.p.across, static(self.p.across.extent)
        for lo, hi, groups in _loops(n // self.side, self.groups):
            first, end, stride = lo * self.side, hi * self.side, groups * self.side
            body = self._tile(rows, groups, {**bounds, a.name: (first, end - stride)})
            yield For(a.name, Const(first), Const(end), stride, tuple(body))
        if n % self.side:
            last = n - self.side
            body = self._tile(rows, 1, {**bounds, a.name: (last, last)})
            yield For(a.name, Const(last), Const(n), self.side, tuple(body))

    # -- one tile

    def _tile(self, rows: int, groups: int, bounds: Bounds) -> Iterator[Statement]:
        p, cells = self.p, list(product(range(rows), range(groups)))
        at = [self._moved(i, j) for i, j in cells]
        for n in range(len(cells)):
            yield Let(f"c{n}", p.init, self.lanes, True)
        body = tuple(self._terms(at, bounds))
        if self.keeps and p.rolled:
            body = (*self._kept(), *body)
        for k in reversed(p.rolled):
            body = (For(k.name, Const(0), as_expr(k.extent or 0), 1, body),)
        yield from body
        for n, point in enumerate(at):
            value = self._epilogue(simplify(substitute(p.value, point), bounds))
            yield from self._stores(
                n, point, substitute(value, {"acc": Var(f"c{n}", None, p.x.dtype)}), bounds
            )

    def _stores(self, n: int, point: Point, value: Expr, bounds: Bounds) -> Iterator[Statement]:
        """The vector as it is, or without the idle lanes of each of its points."""
        made = Var(f"r{n}", None, value.dtype)
        if self.count == self.channels:
            yield Store(self._target(point, 0, 0, bounds), value, self.lanes)
            return
        yield Let(made.name, value, self.lanes)
        for i in range(self.side):
            for first, end, width in in_vectors(self.count, self.channels, overlap=True):
                for lane in range(first, end, width):
                    begin = i * self.channels + lane
                    part = Shuffle(made, made, tuple(range(begin, begin + width)))
                    yield Store(self._target(point, i, lane, bounds), part, width)

    def _target(self, point: Point, i: int, lane: int, bounds: Bounds) -> Load:
        """Where a channel of the i-th point from `point` is stored."""
        p = self.p
        moved = {**point, p.across.name: point[p.across.name] + i, p.channel.name: Const(lane)}
        to = simplify(substitute(p.to, moved), bounds)
        assert isinstance(to, Load)
        return to

    def _moved(self, row: int, group: int) -> Point:
        p = self.p
        point: Point = {p.across.name: p.across + group * self.side}
        return point if p.down is None else {p.down.name: p.down + row, **point}

    def _terms(self, at: list[Point], bounds: Bounds) -> Iterator[Statement]:
        """Every vector of inputs once, in the order it lies in memory, with all its uses."""
        uses: dict[Load, list[tuple[int, int]]] = {}
        for tap, place in enumerate(self.places):
            for n, point in enumerate(at):
                read = simplify(substitute(self.p.x, {**point, **place}), bounds)
                assert isinstance(read, Load)
                uses.setdefault(read, []).append((n, tap))
        for i, read in enumerate(sorted(uses, key=in_memory_order)):
            if i % BETWEEN_BARRIERS == BETWEEN_BARRIERS - 1 and not self.keeps:
                yield Barrier()  # or the compiler keeps weights for uses far away, and spills
            x = Var(f"x{i}", None, read.dtype)
            yield from self._spread(read, x.name, bounds)
            for n, tap in uses[read]:
                kept = Var(f"w{tap}", None, read.dtype) if self.keeps else self._weight(self.places[tap])
                yield Madd(f"c{n}", x, kept, self.lanes)

    def _spread(self, read: Load, name: str, bounds: Bounds) -> Iterator[Statement]:
        """The element of each point, repeated for all channels."""
        picks = [i * self.apart for i in range(self.side)]
        width = max(4, 1 << picks[-1].bit_length())
        if width <= self.lanes and _is_followed(read, bounds, width):
            few = Var(f"{name}_0", None, read.dtype)
            yield Let(few.name, Load(read.tensor, read.index, None, width), width)
            repeated = tuple(i for i in picks for _ in range(self.channels))
            yield Let(name, Shuffle(few, few, repeated), self.lanes)
            return
        parts: list[Expr] = []
        for i in range(self.side):
            one = simplify(substitute(read, {self.p.across.name: self.p.across + i}), bounds)
            parts.append(Var(f"{name}_{i}", None, read.dtype))
            yield Let(f"{name}_{i}", one, self.channels)
        width = self.channels
        while len(parts) > 1:
            width *= 2
            pairs = zip(parts[::2], parts[1::2], strict=True)
            parts = [Shuffle(a, b, tuple(range(width))) for a, b in pairs]
        yield Let(name, parts[0], self.lanes)

    # -- results

    def _epilogue(self, value: Expr) -> Expr:
        """The value for all channels of all points of a vector."""
        channel, across = self.p.channel.name, self.p.across.name

        def vector(e: Expr) -> Expr | None:
            if isinstance(e, Var) and e.name in (channel, across):
                raise NotVectorizable(f"{e.name} itself is a value")
            if not isinstance(e, Load):
                return None
            moved = (step(e, channel), step(e, across))
            if moved == (0, 0):
                return e
            if moved == (1, self.channels) and self.count == self.channels:
                first = simplify(substitute(e, {channel: Const(0)}))
                assert isinstance(first, Load)
                return Load(first.tensor, first.index, None, self.lanes)
            if moved[1] == 0 and e.tensor.value is not None and all(_only(i, channel) for i in e.index):
                return Load(self._repeated(e), (Const(0),), None, self.lanes)
            raise NotVectorizable(f"{e.tensor.name} moves by {moved}")

        return transform(value, vector)


def _only(i: Expr, name: str) -> bool:
    """Whether an index is a constant but for one variable."""
    return all(not isinstance(n, Var) or n.name == name for n in walk(i))


def _is_followed(read: Load, bounds: Bounds, width: int) -> bool:
    """Whether at least `width` elements stand in the tensor from the farthest on that a read reaches.

    What stands inside another tensor, or has no end before run time, is not read across its rows.
    """
    sizes = strides(read.tensor)
    if sizes is None or read.tensor.pitch is not None:
        return False
    last = sum(interval(i, bounds)[1] * s for i, s in zip(read.index, sizes, strict=True))
    return last + width <= read.tensor.count


def _loops(n: int, size: int) -> Iterator[tuple[int, int, int]]:
    """From, to and step of the loops over n things in tiles of about `size`."""
    part = balanced(n, size)
    full = n // part * part
    yield 0, full, part
    if full < n:
        yield full, n, n - full


def _tiles(n: int, size: int) -> list[tuple[int, int]]:
    """The tiles of n things: size and how many."""
    return [(part, (hi - lo) // part) for lo, hi, part in _loops(n, size)]
