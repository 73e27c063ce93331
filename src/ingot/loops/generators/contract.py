"""The contraction generator: register tiles over sums of products.

Serves convolutions, matrix products and recurrent gates alike. The roles of the axes are read off the
strides: the vector axis moves only one operand (`b`, packed in the order the loops read it when it is
constant), the tile axes move only the other (`a`, read as scalars and broadcast). Accumulators are named
vector registers, `rows` x `vectors` of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from ingot.formula.compute import Compute
from ingot.formula.evaluate import value as evaluate
from ingot.formula.expr import Array, Binary, Const, Expr, Lane, Load, Tensor, Var, select, static, substitute
from ingot.formula.index import Bounds, as_expr, interval, simplify
from ingot.formula.statements import Barrier, For, Let, Madd, Statement, Store
from ingot.loops.access import NotVectorizable, step, vectorize
from ingot.loops.axes import normal_axes
from ingot.loops.layout import Storage, bind
from ingot.loops.rewrite import substituted
from ingot.targets.record import Target

Points = list[dict[str, Expr]]
UNROLLED_TAPS = 4


@dataclass(frozen=True, slots=True)
class Contraction:
    """A matched stage: out[to] = value(sum over reduce of a * b), loads bound to physical tensors."""

    a: Load
    b: Load
    to: Load
    value: Expr
    init: Expr
    vector: Var
    tile: tuple[Var, ...]
    outer: tuple[Var, ...]
    reduce: tuple[Var, ...]
    bounds: Bounds


def contract(c: Compute, storage: Storage, target: Target, bounds: Bounds) -> tuple[Statement, ...] | None:
    """Statements for a contraction, or None if the stage is not one."""
    found = match(normal_axes(c), storage, bounds)
    if found is None:
        return None
    try:
        return _Generator(found, storage, target).statements()
    except NotVectorizable:
        return None


def match(c: Compute, storage: Storage, bounds: Bounds) -> Contraction | None:
    """Recognise a sum of products of two affine loads and give its axes their roles."""
    r = c.reduction
    if r is None or r.combine != "sum" or not r.axes or not r.term.dtype.is_float:
        return None
    if not all(isinstance(a.extent, int) for a in (*c.axes, *r.axes)):
        return None
    inner = {**bounds, **{a.name: interval(a) for a in (*c.axes, *r.axes)}}
    term = bind(r.term, storage, inner)
    if not (
        isinstance(term, Binary)
        and term.op == "mul"
        and isinstance(term.a, Load)
        and isinstance(term.b, Load)
    ):
        return None
    index = storage.layout(c.out).index(tuple(simplify(bind(i, storage, inner), inner) for i in c.index))
    to = Load(storage.tensor(c.out), tuple(simplify(i, inner) for i in index))
    for a, b in ((term.a, term.b), (term.b, term.a)):
        roles = _roles(a, b, to, c.axes)
        if roles is not None:
            vector, tile, outer = roles
            reduce = tuple(sorted(r.axes, key=lambda k: -abs(step(a, k.name) or 0)))
            value, init = bind(c.value, storage, inner), bind(r.init, storage, inner)
            return Contraction(a, b, to, value, init, vector, tile, outer, reduce, inner)
    return None


def _roles(
    a: Load, b: Load, to: Load, axes: tuple[Var, ...]
) -> tuple[Var, tuple[Var, ...], tuple[Var, ...]] | None:
    """Vector axis, tile axes (innermost last) and outer axes, with `a` broadcast and `b` as vectors."""
    moves = {x: (step(a, x.name), step(b, x.name), step(to, x.name)) for x in axes}
    if any(None in m for m in moves.values()):
        return None
    if a.tensor.value is not None and b.tensor.value is None:
        return None
    if b.tensor.type.compute is not b.tensor.type:
        return None  # a narrow float is widened one element at a time
    usable = [x for x, (p, q, _) in moves.items() if p == 0 and q != 0]
    if not usable:
        return None
    vector = min(usable, key=lambda x: (moves[x][2] != 1, moves[x][1] != 1, -static(x.extent)))
    tile = [x for x, (p, q, _) in moves.items() if p != 0 and q == 0]
    tile.sort(key=lambda x: -(moves[x][2] or 0))
    return vector, tuple(tile[-2:]), tuple(x for x in axes if x is not vector and x not in tile[-2:])


class _Generator:
    """Builds the loops of one contraction."""

    def __init__(self, c: Contraction, storage: Storage, target: Target) -> None:
        self.c, self.storage = c, storage
        self.count = static(c.vector.extent)
        item = c.b.tensor.type.compute.bytes
        self.lanes = best_lanes(self.count, max(1, target.vector_bytes // item))
        pixels = [static(x.extent) for x in c.tile]
        self.vectors, self.rows = best_tile(target, -(-self.count // self.lanes), int(np.prod(pixels or [1])))
        self.block = self.lanes * self.vectors
        self.prologue: tuple[Statement, ...] = ()
        self.weights = self._operand()

    def statements(self) -> tuple[Statement, ...]:
        c, v = self.c, self.c.vector
        full = self.count // self.block
        out: list[Statement] = []
        if full:
            body = self._tiles(self.vectors, self.lanes)
            out.append(For(v.name, Const(0), Const(full * self.block), self.block, body))
        rest = self.count - full * self.block
        if rest:
            vectors = -(-rest // self.lanes)
            env = {v.name: Const(full * self.block)}
            out += substituted(self._tiles(vectors, rest - (vectors - 1) * self.lanes), env, c.bounds)
        nest = tuple(out)
        for x in reversed(c.outer):
            nest = (For(x.name, Const(0), as_expr(x.extent or 0), 1, nest),)
        return (*self.prologue, *nest)

    # -- the vector operand

    def _operand(self) -> Load:
        """`b` in the order the loops read it: packed at compile time, as it is, or packed at run time."""
        b, v = self.c.b, self.c.vector
        whole = self.count % self.lanes == 0
        if b.tensor.value is None and step(b, v.name) == 1 and whole:
            return b
        axes = [x for x in self.c.outer if step(b, x.name) != 0]
        blocks = -(-self.count // self.block)
        extents = (blocks, *(static(x.extent) for x in (*axes, *self.c.reduce)), self.block)
        index = (v // self.block, *axes, *self.c.reduce, v % self.block)
        if b.tensor.value is not None:
            return Load(self._packed(axes, extents), index)
        packed = self.storage.scratch(b.tensor, extents)
        self.prologue = self._pack(packed, axes, extents)
        return Load(packed, index)

    def _packed(self, axes: list[Var], extents: tuple[int, ...]) -> Tensor:
        b, names = self.c.b, [x.name for x in (*axes, *self.c.reduce)]

        def pack(array: Array) -> Array:
            grid = _grid(["block", *names, "lane"], extents)
            channel = grid["block"] * self.block + grid["lane"]
            grid[self.c.vector.name] = np.minimum(channel, self.count - 1)
            read = replace(b, tensor=replace(b.tensor, value=array))
            packed = np.broadcast_to(evaluate(read, {}, grid), extents)
            return np.where(channel < self.count, packed, 0).astype(array.dtype)

        return self.storage.derived(b.tensor, (b.index, *names, extents), pack)

    def _pack(self, packed: Tensor, axes: list[Var], extents: tuple[int, ...]) -> tuple[Statement, ...]:
        """Copy `b` into scratch; lanes beyond the last channel are zero."""
        b, v = self.c.b, self.c.vector
        block, lane = Var("block", extents[0]), Var("lane", self.block)
        channel = block * self.block + lane
        read = simplify(substitute(b, {v.name: channel}), self.c.bounds)
        rest = self.count % self.block
        to = Load(packed, (block, *axes, *self.c.reduce, lane))
        zero = Const(0.0, b.tensor.type.compute)
        value = read if not rest else _guarded(channel, self.count, read, zero)
        body: tuple[Statement, ...] = (Store(to, value),)
        for x in reversed((block, *axes, *self.c.reduce, lane)):
            body = (For(x.name, Const(0), as_expr(x.extent or 0), 1, body),)
        return body

    # -- tiles

    def _tiles(self, vectors: int, last: int) -> tuple[Statement, ...]:
        """The tile axes' loops around one register tile; remainders are smaller tiles of the same kind."""
        shape = tile_shape([static(x.extent) for x in self.c.tile], self.rows)
        return tuple(self._nest(0, shape, {}, vectors, last))

    def _nest(
        self, depth: int, shape: list[int], taken: dict[str, int], vectors: int, last: int
    ) -> Iterator[Statement]:
        if depth == len(self.c.tile):
            yield from self._tile(taken, vectors, last)
            return
        x = self.c.tile[depth]
        n, size = static(x.extent), shape[depth]
        for lo, hi, part in ((0, n // size * size, size), (n // size * size, n, n % size)):
            if hi > lo:
                body = tuple(self._nest(depth + 1, shape, {**taken, x.name: part}, vectors, last))
                yield For(x.name, Const(lo), Const(hi), part, body)

    def _tile(self, sizes: dict[str, int], vectors: int, last: int) -> Iterator[Statement]:
        points = list(_points(self.c.tile, sizes))
        dtype = self.c.b.dtype
        registers = [(i, j) for i in range(len(points)) for j in range(vectors)]
        for i, j in registers:
            yield Let(f"c{i}_{j}", self.c.init, self.lanes, mutable=True)
        yield from self._reduction(points, vectors)
        for i, j in registers:
            lanes = last if j == vectors - 1 else self.lanes
            yield from self._store(points[i], j, Var(f"c{i}_{j}", None, dtype), lanes)

    def _reduction(self, points: Points, vectors: int) -> Iterator[Statement]:
        """Rolled loops over the reduction; a short innermost axis is unrolled, its taps kept apart by
        barriers.
        """
        c, inner = self.c, self.c.reduce[-1]
        short = len(c.reduce) > 1 and static(inner.extent) <= UNROLLED_TAPS
        if short:
            body: tuple[Statement, ...] = ()
            for t in range(static(inner.extent)):
                tap = substituted(
                    tuple(self._madds(points, vectors, f"_{t}")), {inner.name: Const(t)}, c.bounds
                )
                body += tap if not t else (Barrier(), *tap)
        else:
            body = (
                For(inner.name, Const(0), as_expr(inner.extent or 0), 1, tuple(self._madds(points, vectors))),
            )
        for k in reversed(c.reduce[:-1]):
            body = (For(k.name, Const(0), as_expr(k.extent or 0), 1, body),)
        yield from body

    def _madds(self, points: Points, vectors: int, suffix: str = "") -> Iterator[Statement]:
        v, dtype = self.c.vector, self.c.b.dtype
        for j in range(vectors):
            moved = simplify(substitute(self.weights, {v.name: v + j * self.lanes}), self.c.bounds)
            moved = _split(moved, v, self.block, j * self.lanes)
            yield Let(f"b{j}{suffix}", vectorize_as(moved, self.lanes), self.lanes)
        for i, point in enumerate(points):
            read = simplify(substitute(self.c.a, point), self.c.bounds)
            yield Let(f"a{i}{suffix}", read)
            for j in range(vectors):
                a, b = Var(f"a{i}{suffix}", None, dtype), Var(f"b{j}{suffix}", None, dtype)
                yield Madd(f"c{i}_{j}", a, b, self.lanes)

    def _store(self, point: dict[str, Expr], j: int, acc: Var, lanes: int) -> Iterator[Statement]:
        """Epilogue and store of one accumulator, lane by lane where a vector cannot be stored."""
        v = self.c.vector
        env = {**point, v.name: v + j * self.lanes}
        to = simplify(substitute(self.c.to, env), self.c.bounds)
        assert isinstance(to, Load)
        value = simplify(substitute(self.c.value, env), self.c.bounds)
        if lanes == self.lanes:
            try:
                vectorize(to, v.name, lanes)
                whole = vectorize(value, v.name, lanes)
            except NotVectorizable:
                pass
            else:
                yield Store(to, substitute(whole, {"acc": acc}), lanes)
                return
        for lane in range(lanes):
            one = {v.name: v + lane, "acc": Lane(acc, lane) if self.lanes > 1 else acc}
            at = simplify(substitute(to, one), self.c.bounds)
            assert isinstance(at, Load)
            yield Store(at, simplify(substitute(value, one), self.c.bounds))


def best_lanes(count: int, most: int) -> int:
    """Vector width for `count` channels: least padding, counting a vector of up to 8 lanes as 8."""
    widths = [n for n in (64, 32, 16, 8, 4, 2) if n <= most]
    if not widths or count == 1:
        return 1
    return min(widths, key=lambda n: (-(-count // n) * max(n, 8), -n))


def best_tile(target: Target, vectors: int, pixels: int) -> tuple[int, int]:
    """(vectors, rows) of accumulators: the target's tile, reshaped where one side is too short to fill it."""
    rows, wide = target.tile
    room = rows * wide
    if pixels < rows:
        wide = min(vectors, max(wide, min(8, room // max(pixels, 1))))
    wide = min(wide, vectors)
    wide = next((n for n in range(wide, 0, -1) if vectors % n == 0 and 2 * n > wide), wide)
    return wide, max(1, min(pixels, room // wide if wide < target.tile[1] else rows))


def tile_shape(extents: list[int], rows: int) -> list[int]:
    """How a tile of about `rows` points spreads over the tile axes, innermost first, remainders balanced."""
    shape = []
    for n in reversed(extents):
        take = min(n, max(1, rows))
        take = -(-n // -(-n // take))
        shape.append(take)
        rows //= take
    return shape[::-1]


def vectorize_as(load: Expr, lanes: int) -> Expr:
    assert isinstance(load, Load)
    return Load(load.tensor, load.index, None, lanes)


def _split(e: Expr, v: Var, block: int, offset: int) -> Expr:
    """v starts at a multiple of the block: (v + j) // block == v // block, (v + j) % block == j."""
    assert isinstance(e, Load)

    def place(i: Expr) -> Expr:
        match i:
            case Binary("mod", _, Const(k, _)) if k == block:
                return Const(offset)
            case Binary("floordiv", _, Const(k, _)) if k == block:
                return v // block
        return i

    return Load(e.tensor, tuple(map(place, e.index)))


def _points(axes: tuple[Var, ...], sizes: dict[str, int]) -> Iterator[dict[str, Expr]]:
    if not axes:
        yield {}
        return
    first, *rest = axes
    for i in range(sizes[first.name]):
        for point in _points(tuple(rest), sizes):
            yield {first.name: first + i, **point}


def _grid(names: list[str], extents: tuple[int, ...]) -> dict[str, Array]:
    return dict(zip(names, np.ogrid[tuple(slice(n) for n in extents)], strict=True))


def _guarded(channel: Expr, count: int, read: Expr, zero: Expr) -> Expr:
    return select(channel < count, read, zero)
