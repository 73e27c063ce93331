"""Rows of the quantised operators. Integers are compared exactly."""

import ml_dtypes
import numpy as np

from tests.ops.rows import Array, Row, extremes, floats, integers, onnx_type

TYPES = (np.int8, np.uint8, np.int16, np.uint16)
SHORT = (np.uint8, np.int8)


def scale(*values: float, dtype: type = np.float32) -> Array:
    """One number as a scalar, several as a vector."""
    return np.array(values[0] if len(values) == 1 else values, dtype)


def zero(t: type, *values: int) -> Array:
    return np.array(values[0] if len(values) == 1 else values, t)


def small(*shape: int, dtype: type = np.uint8, seed: int = 0) -> Array:
    return integers(*shape, dtype=dtype, seed=seed)


HALVES = np.concatenate([np.arange(-12, 12) / 2, [1e9, -1e9, np.inf, -np.inf, 1e-40, -0.0]]).astype(
    np.float32
)
QUANTIZE = [
    *(
        Row("QuantizeLinear", [HALVES, scale(1.0), zero(t, 3)], note=f"halves {np.dtype(t).name}")
        for t in TYPES
    ),
    *(
        Row("QuantizeLinear", [floats(2, 3, 4, scale=5), scale(0.1), zero(t, 7)], note=np.dtype(t).name)
        for t in TYPES
    ),
    *(
        Row(
            "QuantizeLinear", [floats(2, 3, 4), scale(0.1, 0.2, 0.3), zero(t, 1, 2, 3)], {"axis": a}, opset=13
        )
        for t in SHORT
        for a in (1, -2)
    ),
    Row("QuantizeLinear", [floats(2, 3, 4), scale(0.01)], note="no zero point"),
    Row("QuantizeLinear", [floats(2, 3, 4), scale(0.01), zero(np.uint8, 9)], opset=10),
    Row("QuantizeLinear", [floats(2, 3), scale(0.01)], {"output_dtype": 3}, note="output_dtype"),
    Row(
        "QuantizeLinear",
        [integers(9, dtype=np.int32, low=-900, high=900), scale(2.5), zero(np.int8, 1)],
        opset=19,
        oracle="reference",
        note="int32",
    ),
    Row("QuantizeLinear", [floats(), scale(0.01), zero(np.uint8, 9)], note="scalar"),
    Row(
        "QuantizeLinear", [floats(0, 3), scale(0.01), zero(np.uint8, 9)], oracle=[np.zeros((0, 3), np.uint8)]
    ),
    Row("QuantizeLinear", [floats(2, 3), scale(0.01), zero(np.int8, 9)], constant=[1, 2], note="constant"),
    Row(
        "QuantizeLinear",
        [floats(4, 6), np.abs(floats(4, 3, seed=1)) + 0.1, integers(4, 3, dtype=np.int8)],
        {"axis": 1, "block_size": 2},
        note="blocks",
    ),
    Row(
        "QuantizeLinear",
        [floats(5, 2), np.abs(floats(2, 2, seed=1)) + 0.1, integers(2, 2, dtype=np.uint8)],
        {"axis": 0, "block_size": 3},
        note="short last block",
    ),
    Row(
        "QuantizeLinear",
        [floats(9, dtype=np.float16), scale(0.125, dtype=np.float16), zero(np.int8, 1)],
        note="f16",
    ),
]
DEQUANTIZE = [
    *(Row("DequantizeLinear", [extremes(t), scale(0.1), zero(t, 7)], note=np.dtype(t).name) for t in TYPES),
    Row("DequantizeLinear", [extremes(np.int32), scale(0.1)], note="int32"),
    Row("DequantizeLinear", [extremes(np.uint8), scale(0.1)], note="no zero point"),
    Row("DequantizeLinear", [small(2, 3), scale(0.1), zero(np.uint8, 7)], opset=10),
    *(
        Row(
            "DequantizeLinear",
            [small(2, 3, 4, dtype=t), scale(0.1, 0.2, 0.3), zero(t, 1, 2, 3)],
            {"axis": a},
            opset=13,
        )
        for t in SHORT
        for a in (1, -2)
    ),
    Row("DequantizeLinear", [small(), scale(0.1), zero(np.uint8, 7)], note="scalar"),
    Row(
        "DequantizeLinear",
        [small(4, 6, dtype=np.int8), np.abs(floats(4, 3)), integers(4, 3, dtype=np.int8)],
        {"axis": 1, "block_size": 2},
        note="blocks",
    ),
    Row(
        "DequantizeLinear",
        [small(9, dtype=np.int8), scale(0.125, dtype=np.float16), zero(np.int8, 1)],
        note="f16",
    ),
    Row(
        "DequantizeLinear",
        [small(9, dtype=np.int8), scale(0.125, dtype=ml_dtypes.bfloat16), zero(np.int8, 1)],
        oracle=[((small(9, dtype=np.int8).astype(np.float32) - 1) * 0.125).astype(ml_dtypes.bfloat16)],
        note="bf16",
    ),
    Row(
        "DequantizeLinear",
        [small(9, dtype=np.int8), scale(0.125), zero(np.int8, 1)],
        {"output_dtype": onnx_type(np.zeros(1, np.float16))},
        opset=23,
        oracle="reference",
        note="output_dtype",
    ),
]
DYNAMIC = [
    Row("DynamicQuantizeLinear", [x], outputs=3, note=note)
    for x, note in [
        (floats(2, 3, 4), "both signs"),
        (np.abs(floats(2, 3)) + 1, "positive"),
        (-np.abs(floats(2, 3)) - 1, "negative"),
        (floats(64, seed=3, scale=100), "wide"),
        (np.zeros((2, 3), np.float32), "zeros"),
        (np.float32([[0.0, -0.0]] * 9), "zeros of both signs"),
        (np.full(5, 1e-37, np.float32), "a scale that is denormal"),
    ]
]
DYNAMIC += [
    Row("DynamicQuantizeLinear", [np.float32(x)], outputs=3, oracle=oracle, tolerance=0, note=note)
    for x, oracle, note in [
        ([0, 1e-45, -1e-45], [np.zeros(3, np.uint8), np.float32(1), np.uint8(0)], "too small a range"),
        ([1, np.nan, 2], [np.zeros(3, np.uint8), np.float32(np.nan), np.uint8(255)], "nan"),
        ([1, np.inf, 2], [np.zeros(3, np.uint8), np.float32(np.inf), np.uint8(0)], "infinite"),
        ([1, -np.inf, 2], [np.uint8([255, 0, 255]), np.float32(np.inf), np.uint8(255)], "infinite below 0"),
        ([-np.inf, np.inf], [np.zeros(2, np.uint8), np.float32(np.inf), np.uint8(255)], "infinite both ways"),
    ]
]


def qconv(x: type, w: type, shape: tuple[int, ...], channels: bool, bias: bool, **attributes: object) -> Row:
    """A quantised convolution of 4 (or 6) channels; per output channel where `channels`."""
    scales = scale(*(0.01, 0.02, 0.015, 0.03, 0.01, 0.02)[: shape[0]]) if channels else scale(0.012)
    zeros = zero(w, *[0] * shape[0]) if channels else zero(w, 0 if w is np.int8 else 131)
    spatial = (7, 6)[: len(shape) - 2]
    inputs = [small(2, 4, *spatial, dtype=x), scale(0.02), zero(x, 3), small(*shape, dtype=w, seed=1)]
    inputs += [scales, zeros, scale(0.9), zero(x, 7)]
    inputs += [integers(shape[0], dtype=np.int32, low=-999, high=999)] if bias else []
    constant = range(3, len(inputs)) if channels else ()
    note = f"{np.dtype(x).name} {np.dtype(w).name}{' channels' if channels else ''}"
    return Row("QLinearConv", inputs, attributes, constant=constant, note=note)


PADDED = {"pads": [1, 0, 1, 2]}
CONV = [
    *(
        qconv(x, w, (6, 4, 3, 3), c, b, **PADDED)
        for x, w in [(np.uint8, np.uint8), (np.uint8, np.int8)]
        for c in (False, True)
        for b in (False, True)
    ),
    qconv(np.int8, np.int8, (6, 4, 3, 3), True, True, **PADDED),
    qconv(np.uint8, np.int8, (4, 1, 3, 3), True, True, group=4, auto_pad="SAME_UPPER"),
    qconv(np.uint8, np.int8, (6, 2, 3, 2), True, True, group=2, strides=[2, 1], dilations=[1, 2]),
    qconv(np.uint8, np.uint8, (6, 4, 1, 1), False, False),
    qconv(np.uint8, np.int8, (6, 4, 3), True, True, pads=[2, 1]),
    *(
        Row("ConvInteger", [small(1, 2, 5, 5), small(3, 2, 3, 3, seed=1), *zeros], {"pads": [1, 1, 0, 1]})
        for zeros in ((), (zero(np.uint8, 9),), (zero(np.uint8, 9), zero(np.uint8, 5)))
    ),
    Row(
        "ConvInteger",
        [small(1, 2, 5), small(2, 1, 3, seed=1), zero(np.uint8, 9)],
        {"group": 2, "strides": [2]},
        oracle="reference",
    ),
    Row(
        "ConvInteger",
        [small(1, 2, 5, 5), small(3, 2, 3, 3, dtype=np.int8), zero(np.uint8, 9), zero(np.int8, 0)],
        oracle="reference",
        note="mixed signs",
    ),
]


def qmatmul(
    a: tuple[int, ...], b: tuple[int, ...], t: type, bt: type, bs: Array, bz: Array, **more: object
) -> Row:
    inputs = [small(*a, dtype=t), scale(0.02), zero(t, 5), small(*b, dtype=bt, seed=1), bs, bz]
    return Row("QLinearMatMul", [*inputs, scale(0.7), zero(t, 11)], **more)  # type: ignore[arg-type]


COLUMNS = (scale(0.01, 0.02, 0.03), zero(np.int8, 0, 0, 0))
MATMUL = [
    qmatmul((2, 4), (4, 3), np.uint8, np.uint8, scale(0.01), zero(np.uint8, 99), note="uint8"),
    qmatmul((2, 4), (4, 3), np.int8, np.int8, scale(0.01), zero(np.int8, -3), note="int8"),
    qmatmul((2, 4), (4, 3), np.uint8, np.int8, *COLUMNS, constant=[3, 4, 5], note="columns"),
    qmatmul((5, 2, 4), (4, 3), np.uint8, np.int8, scale(0.01), zero(np.int8, 1), note="batch"),
    qmatmul((5, 2, 4), (5, 4, 3), np.uint8, np.uint8, scale(0.01), zero(np.uint8, 1), note="batches"),
    qmatmul((2, 400), (400, 3), np.uint8, np.uint8, scale(0.001), zero(np.uint8, 127), note="long"),
    Row("MatMulInteger", [small(2, 4), small(4, 3, seed=1)]),
    Row("MatMulInteger", [small(2, 4), small(4, 3, seed=1), zero(np.uint8, 5), zero(np.uint8, 7)]),
    Row(
        "MatMulInteger",
        [small(2, 4), small(4, 3, dtype=np.int8), zero(np.uint8, 5), zero(np.int8, 1, -2, 3)],
        constant=[3],
    ),
    Row("MatMulInteger", [small(3, 2, 4), small(3, 4, 2, seed=1), zero(np.uint8, 5)], note="batches"),
    Row(
        "MatMulInteger",
        [small(2, 4), small(4, 3, seed=1), zero(np.uint8, 5, 9)],
        oracle=[(small(2, 4) - np.array([[5], [9]], np.int32)) @ small(4, 3, seed=1).astype(np.int32)],
        note="rows",
    ),
    Row("MatMulInteger", [small(2, 0), small(0, 3)], oracle=[np.zeros((2, 3), np.int32)], note="empty"),
]
ROWS = [*QUANTIZE, *DEQUANTIZE, *DYNAMIC, *CONV, *MATMUL]
