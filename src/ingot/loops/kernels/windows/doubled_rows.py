"""Doubled rows: pooling along rows, whose windows are put together in registers from windows half as long.

    row           |a b c d e f g h|i j ..        as it lies; what is outside of it changes no result
    windows of 2  |ab bc cd de ef fg gh hi|      the row, and the row shifted by one
    windows of 4  |abcd bcde ..|                 those, and the same shifted by two
    windows of 7  those of four, and the same shifted by three; sums are those of 4, of 2 and of 1

A shift is a shuffle of two neighbouring registers, so an element is loaded once for all windows. Windows that
are two elements apart begin with the even and the odd elements of the row, and go on with half as many.
In: a stage that combines the elements of a window along rows. Out: statements, or None.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace

from ingot.formula.compute import Compute, Reduction, chained
from ingot.formula.expr import Const, Expr, Load, Shuffle, Var, static, substitute
from ingot.formula.index import Bounds, as_expr, coefficient, interval, simplify
from ingot.formula.statements import For, Let, Statement, Store
from ingot.loops.access import NotVectorizable, step, vectorize
from ingot.loops.axes import normal_axes
from ingot.loops.doubled_windows import MOST_APART, REGISTERS, doubled_load
from ingot.loops.kernels.elementwise import Vertical, match
from ingot.loops.kernels.naive import nested
from ingot.loops.kernels.windows.edge_rows import EdgeRows
from ingot.loops.kernels.windows.window_tiles import IDEMPOTENT
from ingot.loops.layout import Storage
from ingot.targets.record import Target

TOGETHER, FEW_TOGETHER = 8, 4  # vectors of one row that share what they are made of, by the registers
LOADED, EVEN = -2, -1  # levels below the shortest windows, which are 0: the row as it lies, its even columns

Made = Generator[Statement, None, Expr | None]
"""Statements, and what they make; None where all of it lies outside of the row and changes no result."""


def doubled_rows(
    c: Compute, storage: Storage, target: Target, bounds: Bounds
) -> tuple[Statement, ...] | None:
    """Statements for pooling along rows, or None if the stage is not that."""
    if doubled_load(c, target) is None:
        return None
    v = match(normal_axes(c), storage, bounds, most_apart=MOST_APART)
    pooling = None if v is None else _pooling(v)
    if pooling is None:
        return None
    lanes = min(target.lanes(c.out.type.bytes), 1 << min(pooling.count, pooling.columns).bit_length() - 1)
    try:
        return tuple(_loops(pooling, lanes, TOGETHER if target.registers >= REGISTERS else FEW_TOGETHER))
    except NotVectorizable:
        return None


@dataclass(frozen=True, slots=True)
class _Pooling:
    """A matched stage: windows of `taps` elements of the rows of `x`, neighbours `apart` elements apart."""

    v: Vertical
    r: Reduction
    x: Load
    taps: int
    apart: int

    @property
    def count(self) -> int:
        return static(self.v.vector.extent)

    @property
    def columns(self) -> int:
        return static(self.x.tensor.shape[self.x.tensor.lane_axis])

    def begins(self, at: Expr | int) -> Expr:
        """The column where the window of a result begins."""
        place: dict[str, Expr] = {self.v.vector.name: as_expr(at), **{k.name: Const(0) for k in self.r.axes}}
        return simplify(substitute(self.x.index[self.x.tensor.lane_axis], place), self.v.bounds)

    def is_inside(self, first: int, size: int, lanes: int) -> bool:
        """Whether all vectors lie inside their row that are loaded for `size` results."""
        begin, whole = self.begins(first), lanes * self.apart
        span = -(-(self.apart * (size - 1) + self.taps) // whole) * whole
        return isinstance(begin, Const) and begin.value >= 0 and begin.value + span <= self.columns


def _pooling(v: Vertical) -> _Pooling | None:
    """The windows, if all of each counts: what lies outside of a row is left to the vectors at its ends."""
    r = v.reduction
    assert r is not None and isinstance(r.term, Load)
    whole = all(v.limits[k.name] == (Const(0), as_expr(k.extent or 0)) for k in r.axes)
    x, taps = r.term, [k for k in r.axes if k.extent != 1]
    along = x.index[x.tensor.lane_axis]
    apart = coefficient(along, v.vector.name)
    if not whole or not apart or coefficient(along, taps[0].name) != 1:
        return None
    return _Pooling(replace(v, beyond=v.beyond or r.identity), r, x, static(taps[0].extent), apart)


def _loops(p: _Pooling, lanes: int, together: int) -> Iterator[Statement]:
    """The rows; each in groups of vectors, those at its ends for themselves, those between in a loop."""
    nest, n, first = list[Statement](), p.count, 0
    size = n if n <= lanes * together else lanes * together
    while first < n:
        last = first
        while size < n and last + size <= n and p.is_inside(last, size, lanes):
            last += size
        if last > first:
            nest.append(_group(p, first, last, range(0, size, lanes), lanes))
        else:
            last = min(first + size, n)
            starts = [min(at, n - lanes) for at in range(first, last, lanes)]
            nest.append(_group(p, starts[0], last, [at - starts[0] for at in starts], lanes))
        first = last
    yield from nested(sorted(p.v.outer, key=lambda a: -(step(p.v.to, a.name) or 0)), nest)


def _group(p: _Pooling, first: int, last: int, starts: Sequence[int], lanes: int) -> Statement:
    """The loop that makes vectors of a row, each of them so many elements behind the first."""
    x, size = p.v.vector, starts[-1] + lanes
    bounds = {**p.v.bounds, x.name: (first, last - size)}
    row = _Row(p, size, lanes, bounds, EdgeRows(p.v, bounds))
    return For(x.name, Const(first), Const(last), size, tuple(row.stored(starts)))


@dataclass(slots=True)
class _Row:
    """The registers of one group of `size` results: those of a level have the windows of as many elements
    side by side, from where the group's first window begins.
    """

    p: _Pooling
    size: int
    lanes: int
    bounds: Bounds
    edges: EdgeRows
    made: dict[tuple[int, int], Expr | None] = field(default_factory=dict)

    def stored(self, starts: Sequence[int]) -> Iterator[Statement]:
        """The results from each of the starts on."""
        v, identity = self.p.v, self.p.v.beyond
        assert identity is not None
        for n, start in enumerate(starts):
            acc, here = Var(f"c{n}", None, self.p.r.term.dtype), {v.vector.name: v.vector + start}
            made = yield from self._window(start)
            yield Let(acc.name, made or identity, self.lanes)
            to = simplify(substitute(v.to, here), self.bounds)
            assert isinstance(to, Load)
            value = simplify(substitute(vectorize(v.value, v.vector.name, self.lanes), here), self.bounds)
            yield Store(to, substitute(value, {"acc": acc}), self.lanes)

    def _window(self, at: int) -> Made:
        """The windows from the `at`th of the group on."""
        count, rest = divmod(self.p.taps, self.p.apart)
        level = count.bit_length() - 1
        end, parts = 1 << level, [(level, at)]
        if end < count and self.p.r.combine in IDEMPOTENT:
            parts.append((level, at + count - end))
        elif end < count:
            for lower in (n for n in reversed(range(level)) if count >> n & 1):
                parts.append((lower, at + end))
                end += 1 << lower
        if rest:
            parts.append((EVEN, at + count))
        return (yield from self._joined(parts))

    def _joined(self, parts: Sequence[tuple[int, int]]) -> Made:
        """Windows of some levels combined, each from its place in the group on."""
        some = list[Expr]()
        for level, at in parts:
            i, shift = divmod(at, self.lanes)
            part = yield from self._register(level, i)
            if shift:
                part = yield from self._picked(level, i, range(shift, shift + self.lanes))
            some += () if part is None else (part,)
        return chained(self.p.r.combine, some) if some else None

    def _register(self, level: int, i: int) -> Made:
        """The i-th register of a level."""
        if (level, i) not in self.made:
            value = yield from self._value(level, i)
            if value is not None and not isinstance(value, Var):
                name = f"x{i}" if level == LOADED else f"r{len(self.made)}"
                yield Let(name, value, self.lanes)
                value = Var(name, None, self.p.x.dtype)
            self.made[level, i] = value
        return self.made[level, i]

    def _value(self, level: int, i: int) -> Made:
        """What a register of a level holds."""
        if level == LOADED:
            return (yield from self._loaded(i))
        if level > 0:
            begin = i * self.lanes
            return (yield from self._joined([(level - 1, begin), (level - 1, begin + (1 << level - 1))]))
        if self.p.apart == 1:
            return (yield from self._register(LOADED, i))
        if level == EVEN:
            return (yield from self._picked(LOADED, 2 * i, range(0, 2 * self.lanes, 2)))
        even = yield from self._register(EVEN, i)
        odd = yield from self._picked(LOADED, 2 * i, range(1, 2 * self.lanes, 2))
        some = [part for part in (even, odd) if part is not None]
        return chained(self.p.r.combine, some) if some else None

    def _picked(self, level: int, i: int, lanes: range) -> Made:
        """Lanes of the i-th register of a level and of the next, of which there may be none that counts."""
        a = yield from self._register(level, i)
        b = a
        if self._counts(level, i + 1):
            b = yield from self._register(level, i + 1)
        if a is None and b is None:
            return None
        if a is None or b is None:
            beyond = yield from self.edges.around(self.lanes)
            return Shuffle(a or beyond, b or beyond, tuple(lanes))
        return Shuffle(a, b, tuple(lanes))

    def _counts(self, level: int, i: int) -> bool:
        """Whether a register holds anything that a window of the group is made of."""
        elements = self.p.apart * (self.size - 1) + self.p.taps
        if level == LOADED:
            return i * self.lanes < elements
        shorter = (1 << max(level, 0)) - 1
        return i * self.lanes + shorter <= (elements - 1) // self.p.apart

    def _loaded(self, i: int) -> Made:
        """The row as it lies, with what is outside beside it."""
        p, d = self.p, self.p.x.tensor.lane_axis
        column = simplify(p.begins(p.v.vector) + i * self.lanes, self.bounds)
        lo, hi = interval(column, self.bounds)
        if lo >= p.columns or hi + self.lanes <= 0:
            return None
        still: dict[str, Expr] = {k.name: Const(0) for k in p.r.axes}
        index = (column if n == d else substitute(e, still) for n, e in enumerate(p.x.index))
        made = yield from self.edges.inside(replace(p.x, index=tuple(index), lanes=self.lanes))
        return chained(p.r.combine, (*p.r.start, made))
