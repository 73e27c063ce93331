"""Element types: what a tensor holds, how numpy stores it, what C calls it.

`compute` is the type arithmetic happens in: float16 and bfloat16 are storage types whose values are widened
to float32 when they are read and rounded (half to even) when they are stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np


@dataclass(frozen=True, slots=True)
class DType:
    """An element type. `kind` is one of f (float), i (signed), u (unsigned), b (bool), x (loop index)."""

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
        found: np.dtype[Any] = np.dtype(_NUMPY.get(self.name, self.name))
        return found

    @property
    def compute(self) -> DType:
        return FLOAT32 if self.kind == "f" and self.bits < 32 else self

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


def dtype_of(array: np.ndarray[Any, Any]) -> DType:
    """The element type of a numpy array. Raises KeyError for one that no tensor can hold."""
    return _BY_NUMPY[array.dtype]
