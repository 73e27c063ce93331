"""Every command and program of the tutorials that need nothing heavy, as the pages have them.

The others are for `make tutorials` (`python -m tests.tutorials`).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.here import require_program
from tests.tutorials.runner import Command, File, matches, needs, run, session, steps

PAGES = {p.stem: p for p in sorted((Path(__file__).parents[2] / "docs" / "tutorials").glob("*.md"))}
HEAVY = {"torch", "keras", "chromium", "kernel"}
LIGHT = [name for name, path in PAGES.items() if not HEAVY & set(needs(path.read_text()))]


@pytest.mark.parametrize("name", [n for n in LIGHT if n != "index"])
def test_a_page_does_what_it_says(name: str, tmp_path: Path) -> None:
    page = PAGES[name].read_text()
    for program in needs(page):
        require_program(program)
    run(page, tmp_path)


@pytest.mark.parametrize("name", [n for n in PAGES if n != "index"])
def test_a_page_makes_its_model_compiles_it_and_shows_what_is_printed(name: str) -> None:
    found = steps(PAGES[name].read_text())
    commands = [s for s in found if isinstance(s, Command)]
    assert any(isinstance(s, File) for s in found)
    assert any("ingot " in s.line for s in commands)
    assert any(s.shown.strip() for s in commands)
    assert f"({name}.md)" in PAGES["index"].read_text()


def test_files_and_commands_are_taken_in_order() -> None:
    page = (
        '```c title="a.c"\nint x;\n```\n\n```sh\nignored\n```\n\n'
        "```console\n$ one \\\n  two\nsaid\n$ three\n```\n"
    )
    assert steps(page) == [File("a.c", "int x;\n"), Command("one   two", "said\n"), Command("three", "")]
    assert session("$ a\nb\n") == [Command("a", "b\n")]


@pytest.mark.parametrize(
    "shown, printed, same",
    [
        ("a\nb", "a\nb\n", True),
        ("a\nb", "a\nc\n", False),
        ("took ... ms", "took 4 ms", True),
        ("took ... ms", "took 4\nms", False),
        ("a\n...\nd", "a\nb\nc\nd", True),
        ("a\n...\nd", "a\nd", True),
        ("a\n...\nd", "a\nb\nc", False),
        ("a", "a\nb", False),
        ("...\nb", "a\nb", True),
        ("a\n...", "a\nb\nc", True),
        ("f(x)+", "f(x)+", True),
    ],
)
def test_what_is_printed_is_held_against_what_is_shown(shown: str, printed: str, same: bool) -> None:
    assert matches(shown, printed) is same


def test_a_page_is_read_as_outside_of_make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAKEFLAGS", "w")
    monkeypatch.setenv("MAKELEVEL", "1")
    page = '```make title="Makefile"\nall:\n\t@echo made\n```\n\n```console\n$ make\nmade\n```\n'
    run(page, tmp_path)


def test_a_wrong_page_is_found(tmp_path: Path) -> None:
    run("```console\n$ echo hello\nhello\n```\n", tmp_path)
    with pytest.raises(AssertionError, match="printed:\nhello"):
        run("```console\n$ echo hello\ngoodbye\n```\n", tmp_path)
    with pytest.raises(AssertionError, match="status 3"):
        run("```console\n$ exit 3\n```\n", tmp_path)
