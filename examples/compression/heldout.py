"""The held-out digits as files for commands that take arrays: `images.npy`, float32 [360,1,28,28], and
`labels.npy`, int64 [360], in build/compression. Needs the `train` extra.

    python examples/compression/heldout.py
    ingot eie run lenet300.ingot.onnx --input image=build/compression/images.npy \
          --labels build/compression/labels.npy --samples 360
"""

from pathlib import Path

import numpy as np
from lenets import digits

FOLDER = Path("build/compression")


def main() -> None:
    """Writes both files."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    data = digits()
    np.save(FOLDER / "images.npy", data.test_images.numpy())
    np.save(FOLDER / "labels.npy", data.test_labels.numpy())
    print(f"{FOLDER}/images.npy, {FOLDER}/labels.npy: {len(data.test_labels)} digits")


if __name__ == "__main__":
    main()
