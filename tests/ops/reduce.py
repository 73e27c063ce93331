"""Rows of the reductions, positions of extremes, running sums."""

import numpy as np

from tests.ops.rows import Array, Row, extremes, floats, integers, special

SUMS = ("ReduceSum", "ReduceMean", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp")
EXTREMES = ("ReduceMax", "ReduceMin")
FEW = ("ReduceMean", "ReduceL2", "ReduceLogSumExp")
ALL = (*SUMS, *EXTREMES, "ReduceLogSum")


def axes_of(*axes: int) -> Array:
    return np.array(axes, np.int64)


def positive(*shape: int, dtype: type = np.float32) -> Array:
    return np.asarray(np.abs(floats(*shape)) + 0.1, dtype)


def lines(*values: float, dtype: type = np.float32) -> Array:
    """Lines of ordinary numbers, one of the values given in each."""
    x = np.tile(np.array([0.5, -1.0, 2.0, 0.25], dtype), (len(values), 1))
    x[np.arange(len(values)), np.arange(len(values)) % 4] = values
    return x


SHAPES = [
    *(Row(op, [positive(3, 4, 5), axes_of(1)], constant=[1]) for op in ALL),
    *(Row(op, [positive(3, 4, 5), axes_of(-1, 0)], {"keepdims": 0}, constant=[1]) for op in ALL),
    *(Row(op, [positive(2, 83), axes_of(1)], constant=[1]) for op in ALL),
    *(Row(op, [positive(3, 4), axes_of()], {"noop_with_empty_axes": 1}, constant=[1]) for op in ALL),
    *(Row(op, [positive(3, 4), axes_of()], {"keepdims": 0}, constant=[1]) for op in FEW),
    *(Row(op, [positive()], {"keepdims": 0}) for op in FEW),
    *(Row(op, [positive(3, 4, 5)], {"axes": [1, 2], "keepdims": 0}, opset=11) for op in ALL),
    *(Row(op, [positive(3, 4)], opset=11) for op in FEW),
]
TYPES = [
    *(Row(op, [positive(3, 4, dtype=np.float64), axes_of(1)], constant=[1], note="f64") for op in ALL),
    *(
        Row(
            op,
            [positive(3, 4, dtype=np.float16), axes_of(1)],
            constant=[1],
            oracle="reference",
            tolerance=3e-3,
        )
        for op in ("ReduceSum", "ReduceMax", *FEW)
    ),
    *(
        Row(
            op,
            [integers(3, 4, dtype=t, low=1, high=5), axes_of(1)],
            constant=[1],
            oracle="reference",
            note=np.dtype(t).name,
        )
        for op in ("ReduceSum", "ReduceProd", "ReduceL1", *EXTREMES)
        for t in (np.int64, np.uint32)
    ),
    *(
        Row(op, [integers(3, 4, dtype=t, low=-9, high=9), axes_of(1)], constant=[1], note=np.dtype(t).name)
        for op in ("ReduceMean", "ReduceL2", "ReduceSum", "ReduceSumSquare")
        for t in (np.int32,)
    ),
    *(
        Row(op, [extremes(t)], oracle="reference", note=np.dtype(t).name)
        for op in EXTREMES
        for t in (np.int8, np.uint8, np.int64)
    ),
    *(
        Row(op, [np.array([[True, True], [False, True], [False, False]]), axes_of(1)], constant=[1], opset=20)
        for op in EXTREMES
    ),
]
VALUES = [
    *(
        Row(op, [lines(np.nan, np.inf, -np.inf, 1e-40, -0.0, 3e38), axes_of(1)], constant=[1], note="special")
        for op in (*SUMS, *EXTREMES)
    ),
    Row("ReduceLogSum", [np.abs(lines(np.nan, np.inf, 0, 1e-40)), axes_of(1)], constant=[1], note="special"),
    Row(
        "ReduceLogSumExp",
        [np.array([[1e4, 1e4], [-1e4, -1e4], [-np.inf, -np.inf]], np.float32), axes_of(1)],
        constant=[1],
    ),
]
NOTHING = {"ReduceSum": 0, "ReduceProd": 1, "ReduceL1": 0, "ReduceL2": 0, "ReduceSumSquare": 0}
NOTHING |= {"ReduceMax": -np.inf, "ReduceMin": np.inf, "ReduceLogSum": -np.inf, "ReduceLogSumExp": -np.inf}
NOTHING |= {"ReduceMean": np.nan}
EMPTY = [
    *(
        Row(op, [floats(2, 0, 3), axes_of(1)], constant=[1], oracle=[np.full((2, 1, 3), v, np.float32)])
        for op, v in NOTHING.items()
    ),
    *(Row(op, [floats(2, 0, 3), axes_of(2)], constant=[1], oracle=[floats(2, 0, 1)]) for op in FEW),
    *(
        Row(op, [floats(3, 8, 11, 0), axes_of(a)], constant=[1], oracle=[oracle], note=f"axis {a}")
        for op, sum_of_nothing in (("ReduceL2", 0), ("ReduceSum", 0), ("ReduceMax", -np.inf))
        for a, oracle in ((0, floats(1, 8, 11, 0)), (3, np.full((3, 8, 11, 1), sum_of_nothing, np.float32)))
    ),
    Row(
        "ReduceMax",
        [np.zeros((0, 2), np.int8), axes_of(0)],
        constant=[1],
        oracle=[np.full((1, 2), -128, np.int8)],
    ),
    Row("ReduceMin", [np.zeros((0, 2), bool), axes_of(0)], constant=[1], oracle=[np.full((1, 2), True)]),
]
RUN_TIME = [
    *(
        Row(op, [positive(3, 4, 4), axes_of(1)], {"keepdims": k}, declared=[shape], note="run time")
        for op in ("ReduceSum", "ReduceMax", *FEW)
        for k, shape in [(0, (3, 4)), (1, (3, 1, 4))]
    ),
    Row("ReduceMean", [positive(3, 4, 4), axes_of(-1, 0)], {"keepdims": 0}, declared=[(4,)], note="run time"),
    Row("ReduceSum", [positive(3, 4), axes_of()], {"noop_with_empty_axes": 1}, note="run time"),
    Row("ReduceMax", [integers(3, 4, 4), axes_of(1)], {"keepdims": 0}, declared=[(3, 4)], note="run time"),
]
TIES = np.array([[2, 7, 7, 1], [3, 3, 3, 3], [-1, -5, 0, -5]])
POSITIONS = [
    *(
        Row(op, [TIES.astype(np.float32)], {"axis": a, "keepdims": k, "select_last_index": last})
        for op in ("ArgMax", "ArgMin")
        for a, k, last in [(0, 1, 0), (1, 1, 0), (1, 0, 1), (-1, 1, 1), (-2, 0, 0)]
    ),
    *(
        Row(op, [TIES.astype(t)], {"axis": 1}, note=np.dtype(t).name)
        for op in ("ArgMax", "ArgMin")
        for t in (np.int32, np.int8)
    ),
    *(Row(op, [floats(2, 3, 4)], opset=opset) for op in ("ArgMax", "ArgMin") for opset in (11, 1)),
    *(Row(op, [floats(5, dtype=np.float64)]) for op in ("ArgMax", "ArgMin")),
    *(Row(op, [floats(5, dtype=np.float16)], oracle="reference") for op in ("ArgMax", "ArgMin")),
    *(
        Row(
            op,
            [lines(np.inf, -np.inf, np.nan, np.nan)],
            {"axis": 1},
            oracle=[f(lines(np.inf, -np.inf, np.nan, np.nan))],
        )
        for op, f in [
            ("ArgMax", lambda x: np.argmax(x, 1, keepdims=True)),
            ("ArgMin", lambda x: np.argmin(x, 1, keepdims=True)),
        ]
    ),
    *(Row(op, [np.full((2, 3), np.inf, np.float32)], {"axis": 1}) for op in ("ArgMax", "ArgMin")),
    *(Row(op, [np.full((2, 3), -np.inf, np.float32)], {"axis": 1}) for op in ("ArgMax", "ArgMin")),
    *(
        Row(op, [np.zeros((0, 3), np.float32)], {"axis": 1}, oracle=[np.zeros((0, 1), np.int64)])
        for op in ("ArgMax", "ArgMin")
    ),
]
RUNNING = [
    *(
        Row(
            "CumSum",
            [floats(2, 3, 4), np.array(a)],
            {"exclusive": e, "reverse": r},
            constant=[1],
            note=f"axis {a}",
        )
        for a in (0, 1, -1)
        for e in (0, 1)
        for r in (0, 1)
    ),
    *(Row("CumSum", [floats(2, 3, 4), np.array(a)], note=f"run time {a}") for a in (0, 1, 2, -2)),
    Row("CumSum", [floats(5), axes_of(0)], constant=[1], note="axis as vector"),
    *(
        Row("CumSum", [extremes(t), np.array(0)], constant=[1], note=np.dtype(t).name)
        for t in (np.int32, np.int64)
    ),
    *(
        Row(
            "CumSum",
            [floats(5, dtype=t), np.array(0)],
            constant=[1],
            oracle="reference",
            tolerance=2e-3,
            note=np.dtype(t).name,
        )
        for t in (np.float64, np.float16)
    ),
    Row("CumSum", [special(), np.array(0)], constant=[1], note="special"),
    Row("CumSum", [floats(0, 3), np.array(0)], constant=[1], oracle=[floats(0, 3)]),
    Row("CumSum", [floats(3, 0), np.array(0)], constant=[1], oracle=[floats(3, 0)]),
    *(
        Row(
            "CumProd",
            [floats(3, 4), np.array(1)],
            {"exclusive": e, "reverse": r},
            constant=[1],
            opset=26,
            oracle="reference",
        )
        for e in (0, 1)
        for r in (0, 1)
    ),
    Row("CumProd", [integers(3, 4, dtype=np.int32), np.array(0)], opset=26, oracle="reference"),
]
HARD = [
    *(Row("Hardmax", [TIES.astype(np.float32)], {"axis": a}) for a in (0, 1, -1)),
    Row("Hardmax", [floats(2, 3, 4, dtype=np.float64)], oracle="reference"),
    Row("Hardmax", [floats(2, 3, dtype=np.float16)], oracle="reference"),
    *(Row("Hardmax", [floats(2, 3, 4)], {"axis": a}, opset=11) for a in (0, 1, 2)),
]
NORMS = [
    *(
        Row("LpNormalization", [floats(2, 3, 4)], {"axis": a, "p": p}, opset=opset)
        for a, opset in [(-1, 22), (1, 1)]
        for p in (1, 2)
    ),
    Row("LpNormalization", [np.array([[0, 0], [3, 4]], np.float32)], opset=22, note="zero"),
    Row("LpNormalization", [floats(2, 3, dtype=np.float64)], opset=22, note="f64"),
    Row("LpNormalization", [floats(2, 3, dtype=np.float16)], opset=22, oracle="reference", tolerance=2e-3),
    Row("MeanVarianceNormalization", [floats(2, 3, 4, 4)]),
    Row("MeanVarianceNormalization", [floats(2, 3, 4)], {"axes": [1, 2]}),
]
ROWS = [*SHAPES, *TYPES, *VALUES, *EMPTY, *RUN_TIME, *POSITIONS, *RUNNING, *HARD, *NORMS]
