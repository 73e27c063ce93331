"""What the three stages of a Winograd kernel share: blocks of tiles, the planes of scratch, the weights."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ingot.formula.expr import Array, Binary, Const, Expr, Tensor, Var, static, substitute
from ingot.formula.index import simplify
from ingot.formula.statements import For, Statement
from ingot.formula.types import FLOAT32
from ingot.loops.access import NotVectorizable, vectorize
from ingot.loops.kernels.winograd.blocking import blocking, weight_bytes
from ingot.loops.kernels.winograd.cook_toom import Algorithm
from ingot.loops.kernels.winograd.match import Convolution, Window, moving, taps_of
from ingot.loops.layout import Storage
from ingot.targets.record import Target

LINE = 16  # elements of a cache line


class Frame:
    """The geometry of one convolution's kernel."""

    def __init__(
        self, conv: Convolution, storage: Storage, target: Target, algorithm: Algorithm, cold: bool
    ) -> None:
        self.conv, self.c, self.algorithm, self.target = conv, conv.c, algorithm, target
        self.dims = len(conv.windows)
        self.blocking = blocking(conv, algorithm.m, target, cold)
        self.in_lanes = best_input_lanes(conv.channels, target.lanes(FLOAT32.bytes))
        points, b = algorithm.points**self.dims, self.blocking
        self.row = apart(conv.channels)  # one tile of a plane of `v`
        planes = [apart(b.count * n) for n in (self.row, b.block)]
        kept = -(-conv.features // b.block) if b.by_point else 1  # blocks of features
        self.v = storage.scratch(self.c.a.tensor, (points, planes[0]), "transformed")
        self.m = storage.scratch(self.c.a.tensor, (kept * points, planes[1]), "products")
        whole = all(w.is_whole(algorithm.m) for w in conv.windows)
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
            body = (For(tile_name(w), Const(0), self._length(w, size), 1, body),)
        return body

    def _length(self, w: Window, size: int) -> Expr:
        """How many tiles the block has along a window: fewer in the last one."""
        n = w.tiles(self.algorithm.m)
        return Const(size) if n % size == 0 else Binary("min", Const(size), n - Var(block_name(w)))

    def _place(self) -> Expr:
        """The tile's number in its block."""
        at: Expr = Const(0)
        for w, size in zip(self.conv.windows, self.blocking.tiles, strict=True):
            at = at * size + Var(tile_name(w))
        return simplify(at)

    def _first(self, w: Window) -> Expr:
        """Where the tile begins along a window."""
        return w.first(Var(block_name(w)) + Var(tile_name(w)), self.algorithm.m)

    def _inside(self, w: Window) -> Expr:
        """How much of the tile's inputs lies inside the tensor along a window."""
        index = substitute(self.c.a.index[w.dim], {w.axis.name: self._first(w), w.tap.name: Const(0)})
        size = static(self.c.a.tensor.shape[w.dim])
        return Binary("min", Const(self.algorithm.points), _steps(size - index, w.dilation))

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
            if not w.is_whole(self.algorithm.m):
                limit = Binary("min", limit, _steps(w.extent - self._first(w), w.dilation))
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


def apart(elements: int) -> int:
    """At least as many, an odd number of cache lines: neighbours do not meet in one set of the cache."""
    return (-(-elements // LINE) | 1) * LINE


def number_of(at: tuple[int, ...], n: int) -> int:
    out = 0
    for i in at:
        out = out * n + i
    return out


def block_name(w: Window) -> str:
    return f"{w.axis.name}_block"


def tile_name(w: Window) -> str:
    return f"{w.axis.name}_tile"


def _steps(length: Expr, dilation: int) -> Expr:
    """How many elements, `dilation` apart, a length has."""
    return simplify(length if dilation == 1 else (length + (dilation - 1)) // dilation)
