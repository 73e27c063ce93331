"""Element types: what a tensor holds, how numpy stores it, what C calls it.

`compute` is the type arithmetic happens in: floats below 32 bits are storage types whose values are widened
to float32 when they are read and rounded (half to even) when they are stored; integers below 8 bits are read
as int8 or uint8 and keep their low bits when they are stored. Inside a bundle each takes a byte; tensors at
its boundary are packed (`formula/packing.py`).

A string is a value of fixed capacity: UTF-8, ended by a zero byte unless it fills its capacity, filled up
with zeros; numpy's `S<n>` has the same bytes. What stands behind the first zero means nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np


@dataclass(frozen=True, slots=True)
class DType:
    """An element type. `kind` is one of f (float), i (signed), u (unsigned), b (bool), s (string), x (loop
    index).
    """

    name: str
    kind: str
    bits: int
    c: str

    def __str__(self) -> str:
        return self.name

    @property
    def bytes(self) -> int:
        return (self.bits + 7) // 8

    @property
    def numpy(self) -> np.dtype[Any]:
        name = f"S{self.bytes}" if self.kind == "s" else _NUMPY.get(self.name, self.name)
        found: np.dtype[Any] = np.dtype(name)
        return found

    @property
    def compute(self) -> DType:
        if self.kind == "f":
            return FLOAT32 if self.bits < 32 else self
        if self.bits >= 8 or not self.is_packed:
            return self
        return UINT8 if self.kind == "u" else INT8

    @property
    def is_packed(self) -> bool:
        """Whether several elements share a byte where the caller sees them, and in a model file."""
        return self.bits < 8 and self.kind in "fiu"

    @property
    def is_narrow(self) -> bool:
        """Whether the type is for storage only."""
        return self.compute is not self

    @property
    def format(self) -> Format:
        """How a float below 32 bits is encoded."""
        return FORMATS[self.name]

    @property
    def largest(self) -> float:
        """The greatest finite number of a narrow float."""
        f = self.format
        code = f.largest
        return float((1 << f.mantissa) | (code & ((1 << f.mantissa) - 1))) * 2.0 ** (
            (code >> f.mantissa) - f.bias - f.mantissa
        )

    @property
    def edge(self) -> str:
        """What C calls the elements of an array that comes from a caller or goes to one."""
        return "char" if self.kind == "s" else self.c

    @property
    def is_text(self) -> bool:
        return self.kind == "s"

    @property
    def is_float(self) -> bool:
        return self.kind == "f"

    @property
    def is_integer(self) -> bool:
        return self.kind in "iux"

    @property
    def lowest(self) -> float | int:
        """The identity of max: minus infinity, or the smallest integer."""
        if self.kind == "f":
            return float("-inf")
        return 0 if self.kind in "ub" else -(1 << (self.bits - 1))

    @property
    def highest(self) -> float | int:
        """The identity of min: infinity, or the largest integer."""
        if self.kind == "f":
            return float("inf")
        return (1 << (self.bits - (self.kind in "ix"))) - 1


@dataclass(frozen=True, slots=True)
class Format:
    """A float of sign, `exponent` and `mantissa` bits. `largest` is the code of the greatest finite number.

    `infinite` and `nan` are the codes of infinity and NaN without their signs, None where there is none: what
    is too large is then NaN, or the largest number if there is no NaN either. `one_zero`: what would be the
    negative zero is the only NaN.
    """

    exponent: int
    mantissa: int
    bias: int
    largest: int
    infinite: int | None = None
    nan: int | None = None
    one_zero: bool = False

    @property
    def sign(self) -> int:
        """The number of the sign bit."""
        return self.exponent + self.mantissa


FORMATS = {
    "float16": Format(5, 10, 15, 0x7BFF, 0x7C00, 0x7E00),
    "bfloat16": Format(8, 7, 127, 0x7F7F, 0x7F80, 0x7FC0),
    "float8e4m3fn": Format(4, 3, 7, 0x7E, None, 0x7F),
    "float8e4m3fnuz": Format(4, 3, 8, 0x7F, None, 0x80, one_zero=True),
    "float8e5m2": Format(5, 2, 15, 0x7B, 0x7C, 0x7E),
    "float8e5m2fnuz": Format(5, 2, 16, 0x7F, None, 0x80, one_zero=True),
    "float6e2m3": Format(2, 3, 1, 0x1F),
    "float6e3m2": Format(3, 2, 3, 0x1F),
    "float4e2m1": Format(2, 1, 1, 0x7),
}

BOOL = DType("bool", "b", 8, "uint8_t")
INT8 = DType("int8", "i", 8, "int8_t")
INT16 = DType("int16", "i", 16, "int16_t")
INT32 = DType("int32", "i", 32, "int32_t")
INT64 = DType("int64", "i", 64, "int64_t")
UINT8 = DType("uint8", "u", 8, "uint8_t")
UINT16 = DType("uint16", "u", 16, "uint16_t")
UINT32 = DType("uint32", "u", 32, "uint32_t")
UINT64 = DType("uint64", "u", 64, "uint64_t")
FLOAT16 = DType("float16", "f", 16, "uint16_t")
BFLOAT16 = DType("bfloat16", "f", 16, "uint16_t")
FLOAT8E4M3FN = DType("float8e4m3fn", "f", 8, "uint8_t")
FLOAT8E4M3FNUZ = DType("float8e4m3fnuz", "f", 8, "uint8_t")
FLOAT8E5M2 = DType("float8e5m2", "f", 8, "uint8_t")
FLOAT8E5M2FNUZ = DType("float8e5m2fnuz", "f", 8, "uint8_t")
FLOAT8E8M0 = DType("float8e8m0", "f", 8, "uint8_t")  # 2 to the power of code - 127; 255 is NaN
FLOAT6E2M3 = DType("float6e2m3", "f", 6, "uint8_t")
FLOAT6E3M2 = DType("float6e3m2", "f", 6, "uint8_t")
FLOAT4E2M1 = DType("float4e2m1", "f", 4, "uint8_t")
INT4 = DType("int4", "i", 4, "int8_t")
UINT4 = DType("uint4", "u", 4, "uint8_t")
INT2 = DType("int2", "i", 2, "int8_t")
UINT2 = DType("uint2", "u", 2, "uint8_t")
FLOAT32 = DType("float32", "f", 32, "float")
FLOAT64 = DType("float64", "f", 64, "double")
INDEX = DType("index", "x", 32, "int")

DTYPES = {
    t.name: t
    for t in (
        *(BOOL, INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64),
        *(FLOAT16, BFLOAT16, FLOAT32, FLOAT64),
        *(FLOAT8E4M3FN, FLOAT8E4M3FNUZ, FLOAT8E5M2, FLOAT8E5M2FNUZ, FLOAT8E8M0),
        *(FLOAT6E2M3, FLOAT6E3M2, FLOAT4E2M1, INT4, UINT4, INT2, UINT2),
    )
}
_NUMPY: dict[str, Any] = {
    "index": np.int64,
    "bfloat16": ml_dtypes.bfloat16,
    "float8e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
    "float8e5m2": ml_dtypes.float8_e5m2,
    "float8e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
    "float8e8m0": ml_dtypes.float8_e8m0fnu,
    "float6e2m3": ml_dtypes.float6_e2m3fn,
    "float6e3m2": ml_dtypes.float6_e3m2fn,
    "float4e2m1": ml_dtypes.float4_e2m1fn,
    **{name: getattr(ml_dtypes, name) for name in ("int4", "uint4", "int2", "uint2")},
}
_BY_NUMPY = {t.numpy: t for t in DTYPES.values()}


@cache
def text_type(capacity: int) -> DType:
    """The type of strings of at most `capacity` bytes, the zero at their end included."""
    name = f"string{capacity}"
    return DType(name, "s", 8 * capacity, name)


STRING = text_type(64)


def dtype_named(name: str) -> DType:
    """The element type of a name: of `DTYPES`, or string<capacity>. Raises KeyError for any other."""
    found = re.fullmatch("string([1-9][0-9]{0,6})", name)
    return text_type(int(found[1])) if found else DTYPES[name]


def dtype_of(array: np.ndarray[Any, Any]) -> DType:
    """The element type of a numpy array. Raises KeyError for one that no tensor can hold."""
    return text_type(array.dtype.itemsize) if array.dtype.kind == "S" else _BY_NUMPY[array.dtype]
