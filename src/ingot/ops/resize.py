"""Resize and Upsample: which axes change, by scales or sizes, known now or when the bundle runs.

Scales give floor(extent * scale) elements, which lie where the scale says, whatever the ratio of the extents;
align_corners ends where extent * scale does, a fraction since opset 19 (docs/math.md has the reason).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from ingot.formula.expr import Expr, Extent, Tensor, call, cast, maximum, minimum, static, wrap
from ingot.formula.extents import extent
from ingot.formula.index import as_expr, simplify, upper
from ingot.formula.types import FLOAT32, INT64
from ingot.ops.registry import Builder, op
from ingot.ops.resample import How, Line, Number, number, resample

LONGEST = 1 << 22  # elements of a resized axis: tables of places are made per axis


def _given(t: Tensor | None) -> Tensor | None:
    """An input that holds something: Resize-11 writes an empty tensor for one left out."""
    return None if t is None or t.count == 0 else t


def _element(t: Tensor, k: int) -> Number:
    if t.value is not None:
        return float(np.float32(t.value.reshape(-1)[k]))
    return cast(t[k], FLOAT32)


def _lines(
    f: Builder,
    x: Tensor,
    where: Sequence[int],
    scales: Sequence[Number],
    shape: Sequence[Extent],
    roi: Tensor | None,
    fractional: bool = False,
) -> list[Line]:
    """The axes that change, with their numbers."""
    out = []
    for k, (a, s) in enumerate(zip(where, scales, strict=True)):
        crop = (0.0, 1.0) if roi is None else (_element(roi, k), _element(roi, k + len(where)))
        if isinstance(s, float) and s == 1 and shape[a] == x.shape[a] and crop == (0.0, 1.0):
            continue
        size, to = x.shape[a], shape[a]
        f.require(isinstance(s, Expr) or s > 0, f"scale {s} is not positive")
        f.require(size != 0 or to == 0, f"axis {a} has no element to read")
        f.require(upper(to) <= LONGEST, f"axis {a} is resized to {to} elements, more than {LONGEST}")
        size = 1 if size == 0 else size
        out.append(Line(a, size, to, s, _length(size, s) if fractional else number(to), *crop))
    return out


def _length(size: Extent, scale: Number) -> Number:
    """size * scale, a fraction only where it is one beyond rounding."""
    if isinstance(scale, Expr):
        return scale * number(size)
    if isinstance(size, Expr):
        return cast(size, FLOAT32) * scale
    exact = size * scale
    return float(round(exact)) if abs(exact - round(exact)) < 1e-5 * exact else exact


def _scaled(f: Builder, axis: int, n: Extent, scale: Number) -> Extent:
    """floor(n * scale), in float32 as everyone computes it."""
    if isinstance(scale, Expr):
        many = call("floor", cast(as_expr(n), FLOAT32) * scale)
        return f.measured(f.map((), cast(many, INT64), name="count"), None, axis=axis)
    if isinstance(n, int):
        return int(np.floor(np.float32(n) * np.float32(scale)))
    ratio = Fraction(scale).limit_denominator(1 << 12)
    return extent(simplify(as_expr(n) * ratio.numerator // ratio.denominator))


def _by_scales(f: Builder, x: Tensor, scales: Tensor, where: Sequence[int], roi: Tensor | None) -> list[Line]:
    factors = [_element(scales, k) for k in range(scales.count)]
    f.require(len(factors) == len(where), f"{len(factors)} scales for {len(where)} axes")
    shape = list(x.shape)
    for a, s in zip(where, factors, strict=True):
        shape[a] = _scaled(f, a, x.shape[a], s)
    return _lines(f, x, where, factors, shape, roi, f.node.version >= 19)


def _by_sizes(
    f: Builder, x: Tensor, sizes: Tensor, where: Sequence[int], roi: Tensor | None, policy: str
) -> list[Line]:
    f.require(sizes.count == len(where), f"{sizes.count} sizes for {len(where)} axes")
    f.require(policy in ("stretch", "not_larger", "not_smaller"), f"policy {policy!r} is unknown")
    shape = list(x.shape)
    nothing = f"shape {list(x.shape)} has nothing to resize"
    if policy == "stretch":
        after = _sizes(f, sizes, where)
        for a, to in zip(where, after, strict=True):
            shape[a] = to
        pairs = [(m, x.shape[a]) for m, a in zip(after, where, strict=True)]
        f.require(all(m == n for m, n in pairs if n == 0), nothing)
        ratios = [1.0 if m == n else _ratio(number(m), number(n)) for m, n in pairs]
        return _lines(f, x, where, ratios, shape, roi)
    f.require(0 not in (x.shape[a] for a in where), nothing)
    one = _common([_ratio(_element(sizes, k), number(x.shape[a])) for k, a in enumerate(where)], policy)
    for a in where:
        late = call("floor", number(x.shape[a]) * one + 0.5) if isinstance(one, Expr) else None
        if late is not None:
            shape[a] = f.measured(f.map((), cast(late, INT64), name="count"), None, axis=a)
        else:
            assert isinstance(one, float)
            shape[a] = math.floor(static(x.shape[a]) * one + 0.5)
    return _lines(f, x, where, [one] * len(where), shape, roi)


def _sizes(f: Builder, sizes: Tensor, where: Sequence[int]) -> Sequence[Extent]:
    """The new extents of some axes."""
    if not f.is_late(sizes):
        return f.extents(sizes, "sizes")
    counts = [f.map((), cast(sizes[k], INT64), name="count") for k in range(len(where))]
    return [f.measured(c, None, axis=a) for c, a in zip(counts, where, strict=True)]


def _ratio(size: Number, n: Number) -> Number:
    if isinstance(size, Expr) or isinstance(n, Expr):
        return wrap(size, FLOAT32) / n
    return float(np.float32(size) / np.float32(n))


def _common(ratios: list[Number], policy: str) -> Number:
    """The one scale of axes that keep their proportions."""
    out = ratios[0]
    for r in ratios[1:]:
        if isinstance(out, Expr) or isinstance(r, Expr):
            out = minimum(out, r) if policy == "not_larger" else maximum(out, r)
        else:
            out = min(out, r) if policy == "not_larger" else max(out, r)
    return out


LINEAR = {"bilinear": "linear"}
"""Upsample-1 calls it so, and exporters did after it."""


@op("Resize", since=11)
def resize(
    f: Builder,
    x: Tensor,
    roi: Tensor | None = None,
    scales: Tensor | None = None,
    sizes: Tensor | None = None,
    *,
    antialias: int = 0,
    axes: tuple[int, ...] | None = None,
    coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch",
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
) -> Tensor:
    """Each axis sampled at the places its scale, or its new size, gives (Resize-19)."""
    where = [f.axis(a, x.rank) for a in (range(x.rank) if axes is None else axes)]
    how = How(
        LINEAR.get(mode, mode),
        coordinate_transformation_mode,
        nearest_mode,
        cubic_coeff_a,
        bool(exclude_outside),
        bool(antialias),
        extrapolation_value,
    )
    crop = _given(roi) if coordinate_transformation_mode == "tf_crop_and_resize" else None
    f.require(
        coordinate_transformation_mode != "tf_crop_and_resize" or crop is not None, "the roi is missing"
    )
    f.require(crop is None or crop.count == 2 * len(where), "the roi has a start and an end per axis")
    factors, shape = _given(scales), _given(sizes)
    f.require((factors is None) != (shape is None), "either scales or sizes are needed")
    if factors is not None:
        return resample(f, x, _by_scales(f, x, factors, where, crop), how)
    assert shape is not None
    return resample(f, x, _by_sizes(f, x, shape, where, crop, keep_aspect_ratio_policy), how)


@op("Upsample", since=9)
@op("Resize", since=10)
def resize_10(f: Builder, x: Tensor, scales: Tensor, *, mode: str = "nearest") -> Tensor:
    """Resize-10, Upsample-9: asymmetric places, rounded down, or up where the axis shrinks."""
    lines = _by_scales(f, x, scales, range(x.rank), None)
    return resample(f, x, lines, How(LINEAR.get(mode, mode), "asymmetric", "simple"))


@op("Upsample", since=7)
def upsample_7(f: Builder, x: Tensor, *, scales: tuple[float, ...], mode: str = "nearest") -> Tensor:
    """Upsample-7: the scales are an attribute."""
    return resize_10(f, x, f.constant(np.array(scales, np.float32), "scales"), mode=mode)


@op("Upsample")
def upsample_1(
    f: Builder, x: Tensor, *, height_scale: float, width_scale: float, mode: str = "nearest"
) -> Tensor:
    """Upsample-1: two scales, of height and width."""
    return upsample_7(f, x, scales=(1.0, 1.0, height_scale, width_scale), mode=mode)
