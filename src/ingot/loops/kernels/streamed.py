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
from ingot.formula.expr import Const, Expr, Load, Tensor, Var, static, substitute, transform
from ingot.formula.index import Bounds, as_expr, interval, simplify
from ingot.formula.statements import For, Statement, When
from ingot.loops.choice import Choices
from ingot.loops.kernels.banded import Rows
from ingot.loops.kernels.common_scratch import in_common
from ingot.loops.layout import Storage, fill_halo
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
    """The line buffer as a tensor: stored like what it holds rows of, in scratch."""
    made = Tensor(f"{c.out.name}_rows", c.out.type, line.shape(c.out))
    layout = line.layout(storage.layout(c.out))
    shape = tuple(map(static, layout.shape(made.shape)))
    physical = storage.scratch(storage.tensor(c.out), shape, "rows")
    storage.layouts[made], storage.physical[made] = layout, physical
    storage.fixed |= {physical}
    return made


class _Generator:
    """Builds the loops of one stream."""

    def __init__(self, made: list[_Made], storage: Storage, target: Target, rows: Rows) -> None:
        self.made, self.storage, self.target, self.rows = made, storage, target, rows
        self.sources: Mapping[Tensor, _Made] = {m.stage.out: m for m in made if not m.line.is_last}
        self.steps = sorted({m.line.step for m in made})
        self.scratch: list[set[Tensor]] = []  # of each stage

    def statements(self) -> Iterator[Statement]:
        taken: set[str] = set()
        for m in self.sources.values():
            yield from apart(self._start(m), taken)
        tick = Var("tick", self.made[-1].line.ticks)
        body = self._period(0, tick, _span(tick), taken)
        body = in_common(body, self.scratch, self.storage, self.storage.tensor(self.made[-1].stage.out))
        yield For(tick.name, Const(0), as_expr(static(tick.extent)), 1, body)

    def _start(self, m: _Made) -> tuple[Statement, ...]:
        """What lies beside the rows, and above the image."""
        halo = fill_halo(m.buffer, self.storage, self.target.lanes(4))
        if m.line.fill is None:
            return halo
        row = Var("beyond", m.line.rows)
        return (
            *halo,
            For(row.name, Const(0), as_expr(static(row.extent)), 1, self._filled(m, row, _span(row))),
        )

    def _period(self, level: int, at: Expr, bounds: Bounds, taken: set[str]) -> tuple[Statement, ...]:
        """What happens while stages of the step of this level make their row number `at`, counted in ticks:
        first the rows of larger steps, then theirs.
        """
        out: list[Statement] = []
        if level + 1 < len(self.steps):
            sub = Var(f"sub{level}", self.steps[level + 1] // self.steps[level])
            inner = {**bounds, **_span(sub)}
            body = self._period(level + 1, simplify(at * static(sub.extent) + sub, inner), inner, taken)
            out.append(For(sub.name, Const(0), as_expr(static(sub.extent)), 1, body))
        for m in self.made:
            if m.line.step == self.steps[level]:
                out += apart((*self._kept(m), *self._row(m, at, bounds)), taken)
        return tuple(out)

    def _kept(self, m: _Made) -> tuple[Statement, ...]:
        """The rows that are read again, moved to the front one by one."""
        if m.line.is_last or m.line.rows == 1:
            return ()
        row = Var("kept", m.line.rows - 1)
        axes = tuple(Var(f"i{d}", n) for d, n in enumerate(m.buffer.shape))
        to, origin = (tuple(row + k if d == m.line.dim else a for d, a in enumerate(axes)) for k in (0, 1))
        free = tuple(a for d, a in enumerate(axes) if d != m.line.dim)
        copy = Compute(m.buffer, free, m.buffer[origin], None, to)
        return (For(row.name, Const(0), as_expr(static(row.extent)), 1, self.rows(copy, copy, _span(row))),)

    def _filled(self, m: _Made, row: Expr, bounds: Bounds) -> tuple[Statement, ...]:
        """A row of a line buffer that is beyond the image."""
        axes = tuple(Var(f"i{d}", n) for d, n in enumerate(m.buffer.shape))
        number, kind = m.line.fill or 0, m.buffer.type
        value = Const(float(number) if kind.is_float else int(number), kind.compute)
        at = tuple(row if d == m.line.dim else a for d, a in enumerate(axes))
        free = tuple(a for d, a in enumerate(axes) if d != m.line.dim)
        stage = Compute(m.buffer, free, value, None, at)
        return self.rows(stage, stage, bounds)

    def _row(self, m: _Made, at: Expr, bounds: Bounds) -> tuple[Statement, ...]:
        """The next row of a stage: of the image, or beyond it the fill where somebody reads that."""
        row = simplify(at + m.line.start, bounds)
        least, most = interval(row, bounds)
        before = set(self.storage.scratches)
        made = self.rows(m.stage, self._moved(m, at, row, bounds), bounds)
        self.scratch.append(self.storage.scratches - before)
        if most >= m.height:
            below = () if m.line.fill is None else self._filled(m, Const(m.line.rows - 1), bounds)
            made = (When(row < m.height, made, below),)
        return (When(Const(0) <= row, made),) if least < 0 else made

    def _moved(self, m: _Made, at: Expr, row: Expr, bounds: Bounds) -> Compute:
        """The stage for one row."""
        c = m.stage
        axis = c.axes[m.line.dim]

        def put(e: Expr) -> Expr:
            return self._from_lines(substitute(e, {axis.name: row}), m.line.step, at, bounds)

        to = row if m.line.is_last else Const(m.line.rows - 1)
        index = tuple(to if a == axis else a for a in c.axes)
        axes = tuple(a for a in c.axes if a != axis)
        r = c.reduction
        moved = None if r is None else replace(r, init=put(r.init), term=put(r.term))
        return Compute(m.buffer, axes, put(c.value), moved, index)

    def _from_lines(self, e: Expr, step: int, at: Expr, bounds: Bounds) -> Expr:
        """An expression of a stage that reads line buffers in place of what they hold rows of."""

        def read(n: Expr) -> Expr | None:
            if not isinstance(n, Load) or (m := self.sources.get(n.tensor)) is None:
                return None
            newest = (at + 1) * (m.line.step // step) - 1 + m.line.start
            first = newest - (m.line.rows - 1)
            index = (simplify(k - first, bounds) if d == m.line.dim else k for d, k in enumerate(n.index))
            return Load(m.buffer, tuple(index), n.outside, n.lanes)

        return transform(e, read)


def _span(axis: Var) -> Bounds:
    return {axis.name: interval(axis)}
