"""Nets built node by node, as ONNX: onnx and numpy only, seeded by their names, the same bytes every time.

In: calls, one per layer. Out: a ModelProto of static shapes. Called by `models.py` and `random_models.py`.
Weights are scaled so that signals keep their size from layer to layer: nothing saturates, nothing dies out.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

IR_VERSION, OPSET = 8, 17
Array = npt.NDArray[Any]
Pads = int | Literal["same"] | Sequence[int]
HALVING = ("Relu", "Relu6", "LeakyRelu")  # what they let through is half of the signal


class Net:
    """Methods append a layer and return the name of its output; `shapes` has the shape of every value."""

    def __init__(self, name: str, *inputs: Sequence[int], names: Sequence[str] = ("x", "h", "c")) -> None:
        self.name = name
        self.rng = np.random.default_rng(zlib.crc32(name.encode()))
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.inputs = list(names[: len(inputs)])
        self.shapes.update(zip(self.inputs, map(tuple, inputs), strict=True))

    # ---- values

    def node(
        self, op: str, inputs: Sequence[str], *shapes: Sequence[int], **attributes: Any
    ) -> str | tuple[str, ...]:
        """Any operator; one name per shape."""
        number = len(self.nodes)
        names = [f"{op.lower()}{number}{f'_{i}' if i else ''}" for i in range(len(shapes))]
        self.nodes.append(helper.make_node(op, list(inputs), names, name=f"{op}_{number}", **attributes))
        self.shapes.update(zip(names, map(tuple, shapes), strict=True))
        return tuple(names) if len(names) > 1 else names[0]

    def one(self, op: str, inputs: Sequence[str], shape: Sequence[int], **attributes: Any) -> str:
        """An operator with one output."""
        made = self.node(op, inputs, shape, **attributes)
        assert isinstance(made, str)
        return made

    def constant(self, array: Array) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array, order="C"), name))
        self.shapes[name] = array.shape
        return name

    def scalar(self, value: float) -> str:
        return self.constant(np.array(value, np.float32))

    def integers(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def weight(self, *shape: int, terms: int, gain: float = 1.0) -> str:
        """Normal values: a sum of `terms` products keeps `gain` times the variance."""
        values = self.rng.standard_normal(shape) * (gain / terms) ** 0.5
        return self.constant(values.astype(np.float32))

    def bias(self, *shape: int) -> str:
        return self.constant((self.rng.standard_normal(shape) * 0.1).astype(np.float32))

    def uniform(self, low: float, high: float, *shape: int) -> str:
        return self.constant(self.rng.uniform(low, high, shape).astype(np.float32))

    # ---- layers

    def conv(
        self,
        x: str,
        channels: int,
        kernel: int | Sequence[int],
        stride: int = 1,
        *,
        pads: Pads = "same",
        group: int = 1,
        dilation: int = 1,
        then: str = "",
        gain: float | None = None,
    ) -> str:
        """A convolution with bias; pads "same": the output is the input's size divided by the stride."""
        n, ic, *size = self.shapes[x]
        rank = len(size)
        taps = [kernel] * rank if isinstance(kernel, int) else list(kernel)
        reach = [(k - 1) * dilation + 1 for k in taps]
        sides = _sides(pads, size, reach, stride)
        out = [(s + sides[i] + sides[rank + i] - reach[i]) // stride + 1 for i, s in enumerate(size)]
        gain = gain if gain is not None else 2.0 if then in HALVING else 1.0
        w = self.weight(channels, ic // group, *taps, terms=ic // group * int(np.prod(taps)), gain=gain)
        settings = {"kernel_shape": taps, "strides": [stride] * rank, "pads": sides, "group": group}
        settings["dilations"] = [dilation] * rank
        return self.then(self.one("Conv", [x, w, self.bias(channels)], (n, channels, *out), **settings), then)

    def conv_transpose(self, x: str, channels: int, kernel: int, stride: int) -> str:
        """Enlarges the image `stride` times along both axes, without padding."""
        n, c, *size = self.shapes[x]
        w = self.weight(c, channels, kernel, kernel, terms=c * kernel * kernel)
        out = [(s - 1) * stride + kernel for s in size]
        settings = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2}
        return self.one("ConvTranspose", [x, w, self.bias(channels)], (n, channels, *out), **settings)

    def depthwise(self, x: str, kernel: int, stride: int = 1, *, then: str = "", pads: Pads = "same") -> str:
        channels = self.shapes[x][1]
        return self.conv(x, channels, kernel, stride, group=channels, then=then, pads=pads)

    def then(self, x: str, op: str) -> str:
        """An activation by name, or nothing."""
        match op:
            case "":
                return x
            case "Relu6":
                return self.one("Clip", [x, self.scalar(0), self.scalar(6)], self.shapes[x])
            case "LeakyRelu":
                return self.one(op, [x], self.shapes[x], alpha=0.1)
            case "Softmax":
                return self.one(op, [x], self.shapes[x], axis=-1)
        return self.one(op, [x], self.shapes[x])

    def batch_norm(self, x: str) -> str:
        c = self.shapes[x][1]
        parts = [self.uniform(0.8, 1.2, c), self.bias(c), self.bias(c), self.uniform(0.8, 1.2, c)]
        return self.one("BatchNormalization", [x, *parts], self.shapes[x], epsilon=1e-5)

    def pool(
        self, x: str, kernel: int | Sequence[int], stride: int = 0, *, pads: int = 0, op: str = "MaxPool"
    ) -> str:
        """A stride of 0: as large as the kernel."""
        n, c, *size = self.shapes[x]
        taps = [kernel] * len(size) if isinstance(kernel, int) else list(kernel)
        strides = [stride] * len(size) if stride else taps
        sides = [pads] * 2 * len(size)
        out = [(s + 2 * pads - k) // t + 1 for s, k, t in zip(size, taps, strides, strict=True)]
        return self.one(op, [x], (n, c, *out), kernel_shape=taps, strides=strides, pads=sides)

    def average(self, x: str) -> str:
        """Over all positions, flattened."""
        n, c, *size = self.shapes[x]
        pooled = self.one("GlobalAveragePool", [x], (n, c, *[1] * len(size)))
        return self.flat(pooled)

    def flat(self, x: str) -> str:
        n, *rest = self.shapes[x]
        return self.one("Flatten", [x], (n, int(np.prod(rest))), axis=1)

    def dense(self, x: str, m: int, then: str = "") -> str:
        rows, n = self.shapes[x]
        w = self.weight(m, n, terms=n, gain=2.0 if then in HALVING else 1.0)
        return self.then(self.one("Gemm", [x, w, self.bias(m)], (rows, m), transB=1), then)

    def linear(self, x: str, m: int) -> str:
        """The last axis by a matrix, plus a bias."""
        *outer, n = self.shapes[x]
        product = self.one("MatMul", [x, self.weight(n, m, terms=n)], (*outer, m))
        return self.binary("Add", product, self.bias(m))

    def layer_norm(self, x: str) -> str:
        n = self.shapes[x][-1]
        return self.one(
            "LayerNormalization", [x, self.uniform(0.9, 1.1, n), self.bias(n)], self.shapes[x], axis=-1
        )

    def binary(self, op: str, a: str, b: str) -> str:
        shape = np.broadcast_shapes(self.shapes[a], self.shapes[b])
        return self.one(op, [a, b], shape)

    def add(self, a: str, b: str, then: str = "") -> str:
        return self.then(self.binary("Add", a, b), then)

    def concat(self, *parts: str, axis: int = 1) -> str:
        shape = list(self.shapes[parts[0]])
        shape[axis] = sum(self.shapes[p][axis] for p in parts)
        return self.one("Concat", parts, shape, axis=axis)

    def reshape(self, x: str, *shape: int) -> str:
        return self.one("Reshape", [x, self.integers(*shape)], shape)

    def transpose(self, x: str, *order: int) -> str:
        return self.one("Transpose", [x], [self.shapes[x][i] for i in order], perm=list(order))

    def lstm(self, x: str, hidden: int, *state: str) -> tuple[str, str, str]:
        """x is (steps, 1, features); every step's output (steps, 1, 1, hidden), and the last h and c."""
        steps, batch, n = self.shapes[x]
        w, r = (self.weight(1, 4 * hidden, k, terms=k) for k in (n, hidden))
        one = (1, batch, hidden)
        operands = [x, w, r, self.bias(1, 8 * hidden), *(["", *state] if state else [])]
        made = self.node("LSTM", operands, (steps, *one), one, one, hidden_size=hidden)
        assert isinstance(made, tuple)
        y, h, c = made
        return y, h, c

    # ---- the whole

    def model(self, **outputs: str) -> onnx.ModelProto:
        """The finished model; outputs by the names they get."""
        called = {value: name for name, value in outputs.items()}
        for node in self.nodes:
            for values in (node.input, node.output):
                for i, value in enumerate(values):
                    values[i] = called.get(value, value)
        ends = [(n, self.shapes[n]) for n in self.inputs], [(n, self.shapes[v]) for n, v in outputs.items()]
        given, made = ([helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in e] for e in ends)
        graph = helper.make_graph(self.nodes, self.name, given, made, self.weights)
        opsets = [helper.make_opsetid("", OPSET)]
        return helper.make_model(graph, ir_version=IR_VERSION, opset_imports=opsets)


def _sides(pads: Pads, size: Sequence[int], reach: Sequence[int], stride: int) -> list[int]:
    """Begins, then ends; of an odd number the end gets more."""
    if pads != "same":
        return [pads] * 2 * len(size) if isinstance(pads, int) else [int(p) for p in pads]
    total = [max((-(-s // stride) - 1) * stride + r - s, 0) for s, r in zip(size, reach, strict=True)]
    return [t // 2 for t in total] + [t - t // 2 for t in total]
