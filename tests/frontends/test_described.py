"""Inputs of ONNX models that the user describes: --model-input NAME,TYPE,SHAPE."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from typer.testing import CliRunner

import ingot
from ingot.cli import app
from ingot.errors import InputError
from tests.models import text

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def undeclared() -> onnx.ModelProto:
    """As in Glow's tests: the node reads `input`, which nothing declares; its result is declared an input."""
    model = text("{ scores = ArgMax<axis=1, keepdims=0>(input) }", "(float[4] scores) => (int64[2] scores)")
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 9
    return model


def test_an_input_that_nothing_declares(tmp_path: Path) -> None:
    onnx.save(undeclared(), tmp_path / "m.onnx")
    with pytest.raises(InputError, match="reads 'input', which nothing before it makes"):
        ingot.compile(tmp_path / "m.onnx", infer_shapes=True)
    for model in (tmp_path / "m.onnx", undeclared()):
        bundle = ingot.compile(model, target="c99", model_inputs=["input,float,[2,3]"], infer_shapes=True)
        assert [i["name"] for i in bundle.manifest["inputs"]] == ["input"]
        assert bundle.run({"input": X})["scores"].tolist() == [2, 2]


def test_free_dimensions_have_the_shape_wherever_they_stand() -> None:
    model = text("{ y = Add(x, z) }", "(float[N,M] x, float[N,M] z) => (float[N,M] y)")
    bundle = ingot.compile(model, target="c99", model_inputs=["x,float,2x3"])
    assert [i["shape"] for i in bundle.manifest["inputs"]] == [[2, 3], [2, 3]]
    assert bundle.run({"x": X, "z": X})["y"].tolist() == (X + X).tolist()


def test_dimensions_below_zero_are_free(tmp_path: Path) -> None:
    """As PaddlePaddle's exporter writes them; the bundle is still called after the file."""
    model = text("{ y = Relu(x) }", "(float[9,3] x) => (float[9,3] y)")
    for value in (model.graph.input[0], model.graph.output[0]):
        value.type.tensor_type.shape.dim[0].dim_value = -1
    onnx.save(model, tmp_path / "paddle.onnx")
    bundle = ingot.compile(tmp_path / "paddle.onnx", target="c99", model_inputs=["x,float,[2,3]"])
    assert bundle.manifest["inputs"][0]["shape"] == [2, 3] and "paddle.h" in bundle.files


def test_integers_with_a_scale_are_declared_so() -> None:
    model = text("{ y = Identity(x) }", "(int8[N,3] x) => (int8[N,3] y)")
    bundle = ingot.compile(model, target="c99", model_inputs=["x,int8q,0.5,-3,[2,3]"])
    assert bundle.manifest["inputs"][0]["scale"] == 0.5
    assert bundle.manifest["inputs"][0]["zero_point"] == -3


def test_the_importer_writes_what_was_said(tmp_path: Path) -> None:
    onnx.save(undeclared(), tmp_path / "m.onnx")
    words = ["import", str(tmp_path / "m.onnx"), "-o", str(tmp_path / "n.onnx"), "--model-input"]
    assert CliRunner().invoke(app, [*words, "input,float,[2,3]"]).exit_code == 0
    (found,) = onnx.load(tmp_path / "n.onnx").graph.input
    assert found.name == "input" and [d.dim_value for d in found.type.tensor_type.shape.dim] == [2, 3]


REFUSED = {
    "nobody reads it": ("q,float,[2]", "the model has no such input; it has: x"),
    "a constant": ("c,float,[3]", "the model makes this value itself"),
    "a result": ("y,float,[3]", "the model makes this value itself"),
    "another type": ("x,int32,[2,3]", r"the model declares it as float32 of \?x3"),
    "another extent": ("x,float,[2,4]", r"the model declares it as float32 of \?x3"),
    "another rank": ("x,float,[2,3,1]", r"the model declares it as float32 of \?x3"),
    "no words of it": ("x", r"write NAME,TYPE,\[SHAPE\]"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_refused(case: str) -> None:
    word, reason = REFUSED[case]
    model = text("{ y = Add(x, c) }", "(float[N,3] x) => (float[N,3] y)")
    model.graph.initializer.append(onnx.numpy_helper.from_array(X[0], "c"))
    with pytest.raises(InputError, match=reason):
        ingot.compile(model, model_inputs=[word])
