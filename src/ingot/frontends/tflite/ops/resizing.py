"""Bilinear resizing of integers. Of int8 and int16: weights of ten bits, sums rounded once, halves away from
0; of uint8: float32.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ingot.formula.types import FLOAT32, INT32, INT64
from ingot.frontends.orders import channels_first, like
from ingot.frontends.tensorflow.values import Tensor
from ingot.frontends.tflite.fixed import Array
from ingot.frontends.tflite.ops.table import Call
from ingot.graph.ir import Value

ONE = 1 << 10
SIZE_LIMIT = 1 << 15


def require_resizable(c: Call, x: Tensor, size: Sequence[int]) -> None:
    """Raise ShapeError for what is no image, or for a size that no image has."""
    fits = x.rank == 4 and len(size) == 2 and min(size) > 0 and min(x.shape) > 0
    c.require(fits and max(size) <= SIZE_LIMIT, f"an image to {list(size)}")


def bilinear_quantised(c: Call, align_corners: bool, half_pixel_centers: bool) -> Tensor:
    """ResizeBilinearInteger: rows, then columns, exact; of bytes in 32 bits, of 16 bits in 64."""
    x, size = c.tensor(0), c.ints(1, "the size")
    require_resizable(c, x, size)
    if c.info(0).kind == "UINT8":
        return _in_floats(c, x, size, align_corners, half_pixel_centers)
    order, b = channels_first(4), c.b
    found = b.cast(b.held(x, order), INT32 if x.dtype.bits == 8 else INT64)
    for axis, (n, m) in enumerate(zip(x.shape[1:3], size, strict=True)):
        found = _along(c, found, 2 + axis, _places(n, m, align_corners, half_pixel_centers))
    assert found.type is not None, "every value of the importer is inferred"
    half = like(b, found, 1 << 19)
    is_positive = b.one("Greater", found, like(b, found, 0))
    moved = b.one("Where", is_positive, b.one("Add", found, half), b.one("Sub", found, half))
    return Tensor(b.cast(b.one("Div", moved, like(b, found, 1 << 20)), x.dtype), order)


def _in_floats(
    c: Call, x: Tensor, size: Sequence[int], align_corners: bool, half_pixel_centers: bool
) -> Tensor:
    """ResizeBilinear: four neighbours by their weights, added in float32 in this order, and a half."""
    order, b = channels_first(4), c.b
    held = b.held(x, order)
    sides = [_sides(n, m, align_corners, half_pixel_centers) for n, m in zip(x.shape[1:3], size, strict=True)]
    products = []
    for column in (0, 1):
        for row in (0, 1):
            found = held
            for axis, (places, _) in zip((2, 3), (sides[0][row], sides[1][column]), strict=True):
                found = b.one("Gather", found, b.ints(places.tolist()), axis=axis)
            found = b.cast(found, FLOAT32)
            down, right = sides[0][row][1].reshape(-1, 1), sides[1][column][1]
            products.append(b.one("Mul", b.one("Mul", found, b.constant(down)), b.constant(right)))
    made = products[0]
    for other in (*products[1:], b.constant(0.5, FLOAT32)):
        made = b.one("Add", made, other)
    return Tensor(b.cast(made, x.dtype), order)


def _sides(
    n: int, m: int, align_corners: bool, half_pixel_centers: bool
) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """Of each place the neighbour before it and its weight, and those behind it, in float32."""
    one, half = np.float32(1), np.float32(0.5)
    is_aligned = align_corners and m > 1
    scale = np.float32(n - 1) / np.float32(m - 1) if is_aligned else np.float32(n) / np.float32(m)
    at = np.arange(m, dtype=np.float32)
    at = (at + half) * scale - half if half_pixel_centers else at * scale
    low = np.maximum(np.floor(at), 0).astype(np.int64)
    high = np.minimum(np.ceil(at), n - 1).astype(np.int64)
    weight = at - low.astype(np.float32)
    return (np.minimum(low, n - 1), one - weight), (high, weight)


def _places(n: int, m: int, align_corners: bool, half_pixel_centers: bool) -> tuple[Array, Array, Array]:
    """The two neighbours of each place, and how far it lies from the first, in 1024ths."""
    is_aligned = align_corners and m > 1
    top, below = (n - 1, m - 1) if is_aligned else (n, m)
    scale = (ONE * top + below // 2) // below
    at = np.arange(m) * scale + (scale // 2 - ONE // 2 if half_pixel_centers else 0)
    truncated = np.where(at < 0, -(-at // ONE), at // ONE)
    ceiled = at + ONE - 1
    last = np.where(ceiled < 0, -(-ceiled // ONE), ceiled // ONE)
    low, high = np.maximum(truncated, 0), np.minimum(last, n - 1)
    return np.minimum(low, n - 1), high, at - ONE * low


def _along(c: Call, x: Value, axis: int, places: tuple[Array, Array, Array]) -> Value:
    b, (low, high, weight) = c.b, places
    spread = [1] * 4
    spread[axis] = len(weight)
    assert x.type is not None, "every value of the importer is inferred"
    near, far = (b.constant(w.reshape(spread), x.type) for w in (ONE - weight, weight))
    sides = [b.one("Gather", x, b.ints(i.tolist()), axis=axis) for i in (low, high)]
    return b.one("Add", b.one("Mul", sides[0], near), b.one("Mul", sides[1], far))
