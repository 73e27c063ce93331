"""Models of the corpus that look at images, signals and volumes, most of them of odd sizes."""

from __future__ import annotations

import numpy as np

from tests.corpus.cases import Case
from tests.corpus.net import Net


def lenet(net: Net) -> str:
    x = net("Relu", net.conv(net.input("x", 1, 1, 28, 28), 1, 6, (5, 5), pads=[2] * 4))
    x = net("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = net("MaxPool", net("Relu", net.conv(x, 6, 16, (5, 5))), kernel_shape=[2, 2], strides=[2, 2])
    x = net("Relu", net.dense(net("Flatten", x), 400, 120))
    return str(net("Softmax", net.dense(net("Relu", net.dense(x, 120, 84)), 84, 10), axis=1))


def resnet(net: Net) -> str:
    """Residual blocks, one of them strided, of odd channels on 21 x 19."""

    def block(x: str, c_in: int, c_out: int, stride: int) -> str:
        y = net.norm(net.conv(x, c_in, c_out, (3, 3), pads=[1] * 4, strides=[stride] * 2), c_out)
        y = net.norm(net.conv(net("Relu", y), c_out, c_out, (3, 3), pads=[1] * 4), c_out)
        side = x if stride == 1 else net.conv(x, c_in, c_out, (1, 1), strides=[stride] * 2)
        return str(net("Relu", net("Add", y, side)))

    x = net.norm(net.conv(net.input("x", 1, 3, 21, 19), 3, 7, (3, 3), pads=[1] * 4), 7)
    x = block(block(net("Relu", x), 7, 7, 1), 7, 33, 2)
    return str(net.dense(net("Flatten", net("GlobalAveragePool", x)), 33, 10))


def mobilenet(net: Net) -> str:
    """Depthwise, pointwise, relu6; hard swish and squeeze-and-excitation at the end."""
    low, high = net.const(0, np.float32), net.const(6, np.float32)

    def relu6(x: str) -> str:
        return str(net("Clip", x, low, high))

    def separable(x: str, c_in: int, c_out: int, stride: int) -> str:
        strides = [stride] * 2
        y = relu6(net.norm(net.conv(x, c_in, c_in, (3, 3), group=c_in, pads=[1] * 4, strides=strides), c_in))
        return relu6(net.norm(net.conv(y, c_in, c_out, (1, 1)), c_out))

    x = relu6(net.conv(net.input("x", 1, 3, 25, 23), 3, 13, (3, 3), pads=[0, 0, 1, 1], strides=[2, 2]))
    x = separable(separable(separable(x, 13, 17, 1), 17, 33, 2), 33, 33, 1)
    y = net("HardSwish", net.conv(net("GlobalAveragePool", x), 33, 7, (1, 1)))
    x = net("Mul", x, net("HardSigmoid", net.conv(y, 7, 33, (1, 1)), alpha=1 / 6))
    return str(net("LogSoftmax", net("ReduceMean", x, axes=[2, 3], keepdims=0), axis=-1))


def conv_1d(net: Net) -> str:
    x = net("Relu", net.conv(net.input("x", 2, 1, 101), 1, 7, (7,), strides=[2], pads=[3, 3]))
    x = net("LeakyRelu", net.conv(x, 7, 13, (3,), dilations=[3], pads=[2, 5]), alpha=0.1)
    x = net("AveragePool", x, kernel_shape=[3], strides=[2], pads=[1, 1], count_include_pad=1)
    x = net("Tanh", net.conv(x, 13, 17, (4,), auto_pad="SAME_UPPER", strides=[3]))
    return str(net("Flatten", net("GlobalMaxPool", x)))


def conv_3d(net: Net) -> str:
    x = net.conv(net.input("x", 1, 2, 5, 7, 9), 2, 7, (3, 3, 3), pads=[1] * 6, strides=[1, 2, 1])
    x = net("MaxPool", net("Elu", x), kernel_shape=[2, 2, 2], strides=[2, 2, 2], pads=[0, 0, 0, 1, 0, 1])
    return str(net.conv(x, 7, 5, (2, 1, 3)))


def grouped(net: Net) -> str:
    """Groups, dilations, asymmetric pads, and channels shuffled between the groups."""
    x = net.conv(net.input("x", 1, 6, 17, 13), 6, 21, (3, 2), group=3, dilations=[2, 3], pads=[3, 0, 1, 2])
    x = net("Reshape", net("Relu", x), net.const([0, 3, 7, 17, 12]))
    x = net("Reshape", net("Transpose", x, perm=[0, 2, 1, 3, 4]), net.const([1, 21, 17, 12]))
    return str(net.conv(x, 21, 14, (1, 3), group=7, strides=[2, 1]))


def inception(net: Net) -> str:
    """Branches of unlike kernels, joined; pools that round up."""
    x = net("MaxPool", net.input("x", 1, 5, 22, 22), kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
    tall = net.conv(net.conv(x, 5, 7, (1, 7), pads=[0, 3, 0, 3]), 7, 9, (7, 1), pads=[3, 0, 3, 0])
    wide = net.conv(net("Relu", net.conv(x, 5, 6, (1, 1))), 6, 11, (5, 5), pads=[2] * 4)
    pooled = net("AveragePool", x, kernel_shape=[3, 3], pads=[1] * 4)
    x = net("Concat", net("Relu", tall), net("Relu", wide), net.conv(pooled, 5, 3, (1, 1)), x, axis=1)
    x = net("LRN", x, size=5, alpha=0.01, beta=0.75, bias=1.0)
    return str(net("AveragePool", x, kernel_shape=[4, 4], strides=[3, 3], ceil_mode=1))


def unet(net: Net) -> str:
    """Down and up again, with what was seen on the way down."""
    x = net.input("x", 1, 1, 18, 22)
    top = net("Relu", net.conv(x, 1, 7, (3, 3), pads=[1] * 4))
    middle = net("Relu", net.conv(net("MaxPool", top, kernel_shape=[2, 2], strides=[2, 2]), 7, 13, (3, 3),
                                  pads=[1] * 4))  # fmt: skip
    none, scales = net.const([], np.float32), net.const([1, 1, 2, 2], np.float32)
    near = net("Resize", middle, none, scales, mode="nearest")
    smooth = net("Resize", middle, none, scales, mode="linear")
    x = net("Concat", top, near, smooth, axis=1)
    return str(net("Sigmoid", net.conv(net("Relu", net.conv(x, 33, 5, (3, 3), pads=[1] * 4)), 5, 1, (1, 1))))


def upsampler(net: Net) -> str:
    """Transposed convolutions: strides, output padding, groups, one dimension, then pixels from channels."""
    x = net.input("x", 1, 13, 3, 5)
    kernel = net.weight(13, 8, 4, 4, fan=52)
    x = net("Relu", net("ConvTranspose", x, kernel, net.weight(8), strides=[2, 2], pads=[1] * 4))
    x = net("ConvTranspose", x, net.weight(8, 6, 3, 3, fan=36), group=2, strides=[2, 3], pads=[1, 0, 1, 2],
            output_padding=[1, 2])  # fmt: skip
    x = net("PRelu", x, net.const(net.random(12, 1, 1)))
    x = net("Tanh", net("DepthToSpace", x, blocksize=2, mode="CRD"))
    flat = net("ConvTranspose", net("Reshape", x, net.const([1, 3, -1])), net.weight(3, 2, 5), dilations=[2])
    return str(net("ReduceMax", flat, axes=[1]))


def instance(net: Net) -> str:
    """Style transfer's ways: reflected borders, instance and group normalisation."""
    pads = net.const([0, 0, 2, 3, 0, 0, 1, 2])
    x = net("Pad", net.input("x", 2, 3, 11, 9), pads, mode="reflect")
    x = net("InstanceNormalization", net.conv(x, 3, 6, (3, 3)), net.weight(6), net.weight(6))
    x = net("Softplus", net.conv(x, 6, 6, (3, 3), auto_pad="SAME_LOWER", strides=[2, 2]))
    x = net("Reshape", x, net.const([2, 3, -1]))
    x = net("InstanceNormalization", x, net.weight(3), net.weight(3), epsilon=1e-3)
    return str(net("Reshape", x, net.const([2, 6, -1])))


def quantised(net: Net) -> tuple[str, str]:
    """Quantised as tools do it: float32 operators between De- and QuantizeLinear, and integer ones.

    The scales are powers of two: every product is exact, and so is every rounding.
    """

    one, zero = net.const(2.0**-5, np.float32), net.const(117, np.uint8)
    x = net("QuantizeLinear", net.input("x", 1, 3, 11, 9), one, zero)
    kernel = net.const(net.rng.integers(-127, 128, (13, 3, 3, 3), np.int8))
    steps, flat = (
        net.const([2.0 ** (-7 - i % 3) for i in range(13)], np.float32),
        net.const(np.zeros(13, np.int8)),
    )
    bias = net.const(np.rint(net.random(13, scale=2.0**12)) * np.float32(2.0**-12))
    weights = net("DequantizeLinear", kernel, steps, flat, axis=0)
    y = net("Conv", net("DequantizeLinear", x, one, zero), weights, bias, pads=[1, 2, 1, 0], strides=[2, 1])
    y = net("QuantizeLinear", net("Relu", y), one, zero)
    kernel = net.const(net.rng.integers(-127, 128, (17, 13, 1, 3), np.int8))
    eighth, middle = net.const(2.0**-9, np.float32), net.const(0, np.int8)
    wide = net.const(2.0**-3, np.float32)
    y = net("QLinearConv", y, one, zero, kernel, eighth, middle, wide, zero)
    matrix = net.const(net.rng.integers(-127, 128, (7, 5), np.int8))
    rows = net("MatMulInteger", y, matrix, zero)
    return y, rows


CASES = [
    Case("lenet", lenet),
    Case("resnet", resnet),
    Case("mobilenet", mobilenet),
    Case("conv_1d", conv_1d),
    Case("conv_3d", conv_3d),
    Case("grouped", grouped),
    Case("inception", inception),
    Case("unet", unet),
    Case("upsampler", upsampler),
    Case("instance", instance),
    Case("quantised", quantised, tolerance=0),
]
