"""What is put together is made in its place, what is cut out is read where it lies: odd cases at every level.

Each case says which of its nodes still cost a kernel that copies.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import onnxruntime as ort
import pytest
from onnx import numpy_helper, parser

import ingot
from ingot.driver import stages
from ingot.loops.evaluate import run
from ingot.loops.interpret import interpret
from ingot.loops.program import calls
from ingot.options import Options
from tests.ops.rows import Array, check, floats

HEAD = '<ir_version: 10, opset_import: ["" : 18]>\n'
TARGETS = ("c99", "x86-64-v3")


@dataclass(frozen=True)
class Case:
    """A graph's body over inputs x and z of the same shape, its outputs, weights by name, what is copied."""

    body: str
    outputs: str = "float[n,c,h,w] y"
    copies: tuple[str, ...] = ()
    x: tuple[int, ...] = (1, 5, 6, 7)
    weights: tuple[tuple[str, tuple[int, ...]], ...] = ()


def conv(out: str, source: str, weight: str, pad: int = 0) -> str:
    return f"{out} = Conv<pads=[{pad},{pad},{pad},{pad}]>({source}, {weight})\n"


ONE, TWO, THREE = ("v", (4, 5, 1, 1)), ("u", (3, 5, 3, 3)), ("t", (6, 7, 3, 3))
BOTH = conv("a", "x", "v") + conv("b", "x", "u", 1)
CASES = {
    "two convolutions": Case(
        BOTH + "[cat] k = Concat<axis=1>(a, b)\n" + conv("y", "k", "t"), weights=(ONE, TWO, THREE)
    ),
    "a window that leaves the whole": Case(
        BOTH + "[cat] k = Concat<axis=1>(a, b)\n" + conv("y", "k", "t", 1), weights=(ONE, TWO, THREE)
    ),
    "a window that leaves a part": Case(
        BOTH + "[cat] k = Concat<axis=1>(a, b)\n" + conv("y", "k", "t") + conv("s", "a", "s2", 2),
        "float[n,c,h,w] y, float[n,c,h,w] s",
        weights=(ONE, TWO, THREE, ("s2", (2, 4, 5, 5))),
    ),
    "along the rows, under a window that leaves the whole": Case(
        conv("a", "x", "v")
        + conv("b", "z", "v")
        + "[cat] k = Concat<axis=2>(a, b)\n"
        + conv("y", "k", "t", 1),
        copies=("cat",),
        weights=(ONE, ("t", (6, 4, 3, 3))),
    ),
    "along the rows, under a window that stays inside": Case(
        conv("a", "x", "v") + conv("b", "z", "v") + "[cat] k = Concat<axis=2>(a, b)\n" + conv("y", "k", "t"),
        weights=(ONE, ("t", (6, 4, 3, 3))),
    ),
    "a chain, each a prefix of the next": Case(
        conv("a", "x", "v")
        + conv("b", "a", "w2", 1)
        + "[cat1] k = Concat<axis=1>(a, b)\n"
        + conv("c", "k", "w3", 1)
        + "[cat2] l = Concat<axis=1>(k, c)\n"
        + conv("d", "l", "w4", 1)
        + "[cat3] m = Concat<axis=1>(l, d)\n"
        + conv("y", "m", "w5"),
        weights=(ONE, *((f"w{i}", (3, 4 + 3 * i - 6, 3, 3)) for i in range(2, 6))),
    ),
    "an input among the parts": Case(
        conv("a", "x", "v") + "[cat] k = Concat<axis=1>(a, z)\n" + conv("y", "k", "t"),
        copies=("cat",),
        weights=(ONE, ("t", (6, 9, 3, 3))),
    ),
    "a constant among the parts": Case(
        conv("a", "x", "v") + "[cat] k = Concat<axis=1>(a, c)\n" + conv("y", "k", "t"),
        copies=("cat",),
        weights=(ONE, ("c", (1, 2, 6, 7)), ("t", (6, 6, 3, 3))),
    ),
    "an output among the parts": Case(
        BOTH + "[cat] k = Concat<axis=1>(a, b)\n" + conv("y", "k", "t"),
        "float[n,c,h,w] y, float[n,c,h,w] a",
        copies=("cat",),
        weights=(ONE, TWO, THREE),
    ),
    "one tensor twice": Case(
        conv("a", "x", "v") + "[cat] k = Concat<axis=1>(a, a)\n" + conv("y", "k", "t"),
        copies=("cat",),
        weights=(ONE, ("t", (6, 8, 3, 3))),
    ),
    "one tensor in two concatenations": Case(
        BOTH
        + "[cat1] k = Concat<axis=1>(a, b)\n[cat2] l = Concat<axis=1>(b, a)\n"
        + conv("p", "k", "t")
        + conv("q", "l", "t")
        + "y = Add(p, q)\n",
        copies=("cat2",),
        weights=(ONE, TWO, THREE),
    ),
    "a map of the whole": Case(
        BOTH + "[cat] k = Concat<axis=1>(a, b)\nr = Relu(k)\n" + conv("y", "r", "t"),
        weights=(ONE, TWO, THREE),
    ),
    "the whole is the output": Case("a = Exp(x)\nb = Abs(z)\n[cat] y = Concat<axis=1>(a, b)"),
    "the whole is the output, along the innermost axis": Case(
        "a = Exp(x)\nb = Abs(z)\n[cat] y = Concat<axis=3>(a, b)"
    ),
    "a batch": Case("a = Exp(x)\nb = Abs(z)\n[cat] k = Concat<axis=1>(a, b)\ny = Softmax(k)", x=(3, 2, 2, 3)),
    "wholes within wholes along different axes": Case(
        "a = Exp(x)\nb = Abs(z)\n[c1] k = Concat<axis=2>(a, b)\nc = Neg(k)\n"
        "[c2] l = Concat<axis=1>(k, c)\n[c3] y = Concat<axis=3>(l, l)\n",
        copies=("c3",),
    ),
    "a view of the whole": Case(
        "a = Exp(x)\nb = Abs(z)\n[cat] k = Concat<axis=1>(a, b)\n[flat] f = Flatten(k)\ny = Softmax(f)",
        "float[n,c] y",
    ),
    "a view of a part": Case(
        "a = Exp(x)\n[flat] f = Flatten(a)\n[cat] k = Concat<axis=1>(f, f)\ny = Softmax(k)",
        "float[n,c] y",
        copies=("cat",),
    ),
    "halves read by windows": Case(
        conv("a", "x", "w8")
        + "[split] p, q = Split<axis=1, num_outputs=2>(a)\n"
        + conv("c", "p", "w4", 1)
        + conv("d", "q", "w4")
        + "s = ReduceMean<keepdims=1>(c)\ny = Add(d, s)\n",
        weights=(("w8", (8, 5, 1, 1)), ("w4", (3, 4, 3, 3))),
    ),
    "a slice of the input": Case(
        "[cut] k = Slice(x, s, e, ax)\ny = Softmax(k)",
        weights=(("s:i", (2, 1)), ("e:i", (4, 4)), ("ax:i", (1, 2))),
    ),
    "a slice with steps": Case(
        "e1 = Exp(x)\n[cut] k = Slice(e1, s, e, ax, st)\ny = Softmax(k)",
        copies=("cut",),
        weights=(("s:i", (2, 1)), ("e:i", (4, 6)), ("ax:i", (1, 2)), ("st:i", (1, 2))),
    ),
    "slices put together again": Case(
        "e1 = Exp(x)\n[split] p, q = Split<axis=2, num_outputs=2>(e1)\n[cat] k = Concat<axis=2>(q, p)\n"
        "y = Softmax(k)",
        copies=("cat",),
    ),
    "a part read beside the one it makes": Case(
        "a = Exp(x)\nb = Neg(a)\n[cat] k = Concat<axis=1>(a, b)\nc = Abs(b)\n"
        "[cat2] l = Concat<axis=1>(k, c)\ny = Softmax(l)",
    ),
    "the identity": Case("a = Exp(x)\n[same] b = Identity(a)\ny = Softmax(b)"),
}


def weight(name: str, value: tuple[int, ...]) -> tuple[str, Array]:
    """`name:i` holds the numbers themselves, others random values of the shape."""
    if name.endswith(":i"):
        return name[:-2], np.array(value, np.int64)
    return name, floats(*value, seed=len(name)) * np.float32(0.3)


@pytest.mark.parametrize("name", CASES)
def test_in_place(name: str) -> None:
    case = CASES[name]
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
        assert named & moving == {*case.copies}
    bundle = ingot.compile(model, target=TARGETS[-1], name="probe")
    for _ in range(2):
        check(list(bundle.run(given).values()), wanted, 1e-5, f"C for {TARGETS[-1]}")
