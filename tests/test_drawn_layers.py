"""Random layers between QuantizeLinear and DequantizeLinear, judged to the bit.

All scales are powers of two and biases multiples of finer ones, so that every float on the way is exact, in
onnxruntime as here: ties are ties, and a byte that differs is an error.
"""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from ingot.driver import stages
from ingot.formula.expr import Array
from ingot.loops.evaluate import run
from ingot.options import Options
from tests.oracles import exact_session

TARGETS = ("x86-64-v3", "x86-64-v4-vnni", "aarch64-dotprod", "armv7e-m", "armv8.1m", "c99")
SEEDS = range(40)


class Draw:
    """One layer: what is drawn, and the nodes and constants so far."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, Array] = {}

    def number(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def power(self, low: int, high: int, *shape: int) -> Array:
        return np.float32(2.0) ** self.rng.integers(low, high + 1, shape).astype(np.float32)

    def node(self, op: str, inputs: list[str], made: str, **attributes: object) -> str:
        self.nodes.append(helper.make_node(op, inputs, [made], **attributes))
        return made

    def constant(self, name: str, array: Array) -> str:
        self.constants[name] = array
        return name

    def bytes_of(self, kind: str, shape: tuple[int, ...]) -> Array:
        ends = np.iinfo(kind)
        return self.rng.integers(ends.min, ends.max + 1, shape).astype(kind)

    def scaled(self, name: str, scale: Array, kind: str) -> list[str]:
        """Names of a scale and of a zero point for each of it."""
        zero = np.zeros(scale.shape, kind) if scale.shape else np.array(self.number(0, 20), kind)
        return [self.constant(f"{name}_scale", scale), self.constant(f"{name}_zero", zero)]

    def weights(self, shape: tuple[int, ...], axis: int) -> tuple[str, Array]:
        """Dequantised, with one scale or one for each output; the scales."""
        scale = self.power(-9, -6, *([shape[axis]] if self.number(0, 1) else []))
        names = [self.constant("w_bytes", self.bytes_of("int8", shape)), *self.scaled("w", scale, "int8")]
        return self.node("DequantizeLinear", names, "w", **({"axis": axis} if scale.shape else {})), scale

    def bias(self, outputs: int, unit: Array) -> list[str]:
        """None, one in units of the sums, or floats in sixteenths of them."""
        whole = self.rng.integers(-2000, 2000, outputs).astype(np.float32)
        match self.number(0, 2):
            case 0:
                return []
            case 1:
                return [self.constant("bias", whole * unit)]
        return [self.constant("bias", (whole / 16).astype(np.float32) * unit)]

    def layer(self, x: str, shape: tuple[int, ...], unit: float) -> str:
        """A convolution of images, or a product of rows."""
        outputs = self.number(1, 18)
        if len(shape) == 2:
            w, scale = self.weights((outputs, shape[1]), 0)
            return self.node("Gemm", [x, w, *self.bias(outputs, scale * unit)], "sum", transB=1)
        group = shape[1] if self.number(0, 2) == 0 else 1
        outputs = group if group > 1 else outputs
        kernel = (self.number(1, 3), self.number(1, 3))
        w, scale = self.weights((outputs, shape[1] // group, *kernel), 0)
        window = {"pads": [self.number(0, 1) for _ in range(4)], "strides": [self.number(1, 2), 1]}
        return self.node("Conv", [x, w, *self.bias(outputs, scale * unit)], "sum", group=group, **window)

    def model(self) -> tuple[onnx.ModelProto, Array]:
        """The layer, and bytes for it."""
        kind, made = (str(self.rng.choice(["uint8", "int8"])) for _ in range(2))
        batch, channels = self.number(1, 3), self.number(1, 17)
        shape = (batch, channels) if self.number(0, 3) == 0 else (batch, channels, 6, self.number(4, 9))
        scale = self.power(-6, -2)
        x = self.node("DequantizeLinear", ["q", *self.scaled("x", scale, kind)], "x")
        y = self.layer(x, shape, float(scale))
        y = self.node("Relu", [y], "relu") if self.number(0, 1) else y
        return self.ended(y, self.scaled("y", self.power(-5, -1), made), kind, made, shape)

    def keeping_model(self) -> tuple[onnx.ModelProto, Array]:
        """What gives bytes of its operand's scale, mostly, and bytes for it: a mean, or numbers cut off."""
        kind = str(self.rng.choice(["uint8", "int8"]))
        shape = (self.number(1, 2), self.number(1, 5), self.number(4, 9), self.number(4, 9))
        to = self.scaled("x", self.power(-6, -2), kind)
        x = self.node("DequantizeLinear", ["q", *to], "x")
        y = self.mean(x) if self.number(0, 1) else self.cut_off(x, float(self.constants["x_scale"]))
        if self.number(0, 3) == 0:
            to = self.scaled("y", self.power(-7, -1), kind)
        return self.ended(y, to, kind, kind, shape)

    def mean(self, x: str) -> str:
        """Of an image, or of windows of up to twelve elements, with padding that counts or does not."""
        if self.number(0, 3) == 0:
            return self.node("GlobalAveragePool", [x], "mean")
        kernel = [self.number(1, 4), self.number(1, 3)]
        window = {"pads": [self.number(0, k - 1) for k in kernel * 2], "strides": [self.number(1, 2), 1]}
        with_pad = self.number(0, 1)
        return self.node(
            "AveragePool", [x], "mean", kernel_shape=kernel, count_include_pad=with_pad, **window
        )

    def cut_off(self, x: str, scale: float) -> str:
        """A Clip at steps of the operand's, or between them; within what bytes stand for or beyond."""
        ends = sorted(scale * self.number(-600, 600) / self.number(1, 2) for _ in range(2))
        names = [self.constant(n, np.float32(v)) for n, v in zip(("least", "most"), ends, strict=True)]
        match self.number(0, 2):
            case 0:
                names = names[:1]
            case 1:
                names[0] = ""
        return self.node("Clip", [x, *names], "cut")

    def ended(
        self, y: str, to: list[str], kind: str, made: str, shape: tuple[int, ...]
    ) -> tuple[onnx.ModelProto, Array]:
        """The model whose last layer gives `y`, quantised as `to` says, and bytes for its input."""
        self.node("QuantizeLinear", [y, *to], "y")
        edge = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
        values = [helper.make_tensor_value_info("q", edge, shape)]
        results = [helper.make_tensor_value_info("y", helper.np_dtype_to_tensor_dtype(np.dtype(made)), None)]
        constants = [numpy_helper.from_array(a, n) for n, a in self.constants.items()]
        graph = helper.make_graph(self.nodes, "layer", values, results, constants)
        opset = [helper.make_opsetid("", 21)]
        return helper.make_model(graph, opset_imports=opset, ir_version=10), self.bytes_of(kind, shape)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_layer_is_what_the_model_says(seed: int) -> None:
    judge(seed, *Draw(seed).model())


@pytest.mark.parametrize("seed", range(60))
def test_means_and_what_is_cut_off_are_what_the_model_says(seed: int) -> None:
    judge(seed, *Draw(seed).keeping_model())


def judge(seed: int, proto: onnx.ModelProto, q: Array) -> None:
    """onnxruntime, told to compute what is written, gives the same bytes."""
    as_written = onnxruntime.SessionOptions()
    as_written.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    (wanted,) = exact_session(proto, as_written).run(None, {"q": q})
    target = TARGETS[seed % len(TARGETS)]
    (got,) = run(stages(proto, Options(target=target)).program, {"q": q})
    np.testing.assert_array_equal(got, wanted, target)
