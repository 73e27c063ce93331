"""The nine light models of the onnx package, with random weights: `make light` runs them beside onnxruntime.

python -m tests.light [NAME ...]
"""

from __future__ import annotations

import sys
import time
import zlib
from collections.abc import Iterator

import numpy as np
import onnx
from onnx import helper
from rich.console import Console
from rich.progress import track
from rich.table import Table

import benchmarks.light
import ingot
from benchmarks.light import NAMES
from ingot.check.compare import compare
from tests import program
from tests.corpus.cases import onnxruntime_outputs
from tests.corpus.net import Array

TOLERANCE = 1e-4


def light(name: str) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """The model, and an image."""
    model = benchmarks.light.light(name)
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    feeds = {
        i.name: rng.standard_normal([d.dim_value for d in i.type.tensor_type.shape.dim]).astype(np.float32)
        for i in model.graph.input
    }
    if model.graph.node[-1].op_type == "Softmax":  # its operand says more than probabilities near 0 and 1
        model.graph.output.append(helper.make_empty_tensor_value_info(model.graph.node[-1].input[0]))
    return model, feeds


def outputs(name: str, target: str) -> Iterator[tuple[Array, Array]]:
    """(found, wanted) of each output."""
    model, feeds = light(name)
    found = ingot.compile(model, target=target, name=name, emit=("obj",)).run(feeds)
    yield from zip(found.values(), onnxruntime_outputs(model, feeds), strict=True)


def sanitized(name: str) -> bool:
    """Whether gcc's sanitizers see nothing and both runs agree with onnxruntime. They raise where they do."""
    model, feeds = light(name)
    flags = ("-O1", *(f for f in program.SANITIZED if f != "-O0"))  # twenty thousand million sums in VGG-19
    (answer,) = program.run([program.member(model, feeds, name, "x86-64-v3")], flags)
    wanted = onnxruntime_outputs(model, feeds)
    return all(compare(f, w, TOLERANCE).ok for run in answer.runs for f, w in zip(run, wanted, strict=True))


def main(names: tuple[str, ...] = NAMES) -> int:
    """How many failed."""
    console, failed = Console(stderr=True), 0
    table = Table("model", "max|d|/max|y|", "seconds to compile and run", "sanitizers")
    for name in track(names, "light models", console=console):
        start, said = time.monotonic(), ""
        try:
            worst = max(
                (compare(f, w, TOLERANCE) for f, w in outputs(name, "native")), key=lambda d: d.relative
            )
            seconds = time.monotonic() - start
            clean = "clean" if sanitized(name) else "wrong"
            failed += not worst.ok or clean == "wrong"
            table.add_row(name, f"{worst.relative:.1e}", f"{seconds:.1f}", clean)
        except Exception as error:
            failed, said = failed + 1, f"{type(error).__name__}: {str(error)[:200]}"
            table.add_row(name, said, "", "")
    Console().print(table)
    return failed


if __name__ == "__main__":
    sys.exit(main(tuple(sys.argv[1:]) or NAMES) > 0)
