"""What stands behind a sum, as fusion leaves it: activations, residuals, scales, numbers of the place."""

from __future__ import annotations

from dataclasses import replace

from ingot.formula.compute import Compute
from ingot.formula.expr import (
    Const,
    Expr,
    Tensor,
    Unary,
    Var,
    binary,
    call,
    cast,
    maximum,
    minimum,
    select,
    static,
    walk,
)
from ingot.formula.types import FLOAT16, FLOAT32, INT8, INT16, UINT8, DType
from ingot.ops.quantize import saturated
from tests.stages.dice import Dice

EXACT = ("none", "relu", "clip", "leaky", "bias", "scale", "residual", "slope", "place", "abs", "bytes")
ROUNDING = ("sigmoid", "tanh", "exp")
ALL = (*EXACT, "sigmoid", "silu", "tanh", "exp", "odd")


def with_epilogue(dice: Dice, c: Compute, kinds: tuple[str, ...] = ALL) -> tuple[Compute, list[Tensor]]:
    """The stage with up to two maps fused into it, now and then stored as bytes; the tensors they read."""
    read: list[Tensor] = []
    for _ in range(dice.below(3)):
        value = _mapped(dice, dice.choice(kinds), c, c.value, read)
        c = replace(c, value=value)
    is_exact = not any(isinstance(n, Unary) and n.op in ROUNDING for n in walk(c.value))
    is_whole = not c.at  # else other stages write the rest of the tensor, of its type
    if (
        "bytes" in kinds
        and is_whole
        and c.out.type is c.value.dtype is FLOAT32
        and is_exact
        and dice.chance(12)
    ):
        to = dice.choice((UINT8, INT8, INT16))
        quantised = saturated(c.value * dice.choice((0.25, 0.5, 2.0)), float(dice.choice((0, 3, 100))), to)
        c = replace(c, value=quantised, out=replace(c.out, type=to))
    return c, read


def _mapped(dice: Dice, kind: str, c: Compute, v: Expr, read: list[Tensor]) -> Expr:
    shape = tuple(int(n) for n in c.out.shape if isinstance(n, int))
    channel = c.axes[1] if len(shape) > 2 else c.axes[-1]
    match kind:
        case "relu":
            return maximum(v, 0)
        case "clip":
            return minimum(maximum(v, -5), 60)
        case "leaky":
            return select(v < 0, v * 0.125, v)
        case "bias" | "scale" | "slope":
            array = dice.constant(f"{kind}{len(read)}_", v.dtype, (int(channel.extent or 1),))
            t = array[channel]
            return v + t if kind == "bias" else v * t if kind == "scale" else select(v < 0, v * t, v)
        case "residual":
            t2 = dice.tensor(f"r{len(read)}_", v.dtype, shape)
            read.append(t2)
            return v + t2[c.axes]
        case "place":
            return v + _place(dice, c.axes, v.dtype)
        case "abs":
            return call("abs", v)
        case "odd":
            return _odd(dice, c, v, read)
        case "sigmoid" | "tanh":
            return call(kind, v * 0.0625)
        case "silu":
            return v * call("sigmoid", v * 0.0625)
        case "exp":
            return call("exp", minimum(v * 0.0625, 3))
    return v


def _odd(dice: Dice, c: Compute, v: Expr, read: list[Tensor]) -> Expr:
    """What has no vector form."""
    match dice.below(4):
        case 0:
            return select(dice.choice(c.axes) < 2, v, 1)
        case 1:
            return binary("larger", v, 3)
        case 2:
            return v * call("sign", v)
    t = dice.tensor(f"h{len(read)}_", FLOAT16, [static(n) for n in c.out.shape])
    read.append(t)
    return v + cast(t[c.axes], v.dtype)


def _place(dice: Dice, axes: tuple[Var, ...], dtype: DType) -> Expr:
    """A number that depends on where the element stands, as what an average divides by does."""
    axis = dice.choice(axes)
    return cast(minimum(axis + 1, Const(dice.number(1, 4))), dtype)
