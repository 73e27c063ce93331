"""Which generator writes which stage. The first that says it can and pays is taken; naive loops serve the
rest.
"""

from __future__ import annotations

from ingot.formula.compute import Compute, Scan, Stage
from ingot.formula.expr import Gathered, walk
from ingot.formula.index import Bounds, interval
from ingot.formula.statements import Statement
from ingot.loops.generators.contract import contract
from ingot.loops.generators.row import row
from ingot.loops.generators.vertical import vertical
from ingot.loops.generators.window import window
from ingot.loops.layout import Storage
from ingot.loops.naive import compute as naive
from ingot.loops.naive import loop
from ingot.loops.rewrite import apart
from ingot.targets.record import Target

GENERATORS = (contract, row, window, vertical)


def generate(
    stages: tuple[Stage, ...], storage: Storage, target: Target, bounds: Bounds | None = None
) -> tuple[Statement, ...]:
    """The statements of a group's stages, in order."""
    out: list[Statement] = []
    taken: set[str] = set()
    for stage in stages:
        out += apart(_stage(stage, storage, target, bounds or {}), taken)
    return tuple(out)


def _stage(stage: Stage, storage: Storage, target: Target, bounds: Bounds) -> tuple[Statement, ...]:
    if isinstance(stage, Scan):
        inner = {**bounds, stage.axis.name: interval(stage.axis)}
        return (loop(stage.axis, generate(stage.body, storage, target, inner)),)
    return _compute(stage, storage, target, bounds)


def _compute(c: Compute, storage: Storage, target: Target, bounds: Bounds) -> tuple[Statement, ...]:
    if any(isinstance(n, Gathered) for e in c.expressions for n in walk(e)):
        return naive(c, storage, bounds)  # the generators know nothing of checks
    for generator in GENERATORS:
        found = generator(c, storage, target, bounds)
        if found is not None:
            return found
    return naive(c, storage, bounds)
