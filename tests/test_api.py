"""The Python API: the verbs of the command line, typed, with results that show themselves."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import onnx
import pytest

import ingot
from ingot.api.words import in_python
from ingot.options import OptionFields, Options
from ingot.tables import Result

DIGITS = Path(__file__).parent.parent / "examples" / "digits"
MODEL = DIGITS / "digits.onnx"
VERBS = (
    "compile",
    "load",
    "verify",
    "inspect",
    "profile",
    "quantize",
    "compress",
    "evaluate",
    "bench",
    "report",
)
ZERO = np.zeros((1, 1, 8, 8), np.float32)
DYNAMIC = """<ir_version: 10, opset_import: ["" : 21]>
tiny (float[N, M] x) => (float[N, M] y) { y = Relu(x) }"""
SEQUENCE = """<ir_version: 10, opset_import: ["" : 21]>
pick (seq(float[2]) s, int64 n) => (float[2] y) { y = SequenceAt(s, n) }"""


@pytest.fixture(scope="module")
def images() -> dict[str, np.ndarray]:
    with np.load(DIGITS / "test_images.npz") as tests:
        return {"image": tests["images"][:32].astype(np.float32), "labels": tests["labels"][:32]}


@pytest.fixture(scope="module")
def bundle() -> ingot.Bundle:
    return ingot.compile(MODEL, emit=["c", "obj"])


def test_every_verb_is_public_and_documented() -> None:
    assert set(VERBS) <= set(ingot.__all__)
    for verb in VERBS:
        assert (getattr(ingot, verb).__doc__ or "").count(".") >= 1, verb


def test_options_as_keywords_are_those_of_the_record() -> None:
    assert get_type_hints(OptionFields) == get_type_hints(Options)


@pytest.mark.parametrize("verb", VERBS)
def test_no_parameter_is_of_any_type(verb: str) -> None:
    """`object` is what PyTorch's exporter takes; all else has a type, and `**options` names each."""
    signature = inspect.signature(inspect.unwrap(getattr(ingot, verb)))
    for name, parameter in signature.parameters.items():
        assert parameter.annotation is not inspect.Parameter.empty, name
        assert "Any" not in str(parameter.annotation), name
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            assert parameter.annotation == "Unpack[OptionFields]"
    assert "Any" not in str(signature.return_annotation)


def shows_itself(found: Result, word: str) -> None:
    assert word in repr(found), repr(found)
    page = found._repr_html_()
    assert page.startswith(("<div><table>", "<pre>")) and word.replace("<", "&lt;") in page


def test_a_bundle_shows_its_costs(bundle: ingot.Bundle, tmp_path: Path) -> None:
    shows_itself(bundle, "134,592 MACs")
    assert bundle.as_dict()["manifest"]["name"] == "digits"
    again = ingot.load(bundle.save(tmp_path / "out"))
    assert again.object == bundle.object


def test_a_bundle_says_what_it_takes_and_gives(bundle: ingot.Bundle) -> None:
    (image,), (scores,) = bundle.inputs, bundle.outputs
    assert (image.name, image.type, image.shape) == ("image", "float32", (1, 1, 8, 8))
    assert (scores.name, scores.kind, scores.shape) == ("scores", "tensor", (1, 10))


def test_extents_of_run_time_and_sequences_are_said() -> None:
    dynamic = ingot.compile(onnx.parser.parse_model(DYNAMIC), define={"N": (1, 4), "M": 3})
    assert dynamic.inputs[0].shape == ("N", 3)
    sequence = ingot.compile(onnx.parser.parse_model(SEQUENCE), capacity={"s": (4, 2)})
    assert [(v.name, v.kind, v.shape) for v in sequence.inputs] == [
        ("s", "sequence", ()),
        ("n", "tensor", ()),
    ]


def test_verify_a_model_and_a_bundle(bundle: ingot.Bundle, images: dict[str, np.ndarray]) -> None:
    found = ingot.verify(MODEL, feeds={"image": images["image"][:1]}, math="exact")
    assert found.ok and found.as_dict()["verdict"] == found.verdict
    shows_itself(found, "scores")
    assert ingot.verify(bundle, model=MODEL).ok
    with pytest.raises(ingot.InputError, match=r"holds no model to be compared with; add model="):
        ingot.verify(bundle)
    other = onnx.load(MODEL)
    other.producer_name = "another"
    with pytest.raises(ingot.InputError, match="from another model"):
        ingot.verify(bundle, model=other)
    with pytest.raises(ingot.InputError, match="target: a bundle's options are in its manifest"):
        ingot.verify(bundle, model=MODEL, target="c99")


def test_a_bundle_of_other_code_does_not_verify() -> None:
    """What ships is compared: the object of the bundle, not one that is compiled anew."""
    shipped = ingot.compile(MODEL)
    flawed = onnx.load(MODEL)
    flawed.graph.initializer[0].raw_data = bytes(len(flawed.graph.initializer[0].raw_data))
    wrong = ingot.compile(flawed, name="digits")
    wrong.manifest["model_sha256"] = shipped.manifest["model_sha256"]
    assert not ingot.verify(wrong, model=MODEL).ok


def test_inspect_stages_and_bundles(bundle: ingot.Bundle) -> None:
    graph = ingot.inspect(MODEL)
    shows_itself(graph, "conv1")
    assert len(graph.as_dict()["nodes"]) == 11 and "<svg" in graph.svg() and "digraph" in graph.dot()
    plan = ingot.inspect(MODEL, stage="plan", target="c99")
    shows_itself(plan, "Arena")
    with pytest.raises(ingot.InputError, match="draws the stages graph and program"):
        plan.dot()
    with pytest.raises(ingot.InputError, match="stage= fusing: there is no such stage"):
        ingot.inspect(MODEL, stage="fusing")
    shows_itself(ingot.inspect(bundle), "digits_conv1")


def test_an_input_is_fixed_for_a_profile_and_for_what_it_quantises() -> None:
    text = """<ir_version: 10, opset_import: ["" : 21]>
    net (float[1, 4] x, float gain) => (float[1, 4] y) <float[4, 4] w = {
      1, 2, 3, 4, 5, 6, 7, 8, 8, 7, 6, 5, 4, 3, 2, 1}> { s = Mul(x, gain) y = MatMul(s, w) }"""
    model = onnx.parser.parse_model(text)
    found = ingot.profile(model, {"x": np.eye(4, dtype=np.float32)}, fix={"gain": 2})
    made = ingot.quantize(model, found, fix={"gain": 2})
    assert [v.name for v in made.model.graph.input] == ["x"]
    with pytest.raises(ingot.InputError, match="profile"):
        ingot.quantize(model, found)


def test_profile_quantize_and_evaluate_arrays(images: dict[str, np.ndarray], tmp_path: Path) -> None:
    found = ingot.profile(MODEL, {"image": images["image"]})
    assert found.samples == 32
    shows_itself(found, "image")
    made = ingot.quantize(MODEL, found, keep_float=["dense"])
    shows_itself(made, "stays float")
    assert [r["note"] != "" for r in made.as_dict()["layers"] if r["name"] == "dense"] == [True]
    onnx.checker.check_model(onnx.load(made.save(tmp_path / "m.onnx")))
    scores = ingot.evaluate([MODEL, ingot.compile(made)], images)
    assert scores.scores[0].samples == 32 and scores.as_dict()[1]["values"]["top-1"] > 80
    shows_itself(scores, "top-1")
    from_file = ingot.quantize(MODEL, found.save(tmp_path / "p.yaml"), keep_float=["dense"])
    assert from_file.model.SerializeToString() == made.model.SerializeToString()
    with pytest.raises(ingot.InputError, match="rounding= adaptive measures; add data="):
        ingot.quantize(MODEL, found, rounding="adaptive")


def test_compress_by_layers(tmp_path: Path) -> None:
    made = ingot.compress(MODEL, density={"dense": 0.5}, bits={"fc": 5, "conv": 8})
    assert made.choices["dense.weight"].density == 0.5 and made.choices["dense.weight"].bits == 5
    shows_itself(made, "dense")
    assert ingot.compile(made.save(tmp_path / "c.onnx")).name == "c"
    with pytest.raises(ingot.InputError, match=r"density= nothing=0\.5: the model has no such layer"):
        ingot.compress(MODEL, density={"nothing": 0.5})


def test_bench_and_report(tmp_path: Path) -> None:
    found = ingot.bench(MODEL, seconds=0.02, kernels=True)
    assert found.as_dict()["macs"] == 134592 and "profile" in found.as_dict()
    shows_itself(found, "conv1")
    with pytest.raises(ingot.InputError, match="armv7e-m cannot be timed on this machine"):
        ingot.bench(MODEL, target="cortex-m4")
    made = ingot.report(MODEL, tmp_path / "r.html", time=False, assembly=False, target="c99")
    assert (tmp_path / "r.html").read_text() == made.page
    shows_itself(made, "conv2")


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({}, r"input 'image' is missing; give its array: float32\[1, 1, 8, 8\]"),
        ({"y": ZERO}, r"unknown inputs \['y'\]; the model's inputs are 'image'"),
        ({"image": ZERO.astype(np.float64)}, r"the model takes float32.*; convert it: \.astype\('float32'\)"),
        ({"image": ZERO[:, :, 1:]}, r"float32\[1, 1, 7, 8\], .*\[1, 1, 8, 8\]; resize, crop or pad it"),
        ({"image": ZERO[0]}, r"float32\[1, 8, 8\], .*; convert it: \.reshape\(1, 1, 8, 8\)$"),
        (
            {"image": np.zeros((3, 1, 8, 8), "f")},
            r"\[3, 1, 8, 8\], .*; give it in parts of 1 along the first axis",
        ),
        (ZERO, r"the inputs are a ndarray; give a dict: \{'image': \.\.\.\}"),
    ],
)
def test_a_bundle_says_which_inputs_it_takes(bundle: ingot.Bundle, inputs: Any, words: str) -> None:
    with pytest.raises(ingot.InputError, match=words):
        bundle.run(inputs)


@pytest.mark.parametrize("target", ["native", "cortex-m4"])
def test_outputs_go_into_the_callers_arrays(images: dict[str, np.ndarray], target: str) -> None:
    """In this process, and from an emulator."""
    bundle = ingot.compile(MODEL, target=target)
    scores = np.full((1, 10), np.nan, np.float32)
    given = {"image": images["image"][:1]}
    found = bundle.run(given, out={"scores": scores})
    assert found["scores"] is scores
    np.testing.assert_array_equal(scores, bundle.run(given)["scores"])


def test_outputs_of_a_range_of_shapes_go_into_the_callers_arrays() -> None:
    bundle = ingot.compile(onnx.parser.parse_model(DYNAMIC), define={"N": (1, 4), "M": 3})
    x, y = np.float32([[-1, 2, 3], [4, -5, 6]]), np.empty((2, 3), np.float32)
    bundle.run({"x": x}, out={"y": y})
    np.testing.assert_array_equal(y, np.maximum(x, 0))
    with pytest.raises(ingot.InputError, match=r"'y' is float32\[1, 3\], not float32\[2, 3\]"):
        bundle.run({"x": x}, out={"y": y[:1]})


ROW = np.zeros((1, 10), np.float32)


@pytest.mark.parametrize(
    ("out", "words"),
    [
        ({"score": ROW}, r"unknown outputs \['score'\]; the model's outputs are 'scores'"),
        (
            {"scores": ROW.astype("d")},
            r"float64\[1, 10\], not float32\[1, 10\]; give np.empty\(\(1, 10\), 'float32'\)",
        ),
        ({"scores": [0.0] * 10}, r"'scores' is list, not float32"),
        ({"scores": np.zeros((1, 20), np.float32)[:, ::2]}, "not contiguous, aligned and writeable"),
        ({"scores": ZERO.reshape(1, 64)[:, :10]}, "overlaps an input or another output"),
    ],
)
def test_a_bundle_says_which_arrays_it_can_write(bundle: ingot.Bundle, out: Any, words: str) -> None:
    with pytest.raises(ingot.InputError, match=words):
        bundle.run({"image": ZERO}, out=out)


def test_sequences_are_made_by_the_bundle() -> None:
    model = SEQUENCE.replace("float[2] y) {", "seq(float[2]) y) {").replace(
        "SequenceAt(s, n)", "SequenceErase(s, n)"
    )
    bundle = ingot.compile(onnx.parser.parse_model(model), capacity={"": 3})
    with pytest.raises(ingot.InputError, match="some outputs of the model are no tensors"):
        bundle.run({"s": [np.zeros(2, np.float32)], "n": np.int64(0)}, out={"y": ROW})


def test_a_bundle_without_its_object_says_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(ingot.InputError, match=r"compile with --emit c,obj \(emit=\('c', 'obj'\)\)"):
        ingot.load(ingot.compile(MODEL, emit=["c"]).save(tmp_path)).run({"image": ZERO})


def test_errors_speak_python(capfd: pytest.CaptureFixture[str]) -> None:
    model = onnx.parser.parse_model(DYNAMIC)
    with pytest.raises(ingot.InputError, match=r"define=\{'M': ...\}"):
        ingot.compile(model)
    ingot.compile(model, define={"M": 4})
    assert "note: batch dimension N is 1; define={'N': ...} changes it" in capfd.readouterr().err
    wrong: dict[str, Any] = {"math": "fast"}
    with pytest.raises(ingot.InputError, match="math= is 'fast': choose from 'exact', 'standard'"):
        ingot.compile(MODEL, **wrong)
    with pytest.raises(ingot.InputError, match=r"emit= is 'c': write a tuple, \('c',\)"):
        ingot.compile(MODEL, emit="c")  # type: ignore[arg-type]
    wrong = {"define": "N"}
    with pytest.raises(ingot.InputError, match="define= is 'N': expected a dict, got text"):
        ingot.compile(MODEL, **wrong)
    with pytest.raises(TypeError, match="'targt'; did you mean 'target'"):
        ingot.compile(MODEL, targt="c99")  # type: ignore[call-arg]
    with pytest.raises(ingot.InputError, match=r"profile= is a dict; give what ingot.profile returns"):
        ingot.quantize(MODEL, {})  # type: ignore[arg-type]
    with pytest.raises(ingot.InputError, match="add package='kbuild'"):
        ingot.compile(MODEL, prebuilt=True)


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ("leave out --memory and --flash", "leave out memory= and flash="),
        ("use --api direct", "use api='direct'"),
        ("--emit obj, and link it there", "emit=('obj',), and link it there"),
        ("compile with --emit c,obj", "compile with emit=('c', 'obj')"),
        ("compile with --string-bytes 80", "compile with string_bytes=80"),
        (
            "say --capacity y=AxBx..., or --capacity N for all",
            "say capacity={'y': AxBx...}, or capacity= N for all",
        ),
        ("--memory: it is a region of --flash: name", "memory: it is a region of flash=: name"),
        ("make it --made-up", "make it --made-up"),
        ("--relocation-model pic is", "relocation='pic' is"),
    ],
)
def test_words_of_the_command_line_become_parameters(said: str, wanted: str) -> None:
    assert in_python(said) == wanted
