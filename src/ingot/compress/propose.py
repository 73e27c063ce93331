"""Densities for a ratio. In: layers, what is chosen, and how many times smaller; out: choices.

One threshold for a measure of every weight decides; it is found by halving, each trial pruned, shared and
counted for real. Called by `compress` where the user names a ratio.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from ingot.compress.accounting import Account, Sizes, sizes_of, unchanged
from ingot.compress.encode import UNCHANGED, Choice, encode
from ingot.compress.layers import Layer
from ingot.errors import InputError
from ingot.formula.expr import Array
from ingot.log import announce

Scale = Literal["sensitivity", "global"]
TRIALS = 14
SPAN = 1e12  # between the largest magnitude and the least threshold tried


@dataclass(frozen=True, slots=True)
class Goal:
    """How many times smaller, Huffman-coded; `scale` says by what weights of all layers are compared.

    global: their magnitude. sensitivity: the share that a weight has in the energy of those of its layer
    that are at least as large, w^2 / sum of v^2 over |v| >= |w|, per bit of a code: what its layer's result
    loses with it, relative to what is left (Lee et al., "Layer-adaptive sparsity", arXiv:2010.07611).
    """

    ratio: float
    scale: Scale = "sensitivity"


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
    counted: dict[tuple[int, float], Sizes] = {}

    def chosen(threshold: float) -> list[Choice]:
        return [
            c if s is None else replace(c, density=_share_above(s, threshold))
            for c, s in zip(choices, scores, strict=True)
        ]

    def ratio(threshold: float) -> float:
        found = chosen(threshold)
        for i, choice in enumerate(found):
            if (i, choice.density) not in counted:
                counted[i, choice.density] = _sizes(layers[i], choice)
        return Account(tuple(counted[i, c.density] for i, c in enumerate(found))).ratio

    return chosen(
        _search(ratio, max((float(s[-1]) for s in scores if s is not None), default=1.0), goal.ratio)
    )


def _scores(weights: Array, choice: Choice, goal: Goal) -> Array:
    """What each weight counts for, in ascending order: float32. Zeros count for nothing."""
    ordered = np.sort(np.abs(weights).reshape(-1))
    if goal.scale == "global":
        return ordered
    squares = ordered.astype(np.float64) ** 2
    above = np.cumsum(squares[::-1])[::-1]
    return np.asarray(squares / above / choice.bits, np.float32)


def _share_above(scores: Array, threshold: float) -> float:
    kept = len(scores) - int(np.searchsorted(scores, np.float32(threshold)))
    return max(kept, 1) / len(scores)


def _sizes(layer: Layer, choice: Choice) -> Sizes:
    found = encode(layer.weights, choice)
    if found is None:
        return unchanged(layer.name, layer.kind, layer.weights)
    return sizes_of(layer.name, layer.kind, found)


def _search(ratio: Callable[[float], float], peak: float, goal: float) -> float:
    """The least threshold found that reaches the goal, up to `peak`."""
    low, high = np.log(peak) - np.log(SPAN), np.log(peak)
    if ratio(peak) < goal:
        raise InputError(
            f"these layers become {ratio(peak):.1f}x smaller at most, {goal:g}x are asked for",
            remedy="give codes fewer --bits, or leave fewer layers out",
        )
    for trial in range(TRIALS):
        announce("look for densities", trial, TRIALS)
        middle = (low + high) / 2
        if ratio(float(np.exp(middle))) < goal:
            low = middle
        else:
            high = middle
    return float(np.exp(high))
