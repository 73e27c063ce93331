"""Maps: ZipMap's output, the inputs of CastMap and DictVectorizer; each against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import ingot
from ingot.check.oracle import without_maps
from ingot.check.verify import verify
from ingot.driver import compile_with
from ingot.errors import InputError
from ingot.onnx_backend import prepare
from ingot.options import Options
from tests.ops.rows import Array, floats
from tests.ops.trees import classifier

ML = "ai.onnx.ml"
COVERED = {(ML, op) for op in ("ZipMap", "CastMap", "DictVectorizer")}
"""Operators that have no rows, for a row is made of tensors."""
FLOAT, INT64, STRING = TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING


def build(op: str, x: onnx.ValueInfoProto, y: onnx.ValueInfoProto, **attributes: Any) -> onnx.ModelProto:
    node = helper.make_node(op, [x.name], [y.name], domain=ML, name="node", **attributes)
    imports = [helper.make_opsetid("", 21), helper.make_opsetid(ML, 1)]
    graph = helper.make_graph([node], "maps", [x], [y])
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def map_info(name: str, key: int, value: int) -> onnx.ValueInfoProto:
    type_ = onnx.TypeProto()
    type_.map_type.key_type = key
    type_.map_type.value_type.tensor_type.elem_type = value
    return helper.make_value_info(name, type_)


def maps_info(name: str, key: int) -> onnx.ValueInfoProto:
    type_ = onnx.TypeProto()
    type_.sequence_type.elem_type.CopyFrom(map_info("", key, FLOAT).type)
    return helper.make_value_info(name, type_)


def tensor(name: str, type_: int, shape: Any = None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, type_, shape)


def oracle(model: onnx.ModelProto, value: Any) -> Any:
    import onnxruntime as ort

    return ort.InferenceSession(model.SerializeToString()).run(None, {"x": value})[0]


@pytest.mark.parametrize("shape", [(3, 2), (2,), (1, 2)])
@pytest.mark.parametrize("labels", [[7, -1], ["no", "Größe"]])
def test_zip_map(shape: tuple[int, ...], labels: list[Any]) -> None:
    key = INT64 if isinstance(labels[0], int) else STRING
    name = "classlabels_int64s" if key == INT64 else "classlabels_strings"
    model = build("ZipMap", tensor("x", FLOAT, shape), maps_info("y", key), **{name: labels})
    x = floats(*shape)
    bundle = ingot.compile(model, name="zip", target="c99")
    assert bundle.run({"x": x})["y"] == oracle(model, x)
    (port,) = bundle.manifest["ports"]["outputs"]
    assert port == {"name": "y", "kind": "maps", "members": {"data": "y"}, "keys": labels}
    assert "A row of y: a map of (" in bundle.files["zip.h"].decode()
    assert prepare(model).run([x])[0] == oracle(model, x)


def test_a_classifier_with_maps_as_skl2onnx_makes_it() -> None:
    """Labels, and scores zipped to a list of dicts."""
    nodes = [
        helper.make_node(
            "LinearClassifier",
            ["x"],
            ["label", "scores"],
            domain=ML,
            classlabels_strings=["a", "b", "c"],
            coefficients=[0.5, 1.0, -1.0, 0.25, 0.0, 1.0],
            intercepts=[0.0, 0.5, -0.5],
            post_transform="SOFTMAX",
        ),
        helper.make_node(
            "ZipMap", ["scores"], ["probability"], domain=ML, classlabels_strings=["a", "b", "c"]
        ),
    ]
    outputs = [tensor("label", STRING, [None]), maps_info("probability", STRING)]
    graph = helper.make_graph(nodes, "classifier", [tensor("x", FLOAT, [4, 2])], outputs)
    imports = [helper.make_opsetid("", 21), helper.make_opsetid(ML, 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=10)
    import onnxruntime as ort

    x = floats(4, 2)
    label, wanted = ort.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    found = ingot.compile(model, name="classifier", target="c99").run({"x": x})
    assert found["label"].tolist() == label.tolist()
    for row, other in zip(found["probability"], wanted, strict=True):
        assert row == pytest.approx(other, rel=1e-5)


ENTRIES: dict[Any, float] = {5: 0.5, 2: -1.25, 0: 3.75, 9: 2.0}
TEXTS: dict[Any, float] = {"b": 1.5, "Größe": 2.5, "": -1.0}


@pytest.mark.parametrize(
    ("key", "value", "entries", "vocabulary"),
    [
        (INT64, FLOAT, ENTRIES, [9, 1, 2, 2]),
        (INT64, TensorProto.DOUBLE, ENTRIES, [9, 1]),
        (STRING, FLOAT, TEXTS, ["a", "b", "", "Größe"]),
        (STRING, TensorProto.DOUBLE, TEXTS, ["b"]),
        (STRING, INT64, {"a": 5, "c": -7}, ["c", "b", "a"]),
        (INT64, STRING, {3: "drei", 4: "vier"}, [4, 5, 3]),
        (INT64, FLOAT, {}, [1, 2]),
    ],
)
def test_dict_vectorizer(key: int, value: int, entries: dict[Any, Any], vocabulary: list[Any]) -> None:
    name = "string_vocabulary" if key == STRING else "int64_vocabulary"
    shape = [1, len(vocabulary)]
    model = build(
        "DictVectorizer", map_info("x", key, value), tensor("y", value, shape), **{name: vocabulary}
    )
    y = ingot.compile(model, name="dict", target="c99", capacity={"x": 6}).run({"x": entries})["y"]
    nothing: Any = "" if value == STRING else 0
    assert y.tolist() == [[entries.get(k, nothing) for k in vocabulary]]
    if value == FLOAT and entries:  # its Python face knows no other values
        assert np.array_equal(y, oracle(model, entries))
    assert np.array_equal(prepare(model).run([entries])[0], y)


@pytest.mark.parametrize("to", ["TO_FLOAT", "TO_INT64"])
@pytest.mark.parametrize(("form", "size"), [("DENSE", 1), ("SPARSE", 7), ("SPARSE", 12)])
def test_cast_map(to: str, form: str, size: int) -> None:
    out = FLOAT if to == "TO_FLOAT" else INT64
    attributes = {"cast_to": to, "map_form": form, "max_map": size}
    model = build("CastMap", map_info("x", INT64, FLOAT), tensor("y", out), **attributes)
    bundle = ingot.compile(model, name="cast", target="c99", capacity={"x": 5})
    found, wanted = bundle.run({"x": ENTRIES})["y"], oracle(model, ENTRIES)
    assert found.dtype == wanted.dtype and np.array_equal(found, wanted)


def test_cast_map_of_strings() -> None:
    entries = {4: "vier", 1: "eins"}
    attributes = {"cast_to": "TO_STRING", "map_form": "SPARSE", "max_map": 5}
    model = build("CastMap", map_info("x", INT64, STRING), tensor("y", STRING), **attributes)
    found = ingot.compile(model, name="cast", target="c99", capacity={"x": 5}).run({"x": entries})["y"]
    assert found.tolist() == [["0.f", "eins", "0.f", "0.f", "vier"]]


@pytest.mark.parametrize(
    ("value", "to", "entries", "wanted"),
    [
        (STRING, "TO_FLOAT", {3: "2.5", 1: "-1e3"}, [[0, -1000, 0, 2.5]]),
        (STRING, "TO_INT64", {3: "25", 0: "-7"}, [[-7, 0, 0, 25]]),
        (FLOAT, "TO_STRING", {2: 0.5, 0: -3.0}, [["-3.0", "0.f", "0.5", "0.f"]]),
    ],
)
def test_cast_map_between_strings_and_numbers(value: int, to: str, entries: Any, wanted: Any) -> None:
    """Texts are read and written as Cast does; onnxruntime writes six decimals."""
    out = {"TO_FLOAT": FLOAT, "TO_INT64": INT64, "TO_STRING": STRING}[to]
    attributes = {"cast_to": to, "map_form": "SPARSE", "max_map": 4}
    model = build("CastMap", map_info("x", INT64, value), tensor("y", out), **attributes)
    found = ingot.compile(model, name="cast", target="c99", capacity={"x": 5}).run({"x": entries})["y"]
    assert found.tolist() == wanted


def errors(model: onnx.ModelProto, value: Any, **options: Any) -> str:
    with pytest.raises(InputError) as caught:
        ingot.compile(model, name="wrong", target="c99", **options).run({"x": value})
    return str(caught.value)


def test_errors() -> None:
    x = tensor("x", FLOAT, [3, 2])
    model = build("ZipMap", x, maps_info("y", INT64), classlabels_int64s=[1, 2, 3])
    assert "shape [3, 2] for 3 labels" in errors(model, floats(3, 2))
    assert "given twice" in errors(build("ZipMap", x, maps_info("y", INT64), classlabels_int64s=[1, 1]), 0)
    assert "one list of labels" in errors(build("ZipMap", x, maps_info("y", INT64)), 0)
    model = build("CastMap", map_info("x", INT64, FLOAT), tensor("y", FLOAT), map_form="SPARSE", max_map=4)
    assert "capacity={'x': N}" in errors(model, {})
    assert "has room for 2" in errors(model, {1: 1.0, 2: 2.0, 3: 3.0}, capacity={"x": 2})
    assert "is a map: give a dict" in errors(model, [1.0], capacity={"x": 2})
    assert "INDEX" in errors(model, {-1: 1.0}, capacity={"x": 2})
    model = build("CastMap", tensor("x", FLOAT, [2]), tensor("y", FLOAT))
    assert "is not a map" in errors(model, floats(2))
    model = build("CastMap", map_info("x", INT64, FLOAT), tensor("y", FLOAT), cast_to="TO_BOOL")
    assert "cast_to 'TO_BOOL' is not one of" in errors(model, {}, capacity={"x": 2})


def test_a_length_beyond_the_room_is_refused() -> None:
    """What C passes is not believed: the bundle checks the length."""
    model = build(
        "DictVectorizer", map_info("x", INT64, FLOAT), tensor("y", FLOAT, [1, 1]), int64_vocabulary=[1]
    )
    bundle = ingot.compile(model, name="length", target="c99", capacity={"x": 2})
    arrays: dict[str, Array] = {"x.keys": np.zeros(2, np.int64), "x": np.zeros(2, np.float32)}
    found = [bundle.runner.call({**arrays, "x.length": np.array(n, np.int64)})[0] for n in (2, 3, -1)]
    assert found == [0, -4, -4]


def pipeline(text: bool = False) -> onnx.ModelProto:
    """What skl2onnx makes of an imputer, a scaler and a forest: rows of any number, scores zipped to maps."""
    trees = classifier(
        floats(1, 3), 5, 4, 4, 0.0, trees={"trees": 12, "depth": 6}, text=text, post_transform="NONE"
    )
    labels = {k: v for k, v in trees.attributes.items() if k.startswith("classlabels")}
    nan = float("nan")
    nodes = [
        helper.make_node(
            "Imputer", ["x"], ["full"], domain=ML, imputed_value_floats=[0.5], replaced_value_float=nan
        ),
        helper.make_node(
            "Scaler", ["full"], ["scaled"], domain=ML, offset=[0.1, 0.2, 0.3], scale=[1.0, 2.0, 0.5]
        ),
        helper.make_node(trees.op, ["scaled"], ["label", "scores"], domain=ML, **trees.attributes),
        helper.make_node("Normalizer", ["scores"], ["shares"], domain=ML, norm="L1"),
        helper.make_node("ZipMap", ["shares"], ["probability"], domain=ML, **labels),
    ]
    key = STRING if text else INT64
    outputs = [tensor("label", key, [None]), maps_info("probability", key)]
    graph = helper.make_graph(nodes, "pipeline", [tensor("x", FLOAT, [None, 3])], outputs)
    imports = [helper.make_opsetid("", 21), helper.make_opsetid(ML, 3)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


@pytest.mark.parametrize("text", [False, True])
def test_verify_compares_maps(text: bool) -> None:
    """At one row and at 64, of one bundle."""
    found = verify(pipeline(text), Options(define={"x:0": (1, 64)}, target="c99"), compile_with)
    assert found.ok and [c.extents for c in found.cases] == [{"x_0": 1}, {"x_0": 64}]
    shown = {d.name: d.shape for d in found.cases[1].outputs}
    assert shown == {"label": (64,), "probability": (64, 4), "probability keys": (4,)}


def test_peers_get_scores_instead_of_maps() -> None:
    import onnxruntime as ort

    x = floats(5, 3)
    plain, maps = (
        ort.InferenceSession(m.SerializeToString()).run(None, {"x": x})[1]
        for m in (without_maps(pipeline()), pipeline())
    )
    assert plain.tolist() == [list(m.values()) for m in maps]
