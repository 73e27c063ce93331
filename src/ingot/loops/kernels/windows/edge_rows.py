"""Vectors of rows that windows leave, put together in registers of what lies inside.

    row  |a b c d e f g h|      window of three, from one before the row on, four lanes:
    first vector   (0 a b c) (a b c d) (b c d e)      last   (d e f g) (e f g h) (f g h 0)

A vector that begins before its row is the row's first one, shifted by a shuffle; what comes in is what the
operand is outside. So nothing is copied to have a border in memory. In: a matched stage, whose loads may
leave the rows along its vector axis. Out: blocks of vectors whose edges are single vectors; statements for a
load.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from dataclasses import replace

from ingot.formula.expr import Const, Expr, Load, Shuffle, Var, loads, static
from ingot.formula.index import Bounds, coefficient, interval
from ingot.formula.statements import Let, Statement
from ingot.loops.kernels.elementwise import Vertical

Piece = tuple[int, int, int]


def without_edges(blocks: Iterable[Piece], v: Vertical) -> Iterator[Piece]:
    """The blocks of vectors, from where to where by how many lanes, with those that leave a row apart."""
    before, after = _reach(v)
    n = static(v.vector.extent)
    for lo, hi, lanes in blocks:
        first, last = lo, hi
        while first < hi and first < before:
            yield first, first + lanes, lanes
            first += lanes
        while last > first and last > n - after:
            last -= lanes
        if first < last:
            yield first, last, lanes
        for at in range(last, hi, lanes):
            yield at, at + lanes, lanes


def is_edge(v: Vertical, block: Piece) -> bool:
    """Whether the vectors of a block leave a row."""
    (before, after), (lo, hi, _) = _reach(v), block
    return lo < before or hi > static(v.vector.extent) - after


def leaving(v: Vertical) -> Iterator[Load]:
    """The loads that leave their rows at an end of the vector axis."""
    if v.beyond is None or v.reduction is None:
        return
    for load in loads(v.reduction.term):
        if any(n > 0 for n in _beyond(load, v)):
            yield load


def _reach(v: Vertical) -> tuple[int, int]:
    """How far rows are read before the first result, and behind the last."""
    before, after = zip((0, 0), *(_beyond(load, v) for load in leaving(v)), strict=True)
    return max(before), max(after)


def _beyond(load: Load, v: Vertical) -> tuple[int, int]:
    """How far a load reads before its row, and behind it; below 0 where it stays inside."""
    if not load.index or coefficient(load.index[load.tensor.lane_axis], v.vector.name) != 1:
        return 0, 0
    n = load.tensor.shape[load.tensor.lane_axis]
    lo, hi = interval(load.index[load.tensor.lane_axis], v.bounds)
    return (-lo, hi + 1 - n) if isinstance(n, int) else (0, 0)


class EdgeRows:
    """What is loaded of rows for one tile, each vector once, however many loads are shifted from it."""

    def __init__(self, v: Vertical, bounds: Bounds) -> None:
        """`bounds` say where the vector in the making begins."""
        self.v, self.bounds = v, bounds
        self.rows: dict[Load, Var] = {}
        self.beyond: Var | None = None

    def inside(self, load: Load) -> Generator[Statement, None, Expr]:
        """The value of a vector load, as it is or put together of what is in its row."""
        d = load.tensor.lane_axis
        if self.v.beyond is None or load.lanes == 1 or not coefficient(load.index[d], self.v.vector.name):
            return load
        n, (first, last) = static(load.tensor.shape[d]), interval(load.index[d], self.bounds)
        if first >= 0 and last + load.lanes <= n:
            return self.rows.get(load, load)
        assert first == last, "only vectors at an end of a row leave it"
        start = min(max(first, 0), n - load.lanes)
        if abs(first - start) >= load.lanes:
            return self.v.beyond
        read = replace(load, index=(*load.index[:d], Const(start), *load.index[d + 1 :]))
        beyond = yield from self.around(load.lanes)
        if read not in self.rows:
            self.rows[read] = Var(f"edge{len(self.rows)}", None, load.dtype)
            yield Let(self.rows[read].name, read, load.lanes)
        places = (first - start + lane for lane in range(load.lanes))
        return Shuffle(
            self.rows[read], beyond, tuple(p if 0 <= p < load.lanes else load.lanes for p in places)
        )

    def around(self, lanes: int) -> Generator[Statement, None, Var]:
        """A vector of what lies outside."""
        assert self.v.beyond is not None
        if self.beyond is None:
            self.beyond = Var("beyond", None, self.v.beyond.dtype)
            yield Let(self.beyond.name, self.v.beyond, lanes)
        return self.beyond
