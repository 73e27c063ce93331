"""What a model is worth on data: metrics of one bundle or of several side by side.

In: bundles, samples for each, labels or the outputs that are right. Out: a `Score` for each. The shipped
objects run in this process, one inference after the other. Called by `ingot evaluate`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ingot.bundle.bundle import Bundle
from ingot.check.metrics import Agreement, Errors, Metric, metrics_for
from ingot.data.samples import Samples
from ingot.errors import InputError
from ingot.formula.expr import Array
from ingot.log import announce
from ingot.tables import Result, Table, table

SHARES = ("top-1", "top-5", "AUC", "mean IoU", "pixels", "same class as the first")
POINTS = SHARES[:-1]


@dataclass(frozen=True, slots=True)
class Score:
    """Metrics of one model by name (shares in percent), and the mean seconds of an inference."""

    name: str
    output: str
    samples: int
    values: Mapping[str, float]
    seconds: float


@dataclass(frozen=True, slots=True, repr=False)
class Evaluation(Result):
    """The scores of models on the same data, in the order in which they were given."""

    scores: tuple[Score, ...]

    def as_dict(self) -> list[dict[str, Any]]:
        """Return plain data."""
        return [asdict(s) for s in self.scores]

    def tables(self) -> list[Table]:
        """Return a row for each metric and a column for each model, with the difference from the first in
        points.
        """
        names = list(dict.fromkeys(name for s in self.scores for name in s.values))
        rows = [(name, *(_cell(name, s, self.scores[0]) for s in self.scores)) for name in names]
        columns = ("", *(f"{Path(s.name).name}>" for s in self.scores))
        return [table(f"{self.scores[0].samples:,} samples", columns, rows)]


def _cell(name: str, score: Score, first: Score) -> str:
    value = score.values.get(name)
    if value is None:
        return ""
    if name not in SHARES:
        return f"{value:.4g}"
    points = (
        value - first.values[name] if score is not first and name in POINTS and name in first.values else None
    )
    return f"{value:.2f} %" + (f" ({points:+.2f})" if points is not None else "")


@dataclass(slots=True)
class Contender:
    """A model on its way through the data. `output` "": the first one."""

    name: str
    bundle: Bundle
    samples: Samples
    output: str = ""
    metrics: list[Metric] = field(default_factory=list)
    beside: list[Metric] = field(default_factory=list)
    seconds: float = 0.0

    def rows(self, run: int) -> Array:
        """One run's output, sample by sample."""
        fed = self.samples.read(run)
        begin = time.perf_counter()
        outputs = self.bundle.run(fed)
        self.seconds += time.perf_counter() - begin
        self.output = self.output or next(iter(outputs))
        if not isinstance(outputs.get(self.output), np.ndarray):
            listed = ", ".join(map(repr, outputs))
            raise InputError(f"{self.name} has no tensor {self.output!r} among its outputs: {listed}")
        found = _dequantised(outputs[self.output], self._tensor)
        return _by_sample(found, self.samples.per_run)[: self.samples.held(run)]

    @property
    def _tensor(self) -> Mapping[str, Any]:
        """What the manifest says of the output."""
        named = (t for t in self.bundle.manifest["outputs"] if t["name"] == self.output)
        return next(named, {})

    @property
    def score(self) -> Score:
        """What all that was added comes to."""
        values = {k: v for m in (*self.metrics, *self.beside) for k, v in m.result().items()}
        seconds = self.seconds / max(self.samples.runs, 1)
        return Score(self.name, self.output, self.samples.count, values, seconds)


def evaluate(contenders: Sequence[Contender], right: Array | None) -> Evaluation:
    """Run every model over all of its samples; `right` has a row for each sample: classes, or outputs.

    Models behind the first are also compared with the first. Raises InputError for what does not fit.
    """
    first = contenders[0]
    counts = {c.samples.count for c in contenders}
    if len(counts) > 1:
        raise InputError(f"the models take different numbers of samples: {sorted(counts)}")
    if right is not None and len(right) != first.samples.count:
        raise InputError(
            f"there are {len(right):,} labels of {first.samples.count:,} samples",
            remedy="give one label for each sample, in their order",
        )
    if right is None and len(contenders) == 1:
        raise InputError(
            "there is nothing to evaluate by",
            remedy="give --labels, or a second model to compare with the first",
        )
    per_run = {c.samples.per_run for c in contenders}
    if len(per_run) > 1:
        raise InputError(f"the models take different numbers of samples at once: {sorted(per_run)}")
    for run in range(first.samples.runs):
        announce("samples", run, first.samples.runs)
        _step(contenders, right, run)
    return Evaluation(tuple(c.score for c in contenders))


def _step(contenders: Sequence[Contender], right: Array | None, run: int) -> None:
    """One run of each model."""
    start = run * contenders[0].samples.per_run
    base: Array | None = None
    for one in contenders:
        rows = one.rows(run)
        if right is not None:
            known = right[start : start + len(rows)]
            if not one.metrics:
                one.metrics = metrics_for(rows, known)
            for metric in one.metrics:
                metric.add(rows, known)
        if base is None:
            base = rows
        elif rows.shape == base.shape:
            one.beside = one.beside or _beside(rows)
            for metric in one.beside:
                metric.add(rows, base)


def _beside(rows: Array) -> list[Metric]:
    """How a model is compared with the first."""
    classes = [Agreement()] if rows.ndim == 2 and rows.shape[1] > 1 else []
    return [*classes, Errors("from the first: ")]


def _dequantised(output: Array, tensor: Mapping[str, Any]) -> Array:
    """The values that quantised integers stand for; any other output as it is."""
    if output.dtype.kind not in "iu" or tensor.get("scale") is None:
        return output
    return np.asarray((output.astype(np.float64) - tensor["zero_point"]) * tensor["scale"], np.float32)


def _by_sample(output: Array, per_run: int) -> Array:
    """The output with samples along its first axis."""
    if output.ndim and output.shape[0] == per_run:
        return output
    if per_run == 1:
        return output[None]
    raise InputError(
        f"an output of shape {list(output.shape)} has no axis of the {per_run} samples of a run",
        remedy="compile the model for a batch of 1, or name another output with --output",
    )
