"""Encodings as ONNX: calls of functions that the model itself defines.

    W = ingot.Codebook(codes, values)                     values[codes]
    W = ingot.Sparse(codes, gaps, shape, values)          zeros, with values[codes] at cumsum(gaps + 1) - 1

Any runtime inlines the bodies, which are standard operators; Ingot knows the calls by domain and name, as
long as the model defines the functions as here. Codes and gaps of at most four bits are UINT4 from opset 21
on, bytes otherwise. In: an encoding; out: its tensors and attributes; and back. `compress` writes the calls,
and reads those of models compressed before; the ONNX frontend reads them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from ingot.formula.expr import Array
from ingot.formula.types import FLOAT32, INT64, UINT4, UINT8, DType
from ingot.graph.encoding import Codebook, Encoding, Sparse
from ingot.graph.verify import COUNT_LIMIT

DOMAIN = "ingot"
UINT4_OPSET = 21
MOST_ELEMENTS = 1 << 28  # of all sparse tensors of a model, whose sizes the file only claims
OLDEST_OPSET = 11  # CumSum and ScatterElements
CODES, VALUES, EXTENTS = (UINT4, UINT8), (FLOAT32,), (INT64,)
TYPES: Mapping[str, tuple[tuple[DType, ...], ...]] = {
    "Codebook": (CODES, VALUES),
    "Sparse": (CODES, CODES, EXTENTS, VALUES),
}
"""What the inputs of each function may hold."""
Key = tuple[str, str, str]
"""A function of a model: its domain, name and overload."""


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


def is_call(node: onnx.NodeProto, functions: Mapping[Key, onnx.FunctionProto]) -> bool:
    """Whether the node is the call of an encoding. `functions`: the model's own; one that computes something
    else under the name of an encoding is not taken for it."""
    if node.domain != DOMAIN or node.op_type not in TYPES or len(node.output) != 1:
        return False
    body = functions.get((node.domain, node.op_type, node.overload))
    return body is None or is_ours(body)


def is_ours(function: onnx.FunctionProto) -> bool:
    """Whether a function is one of those that `functions` makes, whatever its values and nodes are called."""
    imports = {o.domain: o.version for o in function.opset_import}
    if function.domain != DOMAIN or imports.keys() - {"", "ai.onnx"}:
        return False
    return any(function.name == f.name and _form(function) == _form(f) for f in functions(UINT4_OPSET))


def _form(function: onnx.FunctionProto) -> tuple[Any, ...]:
    """A function in terms that two have in common if they do the same in the same steps."""
    numbers: dict[str, int] = {"": -1}  # the name of an input that is left out

    def numbered(names: Sequence[str]) -> list[int]:
        return [numbers.setdefault(name, len(numbers)) for name in names]

    inputs = numbered(function.input)
    nodes = [
        (n.domain, n.op_type, numbered(n.input), numbered(n.output), sorted(map(_attribute, n.attribute)))
        for n in function.node
    ]
    has = [*function.attribute, *(a.name for a in function.attribute_proto)]
    return inputs, nodes, numbered(function.output), has


def _attribute(a: onnx.AttributeProto) -> tuple[str, int, bytes]:
    """An attribute; numbers as a Constant node has them, in one of the ways to write them."""
    if a.type == onnx.AttributeProto.INT and not a.ref_attr_name:
        return a.name.removesuffix("_int"), 0, np.int64(a.i).tobytes()
    tensor = a.t
    if a.type == onnx.AttributeProto.TENSOR and tensor.data_type == TensorProto.INT64 and not tensor.dims:
        return a.name, 0, tensor.raw_data or np.array(tensor.int64_data, np.int64).tobytes()
    return a.name, a.type, a.SerializeToString()


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A constant input of a call."""

    name: str
    type: DType
    elements: Array


def encoding_of(call: onnx.NodeProto, parts: Sequence[Part], claimed: int = 0) -> Encoding:
    """What a call stands for. Raises ValueError where the parts do not fit it, or each other.

    `claimed`: the elements of the sparse tensors read before; one of a terabyte takes a few bytes.
    """
    types = TYPES[call.op_type]
    if len(parts) != len(types):
        raise ValueError(f"{len(parts)} inputs, where {len(types)} belong")
    for part, known in zip(parts, types, strict=True):
        if part.type not in known:
            raise ValueError(f"{part.name!r} is {part.type}, where {' or '.join(map(str, known))} belongs")
    arrays = [part.elements for part in parts]
    codes = arrays[0].astype(np.uint8)
    found: Encoding
    if call.op_type == "Codebook":
        found = Codebook(codes, arrays[1])
    else:
        shape = _shape(arrays[2])
        if claimed + prod(shape) > MOST_ELEMENTS:
            raise ValueError(f"the sparse constants up to here have more than {MOST_ELEMENTS:,} elements")
        found = Sparse(shape, codes, arrays[1].astype(np.uint8), arrays[3], _gap_bits(call))
    found.check()
    return found


def _shape(extents: Array) -> tuple[int, ...]:
    if extents.ndim != 1 or (extents < 0).any() or prod(map(int, extents)) >= COUNT_LIMIT:
        raise ValueError(f"no tensor has the shape {extents.tolist()[:8]}")
    return tuple(map(int, extents))


def _gap_bits(call: onnx.NodeProto) -> int:
    found = [a.i for a in call.attribute if a.name == "gap_bits" and a.type == onnx.AttributeProto.INT]
    if len(found) != 1:
        raise ValueError("one attribute gap_bits, an integer, is needed")
    return int(found[0])
