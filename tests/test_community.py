"""The files that a host of repositories reads: they parse, and what they name and call is there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

import ingot

ROOT = Path(__file__).parent.parent
MAKEFILE = (ROOT / "Makefile").read_text()
FILES = sorted(
    p.relative_to(ROOT).as_posix()
    for p in (*(ROOT / ".github").rglob("*.yml"), ROOT / ".pre-commit-config.yaml", ROOT / "CITATION.cff")
)


def read(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text())


@pytest.mark.parametrize("name", FILES)
def test_it_parses_and_calls_make_targets_that_exist(name: str) -> None:
    assert read(name)
    text = (ROOT / name).read_text()
    for target in re.findall(r"(?:run|entry|&&):? make (\S+)", text):
        assert re.search(rf"^{target}:.*## ", MAKEFILE, re.M), target
    for script in re.findall(r"tools/[\w.-]+", text):
        assert (ROOT / script).is_file()


def test_the_tests_run_on_every_python_that_is_promised() -> None:
    pyproject = (ROOT / "pyproject.toml").read_text()
    promised = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', pyproject)
    workflow = (ROOT / ".github" / "workflows" / "tests.yml").read_text()
    assert read(".github/workflows/tests.yml")["jobs"]["test"]["strategy"]["matrix"]["python"] == promised
    assert all(re.search(rf"^ +{re.escape(version)}$", workflow, re.M) for version in promised)


def test_the_citation_has_the_version_of_the_package() -> None:
    assert read("CITATION.cff")["version"] == ingot.__version__


def test_nobody_is_named_and_no_address_is_made_up() -> None:
    for name in (*FILES, "SECURITY.md", "RELEASING.md", ".github/pull_request_template.md"):
        assert not re.search(r"https?://|[\w.]+@[\w-]+\.\w+", (ROOT / name).read_text()), name
