"""Products with weights in blocks whose other operand becomes block floating point (`digit_tile`)."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

import ingot
from benchmarks.decoder_model import BLOCK, MICROSOFT
from ingot.options import Math
from tests.here import require_runs
from tests.ops.rows import Array

COLUMNS, TERMS = 40, 3 * BLOCK
TARGETS = ("x86-64-v3", "x86-64-v4-vnni")
RNG = np.random.default_rng(7)
CODES = RNG.integers(0, 256, (COLUMNS, TERMS // BLOCK, BLOCK // 2), dtype=np.uint8)
SCALES = RNG.choice(np.array([0.25, 0.5, 1.0], np.float32), (COLUMNS, TERMS // BLOCK))
WEIGHTS = (
    (np.stack([CODES & 15, CODES >> 4], -1).reshape(*SCALES.shape, BLOCK) - 8.0) * SCALES[..., None]
).reshape(COLUMNS, TERMS)


def product(rows: int) -> onnx.ModelProto:
    sizes = {"K": TERMS, "N": COLUMNS, "bits": 4, "block_size": BLOCK}
    node = helper.make_node("MatMulNBits", ["x", "q", "s"], ["y"], "product", domain=MICROSOFT, **sizes)
    constants = [onnx.numpy_helper.from_array(CODES, "q"), onnx.numpy_helper.from_array(SCALES, "s")]
    ends = {"x": TERMS, "y": COLUMNS}
    values = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, (rows, n)) for name, n in ends.items()
    ]
    graph = helper.make_graph([node], "product", values[:1], values[1:], constants)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(MICROSOFT, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def made(x: Array, target: str, math: Math = "standard") -> Array:
    require_runs(target)
    bundle = ingot.compile(product(len(x)), name="net", target=target, math=math, emit=("c", "obj"))
    assert (b"x_digits" in bundle.files["net.c"]) == (math == "standard")
    return np.asarray(bundle.run({"x": x})["y"])


@pytest.mark.parametrize("target", TARGETS)
def test_integers_are_multiplied_exactly(target: str) -> None:
    """Each block has an exponent of its own: what the others hold does not round its elements."""
    x = np.random.default_rng(1).integers(-2000, 2000, (1, TERMS)).astype(np.float32)
    x[:, BLOCK : 2 * BLOCK] *= 2.0**20
    x[:, 2 * BLOCK :] = 0
    np.testing.assert_array_equal(made(x, target), (x.astype(np.float64) @ WEIGHTS.T).astype(np.float32))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("size", [1.0, 1e-26, 1e34])
def test_as_close_as_sums_of_floats(target: str, size: float) -> None:
    x = (np.random.default_rng(2).standard_normal((1, TERMS)) * size).astype(np.float32)
    exact = x.astype(np.float64) @ WEIGHTS.T
    worst = [
        np.abs(made(x, target, math) - exact).max() / np.abs(exact).max() for math in ("standard", "exact")
    ]
    assert worst[0] < max(2 * worst[1], 4e-7)


@pytest.mark.parametrize("target", TARGETS)
def test_subnormal_elements_count_as_zero_beside_none(target: str) -> None:
    """A block's unit is never subnormal: what lies below 2^-117 is rounded to it."""
    x = np.full((1, TERMS), 1e-41, np.float32)
    y = made(x, target)
    assert np.all(np.abs(y - x.astype(np.float64) @ WEIGHTS.T) <= np.abs(WEIGHTS).sum(1) * 2.0**-117)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_makes_its_row_nan(bad: float) -> None:
    x = np.ones((3, TERMS), np.float32)
    x[1, TERMS - 1] = bad
    y = made(x, "x86-64-v4-vnni")
    assert np.isnan(y[1]).all() and np.isfinite(y[[0, 2]]).all()
