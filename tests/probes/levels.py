"""One probe at every level: formula, loops and compiled C, each against the oracle's outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ingot.bundle.bundle import Bundle
from ingot.bundle.write import Origin, write
from ingot.formula.compute import Formula
from ingot.formula.expr import Array, Tensor
from ingot.graph.ir import Node
from ingot.loops.evaluate import run
from ingot.loops.interpret import interpret
from ingot.loops.lower import lower
from ingot.loops.program import Program
from ingot.loops.region import Group, Region
from ingot.loops.verify import require_proved, verify_region
from ingot.memory.plan import plan
from ingot.ops.registry import Builder
from ingot.options import Options
from ingot.targets.records import find
from ingot.targets.toolchain import obstacle
from tests.bundle.build import need
from tests.ops.rows import check
from tests.program import planned
from tests.program import run as sanitized

Arrays = Mapping[Tensor, Array]
TARGETS = ("c99", "x86-64", "x86-64-v3")


def builder() -> Builder:
    """What an operator's definition gets, for a formula built by hand."""
    return Builder(Node("Probe", [], []))


def agree(
    formula: Formula, inputs: Sequence[Array], wanted: Sequence[Array], tolerance: float = 1e-5
) -> list[Program]:
    """The formula as one kernel, at every level and for every target that runs here; the programs."""
    region = Region(formula.inputs, formula.outputs, [Group(("probe",), formula.stages)])
    verify_region(region)
    given = {t.name: a for t, a in zip(formula.inputs, inputs, strict=True)}
    check(interpret(region, given), wanted, tolerance, "formula")
    programs = []
    for target in TARGETS:
        if not obstacle(find(target)):
            program = lower(region, {}, "probe", find(target))
            agree_from_loops(program, given, wanted, tolerance, target)
            programs.append(program)
    return programs


def agree_from_loops(
    program: Program,
    given: Mapping[str, Array],
    wanted: Sequence[Array],
    tolerance: float = 1e-5,
    target: str = "c99",
) -> Bundle:
    """The program in the loop evaluator and as C, which runs twice on an arena full of 0xFF."""
    require_proved(program)
    check(run(program, given), wanted, tolerance, f"loops for {target}")
    bundle = build(program, target)
    for _ in range(2):
        found = bundle.run(given)
        check([found[t.name] for t in program.outputs], wanted, tolerance, f"C for {target}")
    under_sanitizers(program, given, wanted, tolerance, target)
    return bundle


def under_sanitizers(
    made: Program, given: Mapping[str, Array], wanted: Sequence[Array], tolerance: float, target: str
) -> None:
    """The same C built by gcc with its address and undefined-behaviour sanitizers."""
    need("gcc")
    if made.params or target not in ("c99", "x86-64-v3"):
        return
    (answer,) = sanitized([planned(made, plan(made), given, target)])
    assert answer.status == 0
    for found in answer.runs:
        check(found, wanted, tolerance, f"sanitized C for {target}")


def build(program: Program, target: str = "c99") -> Bundle:
    """The bundle of a program that no model file stands behind."""
    return write(program, plan(program), find(target), Options(target=target), Origin("0" * 64, {}))


def floats(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
