"""How good outputs are: counted sample by sample, so that no data set has to fit into memory.

In: rows of an output and what is known of the samples. Out: numbers by the name of their metric. Called by
`evaluate`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Protocol

import numpy as np

from ingot.errors import InputError
from ingot.formula.expr import Array

CLASSES_LIMIT = 1 << 12
IGNORED = 255  # of a map of labels, beside numbers below 0: no class


class Metric(Protocol):
    """One kind of numbers; `add` takes rows of an output [n, ...] and of what is right [n, ...]."""

    def add(self, rows: Array, right: Array) -> None: ...

    def result(self) -> Mapping[str, float]: ...


class TopK:
    """Shares of samples whose class is the best, or among the best five, of scores [n, classes].

    Of equal scores the first counts as the better; a row with a NaN is wrong.
    """

    def __init__(self) -> None:
        self.first = self.five = self.count = self.classes = 0

    def add(self, rows: Array, right: Array) -> None:
        labels = _in_range(right, rows.shape[1])
        own = np.take_along_axis(rows, labels[:, None], axis=1)
        before = np.arange(rows.shape[1]) < labels[:, None]
        rank = ((rows > own) | ((rows == own) & before)).sum(axis=1)
        rank = np.where(np.isnan(rows.astype(np.float64)).any(axis=1), rows.shape[1], rank)
        self.first += int((rank < 1).sum())
        self.five += int((rank < 5).sum())
        self.count += len(rows)
        self.classes = rows.shape[1]

    def result(self) -> Mapping[str, float]:
        found = {"top-1": 100 * self.first / self.count}
        return {**found, "top-5": 100 * self.five / self.count} if self.classes > 5 else found


class Predicted:
    """The share of samples whose class the model names, in an output of one integer a sample [n, 1]."""

    def __init__(self) -> None:
        self.right = self.count = 0

    def add(self, rows: Array, right: Array) -> None:
        self.right += int((rows.reshape(len(rows)) == right).sum())
        self.count += len(rows)

    def result(self) -> Mapping[str, float]:
        return {"top-1": 100 * self.right / self.count}


class AreaUnderCurve:
    """The share of pairs of a positive and a negative sample in which the positive has the greater score.

    Equal scores are half a pair (Mann and Whitney's U). Scores [n] or [n, 1], or of two classes [n, 2].
    """

    def __init__(self) -> None:
        self.scores: list[Array] = []
        self.labels: list[Array] = []

    def add(self, rows: Array, right: Array) -> None:
        x = rows.reshape(len(rows), -1).astype(np.float64)
        self.scores.append(x[:, 1] - x[:, 0] if x.shape[1] == 2 else x[:, 0])
        self.labels.append(_in_range(right, 2))

    def result(self) -> Mapping[str, float]:
        scores, labels = np.concatenate(self.scores), np.concatenate(self.labels)
        positives = int(labels.sum())
        pairs = positives * (len(labels) - positives)
        if not pairs:
            raise InputError(
                "AUC needs samples of both classes, and there is one", remedy="give samples of both"
            )
        _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
        ranks = (np.cumsum(counts) - (counts - 1) / 2)[place]
        u = ranks[labels == 1].sum() - positives * (positives + 1) / 2
        return {"AUC": 100 * float(u) / pairs}


class MeanUnion:
    """Intersection over union of classes, averaged over those that occur, of maps [n, classes, h, w].

    Labels [n, h, w]; those that are 255 or below 0 do not count (Everingham et al., Pascal VOC).
    """

    def __init__(self) -> None:
        self.confusion = np.zeros((0, 0), np.int64)

    def add(self, rows: Array, right: Array) -> None:
        classes = rows.shape[1]
        if classes > CLASSES_LIMIT:
            raise InputError(f"an output of {classes:,} classes is not a segmentation")
        if not self.confusion.size:
            self.confusion = np.zeros((classes, classes), np.int64)
        seen = (right >= 0) & (right != IGNORED)
        labels, found = _in_range(right[seen], classes), rows.argmax(axis=1)[seen]
        self.confusion += np.bincount(labels * classes + found, minlength=classes**2).reshape(
            classes, classes
        )

    def result(self) -> Mapping[str, float]:
        hits = np.diag(self.confusion)
        union = self.confusion.sum(axis=0) + self.confusion.sum(axis=1) - hits
        if not union.any():
            raise InputError("no element of the labels is of a class")
        return {
            "mean IoU": 100 * float((hits[union > 0] / union[union > 0]).mean()),
            "pixels": 100 * float(hits.sum() / self.confusion.sum()),
        }


class Errors:
    """The greatest and the mean absolute difference, and the signal over the noise in decibels."""

    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix
        self.greatest = self.total = self.noise = self.signal = 0.0
        self.count = 0

    def add(self, rows: Array, right: Array) -> None:
        if rows.shape != right.shape:
            raise InputError(
                f"the output is {list(rows.shape[1:])} a sample, what is right {list(right.shape[1:])}"
            )
        wanted = right.astype(np.float64)
        d = np.abs(rows.astype(np.float64) - wanted)
        self.greatest = max(self.greatest, float(d.max(initial=0))) if not np.isnan(d).any() else math.nan
        self.total += float(d.sum())
        self.noise += float(np.square(d).sum())
        self.signal += float(np.square(wanted).sum())
        self.count += d.size

    def result(self) -> Mapping[str, float]:
        mean = self.total / self.count if self.count else 0.0
        found = {"max |d|": self.greatest, "mean |d|": mean, "SQNR dB": decibels(self.signal, self.noise)}
        return {f"{self.prefix}{name}": value for name, value in found.items()}


class Agreement:
    """The share of samples whose best class is the same, of scores [n, classes]."""

    def __init__(self) -> None:
        self.same = self.count = 0

    def add(self, rows: Array, right: Array) -> None:
        self.same += int((rows.argmax(axis=1) == right.argmax(axis=1)).sum())
        self.count += len(rows)

    def result(self) -> Mapping[str, float]:
        return {"same class as the first": 100 * self.same / self.count}


def decibels(signal: float, noise: float) -> float:
    """Return the ratio of two sums of squares in decibels; infinite without noise."""
    if not noise:
        return math.inf
    return 10 * math.log10(signal / noise) if signal and math.isfinite(noise) else -math.inf


def metrics_for(rows: Array, right: Array) -> list[Metric]:
    """Return what can be said of an output by its first rows and what is known of these.

    Integers are classes of the sample, or of every element of a map; floats are what the output should be.
    Raises InputError for anything else.
    """
    integers = right.dtype.kind in "iub"
    if integers and right.ndim == 1 and rows.ndim == 2 and rows.shape[1] > 1:
        return [TopK(), AreaUnderCurve()] if rows.shape[1] == 2 else [TopK()]
    if integers and right.ndim == 1 and rows[0].size == 1:
        return [Predicted()] if rows.dtype.kind in "iub" else [AreaUnderCurve()]
    if integers and rows.ndim == 4 and right.ndim == 3 and rows.shape[2:] == right.shape[1:]:
        return [MeanUnion()]
    if not integers and rows.shape == right.shape:
        return [Errors()]
    raise InputError(
        f"labels of {right.dtype}{list(right.shape[1:])} for each sample say nothing of outputs of "
        f"{list(rows.shape[1:])}",
        remedy="give one integer a sample, a map of integers, or what the output should be as floats",
    )


def _in_range(labels: Array, classes: int) -> Array:
    """The labels as int64. Raises InputError where one is no class."""
    found = labels.astype(np.int64)
    if found.size and (found.min() < 0 or found.max() >= classes):
        wrong = int(found.max()) if found.max() >= classes else int(found.min())
        raise InputError(
            f"the label {wrong} is not one of the {classes:,} classes of the output",
            remedy=f"classes are counted from 0 to {classes - 1:,}",
        )
    return found
