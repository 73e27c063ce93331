"""DeformConv: a convolution whose taps are moved by offsets that are data.

In: images, weights, and an offset for each tap of each output. Out: the places of the taps, what lies there
(linear interpolation, zeros outside), and the contraction with the weights.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingot.formula.expr import Expr, Tensor, Var, call, cast, maximum, minimum
from ingot.formula.extents import extent
from ingot.formula.index import as_expr, product
from ingot.formula.types import FLOAT32, FLOAT64, INDEX
from ingot.ops.contract import convolution
from ingot.ops.registry import Builder, op

FAR = 1 << 24  # beyond every axis, and exact in float32


@op("DeformConv", since=19)
def deform_conv(
    f: Builder,
    x: Tensor,
    w: Tensor,
    offset: Tensor,
    b: Tensor | None = None,
    mask: Tensor | None = None,
    *,
    dilations: tuple[int, ...] | None = None,
    group: int = 1,
    kernel_shape: tuple[int, ...] | None = None,
    offset_group: int = 1,
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
) -> Tensor:
    """y[n, oc, o...] = b[oc] + sum over ic, k of w[oc, ic, k] * mask[n, k, o] * x[n, c] (DeformConv-22)

    at the place o*stride + k*dilation - pad + offset[n, k, :, o]. `offset_group` groups of channels have
    offsets and masks of their own; n-dimensional images are read as 2-dimensional ones are.
    """
    given = tuple(t for t in (x, w, offset, b, mask) if t is not None)
    f.same_type(given, "f")
    over = convolution(f, x, w, "NOTSET", dilations, group, kernel_shape, pads, strides)
    n, oc, *o = over.outer
    k = over.inner[1:]
    channels, taps, dims = extent(as_expr(x.shape[1])), tuple(v.extent or 0 for v in k), len(k)
    f.require(
        isinstance(channels, int) and offset_group > 0 and channels % offset_group == 0,
        f"{channels} channels are not divisible into {offset_group} offset groups",
    )
    area = extent(product(taps))
    _require(f, "offset", offset, (x.shape[0], extent(as_expr(area) * (offset_group * dims)), *_sizes(o)))
    _require(f, "mask", mask, (x.shape[0], extent(as_expr(area) * offset_group), *_sizes(o)))
    _require(f, "the bias", b, w.shape[:1])
    tap: Expr = as_expr(0)
    for v in k:
        tap = tap * (v.extent or 0) + v
    places = _places(f, x, offset, offset_group, tap, (n, *k, *o), over.a[2:])
    moved = _moved(f, x, mask, offset_group, tap, places, (n, k, tuple(o)))
    return f.reduce(
        "sum",
        over.outer,
        over.inner,
        moved.at((n, over.a[1], *k, *o)) * w.at(over.b),
        post=lambda acc: acc if b is None else acc + b[oc],
        dtype=x.type,
    )


def _sizes(axes: Sequence[Var]) -> tuple[int | Expr, ...]:
    return tuple(a.extent or 0 for a in axes)


def _require(f: Builder, name: str, t: Tensor | None, shape: tuple[int | Expr, ...]) -> None:
    f.require(t is None or t.shape == shape, f"{name} has shape {t and list(t.shape)}, not {list(shape)}")


def _places(
    f: Builder,
    x: Tensor,
    offset: Tensor,
    groups: int,
    tap: Expr,
    axes: tuple[Var, ...],
    at: tuple[Expr, ...],
) -> list[Tensor]:
    """Per spatial axis: where in it each tap of each output lies, for each group of offsets."""
    n, *rest = axes
    g, dims = Var("g", groups), len(at)
    o, area = rest[dims:], extent(product(_sizes(rest[:dims])))
    wide = FLOAT64 if x.type is FLOAT64 else FLOAT32
    out = []
    for d in range(dims):
        row = (g * area + tap) * dims + d
        place = cast(at[d], wide) + offset.at((n, row, *o))
        out.append(f.map((n, g, *rest), place, wide, f"place{d}"))
    return out


def _moved(
    f: Builder,
    x: Tensor,
    mask: Tensor | None,
    groups: int,
    tap: Expr,
    places: list[Tensor],
    axes: tuple[Var, tuple[Var, ...], tuple[Var, ...]],
) -> Tensor:
    """What every channel has at those places, times the mask: a sum over the corners around each."""
    n, k, o = axes
    c = Var("c", x.shape[1])
    each = extent(as_expr(x.shape[1]) // groups)
    g = c // each if each != 0 else as_expr(0)
    corners = tuple(Var(f"j{d}", 2) for d in range(len(k)))
    weight: Expr | None = None
    index = []
    for place, j in zip(places, corners, strict=True):
        p = place.at((n, g, *k, *o))
        floor = call("floor", p)
        index.append(maximum(minimum(cast(floor, INDEX), FAR), -FAR) + j)
        near = 1.0 - call("abs", cast(j, p.dtype) - (p - floor))
        weight = near if weight is None else weight * near
    assert weight is not None
    element = x.at((n, c, *index), outside=0)
    factor = None if mask is None else mask.at((n, g * extent(product(_sizes(k))) + tap, *o))
    return f.reduce(
        "sum",
        (n, c, *k, *o),
        corners,
        element * weight,
        post=lambda acc: acc if factor is None else acc * factor,
        name="moved",
    )
