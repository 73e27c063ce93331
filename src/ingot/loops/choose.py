"""Which generator writes which stage. The first that says it can and pays is taken; naive loops serve the rest."""

from __future__ import annotations

from ingot.formula.compute import Stage
from ingot.formula.statements import Statement
from ingot.loops.layout import Storage
from ingot.loops.naive import naive
from ingot.targets.record import Target


def generate(stages: tuple[Stage, ...], storage: Storage, target: Target) -> tuple[Statement, ...]:
    """The statements of a group's stages, in order."""
    return naive(stages, storage)
