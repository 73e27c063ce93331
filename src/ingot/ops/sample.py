"""Images read or built at computed places: GridSample, AffineGrid, MaxUnpool."""

from __future__ import annotations

from collections.abc import Sequence

from ingot.formula.expr import (
    Const,
    Expr,
    Extent,
    Gathered,
    Tensor,
    Var,
    call,
    cast,
    maximum,
    minimum,
    select,
    static,
    substitute,
    wrap,
)
from ingot.formula.extents import extent
from ingot.formula.index import as_expr, product
from ingot.formula.types import FLOAT32, FLOAT64, INDEX, INT64
from ingot.ops.registry import Builder, op
from ingot.ops.resample import kernel

FAR = 1 << 24  # beyond every axis, and exact in float32
MODES = {"bilinear": "linear", "bicubic": "cubic"}


@op("GridSample", since=16)
def grid_sample(
    f: Builder,
    x: Tensor,
    grid: Tensor,
    *,
    align_corners: int = 0,
    mode: str = "linear",
    padding_mode: str = "zeros",
) -> Tensor:
    """y[n, c, o...] = x[n, c] at the place grid[n, o..., :], last axis first (GridSample-22)."""
    sizes = x.shape[2:]
    f.require(
        grid.rank == x.rank and grid.shape[-1] == len(sizes) and grid.shape[0] == x.shape[0],
        f"shapes {list(x.shape)} and {list(grid.shape)} do not fit",
    )
    f.require(padding_mode in ("zeros", "border", "reflection"), f"padding {padding_mode!r} is unknown")
    mode = MODES.get(mode, mode)
    f.require(mode in ("nearest", "linear", "cubic"), f"mode {mode!r} is unknown")
    lead = f.axes(grid.shape[:-1], " ".join(["n", *(f"o{d}" for d in range(len(sizes)))]))
    wide = FLOAT64 if x.type is FLOAT64 else FLOAT32
    places = []
    for d, n in enumerate(sizes):
        at = cast(grid.at((*lead, len(sizes) - 1 - d)), wide)
        place = _place(at, cast(as_expr(n), wide), bool(align_corners), mode, padding_mode)
        places.append(f.map(lead, place, wide, f"place{d}"))
    return _sampled(f, x, lead, places, mode, padding_mode, bool(align_corners))


def _place(at: Expr, size: Expr, corners: bool, mode: str, padding: str) -> Expr:
    """A normalised coordinate as a place between elements; the padding brings back one out of sight."""
    p = (at + 1.0) * 0.5 * (size - 1.0) if corners else ((at + 1.0) * size - 1.0) * 0.5
    if mode == "nearest":
        return call("round", p)
    if padding == "zeros" or (mode == "cubic" and padding == "border"):
        return p  # cubics continue the image at a border, not the place: so do onnxruntime and PyTorch
    lo, hi = (wrap(0.0, p.dtype), size - 1.0) if corners else (wrap(-0.5, p.dtype), size - 0.5)
    back = maximum(minimum(p, size - 1.0), 0.0)
    if padding == "reflection":
        turn = maximum((hi - lo) * 2.0, 1.0)
        t = (p - lo) - turn * call("floor", (p - lo) / turn)
        back = lo + minimum(t, turn - t)
    return select((p < lo) | (p > hi), back, p)


def _sampled(
    f: Builder,
    x: Tensor,
    lead: tuple[Var, ...],
    places: Sequence[Tensor],
    mode: str,
    padding: str,
    corners: bool,
) -> Tensor:
    """A weighted sum over the elements around each place."""
    n, *o = lead
    c = Var("c", extent(x.shape[1]))
    first, count = {"nearest": (0, 1), "linear": (0, 2), "cubic": (-1, 4)}[mode]
    taps = [Var(f"k{d}", count) for d in range(len(places))]
    weight: Expr | None = None
    index = []
    for place, k, size in zip(places, taps, x.shape[2:], strict=True):
        p = place[lead]
        floor = call("floor", p)
        i = maximum(minimum(cast(floor, INDEX), FAR), -FAR) + first + k
        index.append(i if padding == "zeros" else _padded(i, as_expr(size), padding, corners))
        if mode != "nearest":
            w = kernel(mode, -0.75, cast(k + first, p.dtype) - (p - floor))
            weight = w if weight is None else weight * w
    element = x.at((n, c, *index), outside=0 if padding == "zeros" else None)
    term = element if weight is None else cast(element, weight.dtype) * weight
    if mode == "nearest":
        flat: dict[str, Expr] = {k.name: Const(0) for k in taps}
        return f.map((n, c, *o), substitute(term, flat), x.type)
    return f.reduce(
        "sum", (n, c, *o), tuple(taps), term, post=lambda acc: cast(acc, x.type.compute), dtype=x.type
    )


def _padded(i: Expr, n: Expr, padding: str, corners: bool) -> Expr:
    """An index beyond an axis as one within it."""
    if padding == "border":
        return maximum(minimum(i, n - 1), 0)
    period = maximum(n * 2 - 2, 1) if corners else n * 2
    around = i % period
    return select(around < n, around, (n * 2 - 2 if corners else n * 2 - 1) - around)


@op("AffineGrid", since=20)
def affine_grid(f: Builder, theta: Tensor, size: Tensor, *, align_corners: int = 0) -> Tensor:
    """y[n, o..., j] = theta[n, j, :] . (coordinates of o, last axis first, 1) (AffineGrid-20)."""
    dims = static(size.shape[0]) - 2
    fits = theta.rank == 3 and theta.shape[1:] == (dims, dims + 1)
    f.require(fits, f"theta {list(theta.shape)} does not fit")
    if f.is_late(size):
        counts = [f.map((), cast(size[d + 2], INT64), name="count") for d in range(dims)]
        spatial = tuple(f.measured(c, None, axis=d + 1) for d, c in enumerate(counts))
    else:
        spatial = f.extents(size, "size")[2:]
    n, *o, j = f.axes((theta.shape[0], *spatial, dims), " ".join(["n", *(f"o{d}" for d in range(dims)), "j"]))
    total: Expr = theta[n, j, dims]
    for d, (i, m) in enumerate(zip(o, spatial, strict=True)):
        x, last = cast(i, total.dtype) * 2.0, as_expr(m)
        if align_corners:
            place = x / cast(maximum(last - 1, 1), total.dtype) - 1.0
        else:
            place = (x + 1.0) / cast(last, total.dtype) - 1.0
        total = total + theta[n, j, dims - 1 - d] * place
    return f.map((n, *o, j), total, theta.type)


@op("MaxUnpool", since=9)
def max_unpool(
    f: Builder,
    x: Tensor,
    indices: Tensor,
    output_shape: Tensor | None = None,
    *,
    kernel_shape: tuple[int, ...],
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
) -> Tensor:
    """Zeros, with x[i...] at the element that indices[i...] counts in the pooled tensor (MaxUnpool-11)."""
    dims = x.rank - 2
    stride, pad = strides or (1,) * dims, pads or (0,) * (2 * dims)
    f.require(
        indices.shape == x.shape and len(kernel_shape) == len(stride) == dims and len(pad) == 2 * dims,
        f"shapes {list(x.shape)} and {list(indices.shape)} and the attributes do not fit",
    )
    pooled = list(x.shape[:2])
    for d, n in enumerate(x.shape[2:]):
        pooled.append(extent((as_expr(n) - 1) * stride[d] + (kernel_shape[d] - pad[d] - pad[d + dims])))
    shape: Sequence[Extent] = pooled
    if output_shape is not None:
        declared = f.declared(output_shape)
        shape = f.integers(output_shape, "output_shape") if declared is None else declared
        given, least = (f.fixed(s, "what output_shape is compared with") for s in (shape, pooled))
        fits = len(given) == len(least) and all(a >= b for a, b in zip(given, least, strict=True))
        f.require(fits, f"output_shape {list(shape)} is smaller than {pooled}")
    everywhere = f.axes(tuple(shape))
    out = f.map(everywhere, wrap(0, x.type.compute), x.type)
    points = f.axes(x.shape)
    rest: Expr = Gathered(indices[points], Const(0), product(tuple(pooled)))
    at: list[Expr] = []
    for n in reversed(pooled[1:]):
        at.append(rest % as_expr(n))
        rest = rest // as_expr(n)
    f.put(out, points, (rest, *reversed(at)), x[points])
    return out
