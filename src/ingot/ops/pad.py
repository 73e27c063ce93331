"""Pad and CenterCropPad: axes continued beyond their ends, or cut.

Pads known at run time only are clamped before they enter index arithmetic; no read leaves its tensor.
"""

from __future__ import annotations

from ingot.formula.expr import (
    Expr,
    Extent,
    Operand,
    Tensor,
    Var,
    cast,
    maximum,
    minimum,
    select,
    static,
)
from ingot.formula.extents import extent
from ingot.formula.index import as_expr, interval, simplify, span
from ingot.formula.types import INDEX, INT64
from ingot.ops.registry import Builder, op, shapes_text
from ingot.ops.runtime import FAR, parameter, there, within


@op("Pad")
def pad_1(
    f: Builder, data: Tensor, *, paddings: tuple[int, ...], mode: str = "constant", value: float = 0.0
) -> Tensor:
    """Pad-1: the attribute is called `paddings`."""
    return pad_2(f, data, pads=paddings, mode=mode, value=value)


@op("Pad", since=2)
def pad_2(
    f: Builder, data: Tensor, *, pads: tuple[int, ...], mode: str = "constant", value: float = 0.0
) -> Tensor:
    """Pad-2: pads and value are attributes."""
    return _pad(f, data, tuple(pads), None, mode, value)


@op("Pad", since=11)
def pad(
    f: Builder,
    data: Tensor,
    pads: Tensor,
    constant_value: Tensor | None = None,
    axes: Tensor | None = None,
    *,
    mode: str = "constant",
) -> Tensor:
    """Elements added before and after axes, or taken away where negative (Pad-25)."""
    fill: Operand = 0
    if constant_value is not None:
        f.require(constant_value.count == 1, "constant_value is one element")
        fill = constant_value[(0,) * constant_value.rank]
        if constant_value.value is not None:
            fill = constant_value.value.reshape(-1)[0].item()
    if f.is_late(pads, axes):
        return _pad_at_run_time(f, data, pads, axes, mode, fill)
    where = None if axes is None else f.integers(axes, "axes")
    return _pad(f, data, f.extents(pads, "pads"), where, mode, fill)


def _pad(
    f: Builder, x: Tensor, pads: tuple[Extent, ...], axes: tuple[int, ...] | None, mode: str, fill: Operand
) -> Tensor:
    where = [f.axis(a, x.rank) for a in (range(x.rank) if axes is None else axes)]
    f.require(len(pads) == 2 * len(where), f"{len(pads)} pads for {len(where)} axes")
    given = shapes_text([pads])
    f.require(all(lo > -FAR and hi < FAR for lo, hi in map(span, pads)), f"pads {given} are too large")
    before, after = [as_expr(0)] * x.rank, [as_expr(0)] * x.rank
    for k, a in enumerate(where):
        before[a], after[a] = as_expr(pads[k]), as_expr(pads[k + len(where)])
    left = tuple(extent(b + n + a) for n, b, a in zip(x.shape, before, after, strict=True))
    f.require(all(span(n)[1] >= 0 for n in left), f"pads {given} leave {shapes_text([left])}")
    points = f.axes(tuple(extent(maximum(as_expr(n), 0)) for n in left))
    rows = zip(points, x.shape, before, after, strict=True)
    if mode == "constant":
        return f.map(points, x.at(tuple(i - b for i, _, b, _ in rows), outside=fill), x.type)
    return f.map(points, x[tuple(_inside(f, mode, i, n, b, a) for i, n, b, a in rows)], x.type)


def _inside(f: Builder, mode: str, i: Expr, n: Extent, before: Expr, after: Expr) -> Expr:
    """Where a padded position reads: negative pads cut the axis to [lo, lo + m), then that is continued."""
    lo = simplify(maximum(-before, 0))
    if span(before)[1] <= 0 and span(after)[1] <= 0:
        return i + lo
    m = extent(as_expr(n) - lo + minimum(after, 0))
    f.require(m != 0, "a tensor without elements cannot be continued")
    return there(_continued(f, mode, i - simplify(maximum(before, 0)), as_expr(m)) + lo, n)


def _continued(f: Builder, mode: str, i: Expr, m: Expr) -> Expr:
    """A position, possibly outside 0 .. m, as one inside (Pad-25: edge, reflect, wrap)."""
    match mode:
        case "edge":
            return maximum(minimum(i, m - 1), 0)
        case "wrap":
            return i % (m if interval(extent(m))[0] > 0 else maximum(m, 1))
        case "reflect":  # a triangle wave of period 2(m - 1)
            period = maximum(m * 2 - 2, 1)
            around = i % period
            return select(around < m, around, m * 2 - 2 - around)
    f.require(False, f"mode {mode!r} is unknown")
    return i


def _pad_at_run_time(
    f: Builder, x: Tensor, pads: Tensor, axes: Tensor | None, mode: str, fill: Operand
) -> Tensor:
    """The pads are read when the bundle runs: those in front, then those behind, of each axis given."""
    given = x.rank if axes is None else static(axes.shape[0])
    f.require(pads.shape == (2 * given,), f"{list(pads.shape)} pads for {given} axes")
    front, behind = (f.map((k,), cast(pads[k + at], INT64)) for at, k in _halves(f, given))
    before = [within(parameter(front, axes, a, x.rank, 0)) for a in range(x.rank)]
    after = [within(parameter(behind, axes, a, x.rank, 0)) for a in range(x.rank)]
    counts = [cast(as_expr(n), INT64) + b + e for n, b, e in zip(x.shape, before, after, strict=True)]
    points = f.axes(f.measured_shape(counts, [None] * x.rank))
    index = []
    for i, n, b in zip(points, x.shape, before, strict=True):
        moved = i - cast(b, INDEX)
        f.require(mode == "constant" or n != 0, "nothing is there to continue")
        index.append(moved if mode == "constant" else there(_continued(f, mode, moved, as_expr(n)), n))
    return f.map(points, x.at(tuple(index), outside=fill if mode == "constant" else None), x.type)


def _halves(f: Builder, n: int) -> tuple[tuple[int, Var], tuple[int, Var]]:
    (k,) = f.axes((n,), "k")
    return (0, k), (n, k)


@op("CenterCropPad", since=18)
def center_crop_pad(f: Builder, x: Tensor, shape: Tensor, *, axes: tuple[int, ...] | None = None) -> Tensor:
    """Cropped or padded with zeros on both sides to a shape, the odd element behind (CenterCropPad-18)."""
    wanted: list[Extent] = list(x.shape)
    where = [f.axis(a, x.rank) for a in (range(x.rank) if axes is None else axes)]
    f.require(shape.shape == (len(where),), f"{list(shape.shape)} sizes for {len(where)} axes")
    if f.is_late(shape):
        counts = [f.map((), cast(shape[k], INT64), name="count") for k in range(len(where))]
        for a, count in zip(where, counts, strict=True):
            wanted[a] = f.measured(count, None, axis=a)
    else:
        for a, n in zip(where, f.extents(shape, "shape"), strict=True):
            wanted[a] = n
    points = f.axes(tuple(wanted))
    index = tuple(i + _shift(as_expr(n), as_expr(m)) for i, n, m in zip(points, x.shape, wanted, strict=True))
    return f.map(points, x.at(index, outside=0), x.type)


def _shift(n: Expr, m: Expr) -> Expr:
    """From position in the result to position in the input: (n - m) / 2, the half rounded towards zero."""
    return simplify(maximum(n - m, 0) // 2 - maximum(m - n, 0) // 2)
