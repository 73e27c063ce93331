"""An ONNX model as a TFLite flatbuffer, written directly: what LiteRT needs, without TensorFlow.

In: a graph with constant weights. Out: bytes, and how its tensors are laid out. Images are channels-last
inside and at the edges, as TFLite's own models are. Batch normalisations fold into convolutions, activations
fuse into what makes their operand, a flatten's order goes into the weights behind it: what TensorFlow's
converter would do. Operators beyond that of common nets are refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import flatbuffers
import numpy as np
import onnx
from ai_edge_litert import schema_py_generated as schema
from onnx import helper, numpy_helper

from ingot.peers.job import Array, Refused

IMAGE = 4  # tensors of this rank are channels-last there
TYPES = {np.dtype(np.float32): schema.TensorType.FLOAT32, np.dtype(np.int32): schema.TensorType.INT32}
FUSED = schema.ActivationFunctionType
LOWEST = np.float32(-3.0e38)


@dataclass
class Net:
    """The model as it grows. `where` has the tensor of each ONNX value, `order` that of flattened images."""

    constants: dict[str, Array]
    readers: dict[str, int]
    tensors: list[Any] = field(default_factory=list)
    buffers: list[Any] = field(default_factory=lambda: [schema.BufferT()])
    operators: list[Any] = field(default_factory=list)
    codes: list[int] = field(default_factory=list)
    where: dict[str, int] = field(default_factory=dict)
    order: dict[str, Array] = field(default_factory=dict)
    made_by: dict[int, Any] = field(default_factory=dict)

    def tensor(self, shape: Sequence[int], dtype: Any = np.float32) -> int:
        made = schema.TensorT()
        made.shape, made.type, made.buffer = list(map(int, shape)), TYPES[np.dtype(dtype)], 0
        made.name = f"t{len(self.tensors)}"
        self.tensors.append(made)
        return len(self.tensors) - 1

    def constant(self, array: Array) -> int:
        at = self.tensor(array.shape, array.dtype)
        buffer = schema.BufferT()
        buffer.data = np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)
        self.buffers.append(buffer)
        self.tensors[at].buffer = len(self.buffers) - 1
        return at

    def shape(self, at: int) -> list[int]:
        return list(self.tensors[at].shape)

    def add(
        self, code: str, inputs: Sequence[int], shapes: Sequence[Sequence[int]], **options: Any
    ) -> list[int]:
        """One operator with its options (`kind` names their table); the tensors it makes."""
        number = getattr(schema.BuiltinOperator, code)
        if number not in self.codes:
            self.codes.append(number)
        made = schema.OperatorT()
        made.opcodeIndex, made.inputs = self.codes.index(number), list(inputs)
        made.outputs = [self.tensor(s) for s in shapes]
        if kind := options.pop("kind", None):
            made.builtinOptionsType = getattr(schema.BuiltinOptions, kind)
            made.builtinOptions = getattr(schema, f"{kind}T")()
            for name, value in options.items():
                setattr(made.builtinOptions, name, value)
        self.operators.append(made)
        self.made_by.update({at: made for at in made.outputs})
        return list(made.outputs)

    def one(self, code: str, inputs: Sequence[int], shape: Sequence[int], **options: Any) -> int:
        return self.add(code, inputs, [shape], **options)[0]

    def operand(self, name: str) -> int:
        """The tensor of a value, or of a constant as it is laid out there."""
        if name not in self.where:
            if name not in self.constants:
                raise Refused(f"the value {name} is not known")
            array = self.constants[name]
            turned = np.moveaxis(array, 1, -1) if array.ndim == IMAGE else array
            if array.ndim == 3:  # (C, 1, 1): aligned with the image it meets
                turned = np.moveaxis(array, 0, -1)
            self.where[name] = self.constant(turned.astype(np.float32))
        return self.where[name]


def flatbuffer(model: onnx.ModelProto, inputs: Mapping[str, Array], outputs: Sequence[str]) -> bytes:
    """The bytes of the file."""
    graph = model.graph
    constants = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    readers: dict[str, int] = {}
    for name in [i for node in graph.node for i in node.input] + list(outputs):
        readers[name] = readers.get(name, 0) + 1
    net = Net(constants, readers)
    for name, array in inputs.items():
        net.where[name] = net.tensor(laid_out(array).shape, array.dtype)
    for node in graph.node:
        if node.op_type == "Constant":
            constants[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
        elif node.op_type not in OPERATORS:
            raise Refused(f"no {node.op_type} in this adapter")
        else:
            attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
            OPERATORS[node.op_type](net, node, attributes)
    return _packed(net, [net.where[n] for n in inputs], [net.where[n] for n in outputs])


def laid_out(array: Array) -> Array:
    """Images channels-last, everything else as it is."""
    return np.ascontiguousarray(np.moveaxis(array, 1, -1)) if array.ndim == IMAGE else array


def _packed(net: Net, inputs: list[int], outputs: list[int]) -> bytes:
    model, graph = schema.ModelT(), schema.SubGraphT()
    graph.tensors, graph.operators, graph.inputs, graph.outputs = net.tensors, net.operators, inputs, outputs
    model.version, model.subgraphs, model.buffers = 3, [graph], net.buffers
    model.operatorCodes = []
    for number in net.codes:
        code = schema.OperatorCodeT()
        code.builtinCode, code.deprecatedBuiltinCode, code.version = number, min(number, 127), 1
        model.operatorCodes.append(code)
    builder = flatbuffers.Builder(1 << 20)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


# ---- windows


def _window(
    net: Net, x: int, a: Mapping[str, Any], fill: np.float32
) -> tuple[int, list[int], int, list[int]]:
    """The operand, padded where TFLite's own two ways do not fit; strides, the way, rows and columns out."""
    kernel, shape = list(a["kernel_shape"]), net.shape(x)
    if len(kernel) != 2 or a.get("ceil_mode", 0) or a.get("auto_pad", b"NOTSET") != b"NOTSET":
        raise Refused("a window that is not two-dimensional with explicit pads")
    strides, dilations = list(a.get("strides", [1, 1])), list(a.get("dilations", [1, 1]))
    pads, reach = (
        list(a.get("pads", [0] * 4)),
        [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)],
    )
    out = [(shape[1 + i] + pads[i] + pads[2 + i] - reach[i]) // strides[i] + 1 for i in range(2)]
    if not any(pads):
        return x, strides, schema.Padding.VALID, out
    total = [
        max((-(-shape[1 + i] // strides[i]) - 1) * strides[i] + reach[i] - shape[1 + i], 0) for i in range(2)
    ]
    if pads == [total[0] // 2, total[1] // 2, total[0] - total[0] // 2, total[1] - total[1] // 2]:
        return x, strides, schema.Padding.SAME, out
    sides = np.array([[0, 0], [pads[0], pads[2]], [pads[1], pads[3]], [0, 0]], np.int32)
    larger = [s + int(p.sum()) for s, p in zip(shape, sides, strict=True)]
    extra = [net.constant(np.array([fill], np.float32))] if fill else []
    code, kind = ("PADV2", "PadV2Options") if fill else ("PAD", "PadOptions")
    padded = net.one(code, [x, net.constant(sides), *extra], larger, kind=kind)
    return padded, strides, schema.Padding.VALID, out


def _conv(net: Net, node: onnx.NodeProto, a: Mapping[str, Any]) -> None:
    w, group = net.constants[node.input[1]], int(a.get("group", 1))
    x, strides, way, out = _window(
        net, net.operand(node.input[0]), {"kernel_shape": w.shape[2:], **a}, np.float32(0)
    )
    bias = net.constants[node.input[2]] if len(node.input) > 2 else np.zeros(w.shape[0], np.float32)
    dilations = list(a.get("dilations", [1, 1]))
    common = {
        "padding": way,
        "strideH": strides[0],
        "strideW": strides[1],
        "dilationHFactor": dilations[0],
        "dilationWFactor": dilations[1],
        "fusedActivationFunction": FUSED.NONE,
    }
    shape = [net.shape(x)[0], *out, w.shape[0]]
    if group == 1:
        operands = [x, net.constant(w.transpose(0, 2, 3, 1)), net.constant(bias)]
        net.where[node.output[0]] = net.one("CONV_2D", operands, shape, kind="Conv2DOptions", **common)
    elif group == net.shape(x)[3] and w.shape[1] == 1:
        operands = [x, net.constant(w.transpose(1, 2, 3, 0)), net.constant(bias)]
        more = {"kind": "DepthwiseConv2DOptions", "depthMultiplier": w.shape[0] // group}
        net.where[node.output[0]] = net.one("DEPTHWISE_CONV_2D", operands, shape, **more, **common)
    else:
        raise Refused("a grouped Conv")


def _pool(code: str) -> Callable[..., None]:
    def add(net: Net, node: onnx.NodeProto, a: Mapping[str, Any]) -> None:
        is_max, kernel = code == "MAX_POOL_2D", list(a["kernel_shape"])
        if not is_max and any(a.get("pads", [])):
            raise Refused("an AveragePool with pads")
        fill = LOWEST if is_max else np.float32(0)
        x, strides, way, out = _window(net, net.operand(node.input[0]), a, fill)
        shape = [net.shape(x)[0], *out, net.shape(x)[3]]
        sizes = {"filterHeight": kernel[0], "filterWidth": kernel[1], "padding": way}
        steps = {"strideH": strides[0], "strideW": strides[1], "fusedActivationFunction": FUSED.NONE}
        net.where[node.output[0]] = net.one(code, [x], shape, kind="Pool2DOptions", **sizes, **steps)

    return add


def _global_average(net: Net, node: onnx.NodeProto, _: Mapping[str, Any]) -> None:
    x = net.operand(node.input[0])
    shape = [net.shape(x)[0], 1, 1, net.shape(x)[3]]
    axes = net.constant(np.array([1, 2], np.int32))
    net.where[node.output[0]] = net.one("MEAN", [x, axes], shape, kind="ReducerOptions", keepDims=True)


def _batch_norm(net: Net, node: onnx.NodeProto, a: Mapping[str, Any]) -> None:
    """(x - mean) * scale / sqrt(var + e) + b, into the convolution that makes x if nobody else reads it."""
    scale, b, mean, var = (net.constants[i].astype(np.float64) for i in node.input[1:5])
    factor = scale / np.sqrt(var + a.get("epsilon", 1e-5))
    maker, x = net.made_by.get(net.where[node.input[0]]), net.operand(node.input[0])
    convolution = maker and net.codes[maker.opcodeIndex] in (
        schema.BuiltinOperator.CONV_2D,
        schema.BuiltinOperator.DEPTHWISE_CONV_2D,
    )
    if maker is None or not convolution or net.readers[node.input[0]] > 1:
        y = net.one("MUL", [x, net.constant(factor.astype(np.float32))], net.shape(x), kind="MulOptions")
        shift = net.constant((b - mean * factor).astype(np.float32))
        net.where[node.output[0]] = net.one("ADD", [y, shift], net.shape(x), kind="AddOptions")
        return
    w, bias = (_values(net, at) for at in maker.inputs[1:3])
    if net.codes[maker.opcodeIndex] == schema.BuiltinOperator.CONV_2D:
        w = w * factor.reshape(-1, 1, 1, 1)
    else:
        w = w * factor
    maker.inputs[1] = net.constant(w.astype(np.float32))
    maker.inputs[2] = net.constant(((bias - mean) * factor + b).astype(np.float32))
    net.where[node.output[0]] = x


def _values(net: Net, at: int) -> Array:
    data: Array = net.buffers[net.tensors[at].buffer].data.view(np.float32).reshape(net.shape(at))
    return data.astype(np.float64)


# ---- dense


def _gemm(net: Net, node: onnx.NodeProto, a: Mapping[str, Any]) -> None:
    if a.get("alpha", 1.0) != 1.0 or a.get("beta", 1.0) != 1.0 or a.get("transA", 0):
        raise Refused("a Gemm with alpha, beta or transA")
    w = net.constants[node.input[1]]
    bias = net.constants[node.input[2]].reshape(-1) if len(node.input) > 2 else None
    _dense(net, node, w if a.get("transB", 0) else w.T, bias)


def _matmul(net: Net, node: onnx.NodeProto, _: Mapping[str, Any]) -> None:
    w = net.constants.get(node.input[1])
    if w is None or w.ndim != 2:
        raise Refused("a MatMul of two values")
    _dense(net, node, w.T, None)


def _dense(net: Net, node: onnx.NodeProto, w: Array, bias: Array | None) -> None:
    x = net.operand(node.input[0])
    if node.input[0] in net.order:
        w = w[:, net.order[node.input[0]]]
    operands = [x, net.constant(w), -1 if bias is None else net.constant(bias)]
    options = {"keepNumDims": len(net.shape(x)) > 2, "fusedActivationFunction": FUSED.NONE}
    shape = [*net.shape(x)[:-1], w.shape[0]]
    net.where[node.output[0]] = net.one(
        "FULLY_CONNECTED", operands, shape, kind="FullyConnectedOptions", **options
    )


def _flatten(net: Net, node: onnx.NodeProto, a: Mapping[str, Any]) -> None:
    """Flattened channels-last; `order` says where each element of ONNX's order is to be found."""
    x = net.operand(node.input[0])
    shape = net.shape(x)
    if int(a.get("axis", 1)) != 1:
        raise Refused("a Flatten of another axis than 1")
    to = [shape[0], int(np.prod(shape[1:]))]
    net.where[node.output[0]] = _reshaped(net, x, to)
    _remember(net, node.output[0], shape)


def _remember(net: Net, name: str, shape: list[int]) -> None:
    if len(shape) == IMAGE and shape[1] * shape[2] > 1 and shape[3] > 1:
        channels_first = np.arange(int(np.prod(shape[1:]))).reshape(shape[3], shape[1], shape[2])
        net.order[name] = channels_first.transpose(1, 2, 0).reshape(-1)


def _reshaped(net: Net, x: int, to: list[int]) -> int:
    sizes = net.constant(np.array(to, np.int32))
    return net.one("RESHAPE", [x, sizes], to, kind="ReshapeOptions", newShape=to)


def _reshape(net: Net, node: onnx.NodeProto, _: Mapping[str, Any]) -> None:
    x, wanted = net.operand(node.input[0]), net.constants.get(node.input[1])
    if wanted is None:
        raise Refused("a Reshape to what is computed")
    shape = net.shape(x)
    to = [shape[i] if n == 0 else int(n) for i, n in enumerate(wanted)]
    count = int(np.prod(shape))
    to = [count // -int(np.prod(to)) if n == -1 else n for n in to]
    if len(to) == IMAGE or (len(shape) == IMAGE and len(to) != 2):
        raise Refused("a Reshape that changes an image")
    net.where[node.output[0]] = _reshaped(net, x, to)
    _remember(net, node.output[0], shape)


# ---- element by element


def _activation(function: Any, code: str, **options: Any) -> Callable[..., None]:
    def add(net: Net, node: onnx.NodeProto, a: Mapping[str, Any]) -> None:
        x = net.operand(node.input[0])
        maker = net.made_by.get(x)
        inside = getattr(maker, "builtinOptions", None)
        is_free = getattr(inside, "fusedActivationFunction", None) == FUSED.NONE
        if function is not None and inside is not None and is_free and net.readers[node.input[0]] == 1:
            inside.fusedActivationFunction = function
            net.where[node.output[0]] = x
            return
        more = {"alpha": float(a.get("alpha", 0.01))} if code == "LEAKY_RELU" else {}
        net.where[node.output[0]] = net.one(code, [x], net.shape(x), **options, **more)

    return add


def _clip(net: Net, node: onnx.NodeProto, a: Mapping[str, Any]) -> None:
    low, high = (float(net.constants[i].reshape(-1)[0]) for i in node.input[1:3])
    if (low, high) != (0.0, 6.0):
        raise Refused("a Clip that is no ReLU6")
    _activation(FUSED.RELU6, "RELU6")(net, node, a)


def _binary(code: str, kind: str) -> Callable[..., None]:
    def add(net: Net, node: onnx.NodeProto, _: Mapping[str, Any]) -> None:
        total = net.operand(node.input[0])
        for name in node.input[1:]:
            other = net.operand(name)
            shape = np.broadcast_shapes(net.shape(total), net.shape(other))
            total = net.one(code, [total, other], shape, kind=kind, fusedActivationFunction=FUSED.NONE)
        net.where[node.output[0]] = total

    return add


def _axis(a: Mapping[str, Any], rank: int, default: int) -> int:
    axis = int(a.get("axis", default)) % rank
    return {0: 0, 1: 3, 2: 1, 3: 2}[axis] if rank == IMAGE else axis


def _concat(net: Net, node: onnx.NodeProto, a: Mapping[str, Any]) -> None:
    parts = [net.operand(i) for i in node.input]
    shape = net.shape(parts[0])
    axis = _axis(a, len(shape), 0)
    shape[axis] = sum(net.shape(p)[axis] for p in parts)
    options = {"axis": axis, "fusedActivationFunction": FUSED.NONE}
    net.where[node.output[0]] = net.one("CONCATENATION", parts, shape, kind="ConcatenationOptions", **options)


def _split(net: Net, node: onnx.NodeProto, a: Mapping[str, Any]) -> None:
    x, sizes = net.operand(node.input[0]), net.constants.get(node.input[1] if len(node.input) > 1 else "")
    if sizes is None:
        raise Refused("a Split without sizes")
    axis, shape = _axis(a, len(net.shape(x)), 0), net.shape(x)
    shapes = [[int(n) if i == axis else s for i, s in enumerate(shape)] for n in sizes]
    operands = [x, net.constant(sizes.astype(np.int32)), net.constant(np.array(axis, np.int32))]
    made = net.add("SPLIT_V", operands, shapes, kind="SplitVOptions", numSplits=len(sizes))
    net.where.update(zip(node.output, made, strict=True))


def _softmax(net: Net, node: onnx.NodeProto, a: Mapping[str, Any]) -> None:
    x = net.operand(node.input[0])
    if _axis(a, len(net.shape(x)), -1) != len(net.shape(x)) - 1:
        raise Refused("a Softmax of an inner axis")
    net.where[node.output[0]] = net.one("SOFTMAX", [x], net.shape(x), kind="SoftmaxOptions", beta=1.0)


def _unsqueeze(net: Net, node: onnx.NodeProto, a: Mapping[str, Any]) -> None:
    """Of constants only: what a per-channel scale becomes before it meets an image."""
    if node.input[0] not in net.constants:
        raise Refused("an Unsqueeze of what is computed")
    axes = net.constants[node.input[1]] if len(node.input) > 1 else a["axes"]
    net.constants[node.output[0]] = np.expand_dims(net.constants[node.input[0]], tuple(int(n) for n in axes))


def _same(net: Net, node: onnx.NodeProto, _: Mapping[str, Any]) -> None:
    net.where[node.output[0]] = net.operand(node.input[0])
    if node.input[0] in net.order:
        net.order[node.output[0]] = net.order[node.input[0]]
    net.readers[node.input[0]] += net.readers.get(node.output[0], 0) - 1


OPERATORS: Mapping[str, Callable[..., None]] = {
    "Add": _binary("ADD", "AddOptions"),
    "AveragePool": _pool("AVERAGE_POOL_2D"),
    "BatchNormalization": _batch_norm,
    "Clip": _clip,
    "Concat": _concat,
    "Conv": _conv,
    "Dropout": _same,
    "Flatten": _flatten,
    "Gemm": _gemm,
    "GlobalAveragePool": _global_average,
    "Identity": _same,
    "LeakyRelu": _activation(None, "LEAKY_RELU", kind="LeakyReluOptions"),
    "MatMul": _matmul,
    "MaxPool": _pool("MAX_POOL_2D"),
    "Mul": _binary("MUL", "MulOptions"),
    "Relu": _activation(FUSED.RELU, "RELU"),
    "Reshape": _reshape,
    "Sigmoid": _activation(None, "LOGISTIC"),
    "Softmax": _softmax,
    "Split": _split,
    "Sum": _binary("ADD", "AddOptions"),
    "Tanh": _activation(None, "TANH"),
    "Unsqueeze": _unsqueeze,
}
