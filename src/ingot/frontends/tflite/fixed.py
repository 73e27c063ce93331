"""Factors as TFLite's integer kernels have them. In: real scales; out: multipliers, shifts, limits, tables.

The arithmetic that takes them is that of `ops/tflite.py`. Scales are float32 in the file; TFLite divides and
multiplies them as float64 unless a kernel says otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ingot.formula.types import DType

Array = np.ndarray[Any, Any]
BITS = 31
MOST = (1 << 31) - 1


def rounded(x: float) -> int:
    """To the nearest integer, halves away from 0, as C's round."""
    return math.floor(x + 0.5) if x >= 0 else -math.floor(-x + 0.5)


def in_float32(product: Sequence[float], by: float) -> float:
    """A product of scales divided by another, each step in float32, where TFLite's kernels have it so."""
    made = np.float32(1)
    with np.errstate(over="ignore"):  # infinity is refused by what makes a multiplier of it
        for scale in product:
            made = made * np.float32(scale)
        return float(made / np.float32(by))


def multiplier_of(factor: float) -> tuple[int, int]:
    """`factor` = multiplier * 2^(shift - 31), the multiplier of 31 bits (TFLite's QuantizeMultiplier)."""
    if factor == 0:
        return 0, 0
    mantissa, shift = math.frexp(factor)
    fixed = rounded(mantissa * (1 << BITS))
    if fixed == 1 << BITS:
        fixed, shift = fixed // 2, shift + 1
    if shift < -31:
        return 0, 0
    return (MOST, 30) if shift > 30 else (fixed, shift)


def multipliers_of(factors: Sequence[float]) -> tuple[Array, Array]:
    """Multipliers and shifts, int32."""
    pairs = np.array([multiplier_of(float(f)) for f in factors], np.int64).reshape(-1, 2)
    return pairs[:, 0].astype(np.int32), pairs[:, 1].astype(np.int32)


def table_of(f: Callable[[int], int], dtype: DType, to: DType | None = None) -> Array:
    """f of every integer of 8 bits, for a Gather whose negative indices count from the end."""
    lowest, highest = int(dtype.lowest), int(dtype.highest)
    made = np.zeros(256, (to or dtype).numpy)
    for q in range(lowest, highest + 1):
        made[q] = f(q)
    return made
