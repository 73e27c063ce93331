"""How much kernels compute, and how: one element at a time, or in vectors."""

from __future__ import annotations

import pytest
from onnx import parser

import ingot
from ingot.driver import stages
from ingot.formula.expr import Const, Tensor, Var
from ingot.formula.statements import For, Let, Madd, Statement, Store, When
from ingot.formula.types import FLOAT32
from ingot.loops.operations import Work, scalar_kernels, work
from ingot.options import Options

T = Tensor("t", FLOAT32, (64,))
AT = Var("i", 64)
RUNNING = """<ir_version: 10, opset_import: ["" : 21]>
net (float[1,8,400] x) => (float[1,8,400] z, float[1,8,400] y) <int64 axis = {2}> {
  z = CumSum(x, axis)
  y = Relu(x)
}"""


def test_stores_and_arithmetic_count_by_their_lanes() -> None:
    body: tuple[Statement, ...] = (
        Let("v", T[AT] + T[AT] * Const(2.0, FLOAT32), 8),
        Madd("v", T[AT], T[AT], 8),
        Store(T[AT], Var("v"), 8),
        Store(T[AT], T[AT] + T[AT]),
    )
    assert work(body, {}) == Work(scalar=2, vector=16 + 8 + 8)


def test_loops_multiply_and_the_longer_side_of_a_branch_counts() -> None:
    one = Store(T[AT], T[AT] + T[AT])
    loop = For("i", Const(0), Const(64), 4, (one,))
    assert work((loop,), {}) == Work(scalar=2 * 16, vector=0)
    assert work((When(T[AT] > 0, (one,), (loop,)),), {}).scalar == 32


def test_addresses_and_loads_are_no_operations() -> None:
    assert work((Let("x", T[(AT * 3 + 1,)]),), {}) == Work(0, 0)


def test_what_is_scalar_is_named_with_its_share() -> None:
    program = stages(parser.parse_model(RUNNING), Options(target="x86-64-v3")).program
    ((kernel, share),) = scalar_kernels(program)
    assert kernel.nodes == ("CumSum",) and 0.5 < share < 1


def test_strict_speed() -> None:
    model = parser.parse_model(RUNNING)
    with pytest.raises(ingot.UnsupportedError, match=r"one element at a time .* x86-64-v3.*CumSum"):
        ingot.compile(model, target="x86-64-v3", strict_speed=True)
    with pytest.raises(ingot.UnsupportedError, match="c99 has no vectors"):
        ingot.compile(model, target="c99", strict_speed=True)
    relu = parser.parse_model(RUNNING.replace("z = CumSum(x, axis)", "z = Neg(x)"))
    made = ingot.compile(relu, target="x86-64-v3", strict_speed=True)
    assert all(k["scalar_share"] < 0.2 for k in made.manifest["kernels"])


def test_the_manifest_tells_shares() -> None:
    made = ingot.compile(parser.parse_model(RUNNING), target="x86-64-v3")
    shares = {n: k["scalar_share"] for k in made.manifest["kernels"] for n in k["nodes"]}
    assert shares["CumSum"] > 0.9 and shares["Relu"] == 0
