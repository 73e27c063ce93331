"""Equal channels stay equal: every output of a layer adds in one order, in full vectors and in tails.

A softmax of large values tells the last bit, so outputs that the model makes equal must be equal to the bit.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import ingot

CHANNELS = [19, 27, 62, 1000]
TARGETS = ["native", "c99", "x86-64-v3"]


def _model(
    op: str, inputs: Sequence[str], shape: Sequence[int], weights: dict[str, np.ndarray]
) -> onnx.ModelProto:
    node = helper.make_node(op, inputs, ["y"])
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    constants = [numpy_helper.from_array(a, n) for n, a in weights.items()]
    graph = helper.make_graph([node], "equal", [x], [y], constants)
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 18)])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("channels", CHANNELS)
def test_pooled_channels_that_hold_the_same_pool_to_the_same(channels: int, target: str) -> None:
    image = np.random.default_rng(channels).random((1, 1, 13, 13), np.float32) * 1e4
    x = np.broadcast_to(image, (1, channels, 13, 13)).copy()
    model = _model("GlobalAveragePool", ["x"], x.shape, {})
    y = ingot.compile(model, target=target).run({"x": x})["y"]
    assert len(np.unique(y)) == 1


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("channels", CHANNELS)
def test_channels_of_equal_weights_give_the_same(channels: int, target: str) -> None:
    rng = np.random.default_rng(channels)
    x = rng.random((1, 29, 5, 5), np.float32) * 1e4
    w = np.broadcast_to(rng.random((1, 29, 1, 1), np.float32), (channels, 29, 1, 1)).copy()
    model = _model("Conv", ["x", "w"], x.shape, {"w": w})
    y = ingot.compile(model, target=target).run({"x": x})["y"]
    assert (y == y[:, :1]).all()
