"""`make conformance`: all backend tests on worker processes, a table, the ledger and docs/operators.md.

    python -m tests.conformance.runner [--only TEXT]... [--again] [--workers 2] [--seconds 900] [--quiet]
                                       [--document]

`--only` takes the cases whose name or operator holds the text (`=NAME`: is the text), `--again` those that
the ledger does not list as passed; the verdicts of the others stay as the ledger has them. The document
is written after a run of all cases, or from the ledger with `--document`.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from ingot.inspection.operators import supported

from . import ledger, report, workers
from .cases import Case, cases
from .judge import RESULTS, Verdict, judge
from .ledger import Row
from .types import accepted

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "operators.md"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print, write. The status is 1 where a case that passed before does not any more."""
    options = _parser().parse_args(arguments)
    os.environ.setdefault("INGOT_CACHE", str(ROOT / ".pytest_cache" / "d" / "ingot-objects"))
    os.environ.setdefault("INGOT_CHECK", "2")
    console = Console()
    with console.status("loading the cases"):
        every = cases()
    before = ledger.read()
    chosen = [] if options.document else [c for c in every if _is_chosen(c, options, before)]
    rows = dict(before)
    for case, verdict in _verdicts(chosen, options, console):
        rows[case.name] = Row(case.kind, case.operator, case.name, *verdict)
    ledger.write(rows, [c.name for c in every])
    kept = [rows[c.name] for c in every if c.name in rows]
    if options.document or len(chosen) == len(every):
        with console.status("trying element types"):
            types = {(o.domain, o.name): accepted(o, every) for o in supported()}
        DOCUMENT.write_text(report.document(kept, types), encoding="utf-8")
    return _summary(kept, before, options.quiet, console)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="conformance", description="Run onnx's backend tests.")
    parser.add_argument("--only", action="append", default=[], metavar="TEXT")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=900.0)
    parser.add_argument("--document", action="store_true", help="run nothing, write the document again")
    parser.add_argument("--quiet", action="store_true", help="no table by operator")
    return parser


def _is_chosen(case: Case, options: argparse.Namespace, before: dict[str, Row]) -> bool:
    known = before.get(case.name)
    if options.again and known is not None and known.result == "pass":
        return False
    words: list[str] = options.only
    return not words or any(
        w[1:] in (case.name, case.operator) if w[:1] == "=" else w in case.name or w == case.operator
        for w in words
    )


def _verdicts(
    chosen: list[Case], options: argparse.Namespace, console: Console
) -> Iterator[tuple[Case, Verdict]]:
    """Each verdict as it comes; what does not pass is named above the progress bar."""
    with Progress(console=console) as progress:
        task = progress.add_task("cases", total=len(chosen))
        numbers = range(len(chosen))
        for i, verdict in workers.run(lambda n: judge(chosen[n]), numbers, options.workers, options.seconds):
            if verdict.result in ("wrong", "crash"):
                progress.console.print(f"{verdict.result} {chosen[i].name}: {verdict.reason}", markup=False)
            progress.advance(task)
            yield chosen[i], verdict


def _summary(rows: list[Row], before: dict[str, Row], quiet: bool, console: Console) -> int:
    if not quiet:
        for name, count, passed in report.by_operator(rows):
            console.print(f"{name:32} {passed:>4} of {count:>4}", highlight=False)
    for kind, count, *found in report.totals(rows):
        counts = ", ".join(f"{n} {r}" for n, r in zip(found, RESULTS, strict=True))
        console.print(f"{kind:18} {count:>5} cases: {counts}", highlight=False)
    worse = [
        r.case for r in rows if r.result != "pass" and r.case in before and before[r.case].result == "pass"
    ]
    if worse:
        console.print(f"passed before, not any more: {', '.join(worse)}", markup=False)
    return 1 if worse else 0


if __name__ == "__main__":
    raise SystemExit(main())
