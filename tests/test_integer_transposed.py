"""Transposed convolutions of bytes add integers on every target: onnxruntime's bytes but at ties."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper, parser

import ingot
from ingot.driver import front, stages
from ingot.formula.expr import Array
from ingot.loops.evaluate import run
from ingot.loops.program import calls
from ingot.options import Options
from ingot.passes.exact_transposed import largest
from tests.here import require_runs
from tests.oracles import exact_session

EVALUATED = ("c99", "x86-64-v3", "x86-64-v4-vnni")
COMPILED = ("c99", "x86-64", "x86-64-v3", "aarch64", "cortex-m4")


@dataclass(frozen=True)
class Case:
    """A transposed convolution between DequantizeLinear and QuantizeLinear."""

    channels: int = 8
    features: int = 12
    kernel: tuple[int, ...] = (4, 4)
    stride: int = 2
    attributes: str = "pads=[1,1,1,1]"
    group: int = 1
    x: str = "uint8"
    w: str = "int8"
    w_zero: int = 0
    y: str = "uint8"
    bias: bool = True
    rest: str = "a = Identity(c)"
    size: int = 5

    @property
    def shape(self) -> tuple[int, ...]:
        return (1, self.channels, *(self.size + d for d in range(len(self.kernel))))

    def model(self, result: str = "y") -> onnx.ModelProto:
        """`result`: y, or the floats a that it is made of."""
        per, rank, random = self.features // self.group, len(self.kernel), np.random.default_rng(11)
        ends = np.iinfo(self.w)
        constants = {
            "s": np.array(0.031, np.float32),
            "z": np.array(np.iinfo(self.x).min + 117, self.x),
            "w": random.integers(max(ends.min, -127), ends.max + 1, (self.channels, per, *self.kernel)),
            "ws": random.uniform(0.001, 0.004, per).astype(np.float32),
            "wz": np.full(per, self.w_zero, self.w),
            "b": random.standard_normal(self.features).astype(np.float32),
            "t": np.array(0.009 * np.sqrt(self.channels / self.group * np.prod(self.kernel)), np.float32),
            "u": np.array(np.iinfo(self.y).min + 101, self.y),
        }
        constants["w"] = constants["w"].astype(self.w)
        extents = ",".join(map(str, self.shape))
        kind = self.y if result == "y" else "float"
        strides = [self.stride] * rank
        made = parser.parse_model(
            f"""<ir_version: 8, opset_import: ["" : 17]> g ({self.x}[{extents}] q) => ({kind} {result}) {{
            x = DequantizeLinear(q, s, z) k = DequantizeLinear<axis=1>(w, ws, wz)
            c = ConvTranspose<strides={strides}, group={self.group}, {self.attributes}>
                (x, k{", b" if self.bias else ""})
            {self.rest} {"y = QuantizeLinear(a, t, u)" if result == "y" else ""} }}"""
        )
        used = {i for n in made.graph.node for i in n.input}
        made.graph.initializer.extend(
            numpy_helper.from_array(v, n) for n, v in constants.items() if n in used
        )
        made.graph.output[0].type.tensor_type.ClearField("shape")
        return made

    def feed(self) -> dict[str, Array]:
        ends = np.iinfo(self.x)
        random = np.random.default_rng(5)
        return {"q": random.integers(ends.min, ends.max + 1, self.shape).astype(self.x)}


CASES = {
    "many channels": Case(),
    "no bias": Case(bias=False),
    "to few channels": Case(channels=17, features=3),
    "to one channel": Case(channels=20, features=1, kernel=(3, 3), stride=1),
    "depthwise": Case(features=8, group=8),
    "groups": Case(group=2),
    "signed": Case(x="int8", y="int8"),
    "unsigned weights": Case(w="uint8", w_zero=128),
    "clipped": Case(rest="a = Relu(c)", bias=False),
    "Tanh": Case(features=3, rest="b1 = Sigmoid(c) a = Mul(c, b1)"),
    "HardSwish": Case(rest="a = HardSwish(c)"),
    "gaps": Case(kernel=(2, 2), stride=3, attributes="output_padding=[1,0]"),
    "dilated": Case(kernel=(3, 3), attributes="dilations=[2,3], pads=[1,0,2,1]"),
    "1-D": Case(kernel=(5,), attributes="pads=[2,1]", size=20),
    "as convolutions are": Case(channels=16, features=16, kernel=(3, 3), stride=1, size=7),
}


def oracle(case: Case, result: str = "y") -> Array:
    plain = onnxruntime.SessionOptions()
    plain.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return np.asarray(exact_session(case.model(result), plain).run(None, case.feed())[0])


def assert_like(got: Array, case: Case) -> None:
    """onnxruntime's bytes; their neighbours where its floats lie half-way between two integers."""
    wanted = oracle(case)
    (step,) = (numpy_helper.to_array(t) for t in case.model().graph.initializer if t.name == "t")
    off = got.astype(int) - wanted
    near = oracle(case, "a").astype(np.float64) / step
    fraction = np.abs(near - np.floor(near) - 0.5)
    assert np.abs(off).max() <= 1 and (fraction[off != 0] < 1e-4).all()


@pytest.mark.parametrize("name", CASES)
def test_same_bytes_everywhere(name: str) -> None:
    case = CASES[name]
    base: Array | None = None
    for target in EVALUATED:
        (got,) = run(stages(case.model(), Options(target=target)).program, case.feed())
        base = got if base is None else base
        np.testing.assert_array_equal(got, base, target)
    assert base is not None
    assert_like(base, case)


@pytest.mark.parametrize("target", COMPILED)
@pytest.mark.parametrize("name", ["many channels", "to few channels", "depthwise"])
def test_compiled(name: str, target: str) -> None:
    require_runs(target)
    case = CASES[name]
    assert_like(ingot.compile(case.model(), target=target).run(case.feed())["y"], case)


@pytest.mark.parametrize(
    "name, target, operators",
    [
        ("no bias", "x86-64-v3", ["QLinearConvTranspose", "Identity"]),
        ("no bias", "c99", ["QLinearConvTranspose", "Identity"]),
        ("HardSwish", "c99", ["ConvTransposeInteger", "Cast", "Mul", "Add", "HardSwish", "QuantizeLinear"]),
        ("to few channels", "cortex-m4", ["ConvTransposeInteger"]),
        ("to few channels", "x86-64-v3", ["DequantizeLinear", "ConvTranspose", "Mul", "Add"]),
    ],
)
def test_nodes(name: str, target: str, operators: list[str]) -> None:
    """Integers, but floats of the same numbers where only they fill vectors."""
    case = CASES[name]
    if name == "no bias":
        model = case.model()
        del model.graph.node[3]
        model.graph.node[3].input[0] = "c"
        operators = operators[:1]
    else:
        model = case.model()
    assert [n.op for n in front(model, Options(target=target)).nodes][: len(operators)] == operators


def test_weights_beyond_int8_stay_floats() -> None:
    """Differences of uint8 weights from 3 are no int8."""
    case = Case(w="uint8", w_zero=3)
    assert "ConvTranspose" in [n.op for n in front(case.model(), Options(target="c99")).nodes]


@pytest.mark.parametrize("features", [1, 2, 3, 4])
@pytest.mark.parametrize(("stride", "dilation"), [(1, 1), (2, 1), (1, 2)])
def test_no_algorithm_rounds_sums_of_floats(stride: int, dilation: int, features: int) -> None:
    """Winograd's would: its transforms have fractions."""
    how = f"pads=[1,1,1,1], dilations=[{dilation},{dilation}]"
    case = Case(channels=64, features=features, kernel=(3, 3), stride=stride, attributes=how, size=24)
    for target in ("x86-64-v3", "x86-64-v4-vnni", "aarch64"):
        program = stages(case.model(), Options(target=target)).program
        assert "winograd" not in {f for c in calls(program.steps) for f in c.kernel.generators}


def test_the_largest_sum_is_that_of_a_phase() -> None:
    weights = np.random.default_rng(0).integers(-9, 10, (6, 2, 4, 5)).astype(np.int8)
    sizes = np.abs(weights.astype(int)).sum(0)
    phases = [sizes[:, a::2, b::3].sum((1, 2)).max() for a in range(2) for b in range(3)]
    assert largest(weights, {"strides": (2, 3)}) == max(phases)
    assert largest(weights, {}) == sizes.sum((1, 2)).max()
    groups = np.abs(weights.astype(int)).reshape(3, 2, 2, 4, 5).sum(1)
    assert largest(weights, {"group": 3}) == groups.sum((2, 3)).max()


def test_sums_that_are_no_floats_stay_integers() -> None:
    case = Case(channels=900, features=2, kernel=(2, 2), stride=1, attributes="pads=[0,0,0,0]", size=3)
    for target in ("c99", "x86-64-v3"):
        assert front(case.model(), Options(target=target)).nodes[0].op == "ConvTransposeInteger"
