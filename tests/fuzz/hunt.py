"""`make fuzz` and `make fuzz-long`: hostile files for every reader, by coverage where Atheris is installed.

python -m tests.fuzz.hunt [--seconds S] [--seed N] [--plain] [--document] [READER...]

Without Atheris (the extra `fuzz`; it has wheels for some versions of Python only) mutations are made without
a look at what they reach, and a line says so. What was found lies in build/fuzz/READER/wrong; the table says
how many cases there were and which share of each reader's lines and branches they reached.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.fuzz.cage import SECONDS, kept, tally
from tests.fuzz.readers import READERS

ROOT = Path(__file__).parents[2]
BUILD, DOCUMENT = ROOT / "build" / "fuzz", ROOT / "docs" / "fuzzing.md"
BEGIN, END = "<!-- written by make fuzz-long -->", "<!-- end -->"
GRACE = 900  # seconds that a process has to start and to end, on a busy machine
MEASURED = 500  # cases whose coverage is measured, where none were kept for what they reached


@dataclass(frozen=True)
class Row:
    """What became of a reader's cases."""

    reader: str
    cases: int
    wrong: tuple[str, ...]
    lines: tuple[int, int]
    branches: tuple[int, int]

    @property
    def cells(self) -> tuple[str, ...]:
        shares = (f"{100 * n / max(m, 1):.0f} % of {m}" for n, m in (self.lines, self.branches))
        return (self.reader, f"{self.cases:,}", str(len(self.wrong)), *shares)


def main() -> int:
    """How many different things are wrong."""
    os.environ.setdefault("INGOT_CHECK", "2")
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.hunt")
    parser.add_argument("readers", nargs="*", help=f"of {', '.join(READERS)}; default: all")
    parser.add_argument("--seconds", type=float, default=120, help="for all readers together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plain", action="store_true", help="without Atheris")
    parser.add_argument("--document", action="store_true", help="write the table to docs/fuzzing.md")
    asked = parser.parse_args()
    names = asked.readers or list(READERS)
    if unknown := [n for n in names if n not in READERS]:
        parser.error(f"no reader {unknown[0]}; there are {', '.join(READERS)}")
    console = Console(stderr=True)
    is_guided = not asked.plain and importlib.util.find_spec("atheris") is not None
    how = "guided by coverage (Atheris)" if is_guided else "PLAIN MUTATIONS, not guided by coverage"
    console.print(f"readers of files: {how}" + ("" if is_guided or asked.plain else ": no Atheris here"))
    begin, rows = time.monotonic(), []
    for name in names:
        rows.append((guided if is_guided else plain)(name, asked.seconds / len(names), asked.seed))
        console.print("  ".join(rows[-1].cells), markup=False, highlight=False)
        for said in rows[-1].wrong:
            console.print(f"    {said}", markup=False, highlight=False, soft_wrap=True)
    _show(rows, console)
    if asked.document:
        _write(rows, how, time.monotonic() - begin)
    return sum(len(r.wrong) for r in rows)


def guided(name: str, seconds: float, seed: int) -> Row:
    """Atheris for so long: what it ends at (a hang, too much memory) is a finding, and it goes on."""
    folder, begin, cases = BUILD / name, time.monotonic(), 0
    while (left := seconds - (time.monotonic() - begin)) > 1:
        (folder / "wrong").mkdir(parents=True, exist_ok=True)
        (folder / "count").write_text("0")
        command = (
            sys.executable,
            "-m",
            "tests.fuzz.guided",
            name,
            str(int(left)),
            str(folder),
            str(seed + 1),
        )
        with (folder / "log").open("wb") as log:
            try:
                subprocess.run(command, cwd=ROOT, stdout=log, stderr=log, timeout=left + GRACE, check=False)
            except subprocess.TimeoutExpired:
                (folder / "wrong" / "stuck.txt").write_text("Atheris does not come to its end: see the log")
        cases, seed = cases + int((folder / "count").read_text()), seed + 1
    for path in (folder / "wrong").glob("*-*"):  # libFuzzer's own: timeout-..., oom-..., crash-...
        path.with_name(f"{path.name.rpartition('-')[2][:12]}.txt").write_text(path.name.partition("-")[0])
    wrong = tuple(sorted(p.read_text() for p in (folder / "wrong").glob("*.txt")))
    return Row(name, cases, wrong, *_reached(name, folder / "corpus"))


def plain(name: str, seconds: float, seed: int) -> Row:
    """Mutations for so long, and how far the first of them reached."""
    found, folder = tally(name, seed, sys.maxsize, seconds), BUILD / name
    (folder / "wrong").mkdir(parents=True, exist_ok=True)
    for said, data in found.findings.items():
        stem = hashlib.sha256(data).hexdigest()[:12]
        (folder / "wrong" / stem).write_bytes(data)
        (folder / "wrong" / f"{stem}.txt").write_text(said)
    cases = found.verdicts.total()
    return Row(name, cases, tuple(sorted(found.findings)), *_reached(name, f"{seed}:{min(cases, MEASURED)}"))


def _reached(name: str, what: object) -> tuple[tuple[int, int], tuple[int, int]]:
    """Lines and branches that cases reached, and how many there are."""
    command = (sys.executable, "-m", "tests.fuzz.reached", name, str(what))
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, timeout=1800)
    lines, of_lines, branches, of_branches = json.loads(done.stdout)
    return (lines, of_lines), (branches, of_branches)


def _show(rows: list[Row], console: Console) -> None:
    table = Table(*("reader", "cases", "wrong", "lines reached", "branches reached"))
    for row in rows:
        table.add_row(*row.cells)
    console.print(table)


def _write(rows: list[Row], how: str, seconds: float) -> None:
    """The table between its marks in the document; what it says of itself is what was run."""
    total, kept_now = sum(r.cases for r in rows), sum(len(kept(n)) for n in READERS)
    wrong = sum(len(r.wrong) for r in rows)
    lines = [
        BEGIN,
        "",
        f"Recorded {date.today()}: {seconds / 60:.0f} minutes for all readers together, {how};",
        f"{total:,} cases of at most {SECONDS} s each, {wrong} findings. {kept_now} cases are kept.",
        "",
        "| reader | cases | wrong | lines reached | branches reached |",
        "|---|---|---|---|---|",
        *(f"| {' | '.join(r.cells)} |" for r in rows),
        "",
        END,
    ]
    text = DOCUMENT.read_text()
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    DOCUMENT.write_text(before + "\n".join(lines) + after)


if __name__ == "__main__":
    sys.exit(main() > 0)
