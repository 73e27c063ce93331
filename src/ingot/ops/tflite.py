"""TFLite's fixed-point arithmetic: the domain ai.ingot.tflite, in which models of TFLite are imported.

In: integers. Out: the integers of TFLite's reference kernels to the bit. A real factor is a multiplier of 31
bits behind the point and a power of two (`frontends/tflite/fixed.py` makes them).
"""

from __future__ import annotations

import numpy as np

from ingot.errors import UnsupportedError
from ingot.formula.expr import (
    Const,
    Expr,
    Operand,
    Tensor,
    Var,
    binary,
    call,
    cast,
    equal,
    maximum,
    minimum,
    select,
    wrap,
)
from ingot.formula.types import INDEX, INT32, INT64
from ingot.graph.onnx_types import dtype_from_onnx
from ingot.ops.contract import convolution
from ingot.ops.registry import Builder, broadcast_shape, op, stretched

DOMAIN = "ai.ingot.tflite"
MOST = (1 << 31) - 1


def doubling_high(a: Expr, b: Operand) -> Expr:
    """The upper half of 2ab of int32, rounded."""
    return binary("doubling_high", a, b)


def shifted(x: Expr, exponent: Operand) -> Expr:
    """x / 2^exponent of int32, rounded to the nearest, halves away from 0."""
    return binary("rounding_shr", x, exponent)


def _multiplied(x: Expr, multiplier: Expr, shift: Expr) -> Expr:
    """int32: two roundings (TFLite's MultiplyByQuantizedMultiplier)."""
    return shifted(doubling_high(x << maximum(shift, 0), multiplier), maximum(-shift, 0))


def _multiplied_by(f: Builder, x: Expr, multiplier: Expr, shift: Tensor, axes: tuple[Var, ...]) -> Expr:
    """The same for a tensor of shifts: of known ones, only what they do."""
    if shift.value is None:
        return _multiplied(x, multiplier, _element(f, shift, axes))
    left, right = (np.maximum(sign * shift.value, 0).astype(np.int32) for sign in (1, -1))
    if left.any():
        x = x << _element(f, f.constant(left, "left"), axes)
    high = doubling_high(x, multiplier)
    return shifted(high, _element(f, f.constant(right, "right"), axes)) if right.any() else high


def _multiplied_wide(x: Expr, multiplier: Expr, shift: Expr) -> Expr:
    """int64: a multiplier of 15 bits, one rounding (the same name's overload for sums of int16 by int8)."""
    short = select(multiplier < 0x7FFF0000, (multiplier + (1 << 15)) >> 16, Const(0x7FFF, INT32))
    total = cast(Const(15, INT32) - shift, INT64)
    half = Const(1, INT64) << (total - 1)
    return cast((x * cast(short, INT64) + half) >> total, INT32)


@op("FixedPointMultiply", domain=DOMAIN)
def fixed_point_multiply(f: Builder, x: Tensor, multiplier: Tensor, shift: Tensor) -> Tensor:
    """y = x * multiplier * 2^(shift - 31) as int32, of int32 or int64; all broadcast."""
    f.same_type((multiplier, shift), "i")
    if x.type not in (INT32, INT64) or multiplier.type is not INT32:
        raise UnsupportedError(f"{x.type} times {multiplier.type}: int32 or int64 times int32 is needed")
    axes = f.axes(broadcast_shape(f, x.shape, multiplier.shape, shift.shape))
    a, m = (_element(f, t, axes) for t in (x, multiplier))
    if x.type is INT32:
        return f.map(axes, _multiplied_by(f, a, m, shift, axes))
    return f.map(axes, _multiplied_wide(a, m, _element(f, shift, axes)))


def _element(f: Builder, t: Tensor, axes: tuple[Var, ...]) -> Expr:
    """A literal where it is known, so that shifts by it are instructions."""
    if t.count == 1 and t.value is not None:
        return wrap(int(t.value.reshape(-1)[0]), t.type)
    return stretched(f, t, axes)


@op("RoundingShift", domain=DOMAIN)
def rounding_shift(f: Builder, x: Tensor, exponent: Tensor) -> Tensor:
    """y = x / 2^exponent of int32, halves away from 0; both broadcast."""
    f.same_type((x, exponent), "i")
    axes = f.axes(broadcast_shape(f, x.shape, exponent.shape))
    return f.map(axes, shifted(_element(f, x, axes), _element(f, exponent, axes)))


@op("RoundAway", domain=DOMAIN)
def round_away(f: Builder, x: Tensor) -> Tensor:
    """The nearest integer of a float, halves away from 0: C's round, which ONNX has not."""
    f.same_type((x,), "f")
    axes = f.axes(x.shape)
    return f.map(axes, call("away", x[axes]))


@op("ConvInteger", domain=DOMAIN)
def conv_integer(
    f: Builder,
    x: Tensor,
    w: Tensor,
    *,
    dilations: tuple[int, ...] | None = None,
    group: int = 1,
    kernel_shape: tuple[int, ...] | None = None,
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
) -> Tensor:
    """The int64 sums of x * w, of int16 by int8 (TFLite's 16x8 kernels)."""
    over = convolution(f, x, w, "NOTSET", dilations, group, kernel_shape, pads, strides)
    # products have 24 bits; their sum may have more than 32
    term = cast(cast(x.at(over.a, outside=0), INT32) * cast(w.at(over.b), INT32), INT64)
    return f.reduce("sum", over.outer, over.inner, term)


@op("GlobalSum", domain=DOMAIN)
def global_sum(f: Builder, x: Tensor) -> Tensor:
    """y[n, c, 0, 0] = sum over h, w of x[n, c, h, w], as int32: what averages of whole images begin with."""
    f.require(x.rank == 4, f"input rank {x.rank}, 4 is needed")
    axes, (h, w) = f.axes((*x.shape[:2], 1, 1), "n c oh ow"), f.axes(x.shape[2:], "h w")
    return f.reduce("sum", axes, (h, w), cast(x.at((*axes[:2], h, w)), INT32))


@op("ConvTranspose", domain=DOMAIN)
def conv_transpose(
    f: Builder,
    x: Tensor,
    w: Tensor,
    *,
    kernel_shape: tuple[int, ...] | None = None,
    output_padding: tuple[int, ...] | None = None,
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
) -> Tensor:
    """ConvTranspose of integers, exact."""
    f.same_type((x, w), "i")
    return f.call(
        "ConvTranspose",
        x,
        w,
        kernel_shape=kernel_shape,
        output_padding=output_padding,
        pads=pads,
        strides=strides,
    )


# -- functions of rows


def _saturated_left(x: Expr, bits: int) -> Expr:
    """x * 2^bits, limited to int32."""
    wide = cast(x, INT64) << bits
    return cast(minimum(maximum(wide, -(1 << 31)), MOST), INT32)


def _leading_zeros(f: Builder, axes: tuple[Var, ...], x: Expr) -> Expr:
    """Of 32 bits of a positive int32, by halves: what each leaves is computed once."""
    count: Expr = Const(1, INT32)
    for bits in (16, 8, 4, 2, 1):
        is_small = x < (1 << (31 - bits))
        count = count + select(is_small, Const(bits, INT32), Const(0, INT32))
        if bits > 1:
            x = f.map(axes, select(is_small, x << bits, x), name="shifted")[axes]
    return count


def _reciprocal(f: Builder, fraction: Tensor) -> Tensor:
    """1 / (1 + x) of 0 <= x < 1, both without integer bits, by three steps of Newton's method with two
    integer bits (gemmlowp's one_over_one_plus_x_for_x_in_0_1).
    """
    axes = f.axes(fraction.shape)
    half = f.map(axes, cast((cast(fraction[axes], INT64) + (MOST + 1)) >> 1, INT32), name="half")
    x = f.map(axes, Const(1515870810, INT32) + doubling_high(half[axes], Const(-1010580540, INT32)), name="x")
    for _ in range(3):
        rest = f.map(axes, Const(1 << 29, INT32) - doubling_high(half[axes], x[axes]), name="rest")
        x = f.map(axes, x[axes] + _saturated_left(doubling_high(x[axes], rest[axes]), 2), name="x")
    return f.map(axes, _saturated_left(x[axes], 1), name="reciprocal")


@op("LeadingZeros", domain=DOMAIN)
def leading_zeros(f: Builder, x: Tensor) -> Tensor:
    """How many of the 32 bits of an int32 that is not negative are zero before the first that is not."""
    f.require(x.type is INT32, f"{x.type} is not int32")
    axes = f.axes(x.shape)
    is_zero = equal(x[axes], 0)
    return f.map(axes, select(is_zero, Const(32, INT32), _leading_zeros(f, axes, x[axes])))


@op("Softmax", domain=DOMAIN)
def softmax(f: Builder, x: Tensor, exponentials: Tensor, *, to: int) -> Tensor:
    """Softmax of the integers along the last axis, of type `to` (TFLite's reference kernel).

    `exponentials[d]` is the exponential of a difference of d steps below the row's largest element, without
    integer bits. They are added with twelve integer bits.
    """
    f.require(x.rank > 0 and exponentials.shape == (256,), "a row and 256 exponentials are needed")
    out = dtype_from_onnx(to)
    (*outer, c) = f.axes(x.shape)
    row = tuple(outer)
    k = Var("k", x.shape[-1])
    largest = f.reduce("max", row, (k,), cast(x.at((*row, k)), INT32), init=-(1 << 31), name="largest")

    def term(i: Expr) -> Expr:
        return exponentials[
            minimum(maximum(cast(largest[row] - cast(x.at((*row, i)), INT32), INDEX), 0), 255)
        ]

    total = f.reduce("sum", row, (k,), shifted(term(k), Const(12, INT32)), name="total")
    zeros = f.map(row, _leading_zeros(f, row, total[row]), name="zeros")
    # shifted until its first bit falls off, which leaves the fraction of a number between 1 and 2
    raised = cast(cast(total[row], INT64) << cast(zeros[row], INT64), INT64) - (1 << 31)
    scale = _reciprocal(f, f.map(row, cast(raised, INT32), name="fraction"))
    exponent = f.map(row, Const(12 + 31 - out.bits, INT32) - zeros[row], name="exponent")
    y = shifted(doubling_high(scale[row], term(c)), exponent[row]) + int(out.lowest)
    return f.map((*row, c), cast(minimum(maximum(y, out.lowest), out.highest), out), out)


@op("LogSoftmax", domain=DOMAIN)
def log_softmax(
    f: Builder,
    x: Tensor,
    exponentials: Tensor,
    differences: Tensor,
    *,
    least: int,
    divisor: int,
    shift: int,
) -> Tensor:
    """The logarithm of `Softmax`, in sixteenths, of the same type: its largest integer stands for 0.

    `differences[d]` are d steps below the row's largest element, with five integer bits; more than `least`
    steps do not count, nor more than what divisor * 2^(shift - 31) makes of the smallest logarithm.
    """
    f.require(x.rank > 0 and exponentials.shape == differences.shape == (256,), "two tables are needed")
    (*outer, c) = f.axes(x.shape)
    row, k = tuple(outer), Var("k", x.shape[-1])
    largest = f.reduce("max", row, (k,), cast(x.at((*row, k)), INT32), init=-(1 << 31), name="largest")

    def steps(i: Expr) -> Expr:
        return minimum(maximum(largest[row] - cast(x.at((*row, i)), INT32), 0), 255)

    term = shifted(exponentials[cast(steps(k), INDEX)], Const(12, INT32))
    total = f.reduce("sum", row, (k,), term, name="total")
    log = f.map(row, _log(f, total, row), name="log")
    lowest = _multiplied(log[row] + Const(-(1 << 31), INT32), Const(divisor, INT32), Const(shift, INT32))
    most = f.map(row, minimum(Const(least + 1, INT32), Const(0, INT32) - lowest), name="most")
    d = steps(c)
    y = shifted(differences[cast(d, INDEX)] - log[row], Const(22, INT32)) + int(x.type.highest)
    kept = minimum(maximum(y, x.type.lowest), x.type.highest)
    return f.map((*row, c), cast(select(d < most[row], kept, Const(int(x.type.lowest), INT32)), x.type))


def _log(f: Builder, total: Tensor, row: tuple[Var, ...]) -> Expr:
    """ln of a number >= 1 with twelve integer bits, with five (log_x_for_x_greater_than_or_equal_to_1): a
    quotient of polynomials of what remains beside a power of two, near the fourth root of 1/2.
    """
    root, center = Const(1518500250, INT32), 1805811301
    zeros = f.map(row, _leading_zeros(f, row, total[row]), name="zeros")
    half = f.map(row, doubling_high(total[row], root), name="half")
    others = f.map(row, _leading_zeros(f, row, half[row]) - 1, name="others")
    first = doubling_high(total[row] << (zeros[row] - 1), root)
    rest = minimum(_saturated_left(first, 1), _saturated_by(total[row], others[row]))
    r = f.map(row, rest, name="r")
    whole = maximum(((12 - zeros[row]) << 25) + (1 << 23), ((12 - others[row]) << 25) - (1 << 23))
    p = f.map(row, cast((cast(r[row], INT64) + (center + 1)) >> 1, INT32), name="p")
    q = f.map(row, (r[row] - center) * 2, name="q")
    square = f.map(row, doubling_high(q[row], q[row]), name="square")
    cube = doubling_high(doubling_high(q[row], square[row]), Const(117049297, INT32))
    above = f.map(row, doubling_high(q[row], r[row]) + cube, name="above")
    inner = q[row] + 1057819769 + doubling_high(square[row], Const(127690142, INT32))
    below = doubling_high(p[row], inner) + doubling_high(q[row], Const(638450708, INT32))
    inverse = _reciprocal(f, f.map(row, below, name="below"))
    small = doubling_high(shifted(above[row], Const(6, INT32)), inverse[row])
    return _saturated_left(doubling_high(whole, Const(1488522236, INT32)) + small, 1)


def _saturated_by(x: Expr, bits: Expr) -> Expr:
    """x * 2^bits of a positive number, limited to int32."""
    return cast(minimum(cast(x, INT64) << cast(bits, INT64), MOST), INT32)


@op("L2Normalize", domain=DOMAIN)
def l2_normalize(f: Builder, x: Tensor, *, before: int = 0) -> Tensor:
    """int32 along the last axis by the root of their sum of squares, in 128ths (TFLite's reference
    L2Normalization). With `before` they are times 128 before they are scaled, as the kernel of uint8 has it.
    """
    f.require(x.type is INT32 and x.rank > 0, "rows of int32 are needed")
    (*outer, c) = f.axes(x.shape)
    row, k = tuple(outer), Var("k", x.shape[-1])
    total = f.reduce("sum", row, (k,), x.at((*row, k)) * x.at((*row, k)), name="total")
    inverse, shift = _inverse_root(f, total, row)
    given = x.at((*row, c))
    y = _multiplied(given * 128 if before else given, inverse[row], shift[row] - 7 if before else shift[row])
    return f.map((*row, c), y)


def _inverse_root(f: Builder, total: Tensor, row: tuple[Var, ...]) -> tuple[Tensor, Tensor]:
    """1 / sqrt as multiplier and shift, 7 added to it (GetInvSqrtQuantizedMultiplierExp)."""
    quarters = f.map(row, select(total[row] >= 1 << 29, Const(1, INT32), Const(0, INT32)), name="quarters")
    small = f.map(row, select(total[row] >= 1 << 29, total[row] >> 2, total[row]), name="small")
    pairs = f.map(row, ((_leading_zeros(f, row, small[row]) - 1) >> 1) - 1, name="pairs")
    given = f.map(row, (small[row] << (pairs[row] << 1)) >> 1, name="given")
    half = f.map(row, shifted(given[row], Const(1, INT32)), name="half")
    x = f.map(row, Const(1 << 28, INT32), name="x")
    for _ in range(5):
        square = f.map(row, doubling_high(x[row], x[row]), name="square")
        cube = f.map(row, _saturated_left(doubling_high(square[row], x[row]), 6), name="cube")
        step = doubling_high(Const(3 << 27, INT32), x[row]) - doubling_high(half[row], cube[row])
        x = f.map(row, _saturated_left(step, 3), name="x")
    shift = f.map(row, Const(11, INT32) + quarters[row] - pairs[row], name="shift")
    raised = doubling_high(x[row], Const(1518500250, INT32)) << maximum(-shift[row], 0)
    is_small = total[row] <= 1
    inverse = f.map(row, select(is_small, Const(MOST, INT32), raised), name="inverse")
    by = f.map(row, Const(7, INT32) - select(is_small, Const(0, INT32), maximum(shift[row], 0)), name="by")
    return inverse, by
