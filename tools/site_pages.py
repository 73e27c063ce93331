"""Gathers the pages of the documentation site in build/site-source, for mkdocs (`make docs`).

In: the Markdown of this tree, `ingot`'s command line and the public names of its package. Out: one folder of
pages whose links lead to each other. A link to a file that is no page becomes its text.
"""

from __future__ import annotations

import html
import inspect
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import typer

import ingot
from ingot.cli import app

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "build" / "site-source"
ELSEWHERE = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "RELEASING.md": "releasing.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
    "benchmarks/README.md": "benchmarks.md",
    "examples/decoder/README.md": "example-decoder.md",
    "examples/kernel/README.md": "example-kernel.md",
    "examples/threads/README.md": "example-threads.md",
}
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")


def pages(root: Path) -> dict[str, str]:
    """Return where each file of the tree stands on the site, both as relative paths."""
    folder = root / "docs"
    inside = (p.relative_to(folder) for p in folder.rglob("*") if p.suffix in (".md", ".svg", ".css", ".js"))
    return {f"docs/{p.as_posix()}": p.as_posix() for p in inside} | ELSEWHERE


def relinked(text: str, path: str, moved: dict[str, str]) -> str:
    """Return a page of the tree with its links as the site has them. Code is left as it is."""

    def link(match: re.Match[str]) -> str:
        picture, words, target = match.groups()
        file, mark, anchor = target.partition("#")
        if not file or "://" in target:
            return match.group()
        there = os.path.normpath(PurePosixPath(path).parent / file)
        if there not in moved:
            return words
        leads = os.path.relpath(moved[there], PurePosixPath(moved[path]).parent)
        return f"{picture}[{words}]({leads}{mark}{anchor})"

    parts = re.split(r"(^```.*?^```$)", text, flags=re.M | re.S)
    return "".join(part if part.startswith("```") else LINK.sub(link, part) for part in parts)


def piped(text: str) -> str:
    """Return a page whose code in tables has bars as HTML: Markdown would show the escape as well."""

    def code(match: re.Match[str]) -> str:
        return f"<code>{html.escape(match[1], quote=False).replace(chr(92) + '|', '&#124;')}</code>"

    return re.sub(r"^\|.*", lambda row: re.sub(r"`([^`]*\\\|[^`]*)`", code, row[0]), text, flags=re.M)


def cell(text: str) -> str:
    """Return one cell of a table."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def parameter(p: Any, context: typer.Context) -> str:
    """Return the row of one argument or option: its names, what it takes, its help and its default."""
    if p.param_type_name == "argument":
        names = f"`{p.name.upper()}`"
    else:
        takes = "" if p.is_flag else f" {p.metavar or p.display_type(context).strip('<>')}"
        names = ", ".join(f"`{name}{takes}`" for name in (*p.opts, *p.secondary_opts))
    given = p.default if type(p.default) in (str, int, float) and p.default != "" else None
    default = f" Default: `{given}`." if given is not None else ""
    return f"| {cell(names)} | {cell(p.help or '')}{default} |"


def commands(command: Any, name: str) -> Iterator[str]:
    """Yield the Markdown of a command, or of each command of a group."""
    below = getattr(command, "commands", None)
    if below is not None:
        for word in below:
            yield from commands(below[word], f"{name} {word}")
        return
    yield f"## {name}\n\n{inspect.cleandoc(command.help or '')}\n\n| name | effect |\n|---|---|\n"
    context = typer.Context(command)
    yield (
        "\n".join(parameter(p, context) for p in command.params if not p.hidden and p.name != "help") + "\n\n"
    )


def cli_page() -> str:
    """Return the reference of the command line, as the program itself describes it."""
    said = "This page is generated from the program; `ingot COMMAND --help` prints the same text."
    head = f"# Command line\n\n{said}\n\n"
    return head + "".join(commands(typer.main.get_command(app), "ingot"))


def members(found: Any) -> Iterator[tuple[str, Any]]:
    """Yield the public methods and properties that a class defines itself, in their order."""
    if inspect.isclass(found) and not issubclass(found, Exception):
        for name, member in vars(found).items():
            what = getattr(member, "__func__", getattr(member, "fget", member))
            if name[0] != "_" and (inspect.isfunction(what)) and what.__doc__:
                yield name, member


def signature(name: str, found: Any) -> str:
    """Return how a thing is written: a call with its parameters and types, or a name alone."""
    what = getattr(found, "__func__", found)
    if isinstance(found, property) or (inspect.isclass(found) and issubclass(found, Exception)):
        return name
    return name + str(inspect.signature(what)).replace("'", "")


def described(name: str, found: Any, level: int) -> str:
    """Return heading, signature and docstring of a name, and those of what it has."""
    text = inspect.cleandoc(getattr(found, "__doc__", None) or "")
    own = f"{'#' * level} {name}\n\n```python\n{signature(name.rpartition('.')[2], found)}\n```\n\n{text}\n\n"
    return own + "".join(described(f"{name}.{n}", m, level + 1) for n, m in members(found))


def api_page() -> str:
    """Return the reference of the public names of the package, from their docstrings."""
    said = "These are the public names of the package `ingot`. The page is generated from their docstrings."
    head = f"# Python\n\n{said}\n\n"
    order = sorted(ingot.__all__, key=lambda name: (name.endswith("Error"), name.lower()))
    return head + "".join(described(f"ingot.{n}", getattr(ingot, n), 2) for n in order)


def gather(root: Path, into: Path) -> None:
    """Write the pages of a tree and the two references into a folder, which is made anew."""
    shutil.rmtree(into, ignore_errors=True)
    moved = pages(root)
    for path, where in moved.items():
        target = into / where
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.endswith(".md"):
            target.write_text(piped(relinked((root / path).read_text(), path, moved)))
        else:
            shutil.copy(root / path, target)
    (into / "reference").mkdir()
    (into / "reference" / "cli.md").write_text(piped(cli_page()))
    (into / "reference" / "python.md").write_text(api_page())


if __name__ == "__main__":
    gather(ROOT, SOURCE)
