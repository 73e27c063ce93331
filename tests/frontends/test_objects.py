"""Models that are objects of Keras and scikit-learn, by stand-ins for what these packages do."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import ingot
from ingot.errors import InputError
from ingot.frontends.sklearn import envelope
from tests.keras.files import archive, layer, sequential

LINEAR = """<ir_version: 10, opset_import: ["" : 21]>
linear (float[rows, 3] X) => (float[rows, 1] y) <float[3, 1] w = {1, 2, 3}> { y = MatMul(X, w) }"""


def of(package: str, kind: str, /, **members: Any) -> Any:
    """An object of a class that is derived from one of a package's."""
    base = type("Base", (), {"__module__": f"{package}.base"})
    return type(kind, (base,), {"__module__": "users", **members})()


def saved(_: Any, path: Path) -> None:
    weights = {
        "layers/dense/vars/0": np.full((4, 2), 0.5, np.float32),
        "layers/dense/vars/1": np.ones(2, np.float32),
    }
    archive(path, sequential(layer("Dense", "dense", batch_input_shape=[None, 4], units=2)), weights)


def refused(*_: Any, **__: Any) -> None:
    raise RuntimeError("a layer has no config\nmore of it")


def test_a_keras_model_is_read_as_it_saves_itself() -> None:
    model = of("keras", "Sequential", name="twice", save=saved)
    bundle = ingot.compile(model)
    assert bundle.name == "twice"
    (name,) = (v.name for v in bundle.inputs)
    (y,) = bundle.run({name: np.ones((1, 4), np.float32)}).values()
    np.testing.assert_array_equal(y, [[3, 3]])
    assert ingot.verify(model).ok


def test_a_keras_model_that_cannot_be_saved() -> None:
    with pytest.raises(InputError, match=r"Keras cannot save net: RuntimeError: a layer has no config$"):
        ingot.compile(of("keras", "Model", name="net", save=refused))


@pytest.fixture
def converter(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """skl2onnx that remembers what it was asked."""
    asked: dict[str, Any] = {}

    def to_onnx(model: Any, example: Any = None, **options: Any) -> onnx.ModelProto:
        asked.update(options, example=example)
        return onnx.parser.parse_model(LINEAR)

    types_of: Any = types.ModuleType("skl2onnx.common.data_types")
    types_of.FloatTensorType = tuple
    package: Any = types.ModuleType("skl2onnx")
    package.to_onnx = to_onnx
    for name, module in {
        "": package,
        ".common": types.ModuleType("c"),
        ".common.data_types": types_of,
    }.items():
        monkeypatch.setitem(sys.modules, f"skl2onnx{name}", module)
    return asked


def test_an_estimator_is_converted_with_its_features(converter: dict[str, Any]) -> None:
    bundle = ingot.compile(of("sklearn", "Ridge", n_features_in_=3), define={"rows": 2})
    assert bundle.name == "Ridge" and converter["initial_types"] == [("X", (None, 3))]
    np.testing.assert_array_equal(bundle.run({"X": np.ones((2, 3), np.float32)})["y"], [[6], [6]])
    assert "options" not in converter
    ingot.compile(of("sklearn", "Forest", n_features_in_=3, classes_=[0, 1]), [[1.0, 2.0, 3.0]])
    assert converter["options"] == {"zipmap": False} and converter["example"] == [[1.0, 2.0, 3.0]]


class Container:
    """What skl2onnx hands a converter, collected as a graph; names are unique without its scope's help."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def add_initializer(self, name: str, kind: int, shape: list[int], content: list[float]) -> None:
        self.constants.append(onnx.helper.make_tensor(name, kind, shape, content))

    def add_node(self, kind: str, inputs: Any, outputs: Any, op_version: int, **more: Any) -> None:
        self.nodes.append(onnx.helper.make_node(kind, inputs, outputs, **more))

    def get_unique_variable_name(self, name: str) -> str:
        return f"{name}{len(self.nodes)}_{len(self.constants)}"

    get_unique_operator_name = get_unique_variable_name


def test_an_elliptic_envelope() -> None:
    """Mahalanobis' distance, as scikit-learn defines score and label."""
    rng, made = np.random.default_rng(0), Container()
    half, location, offset = rng.normal(size=(4, 4)), rng.normal(size=4), -5.0
    model = types.SimpleNamespace(location_=location, precision_=half @ half.T, offset_=offset)
    operator = types.SimpleNamespace(
        raw_operator=model, input_full_names=["X"], output_full_names=["label", "scores"]
    )
    envelope(made, operator, made)
    sides = (
        [onnx.helper.make_tensor_value_info("X", 1, [50, 4])],
        [
            onnx.helper.make_tensor_value_info("label", 7, [50, 1]),
            onnx.helper.make_tensor_value_info("scores", 1, [50, 1]),
        ],
    )
    graph = onnx.helper.make_graph(made.nodes, "envelope", *sides, made.constants)
    proto = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=8)
    x = rng.normal(size=(50, 4)).astype(np.float32)
    label, scores = ingot.compile(proto).run({"X": x}).values()
    wanted = -(((x - location) @ model.precision_) * (x - location)).sum(1, keepdims=True) - offset
    np.testing.assert_allclose(scores, wanted, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(label, np.where(wanted >= 0, 1, -1))
    assert 0 < (label == 1).sum() < 50


def test_estimators_that_cannot_be_converted(
    converter: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match=r"Ridge is not fitted; call its fit\(\) first"):
        ingot.compile(of("sklearn", "Ridge"))
    monkeypatch.setattr(sys.modules["skl2onnx"], "to_onnx", refused)
    with pytest.raises(InputError, match="skl2onnx cannot convert Ridge: RuntimeError: a layer"):
        ingot.compile(of("sklearn", "Ridge", n_features_in_=3))
    monkeypatch.setitem(sys.modules, "skl2onnx", None)
    with pytest.raises(
        InputError, match=r"compiling Ridge needs skl2onnx, .*; pip install 'ingot\[sklearn\]'"
    ):
        ingot.compile(of("sklearn", "Ridge", n_features_in_=3))


def test_other_objects_are_no_models() -> None:
    for thing in (3, print, np.ones(3)):
        with pytest.raises(InputError, match="is not a model: give a path"):
            ingot.compile(thing)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="example_inputs and dynamic_shapes are for a module"):
        ingot.compile(of("keras", "Model", save=saved), [1])
