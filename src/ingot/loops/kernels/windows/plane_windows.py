"""Depthwise sums of bytes, channel by channel: a plane of 16 bits, whose neighbours are multiplied in pairs.

    plane[r][q] = int16(x[r, q, c])                                          by the routine `plane`
    acc = sum over kh, kw of plane[oh + kh][ow + kw] * w[c][kh][kw]          by the routine `window`
    y[oh, ow, c] = limited(round(acc * scale[c]) + zero)

Where channels lie side by side no two taps of one are neighbours; a plane makes them so. Rows of planes have
one of a few lengths, which routines know; larger images go in parts. In: a depthwise sum of bytes of windows
of two or three by two or three, that moves by one or two, the halo filled. Out: statements, or None.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from ingot.formula.compute import Compute
from ingot.formula.evaluate import value as evaluate
from ingot.formula.expr import Array, Const, Expr, Load, Tensor, Var, cast, static, substitute
from ingot.formula.index import Bounds, as_expr, mentions, simplify
from ingot.formula.statements import Assign, For, Let, Routine, Statement, Store
from ingot.formula.types import FLOAT32, INT8, INT16, INT32, DType
from ingot.loops.access import step
from ingot.loops.axes import normal_axes
from ingot.loops.kernels.contraction.paired_bytes import as_byte, is_plain
from ingot.loops.kernels.contraction.roles import around
from ingot.loops.kernels.windows.depthwise_match import SumOfBytes, sum_of_bytes
from ingot.loops.layout import Storage
from ingot.loops.requantise import Requantised, requantised
from ingot.targets.record import Target
from ingot.targets.window_routines import PADDED, PITCHES, STRIDES, TAPS, window_name

SUM = Var("acc", None, INT32)
ROWS = 64  # that a plane holds at most


@dataclass(frozen=True, slots=True)
class _Side:
    """One direction of the windows: results, taps and how far apart they read in rows or columns of a plane;
    `apart`: bytes from one of these to the next.
    """

    out: Var
    tap: Var
    stride: int
    apart: int

    @property
    def taps(self) -> int:
        return static(self.tap.extent)

    def read(self, results: int) -> int:
        """Rows or columns that so many results read."""
        return self.stride * (results - 1) + self.taps

    def held(self, results: int) -> int:
        """Rows or columns that a routine looks at, which makes two results at a time."""
        return self.stride * (results + results % 2) + 2

    def parts(self, most: int) -> tuple[tuple[int, int], ...]:
        """From which result to which, where a plane holds at most so much."""
        extent = static(self.out.extent)
        size = max(n for n in range(1, extent + 1) if n == 1 or self.held(n) <= most)
        return tuple((lo, min(lo + size, extent)) for lo in range(0, extent, size))


def plane_windows(
    c: Compute, storage: Storage, target: Target, bounds: Bounds
) -> tuple[Statement, ...] | None:
    """Statements for a depthwise sum of bytes, or None: it is none, or the target has no routines for it."""
    if window_name((1, 1), PITCHES[0], "uint8") not in target.routines:
        return None
    c = normal_axes(c)
    d = sum_of_bytes(c, storage, bounds)
    sides = None if d is None or c.reduction is None else _sides(d, c.axes, c.reduction.axes)
    if d is None or sides is None:
        return None
    outer = tuple(a for a in c.axes if a not in (sides[0].out, sides[1].out))
    found = _made(d, outer, sides)
    return None if found is None else _Planes(d, found, outer, sides, storage).statements()


def _made(d: SumOfBytes, outer: tuple[Var, ...], sides: tuple[_Side, _Side]) -> Requantised | None:
    """What the sums become, where the routine can tell: bytes by constants of the channels."""
    found = requantised(d.value, SUM)
    if found is None or found.node != d.value or not found.is_whole:
        return None
    for e in (found.scale, d.init):
        if not isinstance(e, Const) and not (isinstance(e, Load) and _is_constant(e, outer)):
            return None
    return found if _is_constant(d.w, (*outer, *(side.tap for side in sides))) else None


def _is_constant(e: Load, axes: tuple[Var, ...]) -> bool:
    return e.tensor.value is not None and e.outside is None and not around(e, axes)


def _sides(d: SumOfBytes, axes: tuple[Var, ...], taps: tuple[Var, ...]) -> tuple[_Side, _Side] | None:
    """Down and along: each tap axis with the axis of results that moves through the same elements. Along goes
    where there are more: a row costs what several results cost.
    """
    if len(taps) != 2 or any(step(e, a.name) is None for e in (d.x, d.to) for a in (*axes, *taps)):
        return None
    found = []
    for tap in taps:
        apart = step(d.x, tap.name) or 0
        dims = [i for i in d.x.index if mentions(i, tap.name)]
        outs = [a for a in axes if len(dims) == 1 and mentions(dims[0], a.name)]
        if len(outs) != 1 or apart <= 0 or static(tap.extent) not in (2, TAPS):
            return None
        stride, rest = divmod(step(d.x, outs[0].name) or 0, apart)
        if rest or stride not in STRIDES or mentions(d.w, outs[0].name):
            return None
        found.append(_Side(outs[0], tap, stride, apart))
    down, along = sorted(found, key=lambda side: static(side.out.extent))
    return (down, along) if down.out is not along.out else None


class _Planes:
    """Builds the loops: channel by channel, part of the image by part, a plane and what becomes of it."""

    def __init__(
        self,
        d: SumOfBytes,
        found: Requantised,
        outer: tuple[Var, ...],
        sides: tuple[_Side, _Side],
        storage: Storage,
    ) -> None:
        self.d, self.found, self.outer, self.storage = d, found, outer, storage
        self.channels = tuple(a for a in outer if step(d.w, a.name) != 0)
        self.down, self.along = sides
        columns = self.along.held(static(self.along.out.extent))
        self.pitch = next((n for n in PITCHES if columns <= n), PITCHES[-1])
        self.parts = [
            (rows, columns) for rows in self.down.parts(ROWS) for columns in self.along.parts(self.pitch)
        ]
        held = max(self.down.held(hi - lo) for (lo, hi), _ in self.parts)
        self.plane = storage.scratch(d.to.tensor, (held, self.pitch), "plane", INT16)
        self.weights = self._weights()
        assert isinstance(d.init, Const | Load)
        self.first = self._constant(d.init, INT32, "first")
        self.scale = self._constant(found.scale, FLOAT32, "scale")

    def statements(self) -> tuple[Statement, ...]:
        body = tuple(s for rows, columns in self.parts for s in self._part(rows, columns))
        for a in reversed((*(a for a in self.outer if a not in self.channels), *self.channels)):
            body = (For(a.name, Const(0), as_expr(a.extent or 0), 1, body),)
        return body

    def _part(self, rows: tuple[int, int], columns: tuple[int, int]) -> Iterator[Statement]:
        yield self._widened(rows, columns)
        yield self._windows(rows, columns)

    def _widened(self, rows: tuple[int, int], columns: tuple[int, int]) -> Statement:
        """The rows and columns that a part reads, as 16 bits."""
        row, column = Var("row"), Var("column")
        stores = (Store(self._at(row, column), cast(self._x(rows[0], columns[0], row, column), INT16)),)
        height = self.down.read(rows[1] - rows[0])
        width = self.along.read(columns[1] - columns[0])
        start = self._x(rows[0], columns[0], Const(0), Const(0))
        numbers = (height, width, self.down.apart, self.along.apart, self.pitch)
        name = f"plane_{self.d.x.tensor.type.name}"
        call = Routine(name, (start, self._at(Const(0), Const(0))), numbers)
        inner = For(column.name, Const(0), Const(width), 1, stores)
        return For(row.name, Const(0), Const(height), 1, (inner,), routine=call)

    def _at(self, row: Expr, column: Expr) -> Load:
        return Load(self.plane, (simplify(row), simplify(column)))

    def _x(self, top: int, left: int, row: Expr, column: Expr) -> Load:
        """The operand at a row and a column of a part."""
        where = {self.down.out.name: Const(top), self.along.out.name: Const(left)}
        return self._moved(self.d.x, {**where, self.down.tap.name: row, self.along.tap.name: column})

    def _moved(self, e: Load, where: dict[str, Expr]) -> Load:
        found = simplify(substitute(e, where), self.d.bounds)
        assert isinstance(found, Load)
        return found

    def _windows(self, rows: tuple[int, int], columns: tuple[int, int]) -> Statement:
        """The results of a part."""
        down, along = self.down, self.along
        oh, ow, kh, kw = down.out, along.out, down.tap, along.tap
        row = (oh - rows[0]) * down.stride + kh
        column = (ow - columns[0]) * along.stride + kw
        x, w = self._at(row, column), Load(self.weights, (*self.channels, kh, kw))
        add = Assign("sum", Var("sum", None, INT32) + cast(x, INT32) * cast(w, INT32))
        taps = For(kw.name, Const(0), Const(along.taps), 1, (add,))
        made = as_byte(Var("sum", None, INT32), Load(self.scale, self.channels), 0, self.found)
        body = (
            Let("sum", Load(self.first, self.channels), mutable=True),
            For(kh.name, Const(0), Const(down.taps), 1, (taps,)),
            Store(self.d.to, made),
        )
        inner = For(ow.name, Const(columns[0]), Const(columns[1]), 1, body)
        call = self._call(rows, columns)
        return For(oh.name, Const(rows[0]), Const(rows[1]), 1, (inner,), routine=call)

    def _call(self, rows: tuple[int, int], columns: tuple[int, int]) -> Routine:
        strides, kind = (self.down.stride, self.along.stride), self.d.to.tensor.type.name
        start = self._moved(
            self.d.to, {self.down.out.name: Const(rows[0]), self.along.out.name: Const(columns[0])}
        )
        constants = (Load(t, self.channels) for t in (self.first, self.scale))
        w = Load(self.weights, (*self.channels, Const(0), Const(0)))
        far = (step(self.d.to, side.out.name) or 0 for side in (self.down, self.along))
        numbers = (rows[1] - rows[0], columns[1] - columns[0], *far, self.found.zero)
        addresses = (self._at(Const(0), Const(0)), w, *constants, start)
        return Routine(window_name(strides, self.pitch, kind, is_plain(self.found)), addresses, numbers)

    # -- constants of each channel

    def _weights(self) -> Tensor:
        """int8 [channel.., three rows, four weights], zeros where a window has fewer."""
        d, axes = self.d, (*self.channels, self.down.tap, self.along.tap)
        extents = tuple(static(a.extent) for a in axes)

        def pack(array: Array) -> Array:
            every = _evaluated(replace(d.w, tensor=replace(d.w.tensor, value=array)), axes)
            made = np.zeros((*extents[:-2], TAPS, PADDED), np.int8)
            made[..., : extents[-2], : extents[-1]] = every
            return made

        how = ("planes", d.w.index, tuple(a.name for a in axes))
        return self.storage.derived(d.w.tensor, how, pack, INT8, "padded")

    def _constant(self, e: Const | Load, type: DType, what: str) -> Tensor:
        """A number for each channel."""

        def pack(array: Array) -> Array:
            read = replace(e, tensor=replace(e.tensor, value=array)) if isinstance(e, Load) else e
            return np.ascontiguousarray(_evaluated(read, self.channels).astype(type.numpy))

        of, part = (e.tensor, e.index) if isinstance(e, Load) else (self.d.w.tensor, (e,))
        return self.storage.derived(
            of, ("planes", what, part, tuple(a.name for a in self.channels)), pack, type, what
        )


def _evaluated(e: Expr, axes: tuple[Var, ...]) -> Array:
    extents = tuple(static(a.extent) for a in axes)
    grid = dict(zip((a.name for a in axes), np.ogrid[tuple(map(slice, extents))], strict=True))
    return np.broadcast_to(evaluate(e, {}, grid), extents)
