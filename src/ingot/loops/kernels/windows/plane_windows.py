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

from collections.abc import Iterator, Mapping

from ingot.formula.compute import Compute
from ingot.formula.expr import Array, Const, Expr, Load, Tensor, Var, cast, static, substitute
from ingot.formula.index import Bounds, as_expr, coefficient, mentions, simplify
from ingot.formula.statements import Assign, For, Let, Routine, Statement, Store
from ingot.formula.types import INT16, INT32
from ingot.loops.access import step
from ingot.loops.kernels.contraction.paired_bytes import as_byte
from ingot.loops.kernels.windows.byte_windows import ByteWindows, Side, open_windows
from ingot.loops.layout import Layout, Storage
from ingot.targets.mve_windows import quad_name
from ingot.targets.record import Target
from ingot.targets.window_routines import LANE, LANES, PADDED, PITCH, TAPS, window_name

ROWS = 64  # that a plane holds at most


def plane_windows(
    c: Compute, storage: Storage, target: Target, bounds: Bounds
) -> tuple[Statement, ...] | None:
    """Statements for a depthwise sum of bytes, or None: it is none, or the target has no routines for it."""
    if window_name((1, 1), "uint8") not in target.routines:
        return None
    windows = open_windows(c, storage, bounds)
    if windows is None or (windows.fill is not None and not _is_one_part(windows)):
        return None
    return _Planes(windows, target.accumulators > 0).statements()


def makes_border(c: Compute, layouts: Mapping[Tensor, Layout], target: Target) -> bool:
    """Whether a stage is computed in planes that hold what lies around its operand: that needs no halo."""
    if window_name((1, 1), "uint8") not in target.routines or c.out.type.bits != 8:
        return False
    windows = open_windows(c, Storage(dict(layouts)), {})
    if windows is None or windows.fill is None or not _is_one_part(windows):
        return False
    return windows.found.is_fixed or quad_name(1, "uint8") not in target.routines


def _is_one_part(windows: ByteWindows) -> bool:
    """Whether a plane holds the whole image, and what of it lies in memory is known."""
    sides = (windows.down, windows.along)
    whole = all(len(_parts(side, most)) == 1 for side, most in zip(sides, (ROWS, PITCH), strict=True))
    return whole and all(_inside(windows, side) is not None for side in sides)


def _inside(windows: ByteWindows, side: Side) -> tuple[int, int] | None:
    """From which row or column of the plane to which its elements lie in memory."""
    x, held = windows.d.x, side.read(static(side.out.extent))
    (d,) = (d for d, i in enumerate(x.index) if mentions(i, side.tap.name))
    first = simplify(substitute(x.index[d], {side.out.name: Const(0), side.tap.name: Const(0)}))
    apart, extent = coefficient(x.index[d], side.tap.name), x.tensor.shape[d]
    if not isinstance(first, Const) or not apart or not isinstance(extent, int):
        return None
    lo, end = (-((int(first.value) - at) // apart) for at in (0, extent))
    return max(lo, 0), min(end, held)


def _held(side: Side, results: int) -> int:
    """Rows or columns that a routine looks at, which makes two results at a time."""
    return side.stride * (results + results % 2) + 2


def _parts(side: Side, most: int) -> tuple[tuple[int, int], ...]:
    """From which result to which, where a plane holds at most so much."""
    extent = static(side.out.extent)
    size = max(n for n in range(1, extent + 1) if n == 1 or _held(side, n) <= most)
    return tuple((lo, min(lo + size, extent)) for lo in range(0, extent, size))


def _place(made: Array, weights: Array) -> None:
    """Three rows of four weights, zeros where a window has fewer."""
    made[..., : weights.shape[-2], : weights.shape[-1]] = weights


class _Planes:
    """Builds the loops: channel by channel, part of the image by part, a plane and what becomes of it."""

    def __init__(self, windows: ByteWindows, is_small: bool) -> None:
        """`is_small`: code is to be, so all layers have planes of one channel."""
        self.windows, self.d, self.found = windows, windows.d, windows.found
        self.outer, self.channels = windows.outer, windows.channels
        self.down, self.along = windows.down, windows.along
        self.parts = [
            (rows, columns) for rows in _parts(self.down, ROWS) for columns in _parts(self.along, PITCH)
        ]
        held = max(_held(self.down, hi - lo) for (lo, hi), _ in self.parts)
        self.plane = windows.storage.scratch(self.d.to.tensor, (held, PITCH), "plane", INT16)
        self.lanes = None if is_small else self._lanes()
        self.weights = windows.weights("padded", (TAPS, PADDED), _place)
        self.first = windows.of_channels(self.d.init, INT32, "first")
        self.scale = windows.scales(in_words=True)

    def _lanes(self) -> Var | None:
        """The axis of channels four of which share a plane: they lie side by side and have short rows."""
        for a in self.channels[-1:]:
            is_short = _held(self.along, static(self.along.out.extent)) <= LANE
            if is_short and static(a.extent) % LANES == 0 and step(self.d.x, a.name) == 1:
                return a
        return None

    def statements(self) -> tuple[Statement, ...]:
        body = tuple(s for rows, columns in self.parts for s in self._part(rows, columns))
        for a in reversed((*(a for a in self.outer if a not in self.channels), *self.channels)):
            body = (For(a.name, Const(0), as_expr(a.extent or 0), LANES if a is self.lanes else 1, body),)
        return body if self.windows.fill is None else (self._filled(self.windows.fill), *body)

    def _filled(self, fill: int) -> Statement:
        """What lies around the image, everywhere in the plane: channels overwrite what lies inside."""
        row, column = Var("row"), Var("column")
        width = PITCH if self.lanes is not None else self.along.read(static(self.along.out.extent))
        store = Store(Load(self.plane, (row, column)), Const(fill, INT16))
        inner = For(column.name, Const(0), Const(width), 1, (store,))
        return For(row.name, Const(0), Const(self.down.read(static(self.down.out.extent))), 1, (inner,))

    def _part(self, rows: tuple[int, int], columns: tuple[int, int]) -> Iterator[Statement]:
        yield self._widened(rows, columns)
        if self.lanes is None:
            yield self._windows(rows, columns, self.channels, Const(0))
            return
        lane = Var("lane", LANES)
        channels = (*self.channels[:-1], simplify(self.lanes + lane))
        windows = self._windows(rows, columns, channels, lane)
        yield For(lane.name, Const(0), Const(LANES), 1, (windows,))

    def _held(self, side: Side, results: tuple[int, int]) -> tuple[int, int]:
        """The rows or columns that some results read of what lies in memory."""
        inside = _inside(self.windows, side) if self.windows.fill is not None else None
        return inside or (0, side.read(results[1] - results[0]))

    def _widened(self, rows: tuple[int, int], columns: tuple[int, int]) -> Statement:
        """The rows and columns that a part reads, as 16 bits."""
        row, column = Var("row"), Var("column")
        (top, bottom), (left, right) = self._held(self.down, rows), self._held(self.along, columns)
        stores = tuple(
            Store(self._at(row, column, Const(lane)), cast(self._x(rows, columns, row, column, lane), INT16))
            for lane in range(1 if self.lanes is None else LANES)
        )
        start = self._x(rows, columns, Const(top), Const(left), 0)
        numbers = (bottom - top, right - left, self.down.apart, self.along.apart)
        name = f"plane{'' if self.lanes is None else 's4'}_{self.d.x.tensor.type.name}"
        call = Routine(name, (start, self._at(Const(top), Const(left), Const(0))), numbers)
        inner = For(column.name, Const(left), Const(right), 1, stores)
        return For(row.name, Const(top), Const(bottom), 1, (inner,), routine=call)

    def _at(self, row: Expr, column: Expr, lane: Expr) -> Load:
        return Load(self.plane, (simplify(row), simplify(column + lane * LANE)))

    def _x(self, rows: tuple[int, int], columns: tuple[int, int], row: Expr, column: Expr, lane: int) -> Load:
        """The operand at a row and a column of a part."""
        where: dict[str, Expr] = {self.down.out.name: Const(rows[0]), self.along.out.name: Const(columns[0])}
        where |= {self.down.tap.name: row, self.along.tap.name: column}
        if self.lanes is not None:
            where[self.lanes.name] = self.lanes + lane
        return self.windows.moved(self.d.x, where)

    def _windows(
        self, rows: tuple[int, int], columns: tuple[int, int], channels: tuple[Expr, ...], lane: Expr
    ) -> Statement:
        """The results of a part and a channel, whose plane may be one of several."""
        down, along = self.down, self.along
        oh, ow, kh, kw = down.out, along.out, down.tap, along.tap
        row = (oh - rows[0]) * down.stride + kh
        column = (ow - columns[0]) * along.stride + kw
        x, w = self._at(row, column, lane), Load(self.weights, (*channels, kh, kw))
        add = Assign("sum", Var("sum", None, INT32) + cast(x, INT32) * cast(w, INT32))
        taps = For(kw.name, Const(0), Const(along.taps), 1, (add,))
        made = as_byte(Var("sum", None, INT32), 0, self.found, *self._scales(channels))
        body = (
            Let("sum", Load(self.first, channels), mutable=True),
            For(kh.name, Const(0), Const(down.taps), 1, (taps,)),
            Store(self._y(channels, {}), made),
        )
        inner = For(ow.name, Const(columns[0]), Const(columns[1]), 1, body)
        call = self._call(rows, columns, channels, lane)
        return For(oh.name, Const(rows[0]), Const(rows[1]), 1, (inner,), routine=call)

    def _y(self, channels: tuple[Expr, ...], where: dict[str, Expr]) -> Load:
        """A result of a channel."""
        own = {a.name: e for a, e in zip(self.channels, channels, strict=True) if a is not e}
        return self.windows.moved(self.d.to, {**own, **where})

    def _scales(self, channels: tuple[Expr, ...]) -> tuple[Load, ...]:
        """The scale of a channel in a word, or its multiplier and its shift."""
        parts = ((Const(0),), (Const(1),)) if self.found.is_fixed else ((),)
        return tuple(Load(self.scale, (*channels, *part)) for part in parts)

    def _call(
        self, rows: tuple[int, int], columns: tuple[int, int], channels: tuple[Expr, ...], lane: Expr
    ) -> Routine:
        strides, kind = (self.down.stride, self.along.stride), self.d.to.tensor.type.name
        start = self._y(
            channels, {self.down.out.name: Const(rows[0]), self.along.out.name: Const(columns[0])}
        )
        constants = (Load(self.first, channels), self._scales(channels)[0])
        w = Load(self.weights, (*channels, Const(0), Const(0)))
        far = (step(self.d.to, side.out.name) or 0 for side in (self.down, self.along))
        numbers = (rows[1] - rows[0], columns[1] - columns[0], *far, self.found.zero)
        addresses = (self._at(Const(0), Const(0), lane), w, *constants, start)
        return Routine(window_name(strides, kind, self.found.is_fixed), addresses, numbers)
