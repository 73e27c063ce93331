"""Picked columns: windows whose columns are picked by shuffles from rows that are loaded as they lie.

    2x2 over 4 channels, 16 lanes:    rows  |a b c d e f g h|  ->  max of the two, 32 elements in two vectors
                                      points  max(a b), max(c d), max(e f), max(g h)  picked by two shuffles

Rows of the window are combined first, as they lie in memory; then the vector of each of its columns is picked
from what that gave. Serves pooling of so few channels that a vector holds several points of all of them, and
rows of one channel whose windows are several elements apart; there elements may be multiplied by weights, as
those of a depthwise convolution are, each row of the window apart. In: a stage that reduces a window with one
combiner. Out: statements, or None.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from itertools import product

from ingot.formula.compute import Compute, Reduction, chained
from ingot.formula.expr import Const, Expr, Load, Shuffle, Var, loads, static, substitute
from ingot.formula.index import Bounds, as_expr, coefficient, mentions, simplify
from ingot.formula.statements import For, Let, Madd, Statement, Store
from ingot.loops.access import NotVectorizable, step, vectorize
from ingot.loops.axes import normal_axes
from ingot.loops.cuts import in_vectors
from ingot.loops.kernels.elementwise import Vertical, match
from ingot.loops.layout import Storage
from ingot.loops.picked_windows import combined, is_picked
from ingot.targets.record import Target


@dataclass(frozen=True, slots=True)
class PickedColumns:
    """A matched stage. `across`: points side by side, along dimension `along` of `x`; each has the `channels`
    of an axis, or one. `columns` and `rows` are the taps of the window, `w` is what they are multiplied by.
    """

    v: Vertical
    r: Reduction
    x: Load
    w: Load | None
    across: Var
    along: int
    channel: Var | None
    columns: tuple[Var, ...]
    rows: tuple[Var, ...]

    @property
    def channels(self) -> int:
        return static(self.channel.extent) if self.channel else 1

    def at(self, point: Expr, channel: int) -> dict[str, Expr]:
        """The values of the axes at a point and a channel."""
        return {self.across.name: point} | ({self.channel.name: Const(channel)} if self.channel else {})


def picked_columns(
    c: Compute, storage: Storage, target: Target, bounds: Bounds
) -> tuple[Statement, ...] | None:
    """Statements for pooling of few channels, or None if the stage is not that."""
    if target.vector_bytes == 0 or not c.out.type.is_float or c.out.type.compute is not c.out.type:
        return None
    v = match(normal_axes(c), storage, bounds)
    found = None if v is None or v.reduction is None else _roles(v, v.reduction)
    if found is None:
        return None
    lanes, points = target.lanes(c.out.type.bytes), static(found.across.extent)
    if mentions(found.v.value, found.across.name):
        lanes = min(lanes, 1 << points.bit_length() - 1)  # a vector of a table must not end behind it
    side = min(lanes // found.channels, points)
    try:
        return tuple(_Generator(found, lanes, side).statements()) if side > 1 else None
    except NotVectorizable:
        return None


def _roles(v: Vertical, r: Reduction) -> PickedColumns | None:
    """The axes of a window that never leaves its tensor, over points that lie side by side."""
    if (of := combined(r)) is None:
        return None
    x, w = of
    full = all(ends == (Const(0), as_expr(k.extent or 0)) for k, ends in _limits(v, r))
    in_rows = (step(x, v.vector.name) or 0) > 1
    channel = None if in_rows else v.vector
    channels, along = (static(channel.extent), -2) if channel else (1, -1)
    across = next((a for a in v.outer if step(v.to, a.name) == channels), None) if channel else v.vector
    whole = in_rows or (x.tensor.pitch is None and v.to.tensor.pitch is None)  # vectors run across points
    if across is None or not full or not whole or any(_moves(e, v) for e in loads(v.value)):
        return None
    if w is not None and (channel or step(w, across.name) != 0 or mentions(r.init, across.name)):
        return None
    if channel and (step(x, channel.name) != 1 or x.tensor.shape[-1] != channels):
        return None
    if channel and any(mentions(v.value, a.name) for a in (across, channel)):
        return None  # a vector has several points of all channels: what differs between them is no vector
    moved = step(x, across.name) or 0
    columns = tuple(k for k in r.axes if mentions(x.index[along], k.name))
    rows = tuple(k for k in r.axes if k not in columns)
    steps = [step(x, k.name) or 0 for k in columns]
    if moved <= 0 or len(columns) != 1 or steps[0] <= 0 or moved % channels or steps[0] % channels:
        return None
    apart = moved // channels
    if coefficient(x.index[along], across.name) != apart or not is_picked(r, apart):
        return None
    return PickedColumns(v, r, x, w, across, along, channel, columns, rows)


def _limits(v: Vertical, r: Reduction) -> Iterator[tuple[Var, tuple[Expr, Expr]]]:
    return ((k, v.limits[k.name]) for k in r.axes)


def _moves(load: Load, v: Vertical) -> bool:
    """Whether an operand moves; tables may. The last group repeats points, so it must not write over one."""
    return load.tensor.value is None and any(step(load, a.name) != 0 for a in (v.vector, *v.outer))


class _Generator:
    """Builds the loops; `side` points are made at once."""

    def __init__(self, s: PickedColumns, lanes: int, side: int) -> None:
        self.s, self.lanes, self.side = s, lanes, side
        self.channels = s.channels
        self.moved, self.tap = step(s.x, s.across.name) or 0, step(s.x, s.columns[0].name) or 0
        self.taps = static(s.columns[0].extent)
        span = (side - 1) * self.moved + (self.taps - 1) * self.tap + self.channels
        self.width = min(lanes, 1 << (span.bit_length() - 1))
        self.starts = [*range(0, span - self.width, self.width), span - self.width]
        """Where the vectors begin that cover what a group reads; the last ends with it."""
        if len(self.starts) < 2 or (len(self.starts) > 2 and self.width < lanes):
            raise NotVectorizable("vectors of unequal widths")

    def statements(self) -> Iterator[Statement]:
        s, n = self.s, static(self.s.across.extent)
        full = n // self.side * self.side
        body = tuple(self._group({**s.v.bounds, s.across.name: (0, full - self.side)}))
        nest: tuple[Statement, ...] = (For(s.across.name, Const(0), Const(full), self.side, body),)
        if full < n:  # the last group repeats some points of its neighbour
            last = n - self.side
            body = tuple(self._group({**s.v.bounds, s.across.name: (last, last)}))
            nest = (*nest, For(s.across.name, Const(last), Const(n), self.side, body))
        outer = (a for a in s.v.outer if a is not s.across)
        for a in sorted(outer, key=lambda a: step(s.v.to, a.name) or 0):
            nest = (For(a.name, Const(0), as_expr(a.extent or 0), 1, nest),)
        yield from nest

    def _group(self, bounds: Bounds) -> Iterator[Statement]:
        s = self.s
        made = self._pooled(bounds) if s.w is None else self._multiplied(s.w, bounds)
        acc = yield from made
        value = vectorize(simplify(s.v.value, bounds), s.across.name, self.lanes)
        yield Let("y", substitute(value, {"acc": acc}), self.lanes)
        valid, y = self.side * self.channels, Var("y", None, value.dtype)
        for lo, hi, lanes in in_vectors(valid, self.lanes, overlap=True):
            for first in range(lo, hi, lanes):
                point, channel = divmod(first, self.channels)
                to = simplify(substitute(s.v.to, s.at(s.across + point, channel)), bounds)
                assert isinstance(to, Load)
                part = y if lanes == self.lanes else Shuffle(y, y, tuple(range(first, first + lanes)))
                yield Store(to, part, lanes)

    def _pooled(self, bounds: Bounds) -> Generator[Statement, None, Expr]:
        """The rows of the windows combined, then their columns."""
        s = self.s
        for i, start in enumerate(self.starts):
            rows = [self._row(at, start, bounds) for at in self._taps()]
            yield Let(f"x{i}", chained(s.r.combine, (*s.r.start, *rows)), self.width)
        for j in range(self.taps):
            yield Let(f"t{j}", self._column("x", j, self.starts), self.lanes)
        return chained(s.r.combine, [Var(f"t{j}", None, s.x.dtype) for j in range(self.taps)])

    def _multiplied(self, w: Load, bounds: Bounds) -> Generator[Statement, None, Expr]:
        """The sum of each tap of the windows times its weight. Rows are loaded again where a column is picked
        of fewer vectors then.
        """
        s, dtype = self.s, self.s.x.dtype
        yield Let("sum", simplify(s.r.init, bounds), self.lanes, True)
        for row, at in enumerate(self._taps()):
            starts = list[int]()
            for j in range(self.taps):
                if not starts or self._last(j) >= starts[-1] + self.width:
                    starts, of = self._covering(j), f"x{row}_{j}_"
                    for i, start in enumerate(starts):
                        yield Let(f"{of}{i}", self._row(at, start, bounds), self.width)
                yield Let(f"t{row}_{j}", self._column(of, j, starts), self.lanes)
                weight = simplify(substitute(w, {**at, s.columns[0].name: Const(j)}), bounds)
                yield Madd("sum", Var(f"t{row}_{j}", None, dtype), weight, self.lanes)
        return Var("sum", None, dtype)

    def _covering(self, j: int) -> list[int]:
        """Where vectors begin that cover the j-th column of all windows, and the next one if as many do."""
        first = j * self.tap
        whole = -(-(self._last(j) + 1 - first) // self.width) * self.width
        last = min(first + whole, self.starts[-1] + self.width) - self.width
        return [*range(first, last, self.width), last] if whole > self.width else self.starts

    def _last(self, j: int) -> int:
        """Where the last element of the j-th column of all windows is."""
        return j * self.tap + (self.side - 1) * self.moved

    def _taps(self) -> Iterator[dict[str, Expr]]:
        """The places of the window's rows."""
        for at in product(*(range(static(k.extent)) for k in self.s.rows)):
            yield {k.name: Const(i) for k, i in zip(self.s.rows, at, strict=True)}

    def _row(self, at: dict[str, Expr], start: int, bounds: Bounds) -> Expr:
        """A vector of one row of the windows, `start` elements from the group's first."""
        s = self.s
        point, channel = divmod(start, self.channels)
        place = s.at(s.across, channel) | {s.columns[0].name: Const(0)} | at
        index = [substitute(i, place) for i in s.x.index]
        index[s.along] = index[s.along] + point
        return Load(s.x.tensor, tuple(simplify(i, bounds) for i in index), None, self.width)

    def _column(self, name: str, j: int, starts: list[int]) -> Expr:
        """The j-th column of the window of every point, picked from registers that begin at `starts`."""
        dtype = self.s.x.dtype
        places = [p * self.moved + j * self.tap + c for p in range(self.side) for c in range(self.channels)]
        places += [starts[0]] * (self.lanes - len(places))
        of = [max(m for m, start in enumerate(starts) if start <= at) for at in places]
        out: Expr = Var(f"{name}0", None, dtype)
        picks = [at - starts[0] if m == 0 else 0 for at, m in zip(places, of, strict=True)]
        for m, start in enumerate(starts[1:], 1):
            joined = [
                self.width + at - start if n == m else k for at, n, k in zip(places, of, picks, strict=True)
            ]
            out = Shuffle(out, Var(f"{name}{m}", None, dtype), tuple(joined))
            picks = list(range(self.lanes))
        return out
