"""ResNet-50 of examples/png, in floats and in integers, beside the model itself: for `make packages`.

It compiles for minutes, so `make test` does not collect it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ingot
from tests.test_png import answers, build

__all__ = ["build"]  # a fixture


@pytest.mark.parametrize("program", ["resnet50_float", "resnet50_int8"])
def test_resnet50_computes_what_the_model_does(build: Path, program: str) -> None:
    found = answers(build, program)
    folder = build / "resnet50"
    bundle = ingot.compile(folder / "model.onnx")
    with np.load(folder / "calibration.npz") as held:
        (samples,) = (held[name] for name in held.files)
    (given,) = bundle.manifest["inputs"]
    for i, x in enumerate(samples):
        (scores,) = bundle.run({given["name"]: x[None]}).values()
        kind, score = found[f"{i}.png"]
        near = 1e-3 if program.endswith("float") else 0.2
        assert abs(score - scores.max()) <= near * np.ptp(scores)
        assert scores[0, kind] >= scores.max() - near * np.ptp(scores)
