"""Rows of RoiAlign and MaxRoiPool."""

from collections.abc import Iterator

import numpy as np

from tests.ops.rows import Row, floats

X = floats(2, 3, 6, 7)
ROIS = np.array(
    [[0, 0, 4.5, 5], [1.3, 2.1, 6.6, 4.4], [-3, -2, 9, 8.5], [5, 5, 4, 3], [2, 2, 2, 2]], np.float32
)
WHICH = np.array([0, 1, 1, 0, 1], np.int64)
SIZE = {"output_height": 3, "output_width": 2}
POOLED = {"pooled_shape": [2, 3]}
IN_IMAGES = np.array([[0, 0, 0, 3, 4], [1, 1, 2, 6, 5], [1, 2, 2, 2, 2], [0, 4, 4, 9, 9], [0, 3, 3, 1, 1]])


def aligned() -> Iterator[Row]:
    for mode in ("avg", "max"):
        for ratio in (0, 2):
            how = {"mode": mode, "sampling_ratio": ratio, **SIZE}
            yield Row("RoiAlign", [X, ROIS, WHICH], how, opset=16)
            yield Row("RoiAlign", [X, ROIS, WHICH], how, opset=10)
    halves = {"coordinate_transformation_mode": "output_half_pixel", "spatial_scale": 0.5, **SIZE}
    yield Row("RoiAlign", [X, ROIS * 2, WHICH], halves, opset=16, note="scaled")
    yield Row("RoiAlign", [X, ROIS, WHICH], opset=16, note="defaults")
    wide = np.float32([[-40, -35, 50, 60]])
    yield Row("RoiAlign", [X, wide, WHICH[:1]], SIZE, opset=16, note="wide")
    yield Row("RoiAlign", [X, wide, WHICH[:1]], {"mode": "max", **SIZE}, opset=16, note="wide")
    double = [X.astype(np.float64), ROIS.astype(np.float64), WHICH]
    yield Row("RoiAlign", double, SIZE, opset=16, note="f64")
    none = [X, ROIS[:0], WHICH[:0]]
    yield Row("RoiAlign", none, SIZE, opset=16, oracle=[np.zeros((0, 3, 3, 2), np.float32)])


ROWS = [
    *aligned(),
    Row("MaxRoiPool", [X, IN_IMAGES.astype(np.float32)], POOLED, opset=1),
    Row(
        "MaxRoiPool", [X, (IN_IMAGES * [1, 2, 2, 2, 2]).astype(np.float32)], {"spatial_scale": 0.5, **POOLED}
    ),
    Row("MaxRoiPool", [X, (IN_IMAGES * [1, 0.7, 0.9, 0.8, 0.6]).astype(np.float32)], POOLED, opset=1),
]
