"""`--activations int8`: layers computed in bytes keep their promise, for many kinds of activations."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from ingot.check.verify import verify
from ingot.driver import compile_with, front, stages
from ingot.formula.types import INT8
from ingot.graph.encoding import Codebook
from ingot.graph.ir import Graph
from ingot.loops.evaluate import run
from ingot.options import PROMISED, Options
from ingot.passes.byte_activations import byte_activations
from ingot.passes.byte_weights import quantise
from ingot.targets.records import find
from ingot.targets.toolchain import obstacle
from tests.encoded import encode, one_node, random_codes, sparse
from tests.fuzz.levels import compiled
from tests.here import require_runs
from tests.test_encoded import oracle

Array = np.ndarray[Any, Any]
LAYERS = {
    "wide": (300, 784, 0.08),
    "dense": (120, 200, 1.0),
    "small": (33, 150, 0.3),
    "tall": (500, 140, 0.2),
    "shifted": (64, 784, 0.3, 0.5),
    "far": (64, 784, 0.3, 1.5),
}
"""Rows, columns, density, and the mean of the weights."""
KINDS = (
    "signed",
    "rectified",
    "exponential",
    "heavy",
    "one large",
    "far from zero",
    "two",
    "three",
    "uneven",
)


def activations(kind: str, n: int, seed: int) -> Array:
    """One row of a kind of activations."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((1, n))
    if kind == "heavy":
        x = rng.standard_t(2, (1, n))
    if kind == "rectified":
        x = np.maximum(x, 0)
    if kind == "exponential":
        x = rng.exponential(1, (1, n)) * (rng.random((1, n)) < 0.35)
    if kind == "one large":
        x[0, 3] = 300
    if kind == "far from zero":
        x = x + 20
    few = {"two": [-1, 1], "three": [-1, 0, 1], "uneven": [-0.17, 0, 4]}  # of few values errors share a sign
    if kind in few:
        x = rng.choice(few[kind], (1, n))
    return x.astype("f")


def dense_layer(rows: int, columns: int, density: float, mean: float = 0) -> tuple[onnx.ModelProto, Array]:
    codes = random_codes((rows, columns), density, rows)
    codes = Codebook(codes.codes, np.append(codes.values[:1], codes.values[1:] + np.float32(mean)))
    node = helper.make_node("Gemm", ["x", "w"], ["y"], transB=1)
    return one_node(node, {"x": (1, columns)}, {}, {"w": sparse(codes)}), codes.decode()


def used(graph: Graph) -> set[str]:
    return {n.op for n in graph.nodes}


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products of all sizes are in bytes."""
    monkeypatch.setattr("ingot.passes.byte_activations.slower", lambda *_: "")
    monkeypatch.setattr("ingot.passes.byte_activations.in_floats", lambda *_: 1e30)


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("target", ["x86-64-v4-vnni", "x86-64-v3"])
@pytest.mark.usefixtures("always")
def test_whatever_the_activations_one_percent_is_kept(layer: str, target: str) -> None:
    model, weights = dense_layer(*LAYERS[layer])
    made = stages(model, Options(target=target, activations="int8", name="net"))
    assert "MatMulInteger" in used(made.graph)
    for kind in KINDS:
        for seed in range(3):
            x = activations(kind, weights.shape[1], seed)
            wanted = x.astype("d") @ weights.T
            off = np.abs(run(made.program, {"x": x})[0] - wanted).max() / np.abs(wanted).max()
            assert off < PROMISED, f"{kind} {seed}: {off:.2%}"


@pytest.mark.parametrize(
    "values",
    [
        [0.0],
        [-1e-30],
        [1e-42],
        [1e37],
        [3e38, -3e38],
        [-3e38, 1e-45],
        [3e38, -1e-45],
        [1e-39] * 150,
        [2e-38, -2e-38],
    ],
    ids=lambda v: f"{len(v)} from {v[0]}",
)
@pytest.mark.usefixtures("always")
def test_odd_activations(values: list[float]) -> None:
    """Nothing but zeros, one element alone, denormals, the largest numbers: what is lost beside them.

    A step is 2^-126 at least, so that of the smallest denormals nothing is left.
    """
    model, weights = dense_layer(33, 150, 0.3)
    x = np.zeros((1, 150), "f")
    x[0, 7 : 7 + len(values)] = values[:143]
    for target in ("x86-64-v4-vnni", "x86-64-v3"):
        made = stages(model, Options(target=target, activations="int8", name="net"))
        found, wanted = run(made.program, {"x": x})[0], x.astype("d") @ weights.T
        least = 2.0**-126 / 252 * np.abs(weights).sum(1).max()  # half a step of the rest in each term
        fits = np.abs(wanted) < 3.4e38
        assert fits.any() and np.isfinite(found[fits]).all()
        off, largest = np.abs(found - wanted)[fits].max(), np.abs(wanted[fits]).max()
        assert off <= max(PROMISED * largest, least), f"{off} of {largest}"


@pytest.mark.usefixtures("always")
def test_a_tiny_operand_has_its_one_percent() -> None:
    """From 2^-126 on, the least number that is no denormal, it is promised."""
    model, weights = dense_layer(33, 150, 0.3)
    x = (activations("signed", 150, 1) * 2.0**-126).astype("f")
    for target in ("x86-64-v4-vnni", "x86-64-v3"):
        made = stages(model, Options(target=target, activations="int8", name="net"))
        found, wanted = run(made.program, {"x": x})[0], x.astype("d") @ weights.T
        assert np.abs(found - wanted).max() < PROMISED * np.abs(wanted).max()


def test_an_index_into_strings_is_no_operand() -> None:
    """Whether constants are negative is asked of numbers alone."""
    words = helper.make_tensor("words", TensorProto.STRING, [3], [b"a", b"b", b"c"])
    x = helper.make_tensor_value_info("x", TensorProto.INT64, (2,))
    y = helper.make_tensor_value_info("y", TensorProto.STRING, (2,))
    node = helper.make_node("Gather", ["words", "x"], ["y"])
    graph = helper.make_graph([node], "g", [x], [y], [words])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    assert used(byte_activations(front(model, Options()), find("x86-64-v3"))) == {"Gather"}


@pytest.mark.parametrize("target", ["x86-64-v3", "c99", "aarch64", "aarch64-dotprod", "aarch64-i8mm"])
def test_a_compiled_layer_takes_the_branch_that_its_data_need(target: str) -> None:
    require_runs(target)
    model, weights = dense_layer(300, 784, 0.08)
    program = stages(model, Options(target=target, activations="int8", name="net")).program
    made = compiled(target, activations="int8")
    for kind in ("signed", "rectified"):
        x = activations(kind, 784, 1)
        (found,) = made(model, {"x": x})
        wanted = x.astype("d") @ weights.T
        assert np.abs(found - wanted).max() < PROMISED * np.abs(wanted).max()
        if target != "c99":  # whose loops take the evaluator a minute
            np.testing.assert_allclose(found, run(program, {"x": x})[0], rtol=1e-5, atol=1e-5)


def test_coarse_is_said_of_data_that_lose_more_than_allowed() -> None:
    """One large element makes the steps large; the bytes and their rest stand for it all the same."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 64))
    outs = ["q", "inverse", "step", "zero", "coarse"]
    nodes = [
        helper.make_node("QuantizeOperand", ["x", "allowed"], outs, domain="ingot"),
        helper.make_node("QuantizeRest", ["x", "q", "zero", "inverse"], ["rest", "middle"], domain="ingot"),
    ]
    made = [helper.make_empty_tensor_value_info(name) for name in (*outs, "rest")]
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("ingot", 1)]
    allowed = numpy_helper.from_array(np.full(2, 0.006**2, "f"), "allowed")
    model = helper.make_model(helper.make_graph(nodes, "g", [x], made, [allowed]), opset_imports=opsets)
    program = stages(model, Options(target="c99", name="net")).program
    for largest, wanted in ((1.0, False), (100.0, True)):
        data = np.linspace(0.5, 1, 64, dtype="f")[None]
        data[0, 0] = largest
        q, _, step, zero, coarse, rest = run(program, {"x": data})
        assert coarse == wanted and zero == 0
        fine = q.astype("d") + (rest.astype("d") - 128) / 254
        np.testing.assert_allclose(fine * step, data, atol=0.003 * step)


def chain(first: str) -> onnx.ModelProto:
    """A node, a reshape, and a layer whose weights lose too much where activations have both signs."""
    codes = random_codes((1000, 256), 0.25, 1)
    nodes = [
        helper.make_node(first, ["x"], ["a"]),
        helper.make_node("Flatten", ["a"], ["b"]),
        helper.make_node("Gemm", ["b", "w"], ["y"], transB=1),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 16, 16))
    graph = helper.make_graph(nodes, "g", [x], [helper.make_empty_tensor_value_info("y")])
    return encode(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]), {"w": sparse(codes)})


def test_behind_a_relu_only_rectified_activations_count() -> None:
    def levels(model: onnx.ModelProto) -> int:
        graph = front(model, Options(target="x86-64-v3", activations="int8"))
        (node,) = [n for n in graph.nodes if n.op == "QuantizeOperand"]
        return int(node.attributes["levels"])  # type: ignore[arg-type]  # the pass put an int there

    assert [levels(chain(op)) for op in ("Relu", "Sigmoid", "Tanh", "Neg")] == [255, 255, 127, 127]


def test_weights_that_lose_too_much_stay_floats() -> None:
    values = np.exp(np.linspace(-9, 0, 256, dtype="f"))
    values[0] = 0
    encoding = Codebook(random_codes((2, 30), 1.0, 1, bits=8).codes, values)
    assert (made := quantise(encoding.decode().T, values, 127, 255)) is not None
    assert made.left(made.rectified) is None
    node = helper.make_node("Gemm", ["x", "w"], ["y"], transB=1)
    model = one_node(node, {"x": (1, 30)}, {}, {"w": encoding})
    assert used(front(model, Options(target="x86-64-v3", activations="int8"))) == {"Gemm"}


def test_verify_allows_one_percent_for_each_layer_in_a_row() -> None:
    def layer(x: str, w: str, y: str) -> onnx.NodeProto:
        return helper.make_node("MatMul", [x, w], [y])

    nodes = [layer("x", "w0", "a"), helper.make_node("Relu", ["a"], ["b"]), layer("b", "w1", "y")]
    nodes.append(layer("x", "w0", "z"))
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 256))
    outputs = [helper.make_empty_tensor_value_info(name) for name in "yz"]
    model = helper.make_model(
        helper.make_graph(nodes, "g", [x], outputs),
        opset_imports=[helper.make_opsetid("", 21)],
        ir_version=10,
    )
    model = encode(model, {f"w{k}": random_codes((256, 256), 0.3, k) for k in range(2)})
    found = verify(model, Options(target="c99", activations="int8"), compile_with)
    assert found.ok and found.byte_layers == 2 and found.tolerance is None
    assert found.verdict.endswith(
        "held to 2% of max|y|: 1 % for each of 2 layers in bytes, one behind the other"
    )
    assert max(d.relative for d in found.cases[0].outputs) > 1e-4
    program = stages(model, Options(target="x86-64-v4-vnni", activations="int8", name="net")).program
    assert sorted(t.name for t in program.constants if t.name.endswith("_codes")) == [
        "w0_bytes_codes",
        "w1_bytes_codes",
    ]  # two layers by w0
    assert not verify(model, Options(target="c99", activations="int8"), compile_with, tolerance=1e-5).ok


@pytest.mark.parametrize(
    "shape, density, bits, wanted",
    [
        ((1, 784, 300), 0.1, 4, True),
        ((1, 64, 300), 0.1, 4, False),  # fewer columns than are in sight
        ((1, 784, 300), 0.1, 8, False),  # more values than registers hold
        ((169, 2304, 256), 0.09, 4, True),
        ((784, 576, 64), 0.09, 4, False),  # quantising costs more than is saved
    ],
    ids=str,
)
def test_layers_stay_floats_where_bytes_would_be_slower(
    shape: tuple[int, int, int], density: float, bits: int, wanted: bool
) -> None:
    points, terms, outputs = shape
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    weights = random_codes((terms, outputs), density, 1, bits)
    model = one_node(node, {"x": (points, terms)}, {}, {"w": sparse(weights)})
    graph = front(model, Options(target="x86-64-v4-vnni", activations="int8"))
    assert ("MatMulInteger" in used(graph)) == wanted


SIZES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def recurrent(
    op: str,
    shape: tuple[int, int, int],
    hidden: int,
    *,
    gain: float = 0.5,
    density: float = 0.2,
    **attributes: Any,
) -> onnx.ModelProto:
    """A recurrent layer by encoded matrices. `gain`: how long a row of them is, for which elements have
    variance 1; a state returns that much longer in every step.
    """
    directions = 2 if attributes.get("direction") == "bidirectional" else 1

    def matrix(columns: int, seed: int) -> Codebook:
        made = random_codes((directions, SIZES[op] * hidden, columns), density, seed)
        length = np.sqrt((made.decode() ** 2).sum(-1).mean())
        return Codebook(made.codes, (made.values * gain / length).astype("f"))

    node = helper.make_node(op, ["x", "w", "r"], ["y", "last"], hidden_size=hidden, **attributes)
    weights = {"w": sparse(matrix(shape[2], 1)), "r": matrix(hidden, 2)}
    return one_node(node, {"x": shape}, {}, weights, rank=4)


def forms(model: onnx.ModelProto, target: str) -> list[tuple[str, object, object]]:
    """Domain of each node, and how many bytes an element of x and of a state becomes."""
    graph = front(model, Options(target=target, activations="int8"))
    return [(n.domain, n.attributes.get("x_parts"), n.attributes.get("h_parts")) for n in graph.nodes]


@pytest.mark.parametrize("op", SIZES)
@pytest.mark.parametrize("target", ["x86-64-v4-vnni", "x86-64-v3", "aarch64"])
@pytest.mark.usefixtures("always")
def test_recurrent_layers_in_bytes_keep_one_percent(op: str, target: str) -> None:
    for attributes in ({}, {"direction": "bidirectional"}):
        model = recurrent(op, (12, 2, 140), 136, **attributes)
        made = stages(model, Options(target=target, activations="int8", name="net"))
        (node,) = made.graph.nodes
        assert node.domain == "ingot" and all(v.type is INT8 for v in node.inputs[1:3] if v is not None)
        x = activations("signed", 12 * 2 * 140, 5).reshape(12, 2, 140)
        wanted = oracle(model, x=x)[0]
        found = [run(made.program, {"x": x})[0]]
        if not obstacle(find(target)):
            found.append(compiled(target, activations="int8")(model, {"x": x})[0])
        for y in found:
            assert np.abs(y - wanted).max() < PROMISED * np.abs(wanted).max()


FLOAT = ("", None, None)


@pytest.mark.parametrize(
    "op, shape, hidden, how, target, wanted",
    [
        ("LSTM", (4, 1, 600), 600, {}, "x86-64-v4-vnni", ("ingot", 2, 1)),
        ("LSTM", (50, 1, 128), 128, {"density": 1.0}, "x86-64-v4-vnni", ("ingot", None, 1)),
        ("GRU", (50, 1, 128), 128, {"density": 1.0}, "x86-64-v3", FLOAT),  # the second cache holds the floats
        ("GRU", (32, 1, 256), 256, {"gain": 1.4}, "x86-64-v4-vnni", ("ingot", None, 2)),  # errors grow
        ("RNN", (32, 1, 256), 256, {"gain": 1.4}, "x86-64-v4-vnni", FLOAT),
        ("LSTM", (50, 1, 20), 20, {}, "x86-64-v4-vnni", FLOAT),  # fewer columns than are in sight
        ("LSTM", (50, 1, 128), 128, {}, "c99", FLOAT),
    ],
)
def test_a_recurrent_layer_has_the_fastest_form_that_loses_little(
    op: str, shape: tuple[int, int, int], hidden: int, how: dict[str, float], target: str, wanted: object
) -> None:
    """How many bytes an element of x and of a state becomes; None: it stays a float."""
    (node,) = front(recurrent(op, shape, hidden, **how), Options(target=target, activations="int8")).nodes
    assert (node.domain, node.attributes.get("x_parts"), node.attributes.get("h_parts")) == wanted


def convolution(
    shape: tuple[int, int, int, int], features: int, taps: int, density: float, **attributes: Any
) -> onnx.ModelProto:
    """A convolution by encoded weights, with a bias, between two Relus."""
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Conv", ["a", "w", "b"], ["c"], **attributes),
        helper.make_node("Relu", ["c"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    bias = numpy_helper.from_array(np.linspace(-1, 1, features, dtype="f"), "b")
    made = [helper.make_empty_tensor_value_info("c"), helper.make_empty_tensor_value_info("y")]
    model = helper.make_model(
        helper.make_graph(nodes, "g", [x], made, [bias]),
        opset_imports=[helper.make_opsetid("", 21)],
        ir_version=10,
    )
    return encode(model, {"w": sparse(random_codes((features, shape[1], taps, taps), density, 1))})


@pytest.mark.parametrize("target", ["x86-64-v4-vnni", "x86-64-v3", "aarch64"])
@pytest.mark.parametrize(
    "shape, taps, how",
    [
        ((2, 20, 5, 6), 3, {"pads": [1, 1, 1, 1]}),
        ((1, 20, 9, 8), 3, {"strides": [2, 2], "pads": [0, 1, 1, 0], "dilations": [1, 2]}),
        ((1, 130, 4, 5), 1, {}),
        ((1, 130, 5, 5), 1, {"strides": [2, 2]}),
        ((1, 64, 5, 5), 3, {"pads": [1, 1, 1, 1]}),
    ],
    ids=["padded", "strides", "1x1", "1x1 strides", "more"],
)
def test_convolutions_in_bytes_keep_one_percent(
    target: str,
    shape: tuple[int, int, int, int],
    taps: int,
    how: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ingot.passes.byte_activations.convolution_slower", lambda *_: "")
    model = convolution(shape, 24, taps, 0.2, **how)
    made = stages(model, Options(target=target, activations="int8", name="net"))
    assert "MatMulInteger" in used(made.graph)
    for kind in ("signed", "one large"):
        x = activations(kind, int(np.prod(shape)), 5).reshape(shape)
        wanted = oracle(model, x=x)
        found = [run(made.program, {"x": x})]
        if not obstacle(find(target)):
            found.append(compiled(target, activations="int8")(model, {"x": x}))
        for outputs in found:
            for y, of in zip(outputs, wanted, strict=True):
                assert np.abs(y - of).max() < PROMISED * np.abs(wanted[0]).max()


@pytest.mark.parametrize(
    "shape, features, taps, density, how, wanted",
    [
        ((1, 256, 13, 13), 256, 3, 0.09, {"pads": [1, 1, 1, 1]}, True),
        ((1, 256, 13, 13), 256, 3, 0.35, {"pads": [1, 1, 1, 1]}, False),  # Winograd's form is faster
        ((1, 64, 28, 28), 64, 3, 0.09, {"pads": [1, 1, 1, 1]}, False),  # gathering costs more than is saved
        ((1, 256, 14, 14), 256, 3, 0.25, {"pads": [1, 1, 1, 1], "strides": [2, 2]}, True),
        ((1, 1024, 14, 14), 256, 1, 0.35, {}, True),
        ((1, 64, 56, 56), 256, 1, 0.35, {}, False),  # fewer terms than are in sight
        ((1, 512, 7, 7), 512, 3, 0.09, {"pads": [1, 1, 1, 1], "group": 1}, True),
    ],
)
def test_convolutions_are_in_bytes_where_that_is_faster(
    shape: tuple[int, int, int, int],
    features: int,
    taps: int,
    density: float,
    how: dict[str, Any],
    wanted: bool,
) -> None:
    model = convolution(shape, features, taps, density, **how)
    graph = front(model, Options(target="x86-64-v4-vnni", activations="int8"))
    assert ("MatMulInteger" in used(graph)) == wanted


def left(model: onnx.ModelProto, target: str, **options: Any) -> dict[str, str]:
    return front(model, Options(target=target, activations="int8", **options)).left_float


@pytest.mark.parametrize(
    "node, shapes, target, wanted",
    [
        (("Gemm", {"transA": 1}), ((300, 1), (300, 64)), "c99", "Gemm without transA"),
        (("MatMul", {}), ((1, 64), (64, 300)), "x86-64-v4-vnni", "64 terms, a step of bytes sees 128"),
        (("Conv", {}), ((1, 256, 6, 6), (64, 256, 1, 1)), "cortex-m4", "ingot quantize"),
        (("Conv", {"group": 2}), ((1, 256, 6, 6), (64, 128, 1, 1)), "x86-64-v3", "one group"),
        (("ConvTranspose", {}), ((1, 256, 6, 6), (256, 64, 1, 1)), "x86-64-v3", "of products"),
        (("MatMul", {}), ((1, 784), (784, 300)), "x86-64-v4-vnni", None),
    ],
    ids=str,
)
def test_a_layer_that_stays_float_says_why(
    node: tuple[str, dict[str, int]],
    shapes: tuple[tuple[int, ...], tuple[int, ...]],
    target: str,
    wanted: str | None,
) -> None:
    op, attributes = node
    made = helper.make_node(op, ["x", "w"], ["y"], "layer", **attributes)
    model = one_node(
        made, {"x": shapes[0]}, {}, {"w": sparse(random_codes(shapes[1], 0.1))}, rank=len(shapes[0])
    )
    found = left(model, target)
    if wanted is None:
        assert not found
    else:
        assert list(found) == [f"{op} node 'layer'"] and wanted in next(iter(found.values()))


def test_many_values_and_huffman_say_why_too() -> None:
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    codes = random_codes((784, 300), 0.1, 1, 8)
    (why,) = left(one_node(node, {"x": (1, 784)}, {}, {"w": sparse(codes)}), "x86-64-v4-vnni").values()
    assert "pick among 32" in why or "the promise of 1 %" in why
    lstm = recurrent("LSTM", (4, 1, 140), 136)
    assert "--huffman" in next(iter(left(lstm, "x86-64-v3", huffman=True).values()))
    assert "slower" in next(iter(left(recurrent("LSTM", (4, 1, 20), 20), "x86-64-v3").values()))


def test_bundles_and_variants_say_which_layers_stay_float() -> None:
    node = helper.make_node("MatMul", ["x", "w"], ["y"], "fc")
    model = one_node(node, {"x": (1, 64)}, {}, {"w": sparse(random_codes((64, 300), 0.1))})
    bundle = compile_with(model, Options(target="x86-64-v3", activations="int8"))
    ((layer, why),) = [(x["layer"], x["why"]) for x in bundle.manifest["float_layers"]]
    assert layer == "MatMul node 'fc'" and why and why in str(bundle.tables()[1].rows)
    both = compile_with(model, Options(target="x86-64-v3+x86-64-v4", activations="int8"))
    assert [x["layer"] for x in both.manifest["float_layers"]] == [
        "MatMul node 'fc' on x86-64-v3",
        "MatMul node 'fc' on x86-64-v4",
    ]
    assert not compile_with(model, Options(target="x86-64-v3")).manifest["float_layers"]
