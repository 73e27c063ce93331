"""One small convolutional net, end to end: the shipped object against onnx's reference evaluator."""

from pathlib import Path

import numpy as np

import ingot

DIGITS = Path(__file__).parent.parent / "examples" / "digits"


def test_digits_agrees_with_the_stored_scores() -> None:
    with np.load(DIGITS / "test_images.npz") as tests:
        images, scores = tests["images"][:16].astype(np.float32), tests["scores"][:16]
    bundle = ingot.compile(DIGITS / "digits.onnx")
    found = np.concatenate([bundle.run({"image": image[None]})["scores"] for image in images])
    np.testing.assert_allclose(found, scores, atol=1e-5)


def test_compiling_twice_gives_the_same_bytes() -> None:
    first, second = (ingot.compile(DIGITS / "digits.onnx").files for _ in range(2))
    assert first == second
