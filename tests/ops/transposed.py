"""Rows of ConvTranspose: phases, taps that meet nothing, every way of saying how large the output is."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.rows import Row, floats

X1, X2, X3 = floats(3, 4, 5), floats(1, 4, 3, 5), floats(2, 2, 3, 2, 3)
W1, W2, W3 = floats(4, 3, 4, seed=1), floats(4, 3, 3, 2, seed=1), floats(2, 3, 2, 3, 2, seed=1)
B = floats(3, seed=2)


def row(x: Any, w: Any, attributes: dict[str, Any], bias: Any = None, **more: Any) -> Row:
    return Row("ConvTranspose", [x, w] if bias is None else [x, w, bias], attributes, **more)


ROWS = [
    *(row(x, w, {}, B) for x, w in ((X1, W1), (X2, W2), (X3, W3))),
    *(row(X1, W1, {"strides": [s]}) for s in (2, 3, 4, 6)),
    *(row(X1, W1, {"strides": [s], "dilations": [d]}) for s, d in ((1, 3), (2, 2), (2, 3), (4, 6), (6, 4))),
    row(X1, W1, {"strides": [2], "pads": [2, 1], "output_padding": [1]}, B),
    row(X2, W2, {"strides": [2, 3], "pads": [1, 0, 0, 1], "output_padding": [1, 2]}, B),
    row(X2, W2, {"strides": [2, 2], "dilations": [1, 2], "pads": [1, 1, 1, 1]}),
    row(X2, W2, {"strides": [3, 2], "output_shape": [10, 11]}),
    row(X2, W2, {"strides": [2, 2], "output_shape": [6, 9]}, B),
    row(X2, W2, {"strides": [2, 2], "output_shape": [6, 10], "auto_pad": "SAME_UPPER"}),
    *(row(X2, W2, {"strides": [2, 2], "auto_pad": a}, B) for a in ("SAME_UPPER", "SAME_LOWER", "VALID")),
    row(X2, floats(4, 3, 1, 2), {"strides": [3, 2], "auto_pad": "SAME_UPPER"}, note="gaps"),
    row(X2, W2, {"kernel_shape": [3, 2]}, opset=1),
    row(X3, W3, {"strides": [2, 1, 2], "pads": [0, 1, 0, 1, 0, 1]}, B),
    row(X3, W3, {"strides": [1, 2, 3], "dilations": [2, 1, 1], "output_padding": [0, 1, 2]}),
    row(X2, floats(4, 3, 3, 2), {"group": 2, "strides": [2, 1]}, floats(6, seed=2), note="groups"),
    row(X2, floats(4, 1, 3, 3), {"group": 4, "strides": [2, 2]}, floats(4, seed=2), note="depthwise"),
    row(X2, floats(4, 1, 3, 3), {"group": 2}, note="one_output"),
    row(X1, floats(4, 2, 1), {"strides": [3]}, floats(2, seed=2), note="gaps"),
    row(floats(1, 2, 2, 3), floats(2, 2, 12, 18), {"strides": [8, 12], "pads": [3, 4, 2, 1]}, note="many"),
    row(floats(1, 4, 2, 3), floats(4, 2, 9, 9), {"strides": [9, 8], "group": 2}, note="many"),
    row(X2, W2, {"strides": [2, 2]}, B, constant=(1, 2), note="constants"),
    row(
        *(X2.astype(np.float64), W2.astype(np.float64), {"strides": [2, 2], "pads": [1, 0, 1, 0]}),
        oracle="reference",
        tolerance=1e-12,
        note="f64",
    ),
]
