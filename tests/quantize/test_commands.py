"""`ingot quantize` and `ingot compile --profile`: what they write, and how they refuse."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from ingot.quantization.profile import write_profile
from tests.quantize.nets import answers, profile_of, sqnr
from tests.test_cli import MODEL, ingot

FLOAT = onnx.load(MODEL)
IMAGES = np.load(Path(MODEL).parent / "test_images.npz")


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("profile") / "digits.yaml"
    write_profile(path, profile_of(FLOAT, feeds()))
    return path


def feeds() -> list[dict[str, np.ndarray]]:  # type: ignore[type-arg]
    (given,) = (v for v in FLOAT.graph.input)
    shape = [d.dim_value or 1 for d in given.type.tensor_type.shape.dim]
    arrays = next(IMAGES[key] for key in IMAGES.files if IMAGES[key].ndim > 1)
    return [{given.name: a.astype(np.float32).reshape(shape)} for a in arrays[:32]]


def test_one_step_writes_what_two_do(tmp_path: Path, profile: Path) -> None:
    path, words = tmp_path / "q.onnx", ("--profile", profile, "--schema", "symmetric")
    result = ingot("quantize", MODEL, *words, "-o", path, "--json")
    assert result.exit_code == 0, result.output
    layers = json.loads(result.stdout)["layers"]
    assert all(layer["activations"] == "int8" and layer["sqnr"] > 30 for layer in layers)
    assert sum(layer["before"] for layer in layers) > 3.5 * sum(layer["after"] for layer in layers)
    assert sqnr(answers(FLOAT, feeds()), answers(onnx.load(path), feeds())) > 25
    for source, more, out in ((path, (), "two"), (MODEL, words, "one")):
        result = ingot("compile", source, *more, "--name", "net", "-o", tmp_path / out, "--target", "c99")
        assert result.exit_code == 0, result.output
    for file in sorted((tmp_path / "two").iterdir()):
        assert file.read_bytes() == (tmp_path / "one" / file.name).read_bytes(), file.name


@pytest.mark.parametrize(
    ("command", "words", "said"),
    [
        ("quantize", ("--calibration", "best"), "--calibration best: write one of minmax"),
        ("quantize", ("--calibration", "percentile:4"), "a percentile must be above 50"),
        ("quantize", ("--keep-float", "Softmax,nothing*"), "--keep-float nothing*: no node has such a name"),
        ("quantize", ("--keep-float", "Conv", "--assert-all-quantized"), "nodes stay float"),
        ("compile", ("--io", "int8"), "--io is of quantisation; add --profile"),
        ("compile", ("--no-bias-correction",), "--no-bias-correction is of quantisation; add --profile"),
    ],
)
def test_refusals(tmp_path: Path, profile: Path, command: str, words: tuple[str, ...], said: str) -> None:
    more = ("--profile", profile) if command == "quantize" else ()
    result = ingot(command, MODEL, *more, *words, "-o", tmp_path / "out")
    assert result.exit_code == 2 and said in result.stderr, result.output
    assert not (tmp_path / "out").exists()


def test_a_profile_of_another_model(tmp_path: Path, profile: Path) -> None:
    other = onnx.ModelProto()
    other.CopyFrom(FLOAT)
    other.graph.node[0].output[0] += "_other"
    other.graph.node[1].input[0] += "_other"
    onnx.save(other, tmp_path / "other.onnx")
    result = ingot("quantize", tmp_path / "other.onnx", "--profile", profile, "-o", tmp_path / "q.onnx")
    assert result.exit_code == 2 and "the profile is of another model" in result.stderr
