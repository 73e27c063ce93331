"""`ingot sensitivity`: what pruning one layer does to the outputs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from ingot.check.sensitivity import Curve, Scan, by_outputs, scan
from ingot.compression.layers import layers_of
from ingot.compression.model import Wish, compress
from ingot.errors import InputError, ModelError
from tests.compress.models import model, read, with_weights
from tests.compress.test_model import CHOICE, CONSTANT, HALF, ROW, SMALL, SQUARE, TURNS
from tests.test_cli import MODEL, ingot

X = np.random.default_rng(5).standard_normal((2, 24)).astype(np.float32)


def scanned(made: onnx.ModelProto, *densities: float, x: np.ndarray = X) -> Scan:
    layers = layers_of(made, read)
    feed = {v.name: x if v.name == "x" else np.array(True) for v in made.graph.input if v.name in "xc"}
    return scan(layers, densities, by_outputs(made, layers, [feed, feed]), is_score=False)


def test_errors_are_those_of_the_outputs() -> None:
    weights = np.random.default_rng(6).standard_normal((24, 30)).astype(np.float32)
    made = scanned(model(ROW, "{ y = MatMul(x, w) }", {"w": weights}), 1.0, 0.25)
    least = np.sort(np.abs(weights), axis=None)[-180]
    lost = X @ np.where(np.abs(weights) < least, weights, 0)
    (curve,) = made.curves
    assert curve.values[0] == 0 == made.before and curve.weights == 720
    np.testing.assert_allclose(curve.values[1], np.linalg.norm(lost) / np.linalg.norm(X @ weights), rtol=1e-5)


def test_weights_that_are_no_numbers() -> None:
    weights = np.full((24, 30), np.nan, np.float32)
    with pytest.raises(ModelError, match="'w' hold NaN or infinity"):
        scanned(model(ROW, "{ y = MatMul(x, w) }", {"w": weights}), 0.5)


def test_one_layer_at_a_time() -> None:
    """The first layer's result is doubled, the second one's not read by anybody."""
    body = "{ h = MatMul(x, v) y = Add(h, h) n = MatMul(x, w) }"
    made = scanned(model(ROW, body, {"v": [24, 30], "w": [24, 30]}), 0.5)
    assert made.curves[0].values[0] > 0.1 and made.curves[1].values[0] == 0


@pytest.mark.parametrize(
    "made",
    [
        model(ROW, f"{{ w = Constant <value = float[24,30] {{{CONSTANT}}}> () y = MatMul(x, w) }}", {}),
        model(SQUARE, TURNS.replace("WEIGHTS", f"float[24,24] w = {{{SMALL}}}"), {}),
        model(ROW.replace("x)", "x, bool c)"), CHOICE.replace("NUMBERS", CONSTANT), {"w": [24, 30]}),
        model(ROW, "{ v = Cast <to = 1> (w) y = MatMul(x, v) }", {"w": HALF}),
        compress(model(ROW, "{ y = MatMul(x, w) }", {"w": [24, 30]}), read, Wish()).model,
        model("(float[2,24] x, float[24,30] w) => (float[2,30] y)", "{ y = MatMul(x, w) }", {"w": [24, 30]}),
        model(
            "(float[2,24] x) => (int64[2] y)",
            "{ m = MatMul(x, w) y = ArgMax <keepdims = 0> (m) }",
            {"w": [24, 30]},
        ),
    ],
    ids=["constant", "loop", "branches", "half", "encoded", "default of an input", "integers"],
)
def test_wherever_the_weights_are(made: onnx.ModelProto) -> None:
    found = scanned(with_weights(made, {}), 1.0, 0.02)
    assert all(c.values[0] == 0 for c in found.curves) and found.curves[0].values[1] > 0.3


@pytest.mark.parametrize(
    ("output", "use"),
    [
        ("int64[2,n] y", "y = NonZero(m)"),
        (
            "float[n] y",
            "p = Constant <value_float = 0.0> () o = Constant <value_ints = [-1]> () r = Reshape(m, o) "
            "b = Greater(r, p) y = Compress(r, b)",
        ),
    ],
    ids=["integers", "floats"],
)
def test_a_changed_shape_is_an_error(output: str, use: str) -> None:
    weights = np.random.default_rng(6).standard_normal((24, 30)).astype(np.float32)
    made = model(f"(float[2,24] x) => ({output})", f"{{ m = MatMul(x, w) {use} }}", {"w": weights})
    assert scanned(made, 0.02).curves[0].values == (1.0,)


def test_no_error_hides_one_that_is_no_number() -> None:
    """With all but the largest weight zero, the second output is 0 / 0."""
    outputs = "(float[2,24] x) => (float[2,30] y, float[2,30] z, float[2,30] t)"
    body = "{ y = MatMul(x, w) z = Div(y, y) t = Add(y, y) }"
    found = scanned(model(outputs, body, {"w": [24, 30]}), 1 / 720)
    assert np.isnan(found.curves[0].values[0]) and found.within(1e9) == {"w": 1.0}


def test_constants_of_one_name_in_two_branches() -> None:
    body = (
        CHOICE.replace("NUMBERS", CONSTANT)
        .replace("MatMul(x, w)", "MatMul(x, v)")
        .replace("(float[2,30] p) {", f"(float[2,30] p) <float[24,30] v = {{{CONSTANT}}}> {{")
    )
    with pytest.raises(InputError, match="two constants of inner graphs have the name 'v'"):
        scanned(model(ROW.replace("x)", "x, bool c)"), body, {}), 0.5)


def test_the_least_density_within() -> None:
    """One that is good by chance, below one that is not, does not count."""
    errors = Curve("w", "fc", 10, (0.0, 0.01, 0.2, 0.05))
    bad = Curve("v", "fc", 10, (0.5, float("nan"), 0.5, 0.5))
    found = Scan((0.8, 0.4, 0.2, 0.1), 0.0, False, (errors, bad))
    assert found.within(0.1) == {"w": 0.4, "v": 1.0}
    scores = Scan((0.8, 0.4), 0.9, True, (Curve("w", "fc", 10, (0.95, 0.5)),))
    assert scores.within(0.01) == {"w": 0.8}


def test_what_is_named_can_be_compressed(tmp_path: Path) -> None:
    """Of equal constants, which `compress` merges, only the first has a name there."""
    made = model(SQUARE, "{ h = MatMul(x, a) y = MatMul(h, b) }", {"a": [24, 24], "b": [24, 24]})
    made.graph.initializer[1].raw_data = made.graph.initializer[0].raw_data
    onnx.save(made, tmp_path / "m.onnx")
    result = ingot("sensitivity", tmp_path / "m.onnx", "--density", "0.5", "--allow", "9")
    found = result.stderr.split("--density ")[1].strip()
    assert found == "a=0.5"
    wanted = ingot("compress", tmp_path / "m.onnx", "--density", found, "-o", tmp_path / "c.onnx")
    assert wanted.exit_code == 0, wanted.output


def test_samples_in_files_judge(tmp_path: Path) -> None:
    from tests.test_api import DIGITS

    with np.load(DIGITS / "test_images.npz") as tests:
        np.savez(tmp_path / "some.npz", image=tests["images"][:3].astype(np.float32))
        np.save(tmp_path / "first.npy", tests["images"][:1].astype(np.float32))
    words = ("sensitivity", MODEL, "--density", "0.5", "--json")
    found = [
        json.loads(ingot(*words, *data).stdout)["curves"]
        for data in (
            ("--data", tmp_path / "some.npz"),
            ("--data", tmp_path / "first.npy"),
            ("--input", f"image={tmp_path / 'first.npy'}", "--samples", "1"),
        )
    ]
    assert found[1] == found[2] != found[0]
    result = ingot(*words, "--data", tmp_path / "some.npz", "--script", "train.py")
    assert result.exit_code == 2 and "--data stands instead of --script" in result.stderr


def test_the_command(tmp_path: Path) -> None:
    picture = tmp_path / "s.svg"
    arguments = ("sensitivity", MODEL, "--density", "0.5,10%", "--samples", "1", "--svg", picture)
    result = ingot(*arguments, "--allow", "0.3", "--json")
    assert result.exit_code == 0, result.output
    data = json.loads(result.stdout)
    assert data["densities"] == [0.5, 0.1] and len(data["curves"]) == 4
    assert all(c["values"][0] < c["values"][1] for c in data["curves"])
    assert picture.read_text().startswith("<svg")
    assert "ingot: each within 0.3: --density conv1.weight=" in result.stderr
    wanted = ingot(
        "compress", MODEL, "--density", result.stderr.split("--density ")[1].strip(), "-o", tmp_path / "m"
    )
    assert wanted.exit_code == 0, wanted.output
    for words, message in (
        (["--density", "2"], "above 0, at most 1"),
        (["--script", "no.py"], "cannot read 'no.py'"),
    ):
        result = ingot("sensitivity", MODEL, *words)
        assert result.exit_code == 2 and message in result.stderr and result.stderr.count("\n") == 1
