"""Channels that are the same whatever the image shows: networks in training lose some.

    relu(bias - large + sum of x * w)   ->   0 of every x          weights 0, a bias and a factor that give it

Their scales and biases are beyond all measure, and would keep a layer from kernels that count on the size of
sums. In: the integers of a convolution of bytes. Out: the same, or others that give the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ingot.formula.operations import doubling_high, rounding_shr
from ingot.formula.types import DType
from ingot.frontends.tflite.fixed import Array, multipliers_of

FACTOR = 0.25  # of a quarter of 4 * d, which is d in two exact steps
LOWEST, HIGHEST = -(1 << 31), (1 << 31) - 1


def settled(
    kernel: Array, bias: Array, factors: Sequence[float], image: tuple[DType, int], to: tuple[int, int, int]
) -> tuple[Array, Array, list[float]] | None:
    """Kernel [filters, ...] less its zero point, int32 biases, factors; None where no channel is settled.

    `image`: the type and the zero point of what is read, `to`: the zero point and the limits of the result.
    """
    (dtype, zero), (moved, low, high) = image, to
    ends = (int(dtype.lowest) - zero, int(dtype.highest) - zero, 0)  # 0: beyond the border
    products = np.stack([kernel.reshape(len(kernel), -1).astype(np.int64) * end for end in ends])
    sums = [bias.astype(np.int64) + f(products, axis=0).sum(axis=-1) for f in (np.min, np.max)]
    multipliers, shifts = multipliers_of(factors)
    raised = [s << np.maximum(shifts, 0) for s in sums]
    fit = (raised[0] >= LOWEST) & (raised[1] <= HIGHEST) & (multipliers >= 0)
    made = [
        rounding_shr(doubling_high(s.clip(LOWEST, HIGHEST), multipliers), np.maximum(-shifts, 0))
        for s in raised
    ]
    least, most = (np.clip(m.astype(np.int64) + moved, low, high) for m in made)
    same = fit & (least == most)
    if not same.any():
        return None
    along = same.reshape(-1, *[1] * (kernel.ndim - 1))
    return (
        np.where(along, 0, kernel),
        np.where(same, 4 * (least - moved), bias).astype(np.int32),
        [FACTOR if s else f for s, f in zip(same, factors, strict=True)],
    )
