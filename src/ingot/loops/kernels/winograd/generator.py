"""The Winograd generator: convolutions with stride 1 by fewer multiplications.

    y = A [ sum over channels of (G w) * (B x) ]        F(m, taps) along each axis of the window

A kernel of three stages under a loop over blocks of tiles: the inputs of every tile are transformed into `V`;
for each block of output channels every point of the transform is a small matrix product with the transformed
constant weights, into `M`; the outputs of every tile are transformed back, and stored with bias and
activation. `V` and `M` are scratch that stays in the cache. Where tiles do not divide the image, and where
the channels do not fill a vector, tiles pass through a buffer of their own size, in and out.

Measured, one AVX-512 core: 82 to 95 % of the multiplication bound for 32 channels and more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product

import numpy as np

from ingot.formula.compute import Compute
from ingot.formula.expr import Array, Binary, Const, Expr, Lane, Load, Tensor, Var, equal, static, substitute
from ingot.formula.index import Bounds, simplify
from ingot.formula.statements import Barrier, For, Let, Madd, Prefetch, Remark, Statement, Store, When
from ingot.formula.types import FLOAT32
from ingot.loops.access import NotVectorizable, vectorize
from ingot.loops.cuts import parts
from ingot.loops.kernels.contraction.tiles import AHEAD, Tile, is_by_element, terms_per_iteration
from ingot.loops.kernels.winograd.blocking import blocking, weight_bytes
from ingot.loops.kernels.winograd.cook_toom import Algorithm, cook_toom
from ingot.loops.kernels.winograd.match import Convolution, Window, match, moving, taps_of
from ingot.loops.kernels.winograd.transforms import along, register
from ingot.loops.layout import Storage
from ingot.loops.rewrite import substituted
from ingot.targets.record import Target

Keep = Callable[[tuple[int, ...], Expr, Expr], Statement]  # of an output: place in the tile, lane, value
LINE = 16  # elements of a cache line


def winograd(
    c: Compute, storage: Storage, target: Target, bounds: Bounds, m: int, cold: bool = False
) -> tuple[Statement, ...] | None:
    """Statements by F(m, taps), or None if the stage is no such convolution."""
    found = match(c, storage, bounds)
    if found is None or found.c.a.tensor.value is not None:
        return None
    try:
        return _Generator(found, storage, target, cook_toom(m, found.taps), cold).statements()
    except NotVectorizable:
        return None


class _Generator:
    """Builds the loops of one convolution."""

    def __init__(
        self, conv: Convolution, storage: Storage, target: Target, algorithm: Algorithm, cold: bool
    ) -> None:
        self.conv, self.c, self.algorithm, self.target = conv, conv.c, algorithm, target
        self.dims = len(conv.windows)
        self.blocking = blocking(conv, algorithm.m, target, cold)
        self.in_lanes = best_input_lanes(conv.channels, target.lanes(FLOAT32.bytes))
        points, b = algorithm.points**self.dims, self.blocking
        self.row = _apart(conv.channels)  # one tile of a plane of `v`
        planes = [_apart(b.count * n) for n in (self.row, b.block)]
        kept = -(-conv.features // b.block) if b.by_point else 1  # blocks of features
        self.v = storage.scratch(self.c.a.tensor, (points, planes[0]), "transformed")
        self.m = storage.scratch(self.c.a.tensor, (kept * points, planes[1]), "products")
        whole = all(w.extent % algorithm.m == 0 for w in conv.windows)
        self.tile_in = (
            None
            if whole
            else storage.scratch(self.c.a.tensor, (*[algorithm.points] * self.dims, self.in_lanes), "tile")
        )
        self.scattered = not self._stores_vectors()
        staged = not whole or conv.features % b.lanes or self.scattered
        self.tile_out = (
            storage.scratch(self.c.a.tensor, (*[algorithm.m] * self.dims, b.block), "outputs")
            if staged
            else None
        )
        self.u = self._weights(storage)
        self.is_streamed = weight_bytes(conv, algorithm.m) > target.caches[1]

    # -- the weights

    def _weights(self, storage: Storage) -> Tensor:
        """The transformed weights [groups ..., block of features, point, channel, feature].

        Or [groups ..., point, block of features, channel, feature]: the order in which they are read.
        """
        conv, algorithm, block, dims = self.conv, self.algorithm, self.blocking.block, self.dims
        blocks, by_point = -(-conv.features // block), self.blocking.by_point

        def transform(array: Array) -> Array:
            b = replace(conv.c.b, tensor=replace(conv.c.b.tensor, value=array))
            known = replace(conv, c=replace(conv.c, b=b))
            taps = algorithm.weights(taps_of(known, np.arange(conv.features)), dims)
            outer = taps.shape[: -2 - dims]
            padded = np.zeros((*outer, blocks * block, *taps.shape[len(outer) + 1 :]), np.float32)
            padded[(slice(None),) * len(outer) + (slice(conv.features),)] = taps
            points = padded.reshape(*outer, blocks, block, conv.channels, algorithm.points**dims)
            axis = len(outer)
            first = (axis + 3, axis) if by_point else (axis, axis + 3)
            return np.ascontiguousarray(points.transpose(*range(axis), *first, axis + 2, axis + 1))

        names = tuple(x.name for x in (*moving(conv), conv.c.vector, conv.channel))
        how = ("winograd", algorithm.m, conv.c.b.index, names, blocks, block, by_point)
        return storage.derived(conv.c.b.tensor, how, transform)

    # -- the loops

    def statements(self) -> tuple[Statement, ...]:
        m, taps = self.algorithm.m, self.algorithm.r
        first = Remark(f"Winograd's F({m}, {taps}): the inputs of every tile, transformed")
        body: tuple[Statement, ...] = (first, *self._inputs(), *self._features())
        for w, size in reversed(list(zip(self.conv.windows, self.blocking.tiles, strict=True))):
            body = (For(_block(w), Const(0), Const(w.tiles(self.algorithm.m)), size, body),)
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

    def _points(self, *body: Statement) -> Statement:
        return For("point", Const(0), Const(self.algorithm.points**self.dims), 1, body)

    def _blocks(self, body: tuple[Statement, ...]) -> Statement:
        """The body for each block of features."""
        count = -(-self.conv.features // self.blocking.block)
        return For(self._block.name, Const(0), Const(count), 1, body)

    @property
    def _block(self) -> Var:
        return Var(f"{self.c.vector.name}_block")

    def _plane(self, point: Expr) -> Expr:
        """Where `M` has a point: of the features at hand if it has all."""
        return self._block * self.algorithm.points**self.dims + point if self.blocking.by_point else point

    def _tiles(self, body: tuple[Statement, ...]) -> tuple[Statement, ...]:
        """The body for each tile of the block."""
        for w, size in reversed(list(zip(self.conv.windows, self.blocking.tiles, strict=True))):
            body = (For(_tile_name(w), Const(0), self._length(w, size), 1, body),)
        return body

    def _length(self, w: Window, size: int) -> Expr:
        """How many tiles the block has along a window: fewer in the last one."""
        n = w.tiles(self.algorithm.m)
        return Const(size) if n % size == 0 else Binary("min", Const(size), n - Var(_block(w)))

    def _place(self) -> Expr:
        """The tile's number in its block."""
        at: Expr = Const(0)
        for w, size in zip(self.conv.windows, self.blocking.tiles, strict=True):
            at = at * size + Var(_tile_name(w))
        return simplify(at)

    def _first(self, w: Window) -> Expr:
        """Where the tile begins along a window."""
        return (Var(_block(w)) + Var(_tile_name(w))) * self.algorithm.m

    # -- inputs

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
        read = simplify(substitute(self.c.a, env))
        assert isinstance(read, Load)
        return read

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

    def _inside(self, w: Window) -> Expr:
        """How much of the tile's inputs lies inside the tensor along a window."""
        index = substitute(self.c.a.index[w.dim], {w.axis.name: self._first(w), w.tap.name: Const(0)})
        size = static(self.c.a.tensor.shape[w.dim])
        return Binary("min", Const(self.algorithm.points), simplify(size - index))

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
            yield Store(Load(self.v, (Const(_number(at, n)), place)), value, lanes)

    def _inputs_ahead(self) -> Iterator[Statement]:
        """Prefetch what the next block of tiles reads, a share in every iteration."""
        if self.dims != 2 or self.c.a.tensor.bytes <= self.target.caches[1]:
            return
        (high, wide), m = self.conv.windows, self.algorithm.m
        down, right = self.blocking.tiles
        if high.tiles(m) <= down and wide.tiles(m) <= right:
            return
        rows, turns = down * m + self.algorithm.r - 1, self._turns
        width = -(-right * m // max(1, turns // rows))  # of a share, in pixels
        after = Var(_block(wide)) + right
        pixel, line = Var("pixel"), Var("line")
        env: dict[str, Expr] = {
            high.axis.name: (Var(_block(high)) + after // wide.tiles(m) * down) * m + self._turn % rows,
            wide.axis.name: after % wide.tiles(m) * m + self._turn // rows * width + pixel,
            self.conv.channel.name: line,
            high.tap.name: Const(0),
            wide.tap.name: Const(0),
        }
        bounds = {pixel.name: (0, width - 1), _block(wide): (0, wide.tiles(m) - 1)}
        read = simplify(substitute(self.c.a, env), bounds)
        assert isinstance(read, Load)
        last = {w.dim: static(read.tensor.shape[w.dim]) - 1 for w in self.conv.windows}
        index = (Binary("min", i, Const(last[d])) if d in last else i for d, i in enumerate(read.index))
        body = (Prefetch(replace(read, index=tuple(index)), 0, 2),)
        channels = For(line.name, Const(0), Const(self.conv.channels), LINE, body)
        yield For(pixel.name, Const(0), Const(width), 1, (channels,))

    @property
    def _turns(self) -> int:
        """Of the loops over points and blocks of features, in a block of tiles."""
        blocks = -(-self.conv.features // self.blocking.block)
        return int(self.algorithm.points**self.dims) * blocks

    @property
    def _turn(self) -> Expr:
        points, point = int(self.algorithm.points**self.dims), Var("point")
        if self.blocking.by_point:
            return point * (self._turns // points) + self._block
        return self._block * points + point

    # -- products

    def _products(self) -> Statement:
        """M[point][tile, feature]: the sum of V[point][tile, channel] * U[point][channel, feature]."""
        b, point, tile = self.blocking, Var("point"), Var("tile")
        count: Expr = Const(1)
        for w, size in zip(self.conv.windows, b.tiles, strict=True):
            length = self._length(w, size)
            count = length if count == Const(1) else simplify(count * length)
        whole = b.tiles[-1] % b.rows == 0 or (isinstance(count, Const) and b.count % b.rows == 0)
        first: Expr = tile if whole else Binary("min", tile, count - b.rows)
        body = tuple(self._micro(point, first))
        return For("tile", Const(0), count, b.rows, body)

    def _micro(self, point: Expr, first: Expr) -> Iterator[Statement]:
        """A register tile: rows of tiles x vectors of features."""
        b = self.blocking
        registers = list(product(range(b.rows), range(b.vectors)))
        for i, j in registers:
            yield Let(f"c{i}_{j}", Const(0.0, FLOAT32), b.lanes, mutable=True)
        yield from self._sums(point, first)
        for i, j in registers:
            to = Load(self.m, (simplify(self._plane(point)), simplify((first + i) * b.block + j * b.lanes)))
            yield Store(to, register(f"c{i}_{j}"), b.lanes)

    def _sums(self, point: Expr, first: Expr) -> Iterator[Statement]:
        """The loop over the channels, some of them an iteration where that makes fewer instructions."""
        b, k, channels = self.blocking, self.conv.channel, self.conv.channels
        tile = Tile(b.rows, b.vectors)
        by_element = channels >= b.lanes and is_by_element(self.target, b.lanes, tile)
        turn = b.lanes if by_element else terms_per_iteration(self.target, tile, channels)
        whole = channels // turn * turn
        body: list[Statement] = []
        if by_element:
            body += [Let(f"v{i}", self._value(point, first, i, k, b.lanes), b.lanes) for i in range(b.rows)]
        for u in range(turn):
            if u and not by_element:
                body.append(Barrier())
            body += self._term(point, first, k + u if u else k, u, by_element)
        yield For(k.name, Const(0), Const(whole), turn, tuple(body))
        if whole < channels:
            yield For(k.name, Const(whole), Const(channels), 1, tuple(self._term(point, first, k)))

    def _term(
        self, point: Expr, first: Expr, k: Expr, u: int = 0, by_element: bool = False
    ) -> Iterator[Statement]:
        """The products of a channel, the u-th of an iteration: by a lane of what it loaded, or by itself."""
        b, suffix = self.blocking, f"_{u}" if u else ""
        block = (point, self._block) if b.by_point else (self._block, point)
        for j in range(b.vectors):
            at = (*moving(self.conv), *block, k, Const(j * b.lanes))
            if self.is_streamed and (u if b.by_point else u * b.block % LINE) == 0:
                yield from self._ahead(at[:-1], j * b.lanes)
            yield Let(f"b{j}{suffix}", Load(self.u, at, None, b.lanes), b.lanes)
        for i in range(b.rows):
            value = Lane(register(f"v{i}"), u) if by_element else self._value(point, first, i, k)
            yield Let(f"a{i}{suffix}", value)
            for j in range(b.vectors):
                a, w = register(f"a{i}{suffix}"), register(f"b{j}{suffix}")
                yield Madd(f"c{i}_{j}", a, w, b.lanes)

    def _value(self, point: Expr, first: Expr, i: int, k: Expr, lanes: int = 1) -> Load:
        """What channel `k` of the i-th row of a register tile multiplies, or `lanes` channels from it on."""
        return Load(self.v, (point, simplify((first + i) * self.row + k)), None, lanes)

    def _ahead(self, weight: tuple[Expr, ...], feature: int) -> Iterator[Statement]:
        """What to ask for at each channel: what comes a little later; where many tiles go through a block of
        the weights, a share of the block after it, so that memory is never asked for much at once.
        """
        b, channels = self.blocking, self.conv.channels
        if not b.by_point:
            if feature % LINE == 0:
                yield Prefetch(Load(self.u, (*weight, Const(feature))), AHEAD)
        elif feature == 0:
            turns, lines = -(-b.count // b.rows), -(-b.block // LINE)
            *block, k = weight
            row = Var("tile") // b.rows * -(-channels // turns) + k // turns
            bounds = {"tile": (0, b.count - 1), self.conv.channel.name: (0, channels - 1)}
            at = (simplify(e, bounds) for e in (Binary("min", row, Const(channels - 1)), k % lines * LINE))
            size = channels * b.block * FLOAT32.bytes
            yield Prefetch(Load(self.u, (*block, *at)), size, 2)

    # -- outputs

    def _outputs(self) -> tuple[Statement, ...]:
        """y = value(A M) for every tile of the block and every feature of the pass."""
        b, v = self.blocking, self.c.vector
        lane = Var(f"{v.name}_lane")
        if self.tile_out is None:
            body = tuple(self._transform_outputs(lane, self._store))
            return self._tiles((For(lane.name, Const(0), Const(b.block), b.lanes, body),))
        body = tuple(self._transform_outputs(lane, self._keep))
        return self._tiles((For(lane.name, Const(0), Const(b.block), b.lanes, body), *self._drain()))

    def _transform_outputs(self, lane: Expr, store: Keep) -> Iterator[Statement]:
        n, b = self.algorithm.points, self.blocking
        place = simplify(self._place() * b.block + lane)
        values: dict[tuple[int, ...], Expr] = {
            at: Load(self.m, (simplify(self._plane(Const(_number(at, n)))), place), None, b.lanes)
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
            env[w.axis.name] = simplify(self._first(w) + i)
        to, value = simplify(substitute(self.c.to, env)), simplify(substitute(self.c.value, env))
        assert isinstance(to, Load)
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

    def _lanes(self, features: int) -> Expr:
        """How many of the pass's lanes hold one of the first `features`."""
        block = self.blocking.block
        if features % block == 0 and features >= self.conv.features:
            return Const(block)
        return Binary("min", Const(block), features - Var(f"{self.c.vector.name}_block") * block)

    def _over_tile(self, names: list[str], body: tuple[Statement, ...]) -> tuple[Statement, ...]:
        """The body for each output of the tile inside the image."""
        for w, name in reversed(list(zip(self.conv.windows, names, strict=True))):
            limit: Expr = Const(self.algorithm.m)
            if w.extent % self.algorithm.m:
                limit = Binary("min", limit, simplify(w.extent - self._first(w)))
            body = (For(name, Const(0), limit, 1, body),)
        return body

    def _stores_vectors(self) -> bool:
        """Whether neighbouring features are stored, and read with bias and residual, as vectors."""
        try:
            for e in (self.c.to, self.c.value):
                vectorize(e, self.c.vector.name, self.blocking.lanes)
        except NotVectorizable:
            return False
        return True


def best_input_lanes(channels: int, most: int) -> int:
    """The widest vector that divides the channels into few; one that overlaps serves the rest."""
    widths = [n for n in (64, 32, 16, 8, 4, 2, 1) if n <= min(most, channels)]
    return min(widths, key=lambda n: (-(-channels // n), n))


def _apart(elements: int) -> int:
    """At least as many, an odd number of cache lines: neighbours do not meet in one set of the cache."""
    return (-(-elements // LINE) | 1) * LINE


def _number(at: tuple[int, ...], n: int) -> int:
    out = 0
    for i in at:
        out = out * n + i
    return out


def _block(w: Window) -> str:
    return f"{w.axis.name}_block"


def _tile_name(w: Window) -> str:
    return f"{w.axis.name}_tile"
