"""How small the two networks become, and how many digits more they then mistake: the mean of five seeds.

For every seed a network is trained, pruned in rounds with training between, its weights shared and the
centroids trained; onnxruntime then counts what the compressed file gets wrong among the 360 held-out
images. Out: a table, and an exit code that is 0 only if sizes and mistakes are within what is required.
`make compression` calls this.
"""

import argparse
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean

import numpy as np
import onnx
import onnxruntime
import torch
from lenets import LeNet5, LeNet300, digits, evaluate, to_onnx, train, trained
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from ingot.compression.finetune import Training
from ingot.compression.model import Wish
from ingot.compression.script import Script
from ingot.driver import compress_model


@dataclass(frozen=True)
class Case:
    """A network, what is chosen for its layers, and the ratio it has to reach."""

    name: str
    kind: type[torch.nn.Module]
    wish: Wish
    ratio: float


CASES = (
    Case(
        "LeNet-300-100",
        LeNet300,
        Wish(density=("ip1=0.07,ip2=0.1,ip3=0.4",), bits=("5",), start="linear"),
        40,
    ),
    Case(
        "LeNet-5",
        LeNet5,
        Wish(density=("conv1=0.7,conv2=0.14,ip1=0.07,ip2=0.2",), bits=("conv=6,fc=4",), start="linear"),
        39,
    ),
)
MORE_MISTAKES = 1.0


@dataclass(frozen=True)
class Result:
    """Mistakes among the held-out images before and after, and the ratios."""

    before: int
    after: int
    ratio: float
    whole_ratio: float


def mistakes(model: onnx.ModelProto) -> int:
    """What onnxruntime gets wrong with a model."""
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    images, labels = digits().test_images.numpy(), digits().test_labels.numpy()
    found = [session.run(None, {"image": image[None]})[0].argmax() for image in images]
    return int(np.sum(np.array(found) != labels))


def measure(case: Case, seed: int, rounds: int, steps: int) -> Result:
    """Trains, compresses and counts."""
    network = trained(case.kind, seed)
    model = to_onnx(network)
    script = Script(Path(__file__), {"model": lambda: network, "train": train, "evaluate": evaluate})
    wish = replace(case.wish, training=Training(script, rounds, steps))
    made = compress_model(model, wish)
    return Result(mistakes(model), mistakes(made.model), made.account.ratio, made.account.whole_ratio)


def row(case: Case, results: list[Result]) -> tuple[tuple[str, ...], bool]:
    """The table's cells for a network, and whether it is within what is required."""
    more = mean(r.after - r.before for r in results)
    ratio, whole = min(r.ratio for r in results), min(r.whole_ratio for r in results)
    cells = (
        case.name,
        " ".join(f"{r.before}>{r.after}" for r in results),
        f"{more:+.1f}",
        f"{ratio:.1f}x",
        f"{whole:.1f}x",
        f"{case.ratio}x",
    )
    return cells, more <= MORE_MISTAKES and ratio >= case.ratio


def main() -> int:
    """Measures every network; returns the exit code."""
    parser = argparse.ArgumentParser(description="Measure compressed LeNets on digits.")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--only", default="", help="A part of a network's name.")
    wanted = parser.parse_args()
    torch.set_num_threads(1)
    cases = [case for case in CASES if wanted.only in case.name]
    console, found = Console(), []
    table = Table("network", "mistakes of 360, by seed", "more", "least ratio", "with biases", "required")
    with Progress(console=console) as bar:
        task = bar.add_task("training and compressing", total=len(cases) * wanted.seeds)
        for case in cases:
            results = []
            for seed in range(wanted.seeds):
                results.append(measure(case, seed, wanted.rounds, wanted.steps))
                bar.advance(task)
            cells, good = row(case, results)
            table.add_row(*cells)
            found.append(good)
    console.print(table)
    return 0 if all(found) else 1


if __name__ == "__main__":
    sys.exit(main())
