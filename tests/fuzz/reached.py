"""Which lines and branches of a reader its cases reach. Started by `hunt`, in a process of its own.

python -m tests.fuzz.reached READER FOLDER | SEED:COUNT

Prints [lines, of, branches, of] of the files that the reader names, its well-formed cases among what is read.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import coverage

import ingot

FOLDER = Path(ingot.__file__).parent


def cases(name: str, what: str) -> Iterator[bytes]:
    from tests.fuzz.cage import case
    from tests.fuzz.readers import READERS

    yield from READERS[name].seeds()
    if Path(what).is_dir():
        yield from (p.read_bytes() for p in sorted(Path(what).iterdir()))
    else:
        seed, count = map(int, what.split(":"))
        yield from (case(name, seed, i) for i in range(count))


def main(name: str, what: str) -> None:
    measured = coverage.Coverage(branch=True, data_file=None, source_pkgs=["ingot"])
    measured.start()  # before the readers are imported: their definitions count
    from tests.fuzz.cage import limit, watched
    from tests.fuzz.readers import READERS

    limit()
    for data in cases(name, what):
        watched(name, data, False)
    measured.stop()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        include = [f"{FOLDER / c}{'' if c.endswith('.py') else '/*'}" for c in READERS[name].code]
        measured.json_report(outfile=str(report), include=include)
        totals = json.loads(report.read_text())["totals"]
    lines = totals["covered_lines"], totals["num_statements"]
    print(json.dumps([*lines, totals["covered_branches"], totals["num_branches"]]))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
