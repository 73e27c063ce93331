"""`ingot import` from and to every form of ONNX, and `ingot inspect` of what does not compile."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from typer.testing import CliRunner

from ingot.cli import app
from ingot.frontends.onnx import read_proto
from tests.models import text

W = np.array([[0.1, np.nan], [np.inf, -0.0]], np.float32)


def model(weights: np.ndarray = W) -> onnx.ModelProto:
    made = text("{ y = MatMul(x, w) }", "(float[N,2] x) => (float[N,2] y)")
    made.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    return made


def import_(*words: str) -> str:
    said = CliRunner().invoke(app, ["import", *words])
    assert said.exit_code in (0, 2), said.output
    return said.stderr if said.exit_code else ""


def test_back_and_forth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    whole = model(np.array([[0.5, 1], [2, -3]], np.float32))
    onnx.save(whole, "a.onnx")
    for source, to in (("a.onnx", "b.pbtxt"), ("b.pbtxt", "c.onnxtxt"), ("c.onnxtxt", "d.onnx")):
        assert import_(source, "-o", to) == ""
    assert Path("b.pbtxt").read_text().startswith("ir_version: 8")
    assert Path("c.onnxtxt").read_text().startswith("<")
    found = onnx.load("d.onnx")
    assert list(found.graph.node) == list(whole.graph.node) and found.graph.input == whole.graph.input
    np.testing.assert_array_equal(numpy_helper.to_array(found.graph.initializer[0]), [[0.5, 1], [2, -3]])


def test_every_bit_of_a_weight(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What ONNX's syntax would round is refused, and goes through protobuf's text as it is."""
    monkeypatch.chdir(tmp_path)
    exact = np.array([[1 / 3, np.nan], [np.pi, -0.0]], np.float32)
    onnx.save(model(exact), "a.onnx")
    said = import_("a.onnx", "-o", "b.onnxtxt")
    assert not said or ("-o b.pbtxt" in said and not Path("b.onnxtxt").exists())
    if not said:
        assert (
            numpy_helper.to_array(read_proto("b.onnxtxt").graph.initializer[0]).tobytes() == exact.tobytes()
        )
    assert import_("a.onnx", "-o", "b.pbtxt") == ""
    assert read_proto("b.pbtxt") == model(exact)


def test_weights_beside_the_model_come_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in").mkdir()
    onnx.save_model(model(), "in/a.onnx", save_as_external_data=True, size_threshold=0, location="a.data")
    assert import_("in/a.onnx", "-o", "b.onnx") == ""
    assert numpy_helper.to_array(onnx.load("b.onnx").graph.initializer[0]).tobytes() == W.tobytes()


def test_a_name_says_the_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Binary ONNX in a file called .txt or .json would surprise whoever opens it."""
    monkeypatch.chdir(tmp_path)
    onnx.save(model(), "a.onnx")
    assert "'.txt' does not say in which form" in import_("a.onnx", "-o", "b.txt")
    assert not Path("b.txt").exists()
    assert import_("a.onnx", "-o", "b") == "" and onnx.load("b") == model()


def test_a_shape_that_nothing_declares_is_no_scalar(tmp_path: Path) -> None:
    made = text("{ y = Relu(x) }", "(float[N,3] x) => (float[] y)")
    made.graph.output[0].type.tensor_type.ClearField("shape")
    onnx.save(made, tmp_path / "a.onnx")
    words = ["import", str(tmp_path / "a.onnx"), "-o", str(tmp_path / "b.onnx")]
    assert "not declared" in CliRunner().invoke(app, words).stdout
    (shape,) = [v["shape"] for v in json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)["outputs"]]
    assert shape is None


def test_what_does_not_compile_is_shown(tmp_path: Path) -> None:
    node = helper.make_node("Oddity", ["x"], ["t"], "odd", domain="own")
    made = text("{ y = Relu(t) }", "(float[N,T,3] x) => (float[N,T,3] y)", '"" : 17, "own" : 1')
    made.graph.node.insert(0, node)
    onnx.save(made, tmp_path / "m.onnx")
    said = CliRunner().invoke(app, ["inspect", str(tmp_path / "m.onnx")])
    assert said.exit_code == 0
    assert said.stdout.splitlines() == [
        "graph g(x: float[N, T, 3]) -> y: float[N, T, 3]",
        "  t = own.Oddity(x)  # odd",
        "  y: float[N, T, 3] = Relu(t)",
    ]
    assert "unsupported operators: own.Oddity (opset 1)" in said.stderr and "does not compile" in said.stderr
    data = json.loads(CliRunner().invoke(app, ["inspect", str(tmp_path / "m.onnx"), "--json"]).stdout)
    assert data["unsupported"] == ["own.Oddity (opset 1)"] and data["dimensions"] == ["N", "T"]


def test_free_dimensions_have_their_names(tmp_path: Path) -> None:
    onnx.save(text("{ y = Relu(x) }", "(float[N,T] x) => (float[N,T] y)"), tmp_path / "m.onnx")
    said = CliRunner().invoke(app, ["inspect", str(tmp_path / "m.onnx")])
    assert said.exit_code == 0 and "graph g(x: float[N, T]) -> y: float[N, T]" in said.stdout
    assert "--define T=..." in said.stderr and "unsupported" not in said.stderr
