"""Where every tensor lives: the caller's memory, the weights, or an offset in the arena.

In: a Program. Out: a `Plan` with an offset for every tensor that needs arena bytes. Lifetimes are read off
the tree (what a loop's body reads lives through the whole loop); offsets come from `omnimalloc` and are
proved by `check`, which shares no code with it.
"""

from __future__ import annotations

from dataclasses import dataclass

from ingot.formula.expr import Tensor
from ingot.loops.program import Program, Repeat, Step, operands, steps_of, touched

ALIGN = 64


@dataclass(frozen=True, slots=True)
class Lifetime:
    """A tensor's bytes and the half-open span of step numbers in which they must keep their content."""

    tensor: Tensor
    start: int
    end: int
    bytes: int


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """Offsets into the arena, its size, and the least any plan could use (the peak of live bytes)."""

    offsets: dict[Tensor, int]
    lifetimes: tuple[Lifetime, ...]
    arena_bytes: int
    bound_bytes: int


def base_of(program: Program, t: Tensor) -> Tensor:
    """The tensor whose bytes `t` is a view of."""
    while t in program.aliases:
        t = program.aliases[t]
    return t


def plan(program: Program) -> Plan:
    """Offsets for everything that lives in the arena."""
    spans = lifetimes(program)
    offsets = _place(spans)
    size = max((offsets[s.tensor] + s.bytes for s in spans), default=0)
    peak = max((sum(o.bytes for o in spans if o.start <= s.start < o.end) for s in spans), default=0)
    result = Plan(offsets, spans, _aligned(size), peak)
    check(result)
    return result


def lifetimes(program: Program) -> tuple[Lifetime, ...]:
    """First write to last use of every arena tensor, in step numbers counted over the tree."""
    outside = {*program.inputs, *program.outputs, *program.constants}
    spans: dict[Tensor, list[int]] = {}
    _visit(program, program.steps, 0, spans, None)
    return tuple(
        Lifetime(t, lo, hi + 1, _aligned(max(t.bytes, 1)))
        for t, (lo, hi) in spans.items()
        if t not in outside
    )


def _visit(
    program: Program, steps: tuple[Step, ...], now: int, spans: dict[Tensor, list[int]], loop: int | None
) -> int:
    """Number the steps from `now`; inside a loop everything lives from the loop's first step to its last."""
    for step in steps:
        begin = now
        for t in operands(step):
            span = spans.setdefault(base_of(program, t), [begin, begin])
            span[0], span[1] = min(span[0], begin), max(span[1], begin)
        now = _visit(program, steps_of(step), now + 1, spans, begin if isinstance(step, Repeat) else loop)
        if isinstance(step, Repeat):
            for t in touched(step.body):
                span = spans[base_of(program, t)]
                span[0], span[1] = min(span[0], begin), max(span[1], now)
    return now


def _aligned(n: int) -> int:
    return -(-n // ALIGN) * ALIGN


def _place(spans: tuple[Lifetime, ...]) -> dict[Tensor, int]:
    """Largest first, each at the lowest offset free during its life."""
    placed: list[tuple[Lifetime, int]] = []
    for span in sorted(spans, key=lambda s: (-s.bytes, s.start)):
        busy = sorted((o, o + p.bytes) for p, o in placed if p.start < span.end and span.start < p.end)
        at = 0
        for lo, hi in busy:
            if at + span.bytes <= lo:
                break
            at = max(at, hi)
        placed.append((span, at))
    return {s.tensor: o for s, o in placed}


def check(plan: Plan) -> None:
    """Prove that no two tensors alive at once overlap. Quadratic on purpose: nothing clever to get wrong."""
    for i, a in enumerate(plan.lifetimes):
        start = plan.offsets[a.tensor]
        assert start % ALIGN == 0 and start + a.bytes <= plan.arena_bytes, f"{a.tensor.name} leaves the arena"
        for b in plan.lifetimes[i + 1 :]:
            if a.start < b.end and b.start < a.end:
                other = plan.offsets[b.tensor]
                assert start + a.bytes <= other or other + b.bytes <= start, (
                    f"{a.tensor.name} overlaps {b.tensor.name}"
                )


def plan_text(plan: Plan) -> str:
    """One line a tensor: offset, bytes, the steps it lives in, name."""
    head = f"arena {plan.arena_bytes} bytes, at least {plan.bound_bytes}"
    rows = [
        f"{plan.offsets[s.tensor]:8d} {s.bytes:8d} {s.start:4d}..{s.end:<4d} {s.tensor.name}"
        for s in plan.lifetimes
    ]
    return "\n".join([head, *rows])
