"""Data for decisions of `ingot quantize`: samples in files, run by the oracle.

In: words that name files, a model. Out: an `Evidence`. Called by the driver.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from ingot.check.calibrate import subject
from ingot.check.oracle import oracle, with_copies
from ingot.data.archives import member_names, read_member
from ingot.data.arrays import read_array
from ingot.data.samples import LABELS, Data, open_samples
from ingot.errors import InputError
from ingot.formula.expr import Array
from ingot.options import Options
from ingot.quantization.evidence import Evidence, Run

MOST_RUNS = 1 << 16


@dataclass(frozen=True, slots=True)
class LabelledData:
    """Samples, as `ingot profile` takes them; `labels` is a file, or an array, of one integer for each.

    At most `runs` runs are made. Without such a file an array `labels` in the one archive counts, or that
    among the arrays.
    """

    words: Data
    labels: Path | Array | None = None
    runs: int = MOST_RUNS


def evidence_of(model: Any, options: Options, data: LabelledData) -> Evidence:
    """Return the samples of files for a model. Raises InputError where they do not fit it."""
    samples = open_samples(data.words, subject(model, options).inputs)
    runs = min(samples.runs, data.runs)
    labels = _labels(data)
    if labels is not None:
        if len(labels) < samples.count:
            raise InputError(
                f"{len(labels)} labels for {samples.count} samples",
                remedy="give one label for each sample, in their order",
            )
        labels = labels[: min(samples.count, runs * samples.per_run)]
    return Evidence(tuple(samples.read(run) for run in range(runs)), oracle_runner, labels)


def _labels(data: LabelledData) -> Array | None:
    """The labels of a file of their own, or those that lie beside the samples."""
    if isinstance(data.labels, Path):
        path = data.labels
        found = read_member(path, LABELS) if path.suffix == ".npz" else read_array(path, "int64")
    elif data.labels is not None:
        found = np.asarray(data.labels)
    elif isinstance(data.words, Mapping):
        if LABELS not in data.words:
            return None
        found = np.asarray(data.words[LABELS])
    else:
        archives = [Path(word) for word in data.words if word.endswith(".npz")]
        held = [p for p in archives if p.is_file() and LABELS in member_names(p)]
        if len(held) != 1 or len(data.words) != 1:
            return None
        found = read_member(held[0], LABELS)
    if found.dtype.kind not in "iu" or found.ndim != 1:
        raise InputError(f"labels are one integer for each sample, not {found.dtype} {list(found.shape)}")
    return np.asarray(found)


def oracle_runner(model: onnx.ModelProto, names: Sequence[str]) -> Run:
    shown, copies = with_copies(model, names)
    run = oracle(shown).run

    def named(feed: Mapping[str, Array]) -> dict[str, Array]:
        return {copies.get(name, name): array for name, array in run(feed).items()}

    return named
