"""Small standard nets with random weights, as ONNX: what the benchmarks run on.

In: nothing. Out: `MODELS`, name -> a function that makes the ModelProto, the same bytes every time. Called by
`run.py` and by tests; `python benchmarks/models.py DIR` writes them as files. ResNet-8, DS-CNN, MobileNet and
the autoencoder have the shapes of the MLPerf Tiny benchmark, batch normalisation already folded.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SEED = 20261121
IR_VERSION, OPSET = 10, 17
DIGITS = Path(__file__).parent.parent / "examples" / "digits" / "digits.onnx"


@dataclass
class Net:
    """Builds a net node by node; every method appends one and returns the name of its output."""

    name: str
    shape: tuple[int, ...]
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(SEED))
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    weights: list[onnx.TensorProto] = field(default_factory=list)

    def node(self, op: str, *inputs: str, **attributes: Any) -> str:
        out = f"{op.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [out], name=f"{out}_node", **attributes))
        return out

    def weight(self, *shape: int, fan_in: int = 0) -> str:
        """Normal values that keep the variance of what they multiply; biases (no fan-in) are small."""
        scale = (2 / fan_in) ** 0.5 if fan_in else 0.1
        array = (self.rng.standard_normal(shape) * scale).astype(np.float32)
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def conv(
        self,
        x: str,
        channels: tuple[int, int],
        kernel: int | tuple[int, int],
        stride: int = 1,
        group: int = 1,
    ) -> str:
        """A convolution with bias; the output is as large as the input, divided by the stride."""
        kh, kw = (kernel, kernel) if isinstance(kernel, int) else kernel
        ic, oc = channels
        w = self.weight(oc, ic // group, kh, kw, fan_in=ic // group * kh * kw)
        pads = [(kh - 1) // 2, (kw - 1) // 2, kh // 2, kw // 2]
        settings = {"kernel_shape": [kh, kw], "strides": [stride, stride], "pads": pads, "group": group}
        return self.node("Conv", x, w, self.weight(oc), **settings)

    def dense(self, x: str, n: int, m: int) -> str:
        return self.node("Gemm", x, self.weight(m, n, fan_in=n), self.weight(m), transB=1)

    def relu(self, x: str) -> str:
        return self.node("Relu", x)

    def model(self, y: str, classes: int) -> onnx.ModelProto:
        """The finished model, from input `x` to output `y`."""
        self.nodes[-1].output[0] = "y"
        assert y == self.nodes[-1].name.removesuffix("_node"), "the output is what was made last"
        inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)]
        outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [self.shape[0], classes])]
        graph = helper.make_graph(self.nodes, self.name, inputs, outputs, self.weights)
        opsets = [helper.make_opsetid("", OPSET)]
        return helper.make_model(graph, ir_version=IR_VERSION, opset_imports=opsets)


def lenet5() -> onnx.ModelProto:
    """28x28 digits: two convolutions with pooling, three dense layers."""
    net = Net("lenet5", (1, 1, 28, 28))
    x = net.relu(net.conv("x", (1, 6), 5))
    x = net.node("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    settings = {"kernel_shape": [5, 5]}
    x = net.relu(net.node("Conv", x, net.weight(16, 6, 5, 5, fan_in=150), net.weight(16), **settings))
    x = net.node("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = net.node("Flatten", x)
    x = net.relu(net.dense(x, 400, 120))
    x = net.relu(net.dense(x, 120, 84))
    return net.model(net.node("Softmax", net.dense(x, 84, 10)), 10)


def resnet8() -> onnx.ModelProto:
    """32x32 colour images: three stacks of one residual block each, 16 to 64 channels."""
    net = Net("resnet8", (1, 3, 32, 32))
    x = net.relu(net.conv("x", (3, 16), 3))
    for ic, oc, stride in ((16, 16, 1), (16, 32, 2), (32, 64, 2)):
        y = net.relu(net.conv(x, (ic, oc), 3, stride))
        y = net.conv(y, (oc, oc), 3)
        shortcut = x if ic == oc else net.conv(x, (ic, oc), 1, stride)
        x = net.relu(net.node("Add", y, shortcut))
    x = net.node("Flatten", net.node("GlobalAveragePool", x))
    return net.model(net.node("Softmax", net.dense(x, 64, 10)), 10)


def ds_cnn() -> onnx.ModelProto:
    """Key words from a 49x10 spectrogram: one convolution, four depthwise and pointwise pairs."""
    net = Net("ds_cnn", (1, 1, 49, 10))
    x = net.relu(net.conv("x", (1, 64), (10, 4), 2))
    for _ in range(4):
        x = net.relu(net.conv(x, (64, 64), 3, group=64))
        x = net.relu(net.conv(x, (64, 64), 1))
    x = net.node("Flatten", net.node("GlobalAveragePool", x))
    return net.model(net.node("Softmax", net.dense(x, 64, 12)), 12)


def mobilenet() -> onnx.ModelProto:
    """MobileNet v1 of a quarter of the width on 96x96 colour images: is there a person?"""
    net = Net("mobilenet", (1, 3, 96, 96))
    x = net.relu(net.conv("x", (3, 8), 3, 2))
    steps = ((16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (128, 2), *[(128, 1)] * 5, (256, 2), (256, 1))
    ic = 8
    for oc, stride in steps:
        x = net.relu(net.conv(x, (ic, ic), 3, stride, group=ic))
        x = net.relu(net.conv(x, (ic, oc), 1))
        ic = oc
    x = net.node("Flatten", net.node("GlobalAveragePool", x))
    return net.model(net.node("Softmax", net.dense(x, 256, 2)), 2)


def autoencoder() -> onnx.ModelProto:
    """Machine sounds: ten dense layers around a bottleneck of eight."""
    net = Net("autoencoder", (1, 640))
    x, n = "x", 640
    for m in (128, 128, 128, 128, 8, 128, 128, 128, 128):
        x, n = net.relu(net.dense(x, n, m)), m
    return net.model(net.dense(x, n, 640), 640)


def digits() -> onnx.ModelProto:
    """The trained model of `examples/digits`."""
    return onnx.load(DIGITS)


MODELS: dict[str, Callable[[], onnx.ModelProto]] = {
    "digits": digits,
    "lenet5": lenet5,
    "resnet8": resnet8,
    "ds_cnn": ds_cnn,
    "mobilenet": mobilenet,
    "autoencoder": autoencoder,
}


def main() -> None:
    """Write every model into the directory named on the command line."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in MODELS.items():
        onnx.save(make(), folder / f"{name}.onnx")


if __name__ == "__main__":
    main()
