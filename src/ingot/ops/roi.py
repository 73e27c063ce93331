"""Regions of interest: RoiAlign samples them, MaxRoiPool takes the largest element of each part.

In: images, and rectangles that are data. Out: per rectangle and axis the places that are read, then one
reduction over the two. How many there are is data too: reductions run as far as the largest rectangle needs.
"""

from __future__ import annotations

from dataclasses import dataclass

from ingot.formula.expr import (
    Const,
    Expr,
    Extent,
    Gathered,
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
from ingot.formula.index import as_expr, upper
from ingot.formula.types import FLOAT32, FLOAT64, INDEX, INT32, INT64
from ingot.ops.registry import Builder, op

FAR = 1 << 24  # beyond every axis, and exact in float32


def clamped(e: Expr, low: Operand, high: Operand) -> Expr:
    return maximum(minimum(e, high), low)


def element(e: Expr, n: Extent) -> Expr:
    """A number as an index into an axis of `n`, brought within it."""
    return clamped(cast(e, INDEX), 0, as_expr(n) - 1)


def _image(f: Builder, number: Expr, r: Var, images: Extent) -> Tensor:
    """The image that each rectangle is in, checked once."""
    return f.map((r,), cast(Gathered(number, Const(0), as_expr(images)), INT32), INT32, "image")


# -- RoiAlign


@dataclass(frozen=True, slots=True)
class Samples:
    """The samples of one axis: `weight`[r, part, k, side] of the elements at `low`[r, part, k] + side.

    `grid`[r] is their number, of which the first[r, part] ones are skipped, as they lie outside.
    """

    part: Var
    k: Var
    side: Var
    weight: Tensor
    low: Tensor
    first: Tensor
    grid: Tensor

    def at(self, r: Expr, n: Extent) -> Expr:
        return element(cast(self.low.at((r, self.part, self.k)), INDEX) + self.side, n)

    def counts(self, r: Expr) -> Expr:
        """Whether sample k is one of the grid's."""
        number = self.first.at((r, self.part))
        return number + cast(self.k, number.dtype) < self.grid.at((r,))

    def is_cut(self, r: Expr) -> Expr:
        """Whether samples were left out."""
        n = self.grid.at((r,))
        return n > cast(as_expr(self.k.extent or 0), n.dtype)


@dataclass(frozen=True, slots=True)
class Rule:
    """Attributes of RoiAlign: samples a part (0: one per element), scale of coordinates, whether pixels have
    their centres at halves.
    """

    ratio: int
    scale: float
    half_pixel: bool


@op("RoiAlign", since=16)
def roi_align(
    f: Builder,
    x: Tensor,
    rois: Tensor,
    batch_indices: Tensor,
    *,
    coordinate_transformation_mode: str = "half_pixel",
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> Tensor:
    """y[r, c, h, w]: mean or maximum over samples of part (h, w) of rectangle r (RoiAlign-22).

    A sample is interpolated between four elements; more than one element outside it is 0. The maximum is
    taken over the weighted elements themselves, as by onnxruntime and by the reference.
    """
    f.same_type((x, rois), "f")
    f.require(
        x.rank == 4 and rois.rank == 2 and rois.shape[1] == 4 and batch_indices.shape == rois.shape[:1],
        f"shapes {list(x.shape)}, {list(rois.shape)} and {list(batch_indices.shape)} do not fit",
    )
    f.require(batch_indices.type.is_integer, f"batch_indices are {batch_indices.type}, not integers")
    f.require(mode in ("avg", "max"), f"mode {mode!r} is unknown")
    modes = ("half_pixel", "output_half_pixel")
    f.require(coordinate_transformation_mode in modes, f"{coordinate_transformation_mode!r} is unknown")
    parts = (output_height, output_width)
    f.require(min(parts) > 0 and 0 <= sampling_ratio <= 1024, f"output {parts}, {sampling_ratio} samples")
    f.require(0 not in x.shape[2:], f"images of shape {list(x.shape[2:])} have no elements")
    rule = Rule(sampling_ratio, spatial_scale, coordinate_transformation_mode == "half_pixel")
    r, c = f.axes((rois.shape[0], x.shape[1]), "r c")
    image = _image(f, batch_indices[r], r, x.shape[0])
    y, z = (_samples(f, rois, r, d, x.shape[2 + d], parts[d], rule) for d in (0, 1))
    index = (element(image[r], x.shape[0]), c, y.at(r, x.shape[2]), z.at(r, x.shape[3]))
    weight = y.weight.at((r, y.part, y.k, y.side)) * z.weight.at((r, z.part, z.k, z.side))
    term = cast(x.at(index), weight.dtype) * weight
    axes, over = (r, c, y.part, z.part), (y.k, z.k, y.side, z.side)
    count = y.grid.at((r,)) * z.grid.at((r,))
    if mode == "avg":
        mean = maximum(count, 1)
        return f.reduce("sum", axes, over, term, post=lambda acc: acc / mean, dtype=x.type)
    lowest = term.dtype.lowest
    term = select(y.counts(r) & z.counts(r), term, wrap(lowest, term.dtype))

    def post(acc: Expr) -> Expr:
        some = select(y.is_cut(r) | z.is_cut(r), maximum(acc, 0), acc)
        return select(count > 0, some, wrap(0, acc.dtype))

    return f.reduce("max", axes, over, term, init=lowest, post=post, dtype=x.type)


@op("RoiAlign", since=10)
def roi_align_10(
    f: Builder,
    x: Tensor,
    rois: Tensor,
    batch_indices: Tensor,
    *,
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> Tensor:
    """RoiAlign-10: pixels have their centres at whole numbers."""
    return roi_align(
        *(f, x, rois, batch_indices),
        coordinate_transformation_mode="output_half_pixel",
        mode=mode,
        output_height=output_height,
        output_width=output_width,
        sampling_ratio=sampling_ratio,
        spatial_scale=spatial_scale,
    )


def _samples(f: Builder, rois: Tensor, r: Var, d: int, n: Extent, parts: int, rule: Rule) -> Samples:
    """The samples of axis d (0: rows, 1: columns), of `n` elements."""
    t = FLOAT64 if rois.type is FLOAT64 else FLOAT32
    letter = "hw"[d]
    half = 0.5 if rule.half_pixel else 0.0
    first, last = (cast(rois[r, j], t) * rule.scale - half for j in (1 - d, 3 - d))
    start = f.map((r,), first, t, f"start_{letter}")
    size = last - start[r]
    step = f.map((r,), (size if rule.half_pixel else maximum(size, 1.0)) / parts, t, f"step_{letter}")
    number = wrap(rule.ratio, t) if rule.ratio else maximum(call("ceil", step[r]), 0.0)
    grid = f.map((r,), number, t, f"grid_{letter}")
    p, side = Var(f"p{letter}", parts), Var(f"side_{letter}", 2)
    k, skipped = _range(f, start, step, grid, (r, p), n, rule, letter)
    i = skipped[r, p] + cast(k, t)
    place = start[r] + cast(p, t) * step[r] + (i + 0.5) * step[r] / grid[r]
    size_ = cast(as_expr(n), t)
    seen = (i < grid[r]) & binary("ge", place, -1.0) & binary("le", place, size_)
    inside = f.map((r, p, k), select(seen, clamped(place, 0.0, size_ - 1.0), wrap(-1, t)), t, f"at_{letter}")
    at = inside[r, p, k]
    low = f.map((r, p, k), cast(clamped(at, 0.0, float(FAR)), INT32), INT32, f"low_{letter}")
    rest = at - call("floor", at)
    near = select(equal(side, 0), 1.0 - rest, rest)
    weight = f.map((r, p, k, side), select(at < 0, wrap(0, t), near), t, f"weight_{letter}")
    return Samples(p, k, side, weight, low, skipped, grid)


def _range(
    f: Builder,
    start: Tensor,
    step: Tensor,
    grid: Tensor,
    axes: tuple[Var, Var],
    n: Extent,
    rule: Rule,
    letter: str,
) -> tuple[Var, Tensor]:
    """The axis of a part's samples, and how many of them are skipped before the first.

    Where their number is data they lie more than half an element apart, so that 2 * (n + 2) of them reach
    across the image: what lies before it in a rectangle larger than that is skipped.
    """
    r, p = axes
    t = start.type
    if rule.ratio:
        return Var(f"k{letter}", rule.ratio), f.map(axes, wrap(0, t), t, f"first_{letter}")
    limit = 2 * (upper(n) + 2)
    most = f.reduce("max", (), (r,), minimum(grid[r], float(limit)), init=0, name=f"most_{letter}")
    count = f.map((), cast(most[()], INT64), INT64, f"count_{letter}")
    before = (-1.0 - start[r] - cast(p, t) * step[r]) * grid[r] / step[r] - 0.5
    first = select(grid[r] > float(limit), maximum(call("ceil", before), 0.0), wrap(0, t))
    return Var(f"k{letter}", f.counted(count, limit, f"samples_{letter}")), f.map(
        axes, first, t, f"first_{letter}"
    )


# -- MaxRoiPool


@op("MaxRoiPool")
def max_roi_pool(
    f: Builder, x: Tensor, rois: Tensor, *, pooled_shape: tuple[int, ...], spatial_scale: float = 1.0
) -> Tensor:
    """y[r, c, h, w] = the largest element of part (h, w) of rectangle r; 0 of none (MaxRoiPool-22).

    A rectangle is (image, first column, first row, last column, last row), its corners rounded.
    """
    f.same_type((x, rois), "f")
    f.require(
        x.rank == 4 and rois.rank == 2 and rois.shape[1] == 5 and len(pooled_shape) == 2,
        f"shapes {list(x.shape)} and {list(rois.shape)}, pooled to {list(pooled_shape)}, do not fit",
    )
    f.require(0 not in x.shape[2:] and min(pooled_shape) > 0, f"{list(x.shape)} to {list(pooled_shape)}")
    r, c = f.axes((rois.shape[0], x.shape[1]), "r c")
    image = _image(f, cast(rois[r, 0], INT64), r, x.shape[0])
    (ph, first_h, end_h, h), (pw, first_w, end_w, w) = (
        _part(f, rois, r, d, x.shape[2 + d], pooled_shape[d], spatial_scale) for d in (0, 1)
    )
    row, column = first_h[r, ph] + cast(h, INT32), first_w[r, pw] + cast(w, INT32)
    lowest = wrap(x.type.compute.lowest, x.type.compute)
    at = (element(image[r], x.shape[0]), c, element(row, x.shape[2]), element(column, x.shape[3]))
    term = select((row < end_h[r, ph]) & (column < end_w[r, pw]), x.at(at), lowest)
    empty = binary("ge", first_h[r, ph], end_h[r, ph]) | binary("ge", first_w[r, pw], end_w[r, pw])
    return f.reduce(
        *("max", (r, c, ph, pw), (h, w), term),
        init=lowest,
        post=lambda acc: select(empty, wrap(0, acc.dtype), acc),
        dtype=x.type,
    )


def _part(
    f: Builder, rois: Tensor, r: Var, d: int, n: Extent, parts: int, scale: float
) -> tuple[Var, Tensor, Tensor, Var]:
    """Of axis d: the axis of the parts, where each begins and ends, and the axis of a part's elements."""
    letter, t = "hw"[d], rois.type.compute
    p = Var(f"p{letter}", parts)
    first, last = (
        _rounded(clamped(cast(rois[r, j], t) * scale, -float(FAR), float(FAR))) for j in (2 - d, 4 - d)
    )
    step = maximum(last - first + 1.0, 1.0) / parts
    size = cast(as_expr(n), t)
    low = clamped(call("floor", cast(p, t) * step) + first, 0.0, size)
    high = clamped(call("ceil", cast(p + 1, t) * step) + first, 0.0, size)
    begin = f.map((r, p), cast(low, INT32), INT32, f"first_{letter}")
    end = f.map((r, p), cast(high, INT32), INT32, f"end_{letter}")
    count = f.reduce("max", (), (r, p), cast(end[r, p] - begin[r, p], INT64), init=0, name=f"count_{letter}")
    return p, begin, end, Var(f"k{letter}", f.counted(count, n, f"elements_{letter}"))


def _rounded(e: Expr) -> Expr:
    """To the nearest whole number, halves away from zero."""
    return call("sign", e) * call("floor", call("abs", e) + 0.5)
