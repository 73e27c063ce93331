"""Layers as the steps between fusion and lowering leave them: joined, taken apart, copied around, woven.

What a generator gets in a model is not what a definition makes. So the stages of a layer go through every
step that a region goes through, whoever serves them writes the loops of all, and the result is held against
the layer as it was drawn. Besides the usual extents these are long windows, strides beyond the window, more
channels than a block of registers, and products in which either operand is the larger one.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from ingot.driver import REGION_STEPS
from ingot.formula.expr import Tensor
from ingot.formula.types import FLOAT32
from ingot.loops.region import Group
from ingot.loops.region_passes.layout_assignment import assign_layouts
from ingot.ops.contract import gemm, matmul
from ingot.options import Options
from ingot.targets.record import Target
from tests.probes.levels import builder
from tests.stages import windows
from tests.stages.dice import Dice, Impossible
from tests.stages.drawn import Drawn
from tests.stages.tails import Producer, tailed
from tests.stages.windows import Geometry, geometry

PLAIN = Options(math="exact")


def laid_out(dice: Dice, target: Target) -> Drawn:
    """A layer with maps behind it or without, after all steps."""
    made = dice.choice(LAYERS)(dice, target)
    region = made.region
    if not region.inputs:
        raise Impossible
    for step in REGION_STEPS:
        region = step.run(region) if step.when(PLAIN) else region
    layouts = assign_layouts(region, target)
    groups = tuple(g for g in region.items if isinstance(g, Group))
    return replace(made, groups=groups, layouts=layouts, truth=made.region)


def _long_windows(dice: Dice) -> Geometry:
    """Windows of up to thirteen elements, which may lie apart, beyond the edge, or in gaps."""
    rank = dice.choice((2, 2, 1))
    kernel = tuple(dice.number(3, 13) for _ in range(rank))
    strides = tuple(dice.choice((1, 2, 3, 4, 7)) for _ in range(rank))
    dilations = tuple(dice.choice((1, 1, 2)) for _ in range(rank))
    reach = tuple((k - 1) * d for k, d in zip(kernel, dilations, strict=True))
    pads = tuple(min(dice.choice((0, 0, 1, 2, r // 2, r)), r) for r in reach * 2)
    least = (max(1, r + 1 - pads[i] - pads[rank + i]) for i, r in enumerate(reach))
    size = tuple(n + dice.number(0, 20) for n in least)
    return Geometry(dice.choice((1, 1, 2)), size, kernel, strides, dilations, pads)


def _long_pooled(dice: Dice, target: Target) -> Drawn:
    return windows.pooled(dice, target, g=_long_windows(dice))


def _transposed(dice: Dice, target: Target) -> Drawn:
    """Strides beyond the window, windows beyond the stride."""
    g = geometry(dice, 5, (2, 2, 1))
    g = replace(g, strides=tuple(dice.number(1, 5) for _ in g.strides))
    return windows.transposed(dice, target, g=g)


def _many_channels(dice: Dice, target: Target) -> Drawn:
    g = geometry(dice, 3, (2, 1))
    g = replace(g, size=tuple(min(n, k + 3) for n, k in zip(g.size, g.kernel, strict=True)))
    return windows.convolved(dice, target, g=g, features=dice.number(120, 140), types=(FLOAT32,))


def _product(dice: Dice, target: Target) -> Drawn:
    """Rows by columns, any number of either, both inputs or one of them known, either turned."""
    extents = (1, 3, 16, 33, 70, 129)
    m, k, n = dice.choice(extents), dice.choice((1, 7, 16, 31, 40)), dice.choice(extents)
    f, turned, other = builder(), dice.below(2), dice.below(2)
    x = _operand(dice, "x", (k, m) if turned else (m, k))
    w = _operand(dice, "w", (n, k) if other else (k, n))
    if x.value is not None and w.value is not None:
        raise Impossible
    if turned or other:
        gemm(f, x, w, None, transA=turned, transB=other)
    else:
        matmul(f, x, w)
    return windows.stored(dice, f, target, windows.USUAL)


def _operand(dice: Dice, name: str, shape: tuple[int, ...]) -> Tensor:
    return (dice.tensor if dice.chance(70) else dice.constant)(name, FLOAT32, shape)


WIDE: tuple[Producer, ...] = (_long_pooled, _transposed, _many_channels, _product)
LAYERS: tuple[Producer, ...] = (
    *WIDE,
    tailed,
    *(partial(tailed, producers=(p,)) for p in WIDE),
)
