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
LEAST = 2.0**-22  # of a factor by which int32 reaches every byte
NEAR = 8  # numbers of float32 on either side of a factor that are tried in its place


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


def float32_factors(factors: Array, lowest: int, highest: int) -> Array | None:
    """Factors in float32 by which every sum of int32 rounds, halves to even, to what the factors in float64
    round it to, halves away from 0; results are limited to `lowest` and `highest`. None where one has none.

    Both grow with the sum: they are equal if they reach each result at the same sum.
    """
    results = np.arange(lowest + 1, highest + 1, dtype=np.int64)
    if not len(results) or not np.all((factors > LEAST) & (factors < 1)):
        return None
    made = [_float32_factor(float(f), results) for f in factors]
    return None if any(f is None for f in made) else np.array(made, np.float32)


def _float32_factor(factor: float, results: Array) -> float | None:
    near = np.ceil((results - 0.5) / factor).astype(np.int64)[:, None] + np.arange(-2, 3)
    scaled = np.abs(near * factor)
    away = np.copysign(np.floor(scaled) + (scaled - np.floor(scaled) >= 0.5), near)
    reached = away >= results[:, None]
    if reached[:, 0].any() or not reached[:, -1].all():
        return None
    first = np.take_along_axis(near, reached.argmax(1)[:, None], 1)[:, 0]
    nearest = np.float32(factor)
    for bits in sorted(range(-NEAR, NEAR + 1), key=abs):
        tried = (nearest.view(np.int32) + np.int32(bits)).view(np.float32)
        at, before = (np.rint(sums.astype(np.float32) * tried) for sums in (first, first - 1))
        if np.all(at >= results) and np.all(before < results):
            return float(tried)
    return None


def table_of(f: Callable[[int], int], dtype: DType, to: DType | None = None) -> Array:
    """f of every integer of 8 bits, for a Gather whose negative indices count from the end."""
    lowest, highest = int(dtype.lowest), int(dtype.highest)
    made = np.zeros(256, (to or dtype).numpy)
    for q in range(lowest, highest + 1):
        made[q] = f(q)
    return made
