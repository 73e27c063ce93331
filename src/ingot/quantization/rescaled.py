"""Statistics of a tensor whose channels are divided by numbers, without the data.

In: its statistics, the numbers. Out: statistics in which means and mean squares are exact, and the histogram
is a guess: each channel is taken to be distributed as Laplace's, around its mean if the tensor has both
signs. That has longer tails than most activations, so ranges are chosen too wide rather than too narrow.
Ends are as many times the largest channel's root mean square away as they were. Called by `quantize`.
"""

from __future__ import annotations

import math

import numpy as np

from ingot.formula.expr import Array
from ingot.quantization.profile import BINS, Statistics, exponent_of


def rescaled(found: Statistics, factors: Array) -> Statistics | None:
    """Return the statistics of the tensor by `factors`, one for each channel; None where these do not fit."""
    means, squares = (np.asarray(a, np.float64) for a in (found.means, found.squares))
    if not means.size == squares.size == factors.size or not squares.max(initial=0.0) > 0:
        return None
    own, size = means / factors, squares / factors**2
    grown = math.sqrt(size.max() / squares.max())
    low, high = found.low * grown, found.high * grown
    exponent = exponent_of(low, high)
    first = math.floor(math.ldexp(low, -exponent))
    edges = np.ldexp(np.arange(first, first + BINS + 1, dtype=np.float64), exponent).clip(low, high)
    counts = np.diff(np.rint(_below(edges, own, size, low, high) * found.count)).astype(np.int64)
    last = math.floor(math.ldexp(high, -exponent)) - first
    counts[[0, last]] = np.maximum(counts[[0, last]], 1)  # the ends are there
    counts[int(counts.argmax())] += found.count - int(counts.sum())
    return Statistics(
        low, high, found.count, tuple(counts.tolist()), tuple(own.tolist()), tuple(size.tolist())
    )


def _below(edges: Array, means: Array, squares: Array, low: float, high: float) -> Array:
    """The share of elements below each edge, of all channels."""
    is_onesided = low >= 0 or high <= 0
    middle = np.zeros_like(means) if is_onesided else means
    spread = squares if is_onesided else np.maximum(squares - means**2, 1e-3 * squares.max())
    wide = np.sqrt(np.maximum(spread, 1e-9 * squares.max()) / 2)
    away = (edges[:, None] - middle) / wide
    tail = np.exp(-np.abs(away)) / 2
    below = np.where(away < 0, tail, 1 - tail).mean(axis=1)
    start, end = below[0], below[-1]
    return np.asarray((below - start) / (end - start) if end > start else below)
