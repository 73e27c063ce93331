"""Stages whose extents are data, which are peeled; and chains of windows that go by bands of rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ingot.errors import InputError
from ingot.formula.compute import Compute, Reduction, accumulator
from ingot.formula.expr import Const, Expr, Param, Tensor, Var, maximum, static
from ingot.formula.types import FLOAT32, INT64
from ingot.loops.region import Group, Region
from ingot.loops.region_passes.layout_assignment import assign_layouts
from ingot.ops.contract import conv
from ingot.ops.pool import average_pool, max_pool
from ingot.targets.record import Target
from tests.probes.levels import builder
from tests.stages.dice import Dice, Impossible
from tests.stages.drawn import Drawn


def banded_chain(dice: Dice, target: Target) -> Drawn:
    """Two or three windows after each other, on a machine whose caches are too small for what is between."""
    rows, columns, channels = dice.number(4, 20), dice.number(3, 12), dice.number(1, 9)
    t = x = dice.tensor("x", FLOAT32, (dice.choice((1, 1, 2)), channels, rows, columns))
    groups: list[Group] = []
    for k in range(dice.choice((2, 2, 3))):
        stage = _window(dice, t, k)
        groups.append(Group((f"stage{k}",), (stage,)))
        t = stage.out
    small = replace(target, caches=(1 << 10, dice.choice((2 << 10, 4 << 10, 8 << 10)), 8 << 20))
    region = Region((x,), (t,), list(groups))
    layouts = assign_layouts(region, target)
    put = tuple(g for g in region.items if isinstance(g, Group))
    parts = dice.choice((1, 1, 2, 4))
    # Winograd's, if one is chosen
    return Drawn(put[-1].stages, put, (t,), layouts, small, tolerance=3e-4, parts=parts, math="standard")


def _window(dice: Dice, x: Tensor, k: int) -> Compute:
    f, channels = builder(), static(x.shape[1])
    taps, stride = dice.choice((3, 1, 2, 5)), dice.choice((1, 1, 2))
    pads = tuple(dice.choice((taps // 2, taps // 2, 0)) for _ in range(4))
    how: dict[str, Any] = {"pads": pads, "strides": (stride,) * 2}
    pool: dict[str, Any] = {"kernel_shape": (max(taps, 2),) * 2, "strides": (stride,) * 2}
    pool["pads"] = tuple(min(p, 1) for p in pads)
    try:
        match dice.choice(("conv", "depthwise", "point", "max", "average")):
            case "conv":
                w = dice.constant(f"w{k}_", FLOAT32, (dice.number(1, 9), channels, taps, taps), 2)
                conv(f, x, w, None, **how)
            case "depthwise":
                w = dice.constant(f"w{k}_", FLOAT32, (channels, 1, taps, taps), 2)
                conv(f, x, w, None, group=channels, **how)
            case "point":
                conv(f, x, dice.constant(f"w{k}_", FLOAT32, (dice.number(4, 20), channels, 1, 1), 2), None)
            case "max":
                max_pool(f, x, **pool)
            case _:
                average_pool(f, x, **pool)
    except InputError as error:
        raise Impossible from error
    (stage,) = f.stages
    assert isinstance(stage, Compute)
    if not all(isinstance(n, int) and n > 0 for n in stage.out.shape):
        raise Impossible
    return replace(stage, value=maximum(stage.value, 0)) if dice.chance(40) else stage


# -- extents that are data


def peeled_stage(dice: Dice, target: Target) -> Drawn:
    """A map, a product or a reduction over a rectangle whose extent is data; what is around it stays."""
    most, k, lanes = dice.number(1, 30), dice.number(1, 20), target.lanes(4)
    width = max(1, dice.choice((lanes, 2 * lanes + 1, 3, lanes - 1)))
    count = Tensor(f"count{dice.seed}", INT64, (), within=(0, most))
    n, m, j = Var("n", Param(count.name, 0, most, count)), Var("m", width), Var("j", k)
    acc, zero = accumulator(FLOAT32), Const(0.0, FLOAT32)
    kind = dice.choice(("product", "map", "along", "sum", "rows"))
    axes = {"product": (n, m), "map": (n, m), "along": (m, n), "sum": (n,), "rows": (n,)}[kind]
    sizes = {n: most, m: width}
    reads = {"product": (n, j), "sum": (j, n), "rows": (n, j)}.get(kind, axes)
    x = dice.tensor("x", FLOAT32, [sizes.get(a, k) for a in reads])
    value: Expr = acc
    r: Reduction | None = None
    match kind:
        case "product":
            known = dice.chance(60)
            w = dice.constant("w", FLOAT32, (k, width)) if known else dice.tensor("w", FLOAT32, (k, width))
            r = Reduction("sum", (j,), zero, x[reads] * w[j, m])
        case "map":
            value = x[reads] * 2 + dice.tensor("b", FLOAT32, (width,))[m]
        case "along":
            value = maximum(x[reads], 3)
        case "sum":
            r = Reduction("sum", (j,), zero, x[reads])
        case _:
            r = Reduction("max", (j,), Const(FLOAT32.lowest, FLOAT32), x[reads])
    behind = 1 if dice.chance(10) else 0  # a row that stays what it was: the axis is no index of its own
    y = Tensor("y", FLOAT32, tuple(sizes[a] + (behind if a == n else 0) for a in axes))
    at = tuple(a + behind if behind and a == n else a for a in axes)
    return _in_part(dice, Compute(y, axes, value, r, at), target)


def _in_part(dice: Dice, c: Compute, target: Target) -> Drawn:
    """The stage behind one that fills all of its result; now and then one more goes through the same rows."""
    stages, outputs = [c], [c.out]
    axes = tuple(Var(f"i{d}", n) for d, n in enumerate(c.out.shape))
    if dice.chance(50):
        outputs.append(Tensor("z", FLOAT32, c.out.shape))
        around, to = (c.axes, c.index) if dice.chance(60) else (axes, axes)
        at = to
        if dice.chance(30):  # of another turn of the loop
            at = (*(Const(0) for _ in at[1:]), at[-1])
        value = c.out[at] * dice.number(2, 5)
        stages.append(Compute(outputs[1], around, value, None, to))
    filled = tuple(Compute(t, axes, Const(7.0, FLOAT32)) for t in outputs)
    groups = (Group(("before",), filled), Group(("subject",), tuple(stages)))
    return Drawn(tuple(stages), groups, tuple(outputs), {}, target, math="standard")
