"""`ingot verify`: agreement is found, a broken operator is found and named, the oracle says who it is."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx.parser
import pytest
from typer.testing import CliRunner

from ingot.bundle.bundle import Bundle
from ingot.check import layers
from ingot.check.compare import compare
from ingot.check.inputs import index_limits, random_inputs
from ingot.check.judge import DISPUTED
from ingot.check.oracle import oracle
from ingot.check.verify import verify
from ingot.cli import app
from ingot.driver import compile_with, stages
from ingot.formula.expr import Expr
from ingot.formula.types import DTYPES, FLOAT32, INT64, DType
from ingot.graph.ir import Graph, Node, Value
from ingot.ops import registry
from ingot.options import Options
from tests.probes.test_winograd import convolution

DIGITS = Path(__file__).parent.parent / "examples" / "digits" / "digits.onnx"
SMALL = """<ir_version: 10, opset_import: ["" : 21]>
small (float[N, 4] x, float[4] b) => (float[N, 4] y) {
    sum = Add(x, b)
    positive = Relu(sum)
    less = Sub(positive, b)
    y = Mul(less, x)
}"""


@pytest.fixture
def broken_sub(monkeypatch: pytest.MonkeyPatch) -> None:
    """A definition that is wrong by a hundredth."""
    versions = registry._OPERATORS["", "Sub"]
    define = versions[0].define

    def wrong(f: registry.Builder, *inputs: Any) -> Any:
        right = define(f, *inputs)
        assert not isinstance(right, tuple)
        axes = f.axes(right.shape)
        value: Expr = right[axes]
        return f.map(axes, value + 0.01)

    patched = [replace(versions[0], define=wrong)]
    monkeypatch.setitem(registry._OPERATORS, ("", "Sub"), patched)


def test_layers_are_computed_as_they_ship() -> None:
    """What one looks at keeps its layout, and with it the fast convolution that the bundle has."""
    model, seen = convolution(16, 16, (12, 12), residual=True), []

    def build(proto: Any, options: Options) -> Bundle:
        program = stages(proto, options).program
        seen.append(any("transformed" in t.name for k in program.kernels for t in k.parameters))
        return compile_with(proto, options)

    found = verify(model, Options(target="x86-64-v3"), build, layers=True)
    assert found.ok and [d.name for d in found.layers] == ["a", "c", "d", "y"]
    assert seen == [True, True]


def test_a_right_model_is_right_layer_by_layer() -> None:
    found = verify(onnx.parser.parse_model(SMALL), Options(define={"N": 3}), compile_with, layers=True)
    assert found.ok and found.oracle == "onnxruntime" and found.first_bad is None
    assert [(d.name, d.op) for d in found.layers][:2] == [("sum", "Add"), ("positive", "Relu")]
    assert len(found.layers) == 4 and all(d.relative < 1e-6 for d in found.layers)


@pytest.mark.parametrize("is_inner", [False, True])
def test_an_oracle_rounds_no_more_than_the_formula(is_inner: bool) -> None:
    """onnxruntime's MatMulNBits of accuracy_level 4 rounds activations to int8: it is off by a percent."""
    rng = np.random.default_rng(2)
    product = "MatMulNBits<K=64, N=6, block_size=32, accuracy_level=4>(x, b, s)"
    body = f"y = com.microsoft.{product}"
    if is_inner:
        branch = "() => (float[1,6] z) { z = com.microsoft." + product + " }"
        body = f"y = If<then_branch = t {branch}, else_branch = e {branch}>(c)"
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]>'
        f"g (float[1,64] x, bool c) => (float[1,6] y) {{ {body} }}"
    )
    codes = rng.integers(0, 256, (6, 2, 16), dtype=np.uint8)
    scales = rng.random((6, 2)).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(codes, "b"))
    model.graph.initializer.append(onnx.numpy_helper.from_array(scales, "s"))
    found = verify(model, Options(), compile_with)
    assert found.ok and found.oracle == "onnxruntime" and not found.layers


def test_the_digits_model_is_right_layer_by_layer() -> None:
    found = verify(DIGITS, Options(), compile_with, layers=True)
    assert found.ok and len(found.layers) == 11 and all(d.relative < 1e-5 for d in found.layers)


@pytest.mark.usefixtures("broken_sub")
@pytest.mark.parametrize("at_once", [1, 96])
def test_the_broken_layer_is_named(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers, "OUTPUTS_AT_ONCE", at_once)
    found = verify(onnx.parser.parse_model(SMALL), Options(define={"N": 3}), compile_with)
    assert not found.ok and not found.cases[0].ok
    assert found.first_bad is not None and (found.first_bad.op, found.first_bad.name) == ("Sub", "less")
    assert found.first_bad.judgement is not None and found.first_bad.judgement.guilty == DISPUTED
    assert [d.name for d in found.layers if d.ok and not d.judgement] == ["sum", "positive"]


@pytest.mark.usefixtures("broken_sub")
def test_the_command_reports_the_layer_and_exits_1(tmp_path: Path) -> None:
    path = tmp_path / "small.onnxtxt"
    path.write_text(SMALL)
    arguments = ["verify", str(path), "--define", "N=2", "--seed", "5"]
    table = CliRunner().invoke(app, arguments)
    assert table.exit_code == 1, table.output
    assert "the first bad layer is 'Sub' (Sub): 'less'" in table.stderr and "BAD" in table.stdout
    result = CliRunner().invoke(app, [*arguments, "--json"])
    report = json.loads(result.stdout)
    assert result.exit_code == 1 and not report["ok"] and report["first_bad"]["op"] == "Sub"
    loose = CliRunner().invoke(app, [*arguments, "--tolerance", "0.5"])
    assert loose.exit_code == 0, loose.output


def test_given_inputs_are_used(tmp_path: Path) -> None:
    path = tmp_path / "small.onnxtxt"
    path.write_text(SMALL)
    np.save(tmp_path / "x.npy", np.full((2, 4), np.nan, np.float32))
    arguments = ["verify", str(path), "--define", "N=2", "--input", f"x={tmp_path / 'x.npy'}", "--json"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["cases"][0]["outputs"][0]["max_abs"] == 0
    np.save(tmp_path / "x.npy", np.zeros((3, 4), np.float32))
    assert CliRunner().invoke(app, arguments).exit_code == 2


def test_weights_in_a_file_beside_the_model(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(
        convolution(3, 4, (8, 8)), path, save_as_external_data=True, size_threshold=0, location="weights"
    )
    assert (tmp_path / "weights").stat().st_size
    result = CliRunner().invoke(app, ["verify", str(path)])
    assert result.exit_code == 0, result.output


def test_the_reference_evaluator_serves_what_onnxruntime_refuses() -> None:
    text = """<ir_version: 10, opset_import: ["" : 21]>
    narrow (bfloat16[3] x) => (bfloat16[3] y) { y = Add(x, x) }"""
    found = oracle(onnx.parser.parse_model(text))
    assert found.name == "reference" and found.reason
    x = np.array([1, 2, 3], ml_dtypes.bfloat16)
    np.testing.assert_array_equal(found.run({"x": x})["y"], x + x)


def test_random_inputs_depend_on_the_seed_and_stay_within_indexed_tensors() -> None:
    table, ids = Value("table", FLOAT32, (7, 3)), Value("ids", INT64, (50,))
    rows = Value("rows", FLOAT32, (50, 3))
    graph = Graph("g", [table, ids], [rows], [Node("Gather", [table, ids], [rows])])
    assert index_limits(graph) == {"ids": 7}
    tensors = [
        {"name": "ids", "dtype": "int64", "shape": ["N"]},
        {"name": "image", "dtype": "uint8", "shape": [100]},
    ]
    first, again, other = (random_inputs(graph, tensors, {"N": 50}, seed) for seed in (1, 1, 2))
    assert set(first["ids"]) == set(range(7)) and first["image"].max() > 200
    np.testing.assert_array_equal(first["ids"], again["ids"])
    assert (first["image"] != other["image"]).any()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16])
def test_distance_in_ulp(dtype: Any) -> None:
    right = np.array([1, -1, 0, np.nan, np.inf], dtype)
    next_to = np.array([1 + float(ml_dtypes.finfo(dtype).eps), -1, -0.0, np.nan, np.inf], dtype)
    found = compare(next_to, right)
    assert found.ok and found.ulp == 1 and found.max_abs == pytest.approx(float(ml_dtypes.finfo(dtype).eps))


@pytest.mark.parametrize("t", [t for t in DTYPES.values() if t.is_narrow and t.bits <= 8], ids=str)
def test_neighbours_of_few_bits(t: DType) -> None:
    """8-bit floats may be rounded the other way; integers and what is farther off may not."""
    codes = np.arange(1 << t.bits).astype(np.uint8).view(t.numpy)
    right = codes[1:4]
    assert compare(right, right).ok
    one, two = compare(codes[[1, 3, 3]], right), compare(codes[[1, 2, 1]], right)
    assert one.ulp == 1 and one.ok == t.is_float
    assert not two.ok


def test_differences_that_no_tolerance_allows() -> None:
    x = np.zeros(3, np.float32)
    assert not compare(x, np.zeros(4, np.float32), 1.0).ok
    assert not compare(x, np.zeros(3, np.float64), 1.0).ok
    wild = compare(np.array([0, np.nan, 0], np.float32), x, 1e9)
    assert not wild.ok and "1 elements" in wild.remark
    assert not compare(np.array([np.inf], np.float32), np.array([-np.inf], np.float32)).ok
    assert not compare(np.array([-128, 5], np.int8), np.array([127, 5], np.int8)).ok
    assert compare(np.array([-128], np.int8), np.array([127], np.int8)).ulp == 255
    assert compare(np.array([99], np.int64), np.array([100], np.int64), 0.02).ok
