"""Encoded constants in ONNX models: calls of model-local functions, as a writer makes them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from ingot.graph.encoding import Codebook, Encoding, Sparse
from ingot.graph.onnx_form import functions, parts

Array = np.ndarray[Any, Any]
OPSET = 21


def random_codes(shape: tuple[int, ...], density: float, seed: int = 0, bits: int = 4) -> Codebook:
    """Codes of which that share is not 0; value 0 is 0."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(1, 1 << bits, shape) * (rng.random(shape) < density)
    values = np.sort(rng.standard_normal(1 << bits)).astype(np.float32)
    values[0] = 0
    return Codebook(codes.astype(np.uint8), values)


def sparse(of: Codebook, gap_bits: int = 4) -> Sparse:
    return Sparse.of(of.codes, of.values, gap_bits)


def packed(array: Array, name: str, bits: int) -> onnx.TensorProto:
    if bits > 4:
        return numpy_helper.from_array(array.astype(np.uint8), name)
    return numpy_helper.from_array(array.astype(ml_dtypes.uint4), name)


def encode(model: onnx.ModelProto, encodings: dict[str, Encoding]) -> onnx.ModelProto:
    """The model in which calls make these initializers, which it lacks."""
    calls = []
    for name, e in encodings.items():
        kind, tensors, attributes = parts(e, OPSET)
        for part, tensor in tensors.items():
            tensor.name = f"{name}_{part}"
        model.graph.initializer.extend(tensors.values())
        names = [t.name for t in tensors.values()]
        calls.append(helper.make_node(kind, names, [name], name, domain="ingot", **attributes))
    nodes = [*calls, *model.graph.node]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    del model.functions[:]
    model.functions.extend(functions(OPSET))
    if all(o.domain != "ingot" for o in model.opset_import):
        model.opset_import.append(helper.make_opsetid("ingot", 1))
    return model


def one_node(
    node: onnx.NodeProto,
    inputs: dict[str, tuple[int, ...]],
    constants: dict[str, Array],
    encodings: dict[str, Encoding],
    outputs: int = 1,
    rank: int = 2,
) -> onnx.ModelProto:
    """A model of one node, some of whose inputs are encoded."""

    made = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [None] * rank)
        for name in node.output[:outputs]
    ]
    graph = helper.make_graph(
        [node],
        "encoded",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()],
        made,
        [numpy_helper.from_array(a, n) for n, a in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
    return encode(model, encodings)
