"""Rows of strings: what moves them, and what compares them."""

import numpy as np
from onnx import numpy_helper

from tests.ops.rows import Row, texts

WORDS = texts("", "a", "ab", "Ab c", " x ", 'quote " \\ ??/ %s', "Größe", "日本語", "\t\n", "0", "*/", "a")
X = WORDS.reshape(3, 4)
Y = texts(*reversed(list(WORDS))).reshape(3, 4)
EMPTY = texts(shape=(0, 3))
ONE = texts("alone", shape=())
CUT = np.pad(X, ((0, 1), (0, 2)), constant_values="")[:, 1:]
LONG = texts("x" * 63, "é" * 31)


def dims(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


MOVED = [
    *(Row("Identity", [a]) for a in (X, EMPTY, ONE, LONG)),
    Row("Reshape", [X, dims(2, -1)], constant=[1]),
    Row("Transpose", [X]),
    Row("Concat", [X, Y], {"axis": 1}),
    Row("Concat", [X, Y], {"axis": 0}, constant=[1], note="constant"),
    Row("Split", [X, dims(1, 3)], {"axis": 1}, constant=[1], outputs=2),
    Row("Slice", [X, dims(3), dims(0), dims(1), dims(-2)], constant=[1, 2, 3, 4]),
    # onnxruntime copies the first string of each row only
    Row("Gather", [X, dims(2, -1, 0)], constant=[1], oracle="reference"),
    Row("Gather", [X, dims(3, 0, -2)], {"axis": 1}, note="runtime"),
    Row("Gather", [WORDS, dims(3, 0, -2)], constant=[0], note="table"),
    Row("GatherElements", [X, dims(3, 0, -2).reshape(3, 1)], {"axis": 1}),
    Row("GatherND", [X, dims(2, 1, 0, 3).reshape(2, 2)]),
    Row(
        "ScatterElements", [X, dims(3, 0, -2).reshape(3, 1), texts("p", "q", "r").reshape(3, 1)], {"axis": 1}
    ),
    Row("ScatterND", [WORDS, dims(3, 0).reshape(2, 1), texts("p", "q")], opset=16),
    Row("Expand", [texts("p", "q").reshape(2, 1), dims(2, 3)], constant=[1], oracle="reference"),
    Row("Tile", [texts("p", "q"), dims(3)], constant=[1], oracle="ort"),
    Row("Where", [X == Y, X, Y]),
    Row("Pad", [X, dims(1, 0, 0, 2), ONE], constant=[1], oracle="reference"),
    Row("Pad", [X, dims(0, -1, 1, 2)], constant=[1], oracle=[CUT], note="empty"),
    Row(
        "ConstantOfShape",
        [dims(2, 3)],
        {"value": numpy_helper.from_array(texts('a"?'))},
        constant=[0],
        oracle=[np.full((2, 3), 'a"?', object)],
    ),
    Row("Squeeze", [texts("p", "q").reshape(1, 2, 1)]),
    Row("Unsqueeze", [X, dims(0, 3)], constant=[1]),
    Row("Flatten", [X.reshape(1, 3, 2, 2)], {"axis": 2}),
    Row("Shape", [X]),
    Row("Size", [X]),
    Row("Compress", [X, np.array([True, False, True])], {"axis": 0}, declared=[(2, 4)]),
]

ROWS = [
    *MOVED,
    Row("Equal", [X, Y], opset=19),
    Row("Equal", [X, texts("a", shape=(1, 1))], opset=19, note="one"),
    Row("Equal", [X, Y], constant=[1], opset=19, note="constant"),
    Row("Equal", [LONG, LONG], opset=19, note="long"),
    Row("Equal", [EMPTY, EMPTY], opset=19, note="empty"),
    Row("Cast", [X], {"to": 8}, oracle=[X], note="same"),
]
