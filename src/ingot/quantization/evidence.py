"""Data at hand while a model is quantised: what runs a model, and how far its answers are off.

In: feeds, labels if there are any, and a function of the driver's that makes a model runnable. Out: answers,
losses, statistics, operands of layers. Called by `quantize`, `search` and `adapt`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from ingot.errors import InputError
from ingot.formula.expr import Array
from ingot.quantization.profile import Statistics
from ingot.quantization.tally import Tally

Feed = Mapping[str, Array]
Run = Callable[[Feed], Mapping[str, Array]]
Runner = Callable[[onnx.ModelProto, Sequence[str]], Run]
"""Makes a model runnable; besides its outputs a run gives the tensors of these names."""


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """`feeds` are what the model takes in each run; `labels` (int64) number the right class of each
    sample."""

    feeds: tuple[Feed, ...]
    runner: Runner
    labels: Array | None = None

    def answers(self, model: onnx.ModelProto) -> list[Array]:
        """Return each output over all runs, as one vector of float64 for each but of labelled data.

        Of labelled data the first output alone counts, one row for each sample.
        """
        run, names = self.runner(model, ()), [o.name for o in model.graph.output]
        found = [run(feed) for feed in self.feeds]
        if self.labels is not None:
            rows = [np.asarray(f[names[0]]) for f in found]
            return [np.concatenate([r.reshape(-1, r.shape[-1]) for r in rows])]
        each = ([np.asarray(f[name], np.float64).reshape(-1) for f in found] for name in names)
        return [np.concatenate(parts) for parts in each]

    def loss(self, wanted: Sequence[Array], found: Sequence[Array]) -> float:
        """Return what answers lost: the share of right answers, or max over outputs of |d| / |y|."""
        if self.labels is not None:
            return self.score(wanted) - self.score(found)
        errors = [_relative(f, w) for f, w in zip(found, wanted, strict=True)]
        return max(errors, default=0.0)

    def score(self, answers: Sequence[Array]) -> float:
        """Return the share of right answers of labelled data: the largest score, or the class itself.

        Raises InputError for labels that do not fit the answers.
        """
        labels, rows = np.asarray(self.labels).reshape(-1), answers[0]
        if len(rows) < len(labels):
            raise InputError(
                f"{len(labels)} labels, but {len(rows)} answers of the first output",
                remedy="give one label for each sample",
            )
        if rows.dtype.kind in "iu" and rows.shape[1] == 1:
            return float((rows[: len(labels), 0] == labels).mean())
        if labels.min(initial=0) < 0 or labels.max(initial=0) >= rows.shape[1]:
            raise InputError(
                f"labels from {labels.min()} to {labels.max()}: the first output has {rows.shape[1]} classes",
                remedy="labels number the classes from 0",
            )
        return float((rows[: len(labels)].argmax(axis=-1) == labels).mean())

    def statistics(self, model: onnx.ModelProto, names: Iterable[str]) -> dict[str, Statistics]:
        """Return what tensors of a model hold."""
        tallies = {name: Tally() for name in names}
        run = self.runner(model, tuple(tallies))
        for feed in self.feeds:
            found = run(feed)
            for name, tally in tallies.items():
                tally.add(np.asarray(found[name]))
        made = {name: tally.statistics() for name, tally in tallies.items()}
        return {name: s for name, s in made.items() if s is not None}

    def tensors(self, model: onnx.ModelProto, names: Sequence[str]) -> Iterator[Mapping[str, Array]]:
        """Yield tensors of a model, by name, run by run; inputs of the graph too."""
        run = self.runner(model, [n for n in names if n not in {v.name for v in model.graph.input}])
        for feed in self.feeds:
            yield {**feed, **run(feed)}


def _relative(found: Array, wanted: Array) -> float:
    size, off = (float(np.linalg.norm(a)) for a in (wanted, found - wanted))
    return off / size if size else float(off > 0)
