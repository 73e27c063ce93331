"""`ingot eie run`: layers of models found, fed, simulated; compared with floats and with the step model."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from typer.testing import CliRunner, Result

from ingot.cli import app
from ingot.driver import front
from ingot.eie import fixed
from ingot.eie.columns import encode as columns_of
from ingot.eie.layers import products
from ingot.eie.machine import Machine
from ingot.eie.steps import run as steps
from ingot.graph.encoding import Codebook, Encoding
from ingot.options import Options
from tests.encoded import Array, encode, random_codes, sparse

SIZES = (40, 24, 18, 5)


def ingot(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["eie", *map(str, arguments)])


def save(
    path: Path,
    nodes: list[onnx.NodeProto],
    inputs: dict[str, tuple[int, ...]],
    outputs: dict[str, tuple[int, ...]],
    encodings: dict[str, Encoding],
    constants: dict[str, Array],
) -> Path:
    def infos(of: dict[str, tuple[int, ...]]) -> list[onnx.ValueInfoProto]:
        return [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, s) for n, s in of.items()]

    stored = [numpy_helper.from_array(a, n) for n, a in constants.items()]
    graph = helper.make_graph(nodes, "model", infos(inputs), infos(outputs), stored)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.save(encode(model, encodings), path)
    return path


@pytest.fixture(scope="module")
def dense(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Gemm, ReLU, MatMul with a bias added, ReLU, Gemm of weights that say nothing of their codebook."""
    path = tmp_path_factory.mktemp("dense") / "dense.onnx"
    codes = [random_codes((SIZES[n + 1], SIZES[n]), 0.3, n) for n in range(3)]
    encodings: dict[str, Encoding] = {"w0": sparse(codes[0])}
    encodings["w1"] = Codebook(np.ascontiguousarray(codes[1].codes.T), codes[1].values)
    rng = np.random.default_rng(0)
    constants = {f"b{n}": rng.standard_normal(SIZES[n + 1]).astype(np.float32) for n in range(3)}
    constants["w2"] = codes[2].decode()
    nodes = [
        helper.make_node("Gemm", ["x", "w0", "b0"], ["a"], "fc0", transB=1, alpha=0.5),
        helper.make_node("Relu", ["a"], ["ra"]),
        helper.make_node("MatMul", ["ra", "w1"], ["b"], "fc1"),
        helper.make_node("Add", ["b1", "b"], ["bb"]),
        helper.make_node("Relu", ["bb"], ["rb"]),
        helper.make_node("Gemm", ["rb", "w2", "b2"], ["y"], "fc2", transB=1),
    ]
    return save(path, nodes, {"x": (1, SIZES[0])}, {"y": (1, SIZES[-1])}, encodings, constants)


def test_weights_beside_the_model(dense: Path, tmp_path: Path) -> None:
    whole = ingot("run", dense, "--pes", "4", "--json")
    onnx.save_model(onnx.load(dense), tmp_path / "m.onnx", save_as_external_data=True, size_threshold=0)
    assert len(list(tmp_path.iterdir())) > 1
    beside = ingot("run", tmp_path / "m.onnx", "--pes", "4", "--json")
    assert beside.exit_code == 0, beside.output
    assert json.loads(beside.stdout)["layers"] == json.loads(whole.stdout)["layers"]


def test_a_dense_model(dense: Path, tmp_path: Path) -> None:
    x = np.maximum(np.random.default_rng(1).standard_normal((6, SIZES[0])), 0).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    pictures = ["--svg", tmp_path / "a.svg", "--html", tmp_path / "a.html"]
    given = ["--input", f"x={tmp_path / 'x.npy'}", "--pes", "4", "--json"]
    result = ingot("run", dense, *given, *pictures)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert [layer["name"] for layer in found["layers"]] == ["fc0", "fc1", "fc2"]
    assert [layer["is_chained"] for layer in found["layers"]] == [False, True, True]
    assert all(layer["samples"] == 6 and layer["error"] < 2e-3 for layer in found["layers"])
    assert found["same_winner"] == [6, 6]
    assert found["load_microseconds"] > found["microseconds"] > 0 and found["fits"]
    assert "<svg" in (tmp_path / "a.svg").read_text() and "<table>" in (tmp_path / "a.html").read_text()


def test_the_cycles_are_those_of_the_machine(dense: Path, tmp_path: Path) -> None:
    x = np.maximum(np.random.default_rng(1).standard_normal((1, SIZES[0])), 0).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    result = ingot("run", dense, "--input", f"x={tmp_path / 'x.npy'}", "--pes", "4", "--json")
    first = json.loads(result.stdout)["layers"][0]
    product = products(front(dense, Options()))[0][0]
    columns = columns_of(product.codes, 4)
    arithmetic = fixed.arrange(columns, product.codebook, x[0], 16, product.bias)
    ints = fixed.quantise(x[0], arithmetic.activation_places, 16)
    start = fixed.quantise(product.bias, arithmetic.sum_places, 16)
    moved = steps(columns, arithmetic, ints, Machine(4), start)
    assert moved.cycles == first["cycles"]
    wanted = product.codebook[product.codes] @ x[0] + product.bias
    error = np.abs(fixed.real(moved.accumulators, arithmetic.sum_places) - wanted).max()
    assert error / np.abs(wanted).max() == pytest.approx(first["error"], rel=1e-3)


def test_precision_and_the_paper_s_bias(dense: Path) -> None:
    errors = {}
    for bits in (8, 16, 32):
        result = ingot("run", dense, "--precision", str(bits), "--samples", "3", "--json")
        errors[bits] = json.loads(result.stdout)["layers"][0]["error"]
    assert errors[8] > 10 * errors[16] > 100 * errors[32]
    rounded = json.loads(ingot("run", dense, "--bias-columns", "--samples", "2", "--json").stdout)
    assert rounded["layers"][0]["error"] > errors[16]
    assert rounded["layers"][0]["cycles"] > 0


@pytest.mark.parametrize(("op", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_recurrent_layers(op: str, gates: int, tmp_path: Path) -> None:
    inputs, hidden = 10, 12
    encodings: dict[str, Encoding] = {
        "w": random_codes((2, gates * hidden, inputs), 0.3, 1),
        "r": sparse(random_codes((2, gates * hidden, hidden), 0.3, 2)),
    }
    constants = {"b": np.linspace(-1, 1, 4 * gates * hidden, dtype=np.float32).reshape(2, -1)}
    way = {"direction": "bidirectional", "hidden_size": hidden}
    nodes = [helper.make_node(op, ["x", "w", "r", "b"], ["", "h"], "cell", **way)]
    shapes = {"x": (5, 2, inputs)}, {"h": (2, 2, hidden)}
    result = ingot(
        "run", save(tmp_path / "cell.onnx", nodes, *shapes, encodings, constants), "--pes", "4", "--json"
    )
    assert result.exit_code == 0, result.output
    layers = json.loads(result.stdout)["layers"]
    assert len(layers) == 4 * gates  # two matrices of each gate, two directions
    assert all(layer["error"] < 2e-3 for layer in layers)
    assert {layer["cols"] for layer in layers} == {inputs, hidden}
    # Each way brings a state, both the input; every product's results go back to the host.
    moved = inputs + 2 * hidden + 4 * gates * hidden
    assert json.loads(result.stdout)["input_output_microseconds"] == -(-moved * 16 // 64) / 800
    np.save(tmp_path / "l.npy", np.zeros(16, np.int64))
    said = ingot("run", tmp_path / "cell.onnx", "--labels", tmp_path / "l.npy")
    assert said.exit_code == 2 and "this is a gate of a recurrent layer" in " ".join(said.output.split())
    before = [layer for layer in layers if layer["cols"] == hidden]
    assert all(layer["active"] < 1 for layer in before)  # the first step starts from zeros


def test_what_does_not_run(tmp_path: Path, dense: Path) -> None:
    values = np.arange(64, dtype=np.float32).reshape(8, 8)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], "plain")]
    path = save(tmp_path / "plain.onnx", nodes, {"x": (1, 8)}, {"y": (1, 8)}, {}, {"w": values})
    result = ingot("run", path)
    assert result.exit_code == 2
    assert "not compressed" in result.output and "ingot compress" in result.output
    nodes_of_halves = [
        helper.make_node("Cast", ["x"], ["h"], to=onnx.TensorProto.FLOAT16),
        helper.make_node("MatMul", ["h", "w"], ["p"]),
        helper.make_node("Cast", ["p"], ["y"], to=onnx.TensorProto.FLOAT),
    ]
    half = {"w": values.astype(np.float16)}
    path = save(tmp_path / "half.onnx", nodes_of_halves, {"x": (1, 8)}, {"y": (1, 8)}, {}, half)
    said = " ".join(ingot("run", path).output.split())
    assert "its weights are float16" in said and "ingot compress" not in said
    wide: dict[str, Encoding] = {"w": random_codes((8, 8), 1.0, 1, bits=5)}
    path = save(tmp_path / "wide.onnx", nodes, {"x": (1, 8)}, {"y": (1, 8)}, wide, {})
    assert "share 26 values beside zero, the accelerator's codebook holds 15" in ingot("run", path).output
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"], "conv")]
    kernel = {"w": values.reshape(4, 4, 2, 2)}
    path = save(tmp_path / "conv.onnx", nodes, {"x": (1, 4, 5, 5)}, {"y": (1, 4, 4, 4)}, {}, kernel)
    said = " ".join(ingot("run", path).output.split())
    assert "matrix-vector products only; it computes Gemm, MatMul, RNN, GRU and LSTM" in said
    assert "0 PEs" in ingot("run", dense, "--pes", "0").output
    np.save(tmp_path / "x.npy", np.zeros((3, 7), np.float32))
    assert "another shape" in ingot("run", dense, "--input", f"x={tmp_path / 'x.npy'}").output


def test_products_in_branches_and_bodies_are_named(dense: Path, tmp_path: Path) -> None:
    def branch(name: str) -> onnx.GraphProto:
        node = helper.make_node("MatMul", ["x", "w"], [f"{name}_y"], f"in_{name}")
        return helper.make_graph([node], name, [], [helper.make_tensor_value_info(f"{name}_y", 1, None)])

    choice = {"then_branch": branch("then"), "else_branch": branch("else")}
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["z"], "outside"),
        helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0),
        helper.make_node("Greater", ["s", "zero"], ["c"]),
        helper.make_node("If", ["c"], ["y"], "choice", **choice),
        helper.make_node("Einsum", ["z", "w"], ["e"], "einsum", equation="ij,jk->ik"),
    ]
    w, zero = np.eye(8, dtype=np.float32), np.zeros((), np.float32)
    outputs = {"y": (1, 8), "e": (1, 8)}
    path = save(tmp_path / "if.onnx", nodes, {"x": (1, 8)}, outputs, {}, {"w": w, "zero": zero})
    found = json.loads(ingot("run", path, "--json").stdout)
    assert [layer["name"] for layer in found["layers"]] == ["outside"]
    assert [x["name"] for x in found["left"]] == ["in_then", "in_else", "einsum"]
    assert "in If 'choice' and runs under a condition" in found["left"][0]["reason"]


def test_labels(dense: Path, tmp_path: Path) -> None:
    x = np.maximum(np.random.default_rng(1).standard_normal((9, SIZES[0])), 0).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    found, _ = products(front(dense, Options()))
    for p in found:
        x = np.maximum(x @ p.codebook[p.codes].T + p.bias, 0)
    labels = x.argmax(axis=1)
    labels[:2] = (labels[:2] + 1) % SIZES[-1]
    np.save(tmp_path / "l.npy", labels)
    given = [dense, "--input", f"x={tmp_path / 'x.npy'}", "--labels", tmp_path / "l.npy", "--pes", "4"]
    for more in ([], ["--balance"]):
        assert json.loads(ingot("run", *given, *more, "--json").stdout)["right"] == [7, 7]
    assert "as labelled" in ingot("run", *given).output
    np.save(tmp_path / "l.npy", labels[:5])
    assert "5 labels for 9 samples" in ingot("run", *given).output
    for wrong, seen in (
        (labels + 99 - labels[0], "99"),
        (labels.astype(float), "float64"),
        (labels[None], "2 axes"),
        (np.array(["a"] * 9), "<U1"),
    ):
        np.save(tmp_path / "l.npy", wrong)
        message = f"labels are whole numbers of 0 to 4 along one axis, not {seen}"
        assert message in " ".join(ingot("run", *given).output.split())


def one(path: Path, node: onnx.NodeProto, shapes: tuple[tuple[int, ...], tuple[int, ...]], w: Array) -> Path:
    return save(path, [node], {"x": shapes[0]}, {"y": shapes[1]}, {}, {"w": w.astype(np.float32)})


@pytest.mark.parametrize(
    ("x", "y", "inputs", "attributes"),
    [
        ((8,), (6,), "x w", {}),
        ((3, 2, 8), (3, 2, 6), "x w", {}),
        ((6,), (8,), "w x", {}),
        ((6, 2), (8, 2), "w x", {}),
        ((8, 3), (3, 6), "x w", {"transA": 1}),
        ((3, 8), (6, 3), "w x", {"transA": 1, "transB": 1}),
    ],
)
def test_vectors_wherever_they_lie(
    x: tuple[int, ...], y: tuple[int, ...], inputs: str, attributes: dict[str, int], tmp_path: Path
) -> None:
    w = np.random.default_rng(0).integers(-1, 2, (8, 6))
    node = helper.make_node("Gemm" if attributes else "MatMul", inputs.split(), ["y"], **attributes)
    result = ingot("run", one(tmp_path / "m.onnx", node, (x, y), w), "--pes", "2", "--json")
    assert result.exit_code == 0, result.output
    (layer,) = json.loads(result.stdout)["layers"]
    lengths = {8, 6} - {layer["rows"]}
    assert {layer["cols"]} == lengths and layer["error"] < 1e-3
    assert layer["samples"] == 16


@pytest.mark.parametrize(
    ("w", "x", "match"),
    [
        (np.zeros((0, 6)), (1, 0), "no weights"),
        (np.where(np.eye(8) > 0, np.nan, 0), (1, 8), "finite"),
        (np.ones((8, 6)) * 3e38, (1, 8), "beyond float32"),
    ],
)
def test_numbers_it_cannot_compute(w: Array, x: tuple[int, ...], match: str, tmp_path: Path) -> None:
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    result = ingot("run", one(tmp_path / "m.onnx", node, (x, (1, w.shape[1])), w))
    assert result.exit_code == 2 and match in result.output
    assert "0 bytes of matrix SRAM, where" in ingot("run", tmp_path / "m.onnx", "--matrix-kb", "0").output
    assert "no clock runs" in ingot("run", tmp_path / "m.onnx", "--clock-mhz", "1e-300").output


@pytest.mark.parametrize(("bias", "rest"), [(1e20, 0), (1e9, 1e-3), (np.inf, None), (np.nan, None)])
def test_biases_beside_which_products_are_nothing(bias: float, rest: float | None, tmp_path: Path) -> None:
    node = helper.make_node("Gemm", ["x", "w", "b"], ["y"], transB=1)
    constants = {"w": np.eye(8, dtype=np.float32), "b": np.full(8, bias, np.float32)}
    path = save(tmp_path / "m.onnx", [node], {"x": (1, 8)}, {"y": (1, 8)}, {}, constants)
    result = ingot("run", path, "--json")
    if rest is None:
        assert result.exit_code == 2 and "biases must be finite" in result.output
    else:
        assert json.loads(result.stdout)["layers"][0]["error"] <= rest + 1e-4
