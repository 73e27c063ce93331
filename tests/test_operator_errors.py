"""Nodes that contradict themselves: one clear error that names the node and what does not fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import ingot
from ingot.errors import InputError, UnsupportedError
from ingot.formula.expr import Array
from tests.ops.rows import Row, floats, model

F, Q, B = floats(2, 3), np.zeros((2, 3), np.int32), np.zeros((2, 3), bool)
ZERO = np.array(0.0, np.float32)
Q8 = np.zeros((2, 3), np.uint8)

CASES: list[tuple[str, list[Array | None], dict[str, Any], int, str]] = [
    ("Add", [F, F.astype(np.float64)], {}, 21, "of different types, float32 and float64"),
    ("Add", [B, B], {}, 21, "an input is bool, the operator takes floats or signed integers"),
    ("Exp", [Q], {}, 21, "an input is int32, the operator takes floats"),
    ("And", [F, F], {}, 21, "an input is float32, the operator takes bool"),
    ("Where", [F, F, F], {}, 21, "an input is float32, the operator takes bool"),
    ("Mul", [F, floats(4)], {}, 21, "shapes [2, 3] and [4] do not broadcast"),
    ("Add", [F, floats(3)], {}, 6, "broadcast is not set"),
    ("Add", [F, floats(4)], {"broadcast": 1}, 6, "does not fit"),
    ("Sub", [F], {}, 21, "the input 'b' is missing"),
    ("Cast", [F], {}, 21, "the attribute to is missing"),
    ("Cast", [F], {"to": 99}, 21, "99"),
    ("Gelu", [F], {"approximate": "guess"}, 21, "approximate='guess'"),
    ("PRelu", [F, floats(2, 2, 3)], {}, 21, "does not broadcast"),
    ("Clip", [F, floats(3), None], {}, 21, "the bounds must be scalars"),
    ("Dropout", [Q, ZERO + 1, np.array(True)], {}, 21, "an input is int32, the operator takes floats"),
    ("ReduceSum", [F, np.array([5])], {}, 21, "computed at run time"),
    ("ReduceMax", [F], {"axes": [2]}, 11, "axis 2 is out of range for rank 2"),
    (
        "Slice",
        [F],
        {"axes": [1, -1], "starts": [0, 1], "ends": [2, 3]},
        9,
        "an axis is repeated in the axes [1, 1]",
    ),
    (
        "Slice",
        [F],
        {"axes": [0, 1], "starts": [0], "ends": [2, 3]},
        9,
        "axes [0, 1] and steps [1] differ in length",
    ),
    (
        "ConvTranspose",
        [floats(1, 1, 2, 2), floats(1, 1, 3, 3)],
        {"output_padding": [1, 1, 1, 1], "output_shape": [4, 4]},
        11,
        "output_padding has 4 numbers for 2 spatial axes",
    ),
    ("ArgMax", [F], {"axis": -3}, 21, "axis -3 is out of range for rank 2"),
    ("LpNormalization", [F], {"p": 3}, 21, "p is 3"),
    ("QuantizeLinear", [F, floats(2), np.zeros(2, np.uint8)], {"axis": 1}, 21, "2 scales for 3 elements"),
    ("QuantizeLinear", [F, ZERO, np.zeros(3, np.uint8)], {}, 21, "zero point (3,), scale ()"),
    ("DequantizeLinear", [Q, ZERO, np.array(0, np.int8)], {}, 21, "of different types, int32 and int8"),
    (
        "QLinearMatMul",
        [Q8, ZERO, Q8[0, 0], Q8.T, ZERO, Q8[0, 0], ZERO, np.zeros(2, np.uint8)],
        {},
        21,
        "the zero point of the result is (2,), one number is needed",
    ),
    ("ImageDecoder", [np.zeros(9, np.uint8)], {}, 20, "decoding a file"),
    ("Det", [F], {}, 21, "shape [2, 3] holds no square matrices"),
    ("DFT", [floats(2, 3, 4)], {}, 20, "the last axis is 1 or 2 parts"),
    ("DFT", [floats(2, 3, 1)], {"axis": 2}, 17, "axis 2 holds the real and imaginary parts"),
    ("DFT", [floats(2, 1, 2)], {"axis": 1, "inverse": 1, "onesided": 1}, 17, "a transform of 0 elements"),
    ("STFT", [floats(2, 9, 1), np.array(2), None, np.array(3)], {}, 17, "frame_length"),
    ("STFT", [floats(9), np.array(2), floats(3)], {}, 17, "[batch, length, 1 or 2] is needed"),
    ("HannWindow", [np.array(2)], {}, 17, "capacity={'y0'"),
    ("NonMaxSuppression", [floats(1, 6, 4), floats(1, 1, 5), np.array([1])], {}, 11, "do not fit"),
    ("Unique", [F], {"axis": 2}, 11, "axis 2 is out of range for rank 2"),
    ("Trilu", [F, np.zeros((2, 2), np.int64)], {}, 14, "k is [2, 2], one element is needed"),
    ("Trilu", [F, np.zeros(0, np.int64)], {}, 14, "k is [0], one element is needed"),
    ("Split", [F], {"axis": 1, "num_outputs": 0}, 21, "num_outputs is 0, and it has 1 outputs"),
    (
        "MaxPool",
        [floats(1, 1, 3)],
        {"kernel_shape": [2], "storage_order": 7},
        22,
        "storage_order is 7: 0 counts by rows",
    ),
    ("RoiAlign", [floats(1, 1, 4, 4), F, np.zeros(2, np.int64)], {}, 16, "do not fit"),
    ("RoiAlign", [floats(1, 1, 4, 4), floats(2, 4), np.zeros(2, np.int64)], {"mode": "mean"}, 16, "'mean'"),
    ("MaxPool", [floats(1, 1, 3)], {"kernel_shape": [4], "strides": [2]}, 22, "window of 4 does not fit 3"),
    ("LpPool", [floats(1, 1, 3)], {"kernel_shape": [5], "strides": [3]}, 22, "window of 5 does not fit 3"),
    ("Conv", [floats(1, 1, 3), floats(1, 1, 4)], {}, 22, "window of 4 does not fit 3"),
    ("MaxRoiPool", [floats(1, 1, 4, 4), F], {"pooled_shape": [2, 2]}, 21, "do not fit"),
    ("DeformConv", [floats(1, 2, 4, 4), floats(2, 2, 2, 2), floats(1, 3, 3, 3)], {}, 19, "offset has shape"),
    ("RoiAlign", [floats(1, 1, 4, 4), floats(2, 4), floats(2)], {}, 16, "not integers"),
    ("NonMaxSuppression", [floats(1, 6, 4), floats(1, 1, 6), floats(2)], {}, 11, "one element is needed"),
    ("Dropout", [F, ZERO, np.zeros(0, bool)], {}, 21, "training_mode is bool[0], one element is needed"),
    ("HannWindow", [np.array(2)], {"output_datatype": 8}, 17, "no type of numbers"),
    ("DFT", [floats(2, 3, 1), np.array([1, 2])], {}, 20, "one element is needed"),
    ("Bernoulli", [Q], {}, 21, "an input is int32, the operator takes floats"),
    ("Multinomial", [floats(3)], {}, 21, "rows of classes are needed"),
    (
        "QLinearMatMul",
        [Q8, np.ones((2, 3), np.float32), Q8[0, 0], Q8.T, ZERO, Q8[0, 0], ZERO, Q8[0, 0]],
        {},
        21,
        "not one for each row",
    ),
    ("QLinearMatMul", [Q8, floats(3), Q8[0, 0], Q8.T, ZERO, Q8[0, 0], ZERO, Q8[0, 0]], {}, 21, "not one for"),
    ("AffineGrid", [floats(2, 2, 3), np.ones(9, np.int64)], {}, 20, "theta [2, 2, 3] does not fit"),
    ("GatherElements", [F, np.zeros((3, 3), np.int64)], {"axis": 1}, 21, "beyond the data on an axis other"),
    ("ScatterElements", [F, np.zeros((2, 4), np.int64), floats(2, 4)], {}, 21, "beyond the data on an axis"),
]


def test_gradients_are_refused_by_name() -> None:
    node = helper.make_node("Gradient", ["r", "t"], ["y"], "step", domain="ai.onnx.preview.training")
    inputs = [helper.make_tensor_value_info(n, 1, [1]) for n in "rt"]
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", 1, [1])])
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.preview.training", 1)]
    with pytest.raises(UnsupportedError, match="Gradient node 'step' cannot be compiled: "):
        ingot.compile(helper.make_model(graph, opset_imports=imports, ir_version=10))


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ([F, F, F, F], "4 tensors are no weights with 2 others each"),
        ([F, F, F[:1]], "weight 0 has other tensors of another shape"),
        ([Q, Q, Q], "an input is int32, the operator takes floats"),
    ],
)
def test_error_of_an_optimiser(tensors: list[Array], message: str) -> None:
    inputs = [ZERO, np.array(1, np.int64), *tensors]
    row = Row("Adagrad", inputs, {}, outputs=2, opset=1, domain="ai.onnx.preview.training")
    with pytest.raises(InputError) as caught:
        ingot.compile(model(row))
    assert message in str(caught.value) and "Adagrad node" in str(caught.value)


@pytest.mark.parametrize(("op", "inputs", "attributes", "opset", "message"), CASES)
def test_error(
    op: str, inputs: list[Array | None], attributes: dict[str, Any], opset: int, message: str
) -> None:
    proto = model(Row(op, inputs, attributes, opset=opset))
    with pytest.raises(InputError) as caught:
        ingot.compile(proto)
    assert message in str(caught.value) and f"{op} node" in str(caught.value)


X, W = floats(2, 3, 8), floats(8)
PACKED = [floats(1, 64), np.zeros((6, 4, 8), np.uint8), floats(6, 4)]
SIZES = {"K": 64, "N": 6, "block_size": 16}
GROUPED = [*(floats(1, 2, n) for n in (32, 16, 16)), None, None, np.array([1], np.int32)]
CONTRIBUTED: list[tuple[str, list[Array | None], dict[str, Any], str]] = [
    (
        "FusedConv",
        [floats(1, 1, 4), floats(1, 1, 2)],
        {"activation": "Mish"},
        "activation 'Mish' is not known",
    ),
    (
        "FusedConv",
        [floats(1, 1, 4), floats(1, 1, 2)],
        {"activation": "Relu", "activation_params": [1.0]},
        "0 act",
    ),
    (
        "FusedConv",
        [floats(1, 1, 4), floats(1, 1, 2), None, floats(1, 1, 4)],
        {},
        "z must be of the result's shape [1, 1, 3]",
    ),
    ("FusedMatMul", [F, F], {"transBatchA": 1, "transB": 1}, "transBatchB need at least three"),
    ("FusedMatMul", [F, F], {}, "shapes [2, 3] and [2, 3] do not fit"),
    ("FastGelu", [F, floats(2)], {}, "the bias must be of shape [3]"),
    ("SkipLayerNormalization", [X, floats(3, 2, 3, 8), W], {}, "skip [3, 2, 3, 8] must broadcast"),
    ("SkipLayerNormalization", [X, X, floats(3)], {}, "gamma must be of shape [8]"),
    ("EmbedLayerNormalization", [Q, Q, F, F, None, W, W], {}, "must both be given"),
    ("MatMulNBits", [*PACKED, None, np.zeros(64, np.int32)], SIZES, "g_idx"),
    ("MatMulNBits", PACKED, {**SIZES, "weight_prepacked": 1}, "weight_prepacked"),
    ("MatMulNBits", PACKED, {**SIZES, "accuracy_level": 5}, "accuracy_level=5, 0 to 4 are known"),
    ("MatMulNBits", PACKED, {**SIZES, "bits": 3}, "3 bits per weight"),
    ("MatMulNBits", PACKED, {**SIZES, "block_size": 24}, "a power of 2"),
    ("MatMulNBits", PACKED, {**SIZES, "N": 7}, "not (7, 4, 8)"),
    ("MatMulNBits", [*PACKED, np.zeros((6, 4), np.uint8)], SIZES, "[6, 2] is needed"),
    ("RotaryEmbedding", [X, np.zeros((2, 3), int), floats(9, 4), floats(9, 3)], {}, "differ"),
    ("RotaryEmbedding", [X, np.zeros((2, 3), int), floats(9, 3), floats(9, 3)], {}, "not heads of 6"),
    ("RotaryEmbedding", [X, np.zeros((2, 3), int), floats(9, 4), floats(9, 4)], {"scale": 2.0}, "scale 2"),
    ("MultiHeadAttention", [X, X, X], {"num_heads": 3}, "not divisible into 3 heads"),
    ("MultiHeadAttention", [X, X, floats(2, 4, 8)], {"num_heads": 2}, "do not fit"),
    ("MultiHeadAttention", [X, X, X, W], {"num_heads": 2}, "at least 16 are needed"),
    ("MultiHeadAttention", [X, X, X, None, np.ones((3, 3), np.int32)], {"num_heads": 2}, "a mask of [3, 3]"),
    ("Attention", [X, floats(8, 25)], {"num_heads": 2}, "25 columns of weights"),
    ("Attention", [X, floats(8, 24)], {"num_heads": 2, "do_rotary": 1}, "do_rotary is not supported"),
    ("GroupQueryAttention", [*GROUPED, np.array(2)], {"num_heads": 3, "kv_num_heads": 2}, "do not share"),
    (
        "GroupQueryAttention",
        [*GROUPED, np.array(2)],
        {"num_heads": 4, "kv_num_heads": 2, "smooth_softmax": 1},
        "smooth_softmax is not supported",
    ),
    (
        "GroupQueryAttention",
        [*GROUPED[:3], floats(1, 2, 4, 8), floats(1, 2, 4, 8), GROUPED[5], np.array(6)],
        {"num_heads": 4, "kv_num_heads": 2},
        "'total_sequence_length'",
    ),
]


@pytest.mark.parametrize(("op", "inputs", "attributes", "message"), CONTRIBUTED)
def test_error_of_com_microsoft(
    op: str, inputs: list[Array | None], attributes: dict[str, Any], message: str
) -> None:
    proto = model(Row(op, inputs, attributes, opset=1, domain="com.microsoft"))
    with pytest.raises(InputError) as caught:
        ingot.compile(proto)
    assert message in str(caught.value) and f"{op} node" in str(caught.value)


@pytest.mark.parametrize("policy", ["stretch", "not_larger"])
def test_an_axis_without_elements_cannot_grow(policy: str) -> None:
    attributes = {"keep_aspect_ratio_policy": policy}
    row = Row("Resize", [floats(0, 3), None, None, np.array([2, 3])], attributes, constant=[3])
    with pytest.raises(InputError, match=r"Resize node 'node': shape \[0, 3\] has nothing to resize"):
        ingot.compile(model(row))


@pytest.mark.parametrize("bounds, refused", [((1, 2), True), ((2, 5), False)])
def test_squeeze_without_axes_wants_to_know_its_rank(bounds: tuple[int, int], refused: bool) -> None:
    """Whether a bounded dimension has one element shows when the bundle runs: too late for a rank."""
    head = '<ir_version: 10, opset_import: ["" : 21]>'
    proto = onnx.parser.parse_model(f"{head} agraph (float[N,1,3] x) => (float[] y) {{ y = Squeeze (x) }}")
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    if refused:
        with pytest.raises(InputError, match=r"axis 0 of .* may have one element or more.*Give the axes"):
            ingot.compile(proto, define={"N": bounds})
    else:
        x = floats(4, 1, 3)
        assert np.array_equal(ingot.compile(proto, define={"N": bounds}).run({"x": x})["y"], x[:, 0])
