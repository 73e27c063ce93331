"""Transposed convolutions of bytes: what `passes/integer_layers.py` makes of one between DequantizeLinear and
QuantizeLinear. ONNX has no such operators.

In: bytes with a zero point and int8 weights without one. Out: sums of integers, or bytes made of them as
QLinearConv makes them. Both take the attributes of ConvTranspose.
"""

from __future__ import annotations

from ingot.formula.expr import Const, Expr, Tensor, Var, cast
from ingot.formula.types import FLOAT32, INT8, INT32
from ingot.ops.quantize import padded, requantised
from ingot.ops.registry import Builder, op
from ingot.ops.transposed import Index, Post, Term, Transposed, geometry

Numbers = tuple[int, ...] | None


def _sums(x_zero: Tensor, where: Transposed) -> Term:
    """(x - zero) * w; beyond the input stands the zero point."""
    f, w = where.f, where.w
    f.same_type((where.x, x_zero), "iu")
    f.require(w.type is INT8, f"weights of {w.type}, int8 is needed")

    def term(i: Index, k: Index) -> Expr:
        return padded(f, where.x, x_zero, i) * cast(w.at(k, outside=0 if where.is_at_once else None), INT32)

    return term


def _scaled(f: Builder, scales: tuple[Tensor, Tensor, Tensor], y_zero: Tensor, b: Tensor | None) -> Post:
    """A sum as the result's byte; multipliers that differ from channel to channel are made once."""
    x, w, y = scales
    f.require(x.count == y.count == 1, f"scales {x.shape} and {y.shape}, one number of each is needed")

    def multiplier(of_w: Expr) -> Expr:
        one = (cast(t[(Const(0),) * t.rank], FLOAT32) for t in (x, y))
        return next(one) * cast(of_w, FLOAT32) / next(one)

    made = None
    if w.count != 1:
        (c,) = f.axes(w.shape, "c")
        made = f.map((c,), multiplier(w[c]), name="multiplier")

    def post(acc: Expr, oc: Var) -> Expr:
        factor = multiplier(w[(Const(0),) * w.rank]) if made is None else made[oc]
        return requantised(f, acc if b is None else acc + b[oc], factor, y_zero)

    return post


@op("ConvTransposeInteger", domain="ingot")
def conv_transpose_integer(
    f: Builder,
    x: Tensor,
    w: Tensor,
    x_zero_point: Tensor,
    *,
    auto_pad: str = "NOTSET",
    dilations: Numbers = None,
    group: int = 1,
    kernel_shape: Numbers = None,
    output_padding: Numbers = None,
    output_shape: Numbers = None,
    pads: Numbers = None,
    strides: Numbers = None,
) -> Tensor:
    """The int32 sums of (x - zero) * w."""
    where = geometry(
        f, x, w, auto_pad, dilations, group, kernel_shape, output_padding, output_shape, pads, strides
    )
    return where.build(INT32, _sums(x_zero_point, where), lambda acc, _: acc)


@op("QLinearConvTranspose", domain="ingot")
def qlinear_conv_transpose(
    f: Builder,
    x: Tensor,
    x_scale: Tensor,
    x_zero_point: Tensor,
    w: Tensor,
    w_scale: Tensor,
    y_scale: Tensor,
    y_zero_point: Tensor,
    b: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Numbers = None,
    group: int = 1,
    kernel_shape: Numbers = None,
    output_padding: Numbers = None,
    output_shape: Numbers = None,
    pads: Numbers = None,
    strides: Numbers = None,
) -> Tensor:
    """y = saturate(round((b + sum of (x - zero) * w) * x_scale * w_scale / y_scale) + zero); scales of w are
    one number or one for each output channel.
    """
    where = geometry(
        f, x, w, auto_pad, dilations, group, kernel_shape, output_padding, output_shape, pads, strides
    )
    post = _scaled(f, (x_scale, w_scale, y_scale), y_zero_point, b)
    return where.build(y_zero_point.type, _sums(x_zero_point, where), post)
