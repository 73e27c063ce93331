"""Rows of GridSample, AffineGrid and MaxUnpool."""

from collections.abc import Iterator

import numpy as np

from tests.ops.rows import Array, Row, floats


def dims(*values: int) -> Array:
    return np.array(values, np.int64)


X = floats(2, 3, 4, 5)
GRID = floats(2, 3, 6, 2, seed=1, scale=0.8)


def grids() -> Iterator[Row]:
    for mode in ("linear", "nearest", "cubic"):
        for padding in ("zeros", "border", "reflection"):
            for corners in (0, 1):
                how = {"mode": mode, "padding_mode": padding, "align_corners": corners}
                yield Row("GridSample", [X, GRID], how, tolerance=1e-4)
    yield Row(
        "GridSample", [floats(1, 2, 3, 4, 2), floats(1, 2, 2, 3, 3)], {"mode": "linear"}, tolerance=1e-4
    )
    yield Row("GridSample", [X, GRID], {"mode": "bilinear"}, opset=16)
    yield Row(
        "GridSample", [X, GRID * np.float32(1e20)], {"padding_mode": "border"}, oracle="reference", note="far"
    )


UNPOOLED = floats(1, 1, 2, 2)
PLACES = dims(5, 7, 13, 15).reshape(1, 1, 2, 2)
WINDOW = {"kernel_shape": [2, 2], "strides": [2, 2]}
WIDER = np.zeros((1, 1, 5, 5), np.float32)
WIDER[0, 0, 1::2, 1::2][:2, :2] = UNPOOLED

ROWS = [
    *grids(),
    Row("AffineGrid", [floats(2, 2, 3), dims(2, 1, 5, 6)], constant=[1], oracle="reference"),
    Row("AffineGrid", [floats(2, 2, 3), dims(2, 1, 5, 6)], {"align_corners": 1}, constant=[1]),
    Row("AffineGrid", [floats(1, 3, 4), dims(1, 1, 2, 3, 4)], declared=[(1, 2, 3, 4, 3)], note="runtime"),
    Row("MaxUnpool", [UNPOOLED, PLACES], WINDOW, opset=11),
    Row(
        "MaxUnpool",
        [floats(2, 1, 3), dims(1, 2, 5, 6, 9, 10).reshape(2, 1, 3)],
        {"kernel_shape": [2], "strides": [2]},
    ),
    Row("MaxUnpool", [UNPOOLED, PLACES, dims(1, 1, 5, 5)], WINDOW, constant=[2], oracle=[WIDER]),
]
