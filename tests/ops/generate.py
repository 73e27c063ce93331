"""Rows of tensors made from little or nothing."""

from collections.abc import Iterator

import numpy as np
from onnx import TensorProto, numpy_helper

from tests.ops.rows import Array, Row, floats, integers


def dims(*values: int) -> Array:
    return np.array(values, np.int64)


def every_value() -> Iterator[Row]:
    """ConstantOfShape with one value of each element type."""
    for t in (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64):
        yield filled(np.array([np.iinfo(t).max], t))
    for t in (np.float16, np.float32, np.float64):
        yield filled(np.array([-1.5], t))
    yield filled(np.array([True]))


def filled(value: Array) -> Row:
    made = {"value": numpy_helper.from_array(value)}
    return Row("ConstantOfShape", [dims(2, 3)], made, declared=[(2, 3)], note=str(value.dtype))


def span(*values: float, dtype: type = np.float32, runtime: int | None = None) -> Row:
    constant = [] if runtime else [0, 1, 2]
    declared = [(runtime,)] if runtime else []
    note = "_".join(map(str, values))
    inputs = [np.array(v, dtype) for v in values]
    return Row("Range", inputs, constant=constant, declared=declared, note=f"{dtype.__name__}_{note}")


ROWS = [
    Row("ConstantOfShape", [dims(2, 3)], constant=[0]),
    Row("ConstantOfShape", [dims(2, 0)], constant=[0], opset=9),
    Row("ConstantOfShape", [dims()], constant=[0], note="scalar"),
    *every_value(),
    Row("EyeLike", [floats(3, 4)]),
    Row("EyeLike", [floats(3, 4)], {"k": -1, "dtype": TensorProto.INT64}),
    Row("EyeLike", [integers(4, 3, dtype=np.int32)], {"k": 2}, opset=9),
    Row("EyeLike", [floats(3, 3)], {"k": 1 << 62}),
    Row("EyeLike", [floats(3, 3)], {"dtype": TensorProto.BOOL}, oracle=[np.eye(3, dtype=bool)]),
    span(1, 5, 2),
    span(5, 1, -1.5),
    span(5, 1, 1),
    span(10, 4, -2, dtype=np.int32),
    span(10, 3, -2, dtype=np.int64),
    span(0, 1, 0.25, dtype=np.float64),
    span(1, 5, 2, runtime=2),
    span(10, 4, -2, dtype=np.int64, runtime=3),
]
