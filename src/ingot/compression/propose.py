"""Densities for a whole model. In: layers, what is chosen, and how many times smaller; out: choices.

One threshold for a measure of every weight decides. It is found by halving; for a ratio of sizes each trial
is pruned, shared and counted for real. Called by `compress` where the user names a ratio, or how many weights
stay in all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from ingot.compression.accounting import Account, Sizes, sizes_of, unchanged
from ingot.compression.encode import UNCHANGED, Choice, encode
from ingot.compression.layers import Layer
from ingot.compression.prune import kept_by
from ingot.errors import InputError
from ingot.formula.expr import Array
from ingot.log import announce

Scale = Literal["sensitivity", "global", "deviation"]
TRIALS = 14
QUICK_TRIALS = 40  # where weights are only counted
UNREACHED = 1e-3  # by how much fewer weights than asked for may be there
SPAN = 1e12  # between the largest magnitude and the least threshold tried


@dataclass(frozen=True, slots=True)
class Goal:
    """How many times smaller: the layers, Huffman-coded, or (`of_weights`) the number of weights that stay.

    `scale` says by what weights of all layers are compared. global: their magnitude. deviation: that in units
    of their layer's standard deviation (Han et al., arXiv:1506.02626). sensitivity: the share that a weight
    has in the energy of those of its layer that are at least as large, w^2 / sum of v^2 over |v| >= |w|, per
    bit of a code: what its layer's result loses with it, relative to what is left (Lee et al.,
    "Layer-adaptive sparsity", arXiv:2010.07611).
    """

    ratio: float
    scale: Scale = "sensitivity"
    of_weights: bool = False


def propose(
    layers: Sequence[Layer], choices: Sequence[Choice], free: Sequence[bool], goal: Goal
) -> list[Choice]:
    """The choices, with densities for the `free` layers such that all layers together reach the ratio.

    Raises InputError where they do not, however few weights stay.
    """
    scores: list[Array | None] = []
    for i, (layer, choice) in enumerate(zip(layers, choices, strict=True)):
        announce(f"rank {layer.name}", i, len(layers))
        ranked = free[i] and choice.bits != UNCHANGED and layer.weights.any()
        scores.append(_scores(layer.weights, choice, goal) if ranked else None)

    def chosen(threshold: float) -> list[Choice]:
        return [
            c if s is None else replace(c, density=_share_above(s, threshold))
            for c, s in zip(choices, scores, strict=True)
        ]

    count = _kept_ratio if goal.of_weights else _Sizes()
    peak = max((float(s[-1]) for s in scores if s is not None), default=1.0)
    return chosen(_search(lambda threshold: count(layers, chosen(threshold)), peak, goal))


class _Sizes:
    """How many times smaller layers are; each is encoded once for a density."""

    def __init__(self) -> None:
        self.known: dict[tuple[int, float], Sizes] = {}

    def __call__(self, layers: Sequence[Layer], choices: Sequence[Choice]) -> float:
        for i, (layer, choice) in enumerate(zip(layers, choices, strict=True)):
            if (i, choice.density) not in self.known:
                self.known[i, choice.density] = _sizes(layer, choice)
        return Account(tuple(self.known[i, c.density] for i, c in enumerate(choices))).ratio


def _kept_ratio(layers: Sequence[Layer], choices: Sequence[Choice]) -> float:
    """How many weights there are for one that stays."""
    kept = sum(_kept(layer, choice) for layer, choice in zip(layers, choices, strict=True))
    return sum(layer.weights.size for layer in layers) / max(kept, 1)


def _kept(layer: Layer, choice: Choice) -> int:
    nonzero = int(np.count_nonzero(layer.weights))
    return nonzero if choice.bits == UNCHANGED else min(nonzero, kept_by(layer.weights, choice.density))


def _scores(weights: Array, choice: Choice, goal: Goal) -> Array:
    """What each weight counts for, in ascending order: float32. Zeros count for nothing."""
    ordered = np.sort(np.abs(weights).reshape(-1))
    if goal.scale == "global":
        return ordered
    if goal.scale == "deviation":
        return np.asarray(ordered / (weights.std(dtype=np.float64) or 1), np.float32)
    squares = ordered.astype(np.float64) ** 2
    above = np.cumsum(squares[::-1])[::-1]
    return np.asarray(squares / above / choice.bits, np.float32)


def _share_above(scores: Array, threshold: float) -> float:
    kept = len(scores) - int(np.searchsorted(scores, np.float32(threshold)))
    return max(kept, 1) / len(scores)


def _sizes(layer: Layer, choice: Choice) -> Sizes:
    found = encode(layer.weights, choice, layer.width)
    return unchanged(layer) if found is None else sizes_of(layer.name, layer.kind, found, layer.width)


def _search(ratio: Callable[[float], float], peak: float, goal: Goal) -> float:
    """The least threshold found that reaches the goal, up to `peak`."""
    low, high = np.log(peak) - np.log(SPAN), np.log(peak)
    most = ratio(peak)
    if most < goal.ratio and goal.of_weights:
        raise InputError(
            f"these layers keep at least {1 / most:.2%} of their weights, more than the "
            f"{1 / goal.ratio:.2%} asked for",
            remedy="give fewer layers a --density, or --bits 32",
        )
    if most < goal.ratio:
        raise InputError(
            f"these layers become at most {most:.1f}x smaller, less than the {goal.ratio:g}x asked for",
            remedy="give codes fewer --bits, or leave fewer layers out",
        )
    least = ratio(0.0)
    if goal.of_weights and least > goal.ratio * (1 + UNREACHED):
        raise InputError(
            f"these layers keep at most {1 / least:.2%} of their weights, less than the "
            f"{1 / goal.ratio:.2%} asked for",
            remedy="ask for less, or give layers a larger --density; weights that are zero count as pruned",
        )
    trials = QUICK_TRIALS if goal.of_weights else TRIALS
    for trial in range(trials):
        announce("look for densities", trial, trials)
        middle = (low + high) / 2
        if ratio(float(np.exp(middle))) < goal.ratio:
            low = middle
        else:
            high = middle
    return float(np.exp(high))
