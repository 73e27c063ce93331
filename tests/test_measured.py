"""Extents that are data: counted by a kernel, bounded by the operands, used by the kernels behind it.

One bundle serves every count; it gives back the true extents, and ERR_CAPACITY where one leaves its bounds.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import parser
from onnx.reference import ReferenceEvaluator

import ingot
from ingot.errors import InputError, UnsupportedError
from ingot.loops.evaluate import run
from ingot.loops.interpret import interpret
from ingot.options import Options

IMAGE = np.array([[0, 1.5, 0], [2, 0, -3]], np.float32)
IMAGES = [IMAGE, np.zeros_like(IMAGE), np.ones_like(IMAGE)]
CHAIN = """
g (float[2,3] x) => (int64[2,K] places, float[K] picked, float[1] total, float[K] shares, int64[1] size,
                     float[L] twice, float[L,1] column)
<int64[2] shape={-1,1}> {
  places = NonZero(x)
  turned = Transpose(places)
  picked = GatherND(x, turned)
  positive = Relu(picked)
  total = ReduceSum(positive)
  shares = Softmax(picked)
  size = Shape(picked)
  twice = Concat<axis=0>(positive, picked)
  column = Reshape(twice, shape)
}
"""
ROWS = "g (float[2,3] x, bool[3] keep) => (float[2,K] y) { y = Compress<axis=1>(x, keep) }"


def _model(text: str) -> onnx.ModelProto:
    return parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]>\n{text}')


def _same(found: list[Any], wanted: list[Any]) -> None:
    for a, b in zip(found, wanted, strict=True):
        assert np.shape(a) == np.shape(b)
        np.testing.assert_allclose(a, b, rtol=1e-6, equal_nan=True)


@pytest.mark.parametrize("options", [{}, {"target": "c99"}, {"fuse": False}, {"target": "x86-64-v3"}])
def test_operators_behind_a_count_follow_it(options: dict[str, Any]) -> None:
    model = _model(CHAIN)
    bundle, truth = ingot.compile(model, **options), ReferenceEvaluator(model)
    for x in IMAGES:
        _same(list(bundle.run({"x": x}).values()), truth.run(None, {"x": x}))


def test_the_evaluators_follow_it_too() -> None:
    model = _model(CHAIN)
    made, truth = ingot.driver.stages(model, Options(target="c99")), ReferenceEvaluator(model)
    for x in IMAGES:
        wanted = truth.run(None, {"x": x})
        _same(interpret(made.region, {"x": x})[: len(wanted)], wanted)
        _same(run(made.program, {"x": x})[: len(wanted)], wanted)


def test_true_extents_are_outputs_of_their_own() -> None:
    bundle = ingot.compile(_model(ROWS), name="rows")
    header = bundle.files["rows.h"].decode()
    assert (
        "int rows(const float *x, const uint8_t *keep, float *y, int64_t *y_extent1, void *arena);" in header
    )
    assert "ROWS_Y_COUNT 6u" in header
    assert bundle.manifest["measured"] == [{"name": "y_extent1", "symbol": "y_extent1", "lo": 0, "hi": 3}]
    y = bundle.run({"x": IMAGE, "keep": np.array([True, False, True])})["y"]
    assert y.tolist() == [[0, 0], [2, -3]]


def test_a_count_that_contradicts_the_declared_shape_is_an_error() -> None:
    bundle = ingot.compile(_model(ROWS.replace("[2,K]", "[2,2]")))
    assert bundle.run({"x": IMAGE, "keep": np.array([True, False, True])})["y"].shape == (2, 2)
    for keep in ([True, True, True], [False, False, True]):
        with pytest.raises(InputError, match="ERR_CAPACITY"):
            bundle.run({"x": IMAGE, "keep": np.array(keep)})


def test_two_extents_that_are_data_in_one_tensor() -> None:
    text = """g (float[2,3] x, bool[2] r, bool[3] c) => (float[K,L] y)
    { s = Compress<axis=0>(x, r) t = Compress<axis=1>(s, c) y = Mul(t, t) }"""
    model = _model(text)
    bundle, truth = ingot.compile(model), ReferenceEvaluator(model)
    for bits in range(32):
        keep = [bool(bits >> k & 1) for k in range(5)]
        given = {"x": IMAGE, "r": np.array(keep[:2]), "c": np.array(keep[2:])}
        _same(list(bundle.run(given).values()), truth.run(None, given))


def test_a_branch_may_count() -> None:
    text = """g (bool c, float[2,3] x) => (float y) {
      y = If (c) <
        then_branch = t () => (float a) { p = NonZero(x) q = Cast<to=1>(p) a = ReduceSum<keepdims=0>(q) },
        else_branch = e () => (float b) { b = ReduceSum<keepdims=0>(x) }
      > }"""
    model = _model(text)
    bundle, truth = ingot.compile(model), ReferenceEvaluator(model)
    for condition in (True, False):
        given = {"c": np.array(condition), "x": IMAGE}
        _same(list(bundle.run(given).values()), truth.run(None, given))


def test_what_nothing_bounds_asks_for_a_capacity() -> None:
    model = _model("g (int64[2] shape) => (float[A,B] y) { y = ConstantOfShape(shape) }")
    with pytest.raises(UnsupportedError, match="--capacity y=AxBx"):
        ingot.compile(model)
    bundle = ingot.compile(model, capacity={"y": (4, 5)})
    assert bundle.run({"shape": np.array([3, 5])})["y"].shape == (3, 5)
    for shape in ([5, 5], [-1, 2], [2**40, 1]):
        with pytest.raises(InputError, match="ERR_CAPACITY"):
            bundle.run({"shape": np.array(shape)})
