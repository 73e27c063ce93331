"""Bytes that floats decide are the same on every target, to the last of them that lies near two integers."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper, parser

import ingot
from ingot.formula.expr import Array
from tests.here import require_runs
from tests.oracles import exact_session

TARGETS = ("x86-64", "x86-64-v3", "x86-64-v4", "aarch64")
SOFTMAX = """<ir_version: 8, opset_import: ["" : 13]> g (uint8[{shape}] q) => (uint8[{shape}] y)
<float s = {{0.005}}, float t = {{{step}}}, uint8 z = {{0}}> {{
    x = DequantizeLinear(q, s, z) p = Softmax<axis={axis}>(x) y = QuantizeLinear(p, t, z)
}}"""


def softmax(q: Array, axis: int, step: float) -> Array:
    """In float64, before it is rounded."""
    e = np.exp(q.astype(np.float64) * np.float64(np.float32(0.005)))
    return e / e.sum(axis, keepdims=True) / np.float64(np.float32(step))


@pytest.mark.parametrize(
    "shape, axis", [((20000, 37), 1), ((9, 5000), 1), ((40, 300, 2), 1), ((5, 2), 1), ((7, 1), 1)]
)
def test_softmax(shape: tuple[int, ...], axis: int) -> None:
    step = 1 / 128 / shape[axis]
    model = parser.parse_model(SOFTMAX.format(shape=",".join(map(str, shape)), axis=axis, step=step))
    q = np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8)
    base = ingot.compile(model, target="c99").run({"q": q})["y"]
    assert np.abs(base - np.clip(softmax(q, axis, step), 0, 255)).max() < 0.5 + 2e-4
    for name in TARGETS:
        require_runs(name)
        np.testing.assert_array_equal(ingot.compile(model, target=name).run({"q": q})["y"], base, name)


def sums(kind: type, shapes: tuple[tuple[int, int], tuple[int, int]], numbers: Array) -> onnx.ModelProto:
    """QLinearAdd of two tensors, by scales and zero points."""
    element, lowest = helper.np_dtype_to_tensor_dtype(np.dtype(kind)), np.iinfo(kind).min
    scales, zeros = numbers[:3].astype(np.float32), (np.floor(numbers[3:]) + lowest).astype(kind)
    names = [n + t for t in "abc" for n in "sz"]
    values = [np.asarray(v) for pair in zip(scales, zeros, strict=True) for v in pair]
    inputs = [x for t in "ab" for x in (t, f"s{t}", f"z{t}")]
    graph = helper.make_graph(
        [helper.make_node("QLinearAdd", [*inputs, "sc", "zc"], ["y"], domain="com.microsoft")],
        "g",
        [helper.make_tensor_value_info(t, element, s) for t, s in zip("ab", shapes, strict=True)],
        [helper.make_tensor_value_info("y", element, None)],
        [numpy_helper.from_array(v, n) for n, v in zip(names, values, strict=True)],
    )
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


@pytest.mark.parametrize("kind", [np.uint8, np.int8])
@pytest.mark.parametrize("along", ["both", "first", "second"])
@pytest.mark.parametrize("name", ["c99", *TARGETS, "cortex-m3"])
def test_sums_of_bytes(name: str, along: str, kind: type) -> None:
    """Every pair of bytes, also where one operand stays along the rows of the other; these scales put some
    sums so near to ties that it matters which products and sums are rounded, in which order.
    """
    require_runs(name)
    random = np.random.default_rng(564)
    every = np.arange(256) + np.iinfo(kind).min
    a, b = (x.astype(kind) for x in np.meshgrid(every, every, indexing="ij"))
    if along == "first":
        b, a = b.T.copy(), a.T.copy()
        b = b[:, :1]
    if along == "second":
        a = a[:, :1]
    numbers = np.concatenate([random.uniform(0.01, 0.1, 3), random.uniform(0, 256, 3)])
    model = sums(kind, (a.shape, b.shape), numbers)
    (wanted,) = exact_session(model).run(None, {"a": a, "b": b})
    np.testing.assert_array_equal(ingot.compile(model, target=name).run({"a": a, "b": b})["y"], wanted)


@pytest.mark.parametrize("zero", [100, 101])
@pytest.mark.parametrize("is_pair", [False, True], ids=["operator", "QDQ"])
@pytest.mark.parametrize("name", ["c99", "x86-64-v3", "cortex-m3"])
def test_means_half_way_between_two_integers(name: str, is_pair: bool, zero: int) -> None:
    """onnxruntime's operator adds the zero point before it rounds to even, QuantizeLinear behind that; of
    scales that are powers of two its sums are exact, as ours are.
    """
    require_runs(name)
    pool = "AveragePool<kernel_shape=[2,2], strides=[2,2]>"
    whole = f"y = com.microsoft.QLinear{pool}(q, s, z, t, u)"
    pair = f"x = DequantizeLinear(q, s, z) p = {pool}(x) y = QuantizeLinear(p, t, u)"
    model = parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 13, "com.microsoft" : 1]>
        g (uint8[1,3,40,40] q) => (uint8[1,3,20,20] y)
        <float s = {{0.0625}}, float t = {{0.0625}}, uint8 z = {{13}}, uint8 u = {{{zero}}}> {{
            {pair if is_pair else whole} }}"""
    )
    plain = onnxruntime.SessionOptions()
    plain.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    q = np.random.default_rng(0).integers(0, 256, (1, 3, 40, 40)).astype(np.uint8)
    (wanted,) = exact_session(model, plain).run(None, {"q": q})
    np.testing.assert_array_equal(ingot.compile(model, target=name).run({"q": q})["y"], wanted)


BETWEEN = ("g = Sigmoid(c) a = Mul(c, g)", "a = HardSwish(c)", "d = Abs(c) a = Add(c, d)")
GATED = """<ir_version: 8, opset_import: ["" : 17]> g (uint8[1,16,40,40] q) => (uint8 y) {{
    x = DequantizeLinear(q, s, z)
    k = DequantizeLinear<axis=0>(w, ws, wz)
    c = Conv<pads=[1,1,1,1]>(x, k{bias})
    {rest}
    y = QuantizeLinear(a, t, u)
}}"""


@pytest.mark.parametrize("bias", ["", ", b"])
@pytest.mark.parametrize(
    "rest", ["g = Sigmoid(c) a = Mul(c, g)", "a = HardSwish(c)", "d = Abs(c) a = Add(c, d)"]
)
def test_what_lies_between_a_convolution_and_its_bytes(rest: str, bias: str) -> None:
    """The sums are those of integers, so one rounding is left, whichever vectors a target has."""
    model = parser.parse_model(GATED.format(rest=rest, bias=bias))
    random = np.random.default_rng(4)
    constants = {
        "s": np.array(0.03, np.float32),
        "z": np.array(120, np.uint8),
        "w": random.integers(-127, 128, (24, 16, 3, 3)).astype(np.int8),
        "ws": random.uniform(0.001, 0.004, 24).astype(np.float32),
        "wz": np.zeros(24, np.int8),
        "b": random.standard_normal(24).astype(np.float32),
        "t": np.array(0.02, np.float32),
        "u": np.array(101, np.uint8),
    }
    used = {i for n in model.graph.node for i in n.input}
    model.graph.initializer.extend(numpy_helper.from_array(v, n) for n, v in constants.items() if n in used)
    model.graph.output[0].type.tensor_type.ClearField("shape")
    q = random.integers(0, 256, (1, 16, 40, 40)).astype(np.uint8)
    base = ingot.compile(model, target="c99").run({"q": q})["y"]
    for name in TARGETS:
        require_runs(name)
        np.testing.assert_array_equal(ingot.compile(model, target=name).run({"q": q})["y"], base, name)
