"""Operators that move elements, on a dimension known at run time only: one bundle for N = 2 .. 5."""

from __future__ import annotations

import re
from typing import cast

import numpy as np
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, parser

import ingot
from ingot.errors import InputError

HEAD = """
<ir_version: 10, opset_import: ["" : 21]>
g (float[N,3,4] x, int64[N] idx) => (%s)
<int64[3] keep={0,-1,2}, int64[2] flat={0,-1}, int64[1] minus={-1}, int64[1] zero={0}, int64[1] one={1},
 int64[1] two={2}, int64[1] end={9223372036854775807}, int64[1] front={-9223372036854775807},
 int64[6] pads={1,0,1,0,2,0}, int64[3] times={2,1,2}>
{ %s }
"""
CASES = {
    "reshape": "y = Reshape(x, keep)",
    "reshape_flat": "y = Reshape(x, flat)",
    "flatten": "y = Flatten <axis=2> (x)",
    "transpose": "y = Transpose <perm=[2,0,1]> (x)",
    "unsqueeze": "y = Unsqueeze(x, zero)",
    "concat": "y = Concat <axis=0> (x, x)",
    "slice": "y = Slice(x, one, end, zero)",
    "slice_last": "y = Slice(x, minus, end, zero)",
    "slice_back": "y = Slice(x, end, front, zero, minus)",
    "pad": "y = Pad(x, pads)",
    "pad_edge": 'y = Pad <mode="edge"> (x, pads)',
    "pad_wrap": 'y = Pad <mode="wrap"> (x, pads)',
    "tile": "y = Tile(x, times)",
    "gather": "y = Gather(x, idx)",
    "gather_last": "i = Constant <value_int=-1> () y = Gather(x, i)",
    "scatter": "q = Unsqueeze(idx, minus) y = ScatterND(x, q, x)",
    "split": "y, w = Split <axis=2, num_outputs=2> (x)",
    "split_dynamic": "w, y = Split <axis=0, num_outputs=2> (x)",
    "resize": "s = Constant <value_floats=[1.0,2.0,2.0]> () y = Resize(x, , s)",
    "resize_dynamic": "s = Constant <value_floats=[2.0,1.0,0.5]> () y = Resize(x, , s)",
    "resize_linear": 's = Constant <value_floats=[1.5,1.0,1.0]> () y = Resize <mode="linear"> (x, , s)',
    "resize_corners": "s = Constant <value_floats=[3.0,1.0,2.0]> () "
    'y = Resize <mode="linear", coordinate_transformation_mode="align_corners"> (x, , s)',
    "resize_cubic": "s = Constant <value_floats=[3.0,1.0]> () r = Reshape(x, flat) "
    'y = Resize <mode="cubic", coordinate_transformation_mode="asymmetric"> (r, , s)',
    "resize_shape": "s = Shape(x) t = Add(s, s) y = Resize(x, , , t)",
    "resize_some": "s = Shape <end=2> (x) t = Constant <value_ints=[7]> () u = Concat <axis=0> (s, t) "
    'y = Resize <mode="linear"> (x, , , u)',
    "top": "w, y = TopK <axis=1> (x, two)",
    "shape": "y = Shape(x)",
    "size": "y = Size(x)",
    "shape_known": "s = Shape(x) n = Gather(s, zero) t = Concat <axis=0> (n, minus) y = Reshape(x, t)",
    "shape_sum": "s = Shape(x) n = ReduceSum <keepdims=1> (s) m = Sub(n, one) y = ConstantOfShape(m)",
    "shape_slice": "s = Shape <end=1> (x) m = Sub(s, one) y = Slice(x, zero, m, zero)",
    "shape_expand": "s = Shape(x) o = Constant <value_floats=[1.0]> () y = Expand(o, s)",
}
RANKS = {
    "reshape_flat": 2,
    "resize_cubic": 2,
    "flatten": 2,
    "unsqueeze": 4,
    "gather_last": 2,
    "shape": 1,
    "size": 0,
    "shape_known": 2,
    "shape_sum": 1,
}


@pytest.mark.parametrize("name", CASES)
def test_bounded_dimension(name: str) -> None:
    """The same bundle agrees with onnxruntime for every N."""
    kind = "int64" if name in ("shape", "size", "top") else "float"
    shape = ",".join("abcd"[: RANKS.get(name, 3)])
    result = f"{kind}[{shape}] y" if shape else f"{kind} y"
    model = parser.parse_model(HEAD % (result, CASES[name]))
    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    bundle = ingot.compile(model, target="c99", name="dynamic", define={"N": (2, 5)})
    for n in (2, 3, 5):
        feeds = {"x": np.random.default_rng(n).random((n, 3, 4), np.float32), "idx": np.arange(n) - 1}
        wanted = session.run(["y"], feeds)[0]
        found = bundle.run(feeds)["y"]
        assert found.shape == wanted.shape and np.allclose(found, wanted, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("shape", "wanted"),
    [
        (("B", "N", 4), (-1, 4)),  # as attention folds batch and heads
        (("B", "N", 4), (-1,)),
        (("B", "N", 4), (0, 0, 2, 2)),
        (("N", 3, 4), (12, -1)),
        (("B", 6, "N"), (-1, 3)),
        (("B", 6, "N"), (6, -1)),
        ((9, "N", 72), (0, 0, 3, 24)),
        ((9, "N", 72), (9, -1, 24)),
    ],
)
def test_reshape_of_two_bounded_dimensions(shape: tuple[int | str, ...], wanted: tuple[int, ...]) -> None:
    """The elements keep their order; as an output of the bundle they are copied, not aliased."""
    nodes = [helper.make_node("Reshape", ["x", "s"], ["y"])]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [f"d{i}" for i in range(len(wanted))])
    known = helper.make_tensor("s", TensorProto.INT64, [len(wanted)], wanted)
    graph = helper.make_graph(nodes, "g", [x], [y], [known])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    bounds = {"N": (1, 4), "B": (1, 3)}
    bundle = ingot.compile(model, target="c99", define={k: v for k, v in bounds.items() if k in shape})
    for n, b in ((1, 3), (4, 1), (3, 2)):
        given = [d if isinstance(d, int) else {"N": n, "B": b}[d] for d in shape]
        feed = np.random.default_rng(n).random(given, np.float32)
        target = [given[i] if d == 0 else d for i, d in enumerate(wanted)]
        assert np.array_equal(bundle.run({"x": feed})["y"], feed.reshape(target))


def test_a_computed_extent_of_zero_is_no_copy() -> None:
    """[6, N, N] as [N, N, 6]: at N = 0 Reshape would keep the 6, so the bundle says that it does not fit."""
    model = parser.parse_model("""<ir_version: 10, opset_import: ["" : 21]>
    g (float[6,N,N] x) => (float[A,B,C] y) <int64[1] one={1}, int64[1] two={2}, int64[1] six={6}> {
      shape = Shape(x) n = Slice(shape, one, two) turned = Concat<axis=0>(n, n, six) y = Reshape(x, turned)
    }""")
    bundle = ingot.compile(model, target="c99", define={"N": (0, 3)})
    assert bundle.run({"x": np.zeros((6, 2, 2), np.float32)})["y"].shape == (2, 2, 6)
    with pytest.raises(InputError, match="ERR_CAPACITY"):
        bundle.run({"x": np.zeros((6, 0, 0), np.float32)})


@pytest.mark.parametrize("target", ["c99", "x86-64-v3"])
def test_shares_of_a_bounded_axis_are_kept_for_the_stages_behind(target: str) -> None:
    """Weights are made row by row in a loop over the axis, and read by the sum behind it."""
    text = """<ir_version: 10, opset_import: ["" : 21]>
    g (float[2,N] x) => (float[2,M] y) <float[2] by={1,3}>
    { y = Resize<antialias=1, mode="linear", coordinate_transformation_mode="align_corners">(x, , by) }"""
    model = parser.parse_model(text)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    bundle = ingot.compile(model, target=target, define={"N": (1, 5)})
    for n in (1, 2, 5):
        x = np.random.default_rng(n).random((2, n), np.float32)
        wanted = session.run(["y"], {"x": x})[0]
        np.testing.assert_allclose(bundle.run({"x": x})["y"], wanted, rtol=2e-5, atol=1e-6)


def test_nothing_of_a_bounded_dimension() -> None:
    """An empty tensor: extents are divided by none."""
    text = """<ir_version: 10, opset_import: ["" : 21]>
    g (float[N,0,N] x, bool[1] keep) => (float[N,A,N] y, float[B] u, int64[B] at)
    { y = Compress<axis=1>(x, keep) u, at = Unique(x) }"""
    bundle = ingot.compile(parser.parse_model(text), target="c99", define={"N": (1, 3)})
    found = bundle.run({"x": np.zeros((2, 0, 2), np.float32), "keep": np.array([False])})
    assert [a.shape for a in found.values()] == [(2, 0, 2), (0,), (0,)]


def test_shape_arithmetic_costs_nothing() -> None:
    """What is known of the shapes is not computed when the bundle runs."""
    model = parser.parse_model(HEAD % ("float[a,b] y", CASES["shape_known"]))
    bundle = ingot.compile(model, target="c99", name="dynamic", define={"N": (2, 5)})
    assert [k["nodes"] for k in bundle.manifest["kernels"]] == [["Reshape"]]


BOUNDED: dict[str, tuple[str, str, str, dict[str, tuple[int, int]]]] = {
    "identity": ("float[N,3] x", "float[a,b] y", "y = Identity(x)", {"N": (0, 9)}),
    "unused": ("float[N,3] x, float[M] z", "float[a,b] y", "y = Relu(x)", {"N": (1, 9), "M": (1, 4)}),
    "one_name": ("float[N,3] x, float[3,N] z", "float[a,b] y", "y = MatMul(x, z)", {"N": (1, 9)}),
    "mean": (
        "float[N,9,L] x",
        "float[a,b] y",
        "y = ReduceMean <keepdims=0> (x, one)",
        {"N": (1, 3), "L": (1, 40)},
    ),
    "sum_all": ("float[B,N] x", "float y", "y = ReduceSum <keepdims=0> (x)", {"B": (1, 3), "N": (0, 40)}),
    "softmax": ("float[B,N] x", "float[a,b] y", "y = Softmax(x)", {"B": (1, 3), "N": (1, 40)}),
    "softmax_0": ("float[N,4] x", "float[a,b] y", "y = Softmax <axis=0> (x)", {"N": (1, 40)}),
    "conv": (
        "float[B,4,L] x, float[6,4,3] w",
        "float[a,b,c] y",
        "y = Conv <pads=[1,1], strides=[2]> (x, w)",
        {"B": (1, 3), "L": (1, 50)},
    ),
    "window_at_one_place": (  # of three taps the middle one is inside, at every row of the batch
        "float[1,2,N] x",
        "float[a,b,c] y",
        """r = Concat <axis=0> (x, x, x) t = Reshape(r, triples) k = Constant <value_ints=[3,2,3]> ()
        w = ConstantOfShape <value: tensor = float[1] v {1.5}> (k) y = ConvTranspose <pads=[0,2]> (t, w)""",
        {"N": (3, 4)},
    ),
    "conv_transpose": (
        "float[B,4,L] x, float[4,6,3] w",
        "float[a,b,c] y",
        "y = ConvTranspose <pads=[1,1], strides=[2]> (x, w)",
        {"B": (1, 3), "L": (1, 50)},
    ),
    "same": (
        "float[B,4,L] x, float[6,4,3] w",
        "float[a,b,c] y",
        'y = Conv <auto_pad="SAME_UPPER"> (x, w)',
        {"B": (1, 3), "L": (1, 50)},
    ),
    **{
        f"same_{kind}_{stride}_{kernel}": (
            f"float[B,4,L] x, float[6,4,{kernel}] w",
            "float[a,b,c] y",
            f'c = Conv <auto_pad="SAME_{kind}", strides=[{stride}]> (x, w) '
            f'y = AveragePool <kernel_shape=[{kernel}], strides=[{stride}], auto_pad="SAME_{kind}"> (c)',
            {"B": (1, 3), "L": (1, 50)},
        )
        for kind, stride, kernel in (("UPPER", 2, 3), ("LOWER", 2, 4), ("LOWER", 3, 2), ("UPPER", 3, 7))
    },
    "pool_ceil": (
        "float[B,4,L] x",
        "float[a,b,c] y",
        "y = MaxPool <kernel_shape=[3], strides=[2], pads=[1,1], ceil_mode=1> (x)",
        {"B": (1, 3), "L": (2, 50)},
    ),
    "concat": (
        "float[3,N] x, float[3,M] z",
        "float[a,b] y",
        "y = Concat <axis=1> (x, z)",
        {"N": (0, 9), "M": (1, 4)},
    ),
    "product": (
        "float[B,S,8] x",
        "float[a,b] y",
        "r = Reshape(x, rows) t = Transpose <perm=[1,0]> (r) y = MatMul(r, t)",
        {"B": (1, 3), "S": (1, 9)},
    ),
    "matrices": (
        "float[B,M,K] x, float[B,K,N] z",
        "float[a,b,c] y",
        "y = MatMul(x, z)",
        {"B": (1, 3), "M": (1, 20), "K": (1, 20), "N": (1, 20)},
    ),
    "attention": (
        "float[B,2,S,8] q, float[B,2,T,8] k, float[B,2,T,8] v",
        "float[a,b,c,d] y",
        "y = Attention(q, k, v)",
        {"B": (1, 2), "S": (1, 20), "T": (1, 30)},
    ),
    "attention_causal": (
        "float[B,2,S,8] q, float[B,2,S,8] k, float[B,2,S,8] v",
        "float[a,b,c,d] y",
        "y = Attention <is_causal=1> (q, k, v)",
        {"B": (1, 2), "S": (1, 20)},
    ),
    "range": (
        "float[N] x",
        "int64[a] y",
        "s = Shape(x) n = Squeeze(s) y = Range(from, n, by)",
        {"N": (0, 9)},
    ),
    "gather": ("float[N,4] x, int64[M] i", "float[a,b] y", "y = Gather(x, i)", {"N": (10, 30), "M": (0, 5)}),
    "resize": (
        "float[B,2,H,W] x",
        "float[a,b,c,d] y",
        'y = Resize <mode="linear"> (x, , scales)',
        {"B": (1, 2), "H": (1, 9), "W": (1, 9)},
    ),
    "slice_back": (
        "float[N,4] x",
        "float[a,b] y",
        "y = Slice(x, high, low, zero, back)",
        {"N": (1, 9)},
    ),
    "products_of_sums": (  # (N * 4) + 4 rows are N + 1 times 4 rows
        "float[N,M] x",
        "float[a,b,c] y",
        """r = Pad(x, around) four = Concat <axis=0> (r, r, r, r) s = Shape(r) n = Slice(s, zero, one)
        m = Slice(s, one, two) k = Constant <value_ints=[4]> () t = Concat <axis=0> (n, k, m)
        y = Reshape(four, t)""",
        {"N": (1, 4), "M": (1, 7)},
    ),
    "fixed_by_its_bounds": (
        "float[N] x, float[3] z",
        "float[a] y",
        """s = Shape(x) h = Div(s, two) n = Add(h, one) v = Slice(x, zero, n) c = Greater(v, z)
        y = Where(c, v, z)""",
        {"N": (4, 5)},
    ),
    "halves": (  # N - N // 2 and (N + 1) // 2
        "float[1,1,N] x",
        "float[a,b,c] y",
        """s = Shape <start=2> (x) h = Div(s, two) v = Slice(x, h, s, two) flat = Squeeze(v, zero)
        p = MaxPool <kernel_shape=[1], strides=[2]> (x) y = Add(flat, p)""",
        {"N": (1, 9)},
    ),
    "sizes_of_parts": (
        "float[2,N] x",
        "float[a,b] y",
        """s = Shape <start=1> (x) h = Div(s, two) r = Sub(s, h) sizes = Concat <axis=0> (h, r)
        w, v = Split <axis=1> (x, sizes) y = Concat <axis=1> (v, w)""",
        {"N": (1, 9)},
    ),
    "pads": (
        "float[N,3] x, float[M] z",
        "float[a,b] y",
        """n = Shape <end=1> (x) m = Shape(z) d = Sub(m, n) p = Concat <axis=0> (m, d)
        y = Pad <mode="edge"> (x, p, , zero)""",
        {"N": (4, 6), "M": (1, 5)},
    ),
    "remainder": (
        "float[N,M] x",
        "float[a,b] y",
        "s = Shape(x) k = Add(s, one) t = Mod(s, k) y = Expand(x, t)",
        {"N": (1, 5), "M": (1, 5)},
    ),
    "mean_of_all": (
        "float[N,M] x",
        "float y",
        "y = ReduceMean <keepdims=0> (x)",
        {"N": (1, 9), "M": (1, 40)},
    ),
    "mean_of_columns": ("float[N,6] x", "float[6] y", "y = ReduceMean <keepdims=0> (x, zero)", {"N": (1, 9)}),
    "normalize": (
        "float[B,C,L] x, float[C] s",
        "float[a,b,c] y",
        "y = InstanceNormalization(x, s, s)",
        {"B": (1, 2), "C": (1, 9), "L": (2, 40)},
    ),
}
HELD = """int64[3] triples={-1,3,1}, int64[1] one={1}, int64[1] two={2}, int64[4] around={0,0,1,0},
 int64[2] rows={-1,8}, int64 from={-1}, int64 by={2},
 float[4] scales={1.0,1.0,2.0,2.0},
 int64[1] high={4}, int64[1] low={-3}, int64[1] zero={0}, int64[1] back={-2}"""


@pytest.mark.parametrize("target", ["native", "c99"])
@pytest.mark.parametrize("name", BOUNDED)
def test_bounds_of_several_dimensions(name: str, target: str) -> None:
    """Extents at their bounds, in the middle and by chance, those of every name by themselves."""
    inputs, outputs, body, bounds = BOUNDED[name]
    text = f'<ir_version: 10, opset_import: ["" : 23]> g ({inputs}) => ({outputs}) <{HELD}> {{ {body} }}'
    model = parser.parse_model(text)
    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    bundle = ingot.compile(model, target=target, name="dynamic", define=bounds)
    for turn in range(5):
        rng = np.random.default_rng(turn)
        at = {
            k: (lo, hi, (lo + hi) // 2, int(rng.integers(lo, hi + 1)), max(lo, hi - 1))[turn]
            for k, (lo, hi) in bounds.items()
        }
        feeds = {}
        for value in model.graph.input:
            t = value.type.tensor_type
            shape = [at[d.dim_param] if d.dim_param else d.dim_value for d in t.shape.dim]
            is_float = t.elem_type == TensorProto.FLOAT
            whole = rng.integers(0, 5, shape)
            feeds[value.name] = rng.standard_normal(shape).astype(np.float32) if is_float else whole
        wanted, found = session.run(["y"], feeds)[0], bundle.run(feeds)["y"]
        assert found.shape == wanted.shape, at
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5, err_msg=str(at))


def test_a_window_that_some_extent_has_no_room_for() -> None:
    text = "g (float[1,1,L] x) => (float[a,b,c] y) { y = MaxPool <kernel_shape=[4]> (x) }"
    model = parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> {text}')
    with pytest.raises(InputError, match=r"a window of 4 does not fit every extent.*define="):
        ingot.compile(model, define={"L": (3, 9)})
    with pytest.raises(InputError, match="ERR_CAPACITY"):
        ingot.compile(model, define={"L": (4, 9)}).run({"x": np.zeros((1, 1, 10), np.float32)})


def test_an_error_shows_shapes_as_a_user_writes_them() -> None:
    text = """<ir_version: 10, opset_import: ["" : 21]>
    g (float[B,6] x, float[N,2] w) => (float[B,2] y) { t = Concat<axis=0>(x, x) y = MatMul(t, w) }"""
    with pytest.raises(InputError, match=re.escape("shapes [(B * 2), 6] and [N, 2] do not fit")):
        ingot.compile(parser.parse_model(text), define={"B": (1, 4), "N": (1, 8)})


def test_a_transposed_convolution_of_channels_known_at_run_time() -> None:
    text = """<ir_version: 10, opset_import: ["" : 21]>
    g (float[1,C,4,5] x, float[C,O,3,2] w, float[O] b) => (float[1,O,H,W] y)
    { y = ConvTranspose<strides=[2,1]>(x, w, b) }"""
    model = parser.parse_model(text)
    bundle, session = (
        ingot.compile(model, define={"C": (1, 4), "O": (2, 3)}),
        ort.InferenceSession(model.SerializeToString()),
    )
    for channels, outputs in ((1, 2), (3, 3), (4, 2)):
        shapes = {"x": (1, channels, 4, 5), "w": (channels, outputs, 3, 2), "b": (outputs,)}
        feeds = {
            n: np.random.default_rng(channels).standard_normal(s).astype(np.float32)
            for n, s in shapes.items()
        }
        np.testing.assert_allclose(bundle.run(feeds)["y"], session.run(None, feeds)[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("op", ["Conv", "ConvTranspose"])
def test_a_window_known_at_run_time_is_refused_by_name(op: str) -> None:
    text = f"""<ir_version: 10, opset_import: ["" : 21]>
    g (float[1,2,8,8] x, float[2,2,K,3] w) => (float[1,2,H,W] y) {{ y = {op}(x, w) }}"""
    with pytest.raises(InputError, match=re.escape("a window in [K, 3] is known at run time only")):
        ingot.compile(parser.parse_model(text), define={"K": (1, 3)})


@pytest.mark.parametrize("bounds", ["1..3", (1,), (1, 2, 3), (1.0, 2.0), None])
def test_a_dimension_is_a_number_or_a_pair(bounds: object) -> None:
    text = """<ir_version: 10, opset_import: ["" : 21]>
    g (float[N] x) => (float[N] y) { y = Relu(x) }"""
    with pytest.raises(InputError, match=r"define= is .*expected (an integer|a list)"):
        ingot.compile(parser.parse_model(text), define=cast(dict[str, int], {"N": bounds}))


@pytest.mark.parametrize("shape", ["N", "3,N", "2,3,N", "N,3"])
@pytest.mark.parametrize("target", ["x86-64-v3", "c99"])
def test_words_of_random_numbers_are_proved_where_they_are_read(
    shape: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INGOT_CHECK", "2")
    text = f"""<ir_version: 8, opset_import: ["" : 8]>
    g (float[{shape}] x) => (float[{shape}] y) {{ y = RandomNormalLike<seed=1.0>(x) }}"""
    ingot.compile(parser.parse_model(text), define={"N": (0, 9)}, target=target)


@pytest.mark.parametrize("target", ["c99", "x86-64-v3"])
def test_rotary_embeddings_of_a_length_that_only_the_caller_knows(target: str) -> None:
    """Clang made wrong vectors of the element-by-element choice that once stood for them."""
    head = '<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]>'
    node = "z = com.microsoft.RotaryEmbedding (x, at, c, s)"
    given = "float[2,L,16] x, int64[1] at, float[9,4] c, float[9,4] s"
    proto = parser.parse_model(f"{head} g ({given}) => (float[2,L,16] z) {{ {node} }}")
    r = np.random.default_rng(0)
    feeds = {
        n: r.standard_normal(d).astype(np.float32)
        for n, d in (("x", (2, 5, 16)), ("c", (9, 4)), ("s", (9, 4)))
    }
    found = ingot.compile(proto, define={"L": (1, 9)}, target=target).run({**feeds, "at": np.array([2])})["z"]
    a, b = np.split(feeds["x"].reshape(2, 5, 2, 8), 2, axis=-1)
    c, s = (feeds[n][None, 2:7, None] for n in "cs")
    wanted = np.concatenate([a * c - b * s, b * c + a * s], -1).reshape(2, 5, 16)
    assert np.allclose(found, wanted, atol=1e-5)
