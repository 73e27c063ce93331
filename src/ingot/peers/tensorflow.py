"""An ONNX model as a TensorFlow function, as somebody who trained it there would have written it.

In: a graph with constant weights. Out: a function from tensors to a dictionary of tensors. Images are
channels-last inside and at the edges; the order of a flattened image goes into the weights behind it, and a
batch normalisation is a factor and a term. Operators beyond those of common nets are refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import tensorflow as tf
from onnx import helper, numpy_helper

from ingot.peers.job import Array, Refused

IMAGE = 4  # tensors of this rank are channels-last there
LOWEST = float(np.finfo(np.float32).min)


@dataclass
class Net:
    """A function being traced. `order` has where a flattened image's elements come from."""

    constants: dict[str, Array]
    values: dict[str, Any] = field(default_factory=dict)
    order: dict[str, Array] = field(default_factory=dict)

    def operand(self, name: str) -> Any:
        """A value, or a constant as it is laid out there."""
        if name in self.values:
            return self.values[name]
        if name not in self.constants:
            raise Refused(f"the value {name} is not known")
        array = self.constants[name]
        return np.moveaxis(array, 1, -1) if array.ndim == IMAGE else array


def function_of(model: onnx.ModelProto, inputs: Sequence[str]) -> Callable[..., dict[str, Any]]:
    """Called with the inputs in order; the results are named out0, out1, ..."""
    graph = model.graph
    constants = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant":
            constants[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)

    def computed(*given: Any) -> dict[str, Any]:
        net = Net(constants, dict(zip(inputs, given, strict=True)))
        for node in graph.node:
            if node.op_type != "Constant":
                _trace(net, node)
        return {f"out{i}": net.operand(o.name) for i, o in enumerate(graph.output)}

    return computed


def laid_out(array: Array) -> Array:
    """Images channels-last, everything else as it is."""
    return np.ascontiguousarray(np.moveaxis(array, 1, -1)) if array.ndim == IMAGE else array


def _trace(net: Net, node: onnx.NodeProto) -> None:
    if node.op_type not in OPERATORS:
        raise Refused(f"no {node.op_type} in this adapter")
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    made = OPERATORS[node.op_type](net, node, attributes)
    for name, value in zip(node.output, made if isinstance(made, list) else [made], strict=True):
        net.values[name] = value


# ---- windows


def _window(x: Any, a: Mapping[str, Any], fill: float) -> tuple[Any, list[int], list[int], str]:
    """The operand, kernel, strides and padding: "SAME" where that means these pads, else padded."""
    kernel = list(a["kernel_shape"])
    strides, pads = list(a.get("strides", [1, 1])), list(a.get("pads", [0] * 4))
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, a.get("dilations", [1, 1]), strict=True)]
    if len(kernel) != 2 or a.get("ceil_mode") or a.get("auto_pad", b"NOTSET") != b"NOTSET":
        raise Refused("windows of two dimensions with explicit pads only")
    total = [
        max((-(-s // t) - 1) * t + r - s, 0) for s, t, r in zip(x.shape[1:3], strides, reach, strict=True)
    ]
    if pads == [t // 2 for t in total] + [t - t // 2 for t in total]:
        return x, kernel, strides, "SAME" if any(pads) else "VALID"
    sides = [[0, 0], [pads[0], pads[2]], [pads[1], pads[3]], [0, 0]]
    return tf.pad(x, sides, constant_values=fill), kernel, strides, "VALID"


def _conv(net: Net, node: onnx.NodeProto, a: Mapping[str, Any]) -> Any:
    w, group = net.constants[node.input[1]], a.get("group", 1)
    x, _, strides, padding = _window(net.operand(node.input[0]), a, 0.0)
    if group == 1:
        y = tf.nn.conv2d(x, w.transpose(2, 3, 1, 0), strides, padding, dilations=a.get("dilations", [1, 1]))
    elif group == w.shape[0] == x.shape[3] and max(a.get("dilations", [1])) == 1:
        y = tf.nn.depthwise_conv2d(x, w.transpose(2, 3, 0, 1), [1, *strides, 1], padding)
    else:
        raise Refused(f"convolutions of {group} groups are not written here")
    return tf.nn.bias_add(y, net.constants[node.input[2]]) if len(node.input) > 2 else y


def _max_pool(net: Net, node: onnx.NodeProto, a: Mapping[str, Any]) -> Any:
    return tf.nn.max_pool2d(*_window(net.operand(node.input[0]), a, LOWEST))


def _average_pool(net: Net, node: onnx.NodeProto, a: Mapping[str, Any]) -> Any:
    if any(a.get("pads", ())):
        raise Refused("averages of padded images are not written here")
    return tf.nn.avg_pool2d(*_window(net.operand(node.input[0]), a, 0.0))


# ---- everything else


def _batch_norm(net: Net, node: onnx.NodeProto, a: Mapping[str, Any]) -> Any:
    scale, shift, mean, variance = (net.constants[n].astype(np.float64) for n in node.input[1:])
    factor = scale / np.sqrt(variance + a.get("epsilon", 1e-5))
    x = net.operand(node.input[0])
    return x * factor.astype(np.float32) + (shift - mean * factor).astype(np.float32)


def _gemm(net: Net, node: onnx.NodeProto, a: Mapping[str, Any]) -> Any:
    if a.get("alpha", 1.0) != 1.0 or a.get("beta", 1.0) != 1.0 or a.get("transA"):
        raise Refused("a scaled or transposed Gemm is not written here")
    w = net.constants[node.input[1]]
    w = w.T if a.get("transB") else w
    order = net.order.get(node.input[0])
    y = tf.matmul(net.operand(node.input[0]), w if order is None else w[order])
    return y + net.constants[node.input[2]] if len(node.input) > 2 else y


def _flatten(net: Net, node: onnx.NodeProto, a: Mapping[str, Any]) -> Any:
    x = net.operand(node.input[0])
    if a.get("axis", 1) != 1:
        raise Refused("a Flatten to other than rows is not written here")
    if len(x.shape) == IMAGE and x.shape[1] * x.shape[2] > 1:
        _, h, w, c = x.shape
        net.order[node.output[0]] = np.arange(c * h * w).reshape(c, h, w).transpose(1, 2, 0).ravel()
    return tf.reshape(x, [x.shape[0], -1])


def _clip(net: Net, node: onnx.NodeProto, a: Mapping[str, Any]) -> Any:
    lo, hi = (float(net.constants[n]) for n in node.input[1:3])
    x = net.operand(node.input[0])
    return tf.nn.relu6(x) if (lo, hi) == (0.0, 6.0) else tf.clip_by_value(x, lo, hi)


def _axis(rank: int, axis: int) -> int:
    """ONNX's axis where images are channels-last."""
    axis %= rank
    return {0: 0, 1: 3, 2: 1, 3: 2}[axis] if rank == IMAGE else axis


def _concat(net: Net, node: onnx.NodeProto, a: Mapping[str, Any]) -> Any:
    parts = [net.operand(n) for n in node.input]
    return tf.concat(parts, _axis(len(parts[0].shape), a["axis"]))


def _split(net: Net, node: onnx.NodeProto, a: Mapping[str, Any]) -> Any:
    x = net.operand(node.input[0])
    sizes = net.constants[node.input[1]].tolist() if len(node.input) > 1 else len(node.output)
    return list(tf.split(x, sizes, _axis(len(x.shape), a.get("axis", 0))))


def _softmax(net: Net, node: onnx.NodeProto, a: Mapping[str, Any]) -> Any:
    x = net.operand(node.input[0])
    return tf.nn.softmax(x, _axis(len(x.shape), a.get("axis", -1)))


def _elementwise(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda net, node, a: function(*(net.operand(n) for n in node.input))


OPERATORS: dict[str, Callable[[Net, onnx.NodeProto, Mapping[str, Any]], Any]] = {
    "Add": _elementwise(tf.add),
    "AveragePool": _average_pool,
    "BatchNormalization": _batch_norm,
    "Clip": _clip,
    "Concat": _concat,
    "Conv": _conv,
    "Flatten": _flatten,
    "Gemm": _gemm,
    "GlobalAveragePool": _elementwise(lambda x: tf.reduce_mean(x, [1, 2], keepdims=True)),
    "LeakyRelu": lambda net, node, a: tf.nn.leaky_relu(net.operand(node.input[0]), a.get("alpha", 0.01)),
    "MatMul": _elementwise(tf.matmul),
    "MaxPool": _max_pool,
    "Mul": _elementwise(tf.multiply),
    "Relu": _elementwise(tf.nn.relu),
    "Sigmoid": _elementwise(tf.sigmoid),
    "Softmax": _softmax,
    "Split": _split,
    "Sub": _elementwise(tf.subtract),
    "Tanh": _elementwise(tf.tanh),
}
