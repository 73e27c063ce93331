"""Models whose nodes move elements: right at every level, and which of them still cost a kernel."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import onnxruntime as ort
from onnx import numpy_helper, parser

import ingot
from ingot.driver import stages
from ingot.loops.evaluate import run
from ingot.loops.interpret import interpret
from ingot.loops.program import calls
from ingot.options import Options
from ingot.targets.records import find
from tests.ops.rows import Array, check, floats

HEAD = '<ir_version: 10, opset_import: ["" : 18]>\n'
TARGETS = ("c99", "x86-64-v3")

Weights = tuple[tuple[str, tuple[int, ...]], ...]


@dataclass(frozen=True)
class Case:
    """A graph's body over inputs x and z of the same shape, its outputs, weights by name, what is copied.

    `is_exported`: with vectors an output is made apart from what the caller gets, and nothing is copied.
    """

    body: str
    outputs: str = "float[n,c,h,w] y"
    copies: tuple[str, ...] = ()
    x: tuple[int, ...] = (1, 5, 6, 7)
    weights: Weights = ()
    is_exported: bool = False


def conv(out: str, source: str, weight: str, pad: int = 0, more: str = "") -> str:
    return f"{out} = Conv<pads=[{pad},{pad},{pad},{pad}]{more}>({source}, {weight})\n"


def weight(name: str, value: tuple[int, ...]) -> tuple[str, Array]:
    """`name:i` holds the numbers themselves, others random values of the shape."""
    if name.endswith(":i"):
        return name[:-2], np.array(value, np.int64)
    return name, floats(*value, seed=len(name)) * np.float32(0.3)


def agree(case: Case) -> None:
    """Region, loops and C against onnxruntime; `[name]` in the body are the nodes that move elements."""
    dims = ",".join(map(str, case.x))
    text = f"g (float[{dims}] x, float[{dims}] z) => ({case.outputs}) {{ {case.body} }}"
    model = parser.parse_model(HEAD + text)
    model.graph.initializer.extend(
        numpy_helper.from_array(w, n) for n, w in (weight(*w) for w in case.weights)
    )
    given = {"x": floats(*case.x), "z": floats(*case.x, seed=1)}
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    feeds = {i.name: given[i.name] for i in session.get_inputs()}
    wanted = list(session.run(None, feeds))
    for target in TARGETS:
        made = stages(model, Options(target=target, name="probe"))
        check(interpret(made.region, given), wanted, 1e-5, "region")
        check(run(made.program, given), wanted, 1e-5, f"loops for {target}")
        moving = {n for c in calls(made.program.steps) for n in c.nodes or c.kernel.nodes}
        named = set(re.findall(r"\[(\w+)\]", case.body))
        exported = case.is_exported and find(target).vector_bytes
        assert named & moving == (set() if exported else {*case.copies})
    bundle = ingot.compile(model, target=TARGETS[-1], name="probe")
    for _ in range(2):
        check(list(bundle.run(given).values()), wanted, 1e-5, f"C for {TARGETS[-1]}")
