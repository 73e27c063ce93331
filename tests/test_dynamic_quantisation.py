"""Sums of bytes whose zero points only the run knows, as dynamic quantisation has them: exact, in vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from ingot.driver import stages
from ingot.loops.evaluate import run
from ingot.loops.verify import require_proved
from ingot.options import Options
from ingot.targets.records import find
from ingot.targets.toolchain import obstacle
from tests.corpus.cases import onnxruntime_outputs
from tests.fuzz.levels import compiled
from tests.ops.rows import floats

Array = np.ndarray[Any, Any]
TARGETS = ("x86-64-v4-vnni", "x86-64-v3", "aarch64-dotprod", "c99")
SHIPPED = [t for t in ("x86-64-v3", "x86-64-v4-vnni") if not obstacle(find(t))]
CASES: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "padded": ((1, 8, 9, 11), (24, 8, 3, 3), {"pads": [1, 1, 1, 1]}),
    "strided": ((1, 8, 9, 11), (16, 8, 3, 3), {"pads": [0, 1, 2, 1], "strides": [2, 2]}),
    "points": ((1, 32, 5, 7), (24, 32, 1, 1), {}),
    "groups": ((1, 8, 9, 11), (16, 4, 3, 3), {"pads": [1, 1, 1, 1], "group": 2}),
    "depthwise": ((1, 16, 9, 11), (16, 1, 3, 3), {"pads": [1, 1, 1, 1], "group": 16}),
    "signal": ((1, 8, 33), (24, 8, 5), {"pads": [2, 2]}),
    "product": ((6, 40), (40, 24), {}),
}
ZEROS: dict[str, Array] = {
    "uint8": np.uint8(133),
    "far": np.uint8(0),
    "near": np.uint8(128),
    "int8": np.int8(0),
    "int8 -9": np.int8(-9),
}


def model(case: str, zero: Array) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """A layer between DynamicQuantizeLinear and its sums; its weights take all values of their type."""
    shape, weights, attributes = CASES[case]
    info = np.iinfo(zero.dtype)
    w = np.random.default_rng(7).integers(info.min, info.max, weights, endpoint=True).astype(zero.dtype)
    operator = "MatMulInteger" if case == "product" else "ConvInteger"
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "scale", "point"]),
        helper.make_node(operator, ["q", "w", "point", "zero"], ["y"], **attributes),
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    outputs = [helper.make_tensor_value_info("y", TensorProto.INT32, None)]
    made = [numpy_helper.from_array(w, "w"), numpy_helper.from_array(np.asarray(zero), "zero")]
    graph = helper.make_graph(nodes, "dynamic", inputs, outputs, made)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return onnx.shape_inference.infer_shapes(proto), {"x": floats(*shape, seed=3) + 0.25}


@pytest.mark.parametrize("zero", ZEROS.values(), ids=list(ZEROS))
@pytest.mark.parametrize("case", CASES)
def test_exact_and_in_vectors(case: str, zero: Array) -> None:
    proto, feed = model(case, zero)
    (wanted,) = (np.asarray(a) for a in onnxruntime_outputs(proto, feed))
    for target in TARGETS:
        program = stages(proto, Options(target=target)).program
        require_proved(program)
        (found,) = run(program, feed)
        assert np.array_equal(found, wanted), target
        if target != "c99" and case != "depthwise":
            assert any("contract" in k.generators for k in program.kernels if k.macs), target
    for target in SHIPPED:
        (found,) = compiled(target)(proto, feed)
        assert np.array_equal(found, wanted), target
