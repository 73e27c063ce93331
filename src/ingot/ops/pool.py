"""Pooling: reductions over sliding windows, and over all of space at once.

In: tensors of shape [n, c, spatial...]. Out: stages whose reduction runs over the window's taps, the axes k*.
"""

from __future__ import annotations

from ingot.formula.expr import (
    Const,
    Expr,
    Tensor,
    Var,
    binary,
    call,
    cast,
    equal,
    maximum,
    select,
)
from ingot.formula.index import as_expr, product, simplify
from ingot.formula.types import INT64, DType
from ingot.ops.contract import SPATIAL
from ingot.ops.registry import Builder, op
from ingot.ops.window import Window, window

NOWHERE = Const((1 << 31) - 1)
Axes = tuple[Var, ...]


def pooling_window(
    f: Builder,
    x: Tensor,
    kernel: tuple[int, ...],
    auto_pad: str,
    dilations: tuple[int, ...] | None,
    pads: tuple[int, ...] | None,
    strides: tuple[int, ...] | None,
    ceil_mode: int,
) -> Window:
    size, rounded_up = x.shape[2:], bool(ceil_mode)
    return window(f, size, tuple(kernel), auto_pad, dilations, pads, strides, rounded_up, of_pool=True)


def window_axes(f: Builder, x: Tensor, where: Window) -> tuple[Axes, Axes]:
    """The axes (n, c, o...) of the output and the axes (k...) of the taps."""
    names = SPATIAL[len(where.out)].split()
    outputs = f.axes((*x.shape[:2], *where.out), " ".join(["n c", *(f"o{s}" for s in names)]))
    return outputs, f.axes(where.kernel, " ".join(f"k{s}" for s in names))


def _maximum(x: Tensor, taps: Axes) -> str:
    """The combiner of a window, which ignores NaN; the one element of a window of one is copied."""
    return "largest" if x.type.is_float and any(k.extent != 1 for k in taps) else "max"


@op("MaxPool")
def max_pool(
    f: Builder,
    x: Tensor,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: tuple[int, ...] | None = None,
    kernel_shape: tuple[int, ...],
    pads: tuple[int, ...] | None = None,
    storage_order: int = 0,
    strides: tuple[int, ...] | None = None,
) -> Tensor | tuple[Tensor, ...]:
    """y[n, c, o...] = max over k... of x[n, c, o*stride + k*dilation - pad] (ONNX MaxPool-22).

    Padding never wins. The second output is where in `x` each maximum stands, counted over all of `x`.
    """
    f.require(storage_order in (0, 1), f"storage_order is {storage_order}: 0 counts by rows, 1 by columns")
    where = pooling_window(f, x, kernel_shape, auto_pad, dilations, pads, strides, ceil_mode)
    axes, taps = window_axes(f, x, where)
    lowest = x.type.compute.lowest
    term = x.at((*axes[:2], *where.positions(axes[2:], taps)), outside=lowest)
    y = f.reduce(_maximum(x, taps), axes, taps, term, init=lowest, dtype=x.type)
    if len(f.wanted) < 2 or not f.wanted[1]:
        return y
    return y, _indices(f, x, y, where, axes, taps, bool(storage_order))


def _indices(
    f: Builder, x: Tensor, y: Tensor, where: Window, axes: Axes, taps: Axes, column_major: bool
) -> Tensor:
    """The first tap in row-major order that holds the maximum, as a flat index into `x`.

    `column_major` (storage_order) swaps the order of the spatial axes in that index, not which tap is first.
    """
    at = where.positions(axes[2:], taps)
    flat: Expr = Const(0)
    found = equal(x.at((*axes[:2], *at), outside=x.type.compute.lowest), y[axes])
    if x.type.is_float:  # of a window without a number the first NaN
        nothing = equal(y[axes], x.type.compute.lowest)
        found = found | nothing & call("isnan", x.at((*axes[:2], *at), outside=0.0))
    for i, n in zip(at, where.size, strict=True):
        flat = flat * n + i
        found = found & (i >= 0) & (i < n)
    plane = product(where.size)

    def post(acc: Expr) -> Expr:
        base = (as_expr(axes[0]) * x.shape[1] + axes[1]) * plane
        return cast(base + (_transposed(acc, where) if column_major else acc), INT64)

    return f.reduce("min", axes, taps, select(found, flat, NOWHERE), init=NOWHERE, post=post, name="indices")


def _transposed(flat: Expr, where: Window) -> Expr:
    """The index of the same element when the first spatial axis is the one that runs fastest."""
    out: Expr = Const(0)
    rest = flat
    for i in reversed(range(len(where.size))):
        n = as_expr(where.size[i])
        out = out + (rest % n if i else rest) * product(where.size[:i])
        rest = rest // n
    return out


@op("AveragePool")
def average_pool(
    f: Builder,
    x: Tensor,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    dilations: tuple[int, ...] | None = None,
    kernel_shape: tuple[int, ...],
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
) -> Tensor:
    """y[n, c, o...] = sum over k... of x[n, c, o*stride + k*dilation - pad] / taps (ONNX AveragePool-22).

    The taps counted are those inside `x`, with `count_include_pad` those inside its padding too; what
    ceil_mode adds beyond the padding never counts.
    """
    where = pooling_window(f, x, kernel_shape, auto_pad, dilations, pads, strides, ceil_mode)
    axes, taps = window_axes(f, x, where)
    term = x.at((*axes[:2], *where.positions(axes[2:], taps)), outside=0)
    count = counted(taps_counted(where, axes[2:], count_include_pad), x.type.compute)
    return f.reduce("sum", axes, taps, term, post=lambda acc: acc / count, dtype=x.type)


def taps_counted(where: Window, axes: Axes, with_pad: int) -> Expr:
    """How many elements an average is of: those inside the image, or inside its padding too; 1 for none."""
    return maximum(where.taps_inside(axes, where.after if with_pad else None), 1)


def counted(n: Expr, dtype: DType) -> Expr:
    """A count as a number to divide by: a constant wherever it is one."""
    n = simplify(n)
    return Const(float(n.value), dtype) if isinstance(n, Const) else cast(n, dtype)


@op("LpPool")
def lp_pool(
    f: Builder,
    x: Tensor,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: tuple[int, ...] | None = None,
    kernel_shape: tuple[int, ...],
    p: float = 2,
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
) -> Tensor:
    """y[n, c, o...] = (sum over k... of |x[n, c, o*stride + k*dilation - pad]|^p)^(1/p) (ONNX LpPool-22)."""
    where = pooling_window(f, x, kernel_shape, auto_pad, dilations, pads, strides, ceil_mode)
    axes, taps = window_axes(f, x, where)
    term = _power(x.at((*axes[:2], *where.positions(axes[2:], taps)), outside=0), p)
    return f.reduce("sum", axes, taps, term, post=lambda acc: _root(acc, p), dtype=x.type)


def _power(e: Expr, p: float) -> Expr:
    """|e|^p; small whole powers are products."""
    size = call("abs", e)
    if p not in (1, 2, 3, 4):
        return binary("pow", size, p)
    out = size
    for _ in range(int(p) - 1):
        out = out * size
    return out


def _root(e: Expr, p: float) -> Expr:
    return e if p == 1 else call("sqrt", e) if p == 2 else binary("pow", e, 1 / p)


def _everywhere(f: Builder, x: Tensor) -> tuple[Axes, Axes]:
    """The axes (n, c, 1...) of a global pool's output and the spatial axes it reduces."""
    f.require(x.rank >= 2, f"input rank {x.rank}, at least 2 is needed")
    spatial = range(x.rank - 2)
    outputs = f.axes((*x.shape[:2], *(1 for _ in spatial)), " ".join(["n c", *(f"o{i}" for i in spatial)]))
    return outputs, f.axes(x.shape[2:], " ".join(f"k{i}" for i in spatial))


@op("GlobalMaxPool")
def global_max_pool(f: Builder, x: Tensor) -> Tensor:
    """y[n, c, 0...] = max over k... of x[n, c, k...]."""
    axes, taps = _everywhere(f, x)
    term = x.at((*axes[:2], *taps))
    return f.reduce(_maximum(x, taps), axes, taps, term, init=x.type.compute.lowest, dtype=x.type)


@op("GlobalAveragePool")
def global_average_pool(f: Builder, x: Tensor) -> Tensor:
    """y[n, c, 0...] = mean over k... of x[n, c, k...]."""
    axes, taps = _everywhere(f, x)
    count = counted(product(x.shape[2:]), x.type.compute)
    return f.reduce("sum", axes, taps, x.at((*axes[:2], *taps)), post=lambda acc: acc / count, dtype=x.type)


@op("GlobalLpPool")
def global_lp_pool(f: Builder, x: Tensor, *, p: float = 2) -> Tensor:
    """y[n, c, 0...] = (sum over k... of |x[n, c, k...]|^p)^(1/p)."""
    axes, taps = _everywhere(f, x)
    term = _power(x.at((*axes[:2], *taps)), p)
    return f.reduce("sum", axes, taps, term, post=lambda acc: _root(acc, p), dtype=x.type)
