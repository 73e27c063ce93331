"""Ten models drawn from families: nobody chose their sizes, so nobody can have tuned for them.

In: a seed. Out: `draw(seed)`, name -> ModelProto: two convolutional nets, two depthwise, two residual, one
dense, two recurrent (an LSTM's and a gated cell's), one with attention; odd numbers of channels and sizes are
as likely as even ones. Called by `run.py`; `python -m benchmarks.random_models DIR [SEED]` writes them as
files for `ingot bench`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx

from benchmarks.models import encoder
from benchmarks.net import Net

SEED = 20261121
ACTIVATIONS = ("Relu", "Relu6", "LeakyRelu", "Tanh", "Sigmoid")


class Dice:
    """A seeded source of sizes."""

    def __init__(self, seed: int, name: str) -> None:
        self.rng = np.random.default_rng([seed, *name.encode()])

    def between(self, low: int, high: int) -> int:
        """Both ends included."""
        return int(self.rng.integers(low, high + 1))

    def odd(self, low: int, high: int) -> int:
        """Both ends, which are odd, included."""
        return low + 2 * self.between(0, (high - low) // 2)

    def of(self, *choices: str) -> str:
        return choices[self.between(0, len(choices) - 1)]

    def among(self, choices: Sequence[int]) -> int:
        return choices[self.between(0, len(choices) - 1)]

    def happens(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)


def image(name: str, dice: Dice) -> Net:
    """A net that starts with an image of 24 to 120 rows and columns."""
    return Net(name, (1, dice.between(1, 4), dice.between(24, 120), dice.between(24, 120)))


def convolution(name: str, dice: Dice) -> onnx.ModelProto:
    """Plain convolutions with pooling between them."""
    net, x = image(name, dice), "x"
    channels, then = dice.between(9, 40), dice.of(*ACTIVATIONS)
    for _ in range(dice.between(4, 7)):
        x = net.conv(x, channels, dice.odd(1, 5), then=then)
        if min(net.shapes[x][2:]) > 12 and dice.happens(0.5):
            x = net.pool(x, 2, op=dice.of("MaxPool", "AveragePool"))
            channels = channels * 3 // 2 + dice.between(0, 3)
    return net.model(y=net.then(net.dense(net.average(x), dice.between(3, 50)), "Softmax"))


def depthwise(name: str, dice: Dice) -> onnx.ModelProto:
    """A depthwise and a pointwise convolution, again and again."""
    net, then = image(name, dice), dice.of("Relu", "Relu6")
    channels = dice.between(8, 36)
    x = net.conv("x", channels, 3, 2, then=then)
    for _ in range(dice.between(5, 9)):
        large = min(net.shapes[x][2:]) > 10
        stride = 2 if large and dice.happens(0.4) else 1
        channels = channels * 2 - dice.between(0, 5) if stride == 2 else channels
        x = net.depthwise(x, dice.odd(3, 5), stride, then=then)
        x = net.conv(x, channels, 1, then=then)
    return net.model(y=net.dense(net.average(x), dice.between(2, 200)))


def residual(name: str, dice: Dice) -> onnx.ModelProto:
    """Blocks of two or three convolutions around which the signal goes as well."""
    net, channels = image(name, dice), dice.between(12, 48)
    x = net.conv("x", channels, dice.odd(3, 7), dice.between(1, 2), then="Relu")
    for _ in range(dice.between(3, 6)):
        stride = 2 if min(net.shapes[x][2:]) > 10 and dice.happens(0.4) else 1
        width = channels if stride == 1 else channels * 3 // 2 + dice.between(0, 7)
        y = net.conv(x, width, 3, stride, then="Relu")
        if dice.happens(0.3):
            y = net.conv(y, width, 1, then="Relu")
        y = net.conv(y, width, 3, gain=0.5)
        x = net.add(x if width == channels else net.conv(x, width, 1, stride), y, "Relu")
        channels = width
    return net.model(y=net.dense(net.average(x), dice.between(5, 100)))


def dense(name: str, dice: Dice) -> onnx.ModelProto:
    """A perceptron of many layers."""
    net, x = Net(name, (1, dice.between(50, 1500))), "x"
    for _ in range(dice.between(3, 6)):
        x = net.dense(x, dice.between(30, 1200), dice.of(*ACTIVATIONS))
    return net.model(y=net.then(net.dense(x, dice.between(2, 300)), "Softmax"))


def recurrent(name: str, dice: Dice) -> onnx.ModelProto:
    """One or two LSTMs over a sequence."""
    net = Net(name, (dice.between(8, 60), 1, dice.between(5, 90)))
    x, hidden, h = "x", 0, ""
    for _ in range(dice.between(1, 2)):
        hidden = dice.between(16, 150)
        y, h, _ = net.lstm(x, hidden)
        x = net.one("Squeeze", [y, net.integers(1)], (net.shapes["x"][0], 1, hidden))
    return net.model(y=net.dense(net.reshape(h, 1, hidden), dice.between(2, 40)))


def cell(name: str, dice: Dice) -> onnx.ModelProto:
    """One step of a gated cell, written out."""
    n, hidden = dice.between(5, 60), dice.between(16, 100)
    net = Net(name, (1, n), (1, hidden))
    z = net.then(net.dense(net.concat("x", "h"), hidden), "Sigmoid")
    candidate = net.then(net.dense(net.concat("x", net.binary("Mul", z, "h")), hidden), "Tanh")
    kept = net.binary("Sub", "h", net.binary("Mul", z, "h"))
    h = net.add(kept, net.binary("Mul", z, candidate))
    return net.model(y=net.then(net.dense(h, dice.between(2, 20)), "Softmax"), h_out=h)


def attention(name: str, dice: Dice) -> onnx.ModelProto:
    """Encoder layers over a short sequence."""
    heads = dice.between(2, 5)
    width, inner = heads * dice.between(11, 48), dice.between(60, 500)
    net, x = Net(name, (1, dice.between(15, 100), width)), "x"
    for _ in range(dice.between(1, 3)):
        x = encoder(net, x, heads, inner)
    return net.model(y=x)


FAMILIES: tuple[Callable[[str, Dice], onnx.ModelProto], ...] = (
    *(convolution, convolution, depthwise, depthwise, residual, residual),
    *(dense, recurrent, cell, attention),
)


def draw(seed: int) -> dict[str, onnx.ModelProto]:
    """Ten models by name; equal seeds give equal bytes."""
    found = {}
    for number, family in enumerate(FAMILIES):
        name = f"{family.__name__}_{seed}_{number}"
        found[name] = family(name, Dice(seed, name))
    return found


def main(folder: str, seed: str = str(SEED)) -> None:
    """Write ten models into a directory."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    for name, model in draw(int(seed)).items():
        onnx.save(model, Path(folder) / f"{name}.onnx")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("folder")
    parser.add_argument("seed", nargs="?", default=str(SEED))
    asked = parser.parse_args()
    main(asked.folder, asked.seed)
