"""What TFLite Micro computes of `micro`: writes `micro.npz` beside this file.

    pip install tflite-micro      # in an environment of its own, with this repository on the path
    python -m tests.tflite.record_micro

The tests need nothing but the file.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from tflite_micro.python.tflite_micro import runtime

from ingot.frontends.tflite.model import parse_model
from tests.tflite.micro import cases
from tests.tflite.writer import Array

GOLDEN = Path(__file__).with_name("micro.npz")
ARENA = 1 << 20


def computed(data: bytes, runs: list[Array]) -> list[list[Array]]:
    """All outputs of each run, in order; states last from one to the next."""
    interpreter = runtime.Interpreter.from_bytes(data, arena_size=ARENA)
    count = len(parse_model(data).subgraphs[0].outputs)
    made = []
    for x in runs:
        interpreter.set_input(x, 0)
        interpreter.invoke()
        made.append([interpreter.get_output(i).copy() for i in range(count)])
    return made


def main() -> None:
    found = {
        f"{name}/{run}/{i}": y
        for name, (data, runs) in cases().items()
        for run, outputs in enumerate(computed(data, runs))
        for i, y in enumerate(outputs)
    }
    np.savez_compressed(GOLDEN, **found)
    print(f"{len(found)} results, {GOLDEN.stat().st_size} bytes")


if __name__ == "__main__":
    main()
