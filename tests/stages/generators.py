"""The generators: what is drawn for each, how it is asked, which files are its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ingot.formula.compute import Compute, Stage
from ingot.formula.index import Bounds
from ingot.formula.statements import Statement
from ingot.formula.types import FLOAT32, FLOAT64
from ingot.loops.choice import TILES, TOLERANCE, Choice, error
from ingot.loops.generators.contract import contract
from ingot.loops.generators.points import points
from ingot.loops.generators.strip import strip
from ingot.loops.generators.window import window
from ingot.loops.generators.winograd.generator import winograd
from ingot.loops.generators.winograd.match import match
from ingot.loops.layout import Storage
from ingot.targets.record import Target
from ingot.targets.records import TARGETS
from tests.stages import windows
from tests.stages.dice import Dice
from tests.stages.drawn import Drawn, Habits
from tests.stages.judge import Writer, Written
from tests.stages.windows import USUAL

VECTORS = ("x86-64-v3", "x86-64-v4", "x86-64", "aarch64", "i386")
HALOED = Habits(last=75, halo=95)
TIDY = Habits(last=95, halo=95)
LINEAR = Habits(last=95, halo=95, kinds=("none", "relu", "bias", "leaky", "residual", "place"))
"""What stands behind Winograd's sums: a squashed one would be far less exact than the largest sum."""
One = Callable[[Compute, Storage, Target, Bounds], tuple[Statement, ...] | None]


@dataclass(frozen=True)
class Generator:
    """`draw` makes stages that it claims to serve, of which it must serve `share` at least."""

    draw: Callable[[Dice, Target], Drawn]
    write: Writer
    files: tuple[str, ...]
    targets: tuple[str, ...] = VECTORS
    share: float = 0.5


def one(generator: One) -> Writer:
    """A generator of single stages."""

    def write(
        stages: tuple[Stage, ...], storage: Storage, target: Target, bounds: Bounds, how: Choice
    ) -> Written | None:
        (stage, *_) = stages
        found = generator(stage, storage, target, bounds) if isinstance(stage, Compute) else None
        return None if found is None else (found, 1)

    return write


def _by_winograd(
    stages: tuple[Stage, ...], storage: Storage, target: Target, bounds: Bounds, how: Choice
) -> Written | None:
    """What a Chooser lets through: algorithms that lose little on this layer's weights."""

    def write(c: Compute, s: Storage, t: Target, b: Bounds) -> tuple[Statement, ...] | None:
        conv = match(c, s, b)
        is_exact = conv is not None and error(conv, how.winograd) <= TOLERANCE
        return winograd(c, s, t, b, how.winograd, how.cold) if is_exact else None

    return one(write)(stages, storage, target, bounds, how)


def _by_contract(
    stages: tuple[Stage, ...], storage: Storage, target: Target, bounds: Bounds, how: Choice
) -> Written | None:
    return one(lambda c, s, t, b: contract(c, s, t, b, how.tile, how.codes, how.far))(
        stages, storage, target, bounds, how
    )


def _windows(dice: Dice, target: Target) -> Drawn:
    if dice.chance(40):
        return windows.convolved(dice, target, TIDY, depthwise=True)
    return windows.pooled(dice, target, USUAL)


def _strips(dice: Dice, target: Target) -> Drawn:
    few = dice.number(2, max(2, target.lanes(4) // 2))
    return windows.pooled(dice, target, TIDY, few, ("max", "average", "max", "average", "lp"), 85)


def _points(dice: Dice, target: Target) -> Drawn:
    few = dice.number(1, max(1, target.lanes(4) // 2))
    return windows.convolved(dice, target, TIDY, features=few, types=(FLOAT32, FLOAT32, FLOAT32, FLOAT64))


def _contractions(dice: Dice, target: Target) -> Drawn:
    if dice.chance(20):
        return windows.transposed(dice, target, HALOED)
    return windows.convolved(dice, target, HALOED, constant=75)


def _winograds(dice: Dice, target: Target) -> Drawn:
    g = windows.geometry(dice, ranks=(2, 2, 1))
    taps, rank = dice.choice((3, 2, 5, 4, 6, 7)), len(g.size)
    pads = tuple(dice.below(taps) for _ in range(2 * rank))
    size = tuple(dice.number(max(1, taps - pads[i] - pads[rank + i]), 12) for i in range(rank))
    g = replace(g, size=size, kernel=(taps,) * rank, strides=(1,) * rank, dilations=(1,) * rank, pads=pads)
    drawn = windows.convolved(dice, target, LINEAR, g, types=(FLOAT32,))
    how = Choice(winograd=dice.choice(TILES[taps]), cold=dice.chance(30))
    return replace(drawn, how=how, tolerance=3 * TOLERANCE)


GENERATORS: dict[str, Generator] = {
    "window": Generator(_windows, one(window), ("window.py",)),
    "strip": Generator(_strips, one(strip), ("strip.py",)),
    "points": Generator(_points, one(points), ("points.py",)),
    "contract": Generator(_contractions, _by_contract, ("contract.py", "roles.py", "tiles.py", "codes.py")),
    "winograd": Generator(
        _winograds,
        _by_winograd,
        tuple(f"winograd/{n}.py" for n in ("match", "generator", "blocking", "transforms")),
    ),
}


def drawn(name: str, dice: Dice) -> Drawn:
    """A stage for a generator. Raises Impossible."""
    generator = GENERATORS[name]
    target = TARGETS[dice.choice(generator.targets)]
    return generator.draw(dice, target)
