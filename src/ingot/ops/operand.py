"""Operators that no model has: the operand of a product in bytes, and what its rounding left over.

In: floats. Out: bytes, `levels` steps from the least element to the largest, and whether these are too coarse
for the data; then bytes of much smaller steps that stand for the rest. `passes.byte_activations` uses them.
"""

from __future__ import annotations

from ingot.formula.expr import Const, Expr, Operand, Tensor, call, cast, maximum, minimum, select
from ingot.formula.types import UINT8
from ingot.ops.quantize import saturated
from ingot.ops.registry import Builder, op

LARGEST = 1e38  # of an inverse: a step is no denormal, and that of nothing but zeros no 0


def fine(levels: int) -> int:
    """How many steps of a rest make one step."""
    return levels - 1


def _bytes(f: Builder, x: Tensor, value: Expr, zero: Operand, levels: int, name: str) -> Tensor:
    """uint8 of x's shape: round(value) + zero, from 0 to `levels`."""
    axes, q = f.axes(x.shape), f.empty(UINT8, x.shape, name, within=(0, levels))
    value = saturated(value, zero, UINT8)
    f.put(q, axes, axes, value if levels == UINT8.highest else minimum(value, levels))
    return q


@op("QuantizeOperand", domain="ingot")
def quantize_operand(
    f: Builder, x: Tensor, allowed: Tensor, *, levels: int = 255
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """uint8 of x up to `levels`, the size of a step, the byte of 0.0, and whether rounding lost too much.

    Lost is |x - what the bytes stand for|^2 / |x|^2, lengths of vectors: more than allowed[0] where no
    element is negative, than allowed[1] elsewhere.
    """
    f.same_type((x, allowed), "f")
    f.require(allowed.shape == (2,), f"two limits are needed, not {allowed.shape}")
    axes = f.axes(x.shape)
    low, high = (f.reduce(e, (), axes, x[axes], init=0, name=e) for e in ("min", "max"))
    inverse = f.map((), minimum(float(levels) / (high[()] - low[()]), LARGEST), name="inverse")
    step = f.map((), 1.0 / inverse[()], name="step")
    where = minimum(maximum(0.0 - low[()] * inverse[()], 0), levels)
    zero = f.map((), cast(call("round", where), UINT8), name="zero")
    steps = x[axes] * inverse[()]
    q = _bytes(f, x, steps, cast(zero[()], x.type), levels, "q")
    left = _left(steps)
    lost = f.reduce("sum", (), axes, left * left, name="lost")
    whole = f.reduce("sum", (), axes, steps * steps, name="whole")
    most = select(low[()] < 0, allowed[1], allowed[0])
    return q, step, zero, f.map((), whole[()] * most < lost[()], name="coarse")


def _left(steps: Expr) -> Expr:
    """What rounding leaves of an element: half a step at most."""
    return steps - call("round", steps)


@op("QuantizeRest", domain="ingot")
def quantize_rest(f: Builder, x: Tensor, step: Tensor, *, levels: int = 255) -> tuple[Tensor, Tensor]:
    """uint8 of what rounding to steps left of x, from 1 (half a step less) to `levels` (half more), and
    the byte of nothing.
    """
    inverse = f.map((), 1.0 / step[()], name="inverse")
    left = _left(x[f.axes(x.shape)] * inverse[()]) * float(fine(levels))
    middle = (levels + 1) // 2
    rest = _bytes(f, x, left, float(middle), levels, "rest")
    return rest, f.map((), Const(middle, UINT8), name="middle")
