"""A network that is trained here, for the accuracy in Figure 10: it reads digits that are drawn here too.

    images   digits of 5x7 points at random places of 9x9, with noise
    network  81 to 100 to 60 to 10, trained, pruned, trained again, its weights shared by 15 values a layer
    right    the share of digits that it reads in fixed point, layer after layer as the accelerator computes

In: nothing, all is drawn from a seed. Out: percentages. Called by `ingot.eie.paper`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ingot.compression.prune import kept_by, largest
from ingot.compression.share import centroids
from ingot.eie import fixed
from ingot.eie.columns import Columns, encode
from ingot.formula.expr import Array

DIGITS = (
    "01110 10001 10011 10101 11001 10001 01110",
    "00100 01100 00100 00100 00100 00100 01110",
    "01110 10001 00001 00010 00100 01000 11111",
    "11111 00010 00100 00010 00001 10001 01110",
    "00010 00110 01010 10010 11111 00010 00010",
    "11111 10000 11110 00001 00001 10001 01110",
    "00110 01000 10000 11110 10001 10001 01110",
    "11111 00001 00010 00100 01000 01000 01000",
    "01110 10001 10001 01110 10001 10001 01110",
    "01110 10001 10001 01111 00001 00010 01100",
)
SIDE, NOISE = 9, 0.4
SIZES, DENSITIES, VALUES = (SIDE * SIDE, 100, 60, 10), (0.2, 0.25, 0.5), 15
BATCH, STEPS, RATE, MOMENTUM = 64, 1200, 0.05, 0.9
SAMPLES, SEED, PES = 500, 7, 64


@dataclass(frozen=True, slots=True, eq=False)
class Dense:
    """A layer as the accelerator has it: codes uint8 [rows, cols], shared values [16], the first of them 0,
    and a bias.
    """

    columns: Columns
    codes: Array
    codebook: Array
    bias: Array


def draw(rng: np.random.Generator, count: int) -> tuple[Array, Array]:
    """Images float32 [count, 81] and the digits int64 [count] that they show."""
    shapes = np.array([[[float(c) for c in row] for row in text.split()] for text in DIGITS])
    digits = rng.integers(0, len(DIGITS), count)
    images = NOISE * rng.standard_normal((count, SIDE, SIDE))
    tall, wide = shapes.shape[1:]
    for image, digit in zip(images, digits, strict=True):
        down, right = rng.integers(0, SIDE - tall + 1), rng.integers(0, SIDE - wide + 1)
        image[down : down + tall, right : right + wide] += shapes[digit]
    return images.reshape(count, -1).astype(np.float32), digits


def accuracy(precisions: Sequence[int]) -> tuple[float, dict[int, float]]:
    """The percentages of digits read right: in floats, and with so many bits of fixed point."""
    rng = np.random.default_rng(SEED)
    layers = _shared(_trained(rng))
    images, digits = draw(rng, SAMPLES)
    inputs = [images]
    for layer in layers:
        inputs.append(np.maximum(_floats(layer, inputs[-1]), 0))
    exact = _floats(layers[-1], inputs[-2])
    return _right(exact, digits), {b: _right(_fixed(layers, inputs, b), digits) for b in precisions}


def _right(scores: Array, digits: Array) -> float:
    return 100 * float((scores.argmax(axis=1) == digits).mean())


def _floats(layer: Dense, x: Array) -> Array:
    return np.asarray(x @ layer.codebook[layer.codes].T + layer.bias)


def _fixed(layers: Sequence[Dense], inputs: Sequence[Array], bits: int) -> Array:
    """The last layer's sums; each layer reads the integers of the one before."""
    given, ints = None, inputs[0]
    for n, layer in enumerate(layers):
        how = fixed.arrange(layer.columns, layer.codebook, inputs[n], bits, layer.bias, given)
        ints = fixed.quantise(ints, how.activation_places, bits) if n == 0 else fixed.relu(ints)
        start = fixed.quantise(layer.bias, how.sum_places, bits)
        ints = np.array([fixed.product(layer.columns, how, a, start) for a in ints])
        given = how.sum_places
    return ints


def _trained(rng: np.random.Generator) -> list[tuple[Array, Array]]:
    """Weights [rows, cols] and biases of a network that was pruned halfway."""
    layers = [
        (rng.standard_normal((rows, cols)) * np.sqrt(2 / cols), np.zeros(rows))
        for cols, rows in pairwise(SIZES)
    ]
    masks = [np.ones(w.shape, np.bool_) for w, _ in layers]
    _train(rng, layers, masks)
    for n, (weights, _) in enumerate(layers):
        masks[n] = largest(weights, kept_by(weights, DENSITIES[n]))
    _train(rng, layers, masks)
    return layers


def _train(rng: np.random.Generator, layers: Sequence[tuple[Array, Array]], masks: Sequence[Array]) -> None:
    """Descend in place by the cross entropy, with momentum and a rate that falls to 0."""
    speeds = [(np.zeros(w.shape), np.zeros(b.shape)) for w, b in layers]
    for step in range(STEPS):
        rate = RATE * (1 - step / STEPS)
        for (weights, bias), speed, mask, (dw, db) in zip(
            layers, speeds, masks, _gradients(layers, *draw(rng, BATCH)), strict=True
        ):
            for held, moved, slope in ((weights, speed[0], dw), (bias, speed[1], db)):
                moved *= MOMENTUM
                moved -= rate * slope
                held += moved
            weights *= mask


def _gradients(layers: Sequence[tuple[Array, Array]], x: Array, digits: Array) -> list[tuple[Array, Array]]:
    """The slope of the mean cross entropy, layer by layer."""
    inputs = [x.astype(np.float64)]
    for weights, bias in layers:
        inputs.append(np.maximum(inputs[-1] @ weights.T + bias, 0))
    weights, bias = layers[-1]
    scores = inputs[-2] @ weights.T + bias
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    slope = shares / shares.sum(axis=1, keepdims=True)
    slope[np.arange(len(digits)), digits] -= 1
    slope /= len(digits)
    found = []
    for n in reversed(range(len(layers))):
        found.append((slope.T @ inputs[n], slope.sum(axis=0)))
        slope = (slope @ layers[n][0]) * (inputs[n] > 0)
    return found[::-1]


def _shared(layers: Sequence[tuple[Array, Array]]) -> list[Dense]:
    """The layers with 15 values each for the weights that are left."""
    found = []
    for weights, bias in layers:
        kept = weights != 0
        values = centroids(weights[kept], VALUES)
        codes = np.zeros(weights.shape, np.uint8)
        codes[kept] = np.abs(weights[kept][:, None] - values).argmin(axis=1) + 1
        codebook = np.concatenate([np.zeros(1, np.float32), values])
        found.append(Dense(encode(codes, PES), codes, codebook, bias))
    return found
