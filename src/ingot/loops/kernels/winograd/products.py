"""The products of a Winograd kernel: for every point a small matrix product, in register tiles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from ingot.formula.expr import Binary, Const, Expr, Lane, Load, Var, static, substitute
from ingot.formula.index import simplify
from ingot.formula.statements import Barrier, For, Let, Madd, Prefetch, Statement, Store
from ingot.formula.types import FLOAT32
from ingot.loops.kernels.contraction.tiles import AHEAD, Tile, is_by_element, terms_per_iteration
from ingot.loops.kernels.winograd.frame import LINE, Frame, block_name
from ingot.loops.kernels.winograd.match import moving
from ingot.loops.kernels.winograd.transforms import register


class Products(Frame):
    """M[point][tile, feature] from V[point][tile, channel] and U[point][channel, feature]."""

    def _inputs_ahead(self) -> Iterator[Statement]:
        """Prefetch what the next block of tiles reads, a share in every iteration."""
        if self.dims != 2 or self.c.a.tensor.bytes <= self.target.caches[1]:
            return
        (high, wide), m = self.conv.windows, self.algorithm.m
        down, right = self.blocking.tiles
        if high.tiles(m) <= down and wide.tiles(m) <= right:
            return
        stride = self.algorithm.stride
        rows, turns = (down * m - 1) * stride + self.algorithm.r, self._turns
        width = -(-right * m * stride // max(1, turns // rows))  # of a share, in pixels
        after = Var(block_name(wide)) + right
        pixel, line = Var("pixel"), Var("line")
        env: dict[str, Expr] = {
            high.axis.name: (Var(block_name(high)) + after // wide.tiles(m) * down) * m,
            wide.axis.name: after % wide.tiles(m) * m,
            self.conv.channel.name: line,
            high.tap.name: self._turn % rows,
            wide.tap.name: self._turn // rows * width + pixel,
        }
        bounds = {pixel.name: (0, width - 1), block_name(wide): (0, wide.tiles(m) - 1)}
        read = simplify(substitute(self.c.a, env), bounds)
        last = {w.dim: static(read.tensor.shape[w.dim]) - 1 for w in self.conv.windows}
        index = (Binary("min", i, Const(last[d])) if d in last else i for d, i in enumerate(read.index))
        body = (Prefetch(replace(read, index=tuple(index)), 0, 2),)
        channels = For(line.name, Const(0), Const(self.conv.channels), LINE, body)
        yield For(pixel.name, Const(0), Const(width), 1, (channels,))

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
