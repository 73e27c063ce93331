"""TensorFlow's element types and constants. In: DataType numbers and Tensor messages; out: DTypes and arrays.

Lengths are checked before anything is allocated: a constant may say one shape and hold another.
"""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np

from ingot.errors import ModelError, UnsupportedError
from ingot.formula.expr import Array
from ingot.formula.types import DTYPES, DType
from ingot.frontends.tensorflow.protos import ENUM, REFERENCE
from ingot.graph.verify import COUNT_LIMIT

_NAMES = dict(enumerate(ENUM.split()))
_OURS = {
    "FLOAT": "float32",
    "DOUBLE": "float64",
    "INT32": "int32",
    "UINT8": "uint8",
    "INT16": "int16",
    "INT8": "int8",
    "INT64": "int64",
    "BOOL": "bool",
    "BFLOAT16": "bfloat16",
    "UINT16": "uint16",
    "HALF": "float16",
    "UINT32": "uint32",
    "UINT64": "uint64",
}
REPEATED_BYTES = 1 << 29
_FIELDS = {
    "float32": "float_val",
    "float64": "double_val",
    "int64": "int64_val",
    "bool": "bool_val",
    "float16": "half_val",
    "bfloat16": "half_val",
    "uint32": "uint32_val",
    "uint64": "uint64_val",
}
"""Where elements that are not raw bytes stand; all other types share int_val."""


def type_name(number: int) -> str:
    """FLOAT for 1, and for 101, a variable of it."""
    return _NAMES.get(number % REFERENCE, f"type {number}")


def dtype_of(number: int) -> DType:
    """The element type. Raises UnsupportedError for one that no tensor of ours can have."""
    name = type_name(number)
    if name not in _OURS or _OURS[name] not in DTYPES:
        raise UnsupportedError(f"element type {name} of TensorFlow is not supported")
    return DTYPES[_OURS[name]]


def known_dtype(number: int) -> DType | None:
    """The element type; None for one that no tensor of ours can have."""
    return DTYPES.get(_OURS.get(type_name(number), ""))


def number_of(dtype: DType) -> int:
    """TensorFlow's number of an element type, as `dtype_of` reads it."""
    name = next(k for k, v in _OURS.items() if v == dtype.name)
    return next(number for number, said in _NAMES.items() if said == name)


def shape_of(shape: Any) -> tuple[int | None, ...] | None:
    """None for an unknown rank, None in the place of an unknown extent. Raises ModelError for none."""
    if shape.unknown_rank:
        return None
    if (least := min((d.size for d in shape.dim), default=0)) < -1:
        raise ModelError(f"a shape with an extent of {least}")
    return tuple(int(d.size) if d.size >= 0 else None for d in shape.dim)


def array_of(tensor: Any, what: str) -> Array:
    """The elements. Raises ModelError naming the constant `what`."""
    shape = [int(d.size) for d in tensor.tensor_shape.dim]
    if tensor.tensor_shape.unknown_rank or min(shape, default=0) < 0 or math.prod(shape) >= COUNT_LIMIT:
        raise ModelError(f"{what}: a constant of shape {shape} is impossible or too large")
    if type_name(tensor.dtype) == "STRING":
        return _strings(tensor, shape, what)
    dtype, count = dtype_of(tensor.dtype), math.prod(shape)
    if tensor.tensor_content:
        return from_bytes(tensor.tensor_content, dtype, shape, what)
    if count * dtype.bytes > REPEATED_BYTES:
        raise ModelError(f"{what}: one element repeated to {count * dtype.bytes} bytes")
    listed = getattr(tensor, _FIELDS.get(dtype.name, "int_val"))
    if len(listed) > count:
        raise ModelError(f"{what}: {len(listed)} elements for the shape {shape}")
    try:
        held = _narrow(np.array(listed, np.int64), dtype) if "half" in _FIELDS.get(dtype.name, "") else None
        found = np.array(listed, dtype.numpy) if held is None else held
    except (OverflowError, ValueError) as error:
        raise ModelError(f"{what}: {error}") from None
    last = found[-1:] if len(found) else np.zeros(1, dtype.numpy)  # the last one stands for all that follow
    return np.concatenate([found, np.repeat(last, count - len(found))]).reshape(shape)


def _narrow(bits: Array, dtype: DType) -> Array:
    """16-bit floats are listed as the integers that their bits are."""
    if len(bits) and not 0 <= bits.min() <= bits.max() < 1 << 16:
        raise ValueError("an element of 16 bits is out of range")
    return bits.astype(np.uint16).view(ml_dtypes.bfloat16 if dtype.name == "bfloat16" else np.float16)


def from_bytes(data: bytes, dtype: DType, shape: list[int], what: str) -> Array:
    """Little-endian elements of exactly this many bytes. Raises ModelError."""
    if len(data) != math.prod(shape) * dtype.bytes:
        raise ModelError(f"{what}: {len(data)} bytes for {dtype}{shape}")
    return np.frombuffer(data, dtype.numpy).reshape(shape)


def _strings(tensor: Any, shape: list[int], what: str) -> Array:
    """Names of files and variables: an array of bytes objects, which no computation takes."""
    if len(tensor.string_val) != math.prod(shape):
        raise ModelError(f"{what}: {len(tensor.string_val)} strings for the shape {shape}")
    made = np.empty(len(tensor.string_val), object)
    made[:] = [bytes(s) for s in tensor.string_val]
    return made.reshape(shape)
