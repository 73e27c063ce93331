"""How a sliding window is cut: segments of outputs with the same taps, and the outputs of one tile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import TypeVar

import numpy as np

from ingot.formula.compute import LARGEST, Reduction
from ingot.formula.evaluate import value as evaluate
from ingot.formula.expr import (
    Expr,
    Load,
    Var,
    loads,
    static,
    walk,
)
from ingot.formula.index import mentions, upper
from ingot.loops.access import NotVectorizable, step
from ingot.loops.cuts import balanced
from ingot.loops.kernels.elementwise import Vertical
from ingot.targets.record import Target

MOST_SEGMENTS = 5  # of one axis that need other taps than their neighbours
MOST_STATEMENTS = 192  # multiply-adds of one tile: keeps the code readable
IDEMPOTENT = {"max", "min", *LARGEST}
MOST_FILTERS = 4  # that share what they read
MOST_COMBINED = 400  # operands of one tile of a pooling, columns counted once

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Segment:
    """Neighbouring outputs lo .. hi of a sliding axis that have the same taps, of the axes it clips, or each
    its `own`: these are one tile.
    """

    lo: int
    hi: int
    taps: dict[str, range]
    own: tuple[dict[str, range], ...] = ()

    def tiles(self, most: int) -> Iterator[tuple[int, int, int]]:
        """From where to where, by how many outputs."""
        size = self.hi - self.lo if self.own else balanced(self.hi - self.lo, most)
        full = self.lo + (self.hi - self.lo) // size * size
        yield self.lo, full, size
        if full < self.hi:
            yield full, self.hi, self.hi - full


def taps_of(axes: tuple[Var, ...]) -> int:
    return prod(upper(k.extent or 1) for k in axes)


def has_columns(r: Reduction) -> bool:
    """Whether parts of windows can be shared and combined in any order, which separates a window's axes."""
    return isinstance(r.term, Load) and r.init == r.identity


def most_operations(r: Reduction) -> int:
    """How many operations a tile may have written out."""
    return MOST_COMBINED if has_columns(r) else MOST_STATEMENTS


def segments(v: Vertical, x: Var, together: int) -> list[Segment]:
    """The outputs of an axis by the taps that lie inside; NotVectorizable where that is too varied. Up to
    `together` of them are one tile although each has taps of its own: they share what they combine.
    """
    n = static(x.extent)
    clipped = {k: ends for k, ends in v.limits.items() if any(mentions(e, x.name) for e in ends)}
    grid = {x.name: np.arange(n)}
    rows = {}
    for k, ends in clipped.items():
        if any(isinstance(a, Var) and a.name != x.name for e in ends for a in walk(e)):
            raise NotVectorizable("taps that depend on two axes at once")
        rows[k] = [np.broadcast_to(evaluate(e, {}, grid), n).tolist() for e in ends]
    out: list[Segment] = []
    for at in range(n):
        taps = {k: range(lo[at], hi[at]) for k, (lo, hi) in rows.items()}
        if out and out[-1].taps == taps:
            out[-1] = replace(out[-1], hi=at + 1)
        else:
            out.append(Segment(at, at + 1, taps))
    out = list(_joined(out, together))
    if len(out) > MOST_SEGMENTS:
        raise NotVectorizable("every output has its own taps")
    return out


def _joined(parts: list[Segment], together: int) -> Iterator[Segment]:
    """All as one if they are few; else those before the longest as one, and those behind it."""
    longest = max(range(len(parts)), key=lambda i: parts[i].hi - parts[i].lo)
    around = [parts[:longest], [parts[longest]], parts[longest + 1 :]]
    several = [parts] if parts[-1].hi <= together else around
    for some in several:
        is_empty = any(not inside for s in some for inside in s.taps.values())
        if len(some) > 1 and not is_empty and some[-1].hi - some[0].lo <= together:
            own = tuple(s.taps for s in some for _ in range(s.lo, s.hi))
            yield Segment(some[0].lo, some[-1].hi, {}, own)
        else:
            yield from some


def ends_of(v: Vertical) -> Iterator[Expr]:
    return (e for pair in v.limits.values() for e in pair)


def _fixed(v: Vertical, r: Reduction, slides: tuple[Var, ...]) -> int:
    """How many vectors stay the same while the window slides: those of weights, one for each tap; bias."""
    still = [a for a in loads(r.term) if not any(step(a, x.name) for x in slides)]
    more = {a for e in (v.value, r.init) for a in loads(e) if not any(step(a, x.name) for x in slides)}
    return len(still) * taps_of(r.axes) + len(more)


def best_tile(
    v: Vertical,
    r: Reduction,
    slides: tuple[Var, ...],
    parts: list[list[Segment]],
    target: Target,
    filters: int = 1,
) -> tuple[tuple[int, ...], bool]:
    """Outputs of a tile along each sliding axis, and whether weights stay in registers: the fewest cycles.

    Two multiply-adds and two loads go through in a cycle; a tile as such costs a little. Each of `filters`
    has as many outputs, and weights of its own.
    """
    fixed = _fixed(v, r, slides) * filters
    moving = next(a for a in loads(r.term) if any(step(a, x.name) for x in slides))
    steps = [step(moving, x.name) or 0 for x in slides]
    steps_of = [[(step(moving, k.name) or 0) * i for i in range(static(k.extent))] for k in r.axes]
    taps, row = [sum(at) for at in product(*steps_of)], steps_of[-1] if steps_of else [0]
    best: tuple[float, tuple[int, ...], bool] | None = None
    rows = 4 if fixed else 1  # pooling shares little between rows, and reads better in one stream
    sizes = [range(1, min(8 if x is slides[-1] else rows, static(x.extent)) + 1) for x in slides]
    for size, keeps in product(product(*sizes), (True, False)):
        outputs = prod(size) * filters
        room = target.registers - 2 - (fixed if keeps else 0)
        operations = filters * _operations(r, _origins(size, steps), taps, row)
        too_big = outputs > room or operations > most_operations(r)
        if (prod(size) > 1 and too_big) or (keeps and room < 1):
            continue
        cycles = 0.0
        shapes = [list(_shapes(p, n)) for p, n in zip(parts, size, strict=True)]
        for shape in product(*shapes):
            tile, count = [n for n, _ in shape], prod(c for _, c in shape)
            at = _origins(tile, steps)
            read = len({a + t for a in at for t in taps}) + (0 if keeps else prod(tile) * fixed)
            operations = filters * _operations(r, at, taps, row)
            cycles += count * (max(operations, read) / 2 + read / 8 + prod(tile) + 3)
        if best is None or cycles < best[0]:
            best = (cycles, size, keeps)
    assert best is not None
    return best[1], best[2]


def _origins(tile: Sequence[int], steps: Sequence[int]) -> set[int]:
    """Where the windows of a tile begin."""
    return {sum(i * s for i, s in zip(o, steps, strict=True)) for o in product(*map(range, tile))}


def _operations(r: Reduction, origins: set[int], taps: Sequence[int], last: Sequence[int]) -> int:
    """How often a tile combines: every tap of every window, or each column once and then runs of columns."""
    if not has_columns(r):
        return len(origins) * len(taps)
    columns = {a + t for a in origins for t in last}
    runs: set[tuple[int, ...]] = set()
    for a in origins:
        _count_runs(tuple(a + t for t in last), r.combine, runs)
    return len(columns) * (len(taps) // len(last)) + len(runs)


def _count_runs(run: tuple[int, ...], combine: str, runs: set[tuple[int, ...]]) -> None:
    """Add the runs of columns that have to be combined for one."""
    if len(run) > 1 and run not in runs:
        runs.add(run)
        for part in halves(run, combine):
            _count_runs(part, combine, runs)


def halves(run: tuple[T, ...], combine: str) -> tuple[tuple[T, ...], tuple[T, ...]]:
    """Two shorter runs that make a run of elements when they are combined: as long as a power of two, and
    overlapping where an element may be combined twice. Windows side by side have most of them in common.
    """
    size = 1 << ((len(run) - 1).bit_length() - 1)
    return run[:size], run[-size:] if combine in IDEMPOTENT else run[size:]


def _shapes(parts: list[Segment], size: int) -> Iterator[tuple[int, int]]:
    """The tiles along an axis: outputs of one and how many there are."""
    for s in parts:
        for lo, hi, part in s.tiles(size):
            yield part, (hi - lo) // part


def slides_along(r: Reduction, x: Var) -> bool:
    """Whether some read moves with an output axis and with the taps."""
    return any(step(a, x.name) and any(step(a, k.name) for k in r.axes) for a in loads(r.term))


def weighs_along(r: Reduction, x: Var) -> bool:
    """Whether weights move with an output axis: channels with filters of their own."""
    return any(step(a, x.name) != 0 for a in loads(r.term) if a.tensor.value is not None)


def filters_of(v: Vertical, r: Reduction) -> Var | None:
    """The axis of a few outputs that come from the same windows, each by constants of its own: it moves what
    the vectors do not move, and nothing else.
    """
    for x in v.outer:
        moved = [a for a in loads(r.term) if step(a, x.name) != 0]
        weights = [a for a in loads(r.term) if step(a, v.vector.name) == 0]
        constant = all(a.tensor.value is not None for a in weights)
        if moved and moved == weights and constant and static(x.extent) <= MOST_FILTERS:
            return x
    return None
