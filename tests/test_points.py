"""Convolutions to few channels, several points of which share a vector: against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from ingot.driver import stages
from ingot.formula.expr import Shuffle, walk
from ingot.formula.statements import expressions, flatten
from ingot.options import Options
from ingot.targets.records import find
from ingot.targets.toolchain import obstacle
from tests.corpus.cases import onnxruntime_outputs
from tests.fuzz.levels import compiled, loops
from tests.ops.rows import check, floats

LOOPS = ("x86-64", "x86-64-v3", "aarch64")  # one for each case, beside the widest
SHIPPED = [t for t in ("c99", "x86-64-v3", "x86-64-v4") if not obstacle(find(t))]


def net(
    inputs: int, channels: int, size: tuple[int, int], kernel: tuple[int, int], **how: Any
) -> onnx.ModelProto:
    """The convolution with a leaky ReLU, a residual sum over a 1x1 convolution, a last 1x1 convolution."""
    weights = {
        "w": floats(channels, inputs, *kernel, seed=1),
        "b": floats(channels, seed=2),
        "same": floats(channels, channels, 1, 1, seed=3),
        "last": floats(3, channels, 1, 1, seed=4),
        "slope": floats(channels, 1, 1, seed=5),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], kernel_shape=kernel, **how),
        helper.make_node("LeakyRelu", ["c"], ["l"], alpha=0.1),
        helper.make_node("Conv", ["l", "same"], ["s"]),
        helper.make_node("Add", ["s", "l"], ["sum"]),
        helper.make_node("PRelu", ["sum", "slope"], ["p"]),
        helper.make_node("Conv", ["p", "last"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "points",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, inputs, *size))],
        [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(a, n) for n, a in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


PADS = {"pads": [1, 1, 1, 1]}
CASES: list[tuple[int, int, tuple[int, int], tuple[int, int], dict[str, Any]]] = [
    *((1, k, (7, 11), (3, 3), PADS) for k in (2, 4, 8)),
    *((3, k, (9, 8), (3, 3), {**PADS, "strides": [2, 2]}) for k in (2, 4, 8)),
    (1, 8, (16, 16), (5, 5), {"pads": [1, 1, 2, 2], "strides": [2, 2]}),
    (2, 4, (8, 9), (3, 3), {"dilations": [2, 2]}),
    (5, 4, (6, 7), (1, 1), {}),
    (3, 2, (13, 13), (7, 7), {"pads": [3, 3, 3, 3]}),
    (4, 8, (6, 5), (3, 3), {}),
    (1, 4, (3, 40), (1, 5), {"pads": [0, 2, 0, 2]}),
    *((1, k, (7, 10), (3, 3), {}) for k in (3, 5, 6, 7)),
]


@pytest.mark.parametrize(("inputs", "channels", "size", "kernel", "how"), CASES, ids=str)
def test_points(
    inputs: int, channels: int, size: tuple[int, int], kernel: tuple[int, int], how: dict[str, Any]
) -> None:
    model, feeds = net(inputs, channels, size, kernel, **how), {"x": floats(1, inputs, *size)}
    wanted = onnxruntime_outputs(model, feeds)
    for target in ("x86-64-v4", LOOPS[(inputs + channels) % len(LOOPS)]):
        check(loops(target)(model, feeds), wanted, 1e-5, f"loops for {target}")
    target = SHIPPED[(inputs + channels) % len(SHIPPED)]
    check(compiled(target)(model, feeds), wanted, 1e-5, f"C for {target}")


def test_who_gets_it() -> None:
    """A vector of 16 lanes holds two points of 8 channels, and one of 16."""
    for channels, shuffles in ((8, True), (16, False)):
        model = net(3, channels, (8, 8), (3, 3), **PADS)
        program = stages(model, Options(target="x86-64-v4", name="net")).program
        (first,) = (k for k in program.kernels if k.macs == 27 * 64 * channels)
        nodes = [n for s in flatten(first.body) for e in expressions(s) for n in walk(e)]
        assert any(isinstance(n, Shuffle) for n in nodes) == shuffles


def test_reads_stay_inside() -> None:
    """The last elements of a tensor are read one by one where a vector would reach beyond them."""
    model = net(3, 4, (5, 5), (1, 1))
    feeds = {"x": np.ascontiguousarray(floats(1, 3, 5, 5))}
    wanted = onnxruntime_outputs(model, feeds)
    for target in ("x86-64-v3", "x86-64-v4"):
        check(loops(target)(model, feeds), wanted, 1e-5, target)


@pytest.mark.parametrize("target", ["x86-64", "x86-64-v3"])
def test_narrow_weights_are_widened_elsewhere(target: str) -> None:
    """A recurrent layer whose weights are float16: no vector of them is a vector of floats."""
    text = """<ir_version: 10, opset_import: ["" : 21]>
    g (float16[3,2,5] x, float16[1,2,5] w) => (float16[3,1,2,2] y) <float[1,2,2] wide={0.5,-1.0,2.0,0.25}>
    { r = Cast<to=10>(wide) y = RNN<hidden_size=2>(x, w, r) }"""
    model, feeds = onnx.parser.parse_model(text), {}
    for i in model.graph.input:
        shape = [d.dim_value for d in i.type.tensor_type.shape.dim]
        feeds[i.name] = floats(*shape, seed=len(shape), dtype=np.float16)
    (wanted,) = onnxruntime_outputs(model, feeds)
    (found,) = compiled(target)(model, feeds)
    check([found], [wanted], 2e-3, target)
