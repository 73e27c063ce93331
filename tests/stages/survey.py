"""Draws stages for a generator until it has served so many, and reports what was wrong and what was reached.

In: a generator's name, a number of stages, the seed of the first. Out: a `Survey`. Work goes to processes by
ranges of seeds; each measures which lines and branches of the generator's files it reached, with coverage.py.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import coverage

import ingot.loops.kernels
from ingot.errors import IngotError
from tests.stages.dice import Dice, Impossible, shrunk
from tests.stages.generators import GENERATORS, drawn
from tests.stages.judge import (
    Declined,
    Served,
    Writer,
    Written,
    by_compiler,
    by_evaluator,
    is_compiled,
    is_evaluated,
    served,
)

Around = Callable[[], AbstractContextManager[object]]
"""What the lowering of a stage stands in."""
CHUNK, BATCH = 200, 60  # seeds of a process at a time, stages of a C program
MOST_DRAWN = 40  # for each stage that shall be served
FOLDER = Path(ingot.loops.kernels.__file__).parent


@dataclass
class Survey:
    """What became of the stages drawn: counts by verdict, by target; what was wrong, by seed."""

    verdicts: Counter[str] = field(default_factory=Counter)
    compiled: Counter[str] = field(default_factory=Counter)
    evaluated: Counter[str] = field(default_factory=Counter)
    wrong: dict[int, str] = field(default_factory=dict)
    lines: tuple[int, int] = (0, 0)
    branches: tuple[int, int] = (0, 0)
    missing: dict[str, list[int]] = field(default_factory=dict)

    @property
    def drawn(self) -> int:
        return sum(self.verdicts.values()) - self.verdicts["impossible"]

    @property
    def share(self) -> float:
        """Of what was drawn, how much the generator served."""
        return self.verdicts["served"] / max(self.drawn, 1)

    def add(self, other: Survey) -> None:
        self.verdicts += other.verdicts
        self.compiled += other.compiled
        self.evaluated += other.evaluated
        self.wrong |= other.wrong


def survey(name: str, count: int, seed: int, workers: int) -> Survey:
    """At least so many stages that the generator serves, from a seed on; fewer where it hardly serves any."""
    whole = Survey()
    starts = range(seed, seed + count * MOST_DRAWN, CHUNK)
    with tempfile.TemporaryDirectory(prefix="ingot-") as folder:
        with ProcessPoolExecutor(workers) as pool:
            waiting: list[Future[Survey]] = []
            for start in starts:
                most = min(CHUNK, seed + count * MOST_DRAWN - start)
                waiting.append(pool.submit(measured, name, range(start, start + most), count, folder))
                if len(waiting) > workers:
                    whole.add(waiting.pop(0).result())
                if whole.verdicts["served"] >= count:
                    break
            for rest in waiting:
                whole.add(rest.result())
        _reached(whole, name, folder)
    return whole


def measured(name: str, seeds: Sequence[int], count: int, folder: str) -> Survey:
    """The stages of some seeds, and in the folder what was reached of the generator's files."""
    os.environ.setdefault("INGOT_CHECK", "2")
    measure = coverage.Coverage(f"{folder}/reached", data_suffix=True, branch=True, include=_files(name))
    generator = GENERATORS[name]
    try:
        if generator.throughout:
            return surveyed(name, seeds, count, generator.write, measure.collect)
        return surveyed(name, seeds, count, traced(generator.write, measure))
    finally:
        measure.save()


def traced(write: Writer, measure: coverage.Coverage) -> Writer:
    """The same, measured while it writes: what is evaluated afterwards needs no tracing, which takes long."""

    def watched(*asked: Any) -> Written | None:
        with measure.collect():
            return write(*asked)

    return watched


def surveyed(
    name: str, seeds: Sequence[int], count: int, write: Writer | None = None, around: Around = nullcontext
) -> Survey:
    """The stages of some seeds, until so many are served, in the evaluator and as C."""
    found, right = Survey(), list[Served]()
    for seed in seeds:
        if found.verdicts["served"] >= count:
            break
        verdict, made = judged(name, Dice((name, seed)), seed, write, around)
        found.verdicts[verdict if verdict in ("impossible", "declined") else "served"] += 1
        if made is not None:
            right.append(made)
            found.evaluated[made.target] += is_evaluated(made)
        elif verdict not in ("impossible", "declined"):
            found.wrong[seed] = verdict
    for batch in _batches(right):
        found.compiled[batch[0].target] += len(batch)
        found.wrong |= by_compiler(batch)
    return found


def judged(
    name: str, dice: Dice, seed: int, write: Writer | None = None, around: Around = nullcontext
) -> tuple[str, Served | None]:
    """What the verifier and the evaluator say of one stage: nothing, and then the stage as it is served."""
    try:
        with around():
            made = served(drawn(name, dice), write or GENERATORS[name].write, seed)
        if is_evaluated(made):
            by_evaluator(made)
    except Impossible:
        return "impossible", None
    except Declined:
        return "declined", None
    except (AssertionError, IngotError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        return f"{type(error).__name__}: {str(error)[:300]}", None
    return "", made


def _batches(right: Sequence[Served]) -> Iterator[list[Served]]:
    for target in sorted({s.target for s in right if is_compiled(s.target)}):
        mine = [s for s in right if s.target == target]
        yield from (mine[i : i + BATCH] for i in range(0, len(mine), BATCH))


def simplest(name: str, seed: int) -> tuple[list[int], str]:
    """The simplest choices like those of a failing seed, and what is wrong there."""
    first = Dice((name, seed))
    said = verdict(name, first, seed)
    if not said:
        return first.taken, ""

    def fails(choices: Sequence[int]) -> bool:
        return bool(verdict(name, Dice((name, seed), choices), seed))

    choices = shrunk(first.taken, fails)
    return choices, verdict(name, Dice((name, seed), choices), seed)


def verdict(name: str, dice: Dice, seed: int) -> str:
    """What is wrong with one stage at any level; empty where nothing is, or where it is not served."""
    said, made = judged(name, dice, seed)
    if made is None:
        return "" if said in ("impossible", "declined") else said
    return by_compiler([made]).get(seed, "") if is_compiled(made.target) else ""


# -- what was reached


def _files(name: str) -> list[str]:
    return [str((FOLDER / f).resolve()) for f in GENERATORS[name].files]


def _reached(whole: Survey, name: str, folder: str) -> None:
    """Lines and branches of the functions of the generator's files: modules are imported before."""
    measure = coverage.Coverage(f"{folder}/reached", branch=True, include=_files(name))
    measure.combine([folder])
    measure.json_report(outfile=f"{folder}/report.json")
    report: dict[str, Any] = json.loads(Path(folder, "report.json").read_text())
    for path, found in report["files"].items():
        functions = [f for n, f in found["functions"].items() if n]
        for key, total, reached in (
            ("lines", "num_statements", "covered_lines"),
            ("branches", "num_branches", "covered_branches"),
        ):
            had, got = getattr(whole, key)
            sums = [sum(f["summary"][k] for f in functions) for k in (total, reached)]
            setattr(whole, key, (had + sums[0], got + sums[1]))
        missing = sorted(n for f in functions for n in f["missing_lines"])
        if missing:
            whole.missing[os.path.relpath(path, FOLDER)] = missing
