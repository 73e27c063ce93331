"""The loops of a stream: stages that go through rows at one pace (`loops/region_passes/streams.py`).

    fill every line buffer, as above the image
    for every row of the last stage
        for every one of the rows that a stage makes meanwhile, in loops of the strides between
            for every stage of that step, in order
                move the rows of its line buffer that are read again to the front
                make the next one behind them; below the image, the fill

In: the stages of a group, and the `LineBuffer` of each. Out: statements; those of a stage's rows are what the
generators write for an image of so many rows. Called by `generate`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ingot.formula.compute import Compute, Stage
from ingot.formula.expr import (
    Const,
    Expr,
    Extent,
    Load,
    Tensor,
    Var,
    maximum,
    minimum,
    static,
    substitute,
    transform,
)
from ingot.formula.index import Bounds, as_expr, interval, simplify
from ingot.formula.statements import For, Statement, When
from ingot.loops.choice import Choices
from ingot.loops.kernels.banded import Rows
from ingot.loops.kernels.common_scratch import share_scratch
from ingot.loops.layout import Range, Storage, at_once, fill_halo, of_fill, row_buffer, write_box
from ingot.loops.line_buffer import LineBuffer
from ingot.loops.rewrite import apart
from ingot.targets.record import Target


def streamed(
    stages: Sequence[Stage], choices: Choices, storage: Storage, target: Target, rows: Rows
) -> tuple[tuple[Statement, ...], int] | None:
    """Statements for the first stages, and for how many; None where the first is in no stream."""
    made: list[_Made] = []
    for stage in stages:
        line = choices[stage].line if isinstance(stage, Compute) and stage in choices else None
        if line is None or not isinstance(stage, Compute):
            return None
        made.append(_Made(stage, line, stage.out if line.is_last else _buffer(stage, line, storage)))
        if line.is_last:
            return tuple(_Generator(made, storage, target, rows).statements()), len(made)
    return None


@dataclass(frozen=True, slots=True)
class _Made:
    """A stage of a stream, and the logical tensor that its rows are written to."""

    stage: Compute
    line: LineBuffer
    buffer: Tensor

    @property
    def height(self) -> int:
        return static(self.stage.out.shape[self.line.dim])


def _buffer(c: Compute, line: LineBuffer, storage: Storage) -> Tensor:
    """The line buffer as a tensor: stored like what it holds rows of."""
    return row_buffer(c.out, line.shape(c.out), line.layout(storage.layout(c.out)), storage)


class _Generator:
    """Builds the loops of one stream."""

    def __init__(self, made: list[_Made], storage: Storage, target: Target, rows: Rows) -> None:
        self.made, self.storage, self.target, self.rows = made, storage, target, rows
        self.sources: Mapping[Tensor, _Made] = {m.stage.out: m for m in made if not m.line.is_last}
        self.steps = sorted({m.line.step for m in made})
        self.scratch: list[set[Tensor]] = []  # of each stage
        self.at: dict[int, Expr] = {}  # how many rows of each step are made before these

    def statements(self) -> Iterator[Statement]:
        taken: set[str] = set()
        for m in self.sources.values():
            yield from apart(self._start(m), taken)
        tick = Var("tick", self.made[-1].line.ticks)
        body = self._period(0, tick, _span(tick), taken)
        body = share_scratch(body, self.scratch, self.storage, self.storage.tensor(self.made[-1].stage.out))
        yield For(tick.name, Const(0), as_expr(static(tick.extent)), 1, body)

    def _start(self, m: _Made) -> tuple[Statement, ...]:
        """What lies beside the rows, and above the image."""
        halo = fill_halo(m.buffer, self.storage, self._lanes(m))
        return halo if m.line.fill is None else (*halo, *self._filled(m, 0, m.line.rows))

    def _period(self, level: int, at: Expr, bounds: Bounds, taken: set[str]) -> tuple[Statement, ...]:
        """What happens while stages of the step of this level make their row number `at`, counted in ticks:
        first the rows of larger steps, then theirs.
        """
        out: list[Statement] = []
        self.at[self.steps[level]] = at
        for m in self.made:
            if m.line.step // m.line.shift == self.steps[level] < m.line.step:
                out += self._kept(m)
        if level + 1 < len(self.steps):
            sub = Var(f"sub{level}", self.steps[level + 1] // self.steps[level])
            inner = {**bounds, **_span(sub)}
            body = self._period(level + 1, simplify(at * static(sub.extent) + sub, inner), inner, taken)
            out.append(For(sub.name, Const(0), as_expr(static(sub.extent)), 1, body))
        for m in self.made:
            if m.line.step == self.steps[level]:
                kept = self._kept(m) if m.line.shift == 1 else ()
                out += apart((*kept, *self._row(m, at, bounds)), taken)
        return tuple(out)

    def _kept(self, m: _Made) -> tuple[Statement, ...]:
        """The rows that are read again, moved to the front one after the other."""
        shift = m.line.shift
        if m.line.is_last or m.line.rows == shift:
            return ()
        d = self.storage.layout(m.buffer).order.index(m.line.dim)

        def behind(to: Load) -> Expr:
            return replace(to, index=tuple(i + shift if k == d else i for k, i in enumerate(to.index)))

        box = self._box(m, 0, m.line.rows - shift)
        return write_box(self.storage.tensor(m.buffer), box, behind, self._lanes(m))

    def _filled(self, m: _Made, first: Extent, end: Extent) -> tuple[Statement, ...]:
        """Some rows of a line buffer that are beyond the image."""
        t = self.storage.tensor(m.buffer)
        return write_box(t, self._box(m, first, end), of_fill(t, m.line.fill or 0), self._lanes(m))

    def _box(self, m: _Made, first: Extent, end: Extent) -> tuple[Range, ...]:
        """Some rows of a line buffer, without what lies beside them."""
        layout = self.storage.layout(m.buffer)
        inner: list[Range] = [
            (n, n + static(size)) for n, size in zip(layout.before, m.buffer.shape, strict=True)
        ]
        inner[m.line.dim] = first, end
        return tuple(inner[d] for d in layout.order)

    def _new(self, m: _Made, at: Expr, bounds: Bounds) -> Expr:
        """Where in its line buffer the next row goes."""
        since = at - self.at[m.line.step // m.line.shift] * m.line.shift
        return simplify(since + (m.line.rows - m.line.shift), bounds)

    def _lanes(self, m: _Made) -> int:
        return at_once(m.buffer, self.target)

    def _row(self, m: _Made, at: Expr, bounds: Bounds) -> tuple[Statement, ...]:
        """The next row of a stage: of the image, or beyond it the fill where somebody reads that."""
        row, new = simplify(at + m.line.start, bounds), self._new(m, at, bounds)
        one = Var(f"{m.stage.axes[m.line.dim].name}_row", m.height)
        before = set(self.storage.scratches)
        moved = self._moved(m, row, one, one if m.line.is_last else new, bounds)
        made = self.rows(m.stage, moved, {**bounds, **_span(one)})
        self.scratch.append(self.storage.scratches - before)
        lo, hi = simplify(maximum(row, 0), bounds), simplify(minimum(row + 1, m.height), bounds)
        inside = For(one.name, lo, hi, 1, made)
        if m.line.fill is None or interval(row, bounds)[1] < m.height:
            return (inside,)
        end = new + 1 if m.line.shift > 1 else m.line.rows
        filled = self._filled(m, new if m.line.shift > 1 else m.line.rows - 1, end)
        return (inside, When(Const(m.height - 1) < row, filled))

    def _moved(self, m: _Made, row: Expr, one: Var, to: Expr, bounds: Bounds) -> Compute:
        """The stage for a row: `row` says which of all that are made, `one` is the same where it is one of
        the image, `to` is where it goes.
        """
        c, axis = m.stage, m.stage.axes[m.line.dim]

        def put(e: Expr) -> Expr:
            return substitute(self._from_lines(e, m, {axis.name: row}, bounds), {axis.name: one})

        index = tuple(to if a == axis else a for a in c.axes)
        axes = tuple(a for a in c.axes if a != axis)
        return Compute(m.buffer, axes, put(c.value), c.reduction and c.reduction.over(put), index)

    def _from_lines(self, e: Expr, reader: _Made, row: Mapping[str, Expr], bounds: Bounds) -> Expr:
        """An expression of a stage that reads line buffers in place of what they hold rows of."""

        def read(n: Expr) -> Expr | None:
            if not isinstance(n, Load) or (m := self.sources.get(n.tensor)) is None:
                return None
            begin = substitute(row_axis, row) - reader.line.start
            newest = (begin + 1) * (m.line.step // reader.line.step) - 1 + m.line.start
            first = newest - (m.line.rows - 1)
            index = tuple(
                simplify(substitute(k, row) - first, bounds) if d == m.line.dim else k
                for d, k in enumerate(n.index)
            )
            return Load(m.buffer, index, n.outside, n.lanes)

        row_axis = reader.stage.axes[reader.line.dim]
        return transform(e, read)


def _span(axis: Var) -> Bounds:
    return {axis.name: interval(axis)}
