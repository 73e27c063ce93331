"""Quantised operators: integers that stand for (q - zero point) * scale, integer accumulators.

In: integers of 2 to 32 bits and narrow floats, with scales and zero points per tensor, per axis or per block.
Out: the integer arithmetic of the standard; a result is scaled in float32, rounded half to even, moved by the
zero point and saturated, in this order, as onnxruntime does: NaN becomes the lowest number.
"""

from __future__ import annotations

from ingot.formula.expr import (
    Const,
    Expr,
    Extent,
    Operand,
    Tensor,
    Var,
    binary,
    call,
    cast,
    equal,
    minimum,
    select,
    static,
    wrap,
)
from ingot.formula.extents import alike
from ingot.formula.index import as_expr, interval
from ingot.formula.types import BFLOAT16, FLOAT8E8M0, FLOAT16, FLOAT32, FLOAT64, INT32, INT64, UINT8, DType
from ingot.graph.onnx_types import dtype_from_onnx
from ingot.ops.contract import Contraction, convolution, matrix_product
from ingot.ops.narrow import converted, within
from ingot.ops.registry import Builder, is_data, op, shapes_text

Index = tuple[Expr, ...]


def saturated(y: Expr, zero: Operand, to: DType) -> Expr:
    """round(y) + zero, within the type."""
    moved = call("round", y) + zero
    return cast(minimum(binary("larger", moved, to.lowest), to.highest), to.compute)


def granule(f: Builder, t: Tensor, x: Tensor, axes: tuple[Var, ...], axis: int, block: int) -> Index:
    """Where the scale or zero point of an element of x stands: per tensor, per axis or per block."""
    if t.rank == 0 or t.shape == (1,):
        return (Const(0),) * t.rank
    at = f.axis(axis, x.rank) if x.rank > 1 else 0
    if t.rank == 1 and not block:
        return (_along(f, t, x, axes[at], at),)
    f.require(t.rank == x.rank and block > 0, f"scale {t.shape} and block size {block} do not fit {x.shape}")
    blocks = tuple((n + block - 1) // block if d == at else n for d, n in enumerate(x.shape))
    f.require(t.shape == blocks, f"scale {t.shape}, blocks of {block} of {x.shape} need {blocks}")
    return tuple(a // block if d == at else a for d, a in enumerate(axes))


def _along(f: Builder, t: Tensor, x: Tensor, i: Var, axis: int) -> Expr:
    """Where an element's scale stands, of one for each along an axis; the bundle checks extents of data."""
    (n,), m = t.shape, x.shape[axis]
    if alike(n, m):
        return i
    f.require(is_data(n) or is_data(m), f"{n} scales for {m} elements of axis {axis}")
    f.require(n != 0, f"no scales for the elements of axis {axis}, which are data")
    f.confirm(f.map((), cast(as_expr(m), INT64), name="count"), n)
    return minimum(i, n - 1)


def _beside(f: Builder, zero: Tensor, scale: Tensor, at: Index) -> Index:
    """Where the zero point stands that goes with the scale at `at`."""
    fits = zero.shape == scale.shape or zero.count == scale.count == 1
    f.require(fits, f"zero point {zero.shape}, scale {scale.shape}")
    return at if zero.rank == scale.rank else (Const(0),) * zero.rank


@op("QuantizeLinear", since=10)
def quantize_linear(
    f: Builder,
    x: Tensor,
    y_scale: Tensor,
    y_zero_point: Tensor | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    precision: int = 0,
    saturate: int = 1,
) -> Tensor:
    """y = saturate(round(x / scale) + zero point) (QuantizeLinear-25), the quotient in float32.

    `precision`: the type in which to divide instead; onnxruntime divides float16 in float32 too.
    """
    to = UINT8 if y_zero_point is None else y_zero_point.type
    to = dtype_from_onnx(output_dtype) if output_dtype else to
    f.require(
        y_zero_point is None or y_zero_point.type is to, f"the zero point is not {to}, as the result is"
    )
    f.require(to.bits <= 16 and to.kind in "iuf" and to not in UNSCALED, f"quantisation to {to} is undefined")
    axes = f.axes(x.shape)
    at = granule(f, y_scale, x, axes, axis, block_size)
    divided = dtype_from_onnx(precision) if precision else FLOAT32
    f.require(divided.is_float and divided.bits >= 16, f"a precision of {divided} is undefined")
    y = _quotient(x[axes], y_scale[at], divided)
    if y_zero_point is not None:
        at = _beside(f, y_zero_point, y_scale, at)
    if to.is_float:
        if y_zero_point is not None and to.bits < 8:  # the zero point of an 8-bit float is 0
            y = y + y_zero_point[at]
        return f.map(axes, converted(y, to, bool(saturate)), to)
    return f.map(axes, saturated(y, 0 if y_zero_point is None else cast(y_zero_point[at], y.dtype), to), to)


UNSCALED = (FLOAT16, BFLOAT16, FLOAT8E8M0)


def _quotient(x: Expr, scale: Expr, precision: DType) -> Expr:
    """x / scale, rounded to `precision`; of integers in float64, which holds both."""
    if not (x.dtype.is_float or scale.dtype.is_float):
        return cast(x, FLOAT64) / cast(scale, FLOAT64)
    return within(within(cast(x, FLOAT32), precision) / within(cast(scale, FLOAT32), precision), precision)


@op("DequantizeLinear", since=10)
def dequantize_linear(
    f: Builder,
    x: Tensor,
    x_scale: Tensor,
    x_zero_point: Tensor | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
) -> Tensor:
    """y = (x - zero point) * scale (DequantizeLinear-25), the difference of integers an integer."""
    f.same_type((x,) if x_zero_point is None else (x, x_zero_point), "iufn")
    to = dtype_from_onnx(output_dtype) if output_dtype else x_scale.type
    f.require(to.is_float and to.bits >= 16, f"dequantisation to {to} is undefined: set output_dtype")
    axes = f.axes(x.shape)
    at = granule(f, x_scale, x, axes, axis, block_size)
    wide = FLOAT32 if x.type.is_float else INT32
    q = cast(x[axes], wide)
    if x_zero_point is not None:
        q = q - cast(x_zero_point[_beside(f, x_zero_point, x_scale, at)], wide)
    return f.map(axes, cast(q, FLOAT32) * cast(x_scale[at], FLOAT32), to)


@op("DynamicQuantizeLinear", since=11)
def dynamic_quantize_linear(f: Builder, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """uint8 of x, its scale and its zero point, which x's own range gives (DynamicQuantizeLinear-11).

    The range holds 0. Where it is nothing else, or too small for 255 steps, the scale is 1, and all bytes are
    the zero point 0. By the formula it would be 0, and 0 / 0 the rest; onnxruntime says 1 too, onnx's
    reference 1/255. Whoever divides by the scale may, and what is dequantised is the same. Where the
    formula's zero point is NaN, of a range without end below 0, it is 255, as both have it.
    """
    f.same_type((x,), "f")
    axes = f.axes(x.shape)
    low, high = (f.reduce(e, (), axes, x[axes], init=0, name=e) for e in ("min", "max"))
    step = (high[()] - low[()]) / 255.0
    scale = f.map((), select(equal(step, 0), 1, step), name="y_scale")
    zero = 0.0 - binary("larger", low[()] / scale[()], -255.0)  # low <= 0, and NaN becomes 255
    point = f.map((), cast(call("round", zero), UINT8), name="y_zero_point")
    y = saturated(x[axes] / scale[()], cast(point[()], x.type), UINT8)
    return f.map(axes, y), scale, point


# -- contractions


def _zero(t: Tensor | None, index: Index, wide: DType = INT32) -> Expr:
    """A zero point as `wide`: a literal where it is known, one number, or the one at `index`."""
    if t is None:
        return wrap(0, wide)
    if t.count == 1:
        return cast(t[(0,) * t.rank], wide) if t.value is None else wrap(float(t.value.item()), wide)
    return cast(t[index], wide)


def _centred(q: Expr, zero: Expr) -> Expr:
    """The difference in the zero point's type."""
    wide = zero.dtype
    return cast(q, wide) if zero == wrap(0, wide) else cast(q, wide) - zero


def padded(f: Builder, x: Tensor, zero_point: Tensor | None, index: Index) -> Expr:
    """x - zero, an int32; the padding is the zero point, and contributes nothing.

    Where only the run knows it, x is copied with a halo of it: none can be kept ready.
    """
    zero = _zero(zero_point, ())
    padding = Const(zero.value, x.type) if isinstance(zero, Const) else cast(zero, x.type)
    halo = _halo(x, index)
    if halo is not None and not any(map(any, halo)):
        return _centred(x[index], zero)
    if isinstance(zero, Const) or halo is None:
        return _centred(x.at(index, outside=padding), zero)
    before, after = halo
    axes = f.axes(tuple(b + static(n) + a for b, n, a in zip(before, x.shape, after, strict=True)))
    inside = tuple(i - b if b else i for i, b in zip(axes, before, strict=True))
    copy = f.map(axes, x.at(inside, outside=padding), name="padded")
    return _centred(copy[tuple(i + b if b else i for i, b in zip(index, before, strict=True))], zero)


def _halo(x: Tensor, index: Index) -> tuple[list[int], list[int]] | None:
    """How far reads leave the tensor before and after each axis; None if only the run knows."""
    if not all(isinstance(n, int) for n in x.shape):
        return None
    ends = [interval(i) for i in index]
    before = [max(0, -lo) for lo, _ in ends]
    after = [max(0, hi - static(n) + 1) for (_, hi), n in zip(ends, x.shape, strict=True)]
    return before, after


def _conv_term(
    f: Builder, x: Tensor, x_zero: Tensor | None, w: Tensor, w_zero: Tensor | None, over: Contraction
) -> Expr:
    """(x - zero) * (w - zero)."""
    return padded(f, x, x_zero, over.a) * _centred(w.at(over.b), _zero(w_zero, over.b[:1]))


def _per_line(f: Builder, t: Tensor, index: Index, summed: Var) -> Index:
    """Where a scale or zero point per row or column of a matrix stands: a vector, or of its rank."""
    if t.rank == 1:
        full: Index = tuple(i for i in index[-2:] if i is not summed)[-1:]
    else:
        full = index[len(index) - t.rank :]
    fits = len(full) == t.rank and all(
        n == 1 or _counts(i, n, summed) for n, i in zip(t.shape, full, strict=True)
    )
    shape = shapes_text((t.shape,))
    f.require(
        fits or t.count == 1, f"a scale or zero point of shape {shape} is not one for each row or column"
    )
    if t.count == 1:
        return (Const(0),) * t.rank
    return tuple(Const(0) if n == 1 else i for n, i in zip(t.shape, full, strict=True))


def _counts(i: Expr, n: Extent, summed: Var) -> bool:
    """Whether an index goes over as many places as there are, and is not the one of the sum."""
    return isinstance(i, Var) and i is not summed and i.extent is not None and alike(i.extent, n)


def _matmul_term(
    f: Builder, a: Tensor, a_zero: Tensor | None, b: Tensor, b_zero: Tensor | None, over: Contraction
) -> Expr:
    row, column = (
        () if zero is None else _per_line(f, zero, index, over.inner[0])
        for zero, index in ((a_zero, over.a), (b_zero, over.b))
    )
    wide = FLOAT32 if a.type.is_float or b.type.is_float else INT32
    return _centred(a.at(over.a), _zero(a_zero, row, wide)) * _centred(
        b.at(over.b), _zero(b_zero, column, wide)
    )


def _multiplier(f: Builder, a: Tensor, b: Tensor, y: Tensor, a_index: Index, b_index: Index) -> Expr:
    """a_scale * b_scale / y_scale in this order; made once, in a stage, if it varies along one axis."""
    f.require(y.count == 1, f"the scale of the result is {y.shape}, one number is needed")

    def value(i: Index, j: Index) -> Expr:
        return cast(a[i], FLOAT32) * cast(b[j], FLOAT32) / cast(y[(Const(0),) * y.rank], FLOAT32)

    first = (Const(0),) * a.rank
    if a.count > 1 or b.rank > 1:
        return value(a_index if a.count > 1 else first, b_index)
    c = f.axes(b.shape, "c" if b.rank else "")
    made = f.map(c, value(first, c), name="multiplier")
    return made[tuple(Const(0) if n == 1 else i for n, i in zip(b.shape, b_index, strict=False))]


def requantised(f: Builder, acc: Expr, multiplier: Expr, zero: Tensor) -> Expr:
    """The accumulator as the result's integer, or 8-bit float."""
    f.require(zero.count == 1, f"the zero point of the result is {zero.shape}, one number is needed")
    z, scaled = _zero(zero, (), FLOAT32), cast(acc, FLOAT32) * multiplier
    return converted(scaled + z, zero.type) if zero.type.is_float else saturated(scaled, z, zero.type)


@op("QLinearConv", since=10)
def qlinear_conv(
    f: Builder,
    x: Tensor,
    x_scale: Tensor,
    x_zero_point: Tensor,
    w: Tensor,
    w_scale: Tensor,
    w_zero_point: Tensor,
    y_scale: Tensor,
    y_zero_point: Tensor,
    B: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: tuple[int, ...] | None = None,
    group: int = 1,
    kernel_shape: tuple[int, ...] | None = None,
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
) -> Tensor:
    """y = saturate(round((B + sum of (x - zero) * (w - zero)) * x_scale * w_scale / y_scale) + zero)."""
    over = convolution(f, x, w, auto_pad, dilations, group, kernel_shape, pads, strides)
    oc = over.outer[1:2]
    multiplier = _multiplier(f, x_scale, w_scale, y_scale, (), oc)

    def post(acc: Expr) -> Expr:
        return requantised(f, acc if B is None else acc + B[oc], multiplier, y_zero_point)

    term = _conv_term(f, x, x_zero_point, w, w_zero_point, over)
    return f.reduce("sum", over.outer, over.inner, term, post=post)


@op("ConvInteger", since=10)
def conv_integer(
    f: Builder,
    x: Tensor,
    w: Tensor,
    x_zero_point: Tensor | None = None,
    w_zero_point: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: tuple[int, ...] | None = None,
    group: int = 1,
    kernel_shape: tuple[int, ...] | None = None,
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
) -> Tensor:
    """The int32 sums of (x - zero) * (w - zero)."""
    over = convolution(f, x, w, auto_pad, dilations, group, kernel_shape, pads, strides)
    return f.reduce("sum", over.outer, over.inner, _conv_term(f, x, x_zero_point, w, w_zero_point, over))


@op("QLinearMatMul", since=10)
def qlinear_matmul(
    f: Builder,
    a: Tensor,
    a_scale: Tensor,
    a_zero_point: Tensor,
    b: Tensor,
    b_scale: Tensor,
    b_zero_point: Tensor,
    y_scale: Tensor,
    y_zero_point: Tensor,
) -> Tensor:
    """y = saturate(round(sum of (a - zero) * (b - zero) * a_scale * b_scale / y_scale) + zero)."""
    a, b, over = matrix_product(f, a, b)
    k = over.inner[0]
    rows, columns = _per_line(f, a_scale, over.a, k), _per_line(f, b_scale, over.b, k)
    multiplier = _multiplier(f, a_scale, b_scale, y_scale, rows, columns)
    term = _matmul_term(f, a, a_zero_point, b, b_zero_point, over)
    return f.reduce(
        "sum",
        over.outer,
        over.inner,
        term,
        post=lambda acc: requantised(f, acc, multiplier, y_zero_point),
        dtype=y_zero_point.type,
    )


@op("MatMulInteger", since=10)
def matmul_integer(
    f: Builder, a: Tensor, b: Tensor, a_zero_point: Tensor | None = None, b_zero_point: Tensor | None = None
) -> Tensor:
    """The int32 sums of (a - zero) * (b - zero)."""
    a, b, over = matrix_product(f, a, b)
    return f.reduce("sum", over.outer, over.inner, _matmul_term(f, a, a_zero_point, b, b_zero_point, over))
