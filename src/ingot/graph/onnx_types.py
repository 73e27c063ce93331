"""ONNX's numbers for element types. In: `TensorProto.DataType` numbers; out: our `DType`s, and back.

Stands below `ops`, whose definitions read dtype attributes (`to` of Cast), and below the ONNX frontend.
"""

from __future__ import annotations

from ingot.errors import ModelError, UnsupportedError
from ingot.formula.types import DTYPES, STRING, DType

# TensorProto.DataType, from 1 on.
_NAMES = [
    "float32",
    "uint8",
    "int8",
    "uint16",
    "int16",
    "int32",
    "int64",
    "string",
    "bool",
    "float16",
    "float64",
    "uint32",
    "uint64",
    "complex64",
    "complex128",
    "bfloat16",
    "float8e4m3fn",
    "float8e4m3fnuz",
    "float8e5m2",
    "float8e5m2fnuz",
    "uint4",
    "int4",
    "float4e2m1",
    "float8e8m0",
    "uint2",
    "int2",
    "float6e2m3",
    "float6e3m2",
]


def dtype_from_onnx(number: int, text: DType = STRING) -> DType:
    """The element type; `text` is the model's type of strings. ModelError for an unknown number,
    UnsupportedError for a type no tensor can have.
    """
    if not 1 <= number <= len(_NAMES):
        raise ModelError(f"{number} is not an ONNX element type")
    name = _NAMES[number - 1]
    if name == "string":
        return text
    if name not in DTYPES:
        raise UnsupportedError(f"element type {name} is not supported")
    return DTYPES[name]


def dtype_to_onnx(dtype: DType) -> int:
    """The number of an element type that tensors can have."""
    return _NAMES.index("string" if dtype.is_text else dtype.name) + 1
