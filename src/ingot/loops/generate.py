"""Which generator writes which stage. The first that says it can and pays is taken; naive loops serve the
rest.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

from ingot.formula.compute import Compute, Scan, Stage, reads
from ingot.formula.expr import Gathered, Var, walk
from ingot.formula.index import Bounds, interval
from ingot.formula.statements import Statement
from ingot.loops.choice import DEFAULT, Choices
from ingot.loops.kernels.banded import banded
from ingot.loops.kernels.contraction.contract import contract
from ingot.loops.kernels.contraction.int_dot import int_dot
from ingot.loops.kernels.elementwise import elementwise
from ingot.loops.kernels.naive import compute as naive
from ingot.loops.kernels.naive import going, loop
from ingot.loops.kernels.peel import peeled
from ingot.loops.kernels.recurrent.recurrent_cell import recurrent_cell
from ingot.loops.kernels.rows.row_reduction import row_reductions
from ingot.loops.kernels.rows.selection import selection
from ingot.loops.kernels.sparse.csc import csc
from ingot.loops.kernels.sparse.sparse_gather import sparse_gather
from ingot.loops.kernels.sparse.sparse_lanes import sparse_lanes
from ingot.loops.kernels.transpose import transpose
from ingot.loops.kernels.windows.depthwise_dot import depthwise_dot
from ingot.loops.kernels.windows.narrow_convolution import narrow_convolution
from ingot.loops.kernels.windows.narrow_pooling import narrow_pooling
from ingot.loops.kernels.windows.sliding_window import sliding_window
from ingot.loops.kernels.winograd.generator import winograd
from ingot.loops.layout import Storage
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

    def around(body: tuple[Stage, ...], axis: Var) -> tuple[Statement, ...]:
        inner, how = {**bounds, axis.name: interval(axis)}, dict(choices)
        after = stages[1:] if isinstance(stage, Scan) else stages[len(body) :]
        next_turn = stage.carried if isinstance(stage, Scan) else ()
        wanted = {*next_turn, *(t for s in after for t in reads(s))}  # from memory, outside of this body
        here = replace(storage, inner=storage.inner - wanted)
        for new, old in zip(body, stages, strict=False):
            if isinstance(new, Compute) and isinstance(old, Compute) and old in choices:
                how[new] = choices[old]
        return generate(body, here, target, inner, how)

    def some_rows(stage: Compute, some: Compute, around_it: Bounds) -> tuple[Statement, ...]:
        how = replace(choices.get(stage, DEFAULT), band=None)
        return generate((some,), storage, target, {**bounds, **around_it}, {some: how})

    if isinstance(stage, Scan):
        return hoisted(loop(stage.axis, going(stage, around(stage.body, stage.axis), storage))), 1
    how = choices.get(stage, DEFAULT)
    if how.naive:
        return naive(stage, storage, bounds), 1
    if (best := selection(stages, storage, target, bounds)) is not None:
        return best
    if (chain := banded(stages, choices, storage, target, some_rows)) is not None:
        return chain
    if any(isinstance(n, Gathered) for e in stage.expressions for n in walk(e)):
        return naive(stage, storage, bounds), 1  # the generators know nothing of checks
    if (found_around := peeled(stages, storage, target, around)) is not None:
        return found_around
    fast = winograd(stage, storage, target, bounds, how.winograd, how.cold) if how.winograd else None
    if fast is not None:
        return fast, 1
    if how.huffman and (found := csc(stage, storage, target, bounds, True)) is not None:
        return found, 1
    for sparse in (sparse_lanes, sparse_gather, csc) if how.sparse else ():
        if (found := sparse(stage, storage, target, bounds)) is not None:
            return found, 1
    if (found := int_dot(stage, storage, target, bounds)) is not None:
        return found, 1
    if (together := recurrent_cell(stages, storage, target, bounds)) is not None:
        return together
    if (found := narrow_convolution(stage, storage, target, bounds)) is not None:
        return found, 1
    if (found := contract(stage, storage, target, bounds, how.tile, how.codes, how.far)) is not None:
        return found, 1
    if (together := row_reductions(stages, storage, target, bounds)) is not None:
        return together
    for generator in (depthwise_dot, narrow_pooling, sliding_window, elementwise, transpose):
        if (found := generator(stage, storage, target, bounds)) is not None:
            return found, 1
    return naive(stage, storage, bounds), 1
