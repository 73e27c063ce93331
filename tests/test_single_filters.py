"""Products with one filter whose operands or results are bytes, and images that are quantised while they are
turned: vectors do all of these.
"""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import parser

from ingot.driver import stages
from ingot.formula.expr import Array
from ingot.loops.evaluate import run
from ingot.loops.operations import work
from ingot.loops.verify import require_proved
from ingot.options import Options
from ingot.targets.records import find
from ingot.targets.toolchain import obstacle
from tests.corpus.cases import onnxruntime_outputs
from tests.fuzz.levels import compiled

TARGETS = ("x86-64", "x86-64-v3", "x86-64-v4-vnni", "aarch64", "aarch64-dotprod")
SHIPPED = [t for t in ("x86-64-v3", "x86-64-v4-vnni") if not obstacle(find(t))]
QUANTISED = "x, sx, zx, w, sw, zw, sy, zy"
CASES = {
    "image": (f"y = QLinearConv <pads = [1, 1, 1, 1]> ({QUANTISED})", (1, 20, 7, 9), (1, 20, 3, 3)),
    "image, strided": (
        f"y = QLinearConv <pads = [0, 2, 1, 0], strides = [2, 1], dilations = [1, 2]> ({QUANTISED})",
        *((2, 8, 9, 10), (1, 8, 3, 2)),
    ),
    "image of one channel": (
        f"y = QLinearConv <pads = [2, 2, 2, 2]> ({QUANTISED})",
        (1, 1, 9, 13),
        (1, 1, 5, 5),
    ),
    "signal": (f"y = QLinearConv <strides = [2]> ({QUANTISED})", (1, 7, 50), (1, 7, 3)),
    "rows": (f"y = QLinearMatMul ({QUANTISED})", (10, 65), (65, 1)),
    "integers": ("y = MatMulInteger (x, w, zx)", (9, 33), (33, 1)),
}


def bytes_of(kind: str, shape: tuple[int, ...], seed: int) -> Array:
    ends = np.iinfo(kind)
    return np.random.default_rng(seed).integers(ends.min, ends.max + 1, shape).astype(kind)


def net(text: str, kind: str, shape: tuple[int, ...], weights: Array) -> onnx.ModelProto:
    sizes, made = ", ".join(map(str, shape)), "int32" if "Integer" in text else kind
    proto = parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17]>\ng ({kind}[{sizes}] x) => ({made}[] y) {{ {text} }}'
    )
    zero = np.array(7, kind)
    constants = {"w": weights, "zx": zero, "zy": zero, "zw": np.array(0, np.int8)}
    constants |= {s: np.array(n, np.float32) for s, n in {"sx": 0.02, "sw": 0.01, "sy": 0.37}.items()}
    for name, array in constants.items():
        if f", {name}" in text:
            proto.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    return proto


@pytest.mark.parametrize("kind", ["uint8", "int8"])
@pytest.mark.parametrize("case", CASES)
def test_one_filter(case: str, kind: str) -> None:
    """Its channel is alone in the vectors of sums, each of whose lanes adds several products at once."""
    text, shape, weights = CASES[case]
    proto, feed = net(text, kind, shape, bytes_of("int8", weights, 1)), {"x": bytes_of(kind, shape, 2)}
    wanted = onnxruntime_outputs(proto, feed)
    for target in TARGETS:
        program = stages(proto, Options(target=target)).program
        require_proved(program)
        np.testing.assert_array_equal(run(program, feed)[0], wanted[0], f"loops for {target}")
        products = [k for k in program.kernels if "QLinear" in k.name or "MatMul" in k.name]
        assert products and all("contract" in k.generators for k in products), target
    for target in SHIPPED:
        np.testing.assert_array_equal(compiled(target)(proto, feed)[0], wanted[0], f"C for {target}")


@pytest.mark.parametrize(
    "shape", [(1, 20, 9, 7), (1, 5, 8, 8), (2, 64, 6, 6)], ids=lambda s: "x".join(map(str, s))
)
@pytest.mark.parametrize("kind", ["float", "uint8"])
def test_images_are_quantised_as_they_are_turned(kind: str, shape: tuple[int, ...]) -> None:
    """In tiles as wide as a vector of floats, though bytes are stored, and though bytes are read as well."""
    layer = f"y = QLinearConv <pads = [1, 1, 1, 1]> ({QUANTISED.replace('x', 'q', 1)})"
    source = "f = Identity (x)" if kind == "float" else "f = DequantizeLinear (x, sy, zy)"
    text = f"{source} q = QuantizeLinear (f, sx, zx) {layer}"
    weights = bytes_of("int8", (16, shape[1], 3, 3), 1)
    proto = net(text, "uint8", shape, weights)
    feed = {"x": bytes_of("uint8", shape, 2)}
    if kind == "float":
        proto.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.FLOAT
        feed = {"x": np.random.default_rng(2).normal(1, 1, shape).astype(np.float32)}
    wanted = onnxruntime_outputs(proto, feed)
    for target in TARGETS:
        program = stages(proto, Options(target=target)).program
        require_proved(program)
        np.testing.assert_array_equal(run(program, feed)[0], wanted[0], f"loops for {target}")
        assert all(work(k.body, {}).scalar_share < 0.2 for k in program.kernels), target
    for target in SHIPPED:
        np.testing.assert_array_equal(compiled(target)(proto, feed)[0], wanted[0], f"C for {target}")


@pytest.mark.parametrize("last", ["QuantizeLinear (c, sy, zy)", "Greater (c, sy)"])
@pytest.mark.parametrize("strides", [1, 2])
def test_floats_with_one_filter(strides: int, last: str) -> None:
    """Vectors go along the terms, whatever becomes of their sum."""
    first_layer = "a = Conv <pads = [1, 1, 1, 1]> (x, v) b = Relu (a)"
    text = f"{first_layer} c = Conv <strides = [{strides}, {strides}]> (b, w) y = {last}"
    random = np.random.default_rng(3)
    weights = random.normal(0, 0.1, (1, 24, 3, 3)).astype(np.float32)
    proto = net(text, "uint8", (2, 3, 9, 11), weights)
    first = random.normal(0, 1, (24, 3, 3, 3)).astype(np.float32)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(first, "v"))
    proto.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    if "Greater" in last:
        proto.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.BOOL
    feed = {"x": random.normal(0, 1, (2, 3, 9, 11)).astype(np.float32)}
    wanted = onnxruntime_outputs(proto, feed)
    for target in TARGETS:
        program = stages(proto, Options(target=target)).program
        require_proved(program)
        np.testing.assert_array_equal(run(program, feed)[0], wanted[0], f"loops for {target}")
        assert "dot_product" in program.kernels[-1].generators, target
    for target in SHIPPED:
        np.testing.assert_array_equal(compiled(target)(proto, feed)[0], wanted[0], f"C for {target}")
