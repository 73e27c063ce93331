"""Fold the stages that follow from constants alone.

    factor = scale / sqrt(var + eps)                   y = x * factor' + offset'
    offset = b - mean * factor                 ->      (factor', offset' constants)
    y = x * factor + offset

A float constant of one element is read as a literal: the limits of a Clip, a scale. Needs a formulated
region. Guarantees that every stage left reads something known at run time only, unless it makes a result that
the region itself gives.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ingot.formula.compute import Compute, Scan, Stage, reads, writes
from ingot.formula.evaluate import Arrays, run_stages
from ingot.formula.expr import Const, Expr, Load, Param, Tensor, Var, loads, transform, walk
from ingot.loops.region import Either, Group, Iterate, Region, groups, read_instead

LIMIT_BYTES = 1 << 26


def fold_stages(region: Region) -> Region:
    """Fold in place, regions of branches and loops included, and return the region."""
    wanted = {*region.outputs, *(t for g in groups(region) for t in g.reads)}
    for item in region.items:
        match item:
            case Group():
                _fold_group(item, wanted)
            case Either():
                fold_stages(item.then)
                fold_stages(item.other)
            case Iterate():
                fold_stages(item.body)
    return region


def _fold_group(group: Group, wanted: set[Tensor]) -> None:
    """`wanted` is what others read."""
    stages: list[Stage] = list(group.stages)
    last = {t for s in stages[-1:] for t in _written(s)}
    kept: list[Stage] = []
    while stages:
        stage = stages.pop(0)
        again = {t for s in stages for t in _written(s)}  # carried by a scan: this is its first value
        if not _is_known(stage) or _written(stage) & (last | again | wanted):
            kept.append(stage)
            continue
        assert isinstance(stage, Compute)
        known = _evaluated(stage)
        stages = [read_instead(s, stage.out, known) for s in stages]
    group.stages = tuple(map(_with_literals, kept))


def _with_literals(stage: Stage) -> Stage:
    """The stage with reads of one-element float constants replaced by their values."""
    if isinstance(stage, Scan):
        return replace(stage, body=tuple(map(_with_literals, stage.body)))
    if not any(_literal(load) for e in stage.expressions for load in loads(e)):
        return stage

    def put(e: Expr) -> Expr:
        return transform(e, _literal)

    r = stage.reduction
    r = None if r is None else replace(r, init=put(r.init), term=put(r.term))
    return Compute(stage.out, stage.axes, put(stage.value), r, tuple(map(put, stage.at)))


def _literal(e: Expr) -> Const | None:
    """The value of a read that can only meet the one element of a constant."""
    match e:
        case Load(Tensor(value=np.ndarray(size=1) as value), index, None) if e.dtype.is_float:
            if all(i == Const(0) or isinstance(i, Var) for i in index):
                return Const(float(value.reshape(-1)[0]), e.dtype)
    return None


def _written(stage: Stage) -> set[Tensor]:
    return set(writes(stage))


def _is_known(stage: Stage) -> bool:
    """Whether a stage writes a whole tensor from constants."""
    if not isinstance(stage, Compute) or stage.at or not all(isinstance(n, int) for n in stage.out.shape):
        return False
    if any(isinstance(n, Param) for e in stage.expressions for n in walk(e)):
        return False  # an extent that only the run tells
    return stage.out.bytes <= LIMIT_BYTES and all(t.value is not None for t in reads(stage))


def _evaluated(stage: Compute) -> Tensor:
    arrays: Arrays = {}
    with np.errstate(all="ignore"):
        run_stages((stage,), arrays, {})
    return Tensor(stage.out.name, stage.out.type, stage.out.shape, arrays[stage.out])
