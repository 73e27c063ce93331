"""Magnitude pruning: which weights stay. In: weights and densities; out: masks.

Called by `encode` with the density of each layer, and by `propose`, which looks for densities.
"""

from __future__ import annotations

from collections.abc import Sequence

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


def global_densities(weights: Sequence[Array], density: float) -> list[float]:
    """The layers' densities where one threshold on |w| leaves a share `density` of all weights."""
    total = sum(w.size for w in weights)
    kept = max(1, round(density * total))
    every = np.concatenate([np.abs(w).reshape(-1) for w in weights])
    least = np.partition(every, total - kept)[total - kept]
    return [float((np.abs(w) >= least).mean()) for w in weights]
