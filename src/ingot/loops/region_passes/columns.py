"""A transposed convolution to few channels as a product and sums of its columns (what is known as col2im).

    y[n, oc, 2 * q] = sum(x[n, ic, q - 1 + k] * w[ic, oc, 2 - 2 * k] for ic, k)      a phase, one of two

    y_columns[n, oc, k, i] = sum(x[n, ic, i] * w[ic, oc, k] for ic)
    y_phase[n, oc, q] = y_columns[n, oc, 2, q - 1] + y_columns[n, oc, 0, q]
    y[n, oc, 2 * q] = y_phase[n, oc, q]

Each phase alone goes through all of `x`, which it may leave, with few outputs to multiply an element by. The
product reads an element once, where the caller has it, for all taps of all phases; what its vectors hold are
neighbours of an image, and no tap is multiplied that meets nothing.

In: a fused region, before its layouts are assigned. Out: the region with the product, the sums and the
weaving of the phases as groups of their own.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, replace
from functools import reduce
from itertools import product as combinations
from math import prod

from ingot.formula.compute import Compute, Reduction, Stage, accumulator
from ingot.formula.expr import Binary, Const, Expr, Load, Tensor, Var, binary, static, substitute
from ingot.formula.index import coefficient, simplify
from ingot.loops.region import Group, Region
from ingot.targets.record import Target

FEWEST_INPUTS = 8
"""Channels of the operand from which on the product outweighs what writing and reading columns costs."""


@dataclass(frozen=True, slots=True)
class Phase:
    """A stage of a transposed convolution: its operand, its weights, its taps."""

    stage: Compute
    reduction: Reduction
    x: Load
    w: Load

    @property
    def taps(self) -> tuple[Var, ...]:
        return self.reduction.axes[1:]


def sum_columns(region: Region, target: Target, dense: Container[Tensor]) -> set[Tensor]:
    """Rewrite in place; `dense` tensors are stored channels first. Returns what else has to be."""
    copies: dict[Tensor, Tensor] = {}
    for group in [i for i in region.items if isinstance(i, Group)]:
        phases = _phases(group, target, dense)
        if not phases:
            continue
        x = phases[0].x.tensor
        at = region.items.index(group)
        if x not in region.inputs and x not in copies:
            copies[x] = Tensor(f"{x.name}_channels_first", x.type, x.shape)
            copying = Group((f"import_{x.name}",), (_moving(x, copies[x]),))
            region.items.insert(at, copying)
            at += 1
        region.items[at : at + 1] = _groups(group, phases, copies.get(x, x))
    return set(copies.values())


def _phases(group: Group, target: Target, dense: Container[Tensor]) -> list[Phase]:
    """The group's stages as phases of one transposed convolution; none if they are not, or it does not pay."""
    phases = [p for s in group.stages if (p := _phase(s)) is not None]
    if len(phases) != len(group.stages) or len(phases) < 2:
        return []
    first = phases[0]
    together = all(p.x.tensor is first.x.tensor and p.w.tensor is first.w.tensor for p in phases)
    out, x, w = first.stage.out, first.x.tensor, first.w.tensor
    is_few = static(out.shape[1]) <= FEW_OUTPUTS and (out.shape[1] == 1 or out in dense)
    fits = prod(map(static, (out.shape[0], *w.shape[1:], *x.shape[2:]))) * 4 <= target.caches[1]
    pays = static(x.shape[1]) >= FEWEST_INPUTS and static(x.shape[-1]) >= target.lanes(4)
    return phases if together and is_few and fits and pays else []
