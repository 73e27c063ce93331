"""Operators of the domain com.microsoft that models hold beside the standard's.

In: 8-bit integers, a scale and a zero point per tensor for each operand and the result. Out: the integers of
the result, rounded and saturated as onnxruntime does, whose quantiser writes these nodes. And the activations
that its optimiser makes of several nodes.
"""

from __future__ import annotations

from collections.abc import Callable

from ingot.formula.expr import Const, Expr, Fma, Tensor, Var, cast, select
from ingot.formula.index import as_expr, product
from ingot.formula.types import FLOAT32, INT32, DType
from ingot.ops.activation import gelu, sigmoid
from ingot.ops.normalize import steady_softmax
from ingot.ops.pool import counted, pooling_window, taps_counted, window_axes
from ingot.ops.quantize import padded, saturated
from ingot.ops.registry import Builder, broadcast_index, broadcast_shape, elementwise, op

Function = Callable[[Expr], Expr]


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

    What does not depend on the elements is one number, and each product is added to in one rounding, that of
    the operand which goes along rows last, as onnxruntime's AVX2 code has it (com.microsoft QLinearAdd-1).
    """
    axes, x, y = _operands(f, a, b)
    p, q = _number(f, a_scale) / _number(f, c_scale), _number(f, b_scale) / _number(f, c_scale)
    za, zb, zc = (_number(f, z) for z in (a_zero_point, b_zero_point, c_zero_point))
    if _stays_along_rows(a, b):
        x, y, p, q, za, zb = y, x, q, p, zb, za
    fixed = zc - Fma(p, za, q * zb)
    sum_ = Fma(cast(x, FLOAT32), p, Fma(cast(y, FLOAT32), q, fixed))
    return f.map(axes, saturated(sum_, 0, a.type))


def _stays_along_rows(a: Tensor, b: Tensor) -> bool:
    """Whether a has one element where b has several, along the last axis where one of them has."""
    missing = b.rank - a.rank
    pairs = zip((*(1,) * missing, *a.shape), (*(1,) * -missing, *b.shape), strict=True)
    return next((n == 1 for n, m in reversed(list(pairs)) if not n == m == 1), False)


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
    """c = saturate(round((a - zero) * (b - zero) * a_scale * b_scale / c_scale + zero)) (QLinearMul-1).

    onnxruntime adds the zero point before it rounds, so ties go to even values of c.
    """
    scale = _number(f, a_scale) * _number(f, b_scale) / _number(f, c_scale)
    za, zb = (_number(f, z, INT32) for z in (a_zero_point, b_zero_point))
    axes, x, y = _operands(f, a, b)
    product = cast((cast(x, INT32) - za) * (cast(y, INT32) - zb), FLOAT32)
    return f.map(axes, saturated(product * scale + _number(f, c_zero_point), 0, a.type))


def _operands(f: Builder, a: Tensor, b: Tensor) -> tuple[tuple[Var, ...], Expr, Expr]:
    f.same_type((a, b), "iu")
    axes = f.axes(broadcast_shape(f, a.shape, b.shape))
    return axes, a[broadcast_index(a, axes)], b[broadcast_index(b, axes)]


def _number(f: Builder, t: Tensor | None, to: DType = FLOAT32) -> Expr:
    """A scale or zero point as a float; 0 where it is left out. Raises ShapeError for more than one.

    A zero point that is subtracted from integers is asked for as one of them: vectors of integers take it.
    """
    if t is None:
        return Const(0.0, FLOAT32) if to is FLOAT32 else Const(0, to)
    f.require(t.count == 1, f"the scale or zero point {t.name!r} is {list(t.shape)}, one number is needed")
    return cast(t[(Const(0),) * t.rank], to)


def _mapped(
    f: Builder, x: Tensor, scale: Tensor, zero: Tensor | None, to: tuple[Tensor, Tensor | None], g: Function
) -> Tensor:
    """The integers of g(x), x as the number its integers mean."""
    f.same_type((x,), "iu")
    axes = f.axes(x.shape)
    y = g((cast(x[axes], FLOAT32) - _number(f, zero)) * _number(f, scale))
    return f.map(axes, saturated(y / _number(f, to[0]), _number(f, to[1]), x.type))


@op("QLinearSigmoid", domain="com.microsoft")
def qlinear_sigmoid(
    f: Builder,
    x: Tensor,
    x_scale: Tensor,
    x_zero_point: Tensor | None,
    y_scale: Tensor,
    y_zero_point: Tensor | None = None,
) -> Tensor:
    """y = saturate(round(sigmoid((x - zero) * x_scale) / y_scale) + zero) (QLinearSigmoid-1)."""
    return _mapped(f, x, x_scale, x_zero_point, (y_scale, y_zero_point), sigmoid)


@op("QLinearLeakyRelu", domain="com.microsoft")
def qlinear_leaky_relu(
    f: Builder,
    x: Tensor,
    x_scale: Tensor,
    x_zero_point: Tensor | None,
    y_scale: Tensor,
    y_zero_point: Tensor | None = None,
    *,
    alpha: float = 0.01,
) -> Tensor:
    """The same of x, or of alpha * x where x < 0 (com.microsoft QLinearLeakyRelu-1)."""

    def leaky(x: Expr) -> Expr:
        return select(x < 0, x * alpha, x)

    return _mapped(f, x, x_scale, x_zero_point, (y_scale, y_zero_point), leaky)


@op("QLinearConcat", domain="com.microsoft")
def qlinear_concat(f: Builder, *inputs: Tensor, axis: int) -> Tensor:
    """The scale and zero point of y, then tensors, each with its own: brought to y's, one behind the other
    (com.microsoft QLinearConcat-1).
    """
    f.require(
        len(inputs) > 2 and len(inputs) % 3 == 2, f"{len(inputs)} inputs, 2 and three per part are needed"
    )
    groups = [inputs[k : k + 3] for k in range(2, len(inputs), 3)]
    parts = [_mapped(f, x, scale, zero, (inputs[0], inputs[1]), lambda x: x) for x, scale, zero in groups]
    return f.call("Concat", *parts, axis=axis)


def _channels(f: Builder, x: Tensor, first: bool) -> Tensor:
    """An image whose channels come first, or last, from one that has them otherwise."""
    order = (0, x.rank - 1, *range(1, x.rank - 1)) if first else (0, *range(2, x.rank), 1)
    return f.call("Transpose", x, perm=order)


@op("QLinearAveragePool", domain="com.microsoft")
def qlinear_average_pool(
    f: Builder,
    x: Tensor,
    x_scale: Tensor,
    x_zero_point: Tensor | None,
    y_scale: Tensor,
    y_zero_point: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    channels_last: int = 0,
    count_include_pad: int = 0,
    kernel_shape: tuple[int, ...],
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
    zero_last: int = 0,
) -> Tensor:
    """y = saturate(round(sum of (x - zero) * (x_scale / y_scale) / count + zero)), over the elements of a
    window that AveragePool counts, or where padding counts over all of it, beyond the padding too
    (com.microsoft QLinearAveragePool-1).

    onnxruntime adds floats, which where it falls between two integers may give the other one. `zero_last`, an
    attribute of ours: the zero point is added to what has been rounded, as QuantizeLinear does.
    """
    f.same_type((x,), "iu")
    x = _channels(f, x, True) if channels_last else x
    where = pooling_window(f, x, kernel_shape, auto_pad, None, pads, strides, ceil_mode)
    axes, taps = window_axes(f, x, where)
    term = padded(f, x, x_zero_point, (*axes[:2], *where.positions(axes[2:], taps)))
    whole = as_expr(product(kernel_shape))
    count = whole if count_include_pad else taps_counted(where, axes[2:], 0)
    to = _result_type(x, y_zero_point)
    post = _requantised(f, count, x_scale, y_scale, y_zero_point, to, bool(zero_last))
    y = f.reduce("sum", axes, taps, term, post=post, dtype=to)
    return _channels(f, y, False) if channels_last else y


@op("QLinearGlobalAveragePool", domain="com.microsoft")
def qlinear_global_average_pool(
    f: Builder,
    x: Tensor,
    x_scale: Tensor,
    x_zero_point: Tensor | None,
    y_scale: Tensor,
    y_zero_point: Tensor | None = None,
    *,
    channels_last: int = 0,
) -> Tensor:
    """y = saturate(round(sum of (x - zero) * (x_scale / y_scale) / count) + zero), over all of an image
    (com.microsoft QLinearGlobalAveragePool-1).
    """
    f.same_type((x,), "iu")
    f.require(x.rank > 2, f"an image of rank {x.rank}, more than 2 is needed")
    spatial = range(1, x.rank - 1) if channels_last else range(2, x.rank)
    axes = f.axes(tuple(1 if d in spatial else n for d, n in enumerate(x.shape)))
    taps = tuple(Var(f"k{d}", x.shape[d]) for d in spatial)
    at = dict(zip(spatial, taps, strict=True))
    term = padded(f, x, x_zero_point, tuple(at.get(d, a) for d, a in enumerate(axes)))
    count = as_expr(product(tuple(x.shape[d] for d in spatial)))
    to = _result_type(x, y_zero_point)
    post = _requantised(f, count, x_scale, y_scale, y_zero_point, to)
    return f.reduce("sum", axes, taps, term, post=post, dtype=to)


def _result_type(x: Tensor, y_zero_point: Tensor | None) -> DType:
    """That of the zero point: bytes with a sign may be the mean of bytes without one, as QDQ can say."""
    return x.type if y_zero_point is None else y_zero_point.type


def _requantised(
    f: Builder,
    count: Expr,
    x_scale: Tensor,
    y_scale: Tensor,
    y_zero_point: Tensor | None,
    to: DType,
    zero_last: bool = True,
) -> Callable[[Expr], Expr]:
    """What becomes of a sum of `count` integers: their mean in the result's units.

    It is divided by the count, not multiplied by its inverse: means of equal scales lie half-way between two
    integers often, and have to stay there to be rounded to the even one.
    """
    units = _number(f, x_scale) / _number(f, y_scale)

    def post(acc: Expr) -> Expr:
        mean, zero = cast(acc, FLOAT32) * units / counted(count, FLOAT32), _number(f, y_zero_point)
        return saturated(mean, zero, to) if zero_last else saturated(mean + zero, 0, to)

    return post


@op("QLinearSoftmax", domain="com.microsoft")
def qlinear_softmax(
    f: Builder,
    x: Tensor,
    x_scale: Tensor,
    x_zero_point: Tensor | None,
    y_scale: Tensor,
    y_zero_point: Tensor | None = None,
    *,
    axis: int = -1,
    opset: int,
) -> Tensor:
    """Softmax of the opset given of the numbers that x means, quantised (com.microsoft QLinearSoftmax-1).

    onnxruntime takes exponentials from a table and divides by a scale of whole steps, so it may be off by
    more than one.
    """
    f.same_type((x,), "iu")
    zero, scale = _number(f, x_zero_point, INT32), _number(f, x_scale)

    def number(q: Expr) -> Expr:
        return cast(cast(q, INT32) - zero, FLOAT32) * scale

    axes, y = steady_softmax(f, x, number, axis=axis, opset=opset)
    to = _result_type(x, y_zero_point)
    return f.map(axes, saturated(y / _number(f, y_scale), _number(f, y_zero_point), to), to)


@op("QLinearWhere", domain="com.microsoft")
def qlinear_where(
    f: Builder,
    condition: Tensor,
    x: Tensor,
    x_scale: Tensor,
    x_zero_point: Tensor,
    y: Tensor,
    y_scale: Tensor,
    y_zero_point: Tensor,
    z_scale: Tensor,
    z_zero_point: Tensor,
) -> Tensor:
    """x where the condition holds, else y, both brought to z's scale (com.microsoft QLinearWhere-1)."""
    to = (z_scale, z_zero_point)
    parts = (
        _mapped(f, t, scale, zero, to, lambda x: x)
        for t, scale, zero in ((x, x_scale, x_zero_point), (y, y_scale, y_zero_point))
    )
    return f.call("Where", condition, *parts)


@op("QGemm", domain="com.microsoft")
def qgemm(
    f: Builder,
    a: Tensor,
    a_scale: Tensor,
    a_zero_point: Tensor,
    b: Tensor,
    b_scale: Tensor,
    b_zero_point: Tensor,
    c: Tensor | None = None,
    y_scale: Tensor | None = None,
    y_zero_point: Tensor | None = None,
    *,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Tensor:
    """y = saturate(round((a * b + c) * alpha * a_scale * b_scale / y_scale) + zero), a, b less their zeros;
    without y's scale the number itself (com.microsoft QGemm-1). Those of b may be one per column.
    """
    f.require(a.rank == 2 and b.rank == 2, f"ranks {a.rank} and {b.rank}, 2 and 2 are needed")
    f.same_type((a,), "iu")
    f.same_type((b,), "iu")
    rows, inner = reversed(a.shape) if transA else a.shape
    inner_b, columns = reversed(b.shape) if transB else b.shape
    f.require(inner == inner_b, f"inner dimensions {inner} and {inner_b} differ")
    m, n = f.axes((rows, columns), "m n")
    k = Var("k", inner)

    def per_column(t: Tensor) -> Expr:
        f.require(
            t.count == 1 or t.shape == (columns,), f"{t.name!r} is {list(t.shape)}, one per column is needed"
        )
        return t[(Const(0),) * t.rank] if t.count == 1 else t[n]

    za, zb = cast(a_zero_point[(Const(0),) * a_zero_point.rank], INT32), cast(per_column(b_zero_point), INT32)
    x, y = a[(k, m) if transA else (m, k)], b[(n, k) if transB else (k, n)]
    bias = Const(0, INT32) if c is None else c[broadcast_index(c, (m, n))]
    to = FLOAT32 if y_scale is None else (a if y_zero_point is None else y_zero_point).type

    def scale(of_b: Expr) -> Expr:
        scaled = _number(f, a_scale) * of_b * alpha
        return scaled if y_scale is None else scaled / _number(f, y_scale)

    factor = scale(per_column(b_scale))
    if b_scale.count != 1:  # made once, in a stage
        (c_axis,) = f.axes(b_scale.shape, "c")
        factor = f.map((c_axis,), scale(b_scale[c_axis]), name="multiplier")[n]

    def post(acc: Expr) -> Expr:
        scaled = cast(acc + bias, FLOAT32) * factor
        return scaled if y_scale is None else saturated(scaled, _number(f, y_zero_point), to)

    return f.reduce("sum", (m, n), (k,), (cast(x, INT32) - za) * (cast(y, INT32) - zb), post=post, dtype=to)


elementwise("QuickGelu", lambda x, *, alpha=1.702: x * sigmoid(x * alpha), domain="com.microsoft", kinds="f")
elementwise("BiasGelu", lambda a, b: gelu(a + b), domain="com.microsoft", kinds="f")
