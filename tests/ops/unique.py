"""Rows of Unique: of elements and of slices, sorted or not, with NaNs, every kind of type."""

from collections.abc import Iterator

import ml_dtypes
import numpy as np

from tests.ops.rows import Array, Row, floats, integers

X = np.float32([2, 1, 1, 3, 4, 3, -1])
MATRIX = np.float32([[1, 0, 0], [1, 0, 0], [2, 3, 4]])
CUBE = integers(3, 4, 2, low=0, high=2, dtype=np.int32)
NAN = np.float32([np.nan, 1, -0.0, np.inf, np.nan, 0, 1, -np.inf])


def numpy(x: Array, axis: int | None = None) -> list[Array]:
    """What numpy says; of zeros of both signs, which are one to it, the first."""
    _, *others = np.unique(x, True, True, True, axis=axis)
    y = np.take(x.reshape(-1) if axis is None else x, others[0], axis or 0)
    return [y, others[0], others[1].reshape(-1), others[2]]


def kinds() -> Iterator[Row]:
    for t in (np.int8, np.uint16, np.int32, np.uint64, np.float64, np.float16, ml_dtypes.bfloat16, np.bool_):
        x = np.array([3, 1, 0, 1, 2, 3, 3, 0, 5]).astype(t)
        yield Row("Unique", [x], outputs=4, oracle=numpy(x), note=x.dtype.name)


def many(n: int) -> Row:
    x = integers(n, low=0, high=n // 3 + 1, dtype=np.int64, seed=n)
    return Row("Unique", [x], outputs=4)


ROWS = [
    Row("Unique", [X], outputs=4),
    Row("Unique", [X], {"sorted": 0}, outputs=4),
    Row("Unique", [X], opset=11),
    Row("Unique", [X], outputs=[True, False, True], note="some"),
    Row("Unique", [X], outputs=[True, False, False, True], declared=[(5,), (5,)], note="declared"),
    Row("Unique", [X.reshape(1, 7)], {"axis": 0}, outputs=4),
    Row("Unique", [MATRIX], {"axis": 0}, outputs=4),
    Row("Unique", [MATRIX], {"axis": -1, "sorted": 0}, outputs=4),
    Row("Unique", [CUBE], {"axis": 1}, outputs=4, oracle=numpy(CUBE, 1)),
    Row("Unique", [CUBE], {"axis": 2}, outputs=4, oracle=numpy(CUBE, 2)),
    Row("Unique", [CUBE], {"sorted": 0}, oracle=[CUBE.reshape(-1)[np.sort(numpy(CUBE)[1])]], note="flat"),
    Row("Unique", [NAN], outputs=4, oracle=numpy(NAN)),
    Row("Unique", [np.array(3.5, np.float32)], outputs=4, oracle=numpy(np.float32([3.5])), note="scalar"),
    Row("Unique", [np.zeros((0,), np.float32)], outputs=4, oracle=numpy(np.zeros((0,), np.float32))),
    Row("Unique", [floats(2, 0)], {"axis": 1}, outputs=4, oracle=numpy(floats(2, 0), 1)),
    Row("Unique", [np.array(["b", "a", "b", "", "zz", "a"], object)], outputs=4, note="strings"),
    *(many(n) for n in (1, 2, 3, 16, 17, 100)),
    *kinds(),
]
