"""Where every tensor lives: the caller's memory, the weights, or an offset in the arena.

In: a Program. Out: a `Plan` with an offset for every tensor that needs arena bytes. Lifetimes are read off
the tree, results may overwrite operands, offsets are searched; `check` proves the outcome and shares no code
with any of that.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property

from ingot.formula.expr import Tensor
from ingot.loops.program import Call, Kernel, Program, calls
from ingot.memory.arena import Offsets, height, place
from ingot.memory.lifetimes import Lifetime, lifetimes
from ingot.memory.share import Overwrite, Sharing, sharings
from ingot.memory.tree import ALIGN as ALIGN
from ingot.memory.tree import tree


@dataclass(frozen=True, eq=False)
class Plan:
    """Offsets into a program's arena, its size, the least any offsets could need (the peak of live bytes).

    Two tensors may be alive in the same bytes for one step only, and only where `overwrites` says so.
    """

    program: Program
    offsets: dict[Tensor, int]
    lifetimes: tuple[Lifetime, ...]
    overwrites: tuple[Overwrite, ...]
    arena_bytes: int
    bound_bytes: int

    def aliasing(self, kernel: Kernel) -> frozenset[Tensor]:
        """The kernel's parameters that some call binds to the same bytes."""
        return frozenset(self._aliasing.get(kernel, ()))

    @cached_property
    def _aliasing(self) -> dict[Kernel, set[Tensor]]:
        found: dict[Kernel, set[Tensor]] = {}
        for o in self.overwrites:
            if o.call is not None:
                found.setdefault(o.call[0], set()).update(o.call[1])
        for c in calls(self.program.steps):
            alike = self._alike(c)
            if alike:
                found.setdefault(c.kernel, set()).update(alike)
        return found

    def _alike(self, call: Call) -> set[Tensor]:
        """The kernel's parameters for which this call gives the same bytes more than once."""
        places = [
            (self.offsets.get(at.base, at.base), at.start) for at in map(self.program.place, call.arguments)
        ]
        times = Counter(places)
        return {p for p, at in zip(call.kernel.parameters, places, strict=True) if times[at] > 1}


def plan(program: Program) -> Plan:
    """Offsets for everything that lives in the arena."""
    nodes = tree(program)
    lives = lifetimes(program, nodes)
    best: tuple[Sharing, Offsets] | None = None
    for sharing in sharings(program, nodes, lives):
        found = place(sharing.buffers, sharing.bound_bytes)
        if best is None or height(found) < height(best[1]):
            best = sharing, found
        if height(found) <= sharing.bound_bytes:
            break
    assert best is not None
    sharing, placed = best
    offsets = {t: at for buffer, at in placed.items() for t in buffer.tensors}
    return Plan(program, offsets, lives, sharing.overwrites, height(placed), sharing.bound_bytes)


def bound_bytes(program: Program) -> int:
    """The least arena any plan of this program could have."""
    nodes = tree(program)
    return min(s.bound_bytes for s in sharings(program, nodes, lifetimes(program, nodes)))


def plan_text(plan: Plan) -> str:
    """One line a tensor: offset, bytes, the steps it lives in, name."""
    head = f"arena {plan.arena_bytes} bytes, at least {plan.bound_bytes}"
    rows = [
        f"{plan.offsets[life.tensor]:8d} {life.bytes:8d} "
        f"{' '.join(f'{start}..{end}' for start, end in life.spans)} {life.tensor.name}"
        for life in plan.lifetimes
    ]
    over = [f"at step {o.number} {o.y.name} is written over {o.x.name}" for o in plan.overwrites]
    return "\n".join([head, *rows, *over])
