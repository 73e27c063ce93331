"""Depthwise sums of bytes by vectors of four by four elements of a channel.

    quad[q][c][r] = x[r, q, c], signed                                       by the routine `quads`
    acc = sum over kh, kw of quad[ow + kw][c][oh + kh] * w[c][kw][kh]        by the routine `quad_windows`
    y[oh, ow, c] = limited(round(acc * scale[c]) + zero)

Strips of two rows of results (of one, where windows move by two) and blocks of sixteen channels; 128 is taken
from each unsigned byte, which first values make up for. In: windows that `byte_windows` serves, which move
equally far both ways, of channels that lie side by side. Out: statements, or None.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ingot.formula.compute import Compute
from ingot.formula.expr import Array, Binary, Const, Expr, Load, Var, cast, static
from ingot.formula.index import Bounds, as_expr, simplify
from ingot.formula.statements import Assign, For, Let, Routine, Statement, Store
from ingot.formula.types import INT8, INT32, UINT8
from ingot.loops.access import step
from ingot.loops.kernels.contraction.paired_bytes import as_byte
from ingot.loops.kernels.contraction.products import SIGN
from ingot.loops.kernels.windows.byte_windows import ByteWindows, byte_windows
from ingot.loops.layout import Storage
from ingot.targets.mve_windows import LANES, QUAD, REACH, quad_name
from ingot.targets.record import Target

COLUMNS = 64  # of results, at most, in a part of an image


def quad_windows(
    c: Compute, storage: Storage, target: Target, bounds: Bounds
) -> tuple[Statement, ...] | None:
    """Statements for a depthwise sum of bytes, or None: it is none, or the target has no routines for it."""
    if quad_name(1, "uint8") not in target.routines:
        return None
    windows = byte_windows(c, storage, bounds)
    if windows is None or windows.found.is_fixed:
        return None
    if windows.down.stride != windows.along.stride or len(windows.channels) != 1:
        return None
    if step(windows.d.x, windows.channels[0].name) != 1 or _span(windows) >= REACH:
        return None
    return _Quads(windows).statements()


def _span(windows: ByteWindows) -> int:
    """From the first of the results that the routine makes together to the last."""
    down, along = (step(windows.d.to, side.out.name) or 0 for side in (windows.down, windows.along))
    return down + (QUAD - 1) * along if windows.down.stride == 1 else (2 * QUAD - 1) * along


def _place(made: Array, weights: Array) -> None:
    """Four columns of four rows, zeros where a window has fewer."""
    kh, kw = weights.shape[-2:]
    made[..., :kw, :kh] = np.swapaxes(weights, -1, -2)


class _Quads:
    """Builds the loops: part of the image by part, strips of rows, blocks of channels."""

    def __init__(self, windows: ByteWindows) -> None:
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

    def statements(self) -> tuple[Statement, ...]:
        extent = static(self.along.out.extent)
        parts = [(lo, min(lo + COLUMNS, extent)) for lo in range(0, extent, COLUMNS)]
        body = tuple(s for part in parts for s in self._strips(part))
        for a in reversed([a for a in self.windows.outer if a is not self.channel]):
            body = (For(a.name, Const(0), as_expr(a.extent or 0), 1, body),)
        return body

    def _strips(self, columns: tuple[int, int]) -> Iterator[Statement]:
        whole, rest = divmod(static(self.down.out.extent), self.rows)
        strip = Var("strip", whole)
        if whole:
            body = tuple(self._blocks(strip * self.rows, self.rows, columns))
            yield For(strip.name, Const(0), Const(whole), 1, body)
        if rest:
            yield from self._blocks(Const(whole * self.rows), rest, columns)

    def _blocks(self, top: Expr, rows: int, columns: tuple[int, int]) -> Iterator[Statement]:
        """Some rows of results from `top` on."""
        whole, rest = divmod(static(self.channel.extent), LANES)
        block = Var("block", whole)
        if whole:
            body = self._made(top, rows, columns, block * LANES, LANES)
            yield For(block.name, Const(0), Const(whole), 1, body)
        if rest:
            yield from self._made(top, rows, columns, Const(whole * LANES), rest)

    def _made(
        self, top: Expr, rows: int, columns: tuple[int, int], channel: Expr, lanes: int
    ) -> tuple[Statement, Statement]:
        start = {self.down.out.name: top, self.along.out.name: Const(columns[0])}
        count = columns[1] - columns[0]
        interleaved = self._interleaved(start, self.down.read(rows), self.along.read(count), channel, lanes)
        return interleaved, self._results(start, rows, count, channel, lanes)

    def _interleaved(
        self, start: dict[str, Expr], height: int, width: int, channel: Expr, lanes: int
    ) -> Statement:
        """The rows and columns that some windows read."""
        row, column, lane = Var("row", height), Var("column", width), Var("lane", lanes)

        def x(row: Expr, column: Expr, lane: Expr) -> Load:
            taps = {self.down.tap.name: row, self.along.tap.name: column}
            return self.windows.moved(
                self.d.x, {**start, **taps, self.channel.name: simplify(channel + lane)}
            )

        byte: Expr = x(row, column, lane)
        if self.d.x.tensor.type is UINT8:
            byte = cast(Binary("xor", byte, Const(SIGN, UINT8)), INT8)
        body: tuple[Statement, ...] = (Store(Load(self.quad, (column, lane, row)), byte),)
        body = (For(row.name, Const(0), Const(height), 1, body),)
        body = (For(lane.name, Const(0), Const(lanes), 1, body),)
        none = Const(0)
        numbers = (height, width, self.down.apart, self.along.apart, lanes)
        addresses = (x(none, none, none), Load(self.quad, (none, none, none)))
        call = Routine(f"quads_{self.d.x.tensor.type.name}", addresses, numbers)
        return For(column.name, Const(0), Const(width), 1, body, routine=call)

    def _results(
        self, start: dict[str, Expr], rows: int, columns: int, channel: Expr, lanes: int
    ) -> Statement:
        """The bytes of so many rows and columns of windows."""
        line, place, lane = Var("line", rows), Var("place", columns), Var("lane", lanes)
        kh, kw = self.down.tap, self.along.tap
        c, none = simplify(channel + lane), Const(0)
        a = Load(self.quad, (place * self.stride + kw, lane, line * self.stride + kh))
        w = Load(self.weights, (simplify(c + 1), kw, kh))
        add = Assign("sum", Var("sum", None, INT32) + cast(a, INT32) * cast(w, INT32))
        taps = For(kw.name, none, Const(self.along.taps), 1, (add,))
        made = as_byte(Var("sum", None, INT32), 0, self.found, Load(self.scale, (c,)))
        body: tuple[Statement, ...] = (
            Let("sum", Load(self.first, (c,)), mutable=True),
            For(kh.name, none, Const(self.down.taps), 1, (taps,)),
            Store(self._to(start, line, place, c), made),
        )
        for v in (place, line):
            body = (For(v.name, none, as_expr(v.extent or 0), 1, body),)
        constants = (Load(t, (simplify(channel),)) for t in (self.first, self.scale))
        begin = Load(self.quad, (none, none, none))
        w = Load(self.weights, (simplify(channel + 1), none, none))
        axes = (self.down.out, self.along.out, self.channel)
        far = (step(self.d.to, a.name) or 0 for a in axes)
        call = Routine(
            quad_name(self.stride, self.d.to.tensor.type.name),
            (begin, w, *constants, self._to(start, none, none, simplify(channel))),
            (rows, columns, lanes, *far, self.found.zero),
        )
        return For(lane.name, none, Const(lanes), 1, body, routine=call)

    def _to(self, start: dict[str, Expr], line: Expr, place: Expr, channel: Expr) -> Load:
        down, along = self.down.out.name, self.along.out.name
        where = {down: start[down] + line, along: start[along] + place, self.channel.name: channel}
        return self.windows.moved(self.d.to, where)
