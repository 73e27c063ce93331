"""Resizing of images: TensorFlow's three ways to place pixels."""

from __future__ import annotations

from ingot.formula.types import FLOAT32
from ingot.frontends.tensorflow.ops.table import Call, Result, channels_first, op
from ingot.frontends.tensorflow.values import Tensor


@op("ResizeBilinear", "ResizeNearestNeighbor")
def resize(c: Call) -> Result:
    """Images are channels-last. Bilinear results are floats. A nearest pixel at half is the next one."""
    x, size = c.tensor(0), c.ints(1, "the size")
    c.require(x.rank == 4 and len(size) == 2 and min(size) > 0, f"an image to {list(size)}")
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
