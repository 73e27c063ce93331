"""Inputs that become constants, and batches that are 1 unless somebody says otherwise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper
from typer.testing import CliRunner

import ingot
from ingot.cli import app
from ingot.driver import front
from ingot.errors import InputError, UnsupportedError
from ingot.log import forget
from ingot.options import Options
from tests.models import text

RNG = np.random.default_rng(3)


def voice_detector() -> onnx.ModelProto:
    """The shape of silero-vad: two networks in an If on the sample rate, whose states are of other sizes."""

    def side(name: str, width: int) -> str:
        return (
            f"{name}_branch = {name} () => (float[1,{width}] {name}_s) {{ {name}_w = Constant<value = float"
            f"[{width},4] {{{','.join(['0.5'] * 4 * width)}}}>() {name}_h = Gemm<transB=1>(x, {name}_w)"
            f" {name}_s = Tanh({name}_h) }}"
        )

    body = (
        "{ rate = Constant<value = int64 {16000}>() fast = Equal(sr, rate)"
        f" h = If <{side('then', 3)}, {side('else', 2)}> (fast)"
        " q = Constant<value = float[3,1] {1,2,3}>() y = MatMul(h, q) }"
    )
    return text(body, "(float[N,4] x, int64 sr) => (float[N,M] y)")


def test_an_if_on_the_sample_rate(tmp_path: Path) -> None:
    """The branch for the other rate does not fit what comes behind; with the rate fixed it is not there."""
    x = RNG.standard_normal((1, 4)).astype(np.float32)
    model = voice_detector()
    onnx.save(model, tmp_path / "vad.onnx")
    bundle = ingot.compile(tmp_path / "vad.onnx", fix={"sr": 16000})
    assert [i["name"] for i in bundle.manifest["inputs"]] == ["x"]
    right = np.tanh(x @ np.full((4, 3), 0.5, np.float32)) @ np.array([[1], [2], [3]], np.float32)
    np.testing.assert_allclose(bundle.run({"x": x})["y"], right, rtol=1e-5)
    graph = front(tmp_path / "vad.onnx", Options(fix={"sr": 16000}))
    assert "If" not in [n.op for n in graph.nodes]
    with pytest.raises(InputError):
        ingot.compile(tmp_path / "vad.onnx", fix={"sr": 8000})


def test_a_branch_that_is_not_taken_may_hold_anything() -> None:
    sides = "then_branch = t () => (float[2] p) {p = Relu(x)}, "
    sides += "else_branch = e () => (float[2] q) {q = own.Odd(x)}"
    model = text(f"{{ y = If <{sides}> (c) }}", "(float[2] x, bool c) => (float[2] y)", '"" : 17, "own" : 1')
    found = ingot.compile(model, fix={"c": True}, target="c99").run({"x": np.array([-1, 2], np.float32)})
    assert found["y"].tolist() == [0, 2]
    for fix in ({}, {"c": False}):
        with pytest.raises(UnsupportedError, match=r"own\.Odd"):
            ingot.compile(model, fix=fix)


ADD = text("{ y = Add(x, m) }", "(float[N,3] x, float[N,3] m) => (float[N,3] y)")
GOOD: dict[str, tuple[Any, Any]] = {
    "nested lists": ([[1, 2, 3], [4, 5, 6]], [[1, 2, 3], [4, 5, 6]]),
    "an array": (np.full((1, 3), 2, np.int8), [[2, 2, 2]]),
}


@pytest.mark.parametrize("case", GOOD)
def test_values(case: str) -> None:
    """Where the fixed input names a dimension, its elements say what that is."""
    value, right = GOOD[case]
    bundle = ingot.compile(ADD, fix={"m": value}, target="c99")
    x = np.zeros((len(right), 3), np.float32)
    assert bundle.run({"x": x})["y"].tolist() == right


def test_a_number_fills_what_it_fixes() -> None:
    bundle = ingot.compile(ADD, fix={"m": 0.5}, define={"N": 2}, target="c99")
    assert bundle.run({"x": np.ones((2, 3), np.float32)})["y"].tolist() == [[1.5] * 3] * 2


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no input": ({"z": 1}, "the model has no such input; it has: x, m"),
    "another shape": ({"m": [1, 2]}, "its shape is Nx3, not 2"),
    "rows of two lengths": ({"m": [[1, 2, 3], [4]]}, "rows differ in length"),
    "a word": ({"m": "high"}, "holds float32, write numbers"),
    "a number without a shape": ({"m": 1.0}, "its shape is Nx3, not one element"),
    "an object": ({"m": {"a": 1}}, "hold no numbers"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_fixed(case: str) -> None:
    fix, words = BAD[case]
    with pytest.raises(InputError, match=words):
        ingot.compile(ADD, fix=fix)


@pytest.mark.parametrize("value", [2**40, 1.5, -(2**31) - 1, float("nan")])
def test_integers_stay_what_they_are(value: float) -> None:
    model = text("{ y = Add(x, m) }", "(int32[2] x, int32[2] m) => (int32[2] y)")
    with pytest.raises(InputError, match="holds int32, which some of the elements are not"):
        ingot.compile(model, fix={"m": value})


def test_weights_beside_the_model(tmp_path: Path) -> None:
    """A fixed input is written into a copy, which must not lose what lies in other files."""
    weights = numpy_helper.from_array(np.arange(300, dtype=np.float32).reshape(3, 100), "w")
    node = helper.make_node("MatMul", ["x", "w"], ["t"])
    add = helper.make_node("Add", ["t", "m"], ["y"])
    ends = [helper.make_tensor_value_info(n, 1, s) for n, s in (("x", [1, 3]), ("m", []), ("y", [1, 100]))]
    graph = helper.make_graph([node, add], "g", ends[:2], ends[2:], [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    onnx.save_model(model, tmp_path / "m.onnx", save_as_external_data=True, size_threshold=0)
    x = RNG.standard_normal((1, 3)).astype(np.float32)
    found = ingot.compile(tmp_path / "m.onnx", fix={"m": 2}).run({"x": x})["y"]
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    right = session.run(None, {"x": x, "m": np.array(2, np.float32)})[0]
    np.testing.assert_allclose(found, right, rtol=1e-5)


@pytest.fixture
def _unheard() -> None:
    forget()


@pytest.mark.usefixtures("_unheard")
def test_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(ADD, "m.onnx")
    np.save("m.npy", np.ones((2, 3), np.float32))
    np.save("x.npy", np.ones((2, 3), np.float32))
    for words in (
        ["run", "m.onnx", "--fix", "m=@m.npy", "--input", "x=x.npy", "--json"],
        ["verify", "m.onnx", "--fix", "m=[[1,2,3],[4,5,6]]", "--json"],
        ["inspect", "m.onnx", "--fix", "m=1", "--define", "N=2"],
    ):
        said = CliRunner().invoke(app, words)
        assert said.exit_code == 0, said.output
    for word, reason in (
        ("m", "write INPUT=VALUE"),
        ("m=[1", "is not JSON"),
        ("m=@no.npy", "no such file"),
        ("z=1", "no such input"),
    ):
        said = CliRunner().invoke(app, ["compile", "m.onnx", "--fix", word])
        assert said.exit_code == 2 and reason in said.stderr and said.stderr.count("\n") == 1


@pytest.mark.usefixtures("_unheard")
def test_a_free_batch_is_one_and_said_so(capsys: pytest.CaptureFixture[str]) -> None:
    model = text("{ y = Relu(x) }", "(float[N,3] x) => (float[N,3] y)")
    graph = front(model, Options())
    assert graph.inputs[0].shape == (1, 3)
    front(model, Options())
    note = "ingot: note: batch dimension N is 1; --define N=... changes it\n"
    assert capsys.readouterr().err == note  # once
    assert front(model, Options(define={"N": 4})).inputs[0].shape == (4, 3)
    assert capsys.readouterr().err == ""


def test_other_free_dimensions_are_asked_for() -> None:
    model = text("{ y = Relu(x) }", "(float[N,T] x) => (float[N,T] y)")
    with pytest.raises(InputError, match=r"unknown dimensions T: add --define T=\.\.\."):
        front(model, Options())
    square = text("{ y = Relu(x) }", "(float[N,N] x) => (float[N,N] y)")  # no batch: it is a side too
    with pytest.raises(InputError, match="unknown dimensions N"):
        front(square, Options())
