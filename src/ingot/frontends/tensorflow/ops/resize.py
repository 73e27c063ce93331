"""Resizing of images, and cutting them into patches.

Bilinear and nearest are ONNX's Resize. Cubic and area are products with a matrix for each axis, as the
weights of TensorFlow's cubic kernel come from a table of 1024 places.
"""

from __future__ import annotations

import numpy as np

from ingot.formula.expr import Array
from ingot.formula.types import FLOAT32, FLOAT64
from ingot.frontends.orders import channels_first, like
from ingot.frontends.tensorflow.ops.table import Call, Result, op
from ingot.frontends.tensorflow.ops.window import listed
from ingot.frontends.tensorflow.values import Tensor

PLACES = 1024
ELEMENTS_LIMIT = 1 << 28


def _sizes(c: Call) -> tuple[Tensor, tuple[int, ...]]:
    x, size = c.tensor(0), c.ints(1, "the size")
    c.require(x.rank == 4 and min(x.shape) > 0, "an image must have four axes and at least one element")
    fits = len(size) == 2 and 0 < min(size) <= max(size) < 1 << 24
    c.require(fits, f"the size must be height and width, each below 2^24, but it is {list(size)}")
    return x, size


@op("ResizeBilinear", "ResizeNearestNeighbor")
def resize(c: Call) -> Result:
    """Images are channels-last. Bilinear results are floats. A nearest pixel at half is the next one."""
    x, size = _sizes(c)
    order, is_linear = channels_first(4), c.node.op == "ResizeBilinear"
    held = c.b.held(x, order)
    held = c.b.cast(held, FLOAT32) if is_linear else held
    if c.node.flag("align_corners"):
        place, nearest = "align_corners", "round_prefer_ceil"
    elif c.node.flag("half_pixel_centers"):
        place, nearest = "half_pixel", "round_prefer_ceil"
    else:
        place, nearest = "asymmetric", "floor"
    sizes = c.b.ints([x.shape[0], x.shape[3], *size])
    how = {"mode": "linear"} if is_linear else {"mode": "nearest", "nearest_mode": nearest}
    made = c.b.one("Resize", held, None, None, sizes, coordinate_transformation_mode=place, **how)
    return Tensor(made, order)


@op("ResizeBicubic", "ResizeArea")
def resize_by_matrices(c: Call) -> Result:
    """[h, H] x [H, W] x [W, w], for each channel."""
    x, size = _sizes(c)
    fits = max(x.shape[1] * size[0], x.shape[2] * size[1]) < ELEMENTS_LIMIT
    c.require(fits, f"resizing to {list(size)} needs a matrix of {ELEMENTS_LIMIT} weights or more")
    order, weights = channels_first(4), _cubic if c.node.op == "ResizeBicubic" else _area
    rows, columns = (weights(c, n, m) for n, m in zip(x.shape[1:3], size, strict=True))
    wide = c.b.one("MatMul", c.b.cast(c.b.held(x, order), FLOAT32), c.b.constant(columns.T, FLOAT32))
    return Tensor(c.b.one("MatMul", c.b.constant(rows, FLOAT32), wide), order)


def _step(c: Call, n: int, m: int) -> float:
    """How far apart neighbours of the result lie in the image."""
    is_aligned = c.node.flag("align_corners") and m > 1
    return float(np.float32(n - 1 if is_aligned else n) / np.float32(m - 1 if is_aligned else m))


def _cubic(c: Call, n: int, m: int) -> Array:
    """Keys' kernel of a = -1/2 without what lies outside, or the older a = -3/4 with the edge repeated."""
    c.require(c.b.is_modest([m, n], FLOAT64), f"an axis of {n} resized to {m}")
    is_new = c.node.flag("half_pixel_centers")
    a = -0.5 if is_new else -0.75
    step, half = np.float32(_step(c, n, m)), np.float32(0.5)  # as TensorFlow computes, in float32
    out = np.arange(m, dtype=np.float32)
    place = (out + half) * step - half if is_new else out * step
    first = np.floor(place).astype(np.int64)
    offset = np.rint((place - np.floor(place)) * PLACES).astype(np.int64)
    near, far = np.arange(PLACES + 1) / PLACES, np.arange(PLACES + 1) / PLACES + 1
    inner, outer = ((a + 2) * near - (a + 3)) * near**2 + 1, ((a * far - 5 * a) * far + 8 * a) * far - 4 * a
    made = np.zeros((m, n))
    taps = (outer[offset], inner[offset], inner[PLACES - offset], outer[PLACES - offset])
    for k, weight in enumerate(taps):
        at = first + k - 1
        inside = np.clip(at, 0, n - 1)
        np.add.at(made, (np.arange(m), inside), weight * (at == inside) if is_new else weight)
    return made / made.sum(1, keepdims=True) if is_new else made


def _area(c: Call, n: int, m: int) -> Array:
    """How much of each pixel lies under one of the result."""
    c.require(c.b.is_modest([m, n], FLOAT64), f"an axis of {n} resized to {m}")
    step = _step(c, n, m)
    begin, end = np.arange(m) * step, (np.arange(m) + 1) * step
    made = np.zeros((m, n))
    for row, (b, e) in enumerate(zip(begin.tolist(), end.tolist(), strict=True)):
        for at in range(int(np.floor(b)), int(np.ceil(e))):
            made[row, min(max(at, 0), n - 1)] += min(at + 1, e) - max(at, b)
    return made / step


@op("ExtractImagePatches")
def patches(c: Call) -> Result:
    """[n, h, w, c] -> [n, rows, columns, taps * c]: gathers of the taps of each axis."""
    x, where = c.tensor(0), [1, 2]
    c.require(x.rank == 4, f"an image must have four axes, but this one has {x.rank}")
    taps, strides, rates = (listed(c, name, where) for name in ("ksizes", "strides", "rates"))
    found, indices = c.b.plain(x), []
    sides = []
    for n, k, s, d in zip(x.shape[1:3], taps, strides, rates, strict=True):
        reach, is_same = (k - 1) * d + 1, c.node.text("padding") == "SAME"
        count = -(-n // s) if is_same else max((n - reach) // s + 1, 0)
        total = max((count - 1) * s + reach - n, 0) if is_same else 0
        c.require(
            0 < count * k < 1 << 24, f"{count} patches of {k} elements along {n}: none fits, or too many do"
        )
        sides.append((total // 2, total - total // 2))
        indices.append((np.arange(count) * s)[:, None] + np.arange(k) * d)
    flat = [0, sides[0][0], sides[1][0], 0, 0, sides[0][1], sides[1][1], 0]
    if any(flat):
        found = c.b.one("Pad", found, c.b.ints(flat), like(c.b, found, 0))
    found = c.b.one("Gather", found, c.b.constant(indices[0]), axis=1)
    found = c.b.one("Gather", found, c.b.constant(indices[1]), axis=3)
    found = c.b.transposed(found, (0, 1, 3, 2, 4, 5))
    rows, columns = (len(i) for i in indices)
    return c.b.reshape(found, (x.shape[0], rows, columns, taps[0] * taps[1] * x.shape[3]))
