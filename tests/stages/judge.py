"""What a generator made of a drawn stage, held against its formulas: by the loop evaluator, and as C.

The stage is lowered as in a model, so that halos, constants, scratch and places inside larger tensors are
what every model gets. Of some stages naive loops are held against the formulas too, which takes longest where
a generator saves most; of some whose C is run the loops are evaluated as well. The programs of many stages
become one C program, which runs every one of them twice, on an arena that holds anything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from unittest.mock import patch

import numpy as np

from ingot.formula.compute import Stage, computes
from ingot.formula.expr import Array
from ingot.formula.index import Bounds
from ingot.formula.statements import Statement
from ingot.loops.choice import Choices, LoweringOptions
from ingot.loops.evaluate import run as evaluated
from ingot.loops.interpret import interpret
from ingot.loops.kernels.naive import naive
from ingot.loops.layout import Storage, dense
from ingot.loops.lower import lower
from ingot.loops.program import Program
from ingot.loops.rewrite import apart
from ingot.loops.verify import require_proved, verify_region
from ingot.memory.plan import plan
from ingot.targets.record import Target
from ingot.targets.records import find
from ingot.targets.toolchain import obstacle
from tests import program
from tests.stages.drawn import Drawn, numbers, physical

Written = tuple[tuple[Statement, ...], int]
Writer = Callable[[tuple[Stage, ...], Storage, Target, Bounds, Choices], Written | None]
"""What a generator writes for the first of some stages, and for how many; None where it declines."""
FLAGS = ("-O1",)
COMPILED = ("c99", "x86-64", "x86-64-v3", "x86-64-v4", "x86-64-v4-vnni")
"""Targets whose C is run, where the machine has their instructions; other targets' loops are evaluated."""
NAIVE, BOTH = 8, 4
"""Of so many stages one is also lowered to naive loops, and one is evaluated although its C is run."""


class Declined(Exception):
    """The generator does not serve the stage."""


class Wrong(AssertionError):
    """A result that is not the formulas'."""


@dataclass(frozen=True, eq=False)
class Served:
    """A stage that a generator serves: the program, what it is given, and what it must answer."""

    seed: int
    target: str
    program: Program
    feeds: dict[str, Array]
    wanted: list[Array]
    loss: float


def served(drawn: Drawn, write: Writer, seed: int) -> Served:
    """The stage by its generator, proved. Raises Declined."""
    verify_region(drawn.region)
    made = lowered(drawn, write)
    require_proved(made)
    arrays = _inputs(drawn, seed)
    feeds = {t.name: physical(t, a, drawn.layouts.get(t) or dense(t.rank)) for t, a in arrays.items()}
    by_formula = interpret(drawn.truth or drawn.region, {t.name: a for t, a in arrays.items()})
    wanted = [
        physical(t, a, drawn.layouts.get(t) or dense(t.rank))
        for t, a in zip(drawn.outputs, by_formula, strict=True)
    ]
    if seed % NAIVE == 0:
        require_equal(evaluated(lowered(drawn, None), feeds), wanted, drawn.loss, "naive loops")
    return Served(seed, drawn.target.name, made, feeds, wanted, drawn.loss)


def lowered(drawn: Drawn, write: Writer | None) -> Program:
    """The program, the drawn stages written by the generator, or by naive loops if there is none."""
    asked = list[bool]()

    def generate(
        stages: tuple[Stage, ...],
        storage: Storage,
        target: Target,
        bounds: Bounds | None = None,
        choices: Choices = MappingProxyType({}),
        served: list[str] | None = None,
    ) -> tuple[Statement, ...]:
        if write is None or not _is_subject(stages, drawn, choices):
            return naive(stages, storage, bounds)
        asked.append(True)
        how = choices if drawn.parts else {s: drawn.how for s in computes(stages)}
        return _in_turn(write, stages, storage, target, how)

    parts = drawn.parts if write is not None else 0
    options = LoweringOptions(math=drawn.math, parts=parts)
    with patch("ingot.loops.lower.generate", generate):
        made = lower(drawn.region, drawn.layouts, "stage", drawn.target, options)
    if write is not None and not asked:
        raise Declined
    return made


def _is_subject(stages: tuple[Stage, ...], drawn: Drawn, choices: Choices) -> bool:
    """Whether these are the stages that the generator is asked for: of chains those that go by bands."""
    if drawn.truth is not None:
        return True
    if drawn.parts:
        return any(choices[c].band is not None for c in computes(stages))
    return stages[0] is drawn.stages[0]


def _in_turn(
    write: Writer, stages: tuple[Stage, ...], storage: Storage, target: Target, how: Choices
) -> tuple[Statement, ...]:
    """The statements of stages that a generator serves some at a time, the first of them at least."""
    out: list[Statement] = []
    taken: set[str] = set()
    while stages:
        found = write(stages, storage, target, {}, how)
        if found is None and not out:
            raise Declined
        body, count = found or (naive(stages[:1], storage), 1)
        out += apart(body, taken)
        stages = stages[count:]
    return tuple(out)


def _inputs(drawn: Drawn, seed: int) -> dict[object, Array]:
    random = np.random.default_rng(seed)
    return {t: numbers(t, random) for t in drawn.region.inputs}


def is_compiled(target: str) -> bool:
    """Whether the C of stages for a target is run on this machine."""
    return target in COMPILED and not obstacle(find(target))


def is_evaluated(s: Served) -> bool:
    return s.seed % BOTH == 0 or not is_compiled(s.target)


def by_evaluator(s: Served) -> None:
    """Raises Wrong, or InternalError for an access that C does not define."""
    require_equal(evaluated(s.program, s.feeds), s.wanted, s.loss, f"loops for {s.target}")


def require_equal(found: Sequence[Array], wanted: Sequence[Array], loss: float, where: str) -> None:
    for f, w in zip(found, wanted, strict=False):
        if not (same := _same(f, w, loss)).all():
            at = tuple(map(int, np.argwhere(~same)[0]))
            count = int(np.sum(~same))
            raise Wrong(f"{where}: {f[at]} at {list(at)} instead of {w[at]}; {count} of {same.size} differ")


def _same(found: Array, wanted: Array, loss: float) -> Array:
    equal = (found == wanted) | ((found != found) & (wanted != wanted))
    if not loss or wanted.dtype.kind != "f" or not wanted.size:
        return np.asarray(equal)
    known = np.abs(wanted[np.isfinite(wanted)].astype(np.float64))
    largest = float(known.max()) if known.size else 0.0
    with np.errstate(invalid="ignore", over="ignore"):
        near = np.abs(found.astype(np.float64) - wanted.astype(np.float64)) <= loss * max(largest, 1e-3)
    return np.asarray(equal | near)


# -- as C


def by_compiler(batch: Sequence[Served]) -> dict[int, str]:
    """What is wrong with the C of some stages, by seed: all in one program; if that does not end well, the
    stages one by one.
    """
    try:
        return _answers(batch)
    except AssertionError as error:
        if len(batch) == 1:
            return {batch[0].seed: str(error)}
    half = len(batch) // 2
    return by_compiler(batch[:half]) | by_compiler(batch[half:])


def _answers(batch: Sequence[Served]) -> dict[int, str]:
    whole, feeds = together([s.program for s in batch]), {n: a for s in batch for n, a in s.feeds.items()}
    target = batch[0].target
    (answer,) = program.run([program.planned(whole, plan(whole), feeds, target)], FLAGS)
    assert answer.status == 0, f"returned {answer.status}"
    wrong: dict[int, str] = {}
    for found in answer.runs:
        at = 0
        for s in batch:
            count = len(s.program.outputs)
            try:
                require_equal(found[at : at + count], s.wanted, s.loss, f"C for {target}")
            except Wrong as error:
                wrong[s.seed] = str(error)
            at += count
    return wrong


def together(programs: Sequence[Program]) -> Program:
    """One program that does what all of them do, in turn."""
    first, *others = programs
    for p in others:
        first = replace(
            first,
            inputs=(*first.inputs, *p.inputs),
            outputs=(*first.outputs, *p.outputs),
            constants=(*first.constants, *p.constants),
            steps=(*first.steps, *p.steps),
            aliases={**first.aliases, **p.aliases},
            params=(*first.params, *p.params),
            measured={**first.measured, **p.measured},
        )
    return first
