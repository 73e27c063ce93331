"""Formulas of equal signatures become one kernel, called with each one's tensors: and no others do."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from ingot.driver import stages
from ingot.formula.compute import Compute, Reduction, accumulator
from ingot.formula.expr import Const, Expr, Tensor, Var, maximum
from ingot.formula.signature import signature
from ingot.formula.types import FLOAT32
from ingot.loops.evaluate import run
from ingot.loops.program import calls
from ingot.options import Options
from tests.ops.rows import check, floats

A, B, C, D = (Tensor(name, FLOAT32, (4,)) for name in "abcd")
N = Var("n", 4)
K, SHORT = Var("k", 4), Var("k", 3)
ACC = accumulator(FLOAT32)


def stage(value: Expr, out: Tensor = D, reduction: Reduction | None = None) -> tuple[Compute, ...]:
    return (Compute(out, (N,), value, reduction),)


def total(axis: Var) -> Reduction:
    return Reduction("sum", (axis,), Const(0.0, FLOAT32), A[axis])


def test_only_the_tensors_may_differ() -> None:
    words, tensors = signature(stage(A[N] + B[N]))
    assert (words, tensors) == (signature(stage(C[N] + B[N]))[0], (D, A, B))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (stage(A[N] + B[N]), stage(A[N] + A[N])),
        (stage(A[N] + B[N]), stage(A[N] * B[N])),
        (stage(maximum(A[N], 0.0)), stage(maximum(A[N], -0.0))),
        (stage(A[N] + B[N]), (Compute(D, (K,), A[K] + B[K]),)),
        (stage(ACC, D, total(K)), stage(ACC, D, total(SHORT))),
        (stage(A[N] + 1.0), stage(A.at(N, outside=1.0))),
    ],
    ids=["one tensor twice", "operation", "sign of zero", "name of the axis", "extent", "outside"],
)
def test_everything_else_tells_stages_apart(one: tuple[Compute, ...], other: tuple[Compute, ...]) -> None:
    assert signature(one)[0] != signature(other)[0]


def test_layers_are_lowered_once_and_called_with_their_own_weights() -> None:
    """Six products by six matrices: one kernel, six packed constants, and a seventh call reuses the first."""
    nodes, constants = [], []
    for n in range(7):
        nodes.append(helper.make_node("MatMul", [f"x{n}", f"w{n % 6}"], [f"x{n + 1}"], name=f"layer{n}"))
        if n < 6:
            constants.append(numpy_helper.from_array(floats(12, 12, seed=n) / np.float32(4), f"w{n}"))
    edge = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3, 12]) for name in ("x0", "x7")]
    graph = helper.make_graph(nodes, "layers", edge[:1], edge[1:], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.checker.check_model(model)
    x = floats(3, 12, seed=9)
    wanted = x
    for n in range(7):
        wanted = wanted @ numpy_helper.to_array(constants[n % 6])
    for target in ("c99", "x86-64-v3"):
        program = stages(model, Options(target=target, name="layers")).program
        assert (len(program.kernels), len(program.constants)) == (1, 6)
        assert [c.nodes for c in calls(program.steps)] == [(f"layer{n}",) for n in range(7)]
        check(run(program, {"x0": x}), [wanted], 1e-5, f"loops for {target}")
