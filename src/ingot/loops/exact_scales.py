"""Scales as integers: where one product of 32 bits makes of every sum what floats make of it.

    round(float32(sum) * scale)  =  (sum * m + 2^31) >> 32

Both sides grow with the sum, so they are equal for all sums if they reach each result at the same sum. That
gives m two bounds for each of the 255 results above the lowest; what lies beyond is limited. Nine in ten
scales have such an m. The others stay floats: they have a product that floats round to a tie, before they
round it to an integer. Routines for bytes read `words`, which hold either.
"""

from __future__ import annotations

import numpy as np

from ingot.formula.expr import Array

BITS = 32  # by which a product is shifted
LARGEST = (1 << 31) - 1  # of a sum, and of m
NEAR = 6  # sums around the real one among which floats reach a result


def words(scales: Array, lowest: int, highest: int, block: int = 1) -> Array:
    """Of float32 scales [.., channel]: int32 m where all channels of a block have one, else the bits of the
    scale with its sign turned. Results are of interest from `lowest` to `highest`.
    """
    found = multipliers(scales.reshape(-1), lowest, highest).reshape(-1, block)
    own = (-scales.astype(np.float32)).view(np.int32).reshape(found.shape)
    made = np.where((found > 0).all(-1, keepdims=True), found, own)
    return np.ascontiguousarray(made.astype(np.int32).reshape(scales.shape))


def multipliers(scales: Array, lowest: int, highest: int) -> Array:
    """m of each scale, 0 where there is none; 1 where every sum is scaled to 0."""
    results = np.arange(lowest + 1, highest + 1, dtype=np.int64)
    made = np.zeros(scales.shape, np.int64)
    if not len(results):
        return made
    made[scales == 0] = 1
    usable = scales > max(abs(lowest), abs(highest)) / (LARGEST - NEAR)
    first, is_known = _first_sums(scales[usable].astype(np.float32), results)
    low, high = _bounds(first, (results << BITS) - (1 << BITS - 1))
    made[usable] = np.where(is_known & (low <= high), (low + high) // 2, 0)
    return made


def _first_sums(scales: Array, results: Array) -> tuple[Array, Array]:
    """The least sum for which floats make each result or more, by scale, and whether it was found."""
    real = np.floor((results - 0.5) / scales[:, None].astype(np.float64)).astype(np.int64)
    near = real[..., None] + np.arange(-2, NEAR - 2)
    rounded = np.rint(near.astype(np.float32) * scales[:, None, None])
    reached = rounded >= results[:, None]
    first = np.take_along_axis(near, reached.argmax(-1)[..., None], -1)[..., 0]
    return first, np.asarray((~reached[..., 0] & reached[..., -1]).all(-1))


def _bounds(first: Array, wanted: Array) -> tuple[Array, Array]:
    """The least and the largest m with first * m >= wanted > (first - 1) * m for all results."""
    low, high = np.ones(len(first), np.int64), np.full(len(first), LARGEST, np.int64)
    before = first - 1
    for lo, hi in (
        (np.where(first > 0, -(-wanted // np.maximum(first, 1)), 1), LARGEST),
        (np.where(before < 0, wanted // np.minimum(before, -1) + 1, 1), LARGEST),
        (1, np.where(before > 0, (wanted - 1) // np.maximum(before, 1), LARGEST)),
        (1, np.where(first < 0, wanted // np.minimum(first, -1), LARGEST)),
    ):
        low = np.maximum(low, np.max(lo, -1))
        high = np.minimum(high, np.min(hi, -1))
    impossible = ((first == 0) & (wanted > 0)) | ((before == 0) & (wanted <= 0))
    return low, np.where(impossible.any(-1), 0, high)
