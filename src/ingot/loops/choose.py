"""Which generator writes which stage. The first that says it can and pays is taken; naive loops serve the
rest.
"""

from __future__ import annotations

from types import MappingProxyType

from ingot.formula.compute import Scan, Stage
from ingot.formula.expr import Gathered, walk
from ingot.formula.index import Bounds, interval
from ingot.formula.statements import Statement
from ingot.loops.choice import DEFAULT, Choices
from ingot.loops.generators.contract import contract
from ingot.loops.generators.gates import gates
from ingot.loops.generators.points import points
from ingot.loops.generators.row import rows
from ingot.loops.generators.strip import strip
from ingot.loops.generators.transpose import transpose
from ingot.loops.generators.vertical import vertical
from ingot.loops.generators.window import window
from ingot.loops.generators.winograd.generator import winograd
from ingot.loops.layout import Storage
from ingot.loops.naive import compute as naive
from ingot.loops.naive import going, loop
from ingot.loops.rewrite import apart, hoisted
from ingot.targets.record import Target

NO_CHOICES: Choices = MappingProxyType({})


def generate(
    stages: tuple[Stage, ...],
    storage: Storage,
    target: Target,
    bounds: Bounds | None = None,
    choices: Choices = NO_CHOICES,
) -> tuple[Statement, ...]:
    """The statements of a group's stages, in order."""
    out: list[Statement] = []
    taken: set[str] = set()
    while stages:
        body, count = _first(stages, storage, target, bounds or {}, choices)
        out += apart(body, taken)
        stages = stages[count:]
    return tuple(out)


def _first(
    stages: tuple[Stage, ...], storage: Storage, target: Target, bounds: Bounds, choices: Choices
) -> tuple[tuple[Statement, ...], int]:
    """Statements for the first stages, and for how many: several that walk the same rows go together."""
    stage = stages[0]
    if isinstance(stage, Scan):
        inner = {**bounds, stage.axis.name: interval(stage.axis)}
        body = generate(stage.body, storage, target, inner, choices)
        return hoisted(loop(stage.axis, going(stage, body, storage))), 1
    if any(isinstance(n, Gathered) for e in stage.expressions for n in walk(e)):
        return naive(stage, storage, bounds), 1  # the generators know nothing of checks
    how = choices.get(stage, DEFAULT)
    fast = winograd(stage, storage, target, bounds, how.winograd, how.cold) if how.winograd else None
    if fast is not None:
        return fast, 1
    if (together := gates(stages, storage, target, bounds)) is not None:
        return together
    if (found := points(stage, storage, target, bounds)) is not None:
        return found, 1
    if (found := contract(stage, storage, target, bounds, how.tile)) is not None:
        return found, 1
    if (together := rows(stages, storage, target, bounds)) is not None:
        return together
    for generator in (strip, window, vertical, transpose):
        if (found := generator(stage, storage, target, bounds)) is not None:
            return found, 1
    return naive(stage, storage, bounds), 1
