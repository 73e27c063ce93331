"""Operators of the domain com.microsoft that quantised models hold beside the standard's.

In: 8-bit integers, a scale and a zero point per tensor for each operand and the result. Out: the integers of
the result, rounded and saturated as onnxruntime does, whose quantiser writes these nodes.
"""

from __future__ import annotations

from ingot.formula.expr import Const, Expr, Tensor, Var, cast
from ingot.formula.types import FLOAT32, INT32
from ingot.ops.quantize import saturated
from ingot.ops.registry import Builder, broadcast_index, broadcast_shape, op


@op("QLinearAdd", domain="com.microsoft")
def qlinear_add(
    f: Builder,
    a: Tensor,
    a_scale: Tensor,
    a_zero_point: Tensor,
    b: Tensor,
    b_scale: Tensor,
    b_zero_point: Tensor,
    c_scale: Tensor,
    c_zero_point: Tensor | None = None,
) -> Tensor:
    """c = saturate(round(((a - zero) * a_scale + (b - zero) * b_scale) / c_scale) + zero), broadcasting.

    What does not depend on the elements is one number, as onnxruntime has it (com.microsoft QLinearAdd-1).
    """
    p, q = _number(f, a_scale) / _number(f, c_scale), _number(f, b_scale) / _number(f, c_scale)
    za, zb, zc = (_number(f, z) for z in (a_zero_point, b_zero_point, c_zero_point))
    fixed = zc - (p * za + q * zb)
    axes, x, y = _operands(f, a, b)
    return f.map(axes, saturated(cast(x, FLOAT32) * p + (cast(y, FLOAT32) * q + fixed), 0, a.type))


@op("QLinearMul", domain="com.microsoft")
def qlinear_mul(
    f: Builder,
    a: Tensor,
    a_scale: Tensor,
    a_zero_point: Tensor,
    b: Tensor,
    b_scale: Tensor,
    b_zero_point: Tensor,
    c_scale: Tensor,
    c_zero_point: Tensor | None = None,
) -> Tensor:
    """c = saturate(round((a - zero) * (b - zero) * a_scale * b_scale / c_scale) + zero) (QLinearMul-1)."""
    scale = _number(f, a_scale) * _number(f, b_scale) / _number(f, c_scale)
    za, zb = (cast(_number(f, z), INT32) for z in (a_zero_point, b_zero_point))
    axes, x, y = _operands(f, a, b)
    product = cast((cast(x, INT32) - za) * (cast(y, INT32) - zb), FLOAT32)
    return f.map(axes, saturated(product * scale, _number(f, c_zero_point), a.type))


def _operands(f: Builder, a: Tensor, b: Tensor) -> tuple[tuple[Var, ...], Expr, Expr]:
    f.same_type((a, b), "iu")
    axes = f.axes(broadcast_shape(f, a.shape, b.shape))
    return axes, a[broadcast_index(a, axes)], b[broadcast_index(b, axes)]


def _number(f: Builder, t: Tensor | None) -> Expr:
    """A scale or zero point as a float; 0 where it is left out. Raises ShapeError for more than one."""
    if t is None:
        return Const(0.0, FLOAT32)
    f.require(t.count == 1, f"the scale or zero point {t.name!r} is {list(t.shape)}, one number is needed")
    return cast(t[(Const(0),) * t.rank], FLOAT32)
