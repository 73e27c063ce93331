"""What sees windows of an image (convolutions, pooling) or works on its channels (normalisations, blocks).

Images are held channels-first from here on, until somebody needs them otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ingot.frontends.builder import extents_of
from ingot.frontends.orders import Order, channels_first, like, same_pads, sliced
from ingot.frontends.tensorflow.ops.elementwise import biased
from ingot.frontends.tensorflow.ops.table import OPS, Call, Result, op
from ingot.frontends.tensorflow.values import Blocks, Tensor
from ingot.graph.ir import Value

FUSED = {"Relu": "Relu", "Elu": "Elu", "Sigmoid": "Sigmoid", "Tanh": "Tanh"}


@dataclass(frozen=True, slots=True)
class Geometry:
    """Strides, dilations and pads of the spatial axes, in ONNX's terms."""

    strides: list[int]
    dilations: list[int]
    pads: list[int]

    @property
    def is_plain(self) -> bool:
        """Whether every output sees its own neighbours, and none sees padding."""
        return set(self.strides) == set(self.dilations) == {1} and not any(self.pads)

    @property
    def attributes(self) -> dict[str, list[int]]:
        return {"strides": self.strides, "dilations": self.dilations, "pads": self.pads}


def spatial(c: Call, x: Tensor) -> tuple[Order | None, list[int]]:
    """The order in which channels come first, and where the spatial axes are in TensorFlow's."""
    c.require(x.rank in (4, 5), f"an image must have four or five axes, but this one has {x.rank}")
    order = c.order(x.rank)
    return order, list(range(1, x.rank - 1)) if order else list(range(2, x.rank))


def geometry(c: Call, sizes: list[int], taps: list[int], where: list[int]) -> Geometry:
    """Padding SAME covers every input, more of it behind; EXPLICIT lists two numbers for each axis."""
    strides = listed(c, "strides", where)
    dilations = listed(c, "dilations", where)
    padding, pads = c.node.text("padding", "VALID"), [[0, 0] for _ in where]
    if padding == "SAME":
        each = zip(sizes, taps, strides, dilations, strict=True)
        pads = [list(same_pads(n, k, s, d)) for n, k, s, d in each]
    elif padding == "EXPLICIT":
        given = c.node.integers("explicit_paddings")
        count = 2 * (len(where) + 2)
        fits = len(given) == count and min(given) >= 0
        c.require(fits, f"explicit_paddings must be {count} numbers from 0 on, but it is {list(given)}")
        pads = [[given[2 * a], given[2 * a + 1]] for a in where]
    elif padding != "VALID":
        raise c.refuse(f"the padding {padding!r} is not known; it must be SAME, VALID or EXPLICIT")
    return Geometry(strides, dilations, [p[0] for p in pads] + [p[1] for p in pads])


def listed(c: Call, name: str, where: list[int]) -> list[int]:
    """An attribute's numbers for the spatial axes; those of the batch and the channels must be 1."""
    count = len(where) + 2
    given = c.node.integers(name) or (1,) * count
    fits = len(given) == count and min(given) > 0
    c.require(fits, f"{name} must be {count} positive numbers, one for each axis, but it is {list(given)}")
    if any(n != 1 for i, n in enumerate(given) if i not in where):
        raise c.refuse(f"{name} is {list(given)}, but only spatial axes may have another number than 1")
    return [given[a] for a in where]


@op("Conv2D", "Conv3D")
def conv(c: Call) -> Result:
    """The kernel is [taps..., channels of a group, filters]."""
    x, w = c.tensor(0), c.tensor(1)
    order, where = spatial(c, x)
    c.require(w.rank == x.rank, f"the kernel has {w.rank} axes, but the image has {x.rank}")
    taps, channels = list(w.shape[:-2]), x.shape[-1 if order else 1]
    fits = w.shape[-2] > 0 and channels % w.shape[-2] == 0
    c.require(
        fits, f"the image's {channels} channels do not divide into groups of {w.shape[-2]}, the kernel's"
    )
    how = geometry(c, [x.shape[a] for a in where], taps, where)
    kernel = c.b.transposed(c.b.plain(w), (w.rank - 1, w.rank - 2, *range(w.rank - 2)))
    group = channels // w.shape[-2]
    return _convolved(c, x, kernel, how, group, order)


def _convolved(c: Call, x: Tensor, kernel: Value, how: Geometry, group: int, order: Order | None) -> Tensor:
    """The convolution; of blocks without pads and strides it notes what it may turn out to be."""
    taps, blocks = extents_of(kernel)[2:], None
    if x.blocks is not None and x.blocks.kernel is None and order is not None and how.is_plain:
        blocks = replace(x.blocks, kernel=kernel, group=group)
    attributes = {**how.attributes, "kernel_shape": taps, "group": group}
    return Tensor(c.b.one("Conv", c.b.held(x, order), kernel, **attributes), order, blocks=blocks)


@op("DepthwiseConv2dNative")
def depthwise(c: Call) -> Result:
    """The kernel is [taps..., channels, filters for each]."""
    x, w = c.tensor(0), c.tensor(1)
    order, where = spatial(c, x)
    c.require(w.rank == 4 and x.rank == 4, "kernel and image must have four axes each")
    *taps, channels, multiplier = w.shape
    given = x.shape[-1 if order else 1]
    c.require(channels == given, f"the kernel is for {channels} channels, but the image has {given}")
    how = geometry(c, [x.shape[a] for a in where], taps, where)
    kernel = c.b.transposed(c.b.plain(w), (2, 3, 0, 1))
    kernel = c.b.reshape(kernel, (channels * multiplier, 1, *taps))
    return _convolved(c, x, kernel, how, channels, order)


@op("Conv2DBackpropInput", "Conv3DBackpropInputV2")
def conv_transpose(c: Call) -> Result:
    """The gradient of a convolution: `sizes` is the shape of the result."""
    sizes, w, x = c.ints(0, "the result's shape"), c.tensor(1), c.tensor(2)
    order, where = spatial(c, x)
    fits = len(sizes) == w.rank == x.rank
    c.require(fits, f"the result's shape {list(sizes)}, the kernel and the image must have equally many axes")
    taps, out = list(w.shape[:-2]), [sizes[a] for a in where]
    how = geometry(c, out, taps, where)
    n = len(where)
    reach = zip([x.shape[a] for a in where], taps, how.strides, how.dilations, range(n), strict=True)
    least = [(m - 1) * s + (k - 1) * d + 1 - how.pads[i] - how.pads[n + i] for m, k, s, d, i in reach]
    more = [o - m for o, m in zip(out, least, strict=True)]
    fits = all(0 <= m < s for m, s in zip(more, how.strides, strict=True))
    most = [m + s - 1 for m, s in zip(least, how.strides, strict=True)]
    c.require(fits, f"the result is {out}, but strides and pads allow {least} to {most}")
    kernel = c.b.transposed(c.b.plain(w), (w.rank - 1, w.rank - 2, *range(w.rank - 2)))
    attributes = {**how.attributes, "kernel_shape": taps, "output_padding": more}
    return Tensor(c.b.one("ConvTranspose", c.b.held(x, order), kernel, **attributes), order)


@op("_FusedConv2D", "_FusedDepthwiseConv2dNative", "_FusedMatMul")
def fused(c: Call) -> Result:
    """What TensorFlow's own optimiser joins: a bias, a normalisation, an activation behind the product."""
    first = Call(c.b, c.node, c.items[:2])
    y = OPS[c.node.op.removeprefix("_Fused")](first)
    assert isinstance(y, Tensor), "a product has one result"
    rest = c.tensors[2:]
    for step in c.node.texts("fused_ops"):
        if step == "BiasAdd" and rest:
            y = biased(c, y, rest[0])
        elif step == "FusedBatchNorm" and len(rest) >= 4:
            y = normalized(c, y, rest[:4])
        elif step == "Relu6":
            y = Tensor(c.b.one("Clip", y.value, like(c.b, y.value, 0), like(c.b, y.value, 6)), y.order)
        elif step == "LeakyRelu":
            y = Tensor(c.b.one("LeakyRelu", y.value, alpha=c.node.number("leakyrelu_alpha", 0.2)), y.order)
        elif step in FUSED:
            y = Tensor(c.b.one(FUSED[step], y.value), y.order)
        else:
            raise c.refuse(f"the fused operation {step!r} is not known")
    return y


# ---- pooling


@op("MaxPool", "MaxPool3D", "AvgPool", "AvgPool3D", "MaxPoolV2")
def pool(c: Call) -> Result:
    """Averages count what lies inside the image."""
    x = c.tensor(0)
    order, where = spatial(c, x)
    if c.node.op == "MaxPoolV2":
        c = _with_sizes(c)
    taps = listed(c, "ksize", where)
    how = geometry(c, [x.shape[a] for a in where], taps, where)
    kind = "MaxPool" if c.node.op.startswith("Max") else "AveragePool"
    attributes = {"strides": how.strides, "pads": how.pads, "kernel_shape": taps}
    return Tensor(c.b.one(kind, c.b.held(x, order), **attributes), order)


def _with_sizes(c: Call) -> Call:
    """MaxPoolV2 has kernel and strides as inputs: the same node with attributes."""
    from ingot.frontends.tensorflow.protos import message

    given = dict(c.node.attributes)
    for i, name in ((1, "ksize"), (2, "strides")):
        given[name] = message("Attr")
        given[name].list.i.extend(c.ints(i, name))
    return Call(c.b, replace(c.node, attributes=given), c.items[:1])


# ---- channels


@op("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3", "_FusedBatchNormEx")
def fused_batch_norm(c: Call) -> Result:
    """Mean and variance are inputs, or in training those of the batch."""
    x, given = c.tensor(0), c.tensors[1:5]
    c.require(
        len(given) == 4, f"it has {len(c.items)} inputs, but needs an image, scale, offset, mean and variance"
    )
    if c.node.flag("is_training", True):
        given = [*given[:2], *_statistics(c, x)]
    y, mean, variance = normalized(c, x, given), *given[2:]
    if c.node.op == "_FusedBatchNormEx":
        y = _after_norm(c, y)
    return [y, mean, variance, mean, variance, mean]


def normalized(c: Call, x: Tensor, given: list[Tensor]) -> Tensor:
    """ONNX's BatchNormalization over channels-first images."""
    order, _ = spatial(c, x)
    values = [c.b.plain(t) for t in given]
    epsilon = c.node.number("epsilon", 1e-4)
    return Tensor(c.b.one("BatchNormalization", c.b.held(x, order), *values, epsilon=epsilon), order)


def _statistics(c: Call, x: Tensor) -> list[Tensor]:
    order, _ = spatial(c, x)
    held = c.b.held(x, order)
    axes = c.b.ints([0, *range(2, x.rank)])
    kept = c.b.one("ReduceMean", held, axes, keepdims=1)
    off = c.b.one("Sub", held, kept)
    variance = c.b.one("ReduceMean", c.b.one("Mul", off, off), axes, keepdims=0)
    return [Tensor(c.b.reshape(kept, extents_of(variance))), Tensor(variance)]


def _after_norm(c: Call, y: Tensor) -> Tensor:
    if len(c.items) > 5 and c.node.integer("num_side_inputs"):
        y = Tensor(c.b.one("Add", y.value, c.b.held(c.tensor(5), y.order)), y.order)
    activation = c.node.text("activation_mode", "Identity")
    if activation not in ("Identity", "Relu"):
        raise c.refuse(f"the activation {activation!r} is not known; it must be Identity or Relu")
    return Tensor(c.b.one("Relu", y.value), y.order) if activation == "Relu" else y


@op("BatchNormWithGlobalNormalization")
def old_batch_norm(c: Call) -> Result:
    """Inputs: image, mean, variance, offset, scale."""
    x, mean, variance, offset, scale = c.tensors[:5]
    order, _ = spatial(c, x)
    values = [c.b.plain(t) for t in (scale, offset, mean, variance)]
    if not c.node.flag("scale_after_normalization", True):
        values[0] = c.b.filled(mean.shape, 1, x.dtype)
    epsilon = c.node.number("variance_epsilon", 1e-3)
    return Tensor(c.b.one("BatchNormalization", c.b.held(x, order), *values, epsilon=epsilon), order)


@op("LRN")
def lrn(c: Call) -> Result:
    """TensorFlow's alpha counts for every channel of the window, ONNX's for all together."""
    x, radius = c.tensor(0), c.node.integer("depth_radius", 5)
    order, _ = spatial(c, x)
    size = 2 * radius + 1
    how = {"alpha": c.node.number("alpha", 1.0) * size, "beta": c.node.number("beta", 0.5)}
    return Tensor(
        c.b.one("LRN", c.b.held(x, order), size=size, bias=c.node.number("bias", 1.0), **how), order
    )


@op("SpaceToDepth", "DepthToSpace")
def depth_and_space(c: Call) -> Result:
    x = c.tensor(0)
    order, _ = spatial(c, x)
    mode = {"mode": "DCR"} if c.node.op == "DepthToSpace" else {}
    return Tensor(
        c.b.one(c.node.op, c.b.held(x, order), blocksize=c.node.integer("block_size", 2), **mode), order
    )


@op("SpaceToBatchND", "SpaceToBatch")
def space_to_batch(c: Call) -> Result:
    """[n, s, rest] -> [n, s/b, b, rest] -> [b, n, s/b, rest]"""
    x, block, pads = _blocks(c)
    m = len(block)
    sides = [[0, 0], *pads, *[[0, 0]] * (x.rank - 1 - m)]
    flat = [s[0] for s in sides] + [s[1] for s in sides]
    found = c.b.one("Pad", c.b.plain(x), c.b.ints(flat), like(c.b, x.value, 0)) if any(flat) else c.b.plain(x)
    size = [n + sum(p) for n, p in zip(x.shape[1 : m + 1], pads, strict=True)]
    fits = all(n % b == 0 for n, b in zip(size, block, strict=True))
    c.require(fits, f"the padded extents {size} do not divide into blocks of {block}; pad them to multiples")
    parts = [k for n, b in zip(size, block, strict=True) for k in (n // b, b)]
    rest = x.shape[m + 1 :]
    found = c.b.reshape(found, (x.shape[0], *parts, *rest))
    first = [2 * i + 2 for i in range(m)]
    order = [*first, 0, *(i - 1 for i in first), *range(2 * m + 1, 2 * m + 1 + len(rest))]
    outer = [n // b for n, b in zip(size, block, strict=True)]
    made = c.b.reshape(c.b.transposed(found, tuple(order)), (x.shape[0] * int(np.prod(block)), *outer, *rest))
    return Tensor(made, blocks=Blocks(x, block, pads) if m == x.rank - 2 else None)


@op("BatchToSpaceND", "BatchToSpace")
def batch_to_space(c: Call) -> Result:
    """The other way, and then `crops` cut off."""
    x, block, crops = _blocks(c)
    m, count = len(block), int(np.prod(block))
    dilated = _dilated(c, x, block, crops)
    if dilated is not None:
        return dilated
    c.require(
        x.shape[0] % count == 0,
        f"a batch of {x.shape[0]} does not divide into {count}, for blocks of {block}",
    )
    rest = x.shape[m + 1 :]
    found = c.b.reshape(c.b.plain(x), (*block, x.shape[0] // count, *x.shape[1:]))
    order = [m, *(k for i in range(m) for k in (m + 1 + i, i)), *range(2 * m + 1, 2 * m + 1 + len(rest))]
    size = [n * b for n, b in zip(x.shape[1 : m + 1], block, strict=True)]
    found = c.b.reshape(c.b.transposed(found, tuple(order)), (x.shape[0] // count, *size, *rest))
    starts = [0, *(p[0] for p in crops), *[0] * len(rest)]
    ends = [x.shape[0] // count, *(n - p[1] for n, p in zip(size, crops, strict=True)), *rest]
    fits = all(s <= e for s, e in zip(starts, ends, strict=True))
    c.require(fits, f"the crops {crops} take more than the {size} elements that there are")
    return sliced(c.b, found, starts, ends, [1] * len(ends))


def _dilated(c: Call, x: Tensor, block: list[int], crops: list[list[int]]) -> Tensor | None:
    """A convolution of an image's blocks is one of the image, dilated; crops take from its pads."""
    was = x.blocks
    if was is None or was.kernel is None or was.block != block:
        return None
    sides = [
        [p - q for p, q in zip(pad, crop, strict=True)] for pad, crop in zip(was.pads, crops, strict=True)
    ]
    if min(min(s) for s in sides) < 0:
        return None
    order, taps = channels_first(was.source.rank), extents_of(was.kernel)[2:]
    how = Geometry([1] * len(block), block, [s[0] for s in sides] + [s[1] for s in sides])
    attributes = {**how.attributes, "kernel_shape": taps, "group": was.group}
    return Tensor(c.b.one("Conv", c.b.held(was.source, order), was.kernel, **attributes), order)


def _blocks(c: Call) -> tuple[Tensor, list[int], list[list[int]]]:
    """The tensor, the block of each axis, and two numbers for each."""
    x = c.tensor(0)
    if c.node.op.endswith("ND"):
        block, sides = list(c.ints(1, "the block")), c.ints(2, "the padding")
    else:
        block, sides = [c.node.integer("block_size", 2)] * 2, c.ints(1, "the padding")
    fits = len(sides) == 2 * len(block) and len(block) < x.rank and min(block, default=1) > 0
    said = f"the block {block} needs positive numbers and two paddings or crops from 0 on for each"
    c.require(fits and min(sides, default=0) >= 0, f"{said}, but these are {list(sides)}")
    return x, block, [list(sides[i : i + 2]) for i in range(0, len(sides), 2)]
