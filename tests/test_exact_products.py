"""Products of two tensors of bytes, in floats that do not round where vectors are: onnxruntime's bytes."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import ingot
from ingot.driver import front, stages
from ingot.formula.expr import Array
from ingot.loops.evaluate import run
from ingot.loops.program import calls
from ingot.options import Options
from tests.here import require_runs
from tests.oracles import exact_session

PAIR = ["DequantizeLinear", "DequantizeLinear", "MatMul", "QuantizeLinear"]
IN_FLOATS = ["DequantizeLinear", "DequantizeLinear", "MatMul", "Mul", "QuantizeLinear"]
NAMES = ("sa", "za", "sb", "zb", "sy", "zy")


def product(is_pair: bool, shapes: tuple[tuple[int, ...], ...], kinds: tuple[type, ...]) -> onnx.ModelProto:
    """A matrix product of two inputs, as QDQ or as one operator."""
    random = np.random.default_rng(sum(map(sum, shapes)))
    elements = [helper.np_dtype_to_tensor_dtype(np.dtype(k)) for k in kinds]
    numbers: list[Array] = []
    for kind, scale in zip(kinds, (0.02, 0.013, 0.31), strict=True):
        ends = np.iinfo(kind)
        numbers += [np.array(scale, np.float32), np.array(random.integers(ends.min, ends.max + 1), kind)]
    whole = helper.make_node("QLinearMatMul", ["a", "sa", "za", "b", "sb", "zb", "sy", "zy"], ["y"])
    pair = [
        helper.make_node("DequantizeLinear", ["a", "sa", "za"], ["fa"]),
        helper.make_node("DequantizeLinear", ["b", "sb", "zb"], ["fb"]),
        helper.make_node("MatMul", ["fa", "fb"], ["p"]),
        helper.make_node("QuantizeLinear", ["p", "sy", "zy"], ["y"]),
    ]
    graph = helper.make_graph(
        pair if is_pair else [whole],
        "g",
        [helper.make_tensor_value_info(n, e, s) for n, e, s in zip("ab", elements, shapes, strict=False)],
        [helper.make_tensor_value_info("y", elements[2], None)],
        [numpy_helper.from_array(v, n) for n, v in zip(NAMES, numbers, strict=True)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def feed(shapes: tuple[tuple[int, ...], ...], kinds: tuple[type, ...]) -> dict[str, Array]:
    """The whole range of bytes."""
    random = np.random.default_rng(3)
    ends = map(np.iinfo, kinds)
    return {
        n: random.integers(e.min, e.max + 1, s).astype(e.dtype)
        for n, s, e in zip("ab", shapes, ends, strict=False)
    }


UNSIGNED, SIGNED, MIXED = (np.uint8,) * 3, (np.int8,) * 3, (np.uint8, np.int8, np.uint8)
SHAPES = (((17, 64), (64, 33)), ((2, 3, 20, 16), (2, 3, 16, 5)), ((1, 200), (200, 9)), ((6, 300), (300, 7)))


@pytest.mark.parametrize("is_pair", [True, False], ids=["QDQ", "QLinearMatMul"])
@pytest.mark.parametrize("kinds", [UNSIGNED, SIGNED, MIXED], ids=["unsigned", "signed", "mixed"])
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v4-vnni", "aarch64", "c99"])
def test_every_byte(
    target: str, shapes: tuple[tuple[int, ...], ...], kinds: tuple[type, ...], is_pair: bool
) -> None:
    proto, given = product(is_pair, shapes, kinds), feed(shapes, kinds)
    (wanted,) = exact_session(proto).run(None, given)
    (got,) = run(stages(proto, Options(target=target)).program, given)
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("target", ["x86-64", "x86-64-v3", "c99", "cortex-m4"])
def test_compiled(target: str) -> None:
    require_runs(target)
    proto, given = product(True, SHAPES[0], MIXED), feed(SHAPES[0], MIXED)
    (wanted,) = exact_session(proto).run(None, given)
    np.testing.assert_array_equal(ingot.compile(proto, target=target).run(given)["y"], wanted)


@pytest.mark.parametrize("target", ["c99", "x86-64-v3"])
def test_a_factor_of_the_bias(target: str) -> None:
    """A Gemm whose bias counts twice adds integers as any other."""
    proto = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 13]> g (int8[5,40] q) => (uint8[5,7] y)
        <float s = {0.1}, float t = {0.5}, int8 z = {3}, int8 o = {0}, uint8 u = {90}> {
            x = DequantizeLinear(q, s, z) k = DequantizeLinear(w, s, o)
            p = Gemm<beta=2.0>(x, k, b) y = QuantizeLinear(p, t, u)
        }"""
    )
    random = np.random.default_rng(6)
    constants = {
        "w": random.integers(-127, 128, (40, 7)).astype(np.int8),
        "b": random.normal(0, 9, 7).astype(np.float32),
    }
    proto.graph.initializer.extend(numpy_helper.from_array(v, n) for n, v in constants.items())
    q = random.integers(-128, 128, (5, 40)).astype(np.int8)
    (wanted,) = exact_session(proto).run(None, {"q": q})
    made = stages(proto, Options(target=target))
    assert made.graph.nodes[0].op == "QGemm"
    np.testing.assert_array_equal(run(made.program, {"q": q})[0], wanted)


def test_floats_where_vectors_are() -> None:
    for is_pair in (True, False):
        proto = product(is_pair, SHAPES[0], UNSIGNED)
        assert [n.op for n in front(proto, Options(target="x86-64-v3")).nodes] == IN_FLOATS
        assert [n.op for n in front(proto, Options(target="c99")).nodes] == ["QLinearMatMul"]


def test_more_terms_than_floats_add_stay_as_they_are() -> None:
    """1,100 products of two bytes may exceed 2^24, wherever zero points lie."""
    for is_pair, wanted in ((True, PAIR), (False, ["QLinearMatMul"])):
        proto = product(is_pair, ((2, 1100), (1100, 3)), UNSIGNED)
        assert [n.op for n in front(proto, Options(target="x86-64-v3")).nodes] == wanted


@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v4-vnni", "aarch64"])
def test_sums_of_bytes_along_rows_go_in_vectors(target: str) -> None:
    """The mean of each channel of an image in the caller's order, and a product with one column."""
    pooled = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 13]> g (int8[1,5,19,17] q) => (int8[1,5,1,1] y)
        <float s = {0.1}, float t = {0.031}, int8 z = {7}> {
            x = DequantizeLinear(q, s, z) p = GlobalAveragePool(x) y = QuantizeLinear(p, t, z)
        }"""
    )
    q = np.random.default_rng(0).integers(-128, 128, (1, 5, 19, 17)).astype(np.int8)
    program = stages(pooled, Options(target=target)).program
    assert "row_reduction" in {name for c in calls(program.steps) for name in c.kernel.generators}
    (wanted,) = exact_session(pooled).run(None, {"q": q})
    (got,) = run(program, {"q": q})
    np.testing.assert_array_equal(got, wanted)
