"""Statistics of a tensor while they grow. In: arrays, sample by sample. Out: `Statistics`.

Sums are float64, and those of parts are added in the order in which the parts are joined: whoever spreads the
work over processes joins their results in the order of the samples, and gets the same numbers as one process.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ingot.quantization.profile import BINS, Statistics, exponent_of

Array = np.ndarray[Any, Any]


class Tally:
    """Range, counts in bins, and sums per channel of all that `add` has seen.

    `dropped` counts elements that are not finite: they are in no bin, and zeros in the sums.
    """

    def __init__(self) -> None:
        self.low, self.high, self.dropped = math.inf, -math.inf, 0
        self.exponent, self.first = 0, 0
        self.counts = np.zeros(BINS, np.int64)
        self.sums = np.zeros(0)
        self.squares = np.zeros(0)

    def add(self, array: Array) -> None:
        """Count the elements of an array of floats, whose channels lie along axis 1."""
        x = array.astype(np.float64)
        if not x.size:
            return
        low, high = float(x.min()), float(x.max())
        counted = x
        if not math.isfinite(low) or not math.isfinite(high):  # a NaN is the minimum of what holds one
            finite = np.isfinite(x)
            x = np.where(finite, x, 0.0)
            counted = x[finite]
            self.dropped += int(x.size - counted.size)
            low, high = (
                (float(counted.min()), float(counted.max())) if counted.size else (math.inf, -math.inf)
            )
        if counted.size:
            self._cover(low, high)
            bins = np.floor(counted * math.ldexp(1.0, -self.exponent)).astype(np.int64).ravel() - self.first
            self.counts += np.bincount(bins, minlength=BINS)
        axes = tuple(a for a in range(x.ndim) if a != 1 or x.ndim < 2)
        self._sum(x.sum(axis=axes).reshape(-1), np.square(x, out=x).sum(axis=axes).reshape(-1))

    def join(self, other: Tally) -> None:
        """Count what another tally has counted."""
        self.dropped += other.dropped
        if other.low <= other.high:
            self._cover(other.low, other.high)
            used = np.flatnonzero(other.counts)
            places = (other.first + used >> self.exponent - other.exponent) - self.first
            np.add.at(self.counts, places, other.counts[used])
        if other.sums.size:
            self._sum(other.sums, other.squares)

    def statistics(self) -> Statistics | None:
        """Return what was counted; None where there was nothing finite."""
        if not self.low <= self.high:
            return None
        count = int(self.counts.sum())
        elements = (count + self.dropped) / len(self.sums)
        means, squares = (tuple((sums / elements).tolist()) for sums in (self.sums, self.squares))
        return Statistics(self.low, self.high, count, tuple(self.counts.tolist()), means, squares)

    def _cover(self, low: float, high: float) -> None:
        """Widen the range, and the bins with it: neighbours become one."""
        is_new = not self.low <= self.high
        self.low, self.high = min(self.low, low), max(self.high, high)
        exponent = exponent_of(self.low, self.high)
        first = math.floor(math.ldexp(self.low, -exponent))
        if not is_new and (exponent, first) != (self.exponent, self.first):
            used = np.flatnonzero(self.counts)
            places = (self.first + used >> exponent - self.exponent) - first
            held, self.counts = self.counts[used], np.zeros(BINS, np.int64)
            np.add.at(self.counts, places, held)
        self.exponent, self.first = exponent, first

    def _sum(self, sums: Array, squares: Array) -> None:
        """Add sums per channel; where the number of channels differs from run to run, there is one."""
        if not self.sums.size:
            self.sums, self.squares = np.zeros_like(sums), np.zeros_like(squares)
        if len(sums) != len(self.sums):
            self.sums, self.squares = self.sums.sum(keepdims=True), self.squares.sum(keepdims=True)
            sums, squares = sums.sum(keepdims=True), squares.sum(keepdims=True)
        self.sums = self.sums + sums
        self.squares = self.squares + squares
