"""Random choices that are remembered, so that a failing stage can be drawn again with simpler ones.

Every choice is a number below a limit, and 0 is the simplest. A list of such numbers replayed gives the same
stage; a list with smaller numbers, or a shorter one, gives a simpler stage of the same kind.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from ingot.formula.expr import Tensor
from ingot.formula.types import DType

T = TypeVar("T")


class Impossible(Exception):
    """What was drawn does not fit together: no such stage exists."""


class Dice:
    """Draws from a seed, or replays `choices`, 0 where these end; `taken` are the choices made so far."""

    def __init__(self, seed: tuple[str, int], choices: Sequence[int] | None = None) -> None:
        self.taken: list[int] = []
        self.seed = seed[1]
        self.random = np.random.default_rng([zlib.crc32(seed[0].encode()), *seed[1:]])
        self.choices = choices

    def below(self, limit: int) -> int:
        if self.choices is None:
            made = int(self.random.integers(limit))
        else:
            made = self.choices[len(self.taken)] % limit if len(self.taken) < len(self.choices) else 0
        self.taken.append(made)
        return made

    def tensor(self, name: str, type: DType, shape: Sequence[int]) -> Tensor:
        """A tensor for what comes from outside, of a name that no other drawn stage has."""
        return Tensor(f"{name}{self.seed}", type, tuple(shape))

    def constant(self, name: str, type: DType, shape: Sequence[int], most: int = 9) -> Tensor:
        """A tensor of known integers, which are no choices: they do not tell stages apart."""
        values = self.random.integers(-most, most + 1, shape).astype(type.numpy)
        return Tensor(f"{name}{self.seed}", type, tuple(shape), values)

    def number(self, least: int, most: int) -> int:
        return least + self.below(most - least + 1)

    def choice(self, options: Sequence[T]) -> T:
        """One of the options, of which the first is the simplest."""
        return options[self.below(len(options))]

    def chance(self, percent: int) -> bool:
        return self.below(100) >= 100 - percent


def shrunk(choices: Sequence[int], fails: Callable[[Sequence[int]], bool], attempts: int = 80) -> list[int]:
    """Simpler choices that fail too: each in turn is made 0, a half, or one less."""
    best, tried = list(choices), 0
    improved = True
    while improved and tried < attempts:
        improved = False
        for i in range(len(best)):
            for less in dict.fromkeys((0, best[i] // 2, best[i] - 1)):
                if 0 <= less < best[i] and tried < attempts:
                    tried += 1
                    simpler = [*best[:i], less, *best[i + 1 :]]
                    if fails(simpler):
                        best, improved = simpler, True
                        break
    while best and best[-1] == 0:
        best.pop()
    return best
