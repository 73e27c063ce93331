"""Rows of DeformConv."""

import numpy as np

from tests.ops.rows import Row, floats

X = floats(2, 4, 5, 6)
W = floats(6, 4, 3, 2, seed=1)
OFFSET = floats(2, 12, 3, 5, seed=2)
MASK = floats(2, 6, 3, 5, seed=3)
GROUPED = {"group": 2, "offset_group": 2, "pads": [1, 0, 1, 1], "strides": [2, 1], "dilations": [1, 2]}

ROWS = [
    Row("DeformConv", [X, W, OFFSET], opset=19),
    Row("DeformConv", [X, W, OFFSET, floats(6), MASK], opset=22, note="mask"),
    Row("DeformConv", [X, W, OFFSET, None, MASK], {"kernel_shape": [3, 2]}, opset=19, note="no_bias"),
    Row(
        "DeformConv",
        [X, floats(6, 2, 3, 2), floats(2, 24, 3, 5, scale=2), floats(6), floats(2, 12, 3, 5)],
        GROUPED,
        opset=19,
        note="groups",
    ),
    Row(
        "DeformConv", [X, W, OFFSET * np.float32(1e30)], opset=19, oracle=[np.zeros((2, 6, 3, 5), np.float32)]
    ),
    Row(
        "DeformConv",
        [floats(1, 2, 6), floats(2, 2, 3), np.zeros((1, 3, 4), np.float32)],
        opset=19,
        oracle=[
            np.stack([np.convolve(floats(1, 2, 6)[0, 0], w[0, ::-1], "valid") for w in floats(2, 2, 3)])[None]
            + np.stack([np.convolve(floats(1, 2, 6)[0, 1], w[1, ::-1], "valid") for w in floats(2, 2, 3)])[
                None
            ]
        ],
        note="1d",
    ),
    Row(
        "DeformConv",
        [X.astype(np.float64), W.astype(np.float64), OFFSET.astype(np.float64)],
        opset=19,
        note="f64",
    ),
]
