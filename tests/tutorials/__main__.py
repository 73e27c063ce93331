"""`make tutorials`: every tutorial as its page has it, those with frameworks, a browser or a kernel included.

    python -m tests.tutorials [--python PYTHON] [--update] [NAME...]

PYTHON has Ingot and what pages import (PyTorch, Keras). --update writes the table of docs/tutorials/index.md.
The status is 1 if a page does not do what it says.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from datetime import date
from pathlib import Path

from tests.tutorials.runner import Command, needs, run, steps

FOLDER = Path(__file__).parents[2] / "docs" / "tutorials"
BEGIN, END = "<!-- runs: begin -->\n", "<!-- runs: end -->"


def attempt(path: Path, python: str) -> str:
    """Return what of a page is not as it says, or nothing."""
    with tempfile.TemporaryDirectory() as directory:
        try:
            run(path.read_text(), Path(directory), python)
        except AssertionError as error:
            return str(error)
    return ""


def row(path: Path) -> str:
    """Return what the table says of a page that does what it says."""
    page = path.read_text()
    commands = sum(isinstance(step, Command) for step in steps(page))
    title = page.partition("\n")[0].removeprefix("# ")
    return f"| [{title}]({path.name}) | {commands} | {', '.join(needs(page)) or 'nothing more'} |"


def main() -> int:
    """Run the pages that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--update", action="store_true")
    given = parser.parse_args()
    paths = [
        p for p in sorted(FOLDER.glob("*.md")) if p.stem != "index" and p.stem in (given.names or [p.stem])
    ]
    failures = {}
    for path in paths:
        failures[path] = attempt(path, given.python)
        print(f"{path.stem}: {failures[path] or 'as it says'}", flush=True)
    if given.update and not any(failures.values()):
        lines = [f"Every command was run on {date.today().isoformat()}, and printed what its page shows:\n"]
        lines += [
            "| tutorial | commands | needs, besides Ingot and a C compiler |",
            "|---|--:|---|",
            *map(row, paths),
        ]
        index = FOLDER / "index.md"
        before, _, rest = index.read_text().partition(BEGIN)
        index.write_text(before + BEGIN + "\n".join(lines) + "\n" + END + rest.partition(END)[2])
    return int(not paths or any(failures.values()))


if __name__ == "__main__":
    sys.exit(main())
