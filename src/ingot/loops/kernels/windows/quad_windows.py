"""Depthwise sums of bytes by vectors of four by four elements of a channel.

    quad[q][c][r] = x[r, q, c], signed                          by the routines `quads`, `next_quads`
    acc = sum over kh, kw of quad[ow + kw][c][oh + kh] * w[c][kw][kh]        by the routine `quad_windows`
    y[oh, ow, c] = limited(round(acc * scale[c]) + zero)

Blocks of sixteen channels and strips of two rows of results (of one, where windows move by two); 128 is taken
from each unsigned byte, which first values make up for. What lies around an image is written where rows are
interleaved, so its memory has no halo. In: windows that `byte_windows` serves, which move equally far both
ways, of channels that lie side by side. Out: statements, or None.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby, repeat

import numpy as np

from ingot.formula.compute import Compute
from ingot.formula.expr import Array, Binary, Const, Expr, Load, Var, cast, static
from ingot.formula.index import Bounds, as_expr, simplify
from ingot.formula.statements import Assign, For, Let, Routine, Statement, Store
from ingot.formula.types import INT8, INT32, UINT8
from ingot.loops.access import step
from ingot.loops.kernels.contraction.paired_bytes import as_byte, is_plain
from ingot.loops.kernels.contraction.products import SIGN
from ingot.loops.kernels.windows.byte_windows import ByteWindows, Side, open_windows
from ingot.loops.layout import Storage
from ingot.targets.mve_windows import LANES, QUAD, REACH, quad_name, quads_name
from ingot.targets.record import Target

COLUMNS = 64  # of results, at most, in a part of an image
KEPT = 2  # rows that strips of windows share, which move by one
ROW = Var("row")


def quad_windows(
    c: Compute, storage: Storage, target: Target, bounds: Bounds
) -> tuple[Statement, ...] | None:
    """Statements for a depthwise sum of bytes, or None: it is none, or the target has no routines for it."""
    windows = open_windows(c, storage, bounds) if _has_routines(target) else None
    return (
        None if windows is None or not is_in_quads(windows, target) else _Quads(windows, target).statements()
    )


def is_in_quads(windows: ByteWindows, target: Target) -> bool:
    """Whether the windows are computed here, what lies around their operand included."""
    if not _has_routines(target):
        return False
    if windows.down.stride != windows.along.stride or len(windows.channels) != 1:
        return False
    if step(windows.d.x, windows.channels[0].name) != 1 or _span(windows) >= REACH:
        return False
    return all(map(_is_known, repeat(windows), (windows.down, windows.along)))


def _is_known(windows: ByteWindows, side: Side) -> bool:
    """Whether it is known which of the rows or columns that results read lie in memory; some always do."""
    ends = (windows.inside(side, at, 1) for at in (0, static(side.out.extent) - 1))
    return all(held is not None and held[0] < held[1] for held in ends)


def _has_routines(target: Target) -> bool:
    return quad_name(1, "uint8") in target.routines


def _span(windows: ByteWindows) -> int:
    """From the first of the results that the routine makes together to the last."""
    down, along = (step(windows.d.to, side.out.name) or 0 for side in (windows.down, windows.along))
    return down + (QUAD - 1) * along if windows.down.stride == 1 else (2 * QUAD - 1) * along


def _place(made: Array, weights: Array) -> None:
    """Four columns of four rows, zeros where a window has fewer."""
    kh, kw = weights.shape[-2:]
    made[..., :kw, :kh] = np.swapaxes(weights, -1, -2)


def _over_rows(first: int, end: int, store: Store) -> Iterator[Statement]:
    """A store in a loop over some rows, if there are any."""
    if first < end:
        yield For(ROW.name, Const(first), Const(end), 1, (store,))


@dataclass(frozen=True, slots=True)
class _Strip:
    """Some rows of results from `top` on, between two columns. `held`, `width`: of the rows and columns that
    they read, from which to which lie in memory. `kept`: rows that the strip before has left.
    """

    top: Expr
    rows: int
    columns: tuple[int, int]
    held: tuple[int, int]
    width: tuple[int, int]
    kept: int


class _Quads:
    """Builds the loops: part of the image by part, blocks of channels, strips of rows. A strip of windows
    that move by one keeps the rows that it shares with the strip before, so results may replace the operand.
    """

    def __init__(self, windows: ByteWindows, target: Target) -> None:
        self.windows, self.d, self.found = windows, windows.d, windows.found
        self.down, self.along = windows.down, windows.along
        self.stride, (self.channel,) = self.down.stride, windows.channels
        self.rows, columns = (2, QUAD) if self.stride == 1 else (1, 2 * QUAD)  # of results, made together
        groups = -(-min(static(self.along.out.extent), COLUMNS) // columns)
        held = self.stride * columns * groups + QUAD - 2
        self.quad = windows.storage.scratch(self.d.to.tensor, (held, LANES, QUAD), "quad", INT8)
        self.weights = windows.weights("quads", (QUAD, QUAD), _place, before=1)
        self.first = windows.first(SIGN if self.d.x.tensor.type is UINT8 else 0)
        self.scale = windows.scales()
        self.fill = windows.fill or 0
        self.kinds = self._kinds()
        name = self.d.to.tensor.type.name
        self.routine = quad_name(self.stride, name, self.found.is_fixed, is_plain(self.found, target))

    def statements(self) -> tuple[Statement, ...]:
        extent = static(self.along.out.extent)
        parts = [(lo, min(lo + COLUMNS, extent)) for lo in range(0, extent, COLUMNS)]
        body = tuple(s for part in parts for s in self._part(part))
        for a in reversed([a for a in self.windows.outer if a is not self.channel]):
            body = (For(a.name, Const(0), as_expr(a.extent or 0), 1, body),)
        return body

    def _part(self, columns: tuple[int, int]) -> Iterator[Statement]:
        """What lies beside the image, once, and blocks of channels."""
        count = columns[1] - columns[0]
        width, held = self._width(columns), self.kinds[0][1]
        start: dict[str, Expr] = {self.down.out.name: Const(0), self.along.out.name: Const(columns[0])}
        for span in ((0, width[0]), (width[1], self.along.read(count))):
            if span[0] < span[1]:
                yield self._beside(span, self._x(start, Const(held[0]), Const(width[0]), Const(0)))
        whole, rest = divmod(static(self.channel.extent), LANES)
        block = Var("block", whole)
        if whole:
            body = tuple(self._strips(columns, block * LANES, LANES))
            yield For(block.name, Const(0), Const(whole), 1, body)
        if rest:
            yield from self._strips(columns, Const(whole * LANES), rest)

    def _width(self, columns: tuple[int, int]) -> tuple[int, int]:
        width = self.windows.inside(self.along, columns[0], columns[1] - columns[0])
        assert width is not None
        return width

    def _strips(self, columns: tuple[int, int], channel: Expr, lanes: int) -> Iterator[Statement]:
        """Strips of rows from the first on, those that are alike in a loop."""
        number = 0
        for (rows, held, kept), alike in groupby(self.kinds):
            strips = len(list(alike))
            strip = Var("strip", strips)
            top = simplify(((strip if strips > 1 else Const(0)) + number) * self.rows)
            body = self._made(_Strip(top, rows, columns, held, self._width(columns), kept), channel, lanes)
            yield from (For(strip.name, Const(0), Const(strips), 1, body),) if strips > 1 else body
            number += strips

    def _kinds(self) -> list[tuple[int, tuple[int, int], int]]:
        """Of each strip how many rows of results it has, what of the rows that they read lies in memory, and
        how many of those the strip before has left.
        """
        made, extent = [], static(self.down.out.extent)
        for top in range(0, extent, self.rows):
            rows = min(self.rows, extent - top)
            is_kept = self.stride == 1 and top + rows < extent  # by the strip behind: also what has no taps
            held = self.windows.inside(self.down, top, QUAD - self.down.taps + 1 if is_kept else rows)
            assert held is not None
            made.append((rows, held, KEPT if top and self.stride == 1 else 0))
        return made

    def _beside(self, span: tuple[int, int], x: Load) -> Statement:
        """Columns that lie beside the image; `x`: anything in it."""
        column, lane = Var("column"), Var("lane", LANES)
        body: tuple[Statement, ...] = tuple(self._filled(column, lane, 0, QUAD))
        body = (For(lane.name, Const(0), Const(LANES), 1, body),)
        call = self._call(x, span, (0, 0), LANES, 0)
        return For(column.name, Const(span[0]), Const(span[1]), 1, body, routine=call)

    def _filled(self, column: Var, lane: Var, first: int, end: int) -> Iterator[Statement]:
        """Rows that do not lie in memory."""
        taken = SIGN if self.d.x.tensor.type is UINT8 else 0
        fill = Store(Load(self.quad, (column, lane, ROW)), Const(self.fill - taken, INT8))
        yield from _over_rows(first, end, fill)

    def _call(
        self, x: Load, columns: tuple[int, int], rows: tuple[int, int], lanes: int, kept: int
    ) -> Routine:
        """The routine that interleaves some columns and rows, which are counted from the first new one."""
        to = Load(self.quad, (Const(columns[0]), Const(0), Const(0)))
        numbers = (rows[0], rows[1] - rows[0], columns[1] - columns[0], self.down.apart, self.along.apart)
        name = quads_name(self.d.x.tensor.type.name, kept > 0)
        return Routine(name, (x, to), (*numbers, lanes, self.fill))

    def _made(self, strip: _Strip, channel: Expr, lanes: int) -> tuple[Statement, Statement]:
        start = {self.down.out.name: strip.top, self.along.out.name: Const(strip.columns[0])}
        return self._interleaved(strip, start, channel, lanes), self._results(strip, start, channel, lanes)

    def _x(self, start: dict[str, Expr], row: Expr, column: Expr, channel: Expr) -> Load:
        taps = {self.down.tap.name: row, self.along.tap.name: column}
        return self.windows.moved(self.d.x, {**start, **taps, self.channel.name: simplify(channel)})

    def _interleaved(self, strip: _Strip, start: dict[str, Expr], channel: Expr, lanes: int) -> Statement:
        """The rows and columns that some windows read, but for rows that the strip before has left."""
        kept, (left, right) = strip.kept, strip.width
        first, end = (max(row, kept) for row in strip.held)
        column, lane = Var("column"), Var("lane", lanes)
        byte: Expr = self._x(start, ROW, column, channel + lane)
        if self.d.x.tensor.type is UINT8:
            byte = cast(Binary("xor", byte, Const(SIGN, UINT8)), INT8)
        old = Load(self.quad, (column, lane, ROW + (QUAD - kept)))
        body: tuple[Statement, ...] = (
            *_over_rows(0, kept, Store(Load(self.quad, (column, lane, ROW)), old)),
            *self._filled(column, lane, kept, first),
            *_over_rows(first, end, Store(Load(self.quad, (column, lane, ROW)), byte)),
            *self._filled(column, lane, end, QUAD),
        )
        body = (For(lane.name, Const(0), Const(lanes), 1, body),)
        x = self._x(start, Const(min(first, strip.held[1] - 1)), Const(left), channel)
        call = self._call(x, strip.width, (first - kept, end - kept), lanes, kept)
        return For(column.name, Const(left), Const(right), 1, body, routine=call)

    def _results(self, strip: _Strip, start: dict[str, Expr], channel: Expr, lanes: int) -> Statement:
        """The bytes of a strip, of some channels."""
        columns, none = strip.columns[1] - strip.columns[0], Const(0)
        line, place, lane = Var("line", strip.rows), Var("place", columns), Var("lane", lanes)
        c = simplify(channel + lane)
        body = self._window(start, line, place, lane, c)
        for v in (place, line):
            body = (For(v.name, none, as_expr(v.extent or 0), 1, body),)
        constants = (Load(t, (simplify(channel), *[none] * (t.rank - 1))) for t in (self.first, self.scale))
        begin = Load(self.quad, (none, none, none))
        w = Load(self.weights, (simplify(channel + 1), none, none))
        axes = (self.down.out, self.along.out, self.channel)
        far = (step(self.d.to, a.name) or 0 for a in axes)
        call = Routine(
            self.routine,
            (begin, w, *constants, self._to(start, none, none, simplify(channel))),
            (strip.rows, columns, lanes, *far, self.found.zero),
        )
        return For(lane.name, none, Const(lanes), 1, body, routine=call)

    def _window(
        self, start: dict[str, Expr], line: Expr, place: Expr, lane: Expr, c: Expr
    ) -> tuple[Statement, ...]:
        """One result."""
        kh, kw = self.down.tap, self.along.tap
        a = Load(self.quad, (place * self.stride + kw, lane, line * self.stride + kh))
        w = Load(self.weights, (simplify(c + 1), kw, kh))
        add = Assign("sum", Var("sum", None, INT32) + cast(a, INT32) * cast(w, INT32))
        taps = For(kw.name, Const(0), Const(self.along.taps), 1, (add,))
        parts = ((Const(0),), (Const(1),)) if self.found.is_fixed else ((),)
        scales = (Load(self.scale, (c, *part)) for part in parts)
        made = as_byte(Var("sum", None, INT32), 0, self.found, *scales)
        return (
            Let("sum", Load(self.first, (c,)), mutable=True),
            For(kh.name, Const(0), Const(self.down.taps), 1, (taps,)),
            Store(self._to(start, line, place, c), made),
        )

    def _to(self, start: dict[str, Expr], line: Expr, place: Expr, channel: Expr) -> Load:
        down, along = self.down.out.name, self.along.out.name
        where = {down: start[down] + line, along: start[along] + place, self.channel.name: channel}
        return self.windows.moved(self.d.to, where)
