"""Fold the stages that follow from constants alone.

    factor = scale / sqrt(var + eps)                   y = x * factor' + offset'
    offset = b - mean * factor                 ->      (factor', offset' constants)
    y = x * factor + offset

A constant of one element is read as a literal: the limits of a Clip, a scale, a zero point. Needs a
formulated region. Guarantees that every stage left reads something known at run time only, unless it makes a
result that the region itself gives.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ingot.formula.budget import Budget, work_of
from ingot.formula.compute import Compute, Scan, Stage, reads, writes
from ingot.formula.evaluate import Arrays, run_stages
from ingot.formula.expr import Cast, Const, Expr, Load, Param, Tensor, Var, loads, transform, walk
from ingot.loops.region import Either, Group, Iterate, Region, groups, read_instead

EXACT = 1 << 11  # integers that all floats hold


def fold_stages(region: Region) -> Region:
    """Fold in place, regions of branches and loops included, and return the region."""
    known = {t.value.ctypes.data: t.value for g in groups(region) for t in g.reads if t.value is not None}
    _fold(region, Budget.of((a.size, a.nbytes) for a in known.values()))
    return region


def _fold(region: Region, budget: Budget) -> None:
    wanted = {*region.outputs, *(t for g in groups(region) for t in g.reads)}
    for item in region.items:
        match item:
            case Group():
                _fold_group(item, wanted, budget)
            case Either():
                _fold(item.then, budget)
                _fold(item.other, budget)
            case Iterate():
                _fold(item.body, budget)


def _fold_group(group: Group, wanted: set[Tensor], budget: Budget) -> None:
    """`wanted` is what others read."""
    writers = Counter(t for s in group.stages for t in _written(s))
    last = {t for s in group.stages[-1:] for t in _written(s)}
    found: dict[Tensor, Tensor] = {}
    kept: list[Stage] = []
    for old in group.stages:
        stage = _reading(old, found)
        writers.subtract(_written(stage))  # who is left carries it through a scan: this is its first value
        is_read_on = any(writers[t] or t in last or t in wanted for t in _written(stage))
        if is_read_on or not _is_known(stage) or not budget.spend(work_of((stage,)), list(_written(stage))):
            kept.append(stage)
            continue
        assert isinstance(stage, Compute)
        found[stage.out] = _evaluated(stage)
    group.stages = tuple(map(_with_literals, kept))


def _reading(stage: Stage, found: Mapping[Tensor, Tensor]) -> Stage:
    """The stage, with constants read in place of what was found to be constant."""
    for t in set(reads(stage)) & found.keys() if found else ():
        stage = read_instead(stage, t, found[t])
    return stage


def _with_literals(stage: Stage) -> Stage:
    """The stage with reads of one-element constants replaced by their values."""
    if isinstance(stage, Scan):
        return replace(stage, body=tuple(map(_with_literals, stage.body)))
    if not any(_literal(load) for e in stage.expressions for load in loads(e)):
        return stage

    def put(e: Expr) -> Expr:
        return transform(transform(e, _literal), _converted)

    r = stage.reduction and stage.reduction.over(put)
    return Compute(stage.out, stage.axes, put(stage.value), r, tuple(map(put, stage.at)))


def _literal(e: Expr) -> Const | None:
    """The value of a read that can only meet the one element of a constant."""
    match e:
        case Load(Tensor(value=np.ndarray(size=1) as value), index, None) if e.dtype.kind in "fiu":
            if all(i == Const(0) or isinstance(i, Var) for i in index):
                return Const(value.reshape(-1)[0].item(), e.dtype)
    return None


def _converted(e: Expr) -> Const | None:
    """A literal integer as the literal of another type that holds it: a zero point among floats."""
    match e:
        case Cast(Const(int() as value), to) if to.kind in "fiu" and abs(value) <= EXACT:
            if to.is_float or to.lowest <= value <= to.highest:
                return Const(float(value) if to.is_float else value, to)
    return None


def _written(stage: Stage) -> set[Tensor]:
    return set(writes(stage))


def _is_known(stage: Stage) -> bool:
    """Whether a stage writes a whole tensor from constants."""
    if not isinstance(stage, Compute) or stage.at or not all(isinstance(n, int) for n in stage.out.shape):
        return False
    if any(isinstance(n, Param) for e in stage.expressions for n in walk(e)):
        return False  # an extent that only the run tells
    return all(t.value is not None for t in reads(stage))


def _evaluated(stage: Compute) -> Tensor:
    arrays: Arrays = {}
    with np.errstate(all="ignore"):
        run_stages((stage,), arrays, {})
    return Tensor(stage.out.name, stage.out.type, stage.out.shape, arrays[stage.out])
