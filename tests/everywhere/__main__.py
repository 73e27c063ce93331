"""Compile a corpus for every target, audit the objects, run what can be run, say how far the answers are off.

python -m tests.everywhere [--target NAME]... [--case NAME]... [--workers 2] [--update docs/targets.md]
python -m tests.everywhere --integers      (the networks of bytes, whose outputs are the same everywhere)
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import date
from pathlib import Path

from ingot.targets.record import Target
from ingot.targets.records import FAMILIES, TARGETS, find
from ingot.targets.toolchain import obstacle
from tests.corpus import CASES
from tests.everywhere.check import BYTES, NAMES, Outcome, outcome

HEAD = (
    "| target | for | run by | models | error | calls of the compiler's library |\n|---|---|---|--:|--:|---|"
)
SHOWN = 3


def of_target(name: str, cases: Sequence[str]) -> list[Outcome]:
    """All models on one target, in a process of its own."""
    return [outcome(case, TARGETS[name]) for case in CASES if case.name in cases]


def row(target: Target, found: Sequence[Outcome]) -> str:
    """A line of the table. A model counts if its object keeps the rules and, where it runs, if it agrees."""
    good = [o for o in found if not o.error]
    runner = (target.runner[0] if target.runner else "itself") if any(o.ran for o in found) else "-"
    if target.board and runner != "-":
        runner += f" {target.runner[2]}"
    off = f"{max((o.off for o in found if o.ran), default=0):.0e}" if any(o.ran for o in found) else "-"
    calls = sorted({name for o in found for name in o.calls})
    called = f"{len(calls)}: {', '.join(calls[:SHOWN])}, ..." if len(calls) > SHOWN else ", ".join(calls)
    described = target.description.split(":")[0]
    return f"| `{target.name}` | {described} | {runner} | {len(good)}/{len(found)} | {off} | {called} |"


def tables(found: dict[str, list[Outcome]]) -> Iterator[str]:
    for family, members in FAMILIES.items():
        rows = [row(t, found[t.name]) for t in members if t.name in found]
        if rows:
            yield "\n".join([f"**{family}**\n", HEAD, *rows, ""])


def same_bits(found: dict[str, list[Outcome]]) -> str:
    """A table of what identifies the outputs of networks of bytes: a line for each family and each answer."""
    lines = [f"| targets | {' | '.join(BYTES)} |", f"|---|{'---|' * len(BYTES)}"]
    for members in FAMILIES.values():
        givers: dict[tuple[str, ...], list[str]] = {}
        for t in members:
            bits = {o.case: o.bits for o in found.get(t.name, ()) if o.ran}
            if bits:
                givers.setdefault(tuple(bits.get(case, "-") for case in BYTES), []).append(f"`{t.name}`")
        lines += [f"| {', '.join(names)} | {' | '.join(bits)} |" for bits, names in givers.items()]
    return "\n".join([*lines, ""])


def main(arguments: Sequence[str] | None = None) -> int:
    asked = _parser().parse_args(arguments)
    names = [find(t).name for t in asked.target] if asked.target else list(TARGETS)
    cases = BYTES if asked.integers else asked.case or NAMES
    found: dict[str, list[Outcome]] = {}
    with ProcessPoolExecutor(asked.workers) as pool:
        jobs = {name: pool.submit(of_target, name, cases) for name in names}
        for name, job in jobs.items():
            found[name] = job.result()
            reason = obstacle(TARGETS[name])
            print(row(TARGETS[name], found[name]), f"({reason})" if reason else "", flush=True)
            for o in found[name]:
                if o.error:
                    print(f"  {o.case}: {o.error}", flush=True)
    print(same_bits(found))
    if asked.update and not asked.integers:
        replace(asked.update, "targets", "\n".join(tables(found)))
    if asked.update:
        replace(asked.update, "integers", f"{same_bits(found)}\n{date.today()}\n")
    return int(any(o.error for rows in found.values() for o in rows))


def replace(path: Path, name: str, text: str) -> None:
    """Replace what stands between two marks in a document."""
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
    before, _, rest = path.read_text().partition(begin)
    path.write_text(f"{before}{begin}\n{text}\n{end}{rest.partition(end)[2]}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.everywhere", description=__doc__)
    parser.add_argument("--target", action="append", metavar="NAME", help="only these targets")
    parser.add_argument("--case", action="append", metavar="NAME", help="only these models of the corpus")
    parser.add_argument("--integers", action="store_true", help="only the networks of bytes, and their table")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--update", type=Path, metavar="FILE", help="write the tables into a document")
    return parser


if __name__ == "__main__":
    sys.exit(main())
