"""Extents that are data: counted by a kernel, bounded by the operands, used by the kernels behind it.

One bundle serves every count; it gives back the true extents, and ERR_CAPACITY where one leaves its bounds.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import parser
from onnx.reference import ReferenceEvaluator

import ingot
from ingot.errors import InputError, UnsupportedError
from ingot.loops.evaluate import run
from ingot.loops.interpret import interpret
from ingot.loops.verify import verify_program
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
        with pytest.raises(InputError, match=r"ERR_CAPACITY.*\(--define, --capacity, --string-bytes\)"):
            bundle.run({"x": IMAGE, "keep": np.array(keep)})


def test_room_for_an_extent_that_falls_where_the_data_count_more() -> None:
    """z without its first elements, as many as x has that are not 0."""
    model = _model("""g (float[4] x, float[N] z) => (float[K] y, float[K] u)
    <int64[1] end={9}, int64[1] zero={0}, int64 axis={0}>
    { at = NonZero(x) n = Shape<start=1>(at) y = Slice(z, n, end, zero) t = Softmax(y) v = CumSum(t, axis)
      u = Softmax(v) }""")
    bundle, truth = ingot.compile(model, name="rest", define={"N": (4, 9)}), ReferenceEvaluator(model)
    assert [t["room"] for t in bundle.manifest["outputs"][:2]] == [9, 9]
    assert "N - " not in bundle.files["rest.c"].decode().split("rest_arena_size")[-1]
    for count, n in itertools.product(range(5), (4, 9)):
        given = {"x": (np.arange(4) < count).astype(np.float32), "z": np.arange(n, dtype=np.float32)}
        _same(list(bundle.run(given).values()), truth.run(None, given))


def test_two_extents_that_are_data_in_one_tensor() -> None:
    text = """g (float[2,3] x, bool[2] r, bool[3] c) => (float[K,L] y)
    { s = Compress<axis=0>(x, r) t = Compress<axis=1>(s, c) y = Mul(t, t) }"""
    model = _model(text)
    bundle, truth = ingot.compile(model), ReferenceEvaluator(model)
    for bits in range(32):
        keep = [bool(bits >> k & 1) for k in range(5)]
        given = {"x": IMAGE, "r": np.array(keep[:2]), "c": np.array(keep[2:])}
        _same(list(bundle.run(given).values()), truth.run(None, given))


def test_a_tensor_of_several_extents_that_are_data_becomes_a_vector() -> None:
    text = """g (float[2,3] x, bool[2] r, bool[3] c) => (float[K] y) <int64[1] flat = {-1}>
    { s = Compress<axis=0>(x, r) t = Compress<axis=1>(s, c) y = Reshape(t, flat) }"""
    bundle = ingot.compile(_model(text))
    for bits in range(32):
        keep = np.array([bool(bits >> k & 1) for k in range(5)])
        given = {"x": IMAGE, "r": keep[:2], "c": keep[2:]}
        _same(list(bundle.run(given).values()), [IMAGE[keep[:2]][:, keep[2:]].reshape(-1)])


def test_an_extent_that_is_data_and_may_be_nothing_beside_1() -> None:
    model = _model("g (int32[M,N] x, bool[1] keep) => (int32[M,K] y) { k = Compress(x, keep) y = Add(k, x) }")
    bundle = ingot.compile(model, define={"M": (1, 4), "N": (1, 5)})
    for shape, keep in (((2, 1), False), ((4, 5), True), ((3, 1), True), ((1, 1), False)):
        x = np.arange(shape[0] * shape[1], dtype=np.int32).reshape(shape)
        given = {"x": x, "keep": np.array([keep])}
        _same(list(bundle.run(given).values()), [np.compress([keep], x) + x])


@pytest.mark.parametrize("op", ["LayerNormalization", "Split", "Conv", "ConvTranspose"])
def test_parameters_meet_an_extent_that_is_data(op: str) -> None:
    rest, result, node = {
        "LayerNormalization": ((), "A,B", "y = LayerNormalization(k, p)"),
        "Split": ((), "A,B", "sizes = Constant<value_ints=[1,2]>() u, y = Split<axis=1>(k, sizes)"),
        "Conv": ((2,), "A,B,C", "y = Conv(k, w)"),
        "ConvTranspose": ((2,), "A,B,C", "t = Transpose<perm=[1,0,2]>(w) y = ConvTranspose(k, t)"),
    }[op]
    dims = ",".join(map(str, (2, 4, *rest)))
    model = _model(f"""g (float[{dims}] x, bool[4] keep, float[3] p, float[5,3,1] w) => (float[{result}] y)
      {{ k = Compress<axis=1>(x, keep) {node} }}""")
    rng = np.random.default_rng(3)
    given = {"x": rng.random((2, 4, *rest), np.float32), "p": rng.random(3, np.float32)}
    given |= {"w": rng.random((5, 3, 1), np.float32)}
    bundle, truth = ingot.compile(model), ReferenceEvaluator(model)
    fits = given | {"keep": np.array([True, False, True, True])}
    np.testing.assert_allclose(bundle.run(fits)["y"], truth.run(None, fits)[0], rtol=1e-5)
    with pytest.raises(InputError, match="ERR_CAPACITY"):
        bundle.run(given | {"keep": np.array([True, False, False, True])})


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
    with pytest.raises(UnsupportedError, match=r"capacity=\{'y': AxB"):
        ingot.compile(model)
    bundle = ingot.compile(model, capacity={"y": (4, 5)})
    assert bundle.run({"shape": np.array([3, 5])})["y"].shape == (3, 5)
    for shape in ([5, 5], [-1, 2], [2**40, 1]):
        with pytest.raises(InputError, match="ERR_CAPACITY"):
            bundle.run({"shape": np.array(shape)})


@pytest.mark.parametrize("target", ["native", "c99"])
def test_extents_that_only_the_data_shows_to_be_equal(target: str) -> None:
    """One may also be 1 and broadcast; what does not fit is an error code."""
    text = """g (float[4] x, bool[4] p, bool[4] q, float[3] three) =>
                (float[A] sum, float[3] fixed, float[B,2] pair, float[C] joined) <int64[1] one={1}> {
      a = Compress<axis=0>(x, p)
      b = Compress<axis=0>(x, q)
      sum = Add(a, b)
      fixed = Mul(b, three)
      c = Unsqueeze(a, one)
      d = Unsqueeze(b, one)
      pair = Concat<axis=1>(c, d)
      joined = Concat<axis=0>(a, three)
    }"""
    model = _model(text)
    bundle, truth = ingot.compile(model, target=target), ReferenceEvaluator(model)
    x, three = np.arange(1, 5, dtype=np.float32), np.arange(3, dtype=np.float32)
    for p in ([1, 1, 0, 1], [0, 1, 1, 1]):
        given = {"x": x, "p": np.array(p, bool), "q": np.array([1, 0, 1, 1], bool), "three": three}
        _same(list(bundle.run(given).values()), truth.run(None, given))
    for p, q in (([1, 1, 1, 1], [1, 1, 1, 0]), ([1, 1, 0, 0], [1, 1, 1, 0]), ([1, 1, 0, 0], [1, 1, 0, 0])):
        with pytest.raises(InputError, match="ERR_CAPACITY"):
            bundle.run({"x": x, "p": np.array(p, bool), "q": np.array(q, bool), "three": three})


PRODUCTS = {
    "matmul": ("float[2,A] y", "y = MatMul(a, three)"),
    "matmul_left": ("float[A,3] y", "y = MatMul(turned, two)"),
    "matmul_vector": ("float[2] y", "y = MatMul(a, vector)"),
    "matmul_batch": ("float[B,2,3] y", "deep = Unsqueeze(turned, last) y = MatMul(deep, row)"),
    "einsum": ("float[2,3] y", 'y = Einsum<equation="ij,jk->ik">(a, three)'),
    "einsum_right": ("float[3,2] y", 'y = Einsum<equation="ij,jk">(three, turned)'),
    "gemm": ("float[2,3] y", "y = Gemm(a, three, row)"),
    "gemm_turned": ("float[A,2] y", "y = Gemm<transA=1,transB=1>(a, eye, half)"),
    "gemm_bias": ("float[3,2] y", "y = Gemm(three, eyes, turned)"),
    "instance": ("float[1,3,2] y", "one = Squeeze(line, axis) y = InstanceNormalization(image, one, vector)"),
    "batch": (
        "float[1,3,2] y",
        "one = Squeeze(line, axis) y = BatchNormalization(image, one, one, one, vector)",
    ),
}
OPERANDS = {"two": (2, 3), "three": (3, 3), "row": (1, 3), "vector": (3,), "eye": (2, 2), "eyes": (3, 2)}
OPERANDS |= {"half": (2,), "image": (1, 3, 2), "batch": (3, 1, 3)}


@pytest.mark.parametrize("name", PRODUCTS)
def test_a_product_takes_an_extent_that_is_data(name: str) -> None:
    """What it is to be is checked when the bundle runs: 3, wherever another operand says so."""
    output, body = PRODUCTS[name]
    known = ", ".join(f"float{list(s)} {k}" for k, s in OPERANDS.items())
    model = _model(f"""g (float[2,4] x, bool[4] keep, {known}) => ({output})
      <int64[1] axis={{0}}, int64[1] last={{2}}, int64[1] from={{0}}, int64[1] to={{1}}> {{
        a = Compress<axis=1>(x, keep) turned = Transpose(a) line = Slice(a, from, to, axis) {body} }}""")
    bundle, truth = ingot.compile(model, target="c99"), ReferenceEvaluator(model)
    rng = np.random.default_rng(5)
    fixed = {k: rng.uniform(1, 2, s).astype(np.float32) for k, s in {"x": (2, 4), **OPERANDS}.items()}
    for keep in ([1, 1, 0, 1], [0, 1, 1, 0], [0, 0, 0, 0], [0, 0, 1, 0]):
        given = {**fixed, "keep": np.array(keep, bool)}
        if sum(keep) == 3 or name in ("matmul_left", "gemm_turned", "matmul_batch"):
            _same(list(bundle.run(given).values()), truth.run(None, given))
        elif name != "gemm_bias" or sum(keep) != 1:
            with pytest.raises(InputError, match="ERR_CAPACITY"):
                bundle.run(given)


SCATTERED = {
    "elements": "y = ScatterElements<axis=1>(z, places, some)",
    "elements_back": "y = ScatterElements<axis=1>(z, fixed, kept)",
    "tuples": "one = Transpose(places) y = ScatterND(turned, one, rows)",
    "slices": "deep = Transpose(kept) y = ScatterND(deep, tuple, whole)",
}


@pytest.mark.parametrize("name", SCATTERED)
def test_updates_meet_an_extent_that_is_data(name: str) -> None:
    """Three of four are kept, as the other operand has it; else ERR_CAPACITY."""
    model = _model(f"""g (float[1,4] x, int64[1,4] i, bool[4] keep, float[1,5] z, float[1,3] some,
      int64[1,3] fixed, float[5,1] turned, float[3,1] rows, int64[1,1] tuple,
      float[1,1] whole) => (float[A,B] y) {{
        kept = Compress<axis=1>(x, keep) places = Compress<axis=1>(i, keep) {SCATTERED[name]} }}""")
    bundle, truth = ingot.compile(model, target="c99"), ReferenceEvaluator(model)
    rng = np.random.default_rng(3)
    given: dict[str, Any] = {"i": np.array([[4, 0, 2, 3]]), "fixed": np.array([[1, 3, 0]])}
    given["tuple"] = np.array([[1]])
    for value in model.graph.input:
        if value.type.tensor_type.elem_type == 1:
            shape = [d.dim_value for d in value.type.tensor_type.shape.dim]
            given[value.name] = rng.standard_normal(shape).astype(np.float32)
    for keep in ([1, 1, 0, 1], [0, 1, 1, 1], [1, 1, 0, 0], [0, 0, 0, 0]):
        given["keep"] = np.array(keep, bool)
        if sum(keep) == 3 or (name == "slices" and sum(keep)):
            _same(list(bundle.run(given).values()), truth.run(None, given))
        else:
            with pytest.raises(InputError, match=r"ERR_CAPACITY|ERR_INDEX"):
                bundle.run(given)


@pytest.mark.parametrize("names", ["kept, rows", "base, some"])
def test_batch_axes_meet_an_extent_that_is_data(names: str) -> None:
    """Three of four are kept, as the other operand has it; else ERR_CAPACITY."""
    model = _model(f"""g (float[4,5] x, int64[4,1] i, bool[4] keep, float[3,5] base, int64[3,1] rows)
      => (float[A] y) {{
        kept = Compress<axis=0>(x, keep) some = Compress<axis=0>(i, keep)
        y = GatherND<batch_dims=1>({names}) }}""")
    bundle, truth = ingot.compile(model, target="c99"), ReferenceEvaluator(model)
    x = np.arange(20, dtype=np.float32).reshape(4, 5)
    given: dict[str, Any] = {"x": x, "base": -x[:3], "keep": np.array([1, 1, 0, 1], bool)}
    given |= {"i": np.array([[0], [4], [-1], [2]]), "rows": np.array([[3], [0], [-2]])}
    _same(list(bundle.run(given).values()), truth.run(None, given))
    with pytest.raises(InputError, match="ERR_CAPACITY"):
        bundle.run({**given, "keep": np.array([1, 0, 0, 1], bool)})


def test_one_element_that_is_data_expands_as_far_as_its_capacity() -> None:
    text = """g (float[3,2] x, bool[3] keep, int64[2] s) => (float[A,B] y) {
      kept = Compress<axis=0>(x, keep) y = Expand(kept, s)
    }"""
    model, x = _model(text), IMAGE.T.copy()
    bundle, truth = ingot.compile(model, target="c99", capacity={"y": (5, 2)}), ReferenceEvaluator(model)
    for keep, s in (([0, 1, 0], [5, 1]), ([0, 1, 0], [0, 2]), ([1, 1, 0], [1, 2]), ([1, 1, 1], [3, 1])):
        given = {"x": x, "keep": np.array(keep, bool), "s": np.array(s)}
        _same(list(bundle.run(given).values()), truth.run(None, given))
    for keep, s in (([0, 1, 0], [6, 1]), ([1, 1, 0], [5, 1]), ([0, 0, 0], [2, 1])):
        with pytest.raises(InputError, match="ERR_CAPACITY"):
            bundle.run({"x": x, "keep": np.array(keep, bool), "s": np.array(s)})


@pytest.mark.parametrize("ones", range(5))
def test_an_extent_that_is_data_may_be_one_and_broadcast(ones: int) -> None:
    text = (
        "g (float[4] x, bool[4] p, float[4] y) => (float[4] z) { a = Compress<axis=0>(x, p) z = Add(y, a) }"
    )
    bundle = ingot.compile(_model(text))
    x = np.arange(1, 5, dtype=np.float32)
    given = {"x": x, "p": np.arange(4) < ones, "y": 10 * x}
    if ones in (1, 4):
        assert bundle.run(given)["z"].tolist() == (10 * x + x[:ones]).tolist()
    else:
        with pytest.raises(InputError, match="ERR_CAPACITY"):
            bundle.run(given)


LATE = {
    "slice": ("float[5,6] x, int64[2] s, int64[2] e, int64[2] t", "y = Slice(x, s, e, , t)"),
    "slice_axes": ("float[5,6] x, int64[1] s, int64[1] e, int64[1] a", "y = Slice(x, s, e, a)"),
    "slice_empty": ("float[0,6] x, int64[2] s, int64[2] e, int64[2] t", "y = Slice(x, s, e, , t)"),
    "expand": ("float[5,1] x, int64[3] s", "y = Expand(x, s)"),
    "tile": ("float[2,3] x, int64[2] s", "y = Tile(x, s)"),
    "reshape": ("float[4,6] x, int64[2] s", "y = Reshape(x, s)"),
    "reshape_of_a_sum": ("float[4,6] x, int64[3] s", "z = Neg(x) w = Reshape(z, s) y = Exp(w)"),
    "pad": ("float[2,3] x, int64[4] s", "y = Pad(x, s)"),
    "pad_edge": ("float[2,3] x, int64[4] s", 'y = Pad<mode="edge">(x, s)'),
    "range": ("int64 s, int64 e, int64 t", "y = Range(s, e, t)"),
    "range_float": ("float s, float e, float t", "y = Range(s, e, t)"),
    "top": ("float[4,6] x, int64[1] s", "y, i = TopK(x, s)"),
    "one_hot": ("int64[3] x, int64 s, float[2] v", "y = OneHot(x, s, v)"),
    "resize": ("float[4,6] x, float[2] s", "y = Resize(x, , s)"),
    "resize_linear": ("float[4,6] x, int64[2] s", 'y = Resize<mode="linear">(x, , , s)'),
    "resize_of_a_slice": (
        "float[4,6] x, int64[1] s, int64[1] e, int64[2] t",
        'z = Slice(x, s, e) y = Resize<mode="linear">(z, , , t)',
    ),
    "resize_of_a_slice_by_scales": (
        "float[4,6] x, int64[2] s, int64[2] e, float[2] t",
        "z = Slice(x, s, e) y = Resize(z, , t)",
    ),
    "crop": ("float[4,6] x, int64[2] s", "y = CenterCropPad(x, s)"),
    "split": ("float[4,6] x, int64[2] s", "y, w = Split<axis=1>(x, s) "),
}
RANKS = {"expand": 3, "reshape_of_a_sum": 3, "range": 1, "range_float": 1}
GIVEN: dict[str, list[dict[str, Any]]] = {
    "slice": [
        {"s": [1, 0], "e": [4, 6], "t": [1, 2]},
        {"s": [-1, 5], "e": [-100, 0], "t": [-1, -2]},
        {"s": [9, 2], "e": [2**62, -1], "t": [2**40, 3]},
        {"s": [-(2**63), 2**63 - 1], "e": [2**63 - 1, -(2**63)], "t": [1, -(2**63) + 1]},
    ],
    "slice_axes": [{"s": [1], "e": [3], "a": [0]}, {"s": [-2], "e": [99], "a": [-1]}],
    "slice_empty": [
        {"s": [0, 0], "e": [-9, 6], "t": [-1, 1]},
        {"s": [-(2**63), 5], "e": [-(2**63), 0], "t": [-2, -1]},
        {"s": [3, 0], "e": [0, 6], "t": [1, 2]},
    ],
    "expand": [{"s": [2, 1, 4]}, {"s": [0, 5, 1]}, {"s": [1, 5, 3]}],
    "tile": [{"s": [2, 1]}, {"s": [0, 3]}],
    "reshape": [{"s": [24, 1]}, {"s": [0, -1]}, {"s": [-1, 8]}, {"s": [3, 8]}],
    "reshape_of_a_sum": [{"s": [2, -1, 3]}, {"s": [4, 0, 1]}],
    "pad": [{"s": [1, 0, 2, 1]}, {"s": [-1, 0, 0, -2]}],
    "pad_edge": [{"s": [1, 0, 2, 1]}],
    "range": [{"s": 2, "e": 9, "t": 3}, {"s": 5, "e": -1, "t": -2}, {"s": 5, "e": 9, "t": -2}],
    "range_float": [{"s": 0.5, "e": 2.0, "t": 0.25}, {"s": 1.0, "e": 0.0, "t": 0.5}],
    "top": [{"s": [3]}, {"s": [6]}, {"s": [0]}],
    "one_hot": [{"s": 3, "x": [0, 2, -1], "v": [-1, 1]}, {"s": 5, "x": [0, 4, 9], "v": [0, 2]}],
    "resize": [{"s": [2.0, 0.5]}, {"s": [1.0, 3.0]}],
    "resize_linear": [{"s": [7, 6]}, {"s": [2, 9]}, {"s": [1, 1]}],
    "resize_of_a_slice": [{"s": [1], "e": [3], "t": [5, 4]}, {"s": [-1], "e": [9], "t": [3, 6]}],
    "resize_of_a_slice_by_scales": [
        {"s": [1, 2], "e": [4, 5], "t": [1.5, 2.0]},
        {"s": [3, 0], "e": [3, 6], "t": [2.0, 0.5]},
    ],
    "crop": [{"s": [2, 8]}, {"s": [5, 3]}],
    "split": [{"s": [2, 4]}, {"s": [0, 6]}],
}
REFUSED: dict[str, list[dict[str, Any]]] = {
    "slice": [{"s": [0, 0], "e": [1, 1], "t": [0, 1]}],
    "expand": [{"s": [1, 4, 1]}, {"s": [-1, 1, 1]}, {"s": [1, 1, 2**40]}],
    "tile": [{"s": [-1, 1]}, {"s": [2**62, 2**62]}, {"s": [1, 2**63 - 1]}],
    "reshape": [{"s": [5, 5]}, {"s": [-1, -1]}, {"s": [-2, -12]}, {"s": [2**62, 2**62]}, {"s": [5, -1]}],
    "pad": [{"s": [-9, 0, 0, 0]}, {"s": [2**63 - 1, 0, 2**63 - 1, 0]}],
    "range": [{"s": 0, "e": 9, "t": 0}, {"s": 0, "e": 2**62, "t": 1}],
    "range_float": [{"s": 0.0, "e": 1.0, "t": 0.0}, {"s": 0.0, "e": np.inf, "t": 1.0}],
    "top": [{"s": [7]}, {"s": [-1]}],
    "one_hot": [{"s": -3, "x": [0, 0, 0], "v": [0, 1]}],
    "resize": [{"s": [-1.0, 1.0]}, {"s": [np.inf, np.nan]}],
    "resize_linear": [{"s": [-7, 6]}, {"s": [2**40, 1]}],
    "resize_of_a_slice": [{"s": [2], "e": [2], "t": [3, 6]}],  # of nothing to something
    "split": [{"s": [2, 5]}, {"s": [-1, 7]}, {"s": [2**63 - 1, 2**63 - 1]}],
}


def _late(name: str) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A model whose parameters are inputs, and the other inputs."""
    inputs, body = LATE[name]
    shape = ",".join("ABC"[: RANKS.get(name, 3 if name == "one_hot" else 2)][: 2 if name == "one_hot" else 3])
    kind = "int64" if name == "range" else "float"
    model = _model(f"g ({inputs}) => ({kind}[{shape}] y) {{ {body} }}")
    given = {}
    for value in model.graph.input:
        dims = [d.dim_value for d in value.type.tensor_type.shape.dim]
        given[value.name] = np.arange(np.prod(dims, dtype=int), dtype=np.float32).reshape(dims)
    return model, given


def _typed(model: onnx.ModelProto, given: dict[str, Any]) -> dict[str, np.ndarray]:
    kinds = {v.name: v.type.tensor_type.elem_type for v in model.graph.input}
    return {k: np.asarray(v, onnx.helper.tensor_dtype_to_np_dtype(kinds[k])) for k, v in given.items()}


@pytest.mark.parametrize("target", ["native", "c99"])
@pytest.mark.parametrize("name", LATE)
def test_parameters_of_shapes_may_be_data(name: str, target: str) -> None:
    model, fixed = _late(name)
    bundle = ingot.compile(model, target=target, capacity={"": 24})
    truth = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for case in GIVEN[name]:
        inputs = _typed(model, {**fixed, **case})
        wanted = truth.run(None, inputs)
        _same(list(bundle.run(inputs).values()), wanted)
    for case in REFUSED.get(name, []):
        with pytest.raises(InputError, match=r"ERR_CAPACITY|ERR_INDEX"):
            bundle.run(_typed(model, {**fixed, **case}))


def test_an_axis_that_is_squeezed_must_have_one_element() -> None:
    text = """g (float[3,2] x, bool[3] keep) => (float[2] y) <int64[1] axis={0}> {
      kept = Compress<axis=0>(x, keep)
      y = Squeeze(kept, axis)
    }"""
    bundle, x = ingot.compile(_model(text), target="c99"), IMAGE.T
    np.testing.assert_array_equal(bundle.run({"x": x, "keep": np.array([False, True, False])})["y"], x[1])
    for keep in ([True, True, False], [False, False, False]):
        with pytest.raises(InputError, match="ERR_CAPACITY"):
            bundle.run({"x": x, "keep": np.array(keep)})


def test_what_is_squeezed_without_axes_keeps_those_that_are_data() -> None:
    """With one element the axis would go, and the rank with it: that is told when it happens."""
    text = """g (float[3,1,2] x, bool[3] keep) => (float[K,2] y) {
      kept = Compress<axis=0>(x, keep)
      y = Squeeze(kept)
    }"""
    bundle, x = ingot.compile(_model(text), target="c99"), np.arange(6, dtype=np.float32).reshape(3, 1, 2)
    for keep in ([True, False, True], [True, True, True], [False, False, False]):
        found = bundle.run({"x": x, "keep": np.array(keep)})["y"]
        np.testing.assert_array_equal(found, x[np.array(keep), 0])
    with pytest.raises(InputError, match="ERR_CAPACITY"):
        bundle.run({"x": x, "keep": np.array([False, True, False])})


ELEMENTS = {
    "counted_places": ("some = Compress<axis=0>(i, keep) y = GatherElements<axis=1>(two, some)", 3),
    "counted_data": ("some = Compress<axis=0>(x, keep) y = GatherElements<axis=1>(some, fixed)", 1),
    "counted_target": ("some = Compress<axis=0>(x, keep) y = ScatterElements<axis=1>(some, fixed, two)", 1),
    "counted_updates": (
        """some = Compress<axis=0>(i, keep) new = Compress<axis=0>(x, keep)
      y = ScatterElements<axis=1, reduction="add">(two, some, new)""",
        3,
    ),
}
"""What is made of two rows, or of the rows that are kept, and a number of these that does not fit."""


@pytest.mark.parametrize("name", ELEMENTS)
def test_indices_must_fit_the_data_where_either_is_measured(name: str) -> None:
    body, apart = ELEMENTS[name]
    model = _model(f"""g (float[3,3] x, float[2,3] two, int64[3,3] i, bool[3] keep) => (float[A,3] y)
      <int64[2,3] fixed = {{0,1,2, 2,1,0}}> {{ {body} }}""")
    bundle, truth = ingot.compile(model, target="c99", keep_inputs=True), ReferenceEvaluator(model)
    numbers = np.arange(15, dtype=np.float32)
    i = np.array([[0, 1, 2], [2, 1, 0], [1, 0, 2]])
    given = {"x": numbers[:9].reshape(3, 3), "two": numbers[9:].reshape(2, 3), "i": i}
    for keep in ([True, True, False], [False, True, True]):
        given["keep"] = np.array(keep)
        _same(list(bundle.run(given).values()), truth.run(None, given))
    with pytest.raises(InputError, match="ERR_INDEX"):
        bundle.run({**given, "keep": np.arange(3) < apart})


def test_branches_of_one_element_may_differ_in_rank() -> None:
    text = """g (bool c, float[3] x) => (float[3] y) {
      s = If (c) <
        then_branch = t () => (float a) { a = ReduceSum<keepdims=0>(x) },
        else_branch = e () => (float[1] b) { b = ReduceMax(x) }
      >
      y = Add(x, s)
    }"""
    model = _model(text)
    bundle, truth = ingot.compile(model), ReferenceEvaluator(model)
    for condition in (True, False):
        given = {"c": np.array(condition), "x": np.array([1, 2, 4], np.float32)}
        _same(list(bundle.run(given).values()), truth.run(None, given))


FIRST = "a = Constant<value_ints=[0]>() b = Constant<value_ints=[1]>() one = Slice(kept,a,b,a) "
FOLLOWED = {
    "tile": ("float[A,B]", "times = Constant<value_ints=[2,3]>() y = Tile(kept, times)"),
    "unique": ("float[A]", "y = Unique(kept)"),
    "unique_rows": ("float[A,2]", "y = Unique<axis=0>(kept)"),
    "unique_row": ("float[A,2]", FIRST + "y = Unique<axis=0>(one)"),
}


@pytest.mark.parametrize("name", FOLLOWED)
def test_operators_take_an_extent_that_is_data(name: str) -> None:
    """Empty tensors included, of which nothing may be read."""
    kind, body = FOLLOWED[name]
    model = _model(
        f"g (float[3,2] x, bool[3] keep) => ({kind} y) {{ kept = Compress<axis=0>(x, keep) {body} }}"
    )
    bundle, truth = ingot.compile(model, target="c99"), ReferenceEvaluator(model)
    x = np.array([[1, 2], [3, 1], [1, 2]], np.float32)
    for bits in range(8):
        if bits == 0 and name.startswith("unique"):
            continue  # the oracle takes no empty one
        given = {"x": x, "keep": np.array([bool(bits >> k & 1) for k in range(3)])}
        _same(list(bundle.run(given).values()), truth.run(None, given))


def test_places_in_a_tensor_with_several_extents_that_are_data() -> None:
    model = _model("""g (float[3,2] x, bool[3] p, bool[2] q) => (int64[2,A] y) {
      rows = Compress<axis=0>(x, p) few = Compress<axis=1>(rows, q) y = NonZero(few) }""")
    bundle, truth = ingot.compile(model, target="c99"), ReferenceEvaluator(model)
    for bits in range(32):
        p, q = (np.array([bool(bits >> k & 1) for k in r]) for r in (range(3), range(3, 5)))
        given = {"x": IMAGE.T.copy(), "p": p, "q": q}
        _same(list(bundle.run(given).values()), truth.run(None, given))


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("mode", ["edge", "wrap", "reflect"])
def test_what_may_be_empty_is_continued_where_it_is_not(mode: str, late: bool) -> None:
    """Nothing is there to continue of an empty tensor: ERR_INDEX."""
    pads = np.array([1, 0, 1, 0])
    more, held = (", int64[4] pads", "") if late else ("", "<int64[4] pads={1,0,1,0}>")
    model = _model(f"""g (float[3,2] x, bool[3] keep{more}) => (float[A,B] y) {held} {{
      kept = Compress<axis=0>(x, keep) y = Pad<mode="{mode}">(kept, pads) }}""")
    bundle, x = ingot.compile(model, target="c99", capacity={"": 5}), IMAGE.T.copy()
    for bits in range(8):
        keep = np.array([bool(bits >> k & 1) for k in range(3)])
        given = {"x": x, "keep": keep, **({"pads": pads} if late else {})}
        if bits:
            wanted = np.pad(x[keep], ((1, 1), (0, 0)), mode)  # type: ignore[call-overload]  # any str
            np.testing.assert_array_equal(bundle.run(given)["y"], wanted)
        else:
            with pytest.raises(InputError, match="ERR_INDEX"):
                bundle.run(given)


@pytest.mark.parametrize("target", ["x86-64-v4", "c99"])
def test_a_row_of_a_bounded_dimension_takes_any_shape(target: str) -> None:
    """What lies outside is not provable by divisions alone: the condition before the read says it."""
    model = _model("g (uint32[1,M] x, int64[2] s) => (uint32[A,B] y) { y = Reshape(x, s) }")
    made = ingot.driver.stages(model, Options(target=target, define={"M": (1, 12)}, capacity={"y": (12, 4)}))
    assert not verify_program(made.program)
    x = np.arange(12, dtype=np.uint32)[None]
    for s in ([3, 4], [12, 1], [-1, 2]):
        (y, *_) = run(made.program, {"x": x, "s": np.array(s)}, {"M": 12})
        np.testing.assert_array_equal(y, x.reshape(s))


def test_floats_become_integers_and_places_in_one_bundle() -> None:
    """Both casts are one helper of the C."""
    text = """g (float[2,3] x, float[2] by) => (int32[2,3] i, float[A,B] y)
    { i = Cast<to=6>(x) y = Resize(x, , by) }"""
    bundle = ingot.compile(_model(text), capacity={"y": (8, 8)}, target="c99")
    found = bundle.run({"x": IMAGE, "by": np.array([2, 1], np.float32)})
    np.testing.assert_array_equal(found["i"], IMAGE.astype(np.int32))
    np.testing.assert_array_equal(found["y"], IMAGE.repeat(2, 0))


@pytest.mark.parametrize(("to", "kind"), [("12", "12"), ("3,-1", "A,B"), ("2,2,3", "2,2,3"), ("0,4", "A,4")])
def test_a_shape_that_the_data_must_fill(to: str, kind: str) -> None:
    """Reshape to extents that are known, of a tensor whose extents are not: the bundle counts."""
    text = f"""g (float[3,2,2] x, int64[3] end) => (float[{kind}] y)
    <int64[3] zero={{0,0,0}}, int64[n] to={{{to}}}>
    {{ part = Slice(x, zero, end) y = Reshape(part, to) }}"""
    bundle = ingot.compile(_model(text.replace("[n]", f"[{to.count(',') + 1}]")), target="c99")
    x, shape = np.arange(12, dtype=np.float32).reshape(3, 2, 2), [int(n) for n in to.split(",")]
    for end in ((3, 2, 2), (3, 1, 2), (1, 2, 2), (1, 1, 1), (3, 0, 2)):
        part = x[: end[0], : end[1], : end[2]]
        wanted = [part.shape[d] if n == 0 else n for d, n in enumerate(shape)]
        given = {"x": x, "end": np.array(end)}
        known = abs(int(np.prod(wanted)))
        if part.size == known or (-1 in shape and part.size % known == 0):
            np.testing.assert_array_equal(bundle.run(given)["y"], part.reshape(wanted))
        else:
            with pytest.raises(InputError, match="ERR_CAPACITY"):
                bundle.run(given)


def test_a_declared_count_that_is_wrong_yields_to_the_data() -> None:
    """With `infer_shapes`, wherever something else bounds the extent."""
    text = """g (float[1] x) => (float[1] y, float[3,1] all) <int64 n = {20}, float[1] most = {5}> {
      y, all = Loop (n, "", x) <body: graph = body (int64 i, bool on, float[1] s)
              => (bool[1] go, float[1] t, float[1] k) { t = Add (s, s) go = Less (t, most) k = Identity (t) }>
    }"""
    x = np.ones(1, np.float32)
    assert ingot.compile(_model(text), infer_shapes=True).run({"x": x})["all"].tolist() == [[2], [4], [8]]
    two = text.replace("[3,1]", "[7,1]")
    with pytest.raises(InputError, match=r"ERR_CAPACITY.*--infer-shapes"):
        ingot.compile(_model(two)).run({"x": x})
    assert ingot.compile(_model(two), infer_shapes=True).run({"x": x})["all"].shape == (3, 1)


def test_a_body_mapped_over_a_sequence_of_any_length_reads_what_is_around() -> None:
    text = """g (float[3] v, int64 n) => (float[A] y) {
      w = Neg(v)
      s = SequenceConstruct(v)
      t = Loop(n, "", s) <body: graph = b (int64 i, bool c, seq(float[3]) q) => (bool go, seq(float[3]) r) {
        m = SequenceMap(q) <body: graph = each (float[3] e) => (float[3] f) { d = Sub(e, w) f = Add(d, v) }>
        r = SequenceInsert(m, v)
        go = Identity(c)
      }>
      y = ConcatFromSequence<axis=0>(t)
    }"""
    given = {"v": np.array([1, 2, 4], np.float32), "n": np.array(2)}
    truth = onnxruntime.InferenceSession(_model(text).SerializeToString(), providers=["CPUExecutionProvider"])
    found = ingot.compile(_model(text), target="c99", capacity={"": 9}).run(given)
    _same(list(found.values()), truth.run(None, given))
    clash = _model(text.replace("w = Neg(v)", "input_sequence = Neg(v)").replace("e, w", "e, input_sequence"))
    with pytest.raises(UnsupportedError, match="the model has a value 'input_sequence' as well"):
        ingot.compile(clash, target="c99", capacity={"": 9})


def test_an_element_of_which_only_the_run_tells_the_rank() -> None:
    text = (
        "g (float a, float[3] b, int64 i) => (float[] y) { s = SequenceConstruct(a, b) y = SequenceAt(s, i) }"
    )
    model = _model(text)
    model.graph.output[0].type.tensor_type.ClearField("shape")
    with pytest.raises(UnsupportedError, match="elements have 0 or 1 axes"):
        ingot.compile(model)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("target", ["native", "c99"])
def test_scales_meet_an_extent_that_is_data(axis: int, target: str) -> None:
    """As many as there are scales: computed; another count: ERR_CAPACITY."""
    shape = "K,4" if axis == 0 else "4,K"
    model = _model(
        f"g (uint8[4,4] x, bool[4] keep, float[3] s) => (float[{shape}] y)"
        f"{{ k = Compress<axis={axis}>(x, keep) y = DequantizeLinear<axis={axis}>(k, s) }}"
    )
    bundle, truth = ingot.compile(model, target=target), ReferenceEvaluator(model)
    feeds = {"x": np.arange(16, dtype=np.uint8).reshape(4, 4), "s": np.array([0.5, 2, 3], np.float32)}
    feeds["keep"] = np.array([True, False, True, True])
    _same([bundle.run(feeds)["y"]], truth.run(None, feeds))
    for keep in ([True] * 4, [False, False, True, True]):
        with pytest.raises(InputError, match="ERR_CAPACITY"):
            bundle.run(feeds | {"keep": np.array(keep)})
