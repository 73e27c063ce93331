"""Convolutions: of one to three axes, grouped, dilated, causal, separable, by channel, transposed.

Images are held channels-first from here on, until somebody needs them otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ingot.formula.expr import Array
from ingot.frontends.keras.configs import Layer
from ingot.frontends.keras.layers.activation import activated
from ingot.frontends.keras.layers.core import kernel_and_bias, require_floats
from ingot.frontends.keras.settings import Settings
from ingot.frontends.keras.table import Call, Result, layer
from ingot.frontends.keras.weights import Spec
from ingot.frontends.orders import Tensor, same_pads
from ingot.graph.ir import Value

PADDINGS = ("valid", "same", "causal")


@dataclass(frozen=True, slots=True)
class Geometry:
    """Taps, strides, dilations and pads of the spatial axes."""

    taps: list[int]
    strides: list[int]
    dilations: list[int]
    pads: list[int]

    @property
    def attributes(self) -> dict[str, Any]:
        return {
            "kernel_shape": self.taps,
            "strides": self.strides,
            "dilations": self.dilations,
            "pads": self.pads,
        }


def axes_of(c: Call) -> int:
    """How many spatial axes the layer's class has: the digit of its name."""
    return next(int(d) for d in c.layer.kind if d.isdigit())


def sizes(c: Call, x: Tensor, n: int) -> tuple[list[int], int]:
    """The spatial extents and the number of channels of an image."""
    c.require(x.rank == n + 2, f"an input of {n + 2} axes is needed")
    is_last = c.order(x.rank) is not None
    return list(x.shape[1:-1] if is_last else x.shape[2:]), x.shape[-1 if is_last else 1]


def geometry(c: Call, extents: Sequence[int], taps: list[int], strides: list[int]) -> Geometry:
    """Padding as the layer says it. Raises ModelError for another word than Keras'."""
    n = len(extents)
    dilations = c.settings.counts("dilation_rate", n, 1)
    padding = c.settings.choice("padding", PADDINGS, "valid")
    both = [(0, 0)] * n
    if padding == "same":
        both = [same_pads(*given) for given in zip(extents, taps, strides, dilations, strict=True)]
    elif padding == "causal":
        both = [(d * (k - 1), 0) for k, d in zip(taps, dilations, strict=True)]
    reach = [(k - 1) * d + 1 for k, d in zip(taps, dilations, strict=True)]
    fits = all(e + sum(p) >= r for e, p, r in zip(extents, both, reach, strict=True))
    c.require(fits, f"a window of {reach} leaves the image")
    return Geometry(taps, strides, dilations, [p[0] for p in both] + [p[1] for p in both])


def convolved(
    c: Call, x: Tensor, kernel: Value, how: Geometry, group: int = 1, bias: Value | None = None
) -> Tensor:
    """The convolution of an image with a kernel in ONNX's order."""
    order = c.order(x.rank)
    held = c.b.cast(c.b.held(x, order), c.settings.compute)
    return Tensor(c.b.one("Conv", held, kernel, bias, **how.attributes, group=group), order)


def bias_of(c: Call, count: int) -> Value | None:
    return c.weight("bias", [count]) if c.settings.flag("use_bias", True) else None


def outward(kernel: Array) -> Array:
    """[taps..., in, out] -> [out, in, taps...]"""
    n = kernel.ndim - 2
    return np.transpose(kernel, (n + 1, n, *range(n)))


@layer(
    "Conv1D", "Conv2D", "Conv3D", "Convolution1D", "Convolution2D", "Convolution3D", weights=kernel_and_bias
)
def conv(c: Call) -> Result:
    """The kernel is [taps..., channels of a group, filters]."""
    require_floats(c)
    s, x, n = c.settings, c.x, axes_of(c)
    extents, channels = sizes(c, x, n)
    taps, groups, filters = s.counts("kernel_size", n), s.count("groups", 1), s.count("filters")
    c.require(channels % groups == 0 and filters % groups == 0, f"{channels} channels in {groups} groups")
    how = geometry(c, extents, taps, s.counts("strides", n, 1))
    kernel = outward(c.array("kernel", [*taps, channels // groups, filters]))
    made = convolved(c, x, constant(c, "kernel", kernel), how, groups, bias_of(c, filters))
    return activated(c, made)


def constant(c: Call, name: str, array: Array) -> Value:
    """What is made of a variable, once for each layer however often it is called."""
    key = (c.tree, f"{name}/turned", c.settings.compute)
    if key not in c.world.constants:
        c.world.constants[key] = c.held(name, array.astype(c.settings.compute.numpy))
    return c.world.constants[key]


# ---- by channel


def _depthwise_weights(layer: Layer, settings: Settings) -> Spec:
    return Spec(("kernel", "bias") if settings.flag("use_bias", True) else ("kernel",))


def by_channel(c: Call, name: str) -> Tensor:
    """[taps..., channels, filters for each]: every channel by itself."""
    s, x, n = c.settings, c.x, axes_of(c)
    extents, channels = sizes(c, x, n)
    taps, many = s.counts("kernel_size", n), s.count("depth_multiplier", 1)
    how = geometry(c, extents, taps, s.counts("strides", n, 1))
    kernel = np.transpose(c.array(name, [*taps, channels, many]), (n, n + 1, *range(n)))
    turned = constant(c, name, kernel.reshape(channels * many, 1, *taps))
    bias = bias_of(c, channels * many) if name == "kernel" else None
    return convolved(c, x, turned, how, channels, bias)


@layer("DepthwiseConv1D", "DepthwiseConv2D", weights=_depthwise_weights)
def depthwise(c: Call) -> Result:
    require_floats(c)
    return activated(c, by_channel(c, "kernel"))


def _separable_weights(layer: Layer, settings: Settings) -> Spec:
    bias = ("bias",) if settings.flag("use_bias", True) else ()
    return Spec(("depthwise_kernel", "pointwise_kernel", *bias))


SEPARABLE = ("SeparableConv1D", "SeparableConv2D", "SeparableConvolution1D", "SeparableConvolution2D")


@layer(*SEPARABLE, weights=_separable_weights)
def separable(c: Call) -> Result:
    """First by channel, then the channels with each other."""
    require_floats(c)
    s, n = c.settings, axes_of(c)
    y = by_channel(c, "depthwise_kernel")
    filters, ones = s.count("filters"), [1] * n
    channels = sizes(c, y, n)[1]
    kernel = outward(c.array("pointwise_kernel", [*ones, channels, filters]))
    how = Geometry(ones, ones, ones, [0] * (2 * n))
    return activated(c, convolved(c, y, constant(c, "pointwise_kernel", kernel), how, 1, bias_of(c, filters)))


# ---- transposed


TRANSPOSED = (
    *("Conv1DTranspose", "Conv2DTranspose", "Conv3DTranspose"),
    *("Convolution1DTranspose", "Convolution2DTranspose", "Convolution3DTranspose"),
)


@layer(*TRANSPOSED, weights=kernel_and_bias)
def conv_transpose(c: Call) -> Result:
    """The gradient of a convolution; the kernel is [taps..., filters, channels]."""
    require_floats(c)
    s, x, n = c.settings, c.x, axes_of(c)
    extents, channels = sizes(c, x, n)
    taps, filters, strides = s.counts("kernel_size", n), s.count("filters"), s.counts("strides", n, 1)
    dilations = s.counts("dilation_rate", n, 1)
    more = s.integers("output_padding", n) if s.has("output_padding") else [None] * n
    is_same = s.choice("padding", PADDINGS[:2], "valid") == "same"
    pads, extra = [], []
    for m, k, stride, d, o in zip(extents, taps, strides, dilations, more, strict=True):
        reach = (k - 1) * d + 1
        least = (m - 1) * stride + reach
        total = least - _length(m, reach, stride, o, is_same)
        pads.append((max(total, 0) // 2, max(total, 0) - max(total, 0) // 2))
        extra.append(max(-total, 0))
        c.require(o is None or 0 <= o < stride, f"an output padding of {o} for a stride of {stride}")
    kernel = np.transpose(c.array("kernel", [*taps, filters, channels]), (n + 1, n, *range(n)))
    how = Geometry(taps, strides, dilations, [p[0] for p in pads] + [p[1] for p in pads])
    order = c.order(x.rank)
    given = (c.b.cast(c.b.held(x, order), s.compute), constant(c, "kernel", kernel), bias_of(c, filters))
    return activated(
        c, Tensor(c.b.one("ConvTranspose", *given, **how.attributes, output_padding=extra), order)
    )


def _length(extent: int, reach: int, stride: int, more: int | None, is_same: bool) -> int:
    """How many elements the result has along an axis."""
    if more is None:
        return extent * stride + (0 if is_same else max(reach - stride, 0))
    return (extent - 1) * stride + reach - (2 * (reach // 2) if is_same else 0) + more
