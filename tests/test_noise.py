"""`ingot verify --quantized`: the tensors of a quantised model by signal to noise, the worst first."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import onnx.helper as oh
import onnx.numpy_helper as nh
import pytest
from typer.testing import CliRunner

from ingot.cli import app

RNG = np.random.default_rng(4)
X = RNG.normal(size=(6, 8)).astype(np.float32)
W = RNG.normal(size=(8, 5)).astype(np.float32)
SCALE = np.float32(0.25)


def save(path: Path, nodes: list[onnx.NodeProto], *constants: onnx.TensorProto) -> Path:
    x, y = oh.make_tensor_value_info("x", 1, [1, 8]), oh.make_tensor_value_info("y", 1, [1, 5])
    graph = oh.make_graph(nodes, "net", [x], [y], [nh.from_array(W, "w"), *constants])
    onnx.save(oh.make_model(graph, opset_imports=[oh.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A float model, and one whose hidden tensor is rounded to multiples of 0.25."""
    made = tmp_path_factory.mktemp("noise")
    relu, product = oh.make_node("Relu", ["x"], ["r"]), oh.make_node("MatMul", ["r", "w"], ["p"], name="fc")
    last = oh.make_node("Tanh", ["p"], ["y"])
    save(made / "float.onnx", [relu, product, last])
    pair = [
        oh.make_node("Relu", ["x"], ["r_"]),
        oh.make_node("QuantizeLinear", ["r_", "s", "z"], ["q"]),
        oh.make_node("DequantizeLinear", ["q", "s", "z"], ["r"]),
    ]
    scale = nh.from_array(np.array(SCALE), "s"), nh.from_array(np.array(0, np.uint8), "z")
    save(made / "int8.onnx", [*pair, product, last], *scale)
    renamed = oh.make_node("Relu", ["x"], ["other"]), oh.make_node("MatMul", ["other", "w"], ["y"])
    save(made / "other.onnx", [*renamed])
    onnx.save(onnx.compose.add_prefix(onnx.load(made / "other.onnx"), "a_"), made / "other.onnx")
    np.save(made / "x.npy", X)
    return made


def ran(folder: Path, *words: str) -> tuple[int, str, str]:
    found = CliRunner().invoke(app, ["verify", *(w.format(d=folder) for w in words)])
    return found.exit_code, found.stdout, found.stderr


def test_tensors_are_ranked_by_their_noise(folder: Path) -> None:
    words = ("{d}/int8.onnx", "--quantized", "{d}/float.onnx", "--data", "{d}/x.npy", "--json")
    code, out, err = ran(folder, *words)
    assert code == 0, err
    r = np.maximum(X, 0).astype(np.float64)
    rounded = np.round(r / SCALE) * SCALE
    exact, lossy = ({"r": a, "p": a @ W, "y": np.tanh(a @ W)} for a in (r, rounded))
    right = {n: 10 * np.log10(np.square(a).sum() / np.square(a - lossy[n]).sum()) for n, a in exact.items()}
    found = json.loads(out)
    assert [n["tensor"] for n in found] == sorted(right, key=right.__getitem__)
    for n in found:
        assert n["decibels"] == pytest.approx(right[n["tensor"]], abs=0.01)
    by_name = {n["tensor"]: n for n in found}
    assert by_name["r"]["lost"] is None and by_name["p"]["node"] == "fc"
    assert by_name["y"]["lost"] == pytest.approx(max(right["p"] - right["y"], 0), abs=0.02)
    assert f"the worst tensor is {found[0]['tensor']!r}" in err


MISUSED = {
    "no data": (("--quantized", "{d}/float.onnx"), "go together"),
    "no float model": (("--data", "{d}/x.npy"), "go together"),
    "another model": (
        ("--quantized", "{d}/other.onnx", "--data", "{d}/x.npy"),
        "no float tensor of the same name",
    ),
}


@pytest.mark.parametrize("words, message", MISUSED.values(), ids=MISUSED)
def test_misuse_is_one_error(words: tuple[str, ...], message: str, folder: Path) -> None:
    code, _, err = ran(folder, "{d}/int8.onnx", *words)
    assert code == 2 and message in err and "Traceback" not in err
