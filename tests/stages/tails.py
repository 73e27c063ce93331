"""What may stand behind any stage: casts, comparisons, bits, choices and operands of other types.

A producer is drawn as for its own generator. The maps behind it are operators' own definitions, which fusion
joins to it as in a model; so what is computed behind a sum is any expression, in any type, and whoever serves
it must have a form for it in vectors, or decline.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from ingot.formula.compute import computes
from ingot.formula.expr import Tensor, Unary, static, walk
from ingot.formula.types import (
    BFLOAT16,
    BOOL,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    UINT8,
    UINT16,
    UINT32,
    UINT64,
    DType,
)
from ingot.loops.region import Group, Region
from ingot.loops.region_passes.fuse import fuse
from ingot.ops.cast import cast_to
from ingot.ops.registry import Builder
from ingot.targets.record import Target
from tests.probes.levels import builder
from tests.stages import maps, products, windows
from tests.stages.dice import Dice, Impossible
from tests.stages.drawn import EXACT, Drawn

SIGNED, UNSIGNED = (INT8, INT16, INT32, INT64), (UINT8, UINT16, UINT32, UINT64)
TYPES = (FLOAT32, INT32, UINT8, INT8, BOOL, FLOAT64, FLOAT16, BFLOAT16, INT64, INT16, UINT16, UINT32, UINT64)
Producer = Callable[[Dice, Target], Drawn]
Tail = Callable[[Dice, Builder, Tensor], Tensor]


def tailed(dice: Dice, target: Target, producers: Sequence[Producer] = ()) -> Drawn:
    """A stage for any generator, or of these producers, with one map behind it or up to four."""
    made = dice.choice(producers or PRODUCERS)(dice, target)
    groups = _made_together(made)
    (t, *others) = made.outputs
    if others or t not in groups[-1].writes:
        raise Impossible  # several results, or a part of a larger one
    f, y = builder(), t
    for _ in range(dice.number(1, 4)):
        is_exact = made.loss == 0 and not _rounds(f)
        y = dice.choice(behind(y.type, is_exact))(dice, f, y)
    after = [Group((f"map{i}",), (s,)) for i, s in enumerate(f.stages)]
    fused = fuse(Region((), (y,), [*groups, *after]))
    groups = [g for g in fused.items if isinstance(g, Group)]
    whole = next(g for g in groups if {"subject", "map0"} & {*g.nodes})
    layout = made.layouts[t]
    between = {s: layout for g in groups for s in g.writes if s.rank == t.rank}
    layouts = {**between, **made.layouts, y: layout}
    return replace(made, stages=whole.stages, groups=tuple(groups), outputs=(y,), layouts=layouts)


def _made_together(made: Drawn) -> list[Group]:
    """The groups, all that make the subject's tensor as one: phases without a tap stand in front of it."""
    (subject,) = (g for g in made.groups if g.stages == made.stages)
    makers = [g for g in made.groups if g.writes & subject.writes]
    whole = Group(("subject",), tuple(s for g in makers for s in g.stages))
    return [whole if g is subject else Group(g.nodes, g.stages) for g in made.groups if g not in makers[:-1]]


def behind(dtype: DType, is_exact: bool) -> tuple[Tail, ...]:
    """What may follow a value: where it is rounded, nothing that a last bit turns into another number."""
    if dtype is BOOL:
        return (_cast, _logical, _chosen, _equal)
    if not is_exact:
        return (_joined, _limited, _smooth) if dtype.is_float else (_joined,)
    if dtype.is_float:
        return (_cast, _compared, _joined, _chosen, _limited, _smooth, _tested, _quantised, _remainder)
    return (_cast, _compared, _joined, _chosen, _limited, _bits, _remainder, _dequantised, _equal)


def _rounds(f: Builder) -> bool:
    nodes = (n for c in computes(tuple(f.stages)) for e in c.expressions for n in walk(e))
    return any(isinstance(n, Unary) and n.op not in EXACT for n in nodes)


def _operand(dice: Dice, f: Builder, x: Tensor, dtype: DType | None = None) -> Tensor:
    """What x broadcasts with: all its elements, one a channel, one a column, one, or one a row."""
    last = x.rank - 1
    kept = dice.choice((range(x.rank), (min(1, last),), (last,), (), range(last)))
    shape = tuple(static(n) if d in kept else 1 for d, n in enumerate(x.shape)) if kept else ()
    name = f"o{len(dice.taken)}_"  # of no other operand
    return (dice.tensor if dice.chance(60) else dice.constant)(name, dtype or x.type, shape)


def _known(dice: Dice, f: Builder, values: Sequence[float], dtype: DType) -> Tensor:
    """One number, which the model states."""
    return f.constant(np.array(dice.choice(values), dtype.numpy))


def _cast(dice: Dice, f: Builder, x: Tensor) -> Tensor:
    return cast_to(f, x, dice.choice([t for t in TYPES if t is not x.type]))


def _compared(dice: Dice, f: Builder, x: Tensor) -> Tensor:
    how = dice.choice(("Greater", "Less", "GreaterOrEqual", "LessOrEqual"))
    return f.call(how, *_turned(dice, x, _operand(dice, f, x)))


def _equal(dice: Dice, f: Builder, x: Tensor) -> Tensor:
    return f.call("Equal", *_turned(dice, x, _operand(dice, f, x)))


def _turned(dice: Dice, x: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    return (other, x) if dice.chance(30) else (x, other)


def _joined(dice: Dice, f: Builder, x: Tensor) -> Tensor:
    """Arithmetic with an operand, which may have been of another type."""
    other = _operand(dice, f, x, dice.choice((x.type, *TYPES)))
    if other.type is not x.type:
        other = cast_to(f, other, x.type)
    return f.call(dice.choice(("Add", "Sub", "Mul", "Max", "Min")), *_turned(dice, x, other))


def _chosen(dice: Dice, f: Builder, x: Tensor) -> Tensor:
    """Where: x decides, or is what is decided about."""
    if x.type is BOOL:
        to = dice.choice(TYPES)
        return f.call("Where", x, _operand(dice, f, x, to), _known(dice, f, (0, 1), to))
    return f.call("Where", _operand(dice, f, x, BOOL), *_turned(dice, x, _operand(dice, f, x)))


def _limited(dice: Dice, f: Builder, x: Tensor) -> Tensor:
    low = None if dice.chance(20) else _known(dice, f, (0, 3), x.type)
    high = None if dice.chance(20) else _known(dice, f, (6, 100), x.type)
    return f.call("Clip", x, low, high)


def _smooth(dice: Dice, f: Builder, x: Tensor) -> Tensor:
    how = dice.choice(("Relu", "Neg", "Abs", "LeakyRelu", "Sigmoid", "Tanh", "Softsign", "HardSwish"))
    if how in ("Sigmoid", "Tanh"):  # of numbers that do not all end at its limits
        x = f.call("Mul", x, _known(dice, f, (0.0625, 0.001), x.type))
    return f.call(how, x)


def _tested(dice: Dice, f: Builder, x: Tensor) -> Tensor:
    """Of a quotient, which may be infinite or no number."""
    if dice.chance(50):
        x = f.call("Div", *_turned(dice, x, _operand(dice, f, x)))
    return f.call(dice.choice(("IsNaN", "IsInf", "Sign", "Floor", "Round", "Ceil")), x)


def _quantised(dice: Dice, f: Builder, x: Tensor) -> Tensor:
    scale = _known(dice, f, (0.25, 2.0, 0.3), x.type if x.type is not FLOAT64 else FLOAT32)
    return f.call(
        "QuantizeLinear", x, scale, _known(dice, f, (0, 3), dice.choice((UINT8, INT8, UINT16, INT16)))
    )


def _dequantised(dice: Dice, f: Builder, x: Tensor) -> Tensor:
    if x.type.bits > 32 or x.type is UINT32:
        return _cast(dice, f, x)
    return f.call(
        "DequantizeLinear", x, _known(dice, f, (0.5, 0.0625), FLOAT32), _known(dice, f, (0, 3), x.type)
    )


def _remainder(dice: Dice, f: Builder, x: Tensor) -> Tensor:
    """Mod or a quotient of integers, by what may be 0; of floats by what is not, as C has no number there."""
    fmod = int(x.type.is_float or dice.chance(30))
    if not x.type.is_float and dice.chance(30):
        return f.call("Div", x, _operand(dice, f, x))
    return f.call("Mod", x, _known(dice, f, (3, 7), x.type), fmod=fmod)


def _bits(dice: Dice, f: Builder, x: Tensor) -> Tensor:
    how = dice.choice(("BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot", "BitShift", "Abs", "Sign"))
    if how in ("BitwiseNot", "Abs", "Sign"):
        return f.call(how, x)
    if how != "BitShift":
        return f.call(how, x, _operand(dice, f, x))
    if x.type.kind == "i":
        x = cast_to(f, x, dice.choice(UNSIGNED))
    return f.call(how, x, _known(dice, f, (1, 3, 7), x.type), direction=dice.choice(("LEFT", "RIGHT")))


def _logical(dice: Dice, f: Builder, x: Tensor) -> Tensor:
    how = dice.choice(("And", "Or", "Xor", "Not"))
    return f.call(how, x, *((_operand(dice, f, x),) if how != "Not" else ()))


PRODUCERS: tuple[Producer, ...] = (
    windows.pooled,
    windows.convolved,
    partial(windows.convolved, depthwise=True),
    windows.transposed,
    partial(windows.convolved, features=3),
    partial(windows.pooled, channels=3),
    products.multiplied,
    products.inner,
    products.bytes_product,
    products.wide_bytes,
    products.depthwise_bytes,
    products.small_windows,
    products.sparse_product,
    maps.elementwise_stage,
    maps.rows_stage,
    maps.turned,
    maps.interleaved,
)
"""What stands in front: the stages of the generators themselves."""
