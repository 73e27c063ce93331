"""Encodings as ONNX: calls of functions that the model itself defines.

    W = ingot.Codebook(codes, values)                     values[codes]
    W = ingot.Sparse(codes, gaps, shape, values)          zeros, with values[codes] at cumsum(gaps + 1) - 1

Any runtime inlines the bodies, which are standard operators; Ingot knows the calls by domain and name.
Codes and gaps of at most four bits are UINT4 from opset 21 on, bytes otherwise. In: an encoding; out: the
tensors and the node. Called by `write`, and by `layers` for models that hold encodings already.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from ingot.errors import ModelError
from ingot.formula.expr import Array
from ingot.graph.encoding import Codebook, Encoding, Sparse

DOMAIN = "ingot"
UINT4_OPSET = 21
MOST_ELEMENTS = 1 << 28  # of an encoded tensor, whose size the file only claims
CODES, VALUES, EXTENTS = (TensorProto.UINT4, TensorProto.UINT8), (TensorProto.FLOAT,), (TensorProto.INT64,)
OLDEST_OPSET = 11  # CumSum and ScatterElements
Read = Callable[[onnx.TensorProto, str], Array]
"""The elements of a tensor, which messages call by the second argument. Raises ModelError."""


def functions(opset: int) -> list[onnx.FunctionProto]:
    """Both functions, their bodies in `opset`: a runtime reads a body by the opset of the model."""
    imports = [helper.make_opsetid("", opset)]
    codebook = [
        helper.make_node("Cast", ["codes"], ["at"], to=TensorProto.INT64),
        helper.make_node("Gather", ["values", "at"], ["W"]),
    ]
    return [
        helper.make_function(DOMAIN, "Codebook", ["codes", "values"], ["W"], codebook, imports),
        helper.make_function(
            DOMAIN, "Sparse", ["codes", "gaps", "shape", "values"], ["W"], _sparse(), imports, ["gap_bits"]
        ),
    ]


def _sparse() -> list[onnx.NodeProto]:
    def number(name: str, value: int) -> onnx.NodeProto:
        return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(np.array(value)))

    return [
        number("zero", 0),
        number("one", 1),
        helper.make_node("Cast", ["gaps"], ["skipped"], to=TensorProto.INT64),
        helper.make_node("Add", ["skipped", "one"], ["steps"]),
        helper.make_node("CumSum", ["steps", "zero"], ["ends"]),
        helper.make_node("Sub", ["ends", "one"], ["at"]),
        helper.make_node("Cast", ["codes"], ["which"], to=TensorProto.INT64),
        helper.make_node("Gather", ["values", "which"], ["kept"]),
        helper.make_node("ReduceProd", ["shape"], ["count"], keepdims=1),
        helper.make_node("ConstantOfShape", ["count"], ["zeros"]),
        helper.make_node("ScatterElements", ["zeros", "at", "kept"], ["flat"], axis=0),
        helper.make_node("Reshape", ["flat", "shape"], ["W"]),
    ]


def parts(encoding: Encoding, opset: int) -> tuple[str, dict[str, onnx.TensorProto], dict[str, int]]:
    """The function's name, its arguments by their names there, and its attributes."""
    codes = _narrow(encoding.codes, encoding.bits, opset)
    values = numpy_helper.from_array(encoding.values.astype(np.float32))
    if isinstance(encoding, Codebook):
        return "Codebook", {"codes": codes, "values": values}, {}
    shape = numpy_helper.from_array(np.array(encoding.shape, np.int64))
    gaps = _narrow(encoding.gaps, encoding.gap_bits, opset)
    arguments = {"codes": codes, "gaps": gaps, "shape": shape, "values": values}
    return "Sparse", arguments, {"gap_bits": encoding.gap_bits}


def _narrow(array: Array, bits: int, opset: int) -> onnx.TensorProto:
    packs = bits <= 4 and opset >= UINT4_OPSET
    return numpy_helper.from_array(array.astype(ml_dtypes.uint4) if packs else array)


def is_call(node: onnx.NodeProto) -> bool:
    """Whether the node is the call of an encoding."""
    return node.domain == DOMAIN and node.op_type in ("Codebook", "Sparse")


def encoding_of(call: onnx.NodeProto, arguments: list[onnx.TensorProto], read: Read) -> Encoding:
    """What the call of an encoding stands for. Raises ModelError where the parts do not fit each other."""
    what = f"node {call.name!r} ({call.op_type}), weights {call.output[0]!r}"
    wanted = {"Codebook": 2, "Sparse": 4}[call.op_type]
    if len(arguments) != wanted:
        raise ModelError(f"{what}: {len(arguments)} inputs, where {wanted} belong")
    types = {"Codebook": (CODES, VALUES), "Sparse": (CODES, CODES, EXTENTS, VALUES)}[call.op_type]
    if any(t.data_type not in known for t, known in zip(arguments, types, strict=True)):
        raise ModelError(f"{what}: codes and gaps are UINT4 or UINT8, a shape INT64, values FLOAT")
    codes, *rest, values = (read(tensor, what) for tensor in arguments)
    try:
        encoding = _encoding(call, codes.astype(np.uint8), rest, values)
        encoding.check()
    except ValueError as error:
        raise ModelError(f"{what}: {error}") from None
    return encoding


def _encoding(call: onnx.NodeProto, codes: Array, rest: list[Array], values: Array) -> Encoding:
    if not rest:
        return Codebook(codes, values)
    gaps, shape = rest[0].astype(np.uint8), tuple(int(n) for n in rest[1].reshape(-1))
    found = [a.i for a in call.attribute if a.name == "gap_bits"]
    if len(found) != 1:
        raise ValueError("the attribute gap_bits is missing")
    if min(shape, default=0) < 0 or math.prod(shape) > MOST_ELEMENTS:
        raise ValueError(f"no tensor has the shape {list(shape)[:8]}")
    return Sparse(shape, codes, gaps, values, found[0])
