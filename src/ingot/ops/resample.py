"""Axes sampled at new places, nearest, linear or cubic: what Resize and Upsample are made of (Resize-19).

Where the scales are known now, the tables of places and weights are computed now, by the expressions that
compute them at run time otherwise; a table of places that a division describes becomes that division.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np

from ingot.formula.compute import Stage, computes, reads, writes
from ingot.formula.evaluate import run_stages
from ingot.formula.expr import (
    Array,
    Const,
    Expr,
    Extent,
    Param,
    Tensor,
    Var,
    call,
    cast,
    maximum,
    minimum,
    select,
    static,
    walk,
    wrap,
)
from ingot.formula.index import as_expr, interval, upper
from ingot.formula.types import BOOL, FLOAT32, FLOAT64, INDEX, INT32, DType
from ingot.ops.registry import Builder
from ingot.ops.runtime import there

Number = float | Expr
Place = Callable[[Expr], Expr]
SUPPORT = {"linear": 1, "cubic": 2}
ROUNDING = 2.0**-22  # of a coordinate: what a division in float32 and a difference may cost


@dataclass(frozen=True, slots=True)
class How:
    """The attributes that say how a place between elements is read."""

    mode: str
    coordinates: str
    nearest: str = "round_prefer_floor"
    cubic: float = -0.75
    exclude_outside: bool = False
    antialias: bool = False
    extrapolation: float = 0.0


@dataclass(frozen=True, slots=True)
class Line:
    """One axis: elements before and after, the scale, and the part that tf_crop_and_resize takes.

    `length` is what align_corners takes for the length afterwards: Resize-19 lets it be a fraction.
    """

    axis: int
    size: Extent
    out: Extent
    scale: Number
    length: Number
    start: Number = 0.0
    end: Number = 1.0

    @property
    def shrink(self) -> int:
        """How many elements at most fall on one of a smaller output."""
        if not isinstance(self.scale, Expr):
            return max(math.ceil(1 / self.scale - 1e-6), 1)
        return max(math.ceil(upper(self.size) / max(interval(as_expr(self.out))[0], 1) - 1e-6), 1)


def number(n: Extent) -> Number:
    """An extent in the arithmetic of places."""
    return float(n) if isinstance(n, int) else cast(n, FLOAT32)


def coordinate(line: Line, how: How, i: Expr) -> Expr:
    """Where element `i` of the output lies between those of the input, a float (Resize-19)."""
    s, size, out = line.scale, number(line.size), number(line.out)
    x = cast(i, FLOAT32)

    def unless_one(several: Expr, one: Expr) -> Expr:
        """The second for an output of one element, which lies at no distance from the last."""
        if isinstance(out, float):
            return several if out > 1 else one
        return select(out > 1.0, several, one)

    match how.coordinates:
        case "half_pixel":
            return (x + 0.5) / s - 0.5
        case "half_pixel_symmetric":
            # size / 2 * (1 - out / (s * size)) + (x + 0.5) / s, divided once: a half stays one
            return (x + 0.5 - out / 2) / s + size / 2 - 0.5
        case "pytorch_half_pixel":
            return unless_one((x + 0.5) / s - 0.5, x)
        case "align_corners":
            return unless_one(x * (size - 1) / _apart(line.length), x)
        case "asymmetric":
            return x / s
        case "tf_half_pixel_for_nn":
            return (x + 0.5) / s
        case "tf_crop_and_resize":
            start, end = wrap(line.start, FLOAT32), wrap(line.end, FLOAT32)
            several = start * (size - 1) + x * (end - start) * (size - 1) / _apart(out)
            return unless_one(several, (start + end) * 0.5 * (size - 1) + x)
    raise ValueError(f"coordinate_transformation_mode {how.coordinates!r} is unknown")


def _apart(length: Number) -> Number:
    """The distance from the first element to the last; 1 where they are the same, for nobody uses it then."""
    return length - 1 if isinstance(length, Expr) else (length - 1 or 1.0)


def _rounded(x: Expr, how: str) -> Expr:
    """The integer place of a coordinate. What only float32's rounding keeps from being a half is one."""
    match how:
        case "round_prefer_floor":
            return call("ceil", x * (1 - ROUNDING) - 0.5)
        case "round_prefer_ceil":
            return call("floor", x * (1 + ROUNDING) + 0.5)
        case "floor" | "ceil":
            return call(how, x)
    raise ValueError(f"nearest_mode {how!r} is unknown")


def kernel(mode: str, a: float, d: Expr) -> Expr:
    """The weight of an element at distance `d`: a hat, or Keys' cubic with parameter `a`."""
    x = call("abs", d)
    if mode == "linear":
        return maximum(1.0 - x, 0.0)
    near = ((x * (a + 2) - (a + 3)) * x) * x + 1.0
    far = ((x * a - 5 * a) * x + 8 * a) * x - 4 * a
    return select(x <= 1.0, near, select(x < 2.0, far, 0.0))


def folded(f: Builder, build: Callable[[], Tensor]) -> Tensor:
    """What `build` makes, as a constant if it needs no run-time input."""
    outer, f.stages = f.stages, []
    out = build()
    stages, f.stages = f.stages, outer
    made = {t for s in stages for t in writes(s)}
    late = any(t.value is None and t not in made for s in stages for t in reads(s))
    if late or not all(isinstance(n, int) for t in made for n in t.shape) or _has_extents(stages):
        f.stages += stages
        return out
    arrays: dict[Tensor, Array] = {}
    run_stages(stages, arrays, {})
    return f.constant(arrays[out], out.name)


def _has_extents(stages: Sequence[Stage]) -> bool:
    """Whether an expression needs an extent known at run time only."""
    used = (e for c in computes(tuple(stages)) for e in c.expressions)
    return any(isinstance(n, Param) for e in used for n in walk(e))


def _places(f: Builder, line: Line, how: How, at: Place, reach: int) -> Place:
    """The integer place of each output element, kept within `reach` of the input."""

    def build() -> Tensor:
        (i,) = f.axes((line.out,), "i")
        near = cast(at(coordinate(line, how, i)), INDEX)
        return f.map(
            (i,), cast(maximum(minimum(near, as_expr(line.size) + reach), -reach), INT32), name="place"
        )

    if line.out == 0:
        return lambda i: Const(0)
    table = folded(f, build)
    closed = None if table.value is None else _division(table.value, line)
    return closed if closed is not None else lambda i: cast(table[i], INDEX)


def _division(table: Array, line: Line) -> Place | None:
    """table[i] == (i*a + b) // c for all i, if there are such numbers."""
    size, out = static(line.size), static(line.out)
    ratios = {Fraction(size, out), Fraction(max(size - 1, 1), max(out - 1, 1))}
    if not isinstance(line.scale, Expr):
        ratios.add((1 / Fraction(line.scale)).limit_denominator(64))
    i, t = np.arange(len(table), dtype=np.int64), table.astype(np.int64)
    for ratio in sorted(ratios, key=lambda r: r.denominator):
        for c in (ratio.denominator, 2 * ratio.denominator, 4 * ratio.denominator):
            a = int(ratio * c)
            # c*t <= a*i + b <= c*t + c - 1
            b, most = int(np.max(c * t - a * i)), int(np.min(c * t + c - 1 - a * i))
            if b <= most:
                return partial(_divided, a, b, c)
    return None


def _divided(a: int, b: int, c: int, i: Expr) -> Expr:
    """(i*a + b) // c without dividing anything negative."""
    whole = -(b // c) if b < 0 else 0
    return (i * a + (b + whole * c)) // c - whole


def _inside(i: Expr, size: Extent) -> Expr:
    return there(maximum(minimum(i, as_expr(size) - 1), 0), size)


def _nearest_mode(line: Line, how: How) -> str:
    """Resize-10 knows only one, "simple": up where the axis shrinks, down elsewhere."""
    if how.nearest != "simple":
        return how.nearest
    return "ceil" if isinstance(line.scale, float) and line.scale < 1 else "floor"


def _nearest(f: Builder, x: Tensor, lines: Sequence[Line], how: How) -> Tensor:
    """One copy: every axis reads its nearest element."""
    shape, index = list(x.shape), {}
    for line in lines:
        shape[line.axis] = line.out
        index[line.axis] = _places(f, line, how, partial(_rounded, how=_nearest_mode(line, how)), 1)
    axes = f.axes(tuple(shape))
    size = dict((line.axis, line.size) for line in lines)
    read = tuple(_inside(index[a](i), size[a]) if a in index else i for a, i in enumerate(axes))
    return f.map(axes, x[read], x.type)


def _weights(f: Builder, line: Line, how: How, place: Place, first: int, taps: int) -> Tensor:
    """The weight of each tap of each output element."""
    squeeze: Number = 1.0
    if how.antialias:
        squeeze = minimum(line.scale, 1.0) if isinstance(line.scale, Expr) else min(line.scale, 1.0)

    def build() -> Tensor:
        i, k = f.axes((line.out, taps), "i k")
        at = place(i) + first + k
        distance = cast(at, FLOAT32) - coordinate(line, how, i)
        w = kernel(how.mode, how.cubic, distance * squeeze)
        if how.exclude_outside:
            w = select((at >= 0) & (at < as_expr(line.size)), w, 0.0)
        out = f.map((i, k), w, name="weight")
        if not (how.exclude_outside or how.antialias):
            return out
        total = f.reduce("sum", (i,), (k,), out[i, k], name="total")
        return f.map((i, k), out[i, k] / total[i], name="share")

    return folded(f, build)


def _interpolated(f: Builder, x: Tensor, line: Line, how: How, dtype: DType) -> Tensor:
    """One axis: a weighted sum of the elements around each place; edges stand for what is beyond."""
    reach = SUPPORT[how.mode] * (line.shrink if how.antialias else 1)
    first, taps = 1 - reach, 2 * reach
    place = _places(f, line, how, lambda p: call("floor", p), taps)
    weight = _weights(f, line, how, place, first, taps)
    shape = (*x.shape[: line.axis], line.out, *x.shape[line.axis + 1 :])
    axes = f.axes(shape)
    k = Var("k", taps)
    i = axes[line.axis]
    read = _inside(place(i) + first + k, line.size)
    element = cast(x.at((*axes[: line.axis], read, *axes[line.axis + 1 :])), dtype)
    return f.reduce("sum", axes, (k,), cast(weight[i, k], dtype) * element, dtype=dtype, name="sampled")


def resample(f: Builder, x: Tensor, lines: Sequence[Line], how: How) -> Tensor:
    """All axes of `lines`, one after the other; then what lies outside the cropped part."""
    f.require(how.mode in ("nearest", *SUPPORT), f"mode {how.mode!r} is unknown")
    if how.mode == "nearest":
        y = _nearest(f, x, lines, how)
    else:
        dtype, y = FLOAT64 if x.type is FLOAT64 else FLOAT32, x
        for line in lines:
            y = _interpolated(f, y, line, how, dtype)
    if how.coordinates != "tf_crop_and_resize" and y.type is x.type:
        return y
    axes = f.axes(y.shape)
    value: Expr = y[axes]
    if how.coordinates == "tf_crop_and_resize":
        for line in lines:
            beyond = _beyond(f, line, how)
            value = select(beyond[axes[line.axis]], wrap(how.extrapolation, value.dtype), value)
    return f.map(axes, cast(_whole(value, x.type, how), x.type.compute), x.type)


def _whole(value: Expr, to: DType, how: How) -> Expr:
    """What becomes an integer is rounded, but between two elements only: there onnxruntime cuts off."""
    is_cut = how.mode == "nearest" or (how.mode == "linear" and not how.antialias)
    return value if is_cut or not to.is_integer else call("round", value)


def _beyond(f: Builder, line: Line, how: How) -> Tensor:
    """Which output elements lie outside the input."""

    def build() -> Tensor:
        (i,) = f.axes((line.out,), "i")
        p = coordinate(line, how, i)
        return f.map((i,), (p < 0.0) | (p > number(line.size) - 1.0), BOOL, "beyond")

    return folded(f, build)
