"""Stages that slide: convolutions, transposed ones and pooling, in one to three dimensions."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass, replace
from typing import Any

from ingot.errors import InputError
from ingot.formula.compute import Compute
from ingot.formula.expr import Tensor
from ingot.formula.types import FLOAT32, FLOAT64, DType
from ingot.loops.layout import Layout
from ingot.loops.region import Group
from ingot.ops.contract import conv
from ingot.ops.pool import average_pool, lp_pool, max_pool
from ingot.ops.registry import Builder
from ingot.ops.transposed import conv_transpose
from ingot.targets.record import Target
from tests.probes.levels import builder
from tests.stages.dice import Dice, Impossible
from tests.stages.drawn import Drawn, Habits, layout_of, part_of
from tests.stages.epilogues import with_epilogue

USUAL = Habits()
FLOATS = (FLOAT32, FLOAT32, FLOAT32, FLOAT64)


@dataclass(frozen=True)
class Geometry:
    """The image and its window."""

    batch: int
    size: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...]


def geometry(dice: Dice, most_taps: int = 5, ranks: tuple[int, ...] = (2, 2, 2, 1, 3)) -> Geometry:
    """Any image and window; pads are before each axis, then behind each."""
    rank = dice.choice(ranks)
    kernel = tuple(dice.number(1, most_taps) for _ in range(rank))
    strides = tuple(dice.choice((1, 1, 1, 2, 3)) for _ in range(rank))
    dilations = tuple(dice.choice((1, 1, 1, 1, 2, 3)) for _ in range(rank))
    least = -2 if dice.chance(10) else 0  # elements may be cut off, too, or windows lie outside altogether
    pads = tuple(max(dice.choice((0, 0, 1, 1, 2, -1, -2)), least) for _ in range(2 * rank))
    most = [(k - 1) * d + (least < 0) for k, d in zip(kernel, dilations, strict=True)]
    pads = tuple(map(min, pads, most * 2))
    size = tuple(_size(dice, kernel[i], dilations[i], pads[i] + pads[rank + i], rank) for i in range(rank))
    return Geometry(dice.choice((1, 1, 1, 2, 3)), size, kernel, strides, dilations, pads)


def _size(dice: Dice, taps: int, dilation: int, around: int, rank: int) -> int:
    """An extent in which the window has a place."""
    least = max(1, (taps - 1) * dilation + 1 - around)
    return dice.number(least, least + {1: 40, 2: 16, 3: 4}[rank])


def some_channels(dice: Dice, lanes: int, most: int = 3) -> int:
    """One channel to three vectors of them, and what lies just beside whole vectors."""
    edges = (1, 2, 3, lanes - 1, lanes, lanes + 1, lanes // 2, 2 * lanes, 2 * lanes + 3, 3 * lanes)
    return min(max(1, dice.choice(edges) if dice.chance(60) else dice.number(1, most * lanes)), 48)


def channels_that_fit(dice: Dice, target: Target, dtype: DType) -> int:
    return some_channels(dice, target.lanes(dtype.bytes))


POOLS = ("max", "average", "average", "lp")


def pooled(
    dice: Dice,
    target: Target,
    habits: Habits = USUAL,
    channels: int | None = None,
    kinds: tuple[str, ...] = POOLS,
    counted: int = 50,
    g: Geometry | None = None,
) -> Drawn:
    """MaxPool, AveragePool or LpPool; `counted`: how often, of a hundred, an average counts its padding."""
    g, dtype = g or geometry(dice), dice.choice(FLOATS if channels is None else (FLOAT32,))
    c = channels or channels_that_fit(dice, target, dtype)
    f, x = builder(), dice.tensor("x", dtype, (g.batch, c, *g.size))
    define = {"max": max_pool, "average": average_pool, "lp": lp_pool}
    kind = dice.choice(kinds)
    how: dict[str, Any] = {"strides": g.strides, "dilations": g.dilations, "pads": g.pads}
    more: dict[str, dict[str, Any]] = {
        "max": {},
        "average": {"count_include_pad": int(dice.chance(counted))},
        "lp": {"p": dice.choice((2, 1))},
    }
    try:
        define[kind](f, x, kernel_shape=g.kernel, ceil_mode=int(dice.chance(30)), **how, **more[kind])
    except InputError as error:
        raise Impossible from error
    return stored(dice, f, target, habits)


def convolved(
    dice: Dice,
    target: Target,
    habits: Habits = USUAL,
    g: Geometry | None = None,
    features: int | None = None,
    depthwise: bool = False,
    constant: int = 100,
    types: tuple[DType, ...] = FLOATS,
) -> Drawn:
    """A convolution: of groups or depthwise, with a bias or without."""
    g, dtype = g or geometry(dice), dice.choice(types)
    inputs = channels_that_fit(dice, target, dtype)
    if depthwise:
        group, each = inputs, 1
        outputs = inputs * dice.choice((1, 1, 1, 2))
    else:
        group = dice.choice((1, 1, 1, 1, 2)) if features is None else 1
        each = dice.number(1, min(inputs, 20))
        inputs = each * group
        outputs = group * (features or channels_that_fit(dice, target, dtype))
    f, x = builder(), dice.tensor("x", dtype, (g.batch, inputs, *g.size))
    shape = (outputs, each, *g.kernel)
    w = dice.constant("w", dtype, shape) if dice.chance(constant) else dice.tensor("w", dtype, shape)
    b = dice.constant("b", dtype, (outputs,)) if dice.chance(60) else None
    try:
        conv(f, x, w, b, group=group, strides=g.strides, dilations=g.dilations, pads=g.pads)
    except InputError as error:
        raise Impossible from error
    return stored(dice, f, target, habits)


def transposed(dice: Dice, target: Target, habits: Habits = USUAL, g: Geometry | None = None) -> Drawn:
    """A transposed convolution: one of its phases, for each is a stage."""
    g, dtype = g or geometry(dice, 4), dice.choice(FLOATS)
    group = dice.choice((1, 1, 2))
    inputs, outputs = (some_channels(dice, target.lanes(dtype.bytes), 1) for _ in range(2))
    f, x = builder(), dice.tensor("x", dtype, (g.batch, inputs * group, *g.size))
    w = dice.constant("w", dtype, (inputs * group, outputs, *g.kernel))
    b = dice.constant("b", dtype, (outputs * group,)) if dice.chance(60) else None
    more = tuple(dice.below(s) if dice.chance(20) else 0 for s in g.strides)
    try:
        conv_transpose(
            f,
            x,
            w,
            b,
            group=group,
            strides=g.strides,
            dilations=g.dilations,
            pads=g.pads,
            output_padding=more,
        )
    except InputError as error:
        raise Impossible from error
    return stored(dice, f, target, habits)


def stored(
    dice: Dice,
    f: Builder,
    target: Target,
    habits: Habits,
    prepared: Callable[[Compute], Compute] = lambda c: c,
) -> Drawn:
    """The stages of a definition with an epilogue, layouts, and places in larger tensors; `prepared`: the
    first sum as a step before the generators leaves it.

    What stands in front of the first sum is no business of the generator, as what is folded in a model.
    """
    stages = [s for s in f.stages if isinstance(s, Compute)]
    first = next((i for i, s in enumerate(stages) if s.reduction is not None), 0)
    stages[first] = prepared(stages[first])
    if any(n == 0 for n in stages[-1].out.shape):
        raise Impossible
    if len(stages) == first + 1:
        stages[first], _ = with_epilogue(dice, stages[first], habits.kinds)
    made = {s.out for s in stages[:first]}
    drawn = with_layouts(dice, tuple(stages[first:]), (stages[-1].out,), target, habits, made)
    before = (Group(("before",), tuple(stages[:first])),) if first else ()
    return replace(drawn, groups=(*before, *drawn.groups))


def with_layouts(
    dice: Dice,
    stages: tuple[Compute, ...],
    outputs: tuple[Tensor, ...],
    target: Target,
    habits: Habits = USUAL,
    made: Container[Tensor] = (),
) -> Drawn:
    """Everything stored in one way or another; now and then as a part of something larger, which groups in
    front of these have not `made`.
    """
    group = Group(("subject",), stages)
    layouts: dict[Tensor, Layout] = {}
    groups, shown = [group], list(outputs)
    for t in sorted((*group.reads, *group.writes), key=lambda t: t.name):
        is_output = t in outputs
        if not is_output and t in group.writes:
            continue  # the stages' own
        layout = layout_of(dice, t, stages, habits)
        if t.rank > 2 and t not in made and dice.chance(habits.parts):
            placed = part_of(dice, t, layout, not is_output)
            if placed is not None:
                layout, around = placed
                assert layout.place is not None
                whole = layout.place.whole
                layouts[whole] = replace(layout, place=None)
                groups = [*groups, around] if is_output else [around, *groups]
                shown = [whole if s is t else s for s in shown]
        layouts[t] = layout
    return Drawn(stages, tuple(groups), tuple(shown), layouts, target)
