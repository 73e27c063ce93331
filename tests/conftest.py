"""What every test runs with: strict verifiers, a cache of compiled objects, and golden texts."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parent / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the files of tests/golden anew")


def pytest_configure(config: pytest.Config) -> None:
    """Objects are remembered from run to run; an access that cannot be proved inside fails a test."""
    cache = config.cache
    if cache is not None:
        os.environ.setdefault("INGOT_CACHE", str(cache.mkdir("ingot-objects")))
    os.environ.setdefault("INGOT_CHECK", "2")


def pytest_collection_finish() -> None:
    """What 17,000 collected tests hold is not looked through for garbage again and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """golden(name, text): the text is what tests/golden/NAME says; --update-golden makes it say so."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / (name if name.endswith(".c") else f"{name}.txt")
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text + "\n")
        assert path.exists(), f"{path.name} is missing: run pytest --update-golden and read the diff"
        assert text + "\n" == path.read_text(), f"{path.name} differs: pytest --update-golden, then git diff"

    return compare
