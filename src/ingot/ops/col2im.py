"""Col2Im: overlapping blocks added up to an image.

In: columns of blocks. Out: a reduction over the taps of the blocks. The image's and the block's extents may
be known at run time only: then the image has the shape that the model declares, the taps are counted in one
axis, and the bundle checks that the extents it is given are those.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ingot.formula.expr import (
    Const,
    Expr,
    Extent,
    Tensor,
    Var,
    cast,
    equal,
    maximum,
    minimum,
    select,
    static,
    wrap,
)
from ingot.formula.extents import extent
from ingot.formula.index import as_expr, product
from ingot.formula.types import INDEX, INT64
from ingot.ops.registry import Builder, op
from ingot.ops.runtime import zero_if


@dataclass(frozen=True, slots=True)
class Blocks:
    """How blocks lie in an image: per axis the stride, the dilation, the padding before and after."""

    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]

    def steps(self, d: int, image: Expr, block: Expr) -> Expr:
        """How many blocks fit along axis d."""
        room = image + (self.before[d] + self.after[d] - 1) - (block - 1) * self.dilations[d]
        return room // self.strides[d] + 1


@op("Col2Im", since=18)
def col2im(
    f: Builder,
    x: Tensor,
    image_shape: Tensor,
    block_shape: Tensor,
    *,
    dilations: tuple[int, ...] | None = None,
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
) -> Tensor:
    """y[n, c, p...] = sum over the blocks k..., l... with l*stride + k*dilation - pad == p (Col2Im-18)."""
    dims = image_shape.count
    dilation, stride = tuple(dilations or (1,) * dims), tuple(strides or (1,) * dims)
    pad = tuple(pads or (0,) * (2 * dims))
    f.require(
        x.rank == 3 and block_shape.count == len(dilation) == len(stride) == dims and len(pad) == 2 * dims,
        f"{list(x.shape)}, an image of {dims} axes, blocks of {block_shape.count} and the attributes differ",
    )
    f.require(min((1, *dilation, *stride)) > 0, "dilations and strides must be positive")
    f.require(
        max((0, *map(abs, pad), *dilation, *stride)) < 1 << 24,
        "pads, dilations and strides must be below 2^24",
    )
    blocks = Blocks(stride, dilation, pad[:dims], pad[dims:])
    declared = f.declared(image_shape, block_shape)
    if declared is None:
        image, block = f.integers(image_shape, "image_shape"), f.integers(block_shape, "block_shape")
        return _known(f, x, image, block, blocks)
    f.require(len(declared) == dims + 2, f"declared as {list(declared)}, an image of {dims} axes")
    return _at_run_time(f, x, image_shape, block_shape, declared, blocks)


def _known(f: Builder, x: Tensor, image: tuple[int, ...], block: tuple[int, ...], blocks: Blocks) -> Tensor:
    dims = range(len(image))
    f.require(min((1, *block)) > 0 and min((0, *image)) >= 0, f"blocks of {list(block)} in {list(image)}")
    steps = [static(extent(blocks.steps(d, as_expr(image[d]), as_expr(block[d])))) for d in dims]
    taps, places = static(extent(product(block))), static(extent(product(tuple(steps))))
    channels = extent(as_expr(x.shape[1]) // taps)
    f.require(
        x.shape[1:] == (extent(as_expr(channels) * taps), places) and min((1, *steps)) > 0,
        f"shape {list(x.shape)} does not hold blocks of {list(block)} at {steps} places",
    )
    n, c, *p = f.axes((x.shape[0], channels, *image), _names(len(image)))
    k = tuple(Var(f"k{d}", m) for d, m in enumerate(block))
    at, hit = _covering(blocks, p, k, list(map(as_expr, steps)))
    tap: Expr = Const(0)
    for d in dims:
        tap = tap * block[d] + k[d]
    row = as_expr(taps) * c + tap
    term = select(hit, x.at((n, row, maximum(minimum(at, places - 1), 0))), wrap(0, x.type.compute))
    return f.reduce("sum", (n, c, *p), k, term, dtype=x.type)


def _names(dims: int) -> str:
    return " ".join(["n", "c", *(f"p{d}" for d in range(dims))])


def _covering(
    blocks: Blocks, p: Sequence[Expr], k: Sequence[Expr], steps: Sequence[Expr]
) -> tuple[Expr, Expr]:
    """Which block has its tap k at pixel p, and whether there is one."""
    place, hit = wrap(0, steps[0].dtype), equal(as_expr(0), 0)
    for d, count in enumerate(steps):
        from_start = p[d] + blocks.before[d] - k[d] * blocks.dilations[d]
        step = from_start // blocks.strides[d]
        place = place * count + step
        hit = hit & equal(from_start % blocks.strides[d], 0) & (step >= 0) & (step < count)
    return place, hit


def _at_run_time(
    f: Builder,
    x: Tensor,
    image_shape: Tensor,
    block_shape: Tensor,
    shape: tuple[Extent, ...],
    blocks: Blocks,
) -> Tensor:
    dims = range(image_shape.count)
    f.require(shape[0] == x.shape[0], f"declared as {list(shape)}, the input is {list(x.shape)}")
    channels, whole = static(shape[1]), static(x.shape[1])
    f.require(whole == 0 or (channels > 0 and whole % channels == 0), f"{whole} rows for {channels} channels")
    taps = whole // max(channels, 1)
    n, c, *p = f.axes(shape, _names(len(dims)))
    t = Var("k", taps)
    block = [maximum(minimum(cast(block_shape[d], INT64), taps), 1) for d in dims]  # as far as it matters
    image = [cast(as_expr(m), INT64) for m in shape[2:]]
    steps = [blocks.steps(d, image[d], block[d]) for d in dims]
    fits = equal(_product(block), taps) & equal(_product(steps), cast(as_expr(x.shape[2]), INT64))
    for d in dims:
        fits = fits & equal(cast(block_shape[d], INT64), block[d])
        fits = fits & equal(cast(image_shape[d], INT64), image[d]) & (steps[d] > 0)
    rest, k = cast(t, INT64), list[Expr]()
    for m in reversed(block):
        k.insert(0, rest % m)
        rest = rest // m
    place, hit = _covering(blocks, [cast(i, INT64) for i in p], k, steps)
    at = cast(maximum(minimum(place, cast(as_expr(x.shape[2]) - 1, INT64)), 0), INDEX)
    agrees = f.map((), cast(zero_if(fits), INT64), name="agrees")
    zero = wrap(0, x.type.compute)
    hit = hit & equal(agrees[()], 0)
    term = select(hit, x.at((n, c * taps + t, at), outside=0), zero)
    return f.reduce("sum", (n, c, *p), (t,), term, dtype=x.type)


def _product(values: Sequence[Expr]) -> Expr:
    total = values[0]
    for v in values[1:]:
        total = total * v
    return total
