"""Magnitude pruning: which weights stay. In: weights and densities; out: masks.

Called by `encode`.
"""

from __future__ import annotations

import numpy as np

from ingot.formula.expr import Array


def largest(weights: Array, kept: int) -> Array:
    """Bool of the weights' shape: the `kept` weights of the largest magnitude, zeros never; of equals the
    first."""
    size = np.abs(weights).reshape(-1)
    if kept >= size.size:
        return np.asarray(weights != 0)
    if kept <= 0:
        return np.zeros(weights.shape, np.bool_)
    least = np.partition(size, size.size - kept)[size.size - kept]
    mask = np.asarray(size > least)
    if least > 0:
        ties = np.flatnonzero(size == least)
        mask[ties[: kept - int(mask.sum())]] = True
    return np.asarray(mask.reshape(weights.shape))


def kept_by(weights: Array, density: float) -> int:
    """How many weights a density means: at least one."""
    return max(1, round(density * weights.size))
