"""A small share of the random stages of every generator; `make stages` draws more."""

from __future__ import annotations

import pytest

from ingot.targets.records import find
from ingot.targets.toolchain import obstacle
from tests.stages.generators import GENERATORS
from tests.stages.judge import COMPILED
from tests.stages.survey import surveyed

COUNT, MOST = 12, 400


@pytest.mark.parametrize("name", GENERATORS)
def test_random_stages(name: str) -> None:
    found = surveyed(name, range(MOST), COUNT)
    assert not found.wrong, f"python -m tests.stages {name} 1 {min(found.wrong)}: {found.wrong}"
    assert found.verdicts["served"] == COUNT, f"{name}: {found.verdicts}"
    run_here = {t for t in COMPILED if not obstacle(find(t))}
    assert found.compiled.total() or not {*GENERATORS[name].targets} & run_here, f"{name}: no C was run"
