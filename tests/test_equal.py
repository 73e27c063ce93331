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


def _model(channels: int, shape: Sequence[int], pool: bool) -> onnx.ModelProto:
    """A convolution to channels of equal weights and, with `pool`, their means over a channels-last image."""
    w = np.random.default_rng(channels).random((1, shape[1], 1, 1), np.float32)
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"])]
    nodes += [helper.make_node("GlobalAveragePool", ["c"], ["y"])] if pool else []
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    y = helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, None)
    constant = numpy_helper.from_array(np.repeat(w, channels, 0), "w")
    graph = helper.make_graph(nodes, "equal", [x], [y], [constant])
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 18)])


@pytest.mark.parametrize("pool", [False, True], ids=["convolution", "pool"])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("channels", CHANNELS)
def test_channels_of_equal_weights_give_the_same(channels: int, target: str, pool: bool) -> None:
    shape = (1, 29, 13, 13)
    x = np.random.default_rng(channels).random(shape, np.float32) * 1e4
    (y,) = ingot.compile(_model(channels, shape, pool), target=target).run({"x": x}).values()
    assert (y == y[:, :1]).all()
