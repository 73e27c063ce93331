"""A hundred random models as C under gcc's sanitizers; and those that once failed, at every level.

`make fuzz` runs more of them, at every level and on two targets.
"""

from __future__ import annotations

import contextlib

import pytest

from ingot.errors import UnsupportedError
from tests import program
from tests.bundle.build import need
from tests.fuzz.found import FOUND, grown
from tests.fuzz.grow import Grown, grow
from tests.fuzz.levels import LEVELS, ORACLE, compare, failure, report

SEEDS, BATCH = 100, 20


def members(models: list[Grown]) -> dict[int, program.Member]:
    """By seed: those whose extents are all known now, of the models that are not refused."""
    made: dict[int, program.Member] = {}
    for g in models:
        with contextlib.suppress(UnsupportedError):
            found = program.member(g.model, g.feeds, f"seed_{g.seed}", _target(g.seed))
            if all(isinstance(n, int) for t in found.program.outputs for n in t.shape):
                made[g.seed] = found
    return made


def _target(seed: int) -> str:
    """Mostly plain C, which gcc checks best; vectors now and then."""
    return "x86-64-v3" if seed % 5 == 0 else "c99"


@pytest.mark.parametrize("first", range(0, SEEDS, BATCH))
def test_random_models_under_sanitizers(first: int) -> None:
    need("gcc")
    grown = {seed: grow(seed) for seed in range(first, first + BATCH)}
    chosen = members(list(grown.values()))
    assert len(chosen) > BATCH // 2
    for seed, answer in zip(chosen, program.run(list(chosen.values())), strict=True):
        model = grown[seed]
        assert answer.status == 0, f"seed {model.seed} returned {answer.status}"
        for run in answer.runs:
            said = next((s for f, w in zip(run, model.wanted, strict=True) if (s := compare(f, w))), "")
            assert not said, report(model, *(failure(model) or ("C for c99", said)))


@pytest.mark.parametrize("name", FOUND)
def test_what_once_failed(name: str) -> None:
    levels = {k: v for k, v in LEVELS.items() if k != ORACLE}
    assert failure(grown(name), levels) is None


def test_a_seed_says_it_all() -> None:
    """The same seed gives the same model and inputs, another one another model."""
    again, other = grow(3), grow(4)
    assert grow(3).model.SerializeToString() == again.model.SerializeToString()
    assert again.model.SerializeToString() != other.model.SerializeToString()
    assert all((again.feeds[n].tobytes() == a.tobytes()) for n, a in grow(3).feeds.items())
