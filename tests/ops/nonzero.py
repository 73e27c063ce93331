"""Rows of NonZero and Compress; the model declares how many elements there are."""

import numpy as np

from tests.ops.rows import Array, Row, floats, integers


def chosen(*bits: int) -> Array:
    return np.array(bits, np.bool_)


X = floats(3, 4, 2)
SPARSE = np.array([[0, 1.5, 0], [-0.0, np.nan, -2]], np.float32)

ROWS = [
    Row("Compress", [X, chosen(1, 0, 1)], {"axis": 0}, declared=[(2, 4, 2)]),
    Row("Compress", [X, chosen(0, 1, 0, 1)], {"axis": -2}, declared=[(3, 2, 2)]),
    Row("Compress", [X, chosen(0, 1)], {"axis": 1}, declared=[(3, 1, 2)], note="short"),
    Row("Compress", [X, chosen(0, 1, 1, 0, 0, 0, 1)], declared=[(3,)], note="flat"),
    Row("Compress", [X, chosen(0, 0)], declared=[(0,)], note="nothing"),
    Row("Compress", [integers(2, 3), chosen(1, 1, 1)], {"axis": 1}, declared=[(2, 3)], oracle="reference"),
    *(
        Row(
            "Compress", [X, chosen(*bits)], {} if axis is None else {"axis": axis}, constant=[1], note="known"
        )
        for axis, bits in ((0, (1, 0, 1)), (-2, (0, 1, 0, 1)), (1, (0, 1)), (2, (0, 0)))
    ),
    Row("Compress", [X, chosen(0, 1, 1, 0, 0, 0, 1)], constant=[1], note="known"),
    Row("Compress", [X, chosen(0, 0)], constant=[1], note="nothing, known"),
    Row("NonZero", [SPARSE], declared=[(2, 3)]),
    Row("NonZero", [integers(2, 2, 3, low=0, high=1) + np.eye(2, 3, dtype=np.int64)], declared=[(3, 4)]),
    Row("NonZero", [chosen(1, 0, 1, 1)], declared=[(1, 3)], opset=9),
    Row("NonZero", [np.array(3.5, np.float32)], declared=[(0, 1)], oracle="reference"),
    Row("NonZero", [np.array(0)], declared=[(0, 0)], oracle="reference"),
]
