"""Streams: stages that go through the rows of their images at one pace, so that few rows are live at a time.

    conv -> relu -> conv + skip -> conv of stride 2      for every row of the last image:
                                                     ->    two rows of every stage before it, of which as many
                                                           are kept as the stages after it read again

A stream is a run of stages of which only the last one's result is read by others. Each stage is ahead of its
readers by as many rows as their windows need; a skip connection keeps the rows between. No element is
computed twice, none otherwise than before.

In: a region, the storage of its tensors, the bytes that may be live at once. Out: the groups of a stream made
one, and the `LineBuffer` of every tensor. Called by `lower`; `kernels/streamed.py` writes the loops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

from ingot.formula.compute import Compute, reads
from ingot.formula.expr import Const, Expr, Gathered, Load, Tensor, loads, static, walk
from ingot.formula.index import coefficient, interval, mentions
from ingot.loops.choice import Choice
from ingot.loops.layout import Storage
from ingot.loops.line_buffer import LineBuffer
from ingot.loops.region import Group, Region, reads_beside, reads_of
from ingot.loops.region_passes.subviews import is_nothing

ROWS = 2  # the dimension of rows: ONNX's spatial operators put images and channels before it
LONGEST = 24  # stages of a stream

Lines = dict[Tensor, LineBuffer]


def stream_rows(region: Region, storage: Storage, room: int, how: Callable[[Compute], Choice]) -> Lines:
    """Make the groups of every stream one; the fewest stages that keep what is live within the room.

    Where nothing keeps it so, the streams are those that keep the least.
    """
    costs = _Costs(region, storage, how)
    runs = _fewest(costs, room)
    if runs is None:
        runs = _fewest(costs, _least(costs)) or []
    found: Lines = {}
    for first, last in reversed(runs):
        found |= costs.lines(first, last)
        groups = [i for i in region.items[first : last + 1] if isinstance(i, Group)]
        nodes = tuple(n for g in groups for n in g.nodes)
        region.items[first : last + 1] = [Group(nodes, tuple(s for g in groups for s in g.stages))]
    return found


# -- which stages


def _fewest(costs: _Costs, room: int) -> list[tuple[int, int]] | None:
    """The streams with the fewest stages where no step needs more than the room; None if there are none."""
    best: list[tuple[int, list[tuple[int, int]]] | None] = [(0, [])]
    for last in range(costs.count):
        found: tuple[int, list[tuple[int, int]]] | None = None
        for first in range(last, max(-1, last - LONGEST), -1):
            before, bytes_ = best[first], costs.bytes(first, last)
            if before is None or bytes_ is None or bytes_ > room:
                continue
            is_one = first == last
            stages = before[0] + (0 if is_one else last - first + 1)
            if found is None or stages < found[0]:
                found = stages, before[1] if is_one else [*before[1], (first, last)]
        best.append(found)
    end = best[-1]
    return None if end is None else end[1]


def _least(costs: _Costs) -> int:
    """The least that the largest step can need."""
    best = [0]
    for last in range(costs.count):
        sizes = [
            max(best[first], bytes_)
            for first in range(last, max(-1, last - LONGEST), -1)
            if (bytes_ := costs.bytes(first, last)) is not None
        ]
        best.append(min(sizes))
    return best[-1]


@dataclass
class _Costs:
    """What is live while items `first` to `last` of a region run, as single steps or as one stream."""

    region: Region
    storage: Storage
    how: Callable[[Compute], Choice]
    known: dict[tuple[int, int], Lines] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return len(self.region.items)

    @cached_property
    def spans(self) -> dict[Tensor, tuple[int, int]]:
        """The items that make each tensor of the arena first and read it last; a view lives in its base."""
        made: dict[Tensor, int] = {}
        last: dict[Tensor, int] = {}
        owner: dict[Tensor, Tensor] = {}
        beside = {*self.region.inputs, *self.region.outputs}
        for i, item in enumerate(self.region.items):
            if isinstance(item, Group) and item.view:
                owner[item.view[0]] = owner.get(item.view[1], item.view[1])
            for t in reads_of(item):
                last[owner.get(t, t)] = i
            for t in item.writes if isinstance(item, Group) else ():
                made.setdefault(owner.get(t, t), i)
        return {t: (i, last.get(t, i)) for t, i in made.items() if t not in beside}

    @cached_property
    def plain(self) -> list[bool]:
        return [isinstance(i, Group) and _is_plain(i, self.storage, self.how) for i in self.region.items]

    @cached_property
    def beside(self) -> set[Tensor]:
        views = (t for i in self.region.items if isinstance(i, Group) for t in i.view or ())
        return {*reads_beside(self.region), *views}

    def bytes(self, first: int, last: int) -> int | None:
        """Of all tensors that are live then; None where these items are no stream."""
        lines = {} if first == last else self.lines(first, last)
        if first != last and not lines:
            return None
        inner = {t: line for t, line in lines.items() if not line.is_last}
        live = sum(
            self._size(t) for t, (a, b) in self.spans.items() if a <= last and b >= first and t not in inner
        )
        return live + sum(n.bytes(t, self.storage.layout(t)) for t, n in inner.items())

    def _size(self, t: Tensor) -> int:
        layout = self.storage.layout(t)
        shape = layout.shape(t.shape) if layout.place is None else (0,)
        count = 1
        for n in shape:
            count *= n if isinstance(n, int) else interval(n)[1]
        return count * t.type.bytes

    def lines(self, first: int, last: int) -> Lines:
        """The line buffers of a stream of these items; nothing where they are none."""
        key = first, last
        if key not in self.known:
            self.known[key] = self._lines(first, last) if all(self.plain[first : last + 1]) else {}
        return self.known[key]

    def _lines(self, first: int, last: int) -> Lines:
        items = self.region.items
        stages = [s for i in items[first : last + 1] if isinstance(i, Group) for s in i.stages]
        inner = {s.out for s in stages[:-1] if isinstance(s, Compute)}
        after = {t for i in items[last + 1 :] if isinstance(i, Group) for t in i.reads}
        if not inner.isdisjoint(after | self.beside):
            return {}
        return _paced([s for s in stages if isinstance(s, Compute)])


def _is_plain(group: Group, storage: Storage, how: Callable[[Compute], Choice]) -> bool:
    """Whether one stage writes all rows of one tensor, nothing about it known at run time only.

    Winograd's tiles would be other ones, and a copy of elements onto themselves has no kernel.
    """
    c = group.stages[0] if len(group.stages) == 1 and group.view is None else None
    if not isinstance(c, Compute) or c.at or c.out.rank <= ROWS or is_nothing(c, storage.layouts):
        return False
    known = all(isinstance(n, int) for t in (c.out, *reads(c)) for n in t.shape)
    gathers = any(isinstance(n, Gathered) for e in c.expressions for n in walk(e))
    return known and not gathers and storage.layout(c.out).place is None and not how(c).winograd


# -- their pace


@dataclass(frozen=True, slots=True)
class _Reader:
    """Row r of a stage reads rows r * `stride` + `first` to r * `stride` + `last` of a tensor, and `outside`
    of it what `fill` says.
    """

    stage: Compute
    stride: int
    first: int
    last: int
    fill: tuple[Expr | None, ...]


def _paced(stages: Sequence[Compute]) -> Lines:
    """The line buffers of a stream that ends with the last stage, a row of which is made in every tick.

    (step, ahead): while the last stage makes its row t, a stage makes rows `step` * t + `ahead` to `step` *
    (t + 1) + `ahead` - 1, the last of them just before the next slower stages make theirs.
    """
    pace: dict[Compute, tuple[int, int]] = {stages[-1]: (1, 0)}
    rows: dict[Compute, tuple[int, int, float | int | None]] = {}
    for c in reversed(stages[:-1]):
        readers = [_reader(c.out, r) for r in stages if c.out in reads(r)]
        found = _pace(c, [r for r in readers if r is not None], pace)
        if None in readers or found is None:
            return {}
        pace[c], rows[c] = found
    steps = sorted({step for step, _ in pace.values()})
    if any(b % a for a, b in pairwise(steps)):
        return {}
    earliest = max(-(-ahead // step) for step, ahead in pace.values())  # ticks before the first row
    ticks = earliest + static(stages[-1].out.shape[ROWS])
    lines = {
        c.out: LineBuffer(ROWS, pace[c][0], pace[c][1] - pace[c][0] * earliest, n, shift, ticks, fill)
        for c, (n, shift, fill) in rows.items()
    }
    end = stages[-1].out
    return {**lines, end: LineBuffer(ROWS, 1, -earliest, static(end.shape[ROWS]), 1, ticks, None, True)}


def _pace(
    c: Compute, readers: Sequence[_Reader], pace: dict[Compute, tuple[int, int]]
) -> tuple[tuple[int, int], tuple[int, int, float | int | None]] | None:
    """The pace of what several stages read, the rows of it that are kept, between which shifts, its fill."""
    steps = {pace[r.stage][0] * r.stride for r in readers}
    if len(steps) != 1:
        return None
    # a reader makes its row p + its ahead when rows to stride * (p + 1) - 1 + ours have been made
    begins = [pace[r.stage][1] * r.stride for r in readers]
    ahead = max(0, *(b + r.last - r.stride + 1 for b, r in zip(begins, readers, strict=True)))
    kept = max(r.stride + ahead - b - r.first for b, r in zip(begins, readers, strict=True))
    height = static(c.out.shape[ROWS])
    ends = [(r, (static(r.stage.out.shape[ROWS]) - 1) * r.stride + r.last) for r in readers]
    fills = {f for r, end in ends if r.first < 0 or end >= height for f in r.fill}
    if len(fills) > 1 or not all(isinstance(f, Const) for f in fills):
        return None
    fill = next((f.value for f in fills if isinstance(f, Const)), None)
    shift = min(r.stride for r in readers)
    return (steps.pop(), ahead), (max(kept, 1), shift if shift <= kept else 1, fill)


def _reader(t: Tensor, c: Compute) -> _Reader | None:
    """How a stage's windows slide along the rows of a tensor; None where they do not."""
    found = [x for e in c.expressions for x in loads(e) if x.tensor is t]
    axis = c.axes[ROWS] if len(c.axes) == c.out.rank else None
    if axis is None or not found:
        return None
    strides = {coefficient(x.index[ROWS], axis.name) for x in found}
    apart = any(mentions(i, axis.name) for x in found for d, i in enumerate(x.index) if d != ROWS)
    stride = strides.pop()
    if strides or apart or not stride or stride < 1:
        return None
    reach = [_reach(x, stride * axis) for x in found]
    known = [r for r in reach if r is not None]
    if len(known) < len(reach):
        return None
    return _Reader(
        c, stride, min(lo for lo, _ in known), max(hi for _, hi in known), tuple(x.outside for x in found)
    )


def _reach(x: Load, row: Expr) -> tuple[int, int] | None:
    try:
        return interval(x.index[ROWS] - row)
    except ValueError:
        return None
