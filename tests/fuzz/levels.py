"""Runs a random model at every level and compares with what is known of its values.

The levels, in order: onnxruntime on the whole model (does the oracle agree with itself, node by node?), the
formula evaluator, the loop evaluator and the compiled C, each for several targets; now and then without
fusion, with exact math, under sanitizers, with open extents, on emulated machines. `failure` names the first
that differs; `minimise` cuts the model down to the nodes that still make it differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
from onnx import printer

import ingot
from ingot.driver import front, lowering_of, region_of, stages
from ingot.errors import InputError
from ingot.loops.evaluate import run as run_program
from ingot.loops.interpret import interpret
from ingot.loops.lower import lower
from ingot.loops.region import formulate_graph
from ingot.loops.region_passes.layout_assignment import assign_layouts
from ingot.loops.verify import require_proved
from ingot.options import Options
from ingot.targets.records import find
from ingot.targets.toolchain import obstacle
from tests import program
from tests.corpus.cases import onnxruntime_outputs
from tests.corpus.net import Array
from tests.fuzz.grow import Grown, Known, build

Run = Callable[[onnx.ModelProto, Mapping[str, Array]], Sequence[Array]]
ORACLE = "onnxruntime, all nodes at once"
REFUSED = "UnsupportedError: "


def formula(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> Sequence[Array]:
    return interpret(formulate_graph(front(model, Options())), feeds)


def loops(target: str) -> Run:
    def run(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> Sequence[Array]:
        return run_program(stages(model, Options(target=target, name="fuzz")).program, feeds)

    return run


def opened(target: str) -> Run:
    """The loops where the caller alone knows the first extents; closed where constants hold them too."""

    def run(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> Sequence[Array]:
        free, sizes = _open(model)
        define = {name: (max(1, n - 2), n + 9) for name, n in sizes.items()}
        try:
            program = stages(free, Options(target=target, name="fuzz", define=define)).program
        except InputError:
            return loops(target)(model, feeds)
        return run_program(program, feeds, sizes)

    return run


def _open(model: onnx.ModelProto) -> tuple[onnx.ModelProto, dict[str, int]]:
    """The model with names for the first extents of its inputs, equal ones called alike; what they are."""
    free, sizes = onnx.ModelProto(), dict[str, int]()
    free.CopyFrom(model)
    first = [d for i in free.graph.input for d in i.type.tensor_type.shape.dim[:1] if d.dim_value]
    for d in first:
        name = f"N{d.dim_value}"
        sizes[name] = d.dim_value
        d.dim_param = name
    for o in free.graph.output:
        o.type.tensor_type.ClearField("shape")
    return free, sizes


def near(target: str) -> Run:
    """The loops for caches that hold a few rows: small images are gone through in blocks and bands."""
    small = replace(find(target), caches=(512, 4 << 10, 32 << 10))

    def run(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> Sequence[Array]:
        options = Options(target=target)
        region = region_of(front(model, options), options)
        program = lower(region, assign_layouts(region, small), "fuzz", small, lowering_of(options, small))
        require_proved(program)
        return run_program(program, feeds)

    return run


def compiled(target: str, **options: Any) -> Run:
    def run(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> Sequence[Array]:
        made = ingot.compile(model, target=target, name="fuzz", emit=("obj",), **options)
        first, second = (list(made.run(feeds).values()) for _ in range(2))
        for a, b in zip(first, second, strict=True):
            assert np.array_equal(a, b, equal_nan=a.dtype.kind == "f"), (
                "the second run differs from the first"
            )
        return first

    return run


def sanitized(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> Sequence[Array]:
    """The C as gcc's sanitizers run it. Extents that only the run tells are for bundles to return."""
    member = program.member(model, feeds, "fuzz", "x86-64-v3")
    if any(not isinstance(n, int) for t in member.program.outputs for n in t.shape):
        return compiled("x86-64-v3")(model, feeds)
    (answer,) = program.run([member])
    return answer.runs[0]


LEVELS: dict[str, Run] = {
    ORACLE: onnxruntime_outputs,
    "formula": formula,
    "loops for c99": loops("c99"),
    "loops for x86-64-v3": loops("x86-64-v3"),
    "loops for x86-64-v3 with small caches": near("x86-64-v3"),
    "C for c99": compiled("c99"),
    "C for x86-64-v3": compiled("x86-64-v3"),
}


RARE: dict[str, tuple[int, Run]] = {
    "C, no fusion": (3, compiled("native", fuse=False)),
    "C, exact math": (3, compiled("native", math="exact")),
    "C for x86-64, no generators": (4, compiled("x86-64", generators=False)),
    "C under sanitizers": (5, sanitized),
    "loops for x86-64-v3, open extents": (2, opened("x86-64-v3")),
    "C for aarch64": (10, compiled("aarch64")),
    "C for s390x": (20, compiled("s390x")),
}
"""Levels that one model in so many is run at, beside LEVELS."""


def levels_of(seed: int) -> dict[str, Run]:
    """All levels of a model; those of machines that cannot be run here are left out."""
    rare = {name: run for name, (every, run) in RARE.items() if seed % every == 0}
    emulated = {t for t in ("aarch64", "s390x") if obstacle(find(t)) is not None}
    return LEVELS | {n: r for n, r in rare.items() if n.rpartition(" ")[2] not in emulated}


def failure(grown: Grown, levels: Mapping[str, Run] = LEVELS) -> tuple[str, str] | None:
    """The first level that differs, and how; None where all agree.

    A model that onnxruntime answers otherwise as a whole than node by node says nothing: None as well.
    """
    for level, run in levels.items():
        said = differs(run, grown.model, grown.feeds, grown.wanted)
        if said:
            return None if level == ORACLE else (level, said)
    return None


def differs(run: Run, model: onnx.ModelProto, feeds: Mapping[str, Array], wanted: Sequence[Known]) -> str:
    """How the outputs differ from what is wanted; empty where they do not."""
    try:
        found = run(model, feeds)
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:500]}"
    if len(found) < len(wanted):  # evaluators give measured extents too, behind the outputs
        return f"{len(found)} outputs instead of {len(wanted)}"
    return next((s for f, w in zip(found, wanted, strict=False) if (s := compare(np.asarray(f), w))), "")


def compare(found: Array, wanted: Known) -> str:
    """Types and shapes equal, integers and exact floats too, NaN and infinities where they should be."""
    right, name = wanted.array, wanted.name
    if found.dtype != right.dtype or found.shape != right.shape:
        return f"{name} is {found.dtype}{found.shape}, not {right.dtype}{right.shape}"
    if right.dtype.kind != "f":
        same = found == right
    else:
        with np.errstate(invalid="ignore"):
            apart = np.abs(found.astype(np.float64) - right.astype(np.float64))
        same = (found == right) | (np.isnan(found) & np.isnan(right)) | (apart <= wanted.allowed)
    if same.all():
        return ""
    at = tuple(int(i) for i in np.argwhere(~same)[0])
    count, allowed = int(np.sum(~same)), wanted.allowed
    return f"{name}{list(at)} = {found[at]}, not {right[at]} (within {allowed:.2g}; {count} of {same.size})"


def minimise(grown: Grown, run: Run) -> tuple[onnx.ModelProto, dict[str, Array], list[Known]]:
    """The fewest nodes of the model that still differ: one after the other is left out, its values given."""
    nodes, opset = list(grown.model.graph.node), grown.model.opset_import[0].version
    outputs = _one_output(grown, run)

    def attempt(
        kept: Sequence[onnx.NodeProto], shown: Sequence[str]
    ) -> tuple[onnx.ModelProto, dict[str, Array], list[Known]]:
        model = build(kept, grown.values, shown, opset)
        return model, grown.feeds_of(model), [grown.values[o] for o in shown]

    for node in list(reversed(nodes)):
        fewer = [n for n in nodes if n is not node]
        shown = [o for o in outputs if o not in node.output]
        if shown and differs(run, *attempt(fewer, shown)):
            nodes, outputs = fewer, shown
    return attempt(nodes, outputs)


def _one_output(grown: Grown, run: Run) -> list[str]:
    """The first value of the model, in its order, that differs on its own; all outputs where none does."""
    nodes, opset = list(grown.model.graph.node), grown.model.opset_import[0].version
    for i, node in enumerate(nodes):
        for name in node.output:
            model = build(nodes[: i + 1], grown.values, [name], opset)
            if differs(run, model, grown.feeds_of(model), [grown.values[name]]):
                return [name]
    return [o.name for o in grown.model.graph.output]


def report(grown: Grown, level: str, said: str) -> str:
    """Seed, level, difference, and the smallest model that shows it."""
    run = LEVELS[level] if level in LEVELS else RARE[level][1]
    model, feeds, wanted = minimise(grown, run)
    again = differs(run, model, feeds, wanted)
    values = "\n".join(f"  {n} = {np.array2string(a, threshold=40)}" for n, a in feeds.items())
    text = printer.to_text(model)
    return f"seed {grown.seed}, {level}: {said}\nminimised: {again}\n{text}\n{values}\n"
