"""Who is off: rounding that a model stretches accuses nobody, an injected error and its author are found."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest
from onnx import numpy_helper
from typer.testing import CliRunner

from ingot.bundle.bundle import Bundle
from ingot.check import judge, layers, litert, oracle
from ingot.check.judge import error
from ingot.check.truth import formulas_of
from ingot.check.verify import Verification, verify
from ingot.cli import app
from ingot.compression.model import Wish, compress
from ingot.driver import compile_with
from ingot.formula.expr import Array
from ingot.frontends.onnx import read_model
from ingot.ops.infer import infer
from ingot.options import Options
from tests.compress.models import model as encodable
from tests.compress.models import read

CERTAIN = """<ir_version: 10, opset_import: ["" : 21]>
certain (float[4, 64] x, float[64, 256] w) => (float[4, 1] y, float[4, 256] p) {
    a = MatMul(x, w)
    p = Softmax<axis = -1>(a)
    axes = Constant<value_ints = [-1]>()
    s = ReduceSum(p, axes)
    y = Log(s)
}"""
STEPS = "\n    ".join(
    f"m{i} = Sub(one, u{i}) v{i} = Mul(u{i}, m{i}) u{i + 1} = Mul(v{i}, four)" for i in range(24)
)
CHAOS = f"""<ir_version: 10, opset_import: ["" : 21]>
chaos (float[16] x, float[16] w) => (float[16] y, int32[16] i) {{
    weighted = Mul(x, w)
    u0 = Sigmoid(weighted)
    one = Constant<value_float = 1.0>()
    four = Constant<value_float = 3.99>()
    {STEPS}
    thousand = Constant<value_float = 1000.0>()
    y = Mul(u24, thousand)
    i = Cast<to = 6>(y)
}}"""
CANCELLED = """<ir_version: 10, opset_import: ["" : 21]>
cancelled (float[8, 64] x) => (float y) {
    m = ReduceMean(x)
    centred = Sub(x, m)
    y = ReduceSum<keepdims = 0>(centred)
}"""
C99 = Options(target="c99")


def with_weights(text: str, seed: int = 0) -> onnx.ModelProto:
    """The model with random weights `w`, if it has any."""
    model = onnx.parser.parse_model(text)
    for info in [i for i in model.graph.input if i.name == "w"]:
        shape = [d.dim_value for d in info.type.tensor_type.shape.dim]
        values = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(values, "w"))
        model.graph.input.remove(info)
    return model


def spoiled(model: onnx.ModelProto, amount: float) -> onnx.ModelProto:
    """A copy with one weight that is wrong."""
    out = onnx.ModelProto()
    out.CopyFrom(model)
    for tensor in out.graph.initializer:
        values = numpy_helper.to_array(tensor).copy()
        values.reshape(-1)[0] += amount
        tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    return out


def spoiling(amount: float, only_fused: bool = False) -> Callable[[Any, Options], Bundle]:
    """A compiler that gets a weight wrong."""

    def build(model: Any, options: Options) -> Bundle:
        return compile_with(spoiled(model, amount) if options.fuse or not only_fused else model, options)

    return build


def guilty(found: Verification) -> dict[str, str]:
    return {d.name: d.judgement.guilty for d in found.layers if d.judgement}


@pytest.mark.parametrize("text", [CERTAIN, CHAOS, CANCELLED], ids=["certain", "chaos", "cancelled"])
def test_rounding_accuses_nobody(text: str) -> None:
    """The models are so ill-conditioned that two right programs share no digit; a third shows it."""
    found = verify(with_weights(text), Options(target="x86-64-v3"), compile_with)
    apart = [d for d in found.cases[0].outputs if d.judgement]
    assert found.ok and found.first_bad is None and apart, found.verdict
    assert set(guilty(found).values()) == {judge.NEITHER}
    assert all(d.relative > 1e-4 and not d.remark for d in apart)
    assert "nobody is off" in found.verdict


def test_each_layer_is_measured_on_its_own_operands() -> None:
    found = verify(with_weights(CHAOS), Options(target="x86-64-v3"), compile_with)
    judged = [d.judgement for d in found.layers if d.judgement]
    assert all(j.ours < 1e-6 and j.theirs < 1e-6 for j in judged), "each layer rounds once"
    assert max(j.inherited or 0.0 for j in judged) > 0.01
    assert {"y", "i"} <= guilty(found).keys(), "integers made of what differs differ"


@pytest.mark.parametrize("text, name", [(CERTAIN, "a"), (CHAOS, "weighted")], ids=["certain", "chaos"])
def test_a_wrong_weight_is_found_however_ill_conditioned_the_model_is(text: str, name: str) -> None:
    found = verify(with_weights(text), C99, spoiling(0.1))
    assert not found.ok and found.first_bad is not None
    assert found.first_bad.name == name and guilty(found)[name] == judge.INGOT


def test_what_only_the_shipped_object_gets_wrong_is_found() -> None:
    found = verify(with_weights(CERTAIN), C99, spoiling(50.0, only_fused=True))
    assert not found.ok and found.first_bad is None and "comes from fusion" in found.verdict
    wrong = {d.name: d.judgement for d in found.cases[0].outputs if not d.ok}
    assert wrong["p"] is not None and wrong["p"].guilty == judge.INGOT


def test_layers_in_bytes_whose_differences_add_up_do_not_accuse_fusion() -> None:
    """Where sums are large, a tanh stretches what those near 0 may lose."""
    signature, weights = "(float[1,128] x) => (float[1,96] y)", {"w": [128, 96]}
    made = compress(
        encodable(signature, "{ m = MatMul(x, w) y = Tanh(m) }", weights), read, Wish(bits=("2",))
    )
    options = Options(target="x86-64-v2", activations="int8", huffman=True)
    found = verify(made.model, options, compile_with)
    assert not found.ok and found.first_bad is None
    assert "differences add up, held to 1% of max|y|" in found.verdict and "fusion" not in found.verdict


@pytest.fixture
def lying_oracle(monkeypatch: pytest.MonkeyPatch) -> None:
    """An onnxruntime whose softmax is off by a hundredth."""

    def lying(model: onnx.ModelProto) -> oracle.Oracle:
        out = onnx.ModelProto()
        out.CopyFrom(model)
        at = next(i for i, n in enumerate(out.graph.node) if n.op_type == "Softmax")
        (name,) = out.graph.node[at].output
        out.graph.node[at].output[0] = f"{name} right"
        more = np.float32(0.01)
        out.graph.initializer.append(numpy_helper.from_array(more, "more"))
        out.graph.node.insert(at + 1, onnx.helper.make_node("Add", [f"{name} right", "more"], [name]))
        return oracle.oracle(out)

    monkeypatch.setattr(litert, "oracle", lying)
    monkeypatch.setattr(layers, "oracle", lying)


@pytest.mark.usefixtures("lying_oracle")
def test_a_wrong_oracle_is_named(tmp_path: Path) -> None:
    path = tmp_path / "certain.onnx"
    onnx.save(with_weights(CERTAIN), path)
    found = verify(path, C99, compile_with)
    assert found.ok and guilty(found)["p"] == judge.ORACLE
    assert {d.judgement.guilty for d in found.cases[0].outputs if d.judgement} == {judge.ORACLE}
    assert "onnxruntime is off first at 'Softmax' (Softmax): 'p'" in found.verdict
    result = CliRunner().invoke(app, ["verify", str(path), "--target", "c99"])
    assert result.exit_code == 0 and "onnxruntime is off" in result.stderr


@pytest.mark.usefixtures("lying_oracle")
def test_a_wrong_oracle_excuses_nothing() -> None:
    found = verify(with_weights(CERTAIN), C99, spoiling(0.1))
    assert not found.ok and found.first_bad is not None and found.first_bad.name == "a"


@pytest.mark.usefixtures("lying_oracle")
def test_nobody_is_believed_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Formula and code are both Ingot's: without a third party that agrees the oracle is not wrong."""
    for opinion in (None, np.full((4, 256), 0.01, np.float64)):
        monkeypatch.setattr(judge, "second_opinion", lambda *_, opinion=opinion: opinion)
        found = verify(with_weights(CERTAIN), C99, compile_with)
        assert not found.ok and guilty(found)["p"] == judge.DISPUTED
        assert "no third party" in found.verdict


def test_a_tolerance_that_is_given_is_kept() -> None:
    found = verify(with_weights(CERTAIN), Options(target="x86-64-v3"), compile_with, tolerance=1e-4)
    assert not found.ok and all(d.judgement is None for d in found.cases[0].outputs)


def test_without_onnxruntime_it_is_loud(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    path = tmp_path / "cancelled.onnxtxt"
    path.write_text(CANCELLED)
    result = CliRunner().invoke(app, ["verify", str(path), "--target", "c99"])
    assert result.exit_code == 0, result.output
    assert "warning: onnxruntime is not installed" in result.stderr
    assert "pip install 'ingot[verify]'" in result.stderr
    path.write_text(
        '<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]>'
        "g (float[3] x) => (float[3] y) { y = com.microsoft.QuickGelu(x) }"
    )
    result = CliRunner().invoke(app, ["verify", str(path), "--target", "c99"])
    assert result.exit_code == 2 and "pip install 'ingot[verify]'" in result.stderr


HALF = """<ir_version: 10, opset_import: ["" : 21]>
half (float16[3] x, bool c, int64 n) => (float16[3] y, float16[3] z, float16[3] k) {
    wide = Constant<value_float = 0.333>()
    third = Cast<to = 10>(wide)
    y = Mul(x, third)
    z = If (c) <
        then_branch = yes () => (float16[3] t) { t = Sqrt(y) },
        else_branch = no () => (float16[3] e) { e = Identity(x) }
    >
    k = Loop (n, , y) <body = turn (int64 i, bool b, float16[3] v) => (bool b2, float16[3] v2) {
        b2 = Identity(b)
        v2 = Mul(v, third)
    }>
}"""


def test_float64_formulas_round_nothing() -> None:
    graph = infer(read_model(onnx.parser.parse_model(HALF)))
    formulas = formulas_of(graph, {"y", "z", "k"})
    x = np.array([1.1, 60000.0, 0.7], np.float16)
    given: dict[str, Array] = {"x": x, "c": np.array(True), "n": np.array(3)}
    third = np.float64(np.float16(0.333))
    wanted = {"y": x * third, "z": np.sqrt(x * third), "k": x * third**4}
    for name, exact in wanted.items():
        found = formulas.value(formulas.exact, name, given, {})
        np.testing.assert_allclose(found, exact, rtol=1e-15)
        stored = formulas.value(formulas.stored, name, given, {})
        assert stored.dtype == np.float16 and 0 < error(stored, found) < 2e-3
    assert formulas.operands("z", {"x", "c", "n", "y"}) == {"x", "c", "y"}
    given["y"] = np.array([4, 9, 16], np.float16)
    assert formulas.value(formulas.exact, "z", given, {}).tolist() == [2, 3, 4]


def test_neighbours_outside_a_domain_say_nothing_of_rounding() -> None:
    text = '<ir_version: 10, opset_import: ["" : 21]> g (float[2] x) => (float[2] y) { y = Acos(x) }'
    proto = onnx.parser.parse_model(text)
    court = judge.Court(proto, formulas_of(infer(read_model(proto)), {"y"}), {})
    x = np.array([1, -1], np.float32)
    found = np.arccos(x)
    judged = court.output("y", {"x": x}, found, found + np.float32(0.01), 1e-9, is_trusted=False)
    assert judged.guilty == judge.ORACLE and judged.rounding < 1e-6


def test_sums_in_turn_round_as_a_loop_does() -> None:
    graph = infer(read_model(onnx.parser.parse_model(CANCELLED)))
    formulas, x = formulas_of(graph, {"y"}), np.full((8, 64), 0.1, np.float32)
    total = np.float32(0)
    for value in x.reshape(-1):
        total += value
    centred = x - np.float32(total / np.float32(512))
    looped = np.float32(0)
    for value in centred.reshape(-1):
        looped += value
    assert formulas.value(formulas.stored, "y", {"x": x}, {}) == looped != 0


@pytest.mark.parametrize(
    "found, exact, off",
    [
        ([1.0, np.nan, np.inf], [1.0, np.nan, np.inf], 0),
        ([1.0, np.nan], [1.0, 2.0], np.inf),
        ([np.inf], [1e39], 0),  # too large for a float32
        ([np.inf], [-1e39], np.inf),
        ([1.0, 2.5], [1.0, 2.0], 0.25),
        ([1e-7], [0.0], 1e-7),
    ],
)
def test_errors_of_floats(found: list[float], exact: list[float], off: float) -> None:
    assert error(np.array(found, np.float32), np.array(exact)) == pytest.approx(off)


def test_errors_of_integers_are_exact() -> None:
    near = np.array([2**62, 5]), np.array([2**62 + 1, 5])
    assert error(near[0], near[0]) == 0 < error(*near)
    assert error(np.zeros(2, np.int8), np.zeros(3, np.int8)) == np.inf
