"""Depthwise sums of bytes, channel by channel: a plane of 16 bits, whose neighbours are multiplied in pairs.

    plane[r][q] = int16(x[r, q, c])                                          by the routine `plane`
    acc = sum over kh, kw of plane[oh + kh][ow + kw] * w[c][kh][kw]          by the routine `window`
    y[oh, ow, c] = limited(round(acc * scale[c]) + zero)

Where channels lie side by side no two taps of one are neighbours; a plane makes them so. Rows of planes have
one length, which routines know; larger images go in parts, and rows of a quarter of it or less hold four
channels, which the routine `planes4` takes apart. What lies around an image of one part is written into the
plane once, for all channels, so its memory has no halo. In: windows that `byte_windows` serves. Out:
statements, or None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby

from ingot.formula.compute import Compute
from ingot.formula.expr import Array, Const, Expr, Load, Var, cast, static
from ingot.formula.index import Bounds, as_expr, simplify
from ingot.formula.statements import Assign, For, Let, Routine, Statement, Store
from ingot.formula.types import INT16, INT32
from ingot.loops.access import step
from ingot.loops.kernels.contraction.paired_bytes import as_byte, is_plain
from ingot.loops.kernels.windows.byte_windows import ByteWindows, Side, largest, open_windows
from ingot.loops.layout import Storage
from ingot.targets.mve_windows import quad_name
from ingot.targets.record import Target
from ingot.targets.window_routines import (
    LANE,
    LANES,
    MOST_SHIFTED,
    NARROW,
    PADDED,
    PITCH,
    TAPS,
    of_pitch,
    window_name,
)

ROWS = 64  # that a plane holds at most
BEHIND = 2  # elements that routines may look at behind the last row of a narrow plane
FEW_ROWS = 3  # that it may always hold, of windows that move by two
FEW_BESIDE_VECTORS = 5  # where copies weigh more, for all else takes fewer instructions


def plane_windows(
    c: Compute, storage: Storage, target: Target, bounds: Bounds
) -> tuple[Statement, ...] | None:
    """Statements for a depthwise sum of bytes, or None: it is none, or the target has no routines for it."""
    windows = open_windows(c, storage, bounds) if target.routines else None
    return (
        None
        if windows is None or not is_in_planes(windows, target)
        else _Planes(windows, target).statements()
    )


def is_in_planes(windows: ByteWindows, target: Target) -> bool:
    """Whether the target has routines for the windows, and planes hold what may lie around their operand."""
    has_routine = window_name((1, 1), "uint8", windows.found.is_fixed) in target.routines
    return has_routine and (windows.fill is None or _is_held(windows))


def _is_held(windows: ByteWindows) -> bool:
    """Whether planes hold whole rows of the image, and what of it lies in memory is known."""
    is_row = len(_parts(windows.along, _columns, PITCH)) == 1
    return is_row and all(windows.inside(side, 0, 1) is not None for side in (windows.down, windows.along))


def _most_rows(windows: ByteWindows, target: Target) -> int:
    """Rows of a plane that make the layer no larger than the network's largest image, but a few always.

    Strips of windows that move by one would read rows that results in place have been written over.
    """
    if windows.down.stride == 1:
        return ROWS
    few = FEW_BESIDE_VECTORS if quad_name(1, "uint8") in target.routines else FEW_ROWS
    return min(ROWS, max(few, _room(windows) // (PITCH * INT16.bytes)))


def _room(windows: ByteWindows) -> int:
    """Bytes of a plane beside which the layer is no larger than the network's largest image."""
    storage, x, to = windows.storage, windows.d.x.tensor, windows.d.to.tensor
    images = (storage.tensor(t) for t, at in storage.layouts.items() if t.value is None and at.place is None)
    return max(t.bytes for t in (x, to, *images)) - max(x.bytes, to.bytes)


def _pitch(windows: ByteWindows, rows: int) -> int:
    """Elements from a row of a plane to the next: few where so many rows would make the layer too large.

    What lies on the right of an image may be what lies on the left of the next row.
    """
    down, along = windows.down, windows.along
    if windows.fill is None or (down.stride, along.stride) != (1, 1):
        return PITCH
    results = static(along.out.extent)
    inside = windows.inside(along, 0, results)
    is_narrow = inside is not None and inside[1] <= NARROW and along.read(results) <= NARROW + inside[0]
    return NARROW if is_narrow and rows * PITCH * INT16.bytes > _room(windows) else PITCH


def _columns(side: Side, results: int) -> int:
    """The columns that a routine looks at, which makes two results of a row at a time."""
    return side.stride * (results + results % 2) + 2


def _rows(side: Side, results: int) -> int:
    """The rows that a routine looks at, of which windows have three."""
    return side.stride * (results - 1) + TAPS


def _parts(side: Side, held: Callable[[Side, int], int], most: int) -> tuple[tuple[int, int], ...]:
    """From which result to which, where a plane holds at most so many rows or columns."""
    extent = static(side.out.extent)
    size = max(n for n in range(1, extent + 1) if n == 1 or held(side, n) <= most)
    return tuple((lo, min(lo + size, extent)) for lo in range(0, extent, size))


def _place(made: Array, weights: Array) -> None:
    """Three rows of four weights, zeros where a window has fewer."""
    made[..., : weights.shape[-2], : weights.shape[-1]] = weights


@dataclass(frozen=True, slots=True)
class _Part:
    """Results from row `top` on and between two columns, and what of a plane is copied for them: from which
    row and column to which.
    """

    top: Expr
    rows: int
    columns: tuple[int, int]
    held: tuple[int, int]
    width: tuple[int, int]


class _Planes:
    """Builds the loops: channel by channel, part of the image by part, a plane and what becomes of it. Where
    planes make the border, strips of rows are outermost: then they need not be filled for each channel.
    """

    def __init__(self, windows: ByteWindows, target: Target) -> None:
        """Where code has to be small all layers have planes of one channel."""
        self.windows, self.d, self.found = windows, windows.d, windows.found
        self.outer, self.channels = windows.outer, windows.channels
        self.down, self.along = windows.down, windows.along
        self.rows = _parts(self.down, _rows, ROWS if windows.fill is None else _most_rows(windows, target))
        held = max(_rows(self.down, hi - lo) for lo, hi in self.rows)
        self.lanes = None if target.accumulators else self._lanes()
        self.pitch = PITCH if self.lanes is not None else _pitch(windows, held)
        shape = (held, PITCH) if self.pitch == PITCH else (held * NARROW + BEHIND,)
        self.plane = windows.storage.scratch(self.d.to.tensor, shape, "plane", INT16)
        self.weights = windows.weights("padded", (TAPS, PADDED), _place)
        self.first = windows.of_channels(self.d.init, INT32, "first")
        self.scale = windows.scales(in_words=True)
        name = window_name((1, 1), "uint8", is_fixed=True, plain=True)
        is_shifted_little = self.found.shift is not None and largest(self.found.shift) <= MOST_SHIFTED
        self.plain = name in target.routines and is_shifted_little and is_plain(self.found, target)

    def _lanes(self) -> Var | None:
        """The axis of channels four of which share a plane: they lie side by side and have short rows."""
        for a in self.channels[-1:]:
            is_short = _columns(self.along, static(self.along.out.extent)) <= LANE
            if is_short and static(a.extent) % LANES == 0 and step(self.d.x, a.name) == 1:
                return a
        return None

    def statements(self) -> tuple[Statement, ...]:
        if self.windows.fill is not None:
            return tuple(self._strips(self.windows.fill))
        parts = (
            _Part(Const(lo), hi - lo, columns, (0, self.down.read(hi - lo)), (0, self._read(columns)))
            for lo, hi in self.rows
            for columns in _parts(self.along, _columns, PITCH)
        )
        return self._around(tuple(s for part in parts for s in self._part(part)))

    def _strips(self, fill: int) -> Iterator[Statement]:
        """Strips of rows, those that are alike in a loop; what lies around the image first."""
        columns = (0, static(self.along.out.extent))
        width = self.windows.inside(self.along, *columns)
        kinds = [(hi - lo, self.windows.inside(self.down, lo, hi - lo)) for lo, hi in self.rows]
        first = 0
        for (rows, held), alike in groupby(kinds):
            count = len(list(alike))
            assert held is not None and width is not None
            if first == 0 or held != (0, self.down.read(rows)):
                yield self._filled(fill)
            strip, top = Var("strip", count), self.rows[first][0]
            begin = simplify(strip * rows + top) if count > 1 else Const(top)
            body = self._around(tuple(self._part(_Part(begin, rows, columns, held, width))))
            yield from (For(strip.name, Const(0), Const(count), 1, body),) if count > 1 else body
            first += count

    def _around(self, body: tuple[Statement, ...]) -> tuple[Statement, ...]:
        """The loops over channels, and over images around them."""
        for a in reversed((*(a for a in self.outer if a not in self.channels), *self.channels)):
            body = (For(a.name, Const(0), as_expr(a.extent or 0), LANES if a is self.lanes else 1, body),)
        return body

    def _read(self, columns: tuple[int, int]) -> int:
        return self.along.read(columns[1] - columns[0])

    def _filled(self, fill: int) -> Statement:
        """What lies around the image, everywhere in the plane: channels overwrite what lies inside."""
        row, column = Var("row"), Var("column")
        if self.pitch == NARROW:
            every = Store(Load(self.plane, (column,)), Const(fill, INT16))
            return For(column.name, Const(0), Const(self.plane.count), 1, (every,))
        width = PITCH if self.lanes is not None else self.along.read(static(self.along.out.extent))
        store = Store(Load(self.plane, (row, column)), Const(fill, INT16))
        inner = For(column.name, Const(0), Const(width), 1, (store,))
        return For(row.name, Const(0), Const(self.down.read(self.rows[0][1])), 1, (inner,))

    def _part(self, part: _Part) -> Iterator[Statement]:
        yield self._widened(part)
        if self.lanes is None:
            yield self._windows(part, self.channels, Const(0))
            return
        lane = Var("lane", LANES)
        channels = (*self.channels[:-1], simplify(self.lanes + lane))
        yield For(lane.name, Const(0), Const(LANES), 1, (self._windows(part, channels, lane),))

    def _widened(self, part: _Part) -> Statement:
        """The rows and columns that a part reads, as 16 bits."""
        row, column = Var("row"), Var("column")
        (top, bottom), (left, right) = part.held, part.width
        stores = tuple(
            Store(self._at(row, column, Const(lane)), cast(self._x(part, row, column, lane), INT16))
            for lane in range(1 if self.lanes is None else LANES)
        )
        start = self._x(part, Const(top), Const(left), 0)
        numbers = (bottom - top, right - left, self.down.apart, self.along.apart)
        name = f"plane{'' if self.lanes is None else 's4'}_{self.d.x.tensor.type.name}"
        call = Routine(
            of_pitch(name, self.pitch), (start, self._at(Const(top), Const(left), Const(0))), numbers
        )
        inner = For(column.name, Const(left), Const(right), 1, stores)
        return For(row.name, Const(top), Const(bottom), 1, (inner,), routine=call)

    def _at(self, row: Expr, column: Expr, lane: Expr) -> Load:
        if self.pitch == NARROW:
            return Load(self.plane, (simplify(row * NARROW + column),))
        return Load(self.plane, (simplify(row), simplify(column + lane * LANE)))

    def _x(self, part: _Part, row: Expr, column: Expr, lane: int) -> Load:
        """The operand at a row and a column of a part."""
        where: dict[str, Expr] = {self.down.out.name: part.top, self.along.out.name: Const(part.columns[0])}
        where |= {self.down.tap.name: row, self.along.tap.name: column}
        if self.lanes is not None:
            where[self.lanes.name] = self.lanes + lane
        return self.windows.moved(self.d.x, where)

    def _windows(self, part: _Part, channels: tuple[Expr, ...], lane: Expr) -> Statement:
        """The results of a part and a channel, whose plane may be one of several."""
        down, along = self.down, self.along
        oh, ow, kh, kw = Var(down.out.name), along.out, down.tap, along.tap
        row, column = oh * down.stride + kh, (ow - part.columns[0]) * along.stride + kw
        x, w = self._at(row, column, lane), Load(self.weights, (*channels, kh, kw))
        add = Assign("sum", Var("sum", None, INT32) + cast(x, INT32) * cast(w, INT32))
        taps = For(kw.name, Const(0), Const(along.taps), 1, (add,))
        made = as_byte(Var("sum", None, INT32), 0, self.found, *self._scales(channels))
        body = (
            Let("sum", Load(self.first, channels), mutable=True),
            For(kh.name, Const(0), Const(down.taps), 1, (taps,)),
            Store(self._y(channels, {oh.name: simplify(oh + part.top)}), made),
        )
        inner = For(ow.name, Const(part.columns[0]), Const(part.columns[1]), 1, body)
        call = self._call(part, channels, lane)
        return For(oh.name, Const(0), Const(part.rows), 1, (inner,), routine=call)

    def _y(self, channels: tuple[Expr, ...], where: dict[str, Expr]) -> Load:
        """A result of a channel."""
        own = {a.name: e for a, e in zip(self.channels, channels, strict=True) if a is not e}
        return self.windows.moved(self.d.to, {**own, **where})

    def _scales(self, channels: tuple[Expr, ...]) -> tuple[Load, ...]:
        """The scale of a channel in a word, or its multiplier and its shift."""
        parts = ((Const(0),), (Const(1),)) if self.found.is_fixed else ((),)
        return tuple(Load(self.scale, (*channels, *part)) for part in parts)

    def _call(self, part: _Part, channels: tuple[Expr, ...], lane: Expr) -> Routine:
        strides, kind = (self.down.stride, self.along.stride), self.d.to.tensor.type.name
        begin: dict[str, Expr] = {self.down.out.name: part.top, self.along.out.name: Const(part.columns[0])}
        start = self._y(channels, begin)
        constants = (Load(self.first, channels), self._scales(channels)[0])
        w = Load(self.weights, (*channels, Const(0), Const(0)))
        far = (step(self.d.to, side.out.name) or 0 for side in (self.down, self.along))
        numbers = (part.rows, part.columns[1] - part.columns[0], *far, self.found.zero)
        addresses = (self._at(Const(0), Const(0), lane), w, *constants, start)
        name = window_name(strides, kind, self.found.is_fixed, self.pitch, self.plain)
        return Routine(name, addresses, numbers)
