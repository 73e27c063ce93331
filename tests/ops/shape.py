"""Rows of the views, and of Shape and Size."""

import numpy as np

from tests.ops.rows import Row, extremes, floats, integers


def dims(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


X = floats(2, 3, 4)
EMPTY = floats(0, 3, 4)
SCALAR = floats()

RESHAPE = [
    Row("Reshape", [X, dims(4, 2, 3)], constant=[1]),
    Row("Reshape", [X, dims(2, -1)], constant=[1], opset=5),
    Row("Reshape", [X, dims(0, 2, -1)], constant=[1], opset=13),
    Row("Reshape", [X, dims(-1)], constant=[1]),
    Row("Reshape", [floats(1, 1), dims()], constant=[1], note="to_scalar"),
    Row("Reshape", [SCALAR, dims(1, 1)], constant=[1]),
    Row("Reshape", [EMPTY, dims(3, 4, 0)], {"allowzero": 1}, constant=[1]),
    Row("Reshape", [EMPTY, dims(0, 12)], constant=[1], note="empty"),
    Row("Reshape", [X, dims(4, -1, 3)], declared=[(4, 2, 3)], note="runtime"),
    Row("Reshape", [floats(3, 4, dtype=np.float16), dims(2, 6)], constant=[1], note="f16"),
    Row("Reshape", [floats(3, 4, dtype=np.float64), dims(2, 6)], constant=[1], note="f64"),
    Row("Reshape", [integers(3, 4, dtype=np.uint8), dims(2, 6)], constant=[1], note="u8"),
    Row("Reshape", [integers(3, 4, dtype=np.int64) > 0, dims(2, 6)], constant=[1], note="bool"),
    Row("Reshape", [X], {"shape": [4, 0, -1]}, opset=1, oracle=[X.reshape(4, 3, 2)]),
]

ROWS = [
    *RESHAPE,
    *(Row("Flatten", [floats(2, 3, 4, 5)], {"axis": a}) for a in (0, 1, 3, 4, -1, -4)),
    Row("Flatten", [floats(2, 3)], opset=9),
    Row("Flatten", [floats(4)], {"axis": 0}),
    Row("Flatten", [SCALAR], {"axis": 0}),
    Row("Flatten", [EMPTY], {"axis": 2}),
    Row("Squeeze", [floats(1, 3, 1, 5)]),
    Row("Squeeze", [floats(1, 3, 1, 5), dims(0)], constant=[1]),
    Row("Squeeze", [floats(1, 3, 1, 5), dims(-2, 0)], constant=[1]),
    Row("Squeeze", [floats(1, 3, 1, 5), dims(-2)], declared=[(1, 3, 5)], note="runtime"),
    Row("Squeeze", [floats(1, 3, 1, 5)], {"axes": [2]}, opset=11),
    Row("Squeeze", [floats(1, 1)], opset=1, note="to_scalar"),
    Row("Squeeze", [integers(1, 2, dtype=np.int8)], note="i8"),
    Row("Unsqueeze", [floats(3, 4), dims(0, -1)], constant=[1]),
    Row("Unsqueeze", [floats(3, 4), dims(2, 4, 1)], constant=[1]),
    Row("Unsqueeze", [floats(3, 4), dims(1)], declared=[(3, 1, 4)], note="runtime"),
    Row("Unsqueeze", [floats(3, 4)], {"axes": [0, 3]}, opset=11),
    Row("Unsqueeze", [SCALAR, dims(0)], constant=[1]),
    Row("Unsqueeze", [extremes(np.int64), dims(1)], constant=[1], note="i64"),
    Row("Shape", [X]),
    Row("Shape", [X], {"start": 1}),
    Row("Shape", [X], {"start": -1, "end": 7}),
    Row("Shape", [X], {"start": -10, "end": -1}),
    Row("Shape", [X], {"start": 2, "end": 1}),
    Row("Shape", [SCALAR], opset=13),
    Row("Shape", [EMPTY], opset=1),
    Row("Size", [X]),
    Row("Size", [SCALAR], opset=1),
    Row("Size", [EMPTY]),
]
