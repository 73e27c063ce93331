"""Phases of floats that are rounded to bytes: the floats first, along rows, and behind them the rounding.

    y[2 * q + a] = byte(sum over ic, k of x[ic, q + k] * w[ic, a, k])

    y_sums[2 * q + a] = sum over ic, k of x[ic, q + k] * w[ic, a, k]
    y[i] = byte(y_sums[i])

Few channels fill no vector, and bytes are not stored with gaps; sums go along rows as those of floats do, and
whole rows of them are rounded. In: a fused region, of a target with vectors. Out: the same region, its
quantised transposed convolutions to few channels in two groups each.
"""

from __future__ import annotations

from dataclasses import replace

from ingot.formula.compute import Compute, accumulator
from ingot.formula.expr import Tensor, Var, static, substitute
from ingot.formula.index import mentions
from ingot.formula.types import FLOAT32
from ingot.loops.region import Group, Region
from ingot.loops.region_passes.columns import FEW_CHANNELS
from ingot.loops.region_passes.weave import phases_of


def round_behind(region: Region) -> list[Tensor]:
    """Part the groups in place; returns the tensors of the sums."""
    made = list[Tensor]()
    for group in [i for i in region.items if isinstance(i, Group)]:
        stages = [s for s in group.stages if isinstance(s, Compute)]
        if len(stages) != len(group.stages) or not _is_rounded(stages):
            continue
        first = stages[0]
        assert first.reduction is not None
        sums = Tensor(f"{first.out.name}_sums", FLOAT32, first.out.shape)
        acc = accumulator(FLOAT32)
        group.stages = tuple(replace(s, out=sums, value=acc) for s in stages)
        axes = (*first.axes[:2], *(Var(f"i{d}", n) for d, n in enumerate(sums.shape[2:])))
        rounded = Compute(first.out, axes, substitute(first.value, {acc.name: sums[axes]}))
        region.items.insert(region.items.index(group) + 1, Group(group.nodes, (rounded,)))
        made.append(sums)
    return made


def _is_rounded(stages: list[Compute]) -> bool:
    """Whether stages are the phases of one image of bytes of few channels, all rounded in one way."""
    out = stages[0].out if stages else None
    if out is None or out.type.bits != 8 or not all(isinstance(n, int) for n in out.shape):
        return False
    if out.rank < 3 or static(out.shape[1]) > FEW_CHANNELS or phases_of(stages) is None:
        return False
    return all(
        s.reduction is not None
        and s.reduction.term.dtype is FLOAT32
        and s.value == stages[0].value
        and s.axes[:2] == stages[0].axes[:2]
        and not any(mentions(s.value, a.name) for a in s.axes[2:])
        for s in stages
    )
