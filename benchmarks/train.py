"""Trains the networks that `benchmarks.accuracy` measures and nobody publishes.

    python -m benchmarks.train DATA [NAME...]

In: the folder DATA with CIFAR-10 as JPEG (`CIFAR-10-images`); scikit-learn's digits. Out:
`DATA/trained/NAME.onnx`, and `NAME.npz` with `calibration`, `test` and `labels`. Needs the extras `train` and
`torch`, and Pillow.

* `digits`: the samples of the example's network, which is in the repository
* `lenet5`: the example's LeNet-5
* `lstm`, `gru`: CIFAR-10's images as sequences of 32 rows of 96 numbers
* `mobilenetv3`: inverted residuals with squeeze and excite and HardSwish, whose channels between blocks are
  rescaled after training: the same function in floats, with ranges that one scale for a tensor fits badly
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn

from benchmarks.pictures import Pictures, read_pictures

EXAMPLES = Path(__file__).parent.parent / "examples"
CLASSES, ROWS, FEATURES, HIDDEN = 10, 32, 96, 96
BATCH, EPOCHS = 128, {"lstm": 8, "gru": 8, "mobilenetv3": 8}
SPREAD = 3.0
"""Channels between blocks are scaled by powers of two up to this exponent, either way."""
BLOCKS = (
    # kernel, expanded, out, squeezes, HardSwish, stride
    (3, 16, 16, True, False, 2),
    (3, 72, 24, False, False, 1),
    (3, 88, 24, False, False, 1),
    (5, 96, 40, True, True, 2),
    (5, 240, 40, True, True, 1),
    (5, 120, 48, True, True, 1),
    (5, 144, 48, True, True, 1),
)
"""MobileNetV3-small's (Howard et al. 2019), as far as images of 32 x 32 pixels go."""


class Recurrent(nn.Module):
    """One recurrent layer over the rows of an image, and a dense layer on its last state."""

    def __init__(self, kind: type[nn.LSTM] | type[nn.GRU]) -> None:
        super().__init__()
        self.cells = kind(FEATURES, HIDDEN, batch_first=True)
        self.scores = nn.Linear(HIDDEN, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        """[n,32,96] -> [n,10]."""
        return self.scores(self.cells(x)[0][:, -1])


class Squeeze(nn.Module):
    """Scales each channel by what the means of all channels say."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(channels, channels // 4, 1), nn.Conv2d(channels // 4, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        mean = nn.functional.adaptive_avg_pool2d(x, 1)
        return x * nn.functional.hardsigmoid(self.up(self.down(mean).relu()))


class Block(nn.Module):
    """An inverted residual: expand, a depthwise window, squeeze, project."""

    def __init__(
        self, given: int, kernel: int, wide: int, made: int, squeezes: bool, hard: bool, stride: int
    ) -> None:
        super().__init__()
        act: Callable[[], nn.Module] = nn.Hardswish if hard else nn.ReLU
        window = nn.Conv2d(wide, wide, kernel, stride, kernel // 2, groups=wide, bias=False)
        self.layers = nn.Sequential(
            *(nn.Conv2d(given, wide, 1, bias=False), nn.BatchNorm2d(wide), act()),
            *(window, nn.BatchNorm2d(wide), act()),
            Squeeze(wide) if squeezes else nn.Identity(),
            *(nn.Conv2d(wide, made, 1, bias=False), nn.BatchNorm2d(made)),
        )
        self.adds = stride == 1 and given == made

    def forward(self, x: Tensor) -> Tensor:
        y = self.layers(x)
        return x + y if self.adds else y


class MobileNetV3(nn.Module):
    """A stem, the blocks, a last expansion, means, and two dense layers."""

    def __init__(self) -> None:
        super().__init__()
        made = (16, *(b[2] for b in BLOCKS))
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.Hardswish())
        self.blocks = nn.Sequential(*(Block(given, *b) for given, b in zip(made, BLOCKS, strict=False)))
        self.last = nn.Sequential(nn.Conv2d(48, 288, 1, bias=False), nn.BatchNorm2d(288), nn.Hardswish())
        self.head = nn.Sequential(nn.Linear(288, 256), nn.Hardswish(), nn.Linear(256, CLASSES))

    def forward(self, x: Tensor) -> Tensor:
        """[n,3,32,32] -> [n,10]."""
        return self.head(self.last(self.blocks(self.stem(x))).mean((2, 3)))


@torch.no_grad()
def spoil(network: MobileNetV3) -> None:
    """Scale the channels between blocks, and the weights that read them by the inverse: the same function.

    Blocks that add their input share its scales.
    """
    blocks = list(network.blocks)
    scales = torch.ones(0)
    for block, reader in zip(blocks, [*(b.layers for b in blocks[1:]), network.last], strict=True):
        norm = block.layers[-1]
        if not block.adds:
            scales = 2 ** torch.empty(norm.num_features).uniform_(-SPREAD, SPREAD)
        norm.weight *= scales
        norm.bias *= scales
        reader[0].weight /= scales[:, None, None]


def trained(network: nn.Module, images: Tensor, labels: Tensor, epochs: int, flips: bool) -> nn.Module:
    """Train with Adam and a cosine schedule; images are turned left to right at random where that `flips`."""
    steps = epochs * (len(images) // BATCH)
    optimizer = torch.optim.Adam(network.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for step in range(steps):
        chosen = torch.randint(0, len(images), (BATCH,))
        batch = images[chosen].flip(3) if flips and step % 2 else images[chosen]
        loss = nn.functional.cross_entropy(network(batch), labels[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return network.eval()


def write(
    data: Path, name: str, network: nn.Module, calibration: np.ndarray, test: np.ndarray, labels: np.ndarray
) -> None:
    """Write a network, input `x`, and its samples."""
    save(data, name, calibration, test, labels)
    path = data / "trained" / f"{name}.onnx"
    torch.onnx.export(network, (torch.from_numpy(test[:1]),), path, input_names=["x"], external_data=False)


def save(data: Path, name: str, calibration: np.ndarray, test: np.ndarray, labels: np.ndarray) -> None:
    (data / "trained").mkdir(exist_ok=True)
    np.savez(data / "trained" / f"{name}.npz", calibration=calibration, test=test, labels=labels)


@cache
def pictures(data: Path) -> Pictures:
    return read_pictures(data)


def of_pictures(data: Path, name: str, network: nn.Module, shape: tuple[int, ...]) -> None:
    """Train on CIFAR-10, pixels from -1 to 1, images or their rows."""

    def prepared(images: np.ndarray) -> np.ndarray:
        floats = images.astype(np.float32) / 127.5 - 1
        return floats.transpose(0, 3, 1, 2).copy() if len(shape) == 3 else floats.reshape(-1, *shape)

    of = pictures(data)
    images, test = prepared(of.training), prepared(of.test)
    labels = torch.from_numpy(of.training_labels)
    trained(network, torch.from_numpy(images), labels, EPOCHS[name], len(shape) == 3)
    if isinstance(network, MobileNetV3):
        spoil(network)
    write(data, name, network, images[of.calibration], test, of.test_labels)


def digits(data: Path) -> None:
    """Write the samples of the example's network, split as its training splits them."""
    found = load_digits()
    images, labels = found.images.astype(np.float32)[:, None], found.target.astype(np.int64)
    training, test, _, right = train_test_split(
        images, labels, test_size=360, stratify=labels, random_state=7
    )
    save(data, "digits", training, test, right)


def lenet5(data: Path) -> None:
    """Train the example's LeNet-5."""
    sys.path.append(str(EXAMPLES / "compression"))
    import lenets

    lenets.export(lenets.LeNet5, data / "trained" / "lenet5.onnx")
    of = lenets.digits()
    save(data, "lenet5", of.train_images.numpy(), of.test_images.numpy(), of.test_labels.numpy())


NETWORKS: dict[str, Callable[[Path], None]] = {
    "digits": digits,
    "lenet5": lenet5,
    "lstm": lambda data: of_pictures(data, "lstm", Recurrent(nn.LSTM), (ROWS, FEATURES)),
    "gru": lambda data: of_pictures(data, "gru", Recurrent(nn.GRU), (ROWS, FEATURES)),
    "mobilenetv3": lambda data: of_pictures(data, "mobilenetv3", MobileNetV3(), (3, ROWS, ROWS)),
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.train", description=__doc__.split("\n")[0])
    parser.add_argument("data", type=Path, metavar="DATA")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", choices=[*NETWORKS, []], help=f"of {', '.join(NETWORKS)}"
    )
    asked = parser.parse_args()
    for name in asked.names or NETWORKS:
        torch.manual_seed(7)
        NETWORKS[name](asked.data)
        print(name, flush=True)


if __name__ == "__main__":
    main()
