"""A small share of the random stages of every generator; `make stages` draws more."""

from __future__ import annotations

import pytest

from tests.stages.generators import GENERATORS
from tests.stages.survey import surveyed

COUNT, MOST = 12, 400


@pytest.mark.parametrize("name", GENERATORS)
def test_random_stages(name: str) -> None:
    found = surveyed(name, range(MOST), COUNT)
    assert not found.wrong, f"python -m tests.stages {name} 1 {min(found.wrong)}: {found.wrong}"
    assert found.verdicts["served"] == COUNT and found.compiled.total(), f"{name}: {found.verdicts}"
