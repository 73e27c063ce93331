"""Pooling: of windows, of everything, and of as many parts as are wanted."""

from __future__ import annotations

from typing import Any

import numpy as np

from ingot.errors import UnsupportedError
from ingot.frontends.keras.layers.convolution import axes_of, geometry, sizes
from ingot.frontends.keras.table import Call, Result, layer
from ingot.frontends.orders import Tensor
from ingot.graph.ir import Value

NAMES = [f"{kind}{n}D" for kind in ("MaxPooling", "AveragePooling", "MaxPool", "AvgPool") for n in (1, 2, 3)]
GLOBAL = [
    f"Global{kind}{n}D" for kind in ("MaxPooling", "AveragePooling", "MaxPool", "AvgPool") for n in (1, 2, 3)
]
ADAPTIVE = [f"Adaptive{kind}Pooling{n}D" for kind in ("Max", "Average") for n in (1, 2, 3)]
PARTS_LIMIT = 4096


@layer(*NAMES)
def pool(c: Call) -> Result:
    """Averages count what lies inside the image."""
    s, x, n = c.settings, c.x, axes_of(c)
    extents, _ = sizes(c, x, n)
    taps = s.counts("pool_size", n, 2)
    how = geometry(c, extents, taps, s.counts("strides", n) if s.has("strides") else taps)
    kind = "MaxPool" if c.layer.kind.startswith("Max") else "AveragePool"
    order = c.order(x.rank)
    attributes: dict[str, Any] = {"strides": how.strides, "pads": how.pads, "kernel_shape": taps}
    return Tensor(c.b.one(kind, c.b.held(x, order), **attributes), order)


@layer(*GLOBAL, mask="own")
def pool_all(c: Call) -> Result:
    """Over all places of each channel; GlobalAveragePooling1D leaves out the steps that a mask hides."""
    x, n = c.x, axes_of(c)
    sizes(c, x, n)
    order = c.order(x.rank)
    is_kept = c.settings.flag("keepdims")
    mask = c.tensor_at(1, "mask")
    hidden = c.plain(mask) if mask is not None else c.mask_of(x)
    is_mean = "Max" not in c.layer.kind
    if is_mean and n == 1 and hidden is not None:
        return _masked_mean(c, x, hidden, is_kept)
    op = "ReduceMean" if is_mean else "ReduceMax"
    if not is_kept:
        axes = list(range(2, x.rank))
        return Tensor(c.b.one(op, c.b.held(x, order), c.b.ints(axes), keepdims=0))
    made = c.b.one("GlobalAveragePool" if is_mean else "GlobalMaxPool", c.b.held(x, order))
    return Tensor(made, order)


def _masked_mean(c: Call, x: Tensor, mask: Value, is_kept: bool) -> Tensor:
    """The sum of what is shown by its number."""
    steps, channels = (1, 2) if c.order(3) is not None else (2, 1)
    shown = c.b.one("Unsqueeze", c.b.cast(mask, x.dtype), c.b.ints([channels]))
    total = c.b.one("ReduceSum", c.b.one("Mul", c.plain(x), shown), c.b.ints([steps]), keepdims=int(is_kept))
    return Tensor(
        c.b.one("Div", total, c.b.one("ReduceSum", shown, c.b.ints([steps]), keepdims=int(is_kept)))
    )


@layer(*ADAPTIVE)
def adaptive(c: Call) -> Result:
    """Part i of m goes from floor(i n / m) to ceil((i + 1) n / m), in each axis by itself."""
    x, n = c.x, axes_of(c)
    extents, _ = sizes(c, x, n)
    order = c.order(x.rank)
    held = c.b.held(x, order)
    wanted = c.settings.counts("output_size", n)
    if max(wanted) > PARTS_LIMIT:
        raise UnsupportedError(f"{c.layer.label}: {max(wanted)} parts")
    for axis, (extent, parts) in enumerate(zip(extents, wanted, strict=True), 2):
        held = _parts(c, held, axis, extent, parts)
    return Tensor(held, order)


def _parts(c: Call, x: Value, axis: int, extent: int, parts: int) -> Value:
    """One axis: a gather of each part's elements, then a reduction; short parts repeat their last element."""
    i = np.arange(parts)
    first, last = i * extent // parts, -(-(i + 1) * extent // parts) - 1
    length = int((last - first).max()) + 1
    places = np.minimum(first[:, None] + np.arange(length), last[:, None])
    taken = c.b.one("Gather", x, c.b.constant(places), axis=axis)
    if "Max" in c.layer.kind:
        return c.b.one("ReduceMax", taken, c.b.ints([axis + 1]), keepdims=0)
    inside = first[:, None] + np.arange(length) <= last[:, None]
    share = (inside / inside.sum(1, keepdims=True)).astype(np.float64)
    weights = c.b.constant(share.reshape(parts, length, *[1] * (Tensor(x).rank - axis - 1)), Tensor(x).dtype)
    return c.b.one("ReduceSum", c.b.one("Mul", taken, weights), c.b.ints([axis + 1]), keepdims=0)
