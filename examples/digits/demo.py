"""Compiles the digit classifier, runs the compiled object on 360 held-out images, shows what it costs.

In: `digits.onnx` and `test_images.npz` beside this file (see `train.py`). Out: the bundle in `build/digits`,
three tables on standard output, and an exit code that is 0 only if the object answers as well as it must.
`make demo` calls this; it needs nothing but the base install.
"""

import statistics
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

import ingot

HERE = Path(__file__).parent
OUTPUT = Path("build/digits")
REQUIRED_ACCURACY = 0.98
TIMING_REPEATS = 2000


@dataclass(frozen=True, slots=True)
class TestSet:
    """Images uint8 [n,1,8,8], their labels uint8 [n], and onnxruntime's scores float32 [n,10]."""

    images: np.ndarray
    labels: np.ndarray
    scores: np.ndarray


@dataclass(frozen=True, slots=True)
class Answers:
    """How the compiled object did: counts of images, and the largest difference of any score."""

    total: int
    correct: int
    agreeing: int
    largest_difference: float

    @property
    def accuracy(self) -> float:
        """Returns the share of images whose label was found."""
        return self.correct / self.total

    @property
    def good_enough(self) -> bool:
        """Returns whether the accuracy is reached and every answer is the reference's."""
        return self.accuracy >= REQUIRED_ACCURACY and self.agreeing == self.total


def load_test_set() -> TestSet:
    """Reads the test images of this example."""
    with np.load(HERE / "test_images.npz") as archive:
        return TestSet(archive["images"], archive["labels"], archive["scores"])


def run_all(bundle: ingot.Bundle, tests: TestSet, console: Console) -> np.ndarray:
    """Runs the compiled object on each image; returns its scores, float32 [n,10]."""
    images = tests.images.astype(np.float32)
    steps = track(images, description="Running the compiled object", console=console)
    return np.concatenate([bundle.run({"image": image[None]})["scores"] for image in steps])


def compare(scores: np.ndarray, tests: TestSet) -> Answers:
    """Compares the scores of the compiled object with the labels and the reference scores."""
    found = scores.argmax(axis=1)
    return Answers(
        total=len(tests.labels),
        correct=int(np.sum(found == tests.labels)),
        agreeing=int(np.sum(found == tests.scores.argmax(axis=1))),
        largest_difference=float(np.abs(scores - tests.scores).max()),
    )


def answers_table(answers: Answers) -> Table:
    """Returns the table of what the object answered."""
    table = Table(title="Answers", show_header=False, title_justify="left")
    table.add_row("accuracy", f"{answers.accuracy:.2%}  ({answers.correct} of {answers.total})")
    table.add_row("same answer as onnxruntime", f"{answers.agreeing} of {answers.total}")
    table.add_row("max |d| of a score", f"{answers.largest_difference:.1e}")
    return table


def cost_table(bundle: ingot.Bundle, seconds: list[float]) -> Table:
    """Returns the table of what one inference costs: memory from the manifest, time as measured."""
    sizes = bundle.manifest["sizes"]
    macs = sum(kernel["macs"] for kernel in bundle.manifest["kernels"])
    median, fastest = statistics.median(seconds), min(seconds)
    table = Table(title=f"Cost on {bundle.manifest['target']}", show_header=False, title_justify="left")
    table.add_row("time per image", f"{median * 1e6:.2f} us median, {fastest * 1e6:.2f} us minimum")
    table.add_row("flash", f"{sizes['flash_bytes']:,} B, of which weights {sizes['weights_bytes']:,} B")
    table.add_row("RAM (arena)", f"{sizes['arena_bytes']:,} B")
    table.add_row("stack", f"{sizes['stack_bytes']:,} B")
    table.add_row("MACs", f"{macs:,}  ({macs / fastest / 1e9:.1f} G/s)")
    return table


def kernel_table(bundle: ingot.Bundle) -> Table:
    """Returns one row per kernel: the model's nodes fused into it, its work and the bytes it touches."""
    table = Table("kernel", "nodes", title="Kernels", title_justify="left")
    table.add_column("MACs", justify="right")
    table.add_column("bytes", justify="right")
    for kernel in bundle.manifest["kernels"]:
        nodes = " + ".join(kernel["nodes"])
        table.add_row(kernel["name"], nodes, f"{kernel['macs']:,}", f"{kernel['bytes']:,}")
    return table


def main() -> int:
    """Runs the demo; returns the exit code."""
    console = Console()
    tests = load_test_set()
    with console.status("Compiling digits.onnx"):
        bundle = ingot.compile(HERE / "digits.onnx", name="digits")
        bundle.save(OUTPUT)
    answers = compare(run_all(bundle, tests, console), tests)
    seconds = bundle.time({"image": tests.images[:1].astype(np.float32)}, repeat=TIMING_REPEATS)

    console.print(answers_table(answers), cost_table(bundle, seconds), kernel_table(bundle))
    console.print(f"The bundle is in {OUTPUT}: C source, header, object, weights, manifest.")
    if not answers.good_enough:
        console.print(
            f"FAILED: needs {REQUIRED_ACCURACY:.0%} and onnxruntime's every answer", style="bold red"
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
