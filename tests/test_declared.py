"""Declared shapes reach the node that needs one, through what keeps shapes, and only through that."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest

import ingot
from ingot.errors import InputError, UnsupportedError

HEAD = '<ir_version: 10, opset_import: ["": 21]>\n'


def test_declared_behind_the_reduction() -> None:
    text = """f (float[3,4] x, int64[1] axes) => (double[3] y) {
        s = ReduceSum <keepdims = 0> (x, axes)
        half = Constant <value = float {0.5}> ()
        h = Mul (half, s)
        d = Cast <to = 11> (h)
        y = Sqrt (d)
    }"""
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    bundle = ingot.compile(onnx.parser.parse_model(HEAD + text), name="declared")
    y = bundle.run({"x": x, "axes": np.array([-1])})["y"]
    np.testing.assert_allclose(y, np.sqrt(x.sum(1) / 2, dtype=np.float64), rtol=1e-6)


def test_branches_that_meet_again() -> None:
    text = """f (float limit) => (float[5] y) {
        zero = Constant <value = float {0}> ()
        one = Constant <value = float {1}> ()
        r = Range (zero, limit, one)
        c = Cos (r)
        t = Div (r, limit)
        y = Add (c, t)
    }"""
    bundle = ingot.compile(onnx.parser.parse_model(HEAD + text), name="declared")
    r = np.arange(5, dtype=np.float32)
    y = bundle.run({"limit": np.array(5, np.float32)})["y"]
    np.testing.assert_allclose(y, np.cos(r) + r / 5, rtol=1e-5)


def test_another_operand_may_be_the_larger() -> None:
    """y = s + x is declared, but s may be [3] or [1]: nothing follows for it."""
    text = """f (float[3,4] x, int64[1] axes) => (float[3,4] y) {
        s = ReduceSum <keepdims = 0> (x, axes)
        y = Add (s, x)
    }"""
    with pytest.raises(UnsupportedError, match="computed at run time"):
        ingot.compile(onnx.parser.parse_model(HEAD + text))


@pytest.mark.parametrize("x", [[1, 0, 1, 0], [1, 1, 1, 1]])
def test_another_number_than_declared_is_an_error_code(x: list[int]) -> None:
    text = "f (int64[4] x) => (int64[1,3] y) { y = NonZero (x) }"
    bundle = ingot.compile(onnx.parser.parse_model(HEAD + text), name="declared")
    assert bundle.run({"x": np.array([5, 0, 1, 2])})["y"].tolist() == [[0, 2, 3]]
    with pytest.raises(InputError, match="CAPACITY"):
        bundle.run({"x": np.array(x)})
