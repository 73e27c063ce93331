"""Ranges from histograms: how much of what a tensor held is to be told apart, and what is cut off.

In: the statistics of one tensor, or of several that share parameters. Out: `Parameters`. minmax keeps
everything; percentile cuts equal shares off both ends; mse takes the range whose rounding and clipping
errors have the least sum of squares; entropy that whose distribution is nearest (Kullback-Leibler, Migacz
2017).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ingot.formula.expr import Array
from ingot.quantization.parameters import Parameters, parameters
from ingot.quantization.profile import BINS, Statistics
from ingot.quantization.scheme import Calibration, Schema

SHRUNK = np.linspace(1.0, 0.2, 65)  # the shares of a range that a search tries
ROUNDS = 3  # of a search that moves one end at a time


@dataclass(frozen=True, slots=True, eq=False)
class Histogram:
    """How often (`counts`) a tensor held about which number (`centres`), within [low, high]."""

    low: float
    high: float
    centres: Array
    counts: Array


def histogram(found: Sequence[Statistics]) -> Histogram:
    """Return one histogram of several tensors; the bin that holds 0 stands for 0, which is exact."""
    low, high = min(0.0, *(s.low for s in found)), max(0.0, *(s.high for s in found))
    edges = np.linspace(low, high, BINS + 1) if high > low else np.linspace(0.0, 1.0, BINS + 1)
    counts = np.zeros(BINS)
    for s in found:
        bins = np.asarray(s.histogram, np.float64)
        at = np.clip(s.edge + (np.arange(len(bins)) + 0.5) * s.width, s.low, s.high)
        place = np.clip(np.searchsorted(edges, at, side="right") - 1, 0, BINS - 1)
        np.add.at(counts, place, bins)
    centres = (edges[:-1] + edges[1:]) / 2
    centres[np.clip(np.searchsorted(edges, 0.0, side="right") - 1, 0, BINS - 1)] = 0.0
    return Histogram(low, high, centres, counts)


def calibrated(
    found: Sequence[Statistics], calibration: Calibration, schema: Schema, bits: int = 8
) -> Parameters:
    """Return the parameters of tensors that share them."""
    of = histogram(found)
    if not of.high > of.low or not of.counts.any():
        return parameters(of.low, of.high, schema, bits)
    match calibration.method:
        case "minmax":
            return parameters(of.low, of.high, schema, bits)
        case "percentile":
            low, high = _percentile(of, calibration.share)
            return parameters(low, high, schema, bits)
        case "entropy":
            return _entropy(of, schema, bits)
        case "mse":
            return _mse(of, schema, bits)


def _percentile(of: Histogram, share: float) -> tuple[float, float]:
    """The range without equal shares at both ends."""
    cut = (1 - share / 100) / 2 * of.counts.sum()
    total = np.cumsum(of.counts)
    first = int(np.searchsorted(total, cut, side="right"))
    last = int(np.searchsorted(total, total[-1] - cut, side="left"))
    edges = np.linspace(of.low, of.high, len(of.counts) + 1)
    return float(edges[min(first, last)]), float(edges[last + 1])


def _mse(of: Histogram, schema: Schema, bits: int) -> Parameters:
    """The ends are moved in turn, each to where the error is least; of equal ones the wider range."""
    low, high = of.low, of.high
    best = parameters(low, high, schema, bits)
    least = _error(of, best)
    for _ in range(ROUNDS):
        before = least
        for is_high in (True, False):
            for share in SHRUNK:
                first, last = (low, of.high * share) if is_high else (of.low * share, high)
                tried = parameters(first, last, schema, bits)
                error = _error(of, tried)
                if error < least:
                    low, high, best, least = first, last, tried, error
        if least == before:
            break
    return best


def _error(of: Histogram, how: Parameters) -> float:
    off = how.rounded(of.centres).astype(np.float64) - of.centres
    return float((of.counts * off * off).sum())


def _entropy(of: Histogram, schema: Schema, bits: int) -> Parameters:
    """Both ends are moved together, to where the rounded distribution is nearest to that of the range."""
    if bits == 16:  # more levels than bins: nothing is rounded
        return parameters(of.low, of.high, schema, bits)
    zero = int(np.argmin(np.abs(of.centres)))
    smooth = of.counts.copy()  # 0 is exact: that there are many says nothing of rounding
    smooth[zero] = max((smooth[i] for i in (zero - 1, zero + 1) if 0 <= i < BINS), default=0.0)
    plain = replace(of, counts=smooth)
    tried = [parameters(of.low * s, of.high * s, schema, bits) for s in SHRUNK]
    return min(tried, key=lambda how: _divergence(plain, how))


def _divergence(of: Histogram, how: Parameters) -> float:
    """KL(P || Q): P has what is cut off in its outermost bins, Q what is left, alike within a level."""
    low, high = (float(how.numbers(np.array(n))) for n in (how.lowest, how.highest))
    inside = (of.centres >= low) & (of.centres <= high)
    if not inside.any():
        return float("inf")
    kept = of.counts[inside]
    p = kept.copy()
    p[0] += of.counts[of.centres < low].sum()
    p[-1] += of.counts[of.centres > high].sum()
    levels = how.quantised(of.centres[inside]).astype(np.int64) - how.lowest
    filled = kept > 0
    sums, sizes = (np.bincount(levels, w, 256) for w in (kept, filled.astype(float)))
    q = np.where(filled, (sums / np.maximum(sizes, 1))[levels], 0.0)
    if not q.any():
        return float("inf")
    p, q = p / p.sum(), q / q.sum()
    used = p > 0
    return float((p[used] * np.log(p[used] / np.maximum(q[used], 1e-12))).sum())
