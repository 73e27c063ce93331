"""The benchmark suite: small, common and large nets with random weights, as ONNX.

In: nothing. Out: `MODELS`, name -> a function that makes the ModelProto, the same bytes every time, and
`GROUPS`, the names by kind. Called by `run.py` and by tests; `python -m benchmarks.models DIR [NAME...]`
writes them as files.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import onnx

from benchmarks.image_to_image import dncnn, espcn, unet
from benchmarks.light import light
from benchmarks.net import Net

DIGITS = Path(__file__).parent.parent / "examples" / "digits" / "digits.onnx"
Make = Callable[[], onnx.ModelProto]
MODELS: dict[str, Make] = {}
GROUPS: dict[str, list[str]] = {}


def model(name: str, group: str) -> Callable[[Make], Make]:
    """Enters a net into the suite."""

    def enter(make: Make) -> Make:
        MODELS[name] = make
        GROUPS.setdefault(group, []).append(name)
        return make

    return enter


# ---- small: what runs on a microcontroller or beside a packet


@model("overhead", "overhead")
def overhead() -> onnx.ModelProto:
    """Four numbers: what a call of a runtime costs."""
    net = Net("overhead", (1, 4))
    return net.model(y=net.then("x", "Relu"))


@model("ball", "small")
def ball() -> onnx.ModelProto:
    """Is there a ball in 16x16 grey pixels? The first of NNCG's three nets."""
    net = Net("ball", (1, 1, 16, 16))
    x = net.pool(net.conv("x", 8, 5, 2, then="Relu"), 2)
    x = net.conv(x, 12, 3, pads=0, then="Relu")
    return net.model(y=net.then(net.flat(net.conv(x, 2, 2, pads=0)), "Softmax"))


@model("pedestrian", "small")
def pedestrian() -> onnx.ModelProto:
    """Is there somebody in 36x18 grey pixels? Fully convolutional."""
    net = Net("pedestrian", (1, 1, 36, 18))
    x = net.pool(net.conv("x", 4, 3, then="Relu"), 2)
    x = net.pool(net.conv(x, 16, 3, then="Relu"), 2)
    x = net.pool(net.conv(x, 32, 3, then="Relu"), (4, 2))
    return net.model(y=net.then(net.flat(net.conv(x, 2, 2, pads=0)), "Softmax"))


@model("robot", "small")
def robot() -> onnx.ModelProto:
    """A robot's 80x60 camera; batch normalisation and leaky ReLU as trained, not folded."""
    net = Net("robot", (1, 3, 60, 80))

    def layer(x: str, channels: int, stride: int = 1) -> str:
        return net.then(net.batch_norm(net.conv(x, channels, 3, stride, gain=2.0)), "LeakyRelu")

    x = net.pool(layer(layer("x", 8), 12), 2)
    x = net.pool(layer(layer(x, 8), 16), 2)
    return net.model(y=net.conv(layer(x, 20), 20, 3))


@model("digits", "small")
def digits() -> onnx.ModelProto:
    """The trained model of `examples/digits`."""
    return onnx.load(DIGITS)


@model("lenet5", "small")
def lenet5() -> onnx.ModelProto:
    """28x28 digits: two convolutions with pooling, three dense layers."""
    net = Net("lenet5", (1, 1, 28, 28))
    x = net.pool(net.conv("x", 6, 5, then="Relu"), 2)
    x = net.pool(net.conv(x, 16, 5, pads=0, then="Relu"), 2)
    x = net.dense(net.dense(net.flat(x), 120, "Relu"), 84, "Relu")
    return net.model(y=net.dense(x, 10))


@model("resnet8", "small")
def resnet8() -> onnx.ModelProto:
    """MLPerf Tiny: 32x32 colour images, three stacks of one residual block each."""
    net = Net("resnet8", (1, 3, 32, 32))
    x = net.conv("x", 16, 3, then="Relu")
    for channels, stride in ((16, 1), (32, 2), (64, 2)):
        y = net.conv(net.conv(x, channels, 3, stride, then="Relu"), channels, 3, gain=0.7)
        x = net.add(net.conv(x, channels, 1, stride) if stride > 1 else x, y, "Relu")
    x = net.flat(net.pool(x, 8, op="AveragePool"))
    return net.model(y=net.then(net.dense(x, 10), "Softmax"))


@model("ds_cnn", "small")
def ds_cnn() -> onnx.ModelProto:
    """MLPerf Tiny: key words from a 49x10 spectrogram, four depthwise and pointwise pairs."""
    net = Net("ds_cnn", (1, 1, 49, 10))
    x = net.conv("x", 64, (10, 4), 2, then="Relu")
    for _ in range(4):
        x = net.conv(net.depthwise(x, 3, then="Relu"), 64, 1, then="Relu")
    x = net.flat(net.pool(x, (25, 5), op="AveragePool"))
    return net.model(y=net.then(net.dense(x, 12), "Softmax"))


def mobilenet_v1(name: str, size: int, then: str, classes: int) -> tuple[Net, str]:
    """A quarter of the width of MobileNet v1."""
    net = Net(name, (1, 3, size, size))
    x = net.conv("x", 8, 3, 2, then=then)
    steps = ((16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (128, 2), *[(128, 1)] * 5, (256, 2), (256, 1))
    for channels, stride in steps:
        x = net.conv(net.depthwise(x, 3, stride, then=then), channels, 1, then=then)
    return net, net.dense(net.average(x), classes)


@model("mobilenet", "small")
def mobilenet() -> onnx.ModelProto:
    """MLPerf Tiny: is there a person in 96x96 colour pixels?"""
    net, x = mobilenet_v1("mobilenet", 96, "Relu", 2)
    return net.model(y=net.then(x, "Softmax"))


@model("autoencoder", "small")
def autoencoder() -> onnx.ModelProto:
    """MLPerf Tiny: machine sounds, ten dense layers around a bottleneck of eight."""
    net = Net("autoencoder", (1, 640))
    x = "x"
    for n in (128, 128, 128, 128, 8, 128, 128, 128, 128):
        x = net.dense(x, n, "Relu")
    return net.model(y=net.dense(x, 640))


@model("indigo_op", "small")
def indigo_op() -> onnx.ModelProto:
    """Indigo, congestion control: one step of an LSTM of 32, ONNX's operator, the state in and out."""
    net = Net("indigo_op", (1, 1, 9), (1, 1, 32), (1, 1, 32))
    _, h, c = net.lstm("x", 32, "h", "c")
    y = net.then(net.dense(net.reshape(h, 1, 32), 5), "Softmax")
    return net.model(y=y, h_out=h, c_out=c)


@model("indigo_cell", "small")
def indigo_cell() -> onnx.ModelProto:
    """The same step written out, as TensorFlow exports it."""
    net = Net("indigo_cell", (1, 9), (1, 32), (1, 32))
    z = net.dense(net.concat("x", "h"), 128)
    gates = net.node("Split", [z, net.integers(32, 32, 32, 32)], *[(1, 32)] * 4, axis=1)
    i, j, f, o = (
        net.then(g, a) for g, a in zip(gates, ("Sigmoid", "Tanh", "Sigmoid", "Sigmoid"), strict=True)
    )
    c = net.add(net.binary("Mul", f, "c"), net.binary("Mul", i, j))
    h = net.binary("Mul", o, net.then(c, "Tanh"))
    return net.model(y=net.then(net.dense(h, 5), "Softmax"), h_out=h, c_out=c)


# ---- images of 224x224 and the like


@model("mobilenet_128", "large")
def mobilenet_128() -> onnx.ModelProto:
    """A quarter of MobileNet v1 on 128x128 pixels, a thousand classes."""
    net, x = mobilenet_v1("mobilenet_128", 128, "Relu6", 1000)
    return net.model(y=x)


@model("mobilenetv2", "large")
def mobilenetv2() -> onnx.ModelProto:
    """Inverted residuals, ReLU6."""
    net = Net("mobilenetv2", (1, 3, 224, 224))
    x = net.conv("x", 32, 3, 2, pads=1, then="Relu6")
    blocks = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2))
    for expand, channels, count, first in (*blocks, (6, 320, 1, 1)):
        for i in range(count):
            ic, stride = net.shapes[x][1], 1 if i else first
            same = stride == 1 and ic == channels
            y = net.conv(x, ic * expand, 1, then="Relu6") if expand > 1 else x
            y = net.depthwise(y, 3, stride, then="Relu6", pads=1)
            y = net.conv(y, channels, 1, gain=0.5 if same else 1.0)
            x = net.add(x, y) if same else y
    return net.model(y=net.dense(net.average(net.conv(x, 1280, 1, then="Relu6")), 1000))


@model("squeezenet", "large")
def squeezenet() -> onnx.ModelProto:
    """SqueezeNet 1.1: fire modules, concatenations."""
    net = Net("squeezenet", (1, 3, 224, 224))

    def fire(x: str, squeeze: int, expand: int) -> str:
        x = net.conv(x, squeeze, 1, then="Relu")
        return net.concat(net.conv(x, expand, 1, then="Relu"), net.conv(x, expand, 3, then="Relu"))

    x = net.pool(net.conv("x", 64, 3, 2, pads=0, then="Relu"), 3, 2)
    x = net.pool(fire(fire(x, 16, 64), 16, 64), 3, 2)
    x = net.pool(fire(fire(x, 32, 128), 32, 128), 3, 2)
    for squeeze, expand in ((48, 192), (48, 192), (64, 256), (64, 256)):
        x = fire(x, squeeze, expand)
    return net.model(y=net.average(net.conv(x, 1000, 1, then="Relu")))


@model("resnet18", "large")
def resnet18() -> onnx.ModelProto:
    """Blocks of two 3x3 convolutions."""
    net = Net("resnet18", (1, 3, 224, 224))
    x = net.pool(net.conv("x", 64, 7, 2, pads=3, then="Relu"), 3, 2, pads=1)
    for channels, first in ((64, 1), (128, 2), (256, 2), (512, 2)):
        for stride in (first, 1):
            y = net.conv(x, channels, 3, stride, pads=1, then="Relu")
            y = net.conv(y, channels, 3, gain=0.4)
            shortcut = net.conv(x, channels, 1, stride, pads=0) if stride > 1 else x
            x = net.add(shortcut, y, "Relu")
    return net.model(y=net.dense(net.average(x), 1000))


@model("resnet50", "large")
def resnet50() -> onnx.ModelProto:
    """Bottlenecks."""
    net = Net("resnet50", (1, 3, 224, 224))
    x = net.pool(net.conv("x", 64, 7, 2, pads=3, then="Relu"), 3, 2, pads=1)
    for channels, count, first in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for i in range(count):
            stride = 1 if i else first
            y = net.conv(net.conv(x, channels, 1, then="Relu"), channels, 3, stride, pads=1, then="Relu")
            y = net.conv(y, 4 * channels, 1, gain=0.3)
            x = net.add(x if i else net.conv(x, 4 * channels, 1, stride, pads=0), y, "Relu")
    return net.model(y=net.dense(net.average(x), 1000))


@model("vgg16", "large")
def vgg16() -> onnx.ModelProto:
    """Thirteen 3x3 convolutions, 138 million weights."""
    net = Net("vgg16", (1, 3, 224, 224))
    x = "x"
    for channels, count in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(count):
            x = net.conv(x, channels, 3, then="Relu")
        x = net.pool(x, 2)
    x = net.dense(net.dense(net.flat(x), 4096, "Relu"), 4096, "Relu")
    return net.model(y=net.dense(x, 1000))


@model("shufflenet", "large")
def shufflenet() -> onnx.ModelProto:
    """Grouped convolutions and shuffles: the onnx package's graph, random weights."""
    return light("shufflenet")


@model("densenet121", "large")
def densenet121() -> onnx.ModelProto:
    """Concatenations of everything: the onnx package's graph, random weights."""
    return light("densenet121")


# ---- images of images

for make in (unet, espcn, dncnn):
    model(make.__name__, "image")(make)


# ---- matrices and sequences


def fully_connected(name: str, n: int, m: int, then: str) -> onnx.ModelProto:
    net = Net(name, (1, n))
    return net.model(y=net.dense("x", m, then))


@model("fc6", "dense")
def fc6() -> onnx.ModelProto:
    """AlexNet's first dense layer: 151 MB of weights."""
    return fully_connected("fc6", 9216, 4096, "Relu")


@model("fc7", "dense")
def fc7() -> onnx.ModelProto:
    """AlexNet's second: 67 MB."""
    return fully_connected("fc7", 4096, 4096, "Relu")


@model("fc8", "dense")
def fc8() -> onnx.ModelProto:
    """AlexNet's third: 16 MB."""
    return fully_connected("fc8", 4096, 1000, "")


@model("lstm", "sequence")
def lstm() -> onnx.ModelProto:
    """Two layers of 128 over 50 steps."""
    net = Net("lstm", (50, 1, 64))
    x, h = "x", ""
    for _ in range(2):
        y, h, _ = net.lstm(x, 128)
        x = net.one("Squeeze", [y, net.integers(1)], (50, 1, 128))
    return net.model(y=net.dense(net.reshape(h, 1, 128), 10))


@model("transformer", "sequence")
def transformer() -> onnx.ModelProto:
    """Four encoder layers over 128 tokens: width 256, four heads, GELU by erf."""
    net = Net("transformer", (1, 128, 256))
    x = "x"
    for _ in range(4):
        x = encoder(net, x, 4, 1024)
    return net.model(y=x)


def encoder(net: Net, x: str, heads: int, inner: int) -> str:
    """Attention and two dense layers, each with a residual and a normalisation behind it."""
    _, tokens, width = net.shapes[x]
    parts = [net.reshape(net.linear(x, width), 1, tokens, heads, width // heads) for _ in range(3)]
    orders = ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3))
    q, k, v = (net.transpose(p, *order) for p, order in zip(parts, orders, strict=True))
    scores = net.one("MatMul", [q, k], (1, heads, tokens, tokens))
    scores = net.binary("Mul", scores, net.scalar((width // heads) ** -0.5))
    mixed = net.one("MatMul", [net.then(scores, "Softmax"), v], (1, heads, tokens, width // heads))
    mixed = net.reshape(net.transpose(mixed, 0, 2, 1, 3), 1, tokens, width)
    x = net.layer_norm(net.add(x, net.linear(mixed, width)))
    return net.layer_norm(net.add(x, net.linear(gelu(net, net.linear(x, inner)), width)))


def gelu(net: Net, x: str) -> str:
    """x (1 + erf(x / sqrt 2)) / 2, spelled out as exporters do."""
    e = net.then(net.binary("Div", x, net.scalar(2**0.5)), "Erf")
    return net.binary("Mul", net.binary("Mul", x, net.binary("Add", e, net.scalar(1))), net.scalar(0.5))


@model("tcn", "sequence")
def tcn() -> onnx.ModelProto:
    """Causal, dilated convolutions over 256 steps, four residual blocks of width 64."""
    net = Net("tcn", (1, 16, 256))
    x = "x"
    for d in (1, 2, 4, 8):
        y = net.conv(x, 64, 3, pads=(2 * d, 0), dilation=d, then="Relu")
        y = net.conv(y, 64, 3, pads=(2 * d, 0), dilation=d, then="Relu", gain=1.0)
        x = net.add(x if net.shapes[x][1] == 64 else net.conv(x, 64, 1), y, "Relu")
    return net.model(y=net.dense(net.average(x), 10))


def main(folder: str, *names: str) -> None:
    """Write the models named, or all, into a directory."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    for name in names or MODELS:
        onnx.save(MODELS[name](), Path(folder) / f"{name}.onnx")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("folder")
    parser.add_argument("names", nargs="*")
    asked = parser.parse_args()
    main(asked.folder, *asked.names)
