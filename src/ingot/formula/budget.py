"""How much may be computed, and kept, while a model is compiled: the one place that says so.

Constants fold: what follows from them alone is evaluated at once. A file of a hundred bytes can ask for hours
of that, or for gigabytes, so a model has a budget: a base, and a share for every element that its constants
have. What would exceed it is left to run time, where it costs what the model asks for.

In: stages, and a model's constants. Out: what evaluating costs, and whether that is still affordable.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ingot.formula.compute import Scan, Stage, is_one_by_one, points
from ingot.formula.expr import Expr, Tensor, node_count

WORK = 1 << 30  # operations of a model: some ten seconds in the evaluator
WORK_PER_ELEMENT = 256  # of a constant, beside these
BYTES = 1 << 28  # of what is folded
BYTES_PER_BYTE = 8  # of a constant, beside these
STEP = 1 << 12  # operations that one call of numpy costs at least


@dataclass(slots=True)
class Budget:
    """What is left of a model's budget."""

    work: int = WORK
    bytes: int = BYTES

    @classmethod
    def of(cls, constants: Iterable[tuple[int, int]]) -> Budget:
        """For a model with these constants: elements and bytes of each."""
        made = cls()
        for elements, size in constants:
            made.grant(elements, size)
        return made

    def grant(self, elements: int, size: int) -> None:
        """The share of one constant more."""
        self.work += elements * WORK_PER_ELEMENT
        self.bytes += size * BYTES_PER_BYTE

    def has_room(self, made: Sequence[Tensor]) -> bool:
        return sum(t.bytes for t in made) <= self.bytes

    def spend(self, work: int, made: Sequence[Tensor]) -> bool:
        """Take what an evaluation costs and what it leaves in memory, if there is that much left."""
        if work > self.work or not self.has_room(made):
            return False
        self.work -= work
        self.bytes -= sum(t.bytes for t in made)
        return True


def work_of(stages: Iterable[Stage]) -> int:
    """Operations that evaluating stages takes, at the upper bounds of extents."""
    return sum(_work(s) for s in stages)


def _work(stage: Stage) -> int:
    if isinstance(stage, Scan):
        return points((stage.axis,)) * (STEP + work_of(stage.body))
    outer, r = points(stage.axes), stage.reduction
    total = outer * _nodes(stage.value, *stage.at)
    if r is not None:
        total += outer * (_nodes(r.init) + points(r.axes) * _nodes(r.term))
    calls = outer if is_one_by_one(stage) else 1
    return total + calls * STEP


def _nodes(*expressions: Expr) -> int:
    return sum(map(node_count, expressions))
