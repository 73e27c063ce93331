"""Operators of Glow's ONNX reader that the standard does not have: what they mean, against numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx.parser
import pytest
from onnx import helper, numpy_helper

import ingot
from ingot.errors import InputError, UnsupportedError

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(7)


def floats(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def box_cox(x: Array, p: Array, shift: Array) -> Array:
    base = np.maximum(x + shift, np.float32(1e-6)).astype(float)
    return np.where(p == 0, np.log(base), (base**p - 1) / np.where(p == 0, 1, p))


X, M = floats(2, 3, 4), floats(2, 5, 4)
LENGTHS = np.int32([2, 0, 3])
PLACES = np.int64([3, 0, 3])
BOXES = np.float32([[0, 0, 1, 1], [0, 0.05, 1, 1.05], [0, 3, 1, 4], [0, 5, 1, 6]])
KEPT = [BOXES, np.float32([0.7, 0.9, 0.3, 0.8]), np.int64([3]), np.float32([0.5]), np.float32([0.4])]
HOLES = np.float32([[1, np.nan], [np.inf, -0.0]])
CODES = RNG.integers(0, 256, (3, 5)).astype(np.uint8)
PAIRS = np.float32([[0.5, -1], [2e-3, 7], [1e4, 0]])
FUSED = np.concatenate([CODES, PAIRS.view(np.uint8)], 1)
ROWS = (CODES * PAIRS[:, :1] + PAIRS[:, 1:])[[2, 0, 1, 1, 0]]
FOUND = np.int64([2, 0, 1, 1, 0])
RANGES = np.int32([[[3, 1], [0, 2]], [[4, 0], [2, 1]]])
CASES: dict[str, tuple[str, list[Array], Callable[..., Array]]] = {
    "BatchBoxCox": ("", [floats(4, 3) + 1, np.float32([0, 0.5, 2]), np.float32([0.1, 0.2, -5])], box_cox),
    "BatchMatMul": ("<trans_b = 1>", [X, M], lambda a, b: a @ b.transpose(0, 2, 1)),
    "BatchMatMul_both": (
        "<trans_a = 1, trans_b = 1>",
        [X, floats(2, 5, 3)],
        lambda a, b: (b @ a).transpose(0, 2, 1),
    ),
    "BatchMatMul_4": ("", [floats(2, 3, 4, 5), floats(2, 3, 5, 2)], np.matmul),
    "BatchMatMul_4t": (
        "<trans_a = 1, trans_b = 0>",
        [floats(2, 1, 5, 4), floats(3, 5, 2)],
        lambda a, b: a.swapaxes(2, 3) @ b,
    ),
    "BatchMatMul_2": ("<trans_b = 1>", [floats(3, 4), floats(2, 4)], lambda a, b: a @ b.T),
    "CmpEQ": ("", [HOLES, HOLES.T.copy()], np.equal),
    "CmpLTE": ("", [X, X[::-1].copy()], np.less_equal),
    "CumSum": ("<reverse = 1>", [X, np.int32([1])], lambda x, a: x[:, ::-1].cumsum(1)[:, ::-1]),
    "DotProduct": ("", [X, X], lambda a, b: (a * b).sum((1, 2))),
    "ExpandDims": ("<dims = [0, 3]>", [floats(2, 3)], lambda x: x[None, ..., None]),
    "FC": ("", [X, floats(5, 12), floats(5)], lambda x, w, b: x.reshape(2, 12) @ w.T + b),
    "FC_axes": (
        "<axis = 1, axis_w = 1>",
        [X, floats(5, 12), floats(5)],
        lambda x, w, b: x.reshape(2, 12) @ w.T + b,
    ),
    "FCTransposed": ("", [X, floats(12, 5), floats(5)], lambda x, w, b: x.reshape(2, 12) @ w + b),
    "Flip": ("", [X], lambda x: x[::-1]),
    "Flip_inner": ("<axis = 2>", [X], lambda x: x[..., ::-1]),
    "FullyConnected": (
        "<axis = 1>",
        [X.astype(np.float16), floats(12, 5).astype(np.float16), floats(5)],
        lambda x, w, b: x.reshape(2, 12) @ w + b.astype(np.float16),
    ),
    "FusedRowwiseQuantizedSparseLengthsSum": (
        "",
        [FUSED, FOUND, LENGTHS],
        lambda t, i, n: np.stack([ROWS[:2].sum(0), ROWS[:0].sum(0), ROWS[2:].sum(0)]),
    ),
    "FusedRowwiseQuantizedSparseLengthsWeightedSum": (
        "",
        [FUSED, np.float32([1, -1, 0.5, 2, 3]), FOUND, np.int32([4, 1])],
        lambda t, w, i, n: np.stack([(ROWS * w[:, None])[:4].sum(0), 3 * ROWS[4]]),
    ),
    "GatherRanges": (
        "<maxOutputSize = 6>",
        [floats(5, 2), RANGES],
        lambda x, r: np.concatenate([x[3:4], x[:2], x[2:3], 0 * x[:2]]),
    ),
    "Glow_Add": ("", [X, X], np.add),
    "Glow_MatMul": ('<o0_elemKind = "float">', [floats(2, 3), floats(3, 4)], np.matmul),
    "Glow_Mul": ("", [X, X], np.multiply),
    "Glow_Sub": ("", [X, X + 1], np.subtract),
    "LengthsSum": (
        "",
        [floats(5, 2, 3), LENGTHS],
        lambda x, n: np.stack([x[:2].sum(0), x[:0].sum(0), x[2:].sum(0)]),
    ),
    "LengthsToRanges": ("", [LENGTHS], lambda n: np.int32([[0, 2], [2, 0], [2, 3]])),
    "NonMaxSuppressionV4": ("", KEPT, lambda *a: np.int32([1, 3])),
    "NonMaxSuppressionV4_padded": ("<pad_to_max_output_size = 1>", KEPT, lambda *a: np.int32([1, 3, 0])),
    "ReplaceNaN": ("", [HOLES], lambda x: np.where(np.isnan(x), np.float32(0), x)),
    "ReplaceNaN_by": ("<value = 2.5>", [HOLES], lambda x: np.where(np.isnan(x), np.float32(2.5), x)),
    "SparseLengthsSum": (
        "",
        [ROWS.astype(np.float32), FOUND, LENGTHS],
        lambda t, i, n: np.stack([t[i][:2].sum(0), t[:0].sum(0), t[i][2:].sum(0)]),
    ),
    "SparseLengthsWeightedSum": (
        "",
        [X, np.float32([1, -1, 0.5]), np.int64([1, 0, 1]), np.int32([2, 1])],
        lambda t, w, i, n: np.stack([t[1] - t[0], t[1] / 2]),
    ),
    "SparseToDense": (
        "",
        [PLACES, floats(3, 2), floats(4, 2)],
        lambda i, v, like: np.stack([v[1], 0 * v[0], 0 * v[0], v[0] + v[2]]),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_means_what_glow_means(name: str) -> None:
    attributes, given, meant = CASES[name]
    kinds = ", ".join(
        f"{str(a.dtype).removesuffix('32') if a.dtype == np.float32 else a.dtype}"
        f"[{','.join(map(str, a.shape))}] x{i}"
        for i, a in enumerate(given)
    )
    operands = ", ".join(f"x{i}" for i in range(len(given)))
    variant = name.endswith(("_both", "_inner", "_by", "_4", "_4t", "_2", "_axes", "_padded"))
    operator = name.rpartition("_")[0] if variant else name
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 9]> g ({kinds}) => (float[] y) '
        f"{{ y = {operator} {attributes} ({operands}) }}"
    )
    model.graph.output[0].type.tensor_type.ClearField("shape")
    made = ingot.compile(model, target="c99", infer_shapes=True, capacity={"": 8})
    found = made.run({f"x{i}": a for i, a in enumerate(given)})["y"]
    wanted = meant(*given)
    assert found.dtype.kind == wanted.dtype.kind
    assert found.shape == wanted.shape
    close = 1e-2 if found.dtype == np.float16 else 1e-5
    np.testing.assert_allclose(found, wanted, rtol=close, atol=close)


def test_a_conversion_has_its_type_in_a_tensor_without_elements() -> None:
    """Glow's writer leaves out the types of attributes, too."""
    model = onnx.parser.parse_model(
        '<ir_version: 7, opset_import: ["" : 9]> g (float[2] x) => (float[2] y)'
        "{ half = ConvertTo (x) third = Identity (half) y = ConvertTo (third) }"
    )
    types = onnx.TensorProto.FLOAT16, onnx.TensorProto.FLOAT
    for node, kind in zip(model.graph.node[::2], types, strict=True):
        node.attribute.add(name="shape").t.CopyFrom(onnx.TensorProto(dims=[2], data_type=kind))
    found = ingot.compile(model, target="c99").run({"x": np.float32([0.1, 2])})["y"]
    assert found.tolist() == np.float16([0.1, 2]).astype(np.float32).tolist()


def test_what_is_picked_keeps_its_scale() -> None:
    about = 'o0_elemKind = "i8", o0_qScale = 1.2, o0_qOffset = 5, o1_elemKind = "index64"'
    model = onnx.parser.parse_model(
        '<ir_version: 7, opset_import: ["" : 9]> g (int8[2,4] x) => (int8[2,2] y, int64[2,2] at)'
        f"{{ y, at = Glow_TopK <K = 2, {about}> (x) }}"
    )
    found = ingot.compile(model, target="c99").run({"x": np.int8([[1, -3, 9, 4], [7, -8, -8, 2]])})
    assert found["y"].tolist() == [[9, 4], [7, 2]] and found["at"].tolist() == [[2, 3], [0, 3]]


@pytest.mark.parametrize("side", [True, False])
def test_a_branch_may_list_the_values_from_outside_that_it_reads(side: bool) -> None:
    text = (
        '<ir_version: 7, opset_import: ["" : 10]> g (float[1] x) => (float[1] y) <bool c = {SIDE}>'
        "{ y = If (c) <then_branch = a (float[1] x) => (float[1] s) { s = Add (x, x) },"
        " else_branch = b (float[1] NAME) => (float[1] p) { p = Mul (NAME, NAME) }> }"
    ).replace("SIDE", str(int(side)))
    model = onnx.parser.parse_model(text.replace("NAME", "x"))
    assert ingot.compile(model, target="c99").run({"x": np.float32([3])})["y"].tolist() == [6 if side else 9]
    with pytest.raises(InputError, match="else_branch has inputs, but nothing is given to a branch"):
        ingot.compile(onnx.parser.parse_model(text.replace("NAME", "z")))


@pytest.mark.parametrize(
    ("call", "attribute"),
    [
        ("FC <axis = 2> (x, x, x)", "axis"),
        ("FC <axis_w = 0> (x, x, x)", "axis_w"),
        ("FCTransposed <axis = 1, axis_w = 2> (x, x, x)", "axis_w"),
        ("BatchMatMul <trans_a = 2> (x, x)", "trans_a"),
        ("BatchMatMul <trans_b = 1.0> (x, x)", "trans_b"),
        ("Flip <axes = [0]> (x)", "axes"),
        ("Glow_Add <broadcast = 1> (x, x)", "broadcast"),
        ('Glow_Add <o0_elemKind = "i8"> (x, x)', "o0_elemKind"),
        ('Glow_Add <o0_elemKind = "float", o0_qScale = 0.5> (x, x)', "o0_qScale"),
        ("FullyConnected <axis = 2> (x, x, x)", "axis"),
    ],
)
def test_attributes_that_would_be_dropped_are_refused(call: str, attribute: str) -> None:
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 9]> g (float[2,2] x) => (float[2,2] y) {{ y = {call} }}'
    )
    operator = call.partition(" ")[0]
    with pytest.raises(UnsupportedError, match=f"^{operator} node 'y': the attribute '{attribute}' "):
        ingot.compile(model)


def test_where_a_node_runs_is_not_what_it_means() -> None:
    call = '<partitionName = "p0", NodeOpt_Interpreter_order = "late"> (x, x)'
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 9]> g (float[2] x) => (float[2] y) '
        f'{{ z = Glow_Add {call} y = Identity <partitionName = "p1", isIntermediateOutputForDAG = 1> (z) }}'
    )
    assert ingot.compile(model, target="c99").run({"x": np.ones(2, np.float32)})["y"].tolist() == [2, 2]


def test_tf2onnx_need_not_import_its_domain() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 10]> g (float[4,4] boxes, float[4] scores) => (int32[2] y)'
        "<int64 n = {2}, float half = {0.5}, float least = {0.0}>"
        "{ y = ai.onnx.converters.tensorflow.NonMaxSuppressionV4 <pad_to_max_output_size = 1>"
        " (boxes, scores, n, half, least) }"
    )
    found = ingot.compile(model, target="c99").run({"boxes": BOXES, "scores": KEPT[1]})
    assert found["y"].tolist() == [1, 3]


def test_bilinear_is_linear() -> None:
    model = (
        '<ir_version: 8, opset_import: ["" : 11]> g (float[1,1,2,3] x) => (float[1,1,4,6] y)'
        "<float[4] scales = {1, 1, 2, 2}, float[0] none = {}>"
        '{ y = Resize <mode = "MODE", coordinate_transformation_mode = "asymmetric"> (x, none, scales) }'
    )
    given = {"x": floats(1, 1, 2, 3)}
    found = [
        ingot.compile(onnx.parser.parse_model(model.replace("MODE", mode)), target="c99").run(given)["y"]
        for mode in ("bilinear", "linear")
    ]
    assert (found[0] == found[1]).all()


def test_an_error_names_the_operator_of_the_file() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 9]> g (float[2] x) => (float[2] y) { y = BatchMatMul (x, x) }'
    )
    with pytest.raises(InputError, match=r"^BatchMatMul node 'y', Einsum node "):
        ingot.compile(model)


def test_others_are_named() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 9]> g (float[2] x) => (float[2] y) { y = Glow_Tile (x) }'
    )
    with pytest.raises(UnsupportedError, match="Glow_Tile"):
        ingot.compile(model)


def quantised(**changes: Any) -> onnx.ModelProto:
    """As Glow writes it: a convolution in two groups, with a row of padding, between floats."""
    scales = {"o0_elemKind": "i8", "o0_qScale": 0.05, "o0_qOffset": 3}
    window = {"Kernels": [2, 1], "Strides": [1, 1], "Pads": [1, 0, 0, 0], "Dilation": [1, 1], "Group": 2}
    result = {"o0_elemKind": "i8", "o0_qScale": 0.25, "o0_qOffset": -7, "FusedActivation": "NONE"}
    read = ["q", "w", "b", "ws", "wo", "bs", "bo"]
    nodes = [
        helper.make_node("Glow_Quantize", ["x"], ["q"], **scales),
        helper.make_node(
            "Glow_ChannelwiseQuantizedConvolution", read, ["c"], **{**window, **result, **changes}
        ),
        helper.make_node("Glow_Dequantize", ["c"], ["y"], o0_elemKind="float"),
    ]
    constants = [numpy_helper.from_array(a, n) for n, a in CHANNELS.items()]
    info = helper.make_tensor_value_info
    x, y = info("x", 1, [1, 3, 3, 2]), info("y", 1, [1, 3, 3, 4])
    graph = helper.make_graph(nodes, "g", [x], [y], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 9)], ir_version=7)


CHANNELS = {
    "w": RNG.integers(-128, 128, (4, 2, 1, 1)).astype(np.int8),
    "b": RNG.integers(-900, 900, 4).astype(np.int32),
    "ws": np.float32([0.01, 0.02, 0.03, 0.04]),
    "wo": np.int32([0, 1, -2, 3]),
    "bs": np.float32([0.001, 0.002, 0.003, 0.004]),
    "bo": np.int32([0, 5, 0, -5]),
}


def test_a_convolution_with_scales_for_each_channel() -> None:
    x = np.random.default_rng(3).uniform(-5, 5, (1, 3, 3, 2)).astype(np.float32)
    c = {n: a.astype(float) for n, a in CHANNELS.items()}
    q = np.clip(np.rint(x / np.float32(0.05) + 3), -128, 127)[0]
    rows = np.concatenate([np.zeros((1, 3, 2)), q - 3])  # the padding stands for 0
    made = np.empty((3, 3, 4))
    for d in range(4):
        w = c["w"][d, :, 0, 0] - c["wo"][d]
        sums = rows[:-1, :, d // 2] * w[0] + rows[1:, :, d // 2] * w[1]
        bias = (c["b"][d] - c["bo"][d]) * c["bs"][d] / (0.05 * c["ws"][d])
        made[..., d] = (sums + np.trunc(bias + np.copysign(0.5, bias))) * (0.05 * c["ws"][d] / 0.25) - 7
    found = ingot.compile(quantised(), target="c99").run({"x": x})["y"]
    steps = found[0] / 0.25 - 7
    assert np.abs(steps - np.clip(made, -128, 127)).max() <= 0.501 and (steps == np.rint(steps)).all()
    assert np.ptp(steps) > 50


@pytest.mark.parametrize(
    "change",
    [
        {"FusedActivation": "RELU"},
        {"Kernels": [2, 1, 1]},
        {"o0_elemKind": "i16"},
        {"o0_qScale": float("nan")},
        {"o0_qScale": -1.0},
        {"o0_qOffset": 300},
    ],
    ids=str,
)
def test_quantised_operators_that_would_mean_something_else(change: dict[str, Any]) -> None:
    (name,) = change
    with pytest.raises(UnsupportedError, match=f"the attribute '{name}' is missing, or not read"):
        ingot.compile(quantised(**change))


def test_a_scale_that_nothing_says() -> None:
    model = quantised()
    model.graph.node[1].input[0] = "w"  # a constant without Glow's doc string
    with pytest.raises(UnsupportedError, match="the attribute 'i0_qScale' is missing"):
        ingot.compile(model)
    model.graph.initializer[0].doc_string = "$elemKind:i8$qScale:0.50000000000000$qOffset:-3$layout:*"
    with pytest.raises(InputError, match="QLinearConv"):
        ingot.compile(model)  # read, but of another shape than the image's
