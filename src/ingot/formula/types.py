"""Element types: what a tensor holds, how numpy stores it, what C calls it.

`compute` is the type arithmetic happens in: float16 and bfloat16 are storage types whose values are widened
to float32 when they are read and rounded (half to even) when they are stored.

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
        return FLOAT32 if self.kind == "f" and self.bits < 32 else self

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
FLOAT32 = DType("float32", "f", 32, "float")
FLOAT64 = DType("float64", "f", 64, "double")
INDEX = DType("index", "x", 32, "int")

DTYPES = {
    t.name: t
    for t in (
        *(BOOL, INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64),
        *(FLOAT16, BFLOAT16, FLOAT32, FLOAT64),
    )
}
_NUMPY: dict[str, Any] = {"index": np.int64, "bfloat16": ml_dtypes.bfloat16}
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
