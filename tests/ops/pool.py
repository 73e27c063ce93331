"""Rows of the pooling operators: every rank, every padding, ceil_mode, dilations, indices."""

from typing import Any

import numpy as np

from tests.ops.rows import Row, floats, integers, special


def distinct(*shape: int) -> np.ndarray[Any, Any]:
    """Few different values, so that windows hold ties."""
    return integers(*shape, low=0, high=4, dtype=np.int64).astype(np.float32)


X1, X2, X3 = floats(3, 2, 11), floats(1, 3, 9, 7), floats(3, 2, 5, 6, 7)
SQUARE: dict[str, Any] = {"kernel_shape": [3, 3], "strides": [2, 2]}
ASYMMETRIC: dict[str, Any] = {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [0, 1, 2, 0]}

# What a window may look like, shared by the three windowed pools.
WINDOWS: list[tuple[Any, dict[str, Any]]] = [
    (X1, {"kernel_shape": [3]}),
    (X1, {"kernel_shape": [4], "strides": [3], "pads": [1, 1], "ceil_mode": 1}),
    (X2, SQUARE),
    (X2, {**SQUARE, "pads": [1, 1, 1, 1]}),
    (X2, {**SQUARE, "pads": [1, 1, 1, 1], "ceil_mode": 1}),
    (X2, ASYMMETRIC),
    (X2, {**ASYMMETRIC, "ceil_mode": 1}),
    (X2, {**SQUARE, "auto_pad": "SAME_UPPER"}),
    (X2, {"kernel_shape": [2, 4], "strides": [1, 3], "auto_pad": "SAME_LOWER"}),
    (X2, {**SQUARE, "auto_pad": "VALID"}),
    (X2, {"kernel_shape": [2, 2], "strides": [2, 2], "auto_pad": "VALID", "ceil_mode": 1}),
    (X3, {"kernel_shape": [2, 3, 3], "strides": [2, 1, 2], "pads": [1, 0, 1, 0, 1, 1]}),
]
DILATED: list[tuple[Any, dict[str, Any]]] = [
    (X1, {"kernel_shape": [3], "dilations": [3]}),
    (X2, {"kernel_shape": [3, 2], "dilations": [2, 3], "pads": [1, 1, 1, 1]}),
    (
        X2,
        {
            "kernel_shape": [3, 2],
            "dilations": [2, 2],
            "strides": [2, 3],
            "pads": [1, 0, 1, 1],
            "ceil_mode": 1,
        },
    ),
]


def with_nans(*shape: int) -> np.ndarray[Any, Any]:
    """Rows in which only every third element is a number: a window of three always has one."""
    x = floats(*shape).copy()
    x[..., np.arange(shape[-1]) % 3 != 1] = np.nan
    return x


# Windows that leave gaps: padding SAME is negative then, for MaxPool where both oracles agree on how much.
GAPS: list[tuple[Any, str, dict[str, Any]]] = [
    (floats(1, 2, 31), "MaxPool", {"kernel_shape": [1], "strides": [4], "auto_pad": "SAME_UPPER"}),
    (floats(1, 2, 7, 30), "MaxPool", {"kernel_shape": [1, 1], "strides": [3, 3], "auto_pad": "SAME_UPPER"}),
    (floats(1, 17, 9, 30), "LpPool", {"kernel_shape": [1, 1], "strides": [3, 4], "auto_pad": "SAME_UPPER"}),
    (floats(1, 2, 10, 10), "LpPool", {"kernel_shape": [2, 1], "strides": [5, 4], "auto_pad": "SAME_LOWER"}),
    (floats(1, 2, 10), "AveragePool", {"kernel_shape": [2], "strides": [5], "auto_pad": "SAME_LOWER"}),
    (
        floats(1, 16, 10, 6),
        "AveragePool",
        {"kernel_shape": [2, 1], "strides": [5, 4], "auto_pad": "SAME_LOWER", "count_include_pad": 1},
    ),
]
OF_GAPS = [
    Row(kind, [x], a, opset=22, note=f"gaps{i}", oracle="reference" if kind == "MaxPool" else "ort")
    for i, (x, kind, a) in enumerate(GAPS)
]
MAX = [
    Row("MaxPool", [GAPS[0][0]], GAPS[0][2], opset=22, outputs=2, note="gaps, indices"),
    *OF_GAPS,
    *(Row("MaxPool", [x], a, opset=12) for x, a in (*WINDOWS, *DILATED)),
    Row("MaxPool", [X2], SQUARE, opset=8),
    Row("MaxPool", [special().reshape(1, 1, 5, 5)], {"kernel_shape": [1, 1]}, note="special"),
    *(
        Row("MaxPool", [with_nans(1, c, 9, 12)], a, note=f"nan{c}", oracle="reference")
        for c in (1, 3, 17)
        for a in ({"kernel_shape": [1, 3]}, {"kernel_shape": [3, 3]}, {"kernel_shape": [2, 5]})
    ),
    Row("MaxPool", [X2.astype(np.float64)], {**SQUARE, "pads": [1, 1, 0, 0]}, note="f64"),
    Row(
        "MaxPool",
        [X2.astype(np.float16)],
        {**SQUARE, "pads": [1, 1, 0, 0]},
        opset=22,
        note="f16",
        oracle="reference",
    ),
    *(
        Row("MaxPool", [integers(1, 2, 7, 6, dtype=t)], {**SQUARE, "pads": [1, 1, 1, 1]}, note=t.__name__)
        for t in (np.int8, np.uint8)
    ),
    Row("MaxPool", [distinct(3, 2, 11)], {"kernel_shape": [3], "pads": [1, 1]}, outputs=2),
    Row("MaxPool", [distinct(3, 2, 7, 9)], {**SQUARE, "pads": [1, 0, 1, 2]}, outputs=2),
    Row("MaxPool", [distinct(3, 2, 7, 9)], {**SQUARE, "pads": [1, 0, 1, 2], "storage_order": 1}, outputs=2),
    Row("MaxPool", [distinct(1, 3, 4, 5, 6)], {"kernel_shape": [2, 3, 2], "storage_order": 1}, outputs=2),
    Row("MaxPool", [distinct(2, 2, 7, 9)], {"kernel_shape": [2, 3], "dilations": [2, 3]}, outputs=2),
    Row(
        "MaxPool",
        [np.full((1, 1, 4, 4), -128, np.int8)],
        {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]},
        outputs=2,
        note="lowest",
    ),
]
# One channel, so that vectors run along an axis that slides: what counts differs from lane to lane.
PLANE, STRIPE = floats(1, 1, 6, 6), floats(1, 1, 6, 3)
ENDS: list[tuple[Any, dict[str, Any]]] = [
    (x, {"kernel_shape": kernel, "pads": pads})
    for x in (PLANE, STRIPE)
    for kernel, pads in (
        ([1, 2], [0, 0, 0, 1]),
        ([1, 2], [0, 1, 0, 0]),
        ([2, 2], [0, 0, 1, 1]),
        ([2, 2], [1, 1, 1, 1]),
        ([3, 1], [0, 0, 2, 0]),
    )
]
AVERAGE = [
    *(Row("AveragePool", [x], a, opset=19, note="one_channel") for x, a in ENDS),
    *(Row("AveragePool", [x], a, opset=19) for x, a in (*WINDOWS, *DILATED)),
    *(
        Row("AveragePool", [x], {**a, "count_include_pad": 1}, opset=19, note="with_pad")
        for x, a in (*WINDOWS, *DILATED)
    ),
    Row("AveragePool", [X2], {**SQUARE, "pads": [1, 1, 1, 1]}, opset=7),
    Row(
        "AveragePool",
        [X2.astype(np.float64)],
        {**SQUARE, "pads": [1, 1, 0, 0]},
        oracle="reference",
        note="f64",
    ),
    Row(
        "AveragePool",
        [X2.astype(np.float16)],
        SQUARE,
        opset=22,
        oracle="reference",
        note="f16",
        tolerance=1e-3,
    ),
]
LP = [
    *(Row("LpPool", [x], a, opset=18) for x, a in (*WINDOWS, *DILATED)),
    *(Row("LpPool", [X2], {**SQUARE, "p": p}, opset=11) for p in (1, 3, 7)),
]
GLOBAL = [
    Row(op, [x], a)
    for op, attributes in (
        ("GlobalMaxPool", [{}]),
        ("GlobalAveragePool", [{}]),
        ("GlobalLpPool", [{}, {"p": 1}, {"p": 3}]),
    )
    for a in attributes
    for x in (X1, X2, X3)
]
# The last window would start in the padding after the end (ONNX's shape inference is wrong before opset 22).
LATE: dict[str, Any] = {"kernel_shape": [4], "strides": [3], "pads": [1, 2], "ceil_mode": 1}
# A window wider than all there is: no output, where the formula of the extent says so without rounding.
WIDE: list[dict[str, Any]] = [
    {"kernel_shape": [13], "strides": [2]},
    {"kernel_shape": [14], "strides": [3]},
    {"kernel_shape": [14], "strides": [2], "pads": [0, 1]},
    {"kernel_shape": [7], "dilations": [2], "strides": [2]},
]
ROWS = [
    *(
        Row(op, [X1], a, opset=22, oracle=oracle, note=f"wide_{oracle}")
        for op in ("MaxPool", "AveragePool", "LpPool")
        for a in WIDE
        for oracle in ("ort", "reference")
    ),
    *(Row(op, [X1], LATE, opset=22) for op in ("MaxPool", "AveragePool", "LpPool")),
    *MAX,
    *AVERAGE,
    *LP,
    *GLOBAL,
    Row("GlobalAveragePool", [X2.astype(np.float64)], oracle="reference", note="f64"),
    Row("GlobalMaxPool", [X2.astype(np.float64)], oracle="reference", note="f64"),
]
