"""Rows of softmax and the normalisations."""

from typing import Any

import numpy as np

from tests.ops.rows import Row, floats

X3, X4 = floats(3, 5, 7), floats(1, 4, 3, 5)
LARGE = floats(3, 9, scale=60.0)
ROWS_OF = (2, 5, 10, 16, 33, 100, 263, 333, 1000)  # lengths: fewer and more than vectors, held and walked


def positive(*shape: int, seed: int = 0, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    return np.abs(floats(*shape, seed=seed, dtype=dtype)) + dtype(0.25)


SOFTMAX = [
    *(Row(op, [X3], {"axis": a}, opset=13) for op in ("Softmax", "LogSoftmax") for a in (0, 1, 2, -1, -3)),
    *(Row(op, [X3], {"axis": a}, opset=11) for op in ("Softmax", "LogSoftmax") for a in (0, 1, 2, -1)),
    *(Row(op, [x]) for op in ("Softmax", "LogSoftmax") for x in (X3, floats(7), LARGE)),
    *(Row(op, [X4], opset=o) for op in ("Softmax", "LogSoftmax") for o in (7, 12)),
    *(Row(op, [X3.astype(np.float64)], tolerance=1e-12, note="f64") for op in ("Softmax", "LogSoftmax")),
    *(
        Row(op, [X3.astype(np.float16)], oracle="reference", tolerance=2e-3, note="f16")
        for op in ("Softmax", "LogSoftmax")
    ),
    Row("Softmax", [np.array([[0, -np.inf, 1], [-np.inf, -np.inf, -np.inf], [np.nan, 0, 1]], np.float32)]),
    Row("Softmax", [floats(3, 1)], note="one"),
    *(Row(op, [floats(3, n)]) for op in ("Softmax", "LogSoftmax") for n in ROWS_OF),
    Row("Softmax", [floats(2, 3, 61)], {"axis": 1}, opset=11, note="two_axes_along"),
    Row("Softmax", [floats(4, 37, dtype=np.float64)], tolerance=1e-12, note="f64"),
]


def batch(x: np.ndarray[Any, Any], seed: int = 0, like: tuple[int, ...] = ()) -> list[np.ndarray[Any, Any]]:
    """x, scale, bias, mean, variance."""
    shape, t = like or (x.shape[1] if x.ndim > 1 else 1,), x.dtype.type
    return [
        x,
        *(floats(*shape, seed=seed + i, dtype=t) for i in range(1, 4)),
        positive(*shape, seed=seed + 4, dtype=t),
    ]


BATCH = [
    *(Row("BatchNormalization", batch(x)) for x in (X3, X4, floats(3, 6), floats(1, 2, 3, 4, 3))),
    *(Row("BatchNormalization", batch(X4), {"epsilon": 1e-2}, opset=o) for o in (7, 9, 14)),
    Row("BatchNormalization", batch(X4), {"is_test": 1}, opset=6, oracle="reference"),
    Row("BatchNormalization", batch(X4, like=(4, 3, 5)), {"spatial": 0}, opset=7),
    Row("BatchNormalization", batch(X3.astype(np.float64)), tolerance=1e-12, note="f64"),
    Row("BatchNormalization", batch(X4), constant=(1, 2, 3, 4), note="constants"),
    Row("BatchNormalization", batch(X4), {"training_mode": 1}, outputs=3),
    Row("BatchNormalization", batch(X3), {"training_mode": 1, "momentum": 0.7}, outputs=3),
]


def affine(x: np.ndarray[Any, Any], *shape: int) -> list[np.ndarray[Any, Any]]:
    return [x, floats(*shape, seed=1, dtype=x.dtype), floats(*shape, seed=2, dtype=x.dtype)]


INSTANCE = [
    *(Row("InstanceNormalization", affine(x, x.shape[1])) for x in (X3, X4, floats(3, 2, 3, 2, 3))),
    Row("InstanceNormalization", affine(X4, 4), {"epsilon": 0.1}, opset=6),
    Row("InstanceNormalization", affine(X3 + 100, 5), note="offset", tolerance=1e-4),
    Row("InstanceNormalization", affine(X3.astype(np.float64), 5), oracle="reference", note="f64"),
]
LAYER = [
    *(
        Row("LayerNormalization", affine(X4, *X4.shape[a:]), {"axis": a}, outputs=3)
        for a in (-1, 0, 1, 2, -2)
    ),
    Row("LayerNormalization", affine(X3, 7)),
    *(Row("LayerNormalization", affine(floats(3, n), n), outputs=1 + 2 * (n % 2)) for n in ROWS_OF),
    Row("LayerNormalization", affine(floats(2, 9, 21), 9, 21), {"axis": 1}, note="held_on_two_axes"),
    Row("LayerNormalization", affine(floats(2, 19, 43), 19, 43), {"axis": 1}, note="walked_on_two_axes"),
    Row("LayerNormalization", affine(X3, 7)[:2], {"epsilon": 0.1}, opset=17),
    Row("LayerNormalization", affine(X3, 7), outputs=[True, False, True], note="no_mean"),
    Row("LayerNormalization", affine(X3, 1, 7), note="broadcast"),
    Row("LayerNormalization", affine(X3.astype(np.float64), 7), note="f64", tolerance=1e-6),
    Row(
        "LayerNormalization", affine(X3.astype(np.float16), 7), oracle="reference", note="f16", tolerance=4e-3
    ),
]
GROUP = [
    *(
        Row("GroupNormalization", affine(x, x.shape[1]), {"num_groups": g})
        for x, g in ((X4, 2), (X4, 1), (X4, 4), (floats(3, 6, 5), 3))
    ),
    Row("GroupNormalization", affine(X4, 2), {"num_groups": 2, "epsilon": 0.1}, opset=18),
    Row("GroupNormalization", affine(floats(3, 6, 5), 3), {"num_groups": 3}, opset=18),
]
RMS = [
    *(
        Row("RMSNormalization", [X4, floats(*X4.shape[a:], seed=1)], {"axis": a}, opset=23)
        for a in (-1, 0, 2, -3)
    ),
    Row("RMSNormalization", [X3, floats(7, seed=1)], {"epsilon": 0.1}, opset=23),
    Row(
        "RMSNormalization",
        [X3.astype(np.float16), floats(7, dtype=np.float16)],
        opset=23,
        oracle="reference",
        tolerance=2e-3,
        note="f16",
    ),
]
LRN = [
    *(Row("LRN", [floats(2, 6, 3, 4)], {"size": s, "alpha": 0.3, "bias": 1.5}) for s in (1, 3, 5)),
    *(Row("LRN", [floats(3, 5, 4, 4, scale=9.0)], {"size": s, "beta": 0.5}, opset=1) for s in (7, 1)),
    *(Row("LRN", [floats(1, 7, 4, 4)], {"size": s}) for s in (9, 13, 15, 21)),
    Row("LRN", [floats(1, 3, 2, 2)], {"size": 2**31 - 1}, oracle="reference"),  # a window of all channels
]
ROWS = [*SOFTMAX, *BATCH, *INSTANCE, *LAYER, *GROUP, *RMS, *LRN]
