"""Weights of few values as bytes, and how much of a product that loses.

In: a matrix [terms, outputs] and its codebook. Out: the codes with a codebook of bytes, the scale of these,
and what random activations lose by it. Called by `byte_activations`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np

from ingot.formula.expr import Array
from ingot.graph.encoding import Codebook, codes_of
from ingot.options import PROMISED

MEAN, SQUARE = 0.16, 0.5  # of a normal distribution without its negative half: squared mean, mean square


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    """Weights are `scale` times the bytes nearly, which are multiplied by bytes up to `levels`.

    `rectified` and `signed` are what that loses: the root of the squares of what a product is off, over those
    of the product, for normally distributed activations without and with their negative half.
    """

    bytes: Codebook
    scale: float
    levels: int
    rectified: float
    signed: float

    @property
    def budget(self) -> float:
        """What a product may lose in all, as `rectified` counts it, for the largest |d| to keep the promise.

        The largest of few errors may meet a small largest of few results. What 99 of 100 pairs of normally
        distributed vectors of n elements stay below is this, found by drawing them.
        """
        return PROMISED / (1.25 + 3.9 / sqrt(max(self.bytes.shape[1], 1)))

    def left(self, lost: float) -> float | None:
        """What of the budget is left for activations; None where weights alone lose more."""
        squared = self.budget**2 - lost**2
        return sqrt(squared) if squared > 0 else None


def quantise(weights: Array, values: Array, most: int, levels: int) -> Weights | None:
    """Weights [terms, outputs] of few values as bytes up to `most`; None if there are no such.

    They are multiplied by bytes up to `levels`, and sums fit 32 bits.

    The scale is the one that loses least: the largest value need not be `most` itself.
    """
    codes = codes_of(weights, values)
    largest = float(np.abs(values).max(initial=0))
    if codes is None or not 0 < largest < np.inf:
        return None
    often = np.bincount(codes.reshape(-1), minlength=len(values)) * (values != 0)
    terms = float(often.sum() / max(weights.shape[1], 1))
    scales = largest / np.linspace(most / 2, most, 4 * most)
    tables = _rounded(values.astype(np.float64) / scales[:, None], scales, often, terms, most)
    lost = _lost(tables - values / scales[:, None], scales, often, terms)
    best = int(lost.argmin())
    table = tables[best].astype(np.int8)
    if levels * np.abs(table[codes].astype(np.int64)).sum(0).max(initial=0) >= 1 << 31:
        return None
    scale = float(np.float32(scales[best]))
    return Weights(Codebook(codes, table), scale, levels, *_noise(weights, table[codes] * scale))


def _noise(weights: Array, made: Array) -> tuple[float, float]:
    """What `Weights` says is lost. Sums of normal variables have the mean and the variance of these."""
    off, wide = made - weights, weights.astype(np.float64)

    def power(w: Array, mean: float) -> float:
        return float((1 - mean / SQUARE) * (w**2).sum() + mean / SQUARE * (w.sum(0) ** 2).sum())

    rectified, signed = (sqrt(power(off, m) / power(wide, m)) if power(wide, m) else 1.0 for m in (MEAN, 0.0))
    return rectified, signed


def _lost(errors: Array, scales: Array, often: Array, terms: float) -> Array:
    """What errors of the values, in units of the scales, are expected to do to a sum, squared.

    Behind it are rectified activations. Errors that do not cancel over the values grow with the number of
    terms, the others with its root.
    """
    total = max(int(often.sum()), 1)
    mean = (errors * often).sum(-1) / total
    return np.asarray(scales**2 * (SQUARE * (errors**2 * often).sum(-1) / total + MEAN * terms * mean**2))


def _rounded(wanted: Array, scales: Array, often: Array, terms: float, most: int) -> Array:
    """Each row of `wanted` as integers up to `most`; some rounded the other way, so that errors cancel."""
    tables = np.clip(np.rint(wanted), -most, most)
    share = often / max(int(often.sum()), 1)
    for _ in range(len(often)):
        other = np.clip(tables + np.where(wanted > tables, 1, -1), -most, most)
        other = np.where((often > 0) & (wanted != tables), other, tables)
        errors, flipped = tables - wanted, other - wanted
        squares = (errors**2 @ share)[:, None] + (flipped**2 - errors**2) * share
        means = (errors @ share)[:, None] + (flipped - errors) * share
        lost = scales[:, None] ** 2 * (SQUARE * squares + MEAN * terms * means**2)
        best, now = lost.argmin(1), _lost(errors, scales, often, terms)
        rows = np.flatnonzero(lost.min(1) < now)
        if not rows.size:
            break
        tables[rows, best[rows]] = other[rows, best[rows]]
    return tables
