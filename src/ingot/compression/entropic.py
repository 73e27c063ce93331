"""Weights that share the values which cost least in loss and in bits: entropy-constrained quantisation.

    a weight w takes the value c[k] of the least   sensitivity (w - c[k])^2 + price bits[k]

(arXiv:1612.01543). The sensitivity of a layer is the mean square of its gradients. The bits are those of an
ideal code for how often each value is taken, and zero is one of the values: a weight is pruned where that
is cheap. The price of a bit is the same in all layers, and is adjusted so that all together are as many times
smaller as asked. Meanwhile weights are trained as in `straight`. Called by `finetune`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ingot.compression.accounting import sizes_of
from ingot.compression.encode import FLOAT_BITS
from ingot.errors import InputError
from ingot.formula.expr import Array
from ingot.graph.encoding import Codebook

PROBED = 50
"""Passes before sensitivities are known; until then, the error relative to a layer's size is equal in all."""
EVERY = 10
"""Passes from one adjustment of the price to the next."""
TRIALS, TURNS = 24, 8  # of a search for the price, and of k-means in each of them
LEAST = 1e-30  # mean square of weights
GAIN = 0.3  # by which the logarithm of the price follows the relative error of the size
SPAN, NEAR = 60.0, 2.0  # how far below the largest price the logarithm is looked for, and about one in use


@dataclass(slots=True, eq=False)
class Shared:
    """One tensor and its values: `values[0]` is 0. `codes` are those of its last pass, in its own order."""

    tensor: Any
    bits: int
    sensitivity: float = 0.0
    values: Array = field(default_factory=lambda: np.zeros(0, np.float32))
    codes: Array = field(default_factory=lambda: np.zeros(0, np.int64))
    weights: Any = None
    squares: float = 0.0

    def begin(self, price: float) -> None:
        """Values evenly apart, as far as is best at this price, and a few turns of k-means from there."""
        weights = self.latent()
        count = (1 << self.bits) - 1
        # the step of an even quantiser with the slope of price and loss at high rates: D = step^2 / 12
        step = math.sqrt(6 * price / (self.sensitivity * math.log(2)))
        step = max(step, (float(weights.max()) - float(weights.min())) / (count + 1))
        low = max(-(count // 2), min(round(float(weights.min()) / step), 0))
        grid = np.arange(low, low + count + 1)
        self.values = np.concatenate([[0], grid[grid != 0] * step]).astype(np.float32)
        self.codes = np.zeros(0, np.int64)
        for _ in range(TURNS):
            self.assign(weights, price)

    def assign(self, weights: Array, price: float) -> None:
        """Give each weight the value that costs least, and each value the mean of its weights."""
        count, offsets = len(self.values), np.zeros(len(self.values))
        if len(self.codes):
            often = np.bincount(self.codes, minlength=count) + 0.5
            offsets = price / self.sensitivity * -np.log2(often / often.sum())
        kept, cuts = lower_envelope(self.values.astype(np.float64), offsets)
        self.codes = kept[np.searchsorted(cuts, weights)]
        numbers = np.bincount(self.codes, minlength=count)
        sums = np.bincount(self.codes, weights, count)
        self.values = np.where(numbers > 0, sums / np.maximum(numbers, 1), self.values).astype(np.float32)
        self.values[0] = 0.0

    def share(self, price: float) -> None:
        """Give each weight its shared value, unless it has it."""
        if self.weights is None:
            self.weights = self.tensor.detach().clone()
            self.assign(self.latent(), price)
            self.show()

    def show(self) -> None:
        """Let the network see the shared values."""
        import torch

        self.tensor.data.copy_(torch.from_numpy(self.values[self.codes]).reshape(self.tensor.shape))

    def free(self) -> None:
        """Give each weight its own value again, if it has a shared one."""
        if self.weights is not None:
            self.squares += float(self.tensor.grad.square().mean())
            self.tensor.data.copy_(self.weights)
            self.weights = None

    @property
    def size(self) -> int:
        """Its bits, counted as `accounting` does."""
        return sizes_of("", "", self.encoding(self.codes)).coded_bits

    def encoding(self, codes: Array) -> Codebook:
        """The encoding of such codes."""
        return Codebook(codes.astype(np.uint8), self.values)

    def latent(self) -> Array:
        """The weights as they are trained, in the tensor's own order."""
        tensor = self.tensor if self.weights is None else self.weights
        return np.asarray(tensor.detach().cpu().numpy().reshape(-1))


class Entropic:
    """Tensors that share their values at one price of a bit, which makes them `ratio` times smaller, together
    with so many `other_bits` of layers that stay as they are. Raises InputError where no price does.
    """

    def __init__(self, tensors: Sequence[Shared], ratio: float, other_bits: int) -> None:
        self.tensors, self.ratio, self.other_bits = tensors, ratio, other_bits
        self.passes, self.price = 0, 0.0
        self._learn()
        self._begin()

    def attach(self, network: Any) -> list[Any]:
        """Share before each forward pass, and free after each backward pass. Returns handles that end it."""
        handles = [network.register_forward_pre_hook(lambda *_: self._before_a_pass())]
        for each in self.tensors:
            handles.append(each.tensor.register_post_accumulate_grad_hook(lambda _, each=each: each.free()))
        return handles

    def share(self) -> None:
        """Give all weights their shared values."""
        for each in self.tensors:
            each.share(self.price)

    def settle(self) -> None:
        """Share all weights at the price that gives the ratio, which training has only followed."""
        self.share()
        found = [(each.values, each.codes) for each in self.tensors]

        def at(price: float) -> float:
            for each, (values, codes) in zip(self.tensors, found, strict=True):
                each.values, each.codes = values, codes
                each.assign(each.latent(), price)
            return self._ratio()

        self.price = math.exp(self._searched(at, math.log(self.price) - NEAR, math.log(self.price) + NEAR))
        at(self.price)
        for each in self.tensors:
            each.show()

    def _before_a_pass(self) -> None:
        """Share; in passes of training, learn sensitivities or follow the size as well."""
        is_new = any(each.weights is None for each in self.tensors)
        if is_new and self.passes == PROBED:
            self._learn()
            self._begin()
        self.share()
        if is_new:
            self.passes += 1
            if self.passes % EVERY == 0:
                self.price *= math.exp(GAIN * (self.ratio / self._ratio() - 1))

    def _learn(self) -> None:
        """Sensitivities by the gradients so far. A layer that has none is taken for the most sensitive one;
        before the first pass, all are alike."""
        sizes = [max(float(each.tensor.detach().square().mean()), LEAST) for each in self.tensors]
        relative = [each.squares * size for each, size in zip(self.tensors, sizes, strict=True)]
        most = max(relative) or 1.0
        for each, size, found in zip(self.tensors, sizes, relative, strict=True):
            each.sensitivity = (found or most) / size

    def _begin(self) -> None:
        """Find the price by halving its logarithm, and begin there."""
        scale = max(float(each.tensor.detach().square().mean()) * each.sensitivity for each in self.tensors)

        def at(price: float) -> float:
            for each in self.tensors:
                each.begin(price)
            return self._ratio()

        self.price = math.exp(self._searched(at, math.log(scale) - SPAN, math.log(scale) + 10))
        at(self.price)
        if self._ratio() < 0.99 * self.ratio:
            raise InputError(
                f"--target-ratio {self.ratio:g}x: {self._ratio():.1f}x is all that shared values give",
                remedy="ask for less, or for fewer --bits",
            )

    def _searched(self, at: Callable[[float], float], low: float, high: float) -> float:
        """The logarithm of the least price that gives the ratio, by halving."""
        for _ in range(TRIALS):
            middle = (low + high) / 2
            low, high = (middle, high) if at(math.exp(middle)) < self.ratio else (low, middle)
        return high

    def _ratio(self) -> float:
        before = sum(FLOAT_BITS * each.tensor.numel() for each in self.tensors) + self.other_bits
        return float(before / (sum(each.size for each in self.tensors) + self.other_bits))


def lower_envelope(values: Array, offsets: Array) -> tuple[Array, Array]:
    """Which values some w takes by the least (w - value)^2 + offset, in ascending order, and where one gives
    way to the next: int64 [k] and float64 [k - 1].
    """
    kept: list[int] = []
    cuts: list[float] = []
    for k in np.lexsort((offsets, values)):
        if kept and values[kept[-1]] == values[k]:
            continue  # it costs no less anywhere
        while kept:
            last = kept[-1]
            apart = values[k] ** 2 + offsets[k] - values[last] ** 2 - offsets[last]
            cut = apart / (2 * (values[k] - values[last]))
            if not cuts or cut > cuts[-1]:
                cuts.append(cut)
                break
            kept.pop()
            cuts.pop()
        kept.append(int(k))
    return np.array(kept, np.int64), np.array(cuts)
