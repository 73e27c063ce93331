"""Rows of the operators of com.microsoft. Integers are compared exactly, with onnxruntime."""

from typing import Any

import numpy as np

from tests.ops.rows import Row, integers

DOMAIN: dict[str, Any] = {"domain": "com.microsoft", "opset": 1}
ROWS = [
    Row(
        op,
        [
            integers(*a, dtype=kind),
            np.array(0.03, np.float32),
            np.array(zeros[0], kind),
            integers(*b, dtype=kind, seed=1),
            np.array(0.011, np.float32),
            np.array(zeros[1], kind),
            np.array(0.05, np.float32),
            np.array(zeros[2], kind),
        ],
        note=f"{op} {np.dtype(kind).name} {a} {b}",
        constant=constant,
        **DOMAIN,
    )
    for op in ("QLinearAdd", "QLinearMul")
    for kind in (np.uint8, np.int8)
    for a, b, zeros, constant in (
        ((2, 3, 4), (2, 3, 4), (3, 0, 7), ()),
        ((5, 33), (33,), (0, 9, 1), (1, 2, 4, 5, 6, 7)),
        ((3, 1), (1, 4), (1, 2, 3), (3,)),
        ((), (), (1, 2, 3), ()),
        ((0, 3), (3,), (1, 2, 3), ()),
    )
] + [
    Row(
        op,
        [
            np.array([0, 10, 255], np.uint8),
            np.array(0.5, np.float32),
            np.array(0, np.uint8),
            np.array([0, 5, 255], np.uint8),
            np.array(0.25, np.float32),
            np.array(0, np.uint8),
            np.array(0.5, np.float32),
        ],
        note=f"{op} without a zero point of the result",
        oracle=[np.array([0, 12, 255], np.uint8)],  # onnxruntime wants it
        **DOMAIN,
    )
    for op in ("QLinearAdd", "QLinearMul")
]
