"""NaN, infinities, zeros, denormals, the ends of integers: the C of every target does what the formulas do.

What the formulas do is compared with the oracles by the rows of `tests/ops`, whose C is that of one target;
docs/math.md says what holds where the oracles disagree.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import ingot
from ingot.frontends.onnx import read_model
from ingot.loops.interpret import interpret
from ingot.loops.region import formulate_graph
from ingot.ops.infer import infer
from tests import program
from tests.bundle.build import need
from tests.here import require_runs
from tests.ops.rows import Array, extremes, onnx_type, special

ON = {
    "float32": ("c99", "x86-64", "x86-64-v3", "x86-64-v4"),
    "float64": ("x86-64", "x86-64-v4"),
    "int8": ("x86-64-v4",),
    "int32": ("c99", "x86-64-v3"),
    "uint32": ("x86-64-v4",),
    "int64": ("c99", "x86-64-v4"),
    "uint64": ("c99", "x86-64-v3"),
}
NAN, INF = float("nan"), float("inf")


@dataclass
class Model:
    """Nodes over some inputs, all results of which are outputs."""

    inputs: dict[str, Array]
    constants: dict[str, Array] = field(default_factory=dict)
    nodes: list[onnx.NodeProto] = field(default_factory=list)

    def add(self, op: str, *names: str, outputs: int = 1, **attributes: Any) -> None:
        made = [f"{op}_{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, names, made, **attributes))

    def constant(self, value: Any, like: Array) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.array(value, like.dtype)
        return name

    def proto(self) -> onnx.ModelProto:
        ends = [helper.make_tensor_value_info(n, onnx_type(a), a.shape) for n, a in self.inputs.items()]
        made = [helper.make_empty_tensor_value_info(o) for node in self.nodes for o in node.output]
        values = [numpy_helper.from_array(a, n) for n, a in self.constants.items()]
        graph = helper.make_graph(self.nodes, "special", ends, made, values)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def grid(values: Array) -> tuple[Array, Array]:
    """Every pair of values."""
    a, b = np.meshgrid(values, values)
    return a.reshape(-1), b.reshape(-1)


def floats(dtype: Any) -> Model:
    """Each pair of special values, and each value beside literals; every value of an axis at every place."""
    a, b = grid(special(dtype))
    rng = np.random.default_rng(0)
    rows = rng.choice(np.array([NAN, INF, -INF, 1, -1, 0, 3, 3], dtype), (7, 6, 17), p=[0.1, *[0.9 / 7] * 7])
    image = rng.choice(np.array([NAN, INF, -INF, 1, -1, 0, 3, 4], dtype), (1, 17, 6, 7))
    m = Model({"a": a, "b": b, "rows": rows, "image": image})
    for op in ("Max", "Min", "Div", "Mul", "Sub", "Equal", "Less", "LessOrEqual"):
        m.add(op, "a", "b")
    m.add("Mod", "a", "b", fmod=1)
    for op in ("Relu", "Sign", "Abs", "Floor", "Round", "IsNaN", "IsInf", "Sqrt", "Reciprocal", "LeakyRelu"):
        m.add(op, "a")
    for value in (NAN, INF, -INF, 0, 1):
        c = m.constant(value, a)
        for op in ("Max", "Min"):
            m.add(op, "a", c)
            m.add(op, c, "a")
        m.add("Clip", "a", c, m.constant(2, a))
        m.add("Clip", "a", m.constant(-1, a), c)
        m.add("Less", "a", c)
    for axis in (0, 1, 2):
        along = m.constant([axis], np.zeros(0, np.int64))
        for op in ("ReduceMax", "ReduceMin"):
            m.add(op, "rows", along)
        for op in ("ArgMax", "ArgMin"):
            m.add(op, "rows", axis=axis)
            m.add(op, "rows", axis=axis, select_last_index=1)
        for largest in (0, 1):
            k = m.constant([rows.shape[axis] - 2], np.zeros(0, np.int64))
            m.add("TopK", "rows", k, outputs=2, axis=axis, largest=largest)
    for stride in (1, 2):
        m.add("MaxPool", "image", kernel_shape=[3, 3], strides=[stride, stride], pads=[1, 0, 1, 1])
        m.add("MaxPool", "image", outputs=2, kernel_shape=[2, 3], strides=[stride, 1])
    m.add("GlobalMaxPool", "image")
    return m


def integers(dtype: Any) -> Model:
    """Each pair of the ends of a type and of what lies near 0 and near the width."""
    near = np.array([3, 5, 8, 31, 32, 63, 64, 100], dtype)
    a, b = grid(np.concatenate([extremes(dtype), near]))
    m = Model({"a": a, "b": b})
    for op in ("Div", "Mod", "Add", "Sub", "Mul", "Max", "Min", "Pow"):
        m.add(op, "a", "b")
    m.add("Mod", "a", "b", fmod=1)
    if a.dtype.kind == "u":
        m.add("BitShift", "a", "b", direction="LEFT")
        m.add("BitShift", "a", "b", direction="RIGHT")
    else:
        for op in ("Neg", "Abs", "Sign"):
            m.add(op, "a")
    for value in (0, 1, 3, np.iinfo(dtype).max, np.iinfo(dtype).min):
        c = m.constant(value, a)
        for op in ("Div", "Mod", "Max", "Min", "Mul"):
            m.add(op, "a", c)
            m.add(op, c, "a")
    return m


def formulas(m: Model) -> dict[str, Array]:
    """What the formulas' own evaluation says of every output."""
    graph = infer(read_model(m.proto()))
    return dict(
        zip((v.name for v in graph.outputs), interpret(formulate_graph(graph), m.inputs), strict=True)
    )


def model(kind: str) -> Model:
    return floats(np.dtype(kind)) if kind.startswith("float") else integers(np.dtype(kind))


@pytest.mark.parametrize("kind, name", [(kind, name) for kind, names in ON.items() for name in names])
def test_every_target_does_what_the_formulas_do(kind: str, name: str) -> None:
    require_runs(name)
    m = model(kind)
    found = ingot.compile(m.proto(), name="special", target=name).run(m.inputs)
    for output, wanted in formulas(m).items():
        np.testing.assert_array_equal(found[output], wanted, err_msg=output)


@pytest.mark.parametrize("kind", ["float32", "int32", "int64"])
def test_no_undefined_behaviour(kind: str) -> None:
    need("gcc")
    m = model(kind)
    (answer,) = program.run([program.member(m.proto(), m.inputs, "special")])
    for found, (output, wanted) in zip(answer.runs[0], formulas(m).items(), strict=True):
        np.testing.assert_array_equal(found, wanted, err_msg=output)
