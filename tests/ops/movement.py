"""Rows of the operators that move elements."""

from collections.abc import Iterator, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from tests.ops.rows import Array, Row, extremes, floats, integers, texts

WORDS = texts("a", "", "Größe", "b", "c", "d").reshape(2, 3)
FURTHEST, NEAREST = np.iinfo(np.int64).max, np.iinfo(np.int64).min


def dims(*values: int) -> Array:
    return np.array(values, np.int64)


def slices(
    x: Array,
    starts: Sequence[int],
    ends: Sequence[int],
    axes: Sequence[int] | None = None,
    steps: Sequence[int] | None = None,
    **more: Any,
) -> Row:
    given = [starts, ends, axes, steps]
    while given[-1] is None:
        given.pop()
    inputs = [None if v is None else dims(*v) for v in given]
    constant = [i + 1 for i, v in enumerate(inputs) if v is not None]
    note = "_".join(str(v).replace(" ", "") for v in given)
    return Row("Slice", [x, *inputs], **{"constant": constant, "note": note, **more})


def pads(x: Array, values: Sequence[int], mode: str = "constant", *more: Array | None, **other: Any) -> Row:
    constant = [i + 1 for i, v in enumerate((0, *more)) if v is not None]
    note = str(list(values)).replace(" ", "")
    return Row(
        "Pad", [x, dims(*values), *more], {"mode": mode}, **{"constant": constant, "note": note, **other}
    )


def every_type() -> Iterator[Array]:
    """One 3 x 4 tensor per element type."""
    for t in (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64):
        yield integers(3, 4, dtype=t)
    for t in (np.float16, np.float32, np.float64):
        yield floats(3, 4, dtype=t)
    yield integers(3, 4) > 0


X = floats(2, 3, 4)
L = floats(20, 10, 5)
V = floats(7)
EMPTY = floats(2, 0, 3)
BRAIN = floats(3, 4, dtype=ml_dtypes.bfloat16)
ORT_PADS = (
    np.int8,
    np.int32,
    np.int64,
    np.uint8,
    np.uint32,
    np.uint64,
    np.float16,
    np.float32,
    np.float64,
    np.bool_,
)

TRANSPOSE = [
    Row("Transpose", [X]),
    Row("Transpose", [X], {"perm": [1, 0, 2]}),
    Row("Transpose", [floats(2, 3, 4, 5)], {"perm": [0, 2, 3, 1]}, opset=1),
    Row("Transpose", [floats()]),
    *(Row("Transpose", [floats(*s)]) for s in ((16, 16), (33, 49), (7, 64), (5, 12), (4, 3))),
    Row("Transpose", [floats(2, 20, 3, 37)], {"perm": [0, 3, 2, 1]}),
    Row("Transpose", [floats(19, 26, dtype=np.float64)], tolerance=0.0, note="f64"),
    Row("Transpose", [EMPTY], {"perm": [2, 0, 1]}),
    *(Row("Transpose", [x], note=str(x.dtype)) for x in every_type()),
    Row("Transpose", [BRAIN], oracle=[BRAIN.T], note="bf16"),
]

CONCAT = [
    Row("Concat", [X, floats(2, 3, 1, seed=1), X], {"axis": -1}),
    Row("Concat", [X, floats(5, 3, 4, seed=1)], {"axis": 0}, opset=4),
    Row("Concat", [X], {"axis": 1}),
    Row("Concat", [floats(2, 3), floats(2, 0), floats(2, 1, seed=2)], {"axis": 1}),
    Row("Concat", [floats(0), floats(0)], {"axis": 0}),
    Row("Concat", [floats(2, 2), floats(2, 3)], opset=1, oracle=[np.hstack([floats(2, 2), floats(2, 3)])]),
    Row("Concat", [extremes(np.int64), extremes(np.int64)[:3]], {"axis": 0}, constant=[1], note="constant"),
    Row("Concat", [floats(2, 2, dtype=np.float16)] * 2, {"axis": 0}, note="same_f16"),
]

SPLIT = [
    Row("Split", [floats(6)], {"axis": 0, "num_outputs": 3}, outputs=3),
    Row("Split", [floats(2, 7)], {"axis": -1, "num_outputs": 4}, outputs=4),
    Row("Split", [floats(2, 6), dims(2, 0, 4)], {"axis": 1}, constant=[1], outputs=3),
    Row("Split", [floats(6), dims(2, 4)], outputs=2, declared=[(2,), (4,)], note="runtime"),
    Row("Split", [floats(6, 2)], opset=13, outputs=2),
    Row("Split", [floats(6, 2)], {"split": [1, 5]}, opset=11, outputs=2),
    Row("Split", [floats(2, 6)], {"axis": 1}, opset=2, outputs=3),
    Row("Split", [floats(0), dims(0, 0)], constant=[1], outputs=2),
    Row("Split", [integers(4, 2, dtype=np.int32)], {"num_outputs": 2}, outputs=2, note="i32"),
]

SLICE = [
    slices(L, [0, 0], [3, 10], [0, 1], [1, 1]),
    slices(L, [1], [-1], [1]),
    slices(L, [1, 0, 0], [20, 10, 4]),
    slices(L, [20, 10, 4], [0, 0, 1], [0, 1, 2], [-1, -3, -2]),
    slices(L, [0], [1000], [-1], [2]),
    slices(L, [1000], [1000], [1]),
    slices(V, [-3], [FURTHEST]),
    slices(V, [FURTHEST], [NEAREST], [0], [-1]),
    slices(V, [NEAREST], [FURTHEST], [0], [3]),
    slices(V, [0], [7], [0], [FURTHEST]),
    slices(V, [6], [NEAREST], [0], [-FURTHEST]),
    slices(V, [5], [2]),
    slices(V, [2], [5], None, [-1]),
    slices(V, [-100], [NEAREST], [0], [-2]),
    slices(EMPTY, [-5], [-9], [1], [-1]),
    slices(EMPTY, [0], [2], [1]),
    slices(V, [1], [5], None, None, opset=10),
    slices(V, [1], [5], [0], [2], constant=(), declared=[(2,)], note="runtime"),
    slices(L, [19, -1], [0, -8], [-3, 1], [-4, -1], constant=(), declared=[(5, 7, 5)], note="runtime"),
    slices(L, [1, 0, 3], [20, 10, 4], constant=(), declared=[(19, 10, 1)], note="runtime_defaults"),
    Row("Slice", [L], {"starts": [1, -4], "ends": [7, 100], "axes": [0, 1]}, opset=1),
    Row("Slice", [L], {"starts": [1], "ends": [-1]}, opset=9),
    slices(BRAIN, [1], [3], oracle=[BRAIN[1:3]], note="bf16"),
    *(slices(x, [2, 0], [-4, 4], None, [-1, 2], note=str(x.dtype)) for x in every_type()),
]

PAD = [
    pads(X, [0, 1, 2, 3, 0, 1]),
    pads(X, [0, 1, 2, 3, 0, 1], "constant", np.array(2.5, np.float32)),
    pads(X, [0, 1, 2, 3, 0, 1], "constant", np.array([1.5], np.float32), constant=[1], opset=13),
    pads(X, [0, -1, 2, 0, -1, -3]),
    pads(X, [1, 2, -1, 2, 2, 3], "edge"),
    pads(X, [1, 2, 1, 1, 1, -2], "reflect"),
    pads(V, [9, 15], "reflect", oracle=[np.pad(V, (9, 15), "reflect")]),
    pads(V, [6, 6], "reflect"),
    pads(V, [3, -2], "reflect"),
    pads(X, [1, 2, 3, 0, 1, 9], "wrap"),
    pads(X, [2, 1], "constant", None, dims(-1)),
    pads(X, [2, 0, 1, 3], "edge", None, dims(0, 2)),
    pads(EMPTY, [0, 1, 0, 0, 1, 1]),
    pads(floats(1, 3), [0, 2, 0, 2], "reflect"),
    pads(floats(), [], oracle=[floats()]),
    pads(X, [0, 1, 2, 3, 0, 1], "constant", constant=(), declared=[(5, 4, 7)], note="runtime"),
    pads(X, [1, 1, 2, 3, 2, 1], "edge", constant=(), declared=[(6, 6, 7)], note="runtime"),
    pads(X, [1, 1, 2, 1, 2, 1], "reflect", constant=(), declared=[(4, 6, 7)], note="runtime"),
    pads(X, [1, 1, 2, 1, 2, 1], "wrap", constant=(), declared=[(4, 6, 7)], note="runtime"),
    pads(
        X, [2, -1, 1, 3], "constant", floats(), dims(2, -2), constant=(), declared=[(2, 5, 7)], note="runtime"
    ),
    Row("Pad", [X], {"pads": [0, 0, 1, 1, 0, 0], "mode": "constant", "value": 3.0}, opset=2),
    Row("Pad", [X], {"pads": [0, 0, 1, 1, 0, 2], "mode": "reflect"}, opset=10),
    Row(
        "Pad",
        [V],
        {"paddings": [1, 2], "mode": "edge"},
        opset=1,
        oracle=[np.pad(V, (1, 2), "edge")],
        note="v1",
    ),
    *(
        pads(x, [1, 0, 0, 2], "constant", x[0, 0].reshape(()), note=str(x.dtype))
        for x in every_type()
        if x.dtype in ORT_PADS
    ),
]

OTHERS = [
    Row("Expand", [floats(3, 1), dims(2, 1, 6)], constant=[1]),
    Row("Expand", [floats(3, 1), dims(1)], constant=[1], opset=8),
    Row("Expand", [floats(), dims(2, 2)], constant=[1]),
    Row("Expand", [floats(3, 1), dims(3, 0)], constant=[1]),
    Row("Expand", [floats(3, 1), dims(2, 1, 6)], declared=[(2, 3, 6)], note="runtime"),
    Row("Expand", [integers(1, 3, dtype=np.uint8), dims(2, 3)], constant=[1], note="u8"),
    Row("Tile", [X, dims(2, 1, 3)], constant=[1]),
    Row("Tile", [X, dims(2, 0, 3)], constant=[1], opset=6),
    Row("Tile", [X, dims(2, 1, 3)], declared=[(4, 3, 12)], note="runtime"),
    Row("Tile", [EMPTY, dims(2, 2, 1)], constant=[1]),
    Row("Tile", [floats(), dims()], constant=[1]),
    Row("Tile", [integers(2, 3) > 0, dims(1, 2)], constant=[1], note="bool"),
    Row(
        "Tile",
        [floats(2, 3), np.array([2], np.float32), np.array([1], np.float32)],
        constant=[1, 2],
        opset=1,
        oracle=[np.tile(floats(2, 3), (1, 2))],
    ),
    Row("DepthToSpace", [floats(2, 8, 2, 3)], {"blocksize": 2}),
    Row("DepthToSpace", [floats(2, 18, 2, 3)], {"blocksize": 3, "mode": "CRD"}, opset=11),
    Row("DepthToSpace", [floats(1, 4, 2, 3)], {"blocksize": 2}, opset=1),
    Row("DepthToSpace", [integers(1, 4, 2, 3, dtype=np.uint8)], {"blocksize": 2}),
    Row("SpaceToDepth", [floats(2, 3, 4, 6)], {"blocksize": 2}),
    Row("SpaceToDepth", [floats(2, 2, 6, 3)], {"blocksize": 3}, opset=1),
    Row("SpaceToDepth", [floats(2, 3, 4, 6)], {"blocksize": 2, "mode": "CRD"}, opset=28, oracle="reference"),
    Row("ReverseSequence", [floats(4, 3, 2), dims(4, 1, 3)]),
    Row("ReverseSequence", [floats(3, 4), dims(2, 4, 1)], {"batch_axis": 0, "time_axis": 1}),
    Row("ReverseSequence", [integers(3, 4), dims(2, 3, 1)], {"batch_axis": 0, "time_axis": 1}, constant=[1]),
    Row("Trilu", [floats(4, 5)]),
    Row("Trilu", [floats(2, 4, 3)], {"upper": 0}),
    Row("Trilu", [floats(4, 5), np.array(2, np.int64)], constant=[1]),
    Row("Trilu", [floats(4, 5), np.array(-2, np.int64)], {"upper": 0}, note="runtime"),
    Row("Trilu", [floats(4, 5), np.array(FURTHEST, np.int64)], constant=[1], note="far"),
    Row("Trilu", [floats(0, 5)]),
    Row("Trilu", [integers(3, 3)], note="i64"),
    Row("Trilu", [integers(3, 3) > 0], {"upper": 0}, note="bool"),
    Row("Trilu", [WORDS], oracle=[np.where(np.triu(np.ones((2, 3), bool)), WORDS, "")], note="strings"),
    Row("CenterCropPad", [floats(20, 8, 3), dims(10, 11, 3)], constant=[1], oracle="reference"),
    Row("CenterCropPad", [floats(9, 8, 3), dims(4, 5)], {"axes": [0, -1]}, constant=[1], oracle="reference"),
    Row("CenterCropPad", [floats(9, 8), dims(4, 11)], declared=[(4, 11)], oracle="reference", note="runtime"),
]

ROWS = [*TRANSPOSE, *CONCAT, *SPLIT, *SLICE, *PAD, *OTHERS]
