"""Part of an ONNX model: --outputs NAME."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import ingot
from ingot.errors import InputError
from tests.models import text

X = np.array([[-1, 2]], np.float32)
BODY = "{ features = Relu(x) y = Add(features, z) }"


def model(body: str = BODY) -> onnx.ModelProto:
    return text(body, "(float[N,2] x, float[N,2] z) => (float[N,2] y)")


def test_a_value_inside_becomes_the_output(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    onnx.save(model(), path)
    for source in (path, model()):
        bundle = ingot.compile(source, target="c99", outputs=("features",))
        assert [v.name for v in bundle.inputs] == ["x"]
        np.testing.assert_array_equal(bundle.run({"x": X})["features"], [[0, 2]])
    assert ingot.compile(path, target="c99", outputs=("features",)).name == "net"
    assert ingot.verify(path, target="c99", outputs=("features",)).ok


def test_what_only_other_outputs_need_is_not_compiled() -> None:
    unknown = model(BODY.replace("Add", "Nonsense"))
    with pytest.raises(InputError):
        ingot.compile(unknown, target="c99")
    bundle = ingot.compile(unknown, target="c99", outputs=("features",))
    assert list(bundle.run({"x": X})) == ["features"]


def test_weights_beside_the_model_are_found(tmp_path: Path) -> None:
    weights = onnx.numpy_helper.from_array(np.arange(800, dtype=np.float32).reshape(2, 400), "w")
    large = text("{ h = MatMul(x, w) y = Relu(h) }", "(float[1,2] x) => (float[1,400] y)")
    large.graph.initializer.append(weights)
    onnx.save(large, tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    bundle = ingot.compile(tmp_path / "m.onnx", target="c99", outputs=("h",))
    np.testing.assert_allclose(bundle.run({"x": X})["h"], X @ np.arange(800).reshape(2, 400))


def test_the_values_of_a_branch_count_as_read() -> None:
    branch = "c = Constant<value_int=1>() d = Cast<to=9>(c)"
    both = "then_branch = g () => (a) { a = Neg(z) }, else_branch = h () => (b) { b = Abs(x) }"
    made = text(
        f"{{ {branch} f = If(d) <{both}> y = Relu(f) }}", "(float[1,2] x, float[1,2] z) => (float[1,2] y)"
    )
    assert [v.name for v in ingot.compile(made, target="c99", outputs=("f",)).inputs] == ["x", "z"]


def test_a_name_that_nothing_makes() -> None:
    with pytest.raises(
        InputError, match=r"outputs= featurs: no node makes it; did you mean 'features'.* outputs: y"
    ):
        ingot.compile(model(), outputs=("featurs",))
