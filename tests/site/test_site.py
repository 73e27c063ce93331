"""The pages of the documentation site, before mkdocs builds it (`make docs` checks every link and anchor)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import ingot
from ingot.cli import app

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from site_pages import gather, pages, piped, relinked  # noqa: E402


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "source"
    gather(ROOT, folder)
    return folder


def leaves(nav: Any) -> set[str]:
    match nav:
        case str():
            return {nav}
        case dict():
            return set().union(*map(leaves, nav.values()))
        case _:
            return set().union(*map(leaves, nav))


def test_every_page_is_in_the_navigation(made: Path) -> None:
    listed = leaves(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"])
    assert listed == {p.relative_to(made).as_posix() for p in made.rglob("*.md")}


def test_the_configuration_names_nothing_elsewhere() -> None:
    text = (ROOT / "mkdocs.yml").read_text()
    assert "://" not in text and "font: false" in text


@pytest.mark.parametrize(
    "path, text, wanted",
    [
        ("README.md", "[a](docs/math.md#x)", "[a](math.md#x)"),
        ("README.md", "![a](docs/arena.svg)", "![a](arena.svg)"),
        ("docs/kernel.md", "[a](../examples/kernel/README.md)", "[a](example-kernel.md)"),
        ("docs/tutorials/server.md", "[a](../../examples/threads/README.md)", "[a](../example-threads.md)"),
        ("docs/kernel.md", "see [`a.c`](../src/a.c).", "see `a.c`."),
        ("docs/kernel.md", "[a](#here) [b](https://example.org)", "[a](#here) [b](https://example.org)"),
        ("docs/kernel.md", "```c\nx[a](math.md)\n```", "```c\nx[a](math.md)\n```"),
    ],
)
def test_links_lead_to_pages_of_the_site(path: str, text: str, wanted: str) -> None:
    assert relinked(text, path, pages(ROOT)) == wanted


def test_bars_of_code_in_tables_are_shown_without_their_escape() -> None:
    assert piped("| `--math a\\|b` | x \\| `y` |\n`a\\|b`") == (
        "| <code>--math a&#124;b</code> | x \\| `y` |\n`a\\|b`"
    )


def test_the_reference_has_every_command_and_every_public_name(made: Path) -> None:
    text = (made / "reference" / "cli.md").read_text()
    names = [c.name or c.callback.__name__ for c in app.registered_commands if c.callback and not c.hidden]
    assert names and all(f"## ingot {name.rstrip('_')}\n" in text for name in names)
    assert "| `--target str` |" in text and "## ingot eie run\n" in text
    python = (made / "reference" / "python.md").read_text()
    assert all(f"## ingot.{name}\n" in python for name in ingot.__all__)
    assert "compile(" in python and "### ingot.Bundle.run\n" in python
