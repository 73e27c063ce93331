"""Operators of TensorFlow, a row each: what the imported graph computes is what numpy says it means."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from ingot.errors import UnsupportedError
from ingot.frontends.tensorflow.scope import supported
from tests.tensorflow.graphs import FLOAT, INT32, Graph, Type, floats, imported, ops, run

DOCUMENT = Path(__file__).parents[2] / "docs" / "tensorflow.md"


def test_a_convolutional_net_stays_channels_first_inside(tmp_path: Path) -> None:
    g = Graph()
    g.input("x", -1, 6, 5, 3)
    g.const("w", floats(3, 3, 3, 4))
    g.node("c", "Conv2D", "x", "w", T=FLOAT, strides=[1, 2, 2, 1], padding="SAME", data_format="NHWC")
    g.const("b", floats(4))
    g.node("a", "BiasAdd", "c", "b", T=FLOAT)
    g.node("r", "Relu6", "a", T=FLOAT)
    for name in ("scale", "offset", "mean"):
        g.const(name, floats(4))
    g.const("variance", abs(floats(4)) + 1)
    g.node(
        "n", "FusedBatchNormV3", "r", "scale", "offset", "mean", "variance", is_training=False, epsilon=1e-3
    )
    g.node("p", "MaxPool", "n", ksize=[1, 2, 2, 1], strides=[1, 1, 1, 1], padding="VALID")
    g.const("axes", [1, 2])
    g.node("y", "Mean", "p", "axes", T=FLOAT, keep_dims=False)
    model = imported(g, tmp_path)
    assert ops(model) == [
        "Transpose",
        "Conv",
        "Add",
        "Clip",
        "BatchNormalization",
        "MaxPool",
        "ReduceMean",
        "Reshape",
    ]
    assert run(model, x=floats(1, 6, 5, 3)).shape == (1, 4)


def windowed(g: Graph, form: str) -> None:
    """Everything with channels, in one of the two forms, on the same weights."""
    last = form == "NHWC"
    rng = np.random.default_rng(3)

    def spatial(n: int) -> list[int]:
        return [1, n, n, 1] if last else [1, 1, n, n]

    for name, *shape in (("w", 3, 3, 4, 8), ("d", 3, 3, 8, 2), ("b", 16), ("s", 16), ("o", 16), ("m", 16)):
        g.const(name, rng.standard_normal(shape).astype(np.float32))
    g.const("v", rng.random(16).astype(np.float32) + 1)
    common = {"data_format": form, "T": FLOAT}
    g.node("c", "Conv2D", "x", "w", strides=spatial(2), padding="SAME", **common)
    g.node("t", "DepthwiseConv2dNative", "c", "d", strides=spatial(1), padding="VALID", **common)
    g.node("a", "BiasAdd", "t", "b", **common)
    g.node("n", "FusedBatchNorm", "a", "s", "o", "m", "v", is_training=False, **common)
    g.node("p", "AvgPool", "n", ksize=spatial(2), strides=spatial(1), padding="SAME", **common)
    g.node("y", "DepthToSpace", "p", block_size=2, **common)


def test_both_forms_of_images_are_the_same(tmp_path: Path) -> None:
    last, first, x = Graph(), Graph(), floats(1, 9, 12, 4)
    last.input("x", 1, 9, 12, 4)
    first.input("x", 1, 4, 9, 12)
    windowed(last, "NHWC")
    windowed(first, "NCHW")
    made = imported(first, tmp_path)
    assert "Transpose" not in ops(made)
    found = run(made, x=np.ascontiguousarray(x.transpose(0, 3, 1, 2)))
    np.testing.assert_allclose(
        found.transpose(0, 2, 3, 1), run(imported(last, tmp_path), x=x), rtol=1e-5, atol=1e-5
    )


def test_a_form_of_images_that_is_not_known_is_refused(tmp_path: Path) -> None:
    g = Graph()
    g.input("x", 1, 4, 4, 4)
    g.node("y", "DepthToSpace", "x", block_size=2, data_format="NCHW_VECT_C")
    with pytest.raises(UnsupportedError, match="data format 'NCHW_VECT_C'"):
        imported(g, tmp_path)


@pytest.mark.parametrize("crops", [[[0, 0], [0, 1]], [[0, 0], [0, 0]]])
def test_a_convolution_of_blocks_is_a_dilated_one(crops: list[list[int]], tmp_path: Path) -> None:
    g, pads = Graph(), [[2, 2], [2, 3]]
    g.input("x", 1, 8, 9, 3)
    for name, value in (("block", [2, 2]), ("pads", pads), ("crops", crops), ("w", floats(3, 3, 3, 4))):
        g.const(name, value)
    g.node("cut", "SpaceToBatchND", "x", "block", "pads", T=FLOAT)
    g.node("c", "Conv2D", "cut", "w", strides=[1, 1, 1, 1], padding="VALID")
    g.node("y", "BatchToSpaceND", "c", "block", "crops", T=FLOAT)
    g.node("relu", "Relu", "c", T=FLOAT)
    g.node("z", "BatchToSpaceND", "relu", "block", "crops", T=FLOAT)
    x = floats(1, 8, 9, 3)
    assert ops(imported(g, tmp_path)) == ["Transpose", "Conv", "Transpose"]
    whole = run(imported(g, tmp_path, "z"), x=x)  # what stands between keeps it as it is written
    np.testing.assert_allclose(np.maximum(run(imported(g, tmp_path), x=x), 0), whole, rtol=1e-5, atol=1e-5)


SLICES = {
    "begin": (slice(1, 3), slice(None, 4), slice(None)),
    "negative": (slice(-2, None), slice(None, None, -2), slice(4, 1, -1)),
    "shrink": (1, slice(2, 3), -1),
    "new": (np.newaxis, slice(None), np.newaxis, 2),
    "ellipsis": (Ellipsis, slice(0, 1), 3),
    "beyond": (slice(-9, 9), slice(1, 99, 3), slice(3, 2)),
}


def strided(g: Graph, x: str, key: tuple[Any, ...]) -> None:
    """The StridedSlice that a Python index means, as TensorFlow writes it."""
    rows, masks = [], dict.fromkeys(("begin", "end", "ellipsis", "new_axis", "shrink_axis"), 0)
    for i, k in enumerate(key):
        bit = 1 << i
        if k is Ellipsis or k is np.newaxis:
            masks["ellipsis" if k is Ellipsis else "new_axis"] |= bit
            rows.append((0, 0, 1))
        elif isinstance(k, int):
            masks["shrink_axis"] |= bit
            rows.append((k, k + 1, 1))
        else:
            masks["begin"] |= bit * (k.start is None)
            masks["end"] |= bit * (k.stop is None)
            rows.append((k.start or 0, k.stop or 0, k.step or 1))
    for name, numbers in zip(("begin", "end", "strides"), zip(*rows, strict=True), strict=True):
        g.const(name, list(numbers))
    g.node(
        "y",
        "StridedSlice",
        x,
        "begin",
        "end",
        "strides",
        T=FLOAT,
        **{f"{k}_mask": v for k, v in masks.items()},
    )


@pytest.mark.parametrize("name", SLICES)
def test_strided_slices_mean_what_python_means(name: str, tmp_path: Path) -> None:
    g = Graph()
    g.input("x", 3, 5, 6)
    strided(g, "x", SLICES[name])
    x = floats(3, 5, 6)
    session = onnxruntime.InferenceSession(imported(g, tmp_path).SerializeToString())
    np.testing.assert_array_equal(session.run(None, {"x": x})[0], x[SLICES[name]])


X = np.arange(24, dtype=np.float32).reshape(2, 3, 4) - 7.5
TENS, SIGNS, SIDES = np.round(X / 9), np.float32([3, -3, 4, -5]), [[0, 1], [2, 0], [1, 2]]
SMALL = np.float32([1e-30, -1e-30, 1e-9, -1e-9, 3e-4, -3e-4, 0.02, -0.02, 0.49, -0.49, 0.51, -0.51])
EDGES = np.float32([0.0, -0.0, 1, -1, 2.5, -1e-30, 1e30, np.inf, -np.inf, np.nan])
Row = tuple[str, list[Any], dict[str, Any], Any]
ROWS: list[Row] = [
    ("Rsqrt", [X + 8], {}, 1 / np.sqrt(X + 8)),
    ("Expm1", [X / 9], {}, np.expm1(X / 9)),
    ("Expm1", [SMALL], {}, np.expm1(SMALL.astype(np.float64))),
    ("Log1p", [SMALL], {}, np.log1p(SMALL.astype(np.float64))),
    ("Log1p", [X + 7], {}, np.log1p(X + 7)),
    ("SquaredDifference", [X, X[:1]], {}, (X - X[:1]) ** 2),
    ("DivNoNan", [X, TENS], {}, np.divide(X, TENS, out=0 * X, where=TENS != 0)),
    ("FloorMod", [np.round(X), SIGNS], {}, np.mod(np.round(X), SIGNS)),
    ("FloorMod", [X * 1e9, SIGNS / 7], {}, np.mod(X * np.float32(1e9), SIGNS / 7)),
    ("Atan2", [EDGES[:, None], EDGES], {}, np.arctan2(EDGES[:, None], EDGES)),
    ("AddN", [X, X, X], {}, 3 * X),
    ("LeakyRelu", [X], {"alpha": 0.25}, np.where(X < 0, X * np.float32(0.25), X)),
    ("Reshape", [X, [4, -1]], {}, X.reshape(4, -1)),
    ("ExpandDims", [X, -2], {}, X[:, :, None]),
    ("Squeeze", [X[:1]], {"squeeze_dims": [0]}, X[0]),
    ("Transpose", [X, [2, 0, 1]], {}, X.transpose(2, 0, 1)),
    ("Slice", [X, [0, 1, 2], [-1, 2, 1]], {}, X[:, 1:3, 2:3]),
    ("ConcatV2", [X, X, -1], {}, np.concatenate([X, X], -1)),
    ("Pack", [X, X], {"axis": -1}, np.stack([X, X], -1)),
    ("Tile", [X, [1, 2, 1]], {}, np.tile(X, [1, 2, 1])),
    ("PadV2", [X, [[0, 1], [2, 0], [0, 0]], 5.0], {}, np.pad(X, [[0, 1], [2, 0], [0, 0]], constant_values=5)),
    ("MirrorPad", [X, SIDES], {"mode": "SYMMETRIC"}, np.pad(X, SIDES, "symmetric")),
    ("MirrorPad", [X, SIDES], {"mode": "REFLECT"}, np.pad(X, SIDES, "reflect")),
    ("ReverseV2", [X, [0, 2]], {}, X[::-1, :, ::-1]),
    ("Roll", [X, [1, -2], [1, 2]], {}, np.roll(X, [1, -2], [1, 2])),
    ("GatherV2", [X, [[2, 0], [1, 1]], 1], {}, X[:, [[2, 0], [1, 1]]]),
    ("GatherV2", [X, [[2, 0], [1, 1]], 1], {"batch_dims": 1}, np.stack([X[0, [2, 0]], X[1, [1, 1]]])),
    ("GatherNd", [X, [[1, 2], [0, 0]]], {}, X[[1, 0], [2, 0]]),
    ("Sum", [X, [0, -1]], {"keep_dims": True}, X.sum((0, 2), keepdims=True)),
    ("Mean", [X, [1]], {}, X.mean(1)),
    ("Max", [X, np.zeros(0, np.int32)], {}, X),
    ("BroadcastTo", [X[:, :1], [2, 3, 4]], {}, np.broadcast_to(X[:, :1], (2, 3, 4))),
    ("Cumsum", [X, 2], {"exclusive": True}, np.cumsum(X, 2) - X),
    ("MatrixDiagPart", [X], {}, np.einsum("bii->bi", X[:, :, :3])),
    ("MatrixBandPart", [X, 0, 1], {}, np.where((np.eye(3, 4) + np.eye(3, 4, 1)) > 0, X, 0)),
    ("SegmentSum", [X, [0, 0]], {}, X.sum(0, keepdims=True)),
    ("TensorScatterSub", [X, [[1]], X[:1]], {}, np.stack([X[0], X[1] - X[0]])),
    ("SpaceToDepth", [X.reshape(1, 4, 6, 1)], {"block_size": 2},
     X.reshape(1, 2, 2, 3, 2, 1).transpose(0, 1, 3, 2, 4, 5).reshape(1, 2, 3, 4)),
    ("SpaceToBatchND", [X.reshape(1, 4, 6, 1), [2, 3], [[0, 0], [0, 0]]], {},
     X.reshape(1, 2, 2, 2, 3, 1).transpose(2, 4, 0, 1, 3, 5).reshape(6, 2, 2, 1)),
    ("ResizeArea", [X.reshape(1, 4, 6, 1), [2, 3]], {}, X.reshape(1, 2, 2, 3, 2, 1).mean((2, 4))),
    ("ResizeNearestNeighbor", [X.reshape(1, 4, 6, 1), [8, 6]], {}, X.reshape(1, 4, 6, 1).repeat(2, 1)),
    ("ExtractImagePatches", [X.reshape(1, 4, 6, 1)],
     {"ksizes": [1, 2, 3, 1], "strides": [1, 2, 3, 1], "rates": [1, 1, 1, 1], "padding": "VALID"},
     X.reshape(1, 2, 2, 2, 3).transpose(0, 1, 3, 2, 4).reshape(1, 2, 2, 6)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("op", "operands", "attributes", "right"), ROWS, ids=lambda v: v if isinstance(v, str) else ""
)
def test_what_an_operator_means(
    op: str, operands: list[Any], attributes: Any, right: Any, tmp_path: Path
) -> None:
    """The first operand is the input, the others are constants."""
    g = Graph()
    g.input("x", *operands[0].shape)
    others = [g.const(f"c{i}", value) for i, value in enumerate(operands[1:])]
    g.node("y", op, "x", *others, T=FLOAT, **attributes)
    session = onnxruntime.InferenceSession(imported(g, tmp_path).SerializeToString())
    found = session.run(None, {"x": operands[0]})[0]
    assert found.shape == right.shape
    np.testing.assert_allclose(found, right, rtol=1e-5, atol=0 if operands[0] is SMALL else 1e-6)


def test_quotients_of_integers_round_down(tmp_path: Path) -> None:
    lowest, highest = -(2**31), 2**31 - 1
    x = np.int32([[lowest], [lowest + 1], [-7], [-6], [0], [6], [7], [highest - 1], [highest]])
    y = np.int32([1, -3, 3, 2, lowest, highest, 7])
    g = Graph()
    g.input("x", *x.shape, dtype=Type(INT32))
    g.const("c", y)
    g.node("y", "FloorDiv", "x", "c", T=Type(INT32))
    session = onnxruntime.InferenceSession(imported(g, tmp_path).SerializeToString())
    wanted = np.array([[int(a) // int(b) for b in y] for a in x[:, 0]])
    np.testing.assert_array_equal(session.run(None, {"x": x})[0], wanted)


def test_shape_arithmetic_disappears(tmp_path: Path) -> None:
    g = Graph()
    g.input("x", 2, 3, 4)
    g.node("s", "Shape", "x", T=FLOAT)
    g.const("zero", [0])
    g.const("one", [1])
    g.node("n", "StridedSlice", "s", "zero", "one", "one", shrink_axis_mask=1)
    g.const("rest", -1)
    g.node("wanted", "Pack", "n", "rest", axis=0)
    g.node("y", "Reshape", "x", "wanted", T=FLOAT)
    model = imported(g, tmp_path)
    x = floats(2, 3, 4)
    assert ops(model) == ["Reshape"]
    np.testing.assert_array_equal(run(model, x=x), x.reshape(2, -1))


def test_unknown_operators_are_listed_at_once(tmp_path: Path) -> None:
    g = Graph()
    g.input("x", 2)
    g.node("a", "Bessel", "x")
    g.node("b", "Betainc", "a")
    g.node("aside", "NeverLookedAt", "x")
    g.node("y", "Add", "b", "x")
    with pytest.raises(UnsupportedError, match=r"Bessel \(at 'a'\), Betainc \(at 'b'\)") as error:
        imported(g, tmp_path)
    assert "NeverLookedAt" not in str(error.value)


def test_the_document_lists_the_operators() -> None:
    """`pytest --update-golden` does not write it: paste what the assertion shows."""
    listed = DOCUMENT.read_text().split("<!-- operators: begin -->")[1].split("<!-- operators: end -->")[0]
    assert listed.strip() == textwrap.fill(" ".join(supported()), 120, break_long_words=False)
