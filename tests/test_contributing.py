"""CONTRIBUTING.md is true: what it quotes, names and commands is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ingot.ops.registry import Builder

ROOT = Path(__file__).parent.parent
PLACES = (ROOT, ROOT / "src" / "ingot")
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
QUOTED = re.findall(r"^```python\n# ([\w./]+).*?\n(.*?)^```", TEXT, re.S | re.M)
PATHS = sorted({p for p in re.findall(r"[`(]([\w./*-]+)[`)]", TEXT) if "/" in p})
COMMANDS = re.findall(r"^    make (\S+)([^#\n]*)", TEXT, re.M)


def words(text: str) -> str:
    """The text as its words: however it is indented and broken into lines."""
    return " ".join(text.split())


def found(path: str) -> list[Path]:
    return [p for place in PLACES for p in place.glob(path.rstrip("/"))]


def test_every_quotation_names_its_file() -> None:
    assert len(QUOTED) == TEXT.count("```python\n") > 5


@pytest.mark.parametrize("path, code", QUOTED, ids=[path for path, _ in QUOTED])
def test_what_it_quotes_stands_in_the_file(path: str, code: str) -> None:
    (file,) = found(path)
    assert words(code) in words(file.read_text())


@pytest.mark.parametrize("path", PATHS)
def test_what_it_names_exists(path: str) -> None:
    assert found(path)


@pytest.mark.parametrize("target, rest", COMMANDS)
def test_make_knows_its_commands(target: str, rest: str) -> None:
    makefile = (ROOT / "Makefile").read_text()
    assert re.search(rf"^{target}:.*## ", makefile, re.M)
    assert all(
        f"$({name})" in makefile or f"$(if $({name})" in makefile for name in re.findall(r"([A-Z]+)=", rest)
    )


def test_builders_have_what_it_teaches() -> None:
    methods = set(re.findall(r"`f\.(\w+)", TEXT))
    assert methods and not [name for name in methods if not hasattr(Builder, name)]


def test_the_environment_is_read_somewhere() -> None:
    source = "".join(p.read_text() for p in (ROOT / "src").rglob("*.py"))
    names = set(re.findall(r"INGOT_\w+", TEXT))
    assert names and all(name in source for name in names)
