"""A small share of the random stages of every generator; `make stages` draws more."""

from __future__ import annotations

import pytest

from ingot.formula.compute import Compute
from ingot.targets.records import find
from ingot.targets.toolchain import obstacle
from tests.stages.dice import Dice
from tests.stages.generators import GENERATORS
from tests.stages.judge import COMPILED
from tests.stages.survey import drawn, surveyed, verdict

COUNT, MOST = 12, 400


@pytest.mark.parametrize("name", GENERATORS)
def test_random_stages(name: str) -> None:
    found = surveyed(name, range(MOST), COUNT)
    assert not found.wrong, f"python -m tests.stages {name} 1 {min(found.wrong)}: {found.wrong}"
    assert found.verdicts["served"] == COUNT, f"{name}: {found.verdicts}"
    run_here = {t for t in COMPILED if not obstacle(find(t))}
    assert found.compiled.total() or not {*GENERATORS[name].targets} & run_here, f"{name}: no C was run"


FOUND = {
    # Three channels in planes, three elements apart as neighbours of channels last are: an image of width 3.
    ("picked_columns", 780401): (
        "0,0,0,1,4,0,1,1,0,0,3,0,0,0,0,0,0,0,0,0,0,0,1,1,0,0,0,0,0,0,1,0,0,0,6,0,0,9",
        (1, 3, 1, 2, 1),
    ),
    # Twenty-two channels in planes: the last, a part of a vector, were stored side by side.
    ("contract", 77055): (
        "0,0,0,0,0,0,0,3,0,0,0,0,0,0,0,0,2,0,0,0,1,0,1,0,21,47,40",
        (1, 22, 1, 2),
    ),
    # Twelve features in blocks of two vectors of four: the last block stored a vector beyond the tensor.
    ("winograd", 1973): (
        "0,4,2,0,0,0,0,0,0,0,0,0,0,0,0,0,3,0,0,0,3,0,9,0,11,0,0,0,0,18,0,95,0,0,0,7",
        (1, 12, 4),
    ),
    # A large window whose result is cast to float64: what one axis of it makes had that type too.
    ("layers", 1001081): (
        "0,0,5,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,95,0,0,0,0,32,0,0,37,70,0,0,0,0,4",
        (1, 1, 1, 1),
    ),
}
"""Stages that were wrong once, by their choices, and the shape of what they make: where stages are drawn
otherwise than they were, the same choices say something else.
"""


@pytest.mark.parametrize(("name", "seed"), FOUND)
def test_found_stages(name: str, seed: int) -> None:
    written, shape = FOUND[name, seed]
    choices = [int(n) for n in written.split(",")]
    *_, last = drawn(name, Dice((name, seed), choices)).stages
    assert isinstance(last, Compute) and last.out.shape == shape
    assert not (said := verdict(name, Dice((name, seed), choices), seed)), said
