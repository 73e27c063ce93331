"""Bytes that floats decide are the same on every target, to the last of them that lies near two integers."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import parser

import ingot
from ingot.formula.expr import Array
from tests.here import require_runs

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
