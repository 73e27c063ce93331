"""How much kernels compute, and how: one element at a time, or in vectors."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import numpy_helper, parser

import ingot
from ingot.driver import stages
from ingot.formula.expr import Const, Tensor, Var
from ingot.formula.statements import For, Let, Madd, Statement, Store, When, flatten
from ingot.formula.types import FLOAT32
from ingot.loops.evaluate import run
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


PADDED = """<ir_version: 8, opset_import: ["" : 17]>
net (float[1,{c},6,6] x, float[{d},{c},1,1] w) => (float[1,{d},6,6] y) {{
  s = Conv<group = {c}, pads = [1, 1, 1, 1]>(x, v)
  t = Conv(s, w)
  p = Pad(x, n)
  a = Add(t, p)
  y = Relu(a)
}}"""


@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v4", "aarch64"])
@pytest.mark.parametrize("channels, results", [(24, 28), (48, 96), (5, 7), (96, 100)])
def test_a_residual_with_channels_that_padding_added_is_in_vectors(
    channels: int, results: int, target: str
) -> None:
    """As BlazeFace has them: each part of a register is on one side of the padding."""
    model = parser.parse_model(PADDED.format(c=channels, d=results))
    rng = np.random.default_rng(3)
    v, w = (
        rng.standard_normal(s).astype(np.float32) for s in ((channels, 1, 3, 3), (results, channels, 1, 1))
    )
    pads = np.array([0, 0, 0, 0, 0, results - channels, 0, 0])
    constants = [numpy_helper.from_array(a, n) for n, a in (("v", v), ("w", w), ("n", pads))]
    model.graph.initializer.extend(constants)
    del model.graph.input[1]
    program = stages(model, Options(target=target)).program
    (product,) = (k for k in program.kernels if "contract" in k.generators)
    assert not any(isinstance(s, Store) and s.lanes == 1 for s in flatten(product.body)) or channels < 8
    x = rng.standard_normal((1, channels, 6, 6)).astype(np.float32)
    wanted = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})[0]
    np.testing.assert_allclose(run(program, {"x": x})[0], wanted, atol=2e-5)
