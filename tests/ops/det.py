"""Rows of Det."""

import numpy as np

from tests.ops.rows import Row, floats

SINGULAR = np.array([[1, 2, 3], [2, 4, 6], [0, 1, 5]], np.float32)
EXCHANGED = np.array([[0, 2, 1], [3, 0, 0], [0, 0, -4]], np.float32)

ROWS = [
    Row("Det", [floats(3, 3)], opset=11),
    Row("Det", [floats(2, 3, 4, 4)]),
    Row("Det", [floats(2, 1, 1)]),
    Row("Det", [floats(7, 7, dtype=np.float64)], oracle="reference"),
    Row("Det", [SINGULAR], note="singular", oracle=[np.float32(0)]),
    Row("Det", [EXCHANGED], note="exchanges", oracle=[np.float32(24)]),
    Row("Det", [np.zeros((2, 3, 3), np.float32)], note="zeros", oracle=[np.zeros(2, np.float32)]),
    Row("Det", [floats(2, 0, 0)], oracle=[np.ones(2, np.float32)]),
    Row("Det", [floats(0, 3, 3)], oracle=[np.ones(0, np.float32)]),
    Row("Det", [np.float32([[np.nan, 1], [2, 3]])], note="nan", oracle=[np.float32(np.nan)]),
    Row("Det", [np.float16([[1, 2], [3, 4]])], oracle=[np.float16(-2)]),
]
