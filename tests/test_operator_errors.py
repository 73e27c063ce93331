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
    ("ImageDecoder", [np.zeros(9, np.uint8)], {}, 20, "it decodes files"),
    ("Det", [F], {}, 21, "shape [2, 3] holds no square matrices"),
    ("DFT", [floats(2, 3, 4)], {}, 20, "the last axis is 1 or 2 parts"),
    ("DFT", [floats(2, 3, 1)], {"axis": 2}, 17, "axis 2 holds the real and imaginary parts"),
    ("DFT", [floats(2, 1, 2)], {"axis": 1, "inverse": 1, "onesided": 1}, 17, "a transform of 0 elements"),
    ("STFT", [floats(2, 9, 1), np.array(2), None, np.array(3)], {}, 17, "frame_length"),
    ("STFT", [floats(9), np.array(2), floats(3)], {}, 17, "[batch, length, 1 or 2] is needed"),
    ("HannWindow", [np.array(2)], {}, 17, "--capacity y0"),
    ("NonMaxSuppression", [floats(1, 6, 4), floats(1, 1, 5), np.array([1])], {}, 11, "do not fit"),
    ("Unique", [F], {"axis": 2}, 11, "axis 2 is out of range for rank 2"),
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


@pytest.mark.parametrize("op", ["Gradient", "Adagrad", "Adam", "Momentum"])
def test_training_is_refused_by_name(op: str) -> None:
    node = helper.make_node(op, ["r", "t"], ["y"], "step", domain="ai.onnx.preview.training")
    inputs = [helper.make_tensor_value_info(n, 1, [1]) for n in "rt"]
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", 1, [1])])
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.preview.training", 1)]
    with pytest.raises(UnsupportedError, match=f"{op} node 'step': {op} is not compiled, for it"):
        ingot.compile(helper.make_model(graph, opset_imports=imports, ir_version=10))


@pytest.mark.parametrize(("op", "inputs", "attributes", "opset", "message"), CASES)
def test_error(
    op: str, inputs: list[Array | None], attributes: dict[str, Any], opset: int, message: str
) -> None:
    proto = model(Row(op, inputs, attributes, opset=opset))
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
