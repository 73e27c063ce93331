"""Rows of Gather, Scatter and their kin, and OneHot: indices known early and late, duplicates included."""

from typing import Any

import numpy as np

from tests.ops.movement import every_type
from tests.ops.rows import Array, Row, floats, integers


def indices(*values: Any, dtype: Any = np.int64) -> Array:
    return np.array(values, dtype)


X = floats(3, 4, 5)
M = floats(3, 3)
TWICE = indices([1, 0, 1], [-3, 2, 2])
TUPLES = indices([[0, 1], [-1, -1]], [[2, 3], [0, -4]])
DATA = floats(4, 4, 4, seed=3)

GATHER = [
    Row("Gather", [X, indices(0, -1, 1)]),
    Row("Gather", [X, indices([0, -1], [3, 2])], {"axis": 1}),
    Row("Gather", [X, indices([0, -1], [3, 2])], {"axis": -2}, constant=[1], note="constant"),
    Row("Gather", [X, np.array(2, np.int32)], {"axis": 2}),
    Row("Gather", [X, np.array(-2, np.int32)], {"axis": 2}, constant=[1], note="constant"),
    Row("Gather", [X, np.zeros((0,), np.int64)], {"axis": 1}, opset=1),
    Row("Gather", [floats(0, 3), indices(0, -1)], {"axis": 1}, opset=11),
    *(Row("Gather", [x, indices(2, -3)], note=str(x.dtype)) for x in every_type()),
    Row("GatherElements", [M, TWICE]),
    Row("GatherElements", [M, TWICE], {"axis": -1}, constant=[1], note="constant"),
    Row("GatherElements", [M, indices([0], [2], [-1], dtype=np.int32)], {"axis": 1}, opset=11),
    Row("GatherElements", [integers(2, 2, dtype=np.uint8), indices([0, 0], [1, 0])], {"axis": 1}),
    Row("GatherND", [X, TUPLES]),
    Row("GatherND", [X, TUPLES], constant=[1], note="constant"),
    Row("GatherND", [X, indices([0, 1, 4], [-1, -1, -1])]),
    Row("GatherND", [X, indices([1], [0], [-1])], {"batch_dims": 1}, opset=12),
    Row("GatherND", [integers(2, 3, 4), indices([[1], [2]], [[0], [0]])], {"batch_dims": 1}, note="i64"),
    Row("GatherND", [floats(4) > 0, indices([3], [0])], opset=11, note="bool"),
]


def scatter(reduction: str, data: Array, at: Array, updates: Array, **more: Any) -> list[Row]:
    """The same row with indices at run time and in the model."""
    attributes = {"reduction": reduction, **more}
    return [
        Row(
            "ScatterElements", [data, at, updates], attributes, opset=18, constant=c, note=f"{data.dtype}_{n}"
        )
        for c, n in (([], "runtime"), ([1], "constant"))
    ]


CACHE, NEW = floats(2, 3, 4, 5), floats(2, 3, 2, 5, seed=1)
TENSOR_SCATTER = [
    Row("TensorScatter", [CACHE, NEW, indices(1, 2)], opset=24, oracle="reference"),
    Row("TensorScatter", [CACHE, NEW], opset=24, oracle="reference"),
    *(
        Row(
            "TensorScatter",
            [CACHE, NEW, indices(3, 1)],
            {"mode": "circular"},
            c,
            opset=24,
            oracle="reference",
        )
        for c in ([], [2])
    ),
    Row(
        "TensorScatter",
        [floats(2, 4, 5), floats(2, 4, 1, seed=2), indices(0, 4)],
        {"axis": 2},
        opset=24,
        oracle="reference",
    ),
]

SCATTER = [
    Row("Scatter", [M, indices([1, 0, 2], [0, 2, 1]), floats(2, 3, seed=1)], opset=9),
    Row("ScatterElements", [M, indices([1, 0, 2], [0, 2, -2]), floats(2, 3, seed=1)], opset=11),
    Row("ScatterElements", [floats(1, 5), indices([1, -2]), floats(1, 2, seed=1)], {"axis": 1}),
    Row("ScatterElements", [M, np.zeros((0, 3), np.int64), floats(0, 3)]),
    *(r for how in ("add", "mul", "max", "min") for r in scatter(how, M, TWICE, floats(2, 3, seed=2))),
    *scatter("add", M, TWICE.T.copy(), floats(3, 2, seed=2), axis=-1),
    *scatter("add", integers(3, 3, dtype=np.int32), TWICE, integers(2, 3, dtype=np.int32, seed=1)),
    *scatter("mul", floats(3, 3, dtype=np.float64), TWICE, floats(2, 3, dtype=np.float64)),
    *(
        Row("ScatterElements", [x, indices([1, 0], [0, 2]), x[:2, 1:3]], note=str(x.dtype))
        for x in every_type()
    ),
    Row("ScatterND", [DATA, indices([0], [-2]), floats(2, 4, 4)], opset=11),
    Row("ScatterND", [DATA, indices([0, 1, 2], [3, -1, 0]), floats(2)], constant=[1]),
    *(
        Row("ScatterND", [DATA, indices([1, 2], [0, 1], [1, -2]), floats(3, 4)], {"reduction": how}, opset=18)
        for how in ("add", "mul", "max", "min")
    ),
    Row(
        "ScatterND",
        [integers(4), indices([1], [1], [0]), integers(3, seed=1)],
        {"reduction": "add"},
        note="i64",
    ),
]

OFF, ON = floats(2)
HOT_FLOAT = np.array([[OFF, ON, OFF, OFF], [OFF, OFF, OFF, ON], [OFF] * 4])
HOT = [
    Row("OneHot", [indices(0, 7, 8), np.array(8, np.int64), floats(2)], constant=[1]),
    Row(
        "OneHot",
        [indices([1, 9], [-2, 4]), indices(10), integers(2, dtype=np.int64)],
        {"axis": 1},
        constant=[1],
    ),
    Row("OneHot", [indices(-1, -5, -6, 5), indices(5), floats(2)], {"axis": -2}, constant=[1], opset=9),
    Row("OneHot", [np.float32([1, -1, 9]), indices(4), floats(2)], constant=[1], oracle=[HOT_FLOAT]),
    Row("OneHot", [indices(0, 2), np.array(3.0, np.float32), floats(2)], declared=[(2, 3)], note="runtime"),
]

ROWS = [*GATHER, *SCATTER, *TENSOR_SCATTER, *HOT]
