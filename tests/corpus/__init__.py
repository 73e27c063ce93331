"""Models of odd shapes with random weights, and the shipped one: what every target must get right.

`CASES` is read by `tests/test_corpus.py` and `tests/test_sanitizers.py`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.corpus import classical, integer, sequence, vision
from tests.corpus.cases import Case
from tests.corpus.net import Array

__all__ = ["CASES", "Case"]

DIGITS = Path(__file__).parents[2] / "examples" / "digits"


def _digit() -> dict[str, Array]:
    images = np.load(DIGITS / "test_images.npz")["images"][:1]
    return {"image": images.astype(np.float32)}


CASES = [Case("digits", DIGITS / "digits.onnx", given=_digit), *vision.CASES, *sequence.CASES]
CASES += [*classical.CASES, *integer.CASES]
