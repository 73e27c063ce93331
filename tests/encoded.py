"""Encoded constants in ONNX models: calls of model-local functions, as a writer makes them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from ingot.graph.encoding import Codebook, Encoding, Sparse

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


def codebook_function() -> onnx.FunctionProto:
    nodes = [
        helper.make_node("Cast", ["codes"], ["wide"], to=TensorProto.INT64),
        helper.make_node("Gather", ["values", "wide"], ["W"]),
    ]
    opsets = [helper.make_opsetid("", OPSET)]
    return helper.make_function("ingot", "Codebook", ["codes", "values"], ["W"], nodes, opsets)


def sparse_function() -> onnx.FunctionProto:
    int64 = TensorProto.INT64
    nodes = [
        helper.make_node("Constant", [], ["one"], value_int=1),
        helper.make_node("Constant", [], ["zero"], value_int=0),
        helper.make_node("Constant", [], ["flat"], value_ints=[-1]),
        helper.make_node("Cast", ["gaps"], ["wide_gaps"], to=int64),
        helper.make_node("Add", ["wide_gaps", "one"], ["steps"]),
        helper.make_node("CumSum", ["steps", "zero"], ["ends"]),
        helper.make_node("Sub", ["ends", "one"], ["positions"]),
        helper.make_node("Cast", ["codes"], ["wide_codes"], to=int64),
        helper.make_node("Gather", ["values", "wide_codes"], ["elements"]),
        helper.make_node("ReduceProd", ["shape"], ["count"], keepdims=1),
        helper.make_node("ConstantOfShape", ["count"], ["zeros"]),
        helper.make_node("ScatterElements", ["zeros", "positions", "elements"], ["filled"]),
        helper.make_node("Reshape", ["filled", "shape"], ["W"]),
    ]
    opsets = [helper.make_opsetid("", OPSET)]
    inputs = ["codes", "gaps", "shape", "values"]
    return helper.make_function("ingot", "Sparse", inputs, ["W"], nodes, opsets, ["gap_bits"])


def packed(array: Array, name: str, bits: int) -> onnx.TensorProto:
    if bits > 4:
        return numpy_helper.from_array(array.astype(np.uint8), name)
    return numpy_helper.from_array(array.astype(ml_dtypes.uint4), name)


def encode(model: onnx.ModelProto, encodings: dict[str, Encoding]) -> onnx.ModelProto:
    """The model in which calls make these initializers, which it lacks."""
    calls = []
    for name, e in encodings.items():
        parts = [packed(e.codes, f"{name}_codes", e.bits)]
        if isinstance(e, Sparse):
            parts.append(packed(e.gaps, f"{name}_gaps", e.gap_bits))
            parts.append(numpy_helper.from_array(np.array(e.shape, np.int64), f"{name}_shape"))
        parts.append(numpy_helper.from_array(e.values, f"{name}_values"))
        model.graph.initializer.extend(parts)
        kind, attributes = ("Sparse", {"gap_bits": e.gap_bits}) if isinstance(e, Sparse) else ("Codebook", {})
        call = helper.make_node(kind, [p.name for p in parts], [name], name, domain="ingot", **attributes)
        calls.append(call)
    nodes = [*calls, *model.graph.node]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    del model.functions[:]
    model.functions.extend([codebook_function(), sparse_function()])
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
