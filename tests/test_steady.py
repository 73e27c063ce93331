"""Bytes that floats decide are the same on every target, to the last of them that lies near two integers."""

from __future__ import annotations

import numpy as np
import onnx
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
