"""Windows of images: convolutions, pooling, resizing. Images are held channels-first from here on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ingot.formula.types import FLOAT32, INT8, INT16, INT32, INT64, UINT8
from ingot.frontends.builder import extents_of
from ingot.frontends.orders import channels_first, like
from ingot.frontends.tensorflow.ops.table import Result
from ingot.frontends.tensorflow.ops.window import Geometry, geometry
from ingot.frontends.tensorflow.values import Tensor
from ingot.frontends.tflite.model import Array
from ingot.frontends.tflite.ops.hybrid import quantised_rows
from ingot.frontends.tflite.ops.requantise import DOMAIN, finished, limits, narrowed, scaled_along
from ingot.frontends.tflite.ops.resizing import bilinear_quantised, require_resizable
from ingot.frontends.tflite.ops.settled import settled
from ingot.frontends.tflite.ops.table import Call, activated, op
from ingot.graph.ir import Value

PADDINGS = ("SAME", "VALID")
TAPS_LIMIT = 1 << 24
"""Of all channels of a pooling."""


def geometry_of(c: Call, sizes: Sequence[int], taps: Sequence[int], axes: str = "hw") -> Geometry:
    """Strides, dilations and pads of the spatial axes, by the options."""
    padding = c.option("padding")
    c.require(0 <= padding < len(PADDINGS), f"padding {padding} is not known")
    strides = [1, *(int(c.option(f"stride_{a}")) for a in axes), 1]
    has_dilations = c.operator.kind.startswith(("CONV", "DEPTHWISE"))
    dilations = [1, *(int(c.option(f"dilation_{a}_factor", 1)) if has_dilations else 1 for a in axes), 1]
    call = c.as_standard("Window", padding=PADDINGS[padding], strides=strides, dilations=dilations)
    c.require(
        min(sizes, default=1) > 0 and min(taps, default=1) > 0, f"windows of {list(taps)} of {list(sizes)}"
    )
    return geometry(call, list(sizes), list(taps), list(range(1, 1 + len(axes))))


@op("CONV_2D")
def conv(c: Call) -> Result:
    """The kernel is [filters, taps..., channels of a group]."""
    x, w = c.tensor(0), c.tensor(1)
    c.require(x.rank == w.rank == 4, "image and kernel have four axes")
    channels = w.shape[3]
    c.require(channels > 0 and x.shape[3] % channels == 0, f"{x.shape[3]} channels in groups of {channels}")
    kernel = c.b.transposed(c.b.plain(w), (0, 3, 1, 2))
    return _convolved(c, kernel, geometry_of(c, x.shape[1:3], w.shape[1:3]), x.shape[3] // channels)


@op("DEPTHWISE_CONV_2D")
def depthwise(c: Call) -> Result:
    """The kernel is [1, taps..., channels and filters for each]."""
    x, w = c.tensor(0), c.tensor(1)
    c.require(x.rank == w.rank == 4 and w.shape[0] == 1, "image and kernel have four axes")
    c.require(x.shape[3] > 0 and w.shape[3] % x.shape[3] == 0, f"{x.shape[3]} channels, {w.shape[3]} filters")
    kernel = c.b.transposed(c.b.plain(w), (3, 0, 1, 2))
    return _convolved(c, kernel, geometry_of(c, x.shape[1:3], w.shape[1:3]), x.shape[3])


@op("CONV_3D")
def conv3d(c: Call) -> Result:
    """The kernel is [taps..., channels, filters]."""
    x, w = c.tensor(0), c.tensor(1)
    c.require(x.rank == w.rank == 5 and x.shape[4] == w.shape[3], "image and kernel do not fit")
    kernel = c.b.transposed(c.b.plain(w), (4, 3, 0, 1, 2))
    return _convolved(c, kernel, geometry_of(c, x.shape[1:4], w.shape[:3], "dhw"), 1)


def _convolved(c: Call, kernel: Value, how: Geometry, group: int) -> Tensor:
    """Of numbers, of integers, or of numbers by integers."""
    x, order = c.tensor(0), channels_first(c.tensor(0).rank)
    attributes = {**how.attributes, "kernel_shape": extents_of(kernel)[2:], "group": group}
    held = c.b.held(x, order)
    if x.dtype.is_float and c.tensor(1).dtype.is_float:
        bias = [c.plain(2)] if c.has(2) else []
        return activated(c, Tensor(c.b.one("Conv", held, kernel, *bias, **attributes), order))
    if x.dtype.is_float:
        return _hybrid(c, held, kernel, attributes)
    weights, first, by = _without_settled(c, kernel)
    sums = _sums(c, held, weights, attributes)
    return Tensor(_from_sums(c, sums, first, by), order)


def _without_settled(c: Call, kernel: Value) -> tuple[Value, Value | None, list[float]]:
    """Kernel, bias and factors, changed where channels of bytes are the same for every image."""
    bias, by = c.plain(2) if c.has(2) else None, factors(c)
    start = np.zeros(extents_of(kernel)[0], np.int32) if bias is None else bias.constant
    if c.tensor(0).dtype.bits > 8 or kernel.constant is None or start is None:
        return kernel, bias, by
    zero, to = _zero(c, 1), c.result()
    assert kernel.type is not None, "every value of the importer is inferred"
    image = (c.tensor(0).dtype, _zero(c, 0))
    every = by * len(start) if len(by) == 1 else by
    own = kernel.constant.astype(np.int32) - zero
    made = settled(own, start.reshape(-1), every, image, (c.scale(to)[1], *limits(c, to)))
    if made is None:
        return kernel, bias, by
    weights = c.b.constant((made[0] + zero).astype(kernel.type.numpy))
    return weights, c.b.constant(made[1]), made[2]


def _sums(c: Call, x: Value, kernel: Value, attributes: dict[str, object]) -> Value:
    """Exact integers: 32 bits of bytes, 64 of 16 bits."""
    zeros = [c.b.constant(_zero(c, i), t.type) for i, t in ((0, x), (1, kernel))]
    if x.type in (INT8, UINT8):
        return c.b.one("ConvInteger", x, kernel, *zeros, **attributes)
    c.require(x.type is INT16, f"an image of {x.type} is not supported")
    return c.b.one(f"{DOMAIN}.ConvInteger", x, kernel, **attributes)


def _zero(c: Call, i: int) -> int:
    """The zero point of the image, or of all of the kernel."""
    zero = c.scales(c.info(i)).zero
    c.require(bool(np.all(zero == zero[0])), f"{c.info(i).label} has several zero points")
    return int(zero[0])


def _from_sums(c: Call, sums: Value, bias: Value | None, by: list[float]) -> Value:
    """Bias, then the result's scale, for each channel on its own, its zero point, limits and type."""
    if bias is not None:
        assert sums.type is not None, "every value of the importer is inferred"
        shape = [1, extents_of(bias)[0], *[1] * (len(extents_of(sums)) - 2)]
        sums = c.b.one("Add", sums, c.b.reshape(c.b.cast(bias, sums.type), shape))
    return finished(c, scaled_along(c.b, sums, by, 1), c.result())


def _spread(c: Call, i: int, shape: list[int]) -> list[int]:
    count = int(np.prod(c.tensor(i).shape))
    return [count if n == -1 else n for n in shape]


def factors(c: Call) -> list[float]:
    """The real factor from sums to the result, one for all or one for each channel."""
    image, to = c.scale(c.info(0))[0], c.scale(c.result())[0]
    weights = c.scales(c.info(1))
    if weights.is_single and c.info(0).kind == "UINT8":
        return [float(np.float32(image) * weights.scale[0]) / to]
    return [image * float(s) / to for s in weights.scale]


def _hybrid(c: Call, x: Value, kernel: Value, attributes: dict[str, object]) -> Tensor:
    """Numbers by integers: each image is brought to bytes by its largest element."""
    order = channels_first(c.tensor(0).rank)
    q, zero, scale = quantised_rows(c, x, is_asymmetric=not c.scales(c.info(1)).is_single)
    centred = c.b.one("Sub", c.b.cast(q, INT32), zero)
    sums = c.b.one("Conv", c.b.cast(centred, FLOAT32), c.b.cast(kernel, FLOAT32), **attributes)
    weights = c.scales(c.info(1)).scale
    spread = [1, len(weights), *[1] * (c.tensor(0).rank - 2)]
    y = c.b.one("Mul", c.b.one("Mul", sums, scale), c.b.constant(weights.reshape(spread)))
    if c.has(2):
        y = c.b.one("Add", y, c.b.reshape(c.plain(2), _spread(c, 2, [1, -1, *spread[2:]])))
    return activated(c, Tensor(y, order))


@op("TRANSPOSE_CONV")
def transpose_conv(c: Call) -> Result:
    """`sizes` is the shape of the result; the kernel is [filters, taps..., channels]."""
    w, x = c.tensor(1), c.tensor(2)
    # what TFLite Micro does with sizes that come at run time
    sizes = c.result().shape if c.tensor(0).constant is None else c.ints(0, "the result's shape")
    c.require(len(sizes) == x.rank == w.rank == 4 and w.shape[3] == x.shape[3], "image and kernel do not fit")
    order, taps = channels_first(4), list(w.shape[1:3])
    how = geometry_of(c, sizes[1:3], taps)
    crops = _crops(c, how, x.shape[1:3], taps, sizes[1:3])
    kernel = c.b.transposed(c.b.plain(w), (3, 0, 1, 2))
    held = c.b.held(x, order)
    if x.dtype.is_float:
        made = c.b.one("ConvTranspose", held, kernel, **crops)
        if c.has(3):
            made = c.b.one("Add", made, c.b.reshape(c.plain(3), _spread(c, 3, [1, -1, 1, 1])))
        return activated(c, Tensor(made, order))
    sums = _transposed_sums(c, held, kernel, crops)
    return Tensor(_from_transposed(c, sums), order)


def _crops(
    c: Call, how: Geometry, sizes: Sequence[int], taps: list[int], out: Sequence[int]
) -> dict[str, list[int]]:
    """ONNX's terms: of the full result, what is cut off before and behind."""
    full = [(n - 1) * s + k for n, s, k in zip(sizes, how.strides, taps, strict=True)]
    before = how.pads[:2]
    behind = [f - b - o for f, b, o in zip(full, before, out, strict=True)]
    more = [max(-n, 0) for n in behind]
    c.require(all(m < s for m, s in zip(more, how.strides, strict=True)), f"sizes {list(out)} do not fit")
    pads = [*before, *(max(n, 0) for n in behind)]
    return {"strides": how.strides, "pads": pads, "output_padding": more, "kernel_shape": taps}


def _transposed_sums(c: Call, x: Value, kernel: Value, crops: dict[str, list[int]]) -> Value:
    """Exact integers: the products of a transposed convolution of integers."""
    wide = INT64 if x.type is INT16 else INT32
    image = c.b.one("Sub", c.b.cast(x, wide), c.b.constant(c.scale(c.info(2))[1], wide))
    weights = c.b.one("Sub", c.b.cast(kernel, wide), c.b.constant(_zero(c, 1), wide))
    return c.b.one(f"{DOMAIN}.ConvTranspose", image, weights, **crops)


def _from_transposed(c: Call, sums: Value) -> Value:
    image, to = c.scale(c.info(2))[0], c.scale(c.result())[0]
    scales = [image * float(s) / to for s in c.scales(c.info(1)).scale]
    if c.has(3):
        assert sums.type is not None, "every value of the importer is inferred"
        sums = c.b.one(
            "Add", sums, c.b.reshape(c.b.cast(c.plain(3), sums.type), _spread(c, 3, [1, -1, 1, 1]))
        )
    return finished(c, scaled_along(c.b, sums, scales, 1), c.result())


# ---- pooling


def _pool_taps(c: Call) -> tuple[Tensor, list[int], Geometry]:
    x = c.tensor(0)
    c.require(x.rank == 4, "an image has four axes")
    taps = [int(c.option(f"filter_{a}")) for a in ("height", "width")]
    c.require(min(taps) > 0 and math.prod(taps) * x.shape[3] <= TAPS_LIMIT, f"windows of {taps}")
    return x, taps, geometry_of(c, x.shape[1:3], taps)


@op("MAX_POOL_2D")
def max_pool(c: Call) -> Result:
    x, taps, how = _pool_taps(c)
    order = channels_first(4)
    attributes = {"strides": how.strides, "pads": how.pads, "kernel_shape": taps}
    y = c.b.one("MaxPool", c.b.held(x, order), **attributes)
    if not c.is_quantised(c.result()):
        return activated(c, Tensor(y, order))
    low, high = limits(c, c.result())
    if (low, high) == (x.dtype.lowest, x.dtype.highest):
        return Tensor(y, order)
    return Tensor(c.b.one("Clip", y, like(c.b, y, low), like(c.b, y, high)), order)


@op("AVERAGE_POOL_2D")
def average_pool(c: Call) -> Result:
    """Of what lies inside the image; of integers rounded, halves away from 0."""
    x, taps, how = _pool_taps(c)
    order = channels_first(4)
    if x.dtype.is_float:
        attributes = {"strides": how.strides, "pads": how.pads, "kernel_shape": taps}
        return activated(c, Tensor(c.b.one("AveragePool", c.b.held(x, order), **attributes), order))
    sums = _window_sums(c, x, taps, how)
    counts = c.b.constant(_counts(extents_of(sums), x.shape, taps, how), INT32)
    half = c.b.one("Div", counts, c.b.constant(2, INT32))
    is_positive = c.b.one("Greater", sums, like(c.b, sums, 0))
    moved = c.b.one("Where", is_positive, c.b.one("Add", sums, half), c.b.one("Sub", sums, half))
    whole = c.b.one("Div", moved, counts)
    return Tensor(narrowed(c.b, whole, *limits(c, c.result()), c.result().dtype), order)


def _window_sums(c: Call, x: Tensor, taps: list[int], how: Geometry) -> Value:
    """int32 sums over windows: of whole images, or a convolution of each channel with ones."""
    held, n = c.b.held(x, channels_first(4)), x.shape[3]
    if tuple(taps) == tuple(x.shape[1:3]) and not any(how.pads):
        return c.b.one(f"{DOMAIN}.GlobalSum", held)
    ones = c.b.constant(np.ones((n, 1, *taps)), INT8)
    attributes = {**how.attributes, "kernel_shape": taps, "group": n}
    if x.dtype is INT16:
        return c.b.cast(c.b.one(f"{DOMAIN}.ConvInteger", held, ones, **attributes), INT32)
    return c.b.one("ConvInteger", held, ones, **attributes)


def _counts(out: list[int], shape: Sequence[int], taps: list[int], how: Geometry) -> Array:
    """How many elements of the image each window holds."""
    sides = []
    for m, n, k, s, p in zip(out[2:], shape[1:3], taps, how.strides, how.pads[:2], strict=True):
        first = np.arange(m) * s - p
        sides.append(np.minimum(first + k, n) - np.maximum(first, 0))
    found: Array = (sides[0][:, None] * sides[1][None, :]).reshape(1, 1, *out[2:])
    return found


@op("L2_POOL_2D")
def l2_pool(c: Call) -> Result:
    """The root of the mean of squares."""
    x, taps, how = _pool_taps(c)
    order = channels_first(4)
    held = c.b.held(x, order)
    attributes = {"strides": how.strides, "pads": how.pads, "kernel_shape": taps}
    mean = c.b.one("AveragePool", c.b.one("Mul", held, held), **attributes)
    return activated(c, Tensor(c.b.one("Sqrt", mean), order))


@op("LOCAL_RESPONSE_NORMALIZATION")
def lrn(c: Call) -> Result:
    numbers: dict[str, Any] = {name: float(c.option(name)) for name in ("bias", "alpha", "beta")}
    return c.standard("LRN", depth_radius=int(c.option("radius")), **numbers)


# ---- resizing


@op("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR")
def resize(c: Call) -> Result:
    how: dict[str, Any] = {name: bool(c.option(name)) for name in ("align_corners", "half_pixel_centers")}
    if c.operator.kind == "RESIZE_NEAREST_NEIGHBOR":
        return _nearest(c, **how)
    if c.is_quantised(c.info(0)):
        return bilinear_quantised(c, **how)
    return c.standard("ResizeBilinear", **how)


def _nearest(c: Call, align_corners: bool, half_pixel_centers: bool) -> Tensor:
    """Rows and columns gathered, places computed in float32 as TFLite does."""
    x, size = c.tensor(0), c.ints(1, "the size")
    require_resizable(c, x, size)
    found, order = c.b.held(x, channels_first(4)), channels_first(4)
    for axis, (n, m) in enumerate(zip(x.shape[1:3], size, strict=True)):
        scale = (
            np.float32(n - 1) / np.float32(m - 1)
            if align_corners and m > 1
            else np.float32(n) / np.float32(m)
        )
        at = (np.arange(m).astype(np.float32) + np.float32(0.5 if half_pixel_centers else 0)) * scale
        whole = np.floor(at + np.float32(0.5)) if align_corners else np.floor(at)
        index = np.clip(whole.astype(np.int64), 0, n - 1)
        found = c.b.one("Gather", found, c.b.ints(index.tolist()), axis=2 + axis)
    return Tensor(found, order)
