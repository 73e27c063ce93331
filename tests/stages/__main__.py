"""`make stages N=2000 SEED=0`: random single stages of every generator, beside their formulas.

python -m tests.stages GENERATOR [N] [SEED]             GENERATOR: one of them, several with commas, or all
python -m tests.stages GENERATOR 1 SEED --choices 3,1   one stage, of these choices
"""

from __future__ import annotations

import argparse
import os
import sys

from rich.console import Console
from rich.table import Table

from tests.stages.dice import Dice
from tests.stages.generators import GENERATORS
from tests.stages.reasons import reasons
from tests.stages.survey import FOLDER, Survey, simplest, survey, verdict

SHOWN = 20  # failing stages that are made simpler
ENOUGH, REPRESENTATIVE = 0.95, 1000  # lines to be reached, by so many stages


def main(arguments: list[str]) -> int:
    """How many generators fell short: a wrong stage, too few served, too few lines reached."""
    os.environ.setdefault("INGOT_CHECK", "2")
    parser = argparse.ArgumentParser(prog="python -m tests.stages")
    parser.add_argument("generator")
    parser.add_argument("count", nargs="?", type=int, default=2000)
    parser.add_argument("seed", nargs="?", type=int, default=0)
    parser.add_argument("--choices", default=None)
    asked = parser.parse_args(arguments)
    names = list(GENERATORS) if asked.generator == "all" else asked.generator.split(",")
    if unknown := [n for n in names if n not in GENERATORS]:
        parser.error(f"no generator {unknown[0]}; there are {', '.join(GENERATORS)}")
    if asked.choices is not None:
        choices = [int(n) for n in asked.choices.split(",") if n]
        said = verdict(names[0], Dice((names[0], asked.seed), choices), asked.seed)
        print(said or "nothing is wrong")
        return bool(said)
    console = Console(width=110)
    found = {}
    for name in names:
        found[name] = survey(name, asked.count, asked.seed, os.cpu_count() or 1)
        _show(name, found[name], console)
    console.print(_table(found))
    return sum(bool(_short(n, s, asked.count)) for n, s in found.items())


def _show(name: str, found: Survey, console: Console) -> None:
    """What fell short of one generator."""
    for i, (seed, said) in enumerate(sorted(found.wrong.items())):
        print(f"{name}, seed {seed}: {said}")
        if i < SHOWN:
            choices, simpler = simplest(name, seed)
            shown = ",".join(map(str, choices))
            print(f"  python -m tests.stages {name} 1 {seed} --choices {shown}\n  {simpler}")
    for file, lines in found.missing.items():
        for line, text, reason in reasons(FOLDER / file, lines):
            print(f"{name}: {file}:{line} was not reached: {text}  ({reason})")
    evaluated = ", ".join(f"{n} for {t}" for t, n in sorted(found.evaluated.items()))
    compiled = ", ".join(f"{n} for {t}" for t, n in sorted(found.compiled.items()))
    print(f"{name}: evaluated {evaluated or 'none'}; as C {compiled or 'none'}", flush=True)


def _short(name: str, s: Survey, count: int) -> str:
    """What a generator's stages lack; empty if nothing."""
    if s.wrong:
        return f"{len(s.wrong)} wrong"
    if s.verdicts["served"] < count:
        return f"served {s.verdicts['served']} only"
    if s.share < GENERATORS[name].share:
        return f"served less than {GENERATORS[name].share:.0%}"
    lines, reached = s.lines
    return f"reached less than {ENOUGH:.0%}" if count >= REPRESENTATIVE and reached < ENOUGH * lines else ""


def _table(found: dict[str, Survey]) -> Table:
    table = Table("generator", "drawn", "served", "wrong", "as C", "lines", "branches")
    for name, s in found.items():
        parts = [f"{b / max(a, 1):.1%} of {a}" for a, b in (s.lines, s.branches)]
        served = f"{s.verdicts['served']} ({s.share:.0%})"
        table.add_row(name, str(s.drawn), served, str(len(s.wrong)), str(s.compiled.total()), *parts)
    return table


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]) > 0)
