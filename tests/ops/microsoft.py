"""Rows of the operators of com.microsoft. Integers are compared exactly, with onnxruntime."""

from typing import Any

import numpy as np

from tests.ops.rows import Array, Row, floats, integers

DOMAIN: dict[str, Any] = {"domain": "com.microsoft", "opset": 1}


def scale(value: float, *more: float) -> Array:
    return np.array([value, *more] if more else value, np.float32)


def mapped(op: str, kind: Any, zero: int, *shape: int, **attributes: Any) -> Row:
    """A row of what maps integers by a function of the numbers they mean."""
    x, z = integers(*shape, dtype=kind), np.array(zero, kind)
    inputs = [x, scale(0.07), z, scale(0.008), np.array(-zero if kind is np.int8 else zero, kind)]
    return Row(op, inputs, attributes, constant=(1, 2, 3, 4), note=np.dtype(kind).name, **DOMAIN)


def gemm(
    kind: Any, weights: Any, columns: int, late: bool = False, bias: tuple[int, ...] = (5,), **attributes: Any
) -> Row:
    """A row of QGemm: zero points, a bias, a scale per column where there are several."""
    m, k, n = 4, 9, 5
    a = integers(*((k, m) if attributes.get("transA") else (m, k)), dtype=kind)
    shape = (n, k) if attributes.get("transB") else (k, n)
    lowest = 0 if weights is np.uint8 else -64  # small: onnxruntime saturates
    b = integers(*shape, dtype=weights, seed=1, low=lowest, high=64)
    scales, zeros = scale(*[0.01 + 0.002 * j for j in range(columns)]), np.zeros(columns, weights)
    zero = np.array(3, kind)
    inputs = [a, scale(0.02), zero, b, scales, zeros if columns > 1 else np.array(2, weights)]
    inputs += [integers(*bias, dtype=np.int32, low=-900, high=900), scale(0.9), np.array(7, kind)]
    fixed = () if late else (1, 2, 3, 4, 5, 6, 7, 8)
    note = f"{np.dtype(kind).name}_{columns}_{'x'.join(map(str, bias))}"
    return Row("QGemm", inputs, attributes, constant=fixed, note=note, **DOMAIN)


def parts(kind: Any, axis: int) -> Row:
    """A row of QLinearConcat: three parts, each with a scale of its own."""
    inputs = [scale(0.05), np.array(4, kind)]
    for j, n in enumerate((1, 3, 2)):
        shape = (2, n, 4) if axis in (1, -2) else (n, 2, 4)
        inputs += [integers(*shape, dtype=kind, seed=j), scale(0.03 + 0.01 * j), np.array(j, kind)]
    fixed = [i for i in range(len(inputs)) if i < 2 or i % 3 != 2]
    return Row("QLinearConcat", inputs, {"axis": axis}, constant=fixed, note=np.dtype(kind).name, **DOMAIN)


def pooled(op: str, kind: Any, *shape: int, **attributes: Any) -> Row:
    """A row of a quantised pool, over an image of this shape."""
    inputs = [
        integers(*shape, dtype=kind),
        scale(0.07),
        np.array(9, kind),
        scale(0.03),
        np.array(-4 % 128, kind),
    ]
    return Row(op, inputs, attributes, constant=(1, 2, 3, 4), note=np.dtype(kind).name, **DOMAIN)


def soft(kind: Any, opset: int, axis: int) -> Row:
    """A row of QLinearSoftmax, whose sums onnxruntime rounds: the definition's own answer, off by no step."""
    x, zero = integers(3, 5, 4, dtype=kind), 100 if kind is np.uint8 else -3
    numbers = (x.astype(np.float32) - zero) * np.float32(0.02)
    over = axis % 3 if opset >= 13 else tuple(range(axis % 3, 3))
    e = np.exp(numbers.astype(np.float64))
    lowest, low, high = (-128, -128, 127) if kind is np.int8 else (0, 0, 255)
    y = np.clip(np.rint(e / e.sum(over, keepdims=True) * 256) + lowest, low, high).astype(kind)
    inputs = [x, scale(0.02), np.array(zero, kind), scale(1 / 256), np.array(lowest, kind)]
    how = {"axis": axis, "opset": opset}
    return Row(
        "QLinearSoftmax", inputs, how, constant=(1, 2, 3, 4), oracle=[y], note=np.dtype(kind).name, **DOMAIN
    )


def chosen(kind: Any) -> Row:
    """A row of QLinearWhere: both sides have another scale."""
    inputs = [
        integers(3, 1, dtype=np.uint8) > 100,
        *(integers(3, 7, dtype=kind), scale(0.02), np.array(3, kind)),
        *(integers(1, 7, dtype=kind, seed=1), scale(0.05), np.array(9, kind)),
        *(scale(0.04), np.array(1, kind)),
    ]
    fixed = (2, 3, 5, 6, 7, 8)
    return Row("QLinearWhere", inputs, constant=fixed, note=np.dtype(kind).name, **DOMAIN)


QUANTISED = [
    *(
        pooled("QLinearGlobalAveragePool", kind, *shape, channels_last=last)
        for kind in (np.uint8, np.int8)
        for shape, last in (((2, 5, 7, 6), 0), ((2, 5, 7, 6), 1))
    ),
    pooled(
        "QLinearAveragePool", np.uint8, 2, 5, 7, 6, kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1]
    ),
    pooled("QLinearAveragePool", np.int8, 1, 3, 8, 8, kernel_shape=[2, 2], strides=[2, 2]),
    pooled(
        "QLinearAveragePool",
        np.uint8,
        1,
        7,
        8,
        3,
        kernel_shape=[3, 3],
        pads=[1] * 4,
        count_include_pad=1,
        channels_last=1,
    ),
    pooled(  # the last window goes beyond the image: it is divided by all of its elements all the same
        "QLinearAveragePool",
        np.int8,
        *(1, 3, 5, 8),
        kernel_shape=[2, 3],
        strides=[2, 1],
        ceil_mode=1,
        count_include_pad=1,
    ),
    *(
        soft(kind, opset, axis)
        for kind in (np.uint8, np.int8)
        for opset, axis in ((13, -1), (13, 1), (11, 1))
    ),
    *(chosen(kind) for kind in (np.uint8, np.int8)),
    *(
        mapped(op, kind, 5, *shape)
        for op in ("QLinearSigmoid", "QLinearLeakyRelu")
        for kind in (np.uint8, np.int8)
        for shape in ((3, 17), (), (0, 2))
    ),
    mapped("QLinearLeakyRelu", np.uint8, 100, 40, alpha=0.3),
    Row(
        "QLinearSigmoid",
        [np.array([0, 50, 255], np.uint8), scale(0.02), None, scale(0.01)],
        oracle=[np.array([50, 73, 99], np.uint8)],  # onnxruntime aborts without a zero point
        **DOMAIN,
    ),
    *(parts(kind, axis) for kind in (np.uint8, np.int8) for axis in (0, 1, -2)),
    gemm(np.uint8, np.uint8, 1),
    gemm(np.uint8, np.int8, 5, transB=1),
    gemm(np.int8, np.int8, 1, transA=1, alpha=0.5),
    gemm(np.uint8, np.int8, 1, late=True),
    *(gemm(np.int8, np.int8, 1, bias=shape) for shape in ((4, 1), (4, 5), (1, 5), (1,))),
]
FUSED = [
    Row("QuickGelu", [floats(3, 7)], **DOMAIN),
    Row("QuickGelu", [floats(3, 7)], {"alpha": 1.0}, note="silu", **DOMAIN),
    Row("BiasGelu", [floats(2, 3, 8), floats(8, seed=1)], **DOMAIN),
]
ROWS = (
    [
        *QUANTISED,
        *FUSED,
    ]
    + [
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
    ]
    + [
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
    + [
        Row(
            "QLinearMul",
            [
                np.arange(-128, 128, dtype=np.int8),
                np.array(0.5, np.float32),
                np.array(3, np.int8),
                np.full(256, 6, np.int8),
                np.array(0.25, np.float32),
                np.array(5, np.int8),
                np.array(0.25, np.float32),
                np.array(7, np.int8),
            ],
            note="QLinearMul: halves beside an odd zero point",
            constant=(1, 2, 4, 5, 6, 7),
            **DOMAIN,
        )
    ]
)
