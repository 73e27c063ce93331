"""`make fuzz N=1000 SEED=0`: random models at every level; a failure is printed as a small model.

python -m tests.fuzz [N] [SEED] [SIZE]
"""

from __future__ import annotations

import collections
import os
import sys

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tests.fuzz.grow import grow
from tests.fuzz.levels import REFUSED, failure, levels_of, report


def main(count: int = 1000, seed: int = 0, size: int = 10) -> int:
    """The number of models that failed; those that Ingot refuses, saying why, are counted apart."""
    os.environ.setdefault("INGOT_CHECK", "2")
    console, failed, operators = Console(stderr=True), 0, collections.Counter[str]()
    refused = collections.Counter[str]()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("models", total=count)
        for i in range(seed, seed + count):
            grown = grow(i, size)
            operators.update(n.op_type for n in grown.model.graph.node)
            found = failure(grown, levels_of(i))
            if found and found[1].startswith(REFUSED):
                refused[found[1].removeprefix(REFUSED)] += 1
            elif found:
                failed += 1
                console.print(report(grown, *found), markup=False, highlight=False, soft_wrap=True)
            progress.update(task, advance=1, description=f"models, {failed} failed")
    for reason, number in refused.most_common():
        console.print(f"refused {number}: {reason}", markup=False, highlight=False)
    console.print(
        f"{count} models of {operators.total()} nodes and {len(operators)} operators, "
        f"{failed} failed, {refused.total()} refused"
    )
    return failed


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])) > 0)
