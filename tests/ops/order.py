"""Rows of TopK: both orders, ties, NaNs, every place of the axis."""

import numpy as np

from tests.ops.rows import Row, floats, integers

X = floats(3, 5, 4)
TIES = np.array([[2, 1, 2, 2], [0, 0, 0, 0], [-1, 3, -1, 3]], np.float32)
WILD = np.float32(
    [
        [1, np.nan, 3, np.nan, 2, np.inf, -np.inf, 3],
        [np.nan] * 8,
        [np.inf, np.nan, np.inf, 5, np.nan, np.nan, -1, np.inf],
        [-np.inf, np.nan, -np.inf, 5, -np.inf, 0, -0.0, np.nan],
        [4, 3, 2, 1, 0, -1, -2, np.nan],
    ]
)


LONG = np.random.default_rng(5).choice(np.float32([*range(-20, 20), 0.0, -0.0, np.inf, -np.inf]), (4, 203))
WITH_NANS = np.where(np.random.default_rng(6).random(LONG.shape) < 0.1, np.float32(np.nan), LONG)
MOSTLY_NANS = np.where(np.random.default_rng(7).random(LONG.shape) < 0.97, np.float32(np.nan), LONG)


def k(n: int) -> np.ndarray:
    return np.array([n], np.int64)


ROWS = [
    Row("TopK", [X, k(3)], constant=[1], outputs=2),
    Row("TopK", [X, k(2)], {"axis": 1}, constant=[1], outputs=2),
    Row("TopK", [X, k(3)], {"axis": 0, "largest": 0}, constant=[1], outputs=2),
    Row("TopK", [TIES, k(3)], constant=[1], outputs=2, note="ties"),
    Row("TopK", [TIES, k(3)], {"largest": 0}, constant=[1], outputs=2, note="ties"),
    Row("TopK", [TIES, k(2)], declared=[(3, 2), (3, 2)], outputs=2, note="runtime"),
    Row(
        "TopK", [np.float32([np.inf, 1, -np.inf, np.inf, -np.inf]), k(5)], constant=[1], outputs=2, note="inf"
    ),
    Row("TopK", [integers(2, 6), k(4)], constant=[1], outputs=2, note="i64"),
    Row("TopK", [integers(2, 6, dtype=np.int32), k(6)], {"largest": 0}, constant=[1], outputs=2, note="i32"),
    Row("TopK", [floats(2, 6, dtype=np.float64), k(1)], constant=[1], outputs=2, note="f64"),
    Row("TopK", [floats(2, 6, dtype=np.float16), k(2)], constant=[1], outputs=2, note="f16"),
    *(
        Row("TopK", [WILD.astype(t), k(n)], {"largest": largest, "axis": axis}, [1], 2, note=f"nan-{t}")
        for largest in (0, 1)
        for axis, n, t in ((1, 8, "f4"), (1, 3, "f8"), (0, 5, "f4"), (0, 2, "f2"))
    ),
    Row("TopK", [WILD, k(8)], {"largest": 0, "sorted": 0}, [1], 2, oracle="reference", note="unsorted"),
    *(
        Row("TopK", [x, k(n)], {"largest": largest, "axis": axis}, [1], 2, note=f"long-{name}")
        for name, x in (("ties", LONG), ("nans", WITH_NANS), ("few", MOSTLY_NANS))
        for largest in (0, 1)
        for axis, n in ((1, 5), (1, 30), (0, 3))
    ),
    *(  # more than any target selects at once: naive loops, which evaluators take slowly
        Row("TopK", [x[:2, :67], k(67)], {"largest": largest}, [1], 2, note=f"all-{name}")
        for name, x in (("ties", LONG), ("nans", WITH_NANS), ("few", MOSTLY_NANS))
        for largest in (0, 1)
    ),
    Row("TopK", [floats(2, 20, 7, 5), k(4)], {"axis": 1}, constant=[1], outputs=2, note="channels"),
    Row("TopK", [X, k(0)], constant=[1], outputs=2, note="none"),
    Row("TopK", [X, k(2)], constant=[1], outputs=2, opset=10),
    Row("TopK", [X], {"k": 2, "axis": 1}, outputs=2, opset=9),
]
