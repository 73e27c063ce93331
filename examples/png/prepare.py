"""Makes what CMakeLists.txt compiles: `prepare.py digits|resnet50 FOLDER`.

Out, in the folder: `model.onnx`, `images/*.png`, and `calibration.npz`, samples of the model's input. The
network for digits is the trained one of the example beside this, and its images are named CLASS_NUMBER.png.
ResNet-50 has drawn weights, so its classes mean nothing; its images are drawn too.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples" / "digits"
SHOWN, CALIBRATION = 10, 100
MEANS, DEVIATIONS = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)
Array = np.ndarray[Any, Any]


def digits(folder: Path) -> None:
    """Images that the network has not seen: the first are shown, others calibrate."""
    shutil.copy(DIGITS / "digits.onnx", folder / "model.onnx")
    with np.load(DIGITS / "test_images.npz") as held:
        images, labels = held["images"], held["labels"]
    for i in range(SHOWN):
        pixels = np.round(images[i, 0] * (255 / 16)).astype(np.uint8)
        Image.fromarray(pixels).save(folder / "images" / f"{labels[i]}_{i}.png")
    np.savez(folder / "calibration.npz", image=images[SHOWN : SHOWN + CALIBRATION].astype(np.float32))


def resnet50(folder: Path) -> None:
    """Clouds of colour, from coarse noise."""
    sys.path.insert(0, str(ROOT))
    from benchmarks.models import resnet50 as network

    model = network()
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    rng = np.random.default_rng(0)
    made: list[Array] = []
    for i in range(4):
        coarse = Image.fromarray(rng.integers(0, 256, (7, 7, 3), dtype=np.uint8))
        cloud = coarse.resize((224, 224), Image.Resampling.BICUBIC)
        cloud.save(folder / "images" / f"{i}.png")
        made.append(((np.asarray(cloud, np.float32) - MEANS) / DEVIATIONS).transpose(2, 0, 1)[None])
    samples = {model.graph.input[0].name: np.concatenate(made).astype(np.float32)}
    np.savez(folder / "calibration.npz", **samples)  # type: ignore[arg-type]


def main() -> None:
    name, folder = sys.argv[1], Path(sys.argv[2])
    (folder / "images").mkdir(parents=True, exist_ok=True)
    {"digits": digits, "resnet50": resnet50}[name](folder)


if __name__ == "__main__":
    main()
