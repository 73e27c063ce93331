"""The independent proof of a plan: no line of it is shared with the planner.

In: a Plan. `check` raises InternalError unless (1) no two tensors whose lives the plan draws overlap, every
tensor of an arena in several regions lies in one of them, and no region holds more than it has, and (2)
walking through the program, whichever way its branches go and more than one iteration of its loops, every
step still finds in the arena what was written there for it. The second needs no lifetimes: it keeps account
of whose content lies where. Where a kernel's result overlaps its operand, the kernel is played (`in_time`).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass, field

from ingot.errors import InternalError
from ingot.formula.expr import Tensor
from ingot.loops.program import Branch, Call, Copy, Kernel, Repeat, Step, neighbours, operands, steps_of
from ingot.memory.in_time import has_routines, lost_read
from ingot.memory.plan import ALIGN, Plan


def check(plan: Plan) -> None:
    check_overlaps(plan)
    check_regions(plan)
    replay(plan)


# -- lives as drawn


def check_overlaps(plan: Plan) -> None:
    """Sweep over time with the live tensors sorted by offset: neighbours must not touch."""
    given: dict[Tensor, set[int]] = {}
    for o in plan.overwrites:
        is_there = plan.offsets[o.x] - plan.offsets[o.y] == o.before
        _require(is_there, f"{o.y.name} is not where it may replace {o.x.name}")
        given.setdefault(o.y, set()).add(o.number)
    events: list[tuple[int, int, int, int, str]] = []
    for life in plan.lifetimes:
        at, size = plan.offsets[life.tensor], life.bytes
        name = life.tensor.name
        _require(size >= life.tensor.bytes and at % ALIGN == 0, f"{name} is misplaced")
        _require(at >= 0 and at + size <= plan.arena_bytes, f"{name} leaves the arena")
        for start, end in _without(life.spans, given.get(life.tensor, set())):
            events += [(start, 1, at, size, name), (end, 0, at, size, name)]
    live: list[tuple[int, int, str]] = []
    for _, begins, at, size, name in sorted(events):
        where = bisect_left(live, (at, size, name))
        if not begins:
            del live[where]
            continue
        for low, length, other in live[max(where - 1, 0) : where + 1]:
            _require(low + length <= at or at + size <= low, f"{name} overlaps {other}")
        live.insert(where, (at, size, name))


def check_regions(plan: Plan) -> None:
    """Regions follow each other and hold what they have room for; each tensor lies in one."""
    at = 0
    for r in plan.regions:
        _require(
            r.start == at and 0 <= r.bytes <= r.room - r.state_bytes, f"region {r.name} has no such room"
        )
        at = r.start + r.bytes
    _require(not plan.regions or at == plan.arena_bytes, "the regions are not the arena")
    for t, start in plan.offsets.items():
        end = start + max(t.bytes, 1)
        inside = [r for r in plan.regions if r.start <= start and end <= r.start + r.bytes]
        _require(not plan.regions or len(inside) == 1, f"{t.name} lies in {len(inside)} regions")


def _without(spans: tuple[tuple[int, int], ...], steps: set[int]) -> Iterator[tuple[int, int]]:
    """The spans less single steps."""
    for start, end in spans:
        for k in sorted(k for k in steps if start <= k < end):
            if start < k:
                yield start, k
            start = k + 1
        if start < end:
            yield start, end


# -- content as written


@dataclass(slots=True)
class _Arena:
    """Whose content lies where: disjoint pieces (start, end, tensor's number), sorted."""

    pieces: list[tuple[int, int, int]] = field(default_factory=list)

    def write(self, piece: tuple[int, int, int]) -> None:
        start, end, _ = piece
        first = bisect_left(self.pieces, (start, -1, -1))
        if first and self.pieces[first - 1][1] > start:
            first -= 1
        last = bisect_left(self.pieces, (end, -1, -1))
        self.pieces[first:last] = []
        insort(self.pieces, piece)

    def holds(self, piece: tuple[int, int, int]) -> bool:
        where = bisect_left(self.pieces, piece)
        return where < len(self.pieces) and self.pieces[where] == piece


def replay(plan: Plan) -> None:
    """Follow the program and require at every read that nothing was written over what is read."""
    work, arena = _Replay(plan), _Arena()
    work.steps(plan.program.steps, arena)
    for s in plan.program.states:
        work.read(s.made, arena)


Bound = tuple[Tensor, Tensor]
"""A kernel's parameter and what a call gives for it."""


class _Replay:
    def __init__(self, plan: Plan) -> None:
        self.program, self.plan = plan.program, plan
        self.numbers = {t: i for i, t in enumerate(plan.offsets)}
        program = self.program
        self.elsewhere = {*program.inputs, *program.outputs, *program.constants, *program.members}
        self.allowed: dict[tuple[Kernel, tuple[Tensor, Tensor]], set[int]] = {}
        for o in plan.overwrites:
            if o.call is not None:
                self.allowed.setdefault(o.call, set()).add(o.before)
        self.proved: set[tuple[Kernel, Tensor, Tensor, int]] = set()
        self.fresh: set[tuple[Step, Tensor]] = set()
        self.find_fresh(plan.program.steps, set())

    def base(self, t: Tensor) -> Tensor:
        return self.program.place(t).base

    def find_fresh(self, steps: tuple[Step, ...], seen: set[Tensor]) -> set[Tensor]:
        """The steps that touch a tensor before every other: what they find in it cannot matter. `seen` grows
        by what is returned.
        """
        added: set[Tensor] = set()
        for step in steps:
            mine = {self.base(t) for t in operands(step)} - seen
            self.fresh.update((step, t) for t in mine)
            seen |= mine
            inside: set[Tensor] = set()
            for side in (step.then, step.other) if isinstance(step, Branch) else (steps_of(step),):
                one = self.find_fresh(side, seen)
                seen -= one  # no path leads through both sides
                inside |= one
            seen |= inside
            added |= mine | inside
        return added

    def piece(self, t: Tensor) -> tuple[int, int, int] | None:
        """The bytes of an arena tensor; None for one that lives elsewhere."""
        t = self.base(t)
        if t not in self.plan.offsets:
            _require(t in self.elsewhere, f"{t.name} has no place")
            return None
        start = self.plan.offsets[t]
        return start, start + max(t.bytes, 1), self.numbers[t]

    def read(self, t: Tensor | None, arena: _Arena) -> None:
        piece = None if t is None else self.piece(t)
        if t is not None and piece is not None:
            _require(arena.holds(piece), f"{t.name} is read where other content lies")

    def write(self, t: Tensor, arena: _Arena) -> None:
        piece = self.piece(t)
        if piece is not None:
            arena.write(piece)

    def steps(self, steps: tuple[Step, ...], arena: _Arena) -> None:
        for step in steps:
            for t in self.program.extents(step):
                self.read(t, arena)
            match step:
                case Call():
                    self.call(step, arena)
                case Copy(source, to):
                    self.read(source, arena)
                    self.apart(source, to, {0})
                    self.write(to, arena)
                case Branch(condition, then, other):
                    self.read(condition, arena)
                    second = _Arena(list(arena.pieces))
                    self.steps(then, arena)
                    self.steps(other, second)
                    both = set(second.pieces)
                    arena.pieces = [p for p in arena.pieces if p in both]
                case Repeat():
                    self.repeat(step, arena)

    def repeat(self, step: Repeat, arena: _Arena) -> None:
        """Two iterations: what an iteration leaves behind is the same from the first on."""
        self.write(step.counter, arena)
        before = list(arena.pieces)
        for _ in range(2):
            for t in (step.counter, step.trips, step.condition):
                self.read(t, arena)
            self.steps(step.body, arena)
            if arena.pieces == before:
                break
        for t in (step.counter, step.trips, step.condition):
            self.read(t, arena)

    def call(self, call: Call, arena: _Arena) -> None:
        writes = call.writes
        made = frozenset(writes)
        for t in call.reads:
            if t not in made or (call, self.base(t)) not in self.fresh:
                self.read(t, arena)
        written = call.kernel.written
        for pair in self.neighbours(call):
            for (p, x), (q, y) in (pair, pair[::-1]):
                if q in written:
                    distances = self.allowed.get((call.kernel, (p, q)), set())
                    self.apart(x, y, distances)
                    for distance in distances:
                        self.in_time(call.kernel, p, q, distance)
        for t in writes:
            self.write(t, arena)

    def in_time(self, kernel: Kernel, p: Tensor, q: Tensor, distance: int) -> None:
        """The kernel reads p before it writes q over it."""
        if (kernel, p, q, distance) in self.proved or (distance == 0 and not has_routines(kernel)):
            return  # its own loops, of any extents, replace element by element
        reason = lost_read(kernel, p, q, distance)
        _require(reason is None, f"{kernel.name} may not write {q.name} over {p.name}: {reason}")
        self.proved.add((kernel, p, q, distance))

    def neighbours(self, call: Call) -> Iterator[tuple[Bound, Bound]]:
        """Pairs of (parameter, argument) whose bytes may meet, found in the order in which they begin."""
        placed: dict[tuple[int, int, int], list[Bound]] = {}
        for pair in zip(call.kernel.parameters, call.arguments, strict=True):
            piece = self.piece(pair[1])
            if piece is not None:
                placed.setdefault(piece, []).append(pair)
        open_: list[tuple[int, int, int]] = []
        for piece in sorted(placed):
            open_ = [other for other in open_ if other[1] > piece[0]]
            yield from ((a, b) for other in open_ for a in placed[other] for b in placed[piece])
            open_.append(piece)
            parts = placed[piece]
            for i, k in neighbours([self.program.area(t) for _, t in parts]):
                yield parts[i], parts[k]

    def apart(self, x: Tensor, y: Tensor, distances: set[int]) -> None:
        """Two operands of a step are disjoint, or y begins as far before x as is allowed."""
        a, b = self.piece(x), self.piece(y)
        if a is None or b is None or a[0] - b[0] in distances:  # of two lengths, where extents are data
            return
        if a == b and not self.program.area(x).meets(self.program.area(y)):
            return  # parts of one tensor
        _require(a[1] <= b[0] or b[1] <= a[0], f"{x.name} overlaps {y.name} in one step")


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise InternalError(f"memory plan: {message}")
