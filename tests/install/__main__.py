"""`make pythons`: the wheel and its extras in bare environments of every CPython that is here.

    python -m tests.install [--update docs/install.md] [PYTHON...]

For each Python: the wheel by pip with what it depends on, the probe's formats, what is said without extras,
and each extra by itself in an environment of its own. Needs the package index. The status is 1 if any fails.
"""

from __future__ import annotations

import argparse
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from tests.install.probe import COMMANDS
from tests.install.wheel import ROOT, build_wheel, environment, install, prepare, probe

MINORS = range(10, 15)
BEGIN, END = "<!-- pythons: begin -->\n", "<!-- pythons: end -->"
PARTS = ("formats", "without", *COMMANDS)


@dataclass(frozen=True, slots=True)
class Tried:
    """One Python, and what each part of the probe said: nothing where it passed."""

    version: str
    failures: dict[str, str]


def version(python: str) -> str:
    """Return the version of a Python, or nothing where the file does not run (a shim of pyenv's, say)."""
    ask = "import platform, venv; print(platform.python_implementation(), platform.python_version())"
    done = subprocess.run([python, "-c", ask], capture_output=True, text=True)
    return done.stdout.strip().removeprefix("CPython ") if done.stdout.startswith("CPython") else ""


def found() -> Iterator[str]:
    """Yield the newest Python of each minor version: on the PATH, else among pyenv's."""
    for minor in MINORS:
        named = shutil.which(f"python3.{minor}")
        kept = sorted(Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python"), key=str, reverse=True)
        running = [p for p in (named, *map(str, kept)) if p and version(p)]
        yield from running[:1]


def attempt(wheel: Path, python: str, part: str, folder: Path) -> str:
    """Return what went wrong with one part in an environment of its own, or nothing."""
    made = environment(folder / "environment", python)
    wanted = f"{wheel}[{part}]" if part in COMMANDS else str(wheel)
    try:
        install(made, wanted)
    except subprocess.CalledProcessError as error:
        return f"not installed: {error}"
    done = probe(made, part, prepare(folder / "models"))
    return "" if done.returncode == 0 else (done.stderr or done.stdout).strip()


def try_on(wheel: Path, python: str) -> Tried:
    """Try every part on one Python, printing each."""
    failures = {}
    for part in PARTS:
        with tempfile.TemporaryDirectory() as directory:
            failures[part] = attempt(wheel, python, part, Path(directory))
        print(f"{version(python)} {part}: {failures[part] or 'ok'}", flush=True)
    return Tried(version(python), failures)


def table(rows: list[Tried]) -> str:
    """Return the table of docs/install.md."""
    names = ["base", "without extras", *(f"`[{name}]`" for name in COMMANDS)]
    lines = [
        f"Tested on {date.today().isoformat()}, {platform.system()} {platform.machine()}:\n",
        f"| CPython | {' | '.join(names)} |",
        "|---" * (len(names) + 1) + "|",
    ]
    for row in rows:
        cells = ("fails" if row.failures[part] else "yes" for part in PARTS)
        lines.append(f"| {row.version} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def update(document: Path, text: str) -> None:
    """Put the table between its marks."""
    before, _, rest = document.read_text().partition(BEGIN)
    document.write_text(before + BEGIN + text + END + rest.partition(END)[2])


def main() -> int:
    """Try the Pythons that are named, or all that are found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pythons", nargs="*", metavar="PYTHON")
    parser.add_argument("--update", type=Path, metavar="FILE", help="write the table to a document")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        wheel = build_wheel(Path(directory))
        rows = [try_on(wheel, python) for python in given.pythons or found()]
    print(table(rows))
    if given.update:
        update(ROOT / given.update, table(rows))
    return int(not rows or any(text for row in rows for text in row.failures.values()))


if __name__ == "__main__":
    sys.exit(main())
