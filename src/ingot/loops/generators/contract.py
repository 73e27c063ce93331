"""The contraction generator: register tiles over sums of products.

Serves convolutions, matrix products and recurrent gates alike; `roles` says which axis does what, `tiles`
how large a register tile is. Accumulators are named vector registers, `rows` x `vectors` of them. `b` is
packed in the order the loops read it when it is constant, or when it does not run along its vectors.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

import numpy as np

from ingot.formula.compute import Compute
from ingot.formula.evaluate import value as evaluate
from ingot.formula.expr import (
    Array,
    Binary,
    Const,
    Expr,
    Lane,
    Load,
    Tensor,
    Var,
    cast,
    select,
    static,
    substitute,
)
from ingot.formula.index import Bounds, as_expr, simplify
from ingot.formula.statements import Assign, Barrier, For, Let, Madd, Prefetch, Remark, Statement, Store
from ingot.formula.types import INT32, UINT8
from ingot.loops.access import NotVectorizable, step, vectorize
from ingot.loops.axes import normal_axes
from ingot.loops.cuts import parts, pieces
from ingot.loops.generators.codes import TAKEN, Codes, codes_for
from ingot.loops.generators.roles import Contraction, match, merge_points, merge_terms
from ingot.loops.generators.tiles import (
    AHEAD,
    CHAINS,
    LINE,
    Segment,
    Sizes,
    Tile,
    best_tile,
    is_by_element,
    segments,
    terms_a_turn,
    tile_shape,
)
from ingot.loops.layout import Storage
from ingot.loops.nearby import Place, placer
from ingot.targets.record import Target

UNROLLED_TAPS = 4
Taken = dict[str, tuple[int, int]]  # where a run of equal pieces of a tile axis begins, and their size
Levels = tuple[Var | None, ...]  # tile axes in the order of their loops; None stands for the channels


def contract(
    c: Compute,
    storage: Storage,
    target: Target,
    bounds: Bounds,
    tile: Tile | None = None,
    by_codes: bool = False,
    far: bool = False,
) -> tuple[Statement, ...] | None:
    """Statements for a contraction, or None if the stage is not one; `tile` None: the one of least cost.

    `by_codes`: encoded weights are read as codes of their values. `far`: constant ones have left the nearer
    caches since they were last read.
    """
    found = _prepared(c, storage, target, bounds)
    if found is None:
        return None
    codes = codes_for(found[0], storage, target) if by_codes else None
    try:
        return _Generator(*found, storage, target, tile, codes, far).statements()
    except NotVectorizable:
        return None


def contraction_sizes(c: Compute, storage: Storage, target: Target) -> Sizes | None:
    """What the tile of a contraction depends on, or None if the stage is not one."""
    found = _prepared(c, storage, target, {})
    return None if found is None else _sizes(found[0], target)


def _prepared(
    c: Compute, storage: Storage, target: Target, bounds: Bounds
) -> tuple[Contraction, bool] | None:
    """The contraction with its loops merged and its tile axes chosen, and whether it goes by rows."""
    found = match(normal_axes(c), storage, bounds)
    if found is None:
        return None
    found = merge_terms(found, storage)
    by_rows = _is_by_rows(found, target)
    if not by_rows:
        found = merge_points(found, storage)
    tile = found.tile[-2:]
    return replace(found, tile=tile, outer=(*found.outer, *(x for x in found.tile if x not in tile))), by_rows


def _sizes(c: Contraction, target: Target) -> Sizes:
    lanes = max(1, target.vector_bytes // c.b.dtype.bytes)
    strides = tuple((step(c.a, x.name) or 0) * c.b.dtype.bytes for x in c.tile)
    return Sizes(c.channels, lanes, c.points, c.terms, strides)


def _is_by_rows(c: Contraction, target: Target) -> bool:
    """Whether the outermost tile axis goes around the channels: the weights stay near, all else is far.

    Otherwise each block of channels goes through all points, and its weights are read from afar once.
    """
    item = c.b.dtype.bytes
    room = target.caches[1] // 2
    weights, rest = c.channels * c.terms * item, c.a.tensor.bytes + c.to.tensor.bytes
    return len(c.tile) > 1 and weights <= room < rest


class _Generator:
    """Builds the loops of one contraction."""

    def __init__(
        self,
        c: Contraction,
        by_rows: bool,
        storage: Storage,
        target: Target,
        tile: Tile | None,
        codes: Codes | None = None,
        far: bool = False,
    ) -> None:
        self.c, self.storage, self.target, self.codes, self.is_far = c, storage, target, codes, far
        sizes = _sizes(c, target)
        self.lanes = sizes.lanes
        room = target if codes is None else replace(target, registers=target.registers - TAKEN)
        self.tile = tile or best_tile(room, sizes)
        self.shape = dict(zip(c.tile, tile_shape(c.points, self.tile.rows), strict=True))
        self.is_packed = not (self._is_in_order() and self._registers(True) == self._registers(False))
        self.levels: Levels = (c.tile[0], None, *c.tile[1:]) if by_rows else (None, *c.tile)
        self.prologue: tuple[Statement, ...] = ()
        self.operands = {s: self._operand(s) for s in self._segments(not self.is_packed)}
        self.chains = self._chains()

    def _chains(self) -> int:
        """How many sums of every accumulator are in flight, where the tile has few accumulators.

        The same for what is left over beside the tile: all channels add in one order, equal ones are equal.
        """
        accumulators = prod(self.shape.values()) * max(len(s.widths) for s in self.operands)
        if accumulators > CHAINS // 2:
            return 1
        return max(1, min(CHAINS // accumulators, static(self.c.reduce[-1].extent) // 8))

    def _is_in_order(self) -> bool:
        """Whether `b` can be read where it is, along its vectors."""
        return self.c.b.tensor.value is None and step(self.c.b, self.c.vector.name) == 1

    def _registers(self, exact: bool) -> int:
        return sum(s.blocks * len(s.widths) for s in self._segments(exact))

    def _segments(self, exact: bool) -> tuple[Segment, ...]:
        found = segments(self.c.channels, self.lanes, self.tile.vectors, exact)
        if self.codes is None:
            return found
        return tuple(replace(s, widths=(self.lanes,) * len(s.widths)) for s in found)  # as look-ups are

    def statements(self) -> tuple[Statement, ...]:
        nest = tuple(self._nest(self.levels, {}, None))
        for x in reversed(self.c.outer):
            nest = (For(x.name, Const(0), as_expr(x.extent or 0), 1, nest),)
        if self.codes is None:
            return (*self.prologue, *nest)
        size = self.c.channels * self.c.terms
        shape = f"{self.c.channels}x{self.c.terms}"
        bits = 4 if self.codes.shared else 8
        note = Remark(f"{self.c.b.tensor.name}: {shape} as codes of {bits} bits; {size * bits // 8:,} bytes")
        return (note, *self.prologue, *self.codes.table(), *nest)

    def _nest(self, levels: Levels, taken: Taken, segment: Segment | None) -> Iterator[Statement]:
        """The loops around one register tile; what is left over are smaller tiles of the same kind."""
        if not levels:
            assert segment is not None
            yield from _Tile(self, segment, taken).statements()
            return
        x, *inner = levels
        if x is None:
            for s in self.operands:
                body = tuple(self._nest(tuple(inner), taken, s))
                yield For(self.c.vector.name, Const(s.first), Const(s.end), s.size, body)
            return
        for lo, hi, part in pieces(static(x.extent), self.shape[x]):
            body = tuple(self._nest(tuple(inner), {**taken, x.name: (lo, part)}, segment))
            yield For(x.name, Const(lo), Const(hi), part, body)

    # -- the vector operand

    def _operand(self, s: Segment) -> Load:
        """`b` in the order the loops read it: packed at compile time, as it is, or packed at run time."""
        b, v = self.c.b, self.c.vector
        if not self.is_packed:
            return b
        axes = [x for x in self.c.outer if step(b, x.name) != 0]
        if b.tensor.value is not None:  # packed once, for all turns of the loops around
            if not all(isinstance(x.extent, int) for x in self.c.around):
                raise NotVectorizable(f"{b.tensor.name} moves with an axis of unknown extent")
            axes += self.c.around
        extents = (s.blocks, *(static(x.extent) for x in (*axes, *self.c.reduce)), s.size)
        block = v // s.size if s.blocks > 1 else Const(0)
        index = (block, *axes, *self.c.reduce, Const(0))
        if b.tensor.value is not None:
            return Load(self._packed(axes, extents, s), index)
        packed = self.storage.scratch(b.tensor, extents)
        self.prologue += self._pack(packed, axes, s)
        return Load(packed, index)

    def _packed(self, axes: list[Var], extents: tuple[int, ...], s: Segment) -> Tensor:
        b, names = self.c.b, [x.name for x in (*axes, *self.c.reduce)]
        last = self.c.channels - 1

        def pack(array: Array) -> Array:
            grid = _grid(["block", *names, "lane"], extents)
            channel = grid["block"] * s.size + grid["lane"] + s.first
            grid[self.c.vector.name] = np.minimum(channel, last)
            read = replace(b, tensor=replace(b.tensor, value=array))
            packed = np.broadcast_to(evaluate(read, {}, grid), extents)
            if self.codes is not None:
                return self.codes.packed(packed, channel <= last, self.lanes)
            return np.where(channel <= last, packed, 0).astype(array.dtype)

        how = (b.index, *names, extents, s.first)
        if self.codes is not None:
            return self.storage.derived(b.tensor, (*how, "codes"), pack, UINT8, "codes")
        return self.storage.derived(b.tensor, how, pack)

    def _pack(self, packed: Tensor, axes: list[Var], s: Segment) -> tuple[Statement, ...]:
        """Copy `b` into scratch; lanes beyond the last channel are zero."""
        b, v = self.c.b, self.c.vector
        block, lane = Var("block", s.blocks), Var("lane", s.size)
        channel = simplify(block * s.size + lane + s.first)
        read = simplify(substitute(b, {v.name: channel}), self.c.bounds)
        to = Load(packed, (block, *axes, *self.c.reduce, lane))
        if s.channels < s.size:
            read = select(channel < self.c.channels, read, Const(0.0, b.tensor.type.compute))
        body: tuple[Statement, ...] = (Store(to, read),)
        for x in reversed((block, *axes, *self.c.reduce, lane)):
            body = (For(x.name, Const(0), as_expr(x.extent or 0), 1, body),)
        return body


class _Tile:
    """The statements of one register tile: some points by one block of channels."""

    def __init__(self, g: _Generator, segment: Segment, taken: Taken) -> None:
        self.c, self.segment, self.codes = g.c, segment, g.codes
        self.points = list(_points(self.c.tile, {name: n for name, (_, n) in taken.items()}))
        self.lanes, self.is_packed, self.weights = g.lanes, g.is_packed, g.operands[segment]
        self.ahead = self._ahead(g, taken)
        names = [x.name for x in self.c.tile]
        self.read = placer(self.c.a, names, self.c.bounds)
        self.names = names
        self.chains = g.chains
        inner, tile = g.c.reduce[-1], Tile(len(self.points), len(segment.widths))
        is_row = step(g.c.a, inner.name) == 1 and static(inner.extent) >= g.lanes
        self.is_by_element = is_row and is_by_element(g.target, g.lanes, tile)
        turn = g.lanes if self.is_by_element else terms_a_turn(g.target, tile, static(inner.extent))
        self.turn = max(g.chains, turn)

    def _ahead(self, g: _Generator, taken: Taken) -> tuple[Prefetch, ...]:
        """What to ask for at each term: what comes a little later if the weights are read once; else one
        line of the next block's, another one for each tile that goes through this block.
        """
        c, w = self.c, self.weights
        lines = range(0, self.segment.size, LINE // c.b.dtype.bytes)
        if c.b.tensor.value is None or g.levels[0] is not None:
            return ()
        if self.codes is not None:
            return (Prefetch(replace(w, index=(*w.index[:-1], Const(0))), AHEAD),)
        if not c.tile:
            at = (replace(w, index=(*w.index[:-1], Const(i))) for i in lines)
            far = c.b.tensor.bytes > g.target.caches[2] // 4 * 3
            return tuple(Prefetch(x, AHEAD) for x in at) if far else ()
        if not g.is_far or self.segment.blocks == 1 or self.segment.size * c.b.dtype.bytes < LINE:
            return ()
        turn: Expr = Const(0)
        for x in c.tile:
            lo, n = taken[x.name]
            turn = turn + (x - lo) // n
        line = simplify(turn % len(lines), c.bounds) * lines.step
        size = self.segment.size * c.terms * c.b.dtype.bytes
        return (Prefetch(replace(w, index=(*w.index[:-1], line)), size, 2),)

    def statements(self) -> Iterator[Statement]:
        zero = Const(0.0, self.c.init.dtype)
        for u in range(self.chains):
            for i in range(len(self.points)):
                for j, width in enumerate(self.segment.widths):
                    yield Let(_register(i, j, u), zero if u else self.c.init, width, mutable=True)
        yield from self._reduction()
        for u in range(1, self.chains):
            for i in range(len(self.points)):
                for j, width in enumerate(self.segment.widths):
                    name = _register(i, j)
                    both = Binary("add", self._accumulator(i, j), self._accumulator(i, j, u))
                    yield Assign(name, both, width)
        for j in range(len(self.segment.widths)):
            yield from self._stores(j)

    def _accumulator(self, i: int, j: int, u: int = 0) -> Var:
        return Var(_register(i, j, u), None, self.c.b.dtype)

    def _reduction(self) -> Iterator[Statement]:
        """Rolled loops over the reduction; a short innermost axis is unrolled, its taps kept apart by
        barriers, so that no value is carried from one to the next.
        """
        inner = self.c.reduce[-1]
        count = static(inner.extent)
        body: list[Statement] = []
        if len(self.c.reduce) > 1 and count <= UNROLLED_TAPS:
            for t in range(count):
                body += [Barrier()] if t else []
                body += self._madds(f"_{t}", inner, Const(t))
        else:
            body += self._turns(inner, count)
        for k in reversed(self.c.reduce[:-1]):
            body = [For(k.name, Const(0), as_expr(k.extent or 0), 1, tuple(body))]
        yield from body

    def _turns(self, inner: Var, count: int) -> Iterator[Statement]:
        """The loop over the terms. Neighbouring ones go to accumulators of their own where there are few: one
        chain would wait for itself.
        """
        whole = count // self.turn * self.turn
        body: list[Statement] = []
        for u in range(self.turn):
            if self.is_by_element and u % self.lanes == 0:
                body += self._values(inner, u)
            elif u and self.chains == 1 and not self.is_by_element:
                body.append(Barrier())
            body += self._madds(f"_{u}" if u else "", inner, inner + u if u else inner, u)
        yield For(inner.name, Const(0), Const(whole), self.turn, tuple(body))
        if whole < count:
            rest = tuple(self._madds("", inner, inner))
            yield For(inner.name, Const(whole), Const(count), 1, rest)

    def _values(self, inner: Var, u: int) -> Iterator[Statement]:
        """What the terms from the u-th of a turn on multiply, of every point in a vector."""
        for i, point in enumerate(self.points):
            read = self.read(point)
            assert isinstance(read, Load)
            at = self._at(read, {inner.name: inner + u} if u else {})
            yield Let(f"v{i}_{u}", replace(at, lanes=self.lanes), self.lanes)

    def _madds(self, suffix: str, inner: Var, at: Expr, u: int | None = None) -> Iterator[Statement]:
        """All products of one term, which stands at `at` along the innermost reduction axis.

        It is the u-th of a turn of the loop, if any. Where the last register is narrower, it takes the first
        lanes of what is repeated for the others.
        """
        dtype, widths = self.c.b.dtype, self.segment.widths
        shared = max(widths) if len(set(widths)) > 1 else 1
        term = {} if at is inner else {inner.name: at}
        for p in self.ahead:
            yield replace(p, at=self._at(p.at, term))
        for j, width in enumerate(widths):
            yield from self._loaded(j, width, suffix, term)
        for i, point in enumerate(self.points):
            yield Let(f"a{i}{suffix}", self._value(i, point, term, u), shared)
            a = Var(f"a{i}{suffix}", None, dtype)
            for j, width in enumerate(widths):
                some = Lane(a, 0, width) if width < shared else a
                to = _register(i, j, (u or 0) % self.chains)
                yield Madd(to, some, Var(f"b{j}{suffix}", None, dtype), width)

    def _value(self, i: int, point: dict[str, int], term: dict[str, Expr], u: int | None) -> Expr:
        """What a term of the i-th point multiplies: an element of what a turn loaded, or loaded by itself."""
        if self.is_by_element and u is not None:
            first = u // self.lanes * self.lanes
            return Lane(Var(f"v{i}_{first}", None, self.c.b.dtype), u - first)
        read = self.read(point)
        assert isinstance(read, Load)
        return self._at(read, term)

    def _loaded(self, j: int, width: int, suffix: str, term: dict[str, Expr]) -> Iterator[Statement]:
        """Register j of the block's weights; two registers share the bytes of their codes."""
        if self.codes is None:
            yield Let(f"b{j}{suffix}", self._weights(j, width, term), width)
            return
        sharing = 2 if self.codes.shared else 1
        name = f"q{j // sharing}{suffix}"
        if j % sharing == 0:
            w = self.weights
            at = replace(w, index=(*w.index[:-1], Const(j // sharing * width)), lanes=width)
            yield Let(name, cast(self._at(at, term), INT32), width)
        half = self.codes.half(Var(name, None, INT32), j)
        yield Let(f"b{j}{suffix}", self.codes.value(half), width)

    def _at(self, load: Load, term: dict[str, Expr]) -> Load:
        moved = simplify(substitute(load, term), self.c.bounds) if term else load
        assert isinstance(moved, Load)
        return moved

    def _weights(self, j: int, width: int, term: dict[str, Expr]) -> Load:
        """Register j of the block, of the term that `term` says."""
        w, offset, v = self.weights, sum(self.segment.widths[:j]), self.c.vector
        if self.is_packed:
            return self._at(replace(w, index=(*w.index[:-1], Const(offset)), lanes=width), term)
        return self._at(replace(w, lanes=width), {v.name: v + offset, **term})

    # -- the results

    def _stores(self, j: int) -> Iterator[Statement]:
        """Epilogue and stores of the j-th register of every point, in parts where not all of it is stored."""
        s, width = self.segment, self.segment.widths[j]
        offset = sum(s.widths[:j])
        valid = min(width, s.channels - offset)
        pieces_ = (width,) if valid == width else parts(valid, width)
        made = self._epilogues(offset, pieces_) or self._epilogues(offset, (1,) * valid) or ()
        for i, point in enumerate(self.points):
            acc = self._accumulator(i, j)
            for first, lanes, to, value in made:
                stored = acc if lanes == width else Lane(acc, first, lanes)
                at = to(point)
                assert isinstance(at, Load)
                yield Store(at, substitute(value(point), {"acc": stored}), lanes)

    def _epilogues(self, offset: int, pieces_: tuple[int, ...]) -> list[tuple[int, int, Place, Place]] | None:
        """(first lane, lanes, target, value) for each part of a register; None where a vector cannot be."""
        c, v = self.c, self.c.vector
        out, first = [], 0
        for lanes in pieces_:
            moved = placer(c.to, [v.name], c.bounds), placer(c.value, [v.name], c.bounds)
            to, value = (at({v.name: offset + first}) for at in moved)
            if lanes > 1:
                try:
                    vectorize(to, v.name, lanes)
                    value = vectorize(value, v.name, lanes)
                except NotVectorizable:
                    return None
            places = placer(to, self.names, c.bounds), placer(value, self.names, c.bounds)
            out.append((first, lanes, *places))
            first += lanes
        return out


def _register(i: int, j: int, chain: int = 0) -> str:
    return f"c{i}_{j}_{chain}" if chain else f"c{i}_{j}"


def _points(axes: tuple[Var, ...], sizes: dict[str, int]) -> Iterator[dict[str, int]]:
    """Offsets of the points of a tile from its first, the innermost axis running fastest."""
    if not axes:
        yield {}
        return
    first, *rest = axes
    for i in range(sizes[first.name]):
        for point in _points(tuple(rest), sizes):
            yield {first.name: i, **point}


def _grid(names: list[str], extents: tuple[int, ...]) -> dict[str, Array]:
    return dict(zip(names, np.ogrid[tuple(slice(n) for n in extents)], strict=True))
