"""Layers with weights and windows: convolutions, matrix products, pooling, normalisations."""

from __future__ import annotations

from typing import Any

import numpy as np

from ingot.errors import ModelError, UnsupportedError
from ingot.formula.types import FLOAT16, FLOAT32, INT8
from ingot.frontends.builder import extents_of
from ingot.frontends.caffe2.call import TO_NCHW, TO_NHWC, Call, row
from ingot.graph.ir import Value

VALID, SAME, CAFFE_LEGACY_POOLING = 1, 2, 3
"""Values of legacy_pad: how pads follow from the image."""
EPSILON = 1e-5


def _pair(c: Call, name: str, default: int) -> list[int]:
    """An extent along height and width: `kernel`, `kernel_h` and `kernel_w`, or `kernels`."""
    if (found := c.integers(f"{name}s")) is not None and len(found) == 2:
        return found
    both = c.integer(name, default)
    return [c.integer(f"{name}_h", both), c.integer(f"{name}_w", both)]


def _pads(c: Call) -> list[int]:
    """Top, left, bottom, right, which is ONNX's order."""
    if (found := c.integers("pads")) is not None:
        if len(found) != 4:
            raise ModelError(f"{c.label}: {len(found)} pads for two axes")
        return found
    pad = c.integer("pad", 0)
    return [c.integer(f"pad_{side}", pad) for side in "tlbr"]


def _first(c: Call, value: Value) -> Value:
    """Channels first."""
    if len(extents_of(value)) != 4:
        raise UnsupportedError(f"{c.label}: only images, tensors of four axes, are supported")
    return c.b.transposed(value, TO_NCHW) if c.is_nhwc else value


def _back(c: Call, value: Value) -> Value:
    return c.b.transposed(value, TO_NHWC) if c.is_nhwc else value


def _windows(c: Call) -> dict[str, Any]:
    return {
        "kernel_shape": _pair(c, "kernel", 0),
        "strides": _pair(c, "stride", 1),
        "pads": _pads(c),
        "dilations": _pair(c, "dilation", 1),
    }


def _windows_of(c: Call, image: Value) -> dict[str, Any]:
    """Windows of an image with channels first, whose extents legacy_pad asks for."""
    how, rule = _windows(c), c.integer("legacy_pad", 0)
    if rule == 0:
        return how
    if rule not in (VALID, SAME, CAFFE_LEGACY_POOLING):
        raise ModelError(f"{c.label}: legacy_pad is {rule}; 0 to 3 are known")
    if rule == CAFFE_LEGACY_POOLING and not c.op.type.endswith("Pool"):
        raise ModelError(f"{c.label}: legacy_pad 3 is for pooling")
    heads, tails = list[int](), list[int]()
    sizes = zip(extents_of(image)[2:], how["kernel_shape"], how["strides"], how["dilations"], strict=True)
    for axis, (n, kernel, stride, dilation) in enumerate(sizes):
        if min(kernel, stride, dilation) < 1:
            raise ModelError(f"{c.label}: kernel, stride and dilation are {kernel}, {stride}, {dilation}")
        head, tail = _legacy(rule, n, (kernel - 1) * dilation + 1, stride, how["pads"][axis])
        if not 0 <= tail < max(kernel, 1 + how["pads"][axis]):
            raise UnsupportedError(f"{c.label}: windows of {kernel} by {stride} leave an image of {n}")
        heads, tails = [*heads, head], [*tails, tail]
    return how | {"pads": [*heads, *tails]}


def _legacy(rule: int, n: int, kernel: int, stride: int, pad: int) -> tuple[int, int]:
    """The pads before and behind an axis of n elements.

    >>> _legacy(SAME, 6, 3, 2, 0), _legacy(CAFFE_LEGACY_POOLING, 6, 3, 2, 0)
    ((0, 1), (0, 2))
    """
    if rule == VALID:
        return 0, 0
    if rule == SAME:
        needed = (-(-n // stride) - 1) * stride + kernel - n
        return needed // 2, needed - needed // 2
    # Caffe rounds the number of windows up, and with a pad leaves one out that begins behind the image
    count, standard = -(-(n + 2 * pad - kernel) // stride) + 1, (n + 2 * pad - kernel) // stride + 1
    if pad > 0 and (count - 1) * stride >= n + pad:
        count -= 1
    return pad, pad + stride * (count - standard)


@row("Conv", "ConvRelu")
def conv(c: Call) -> Value:
    x, w = _first(c, c.x()), _first(c, c.x(1))
    bias = c.x(2) if len(c.inputs) > 2 else None
    made = c.b.one("Conv", x, w, bias, group=c.integer("group", 1), **_windows_of(c, x))
    return _back(c, c.b.one("Relu", made) if c.op.type == "ConvRelu" else made)


@row("ConvTranspose")
def conv_transpose(c: Call) -> Value:
    """Weights are [IC, OC / group, kH, kW]; `adj` is the output's padding."""
    if c.integer("legacy_pad", 0):
        raise UnsupportedError(f"{c.label}: legacy_pad of a transposed convolution is not supported")
    x, w = _first(c, c.x()), _first(c, c.x(1))
    bias = c.x(2) if len(c.inputs) > 2 else None
    more = {"group": c.integer("group", 1), "output_padding": _pair(c, "adj", 0)}
    return _back(c, c.b.one("ConvTranspose", x, w, bias, **more, **_windows(c)))


@row("Int8Conv", "Int8ConvRelu")
def int8_conv(c: Call) -> Value:
    """Sums of products of integers, one rounding; ReLU is a limit of the result."""
    (x_scale, x_zero), (w_scale, w_zero), q = c.stands_for(0), c.stands_for(1), c.output()
    x, w = _first(c, c.x()), _first(c, c.x(1))
    operands = [x, *c.pair((x_scale, x_zero)), w, *c.pair((w_scale, w_zero)), *c.pair(q)]
    bias = c.bias(2, x_scale * w_scale)
    made = c.b.one("QLinearConv", *operands, bias, group=c.integer("group", 1), **_windows_of(c, x))
    return _quantised(c, _back(c, _relu(c, made, q) if c.op.type.endswith("Relu") else made), q)


def _quantised(c: Call, value: Value, q: tuple[float, int]) -> Value:
    c.quantised[value] = q
    return value


def _relu(c: Call, value: Value, q: tuple[float, int]) -> Value:
    """The integers that stand for 0 and more."""
    return c.b.one("Max", value, c.const(q[1], INT8))


@row("Int8Relu")
def int8_relu(c: Call) -> Value:
    (scale, zero), q = c.stands_for(0), c.output()
    if (scale, zero) == q:
        return _quantised(c, _relu(c, c.x(), q), q)
    return c.quantise(c.b.one("Relu", c.real()), q)


@row("Int8Sum", "Int8Add", "Int8SumRelu", "Int8AddRelu")
def int8_sum(c: Call) -> Value:
    """The sum of what the integers stand for, rounded once."""
    if len(c.inputs) != 2:
        raise UnsupportedError(f"{c.label}: only sums of two are supported")
    made = c.b.one("Add", c.real(0), c.real(1))
    return c.quantise(c.b.one("Relu", made) if c.op.type.endswith("Relu") else made, c.output())


@row("Int8Quantize")
def int8_quantize(c: Call) -> Value:
    return c.quantise(c.x(), c.output())


@row("Int8Dequantize")
def int8_dequantize(c: Call) -> Value:
    return c.real()


@row("Int8FC")
def int8_fc(c: Call) -> Value:
    if c.integer("dequantize_output", 0):
        return _dynamic_fc(c)
    (x_scale, x_zero), (w_scale, w_zero), q = c.stands_for(0), c.stands_for(1), c.output()
    axis, x = c.axis(1), c.two_axes(c.x(), c.axis(1))
    w = c.b.transposed(c.two_axes(c.x(1), c.integer("axis_w", 1)), (1, 0))
    bias = c.bias(2, x_scale * w_scale)
    operands = [x, *c.pair((x_scale, x_zero)), w, *c.pair((w_scale, w_zero)), bias, *c.pair(q)]
    made = c.b.one("com.microsoft.QGemm", *operands)
    return _quantised(c, c.b.reshape(made, [*c.shape()[:axis], extents_of(made)[1]]), q)


def _dynamic_fc(c: Call) -> Value:
    """A product of floats with weights that are integers."""
    w = c.b.transposed(c.two_axes(c.real(1), c.integer("axis_w", 1)), (1, 0))
    bias = c.elements(2, "the bias").astype(np.float32)
    if c.x(2) in c.quantised:
        scale, zero = c.quantised[c.x(2)]
        bias = ((bias - zero) * scale).astype(np.float32)
    return _product(c, w, c.b.constant(bias))


def _product(c: Call, w: Value, bias: Value) -> Value:
    axis = c.axis(1)
    x = c.two_axes(c.x(), axis)
    made = c.b.one("Gemm", x, w, bias)
    return c.b.reshape(made, [*c.shape()[:axis], extents_of(made)[1]])


@row("FC", "FCTransposed")
def fc(c: Call) -> Value:
    """y = x W^T + b, all axes of x from `axis` on taken as one; FCTransposed keeps W as it is."""
    w = c.two_axes(c.x(1), c.integer("axis_w", 1))
    return _product(c, c.b.transposed(w, (1, 0)) if c.op.type == "FC" else w, c.x(2))


@row("FbFCPacked")
def packed_fc(c: Call) -> Value:
    """The same in half precision, from and to floats."""
    w = c.b.transposed(c.two_axes(c.x(1), c.integer("axis_w", 1)), (1, 0))
    axis = c.axis(1)
    x = c.b.cast(c.two_axes(c.x(), axis), FLOAT16)
    made = c.b.cast(c.b.one("Gemm", x, c.b.cast(w, FLOAT16), c.b.cast(c.x(2), FLOAT16)), FLOAT32)
    return c.b.reshape(made, [*c.shape()[:axis], extents_of(made)[1]])


@row("MatMul", "BatchMatMul")
def matmul(c: Call) -> Value:
    a, b = c.x(), c.x(1)
    if c.op.type == "MatMul":
        a, b = c.two_axes(a, c.integer("axis_a", 1)), c.two_axes(b, c.integer("axis_b", 1))
    return c.b.one("MatMul", _turned(c, a, "trans_a"), _turned(c, b, "trans_b"))


def _turned(c: Call, value: Value, name: str) -> Value:
    rank = len(extents_of(value))
    if not c.integer(name, 0) or rank < 2:
        return value
    return c.b.transposed(value, (*range(rank - 2), rank - 1, rank - 2))


@row("MaxPool", "AveragePool", "Int8MaxPool", "Int8AveragePool")
def pool(c: Call) -> Value:
    is_byte, is_max = c.op.type.startswith("Int8"), c.op.type.endswith("MaxPool")
    x = _first(c, c.real() if is_byte and not is_max else c.x())
    is_whole = c.integer("global_pooling", 0)
    how = _windows(c) if is_whole else _windows_of(c, x)
    if is_whole:
        how |= {"kernel_shape": extents_of(x)[2:], "pads": [0] * 4, "strides": [1, 1]}
    how |= {} if is_max else {"count_include_pad": c.integer("count_include_pad", 1)}
    if min(how["kernel_shape"]) < 1:
        raise ModelError(f"{c.label}: no kernel is given")
    if not is_max:
        del how["dilations"]
    made = _back(c, c.b.one("MaxPool" if is_max else "AveragePool", x, **how))
    if is_byte:
        return _quantised(c, made, c.stands_for(0)) if is_max else c.quantise(made, c.output())
    return made


@row("SpatialBN")
def batch_norm(c: Call) -> Value:
    """X, scale, bias, mean, variance."""
    if not c.integer("is_test", 1):
        raise UnsupportedError(
            f"{c.label}: it normalises by the batch (is_test 0)", remedy="export for inference"
        )
    x = _first(c, c.x()) if len(c.shape()) == 4 else c.x()
    made = c.b.one(
        "BatchNormalization", x, *(c.x(i) for i in range(1, 5)), epsilon=c.number("epsilon", EPSILON)
    )
    return _back(c, made) if len(c.shape()) == 4 else made


@row("LRN")
def lrn(c: Call) -> Value:
    how = {"alpha": c.number("alpha", 0.0), "beta": c.number("beta", 0.0), "bias": c.number("bias", 1.0)}
    return _back(c, c.b.one("LRN", _first(c, c.x()), size=c.integer("size"), **how))


@row("LayerNorm")
def layer_norm(c: Call) -> list[Value]:
    """y, mean and standard deviation; gamma and beta where `elementwise_affine` says so."""
    axis = c.axis(1)
    axes = c.b.ints(list(range(axis, len(c.shape()))))
    mean = c.b.one("ReduceMean", c.x(), axes, keepdims=1)
    centred = c.b.one("Sub", c.x(), mean)
    variance = c.b.one("ReduceMean", c.b.one("Mul", centred, centred), axes, keepdims=1)
    deviation = c.b.one("Sqrt", c.b.one("Add", variance, c.const(c.number("epsilon", EPSILON))))
    made = c.b.one("Div", centred, deviation)
    if len(c.inputs) == 3:
        made = c.b.one("Add", c.b.one("Mul", made, c.x(1)), c.x(2))
    return [made, mean, deviation]


@row("RMSNorm")
def rms_norm(c: Call) -> list[Value]:
    """y = x gamma / rms(x) + beta by rows, and 1 / rms(x)."""
    squares = c.b.one("ReduceMean", c.b.one("Mul", c.x(), c.x()), c.b.ints([1]), keepdims=1)
    root = c.b.one("Sqrt", c.b.one("Add", squares, c.const(c.number("eps", 0.0))))
    made = c.b.one("Add", c.b.one("Mul", c.b.one("Div", c.x(), root), c.x(1)), c.x(2))
    return [made, c.b.reshape(c.b.one("Reciprocal", root), [c.shape()[0]])]


@row("ResizeNearest")
def resize(c: Call) -> Value:
    scales = [1.0, 1.0, c.number("height_scale", 1.0), c.number("width_scale", 1.0)]
    how = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return _back(
        c, c.b.one("Resize", _first(c, c.x()), None, c.b.constant(np.asarray(scales, np.float32)), **how)
    )


@row("ChannelShuffle")
def shuffle(c: Call) -> Value:
    group, extents = c.integer("group", 1), c.shape()
    at = 3 if c.is_nhwc else 1
    if len(extents) <= at or group < 1 or extents[at] % group:
        raise ModelError(f"{c.label}: {group} groups of the channels of a tensor {extents}")
    split = [*extents[:at], group, extents[at] // group, *extents[at + 1 :]]
    order = [*range(at), at + 1, at, *range(at + 2, len(split))]
    return c.b.reshape(c.b.one("Transpose", c.b.reshape(c.x(), split), perm=order), extents)
