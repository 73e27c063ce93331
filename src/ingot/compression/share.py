"""Weight sharing: one-dimensional k-means. In: values and a number of clusters; out: centroids.

Values are sorted once; a cluster is then an interval of them, its sum a difference of prefix sums, and a
turn of Lloyd's algorithm costs as many binary searches as there are clusters, whatever the number of
values. Called by `encode` for the weights that pruning leaves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from ingot.formula.expr import Array

Start = Literal["linear", "density", "random", "optimal"]
STARTS: tuple[Start, ...] = get_args(Start)
TURNS = 12  # of Lloyd's algorithm: more make codes more even, and so cost bits after Huffman coding
POINTS = 4096  # of the exact search; more values are summed up in about as many groups first
WORK = 1 << 19  # points times clusters: 256 clusters of 2,048 points are within 1 % of the least distortion


@dataclass(frozen=True, slots=True, eq=False)
class Sorted:
    """Values in ascending order, and sums of them and of their squares up to each: float64 [n + 1]."""

    values: Array
    sums: Array
    squares: Array

    @classmethod
    def of(cls, values: Array) -> Sorted:
        ordered = np.sort(values.reshape(-1).astype(np.float32))
        wide = ordered.astype(np.float64)
        sums, squares = np.zeros(len(wide) + 1), np.zeros(len(wide) + 1)
        np.cumsum(wide, out=sums[1:])
        np.cumsum(wide * wide, out=squares[1:])
        return cls(ordered, sums, squares)

    def cut(self, centroids: Array) -> Array:
        """Where the clusters of ascending centroids begin and end: int64 [k + 1]."""
        middles = (centroids[1:] + centroids[:-1]) / 2
        inner = np.searchsorted(self.values, middles.astype(np.float32))
        return np.concatenate([[0], inner, [len(self.values)]])

    def means(self, cut: Array, otherwise: Array) -> Array:
        """The mean of each interval; of an empty one `otherwise`."""
        counts = np.diff(cut)
        return np.where(counts > 0, np.diff(self.sums[cut]) / np.maximum(counts, 1), otherwise)


def centroids(values: Array, count: int, start: Start = "optimal", seed: int = 0) -> Array:
    """`count` ascending float32 centroids of the values, by Lloyd's algorithm from the start named.

    linear: evenly from the least value to the largest; density: evenly over the sorted values; random: values
    drawn by `seed`; optimal: the least possible sum of squared distances (of groups of neighbours where there
    are many values). Fewer distinct values than centroids are themselves the centroids, repeated.
    """
    distinct = np.unique(values) if values.size <= count else None
    if distinct is None and values.size < 1 << 20:
        distinct = np.unique(values)
    if distinct is not None and len(distinct) <= count:
        last = distinct[-1:] if len(distinct) else np.zeros(1, np.float32)
        return np.concatenate([distinct, np.repeat(last, count - len(distinct))]).astype(np.float32)
    points = Sorted.of(values)
    found = _start(points, count, start, seed)
    cut = points.cut(found)
    for _ in range(TURNS):
        found = np.sort(points.means(cut, found))
        moved = points.cut(found)
        if np.array_equal(moved, cut):
            break
        cut = moved
    return found.astype(np.float32)


def nearest(values: Array, centroids: Array) -> Array:
    """For each value the number of the ascending centroid nearest to it: uint8 of the values' shape."""
    middles = (centroids[1:].astype(np.float64) + centroids[:-1]) / 2
    found = np.searchsorted(middles.astype(np.float32), values.reshape(-1))
    return np.asarray(found.astype(np.uint8).reshape(values.shape))


def distortion(values: Array, centroids: Array) -> float:
    """The sum of squared distances of values to the centroids nearest to them: what k-means makes small."""
    apart = values.astype(np.float64) - centroids[nearest(values, centroids)]
    return float((apart * apart).sum())


def _start(points: Sorted, count: int, start: Start, seed: int) -> Array:
    values = points.values
    if start == "linear":
        return np.linspace(values[0], values[-1], count, dtype=np.float64)
    if start == "density":
        return np.asarray(
            values[((np.arange(count) + 0.5) * len(values) / count).astype(np.int64)], np.float64
        )
    if start == "random":
        drawn = np.random.default_rng(seed).choice(len(values), count, replace=False)
        return np.sort(values[drawn]).astype(np.float64)
    return _optimal(points, count)


def _optimal(points: Sorted, count: int) -> Array:
    """The centroids of the least distortion, by dynamic programming over the cuts between groups of
    values."""
    n, values = len(points.values), points.values
    ends = np.arange(n + 1)
    groups = min(POINTS, WORK // count)
    if n > groups:
        # half of the groups hold equally many values, half are equally wide: tails are thin, but long
        even = np.linspace(0, n, groups // 2 + 1).astype(np.int64)
        wide = np.searchsorted(values, np.linspace(values[0], values[-1], groups // 2))
        ends = np.union1d(even, wide)
    cut = _best_cut(points.sums[ends], points.squares[ends], ends, count)
    return points.means(ends[cut], np.zeros(count))


def _best_cut(sums: Array, squares: Array, weights: Array, count: int) -> Array:
    """Where to cut n groups into `count` intervals, int64 [count + 1]; the arguments are prefix sums [n + 1].

    cost[c][j] = min over i of cost[c - 1][i] + distortion(i, j), and the best i never falls as j grows: the
    middle j is solved first, its i bounds those of both halves, and all middles of a depth are solved at
    once.
    """
    n = len(sums) - 1

    def distortion(i: Array, j: Array) -> Array:
        total = sums[j] - sums[i]
        return np.asarray(squares[j] - squares[i] - total * total / np.maximum(weights[j] - weights[i], 1))

    every = np.arange(n + 1)
    cost = distortion(np.zeros(n + 1, np.int64), every)
    choices = np.zeros((count, n + 1), np.int32)
    for c in range(1, count):
        cost, choices[c] = _row(cost, c, n, distortion)
    cut = [n]
    for c in range(count - 1, 0, -1):
        cut.append(int(choices[c][cut[-1]]))
    return np.array([0, *cut[::-1]])


Distortion = Callable[[Array, Array], Array]


def _row(before: Array, first: int, n: int, distortion: Distortion) -> tuple[Array, Array]:
    """What the first j groups cost as `first` + 1 clusters, for every j, and where the last of these
    begins."""
    cost, best = np.full(n + 1, np.inf), np.full(n + 1, first, np.int64)
    stride = 1 << (n - first).bit_length()
    while stride:
        j = np.arange(first + stride, n + 1, 2 * stride)
        if len(j):
            low = best[j - stride]
            high = np.where(j + stride <= n, best[np.minimum(j + stride, n)], n)
            cost[j], best[j] = _least(before, low, np.minimum(high, j - 1), j, distortion)
        stride //= 2
    return cost, best


def _least(before: Array, low: Array, high: Array, j: Array, distortion: Distortion) -> tuple[Array, Array]:
    """For each j the least before[i] + distortion(i, j) over low <= i <= high, and the first such i."""
    lengths = high - low + 1
    starts = np.cumsum(lengths) - lengths
    i = np.arange(lengths.sum()) - np.repeat(starts - low, lengths)
    value = before[i] + distortion(i, np.repeat(j, lengths))
    least = np.minimum.reduceat(value, starts)
    at = np.flatnonzero(value == np.repeat(least, lengths))
    return least, i[at[np.searchsorted(at, starts)]]
