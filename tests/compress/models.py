"""Small models with weights of every kind, what onnxruntime answers to them, and how tensors are read."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper, parser

from ingot.formula.expr import Array
from ingot.frontends.onnx.tensors import array_of


def read(tensor: onnx.TensorProto, what: str) -> Array:
    return array_of(tensor, None, what)


def model(
    signature: str, body: str, weights: dict[str, Any], opset: int = 21, ir: int = 10
) -> onnx.ModelProto:
    """A model from ONNX's text; `weights` are arrays, or shapes to be filled with noise."""
    rng = np.random.default_rng(len(body))
    made = parser.parse_model(f'<ir_version: {ir}, opset_import: ["" : {opset}]>\ng {signature} {body}')
    for name, given in weights.items():
        array = given if isinstance(given, np.ndarray) else rng.standard_normal(given).astype(np.float32)
        made.graph.initializer.append(numpy_helper.from_array(array, name))
    return made


def answers(made: onnx.ModelProto, seed: int = 0) -> list[Array]:
    """What onnxruntime makes of noise."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        made.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    rng = np.random.default_rng(seed)
    given = {i.name: _noise(i.type, i.shape, rng) for i in session.get_inputs()}
    return [np.asarray(found) for found in session.run(None, given)]


def _noise(kind: str, shape: list[int], rng: np.random.Generator) -> Array:
    noise = np.asarray(rng.standard_normal(shape))
    if kind == "tensor(bool)":
        return np.asarray(noise > 0)
    return noise.astype({"tensor(float)": np.float32, "tensor(float16)": np.float16}[kind])


def with_weights(made: onnx.ModelProto, weights: dict[str, Array]) -> onnx.ModelProto:
    """The model with other elements in some of its initializers, Constant nodes, and inner graphs."""
    out = onnx.ModelProto()
    out.CopyFrom(made)
    _put(out.graph, weights)
    return out


def _put(graph: onnx.GraphProto, weights: dict[str, Array]) -> None:
    for tensor in graph.initializer:
        if tensor.name in weights:
            kind = helper.tensor_dtype_to_np_dtype(tensor.data_type)
            tensor.CopyFrom(numpy_helper.from_array(weights[tensor.name].astype(kind), tensor.name))
    for node in graph.node:
        for attribute in node.attribute:
            if node.op_type == "Constant" and node.output[0] in weights:
                attribute.t.CopyFrom(numpy_helper.from_array(weights[node.output[0]]))
            if attribute.type == onnx.AttributeProto.GRAPH:
                _put(attribute.g, weights)
