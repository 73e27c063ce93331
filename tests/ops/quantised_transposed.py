"""Rows of the operators that `passes.integer_layers` makes of transposed convolutions of bytes."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.rows import Array, Row, expected, integers, model

ZERO = 9


def sums(x: Array, w: Array, **attributes: Any) -> Array:
    """Whole numbers, which ConvTranspose adds in floats without rounding any."""
    floats = [x.astype(np.float32) - ZERO, w.astype(np.float32)]
    row = Row("ConvTranspose", floats, attributes)
    return expected(row, model(row))[0].astype(np.int32)


def rows(x: Array, w: Array, note: str, **attributes: Any) -> list[Row]:
    """The sums of one convolution, and bytes made of them."""
    zero, whole = np.array(ZERO, x.dtype), sums(x, w, **attributes)
    features = whole.shape[1]
    x_scale, y_scale = np.array(0.25, np.float32), np.array(32, np.float32)
    scales = (0.5 + np.arange(features) % 3).astype(np.float32)
    bias = integers(features, dtype=np.int32, low=-900, high=900, seed=3)
    along = (-1, *(1,) * (whole.ndim - 2))
    scaled = (whole + bias.reshape(along)).astype(np.float32) * (x_scale * scales / y_scale).reshape(along)
    ends = np.iinfo(x.dtype)
    y = np.clip(np.round(scaled) + 7, ends.min, ends.max).astype(x.dtype)
    first = Row(
        "ConvTransposeInteger", [x, w, zero], attributes, (1, 2), 1, 1, "ingot", [whole], note=f"{note} sums"
    )
    operands = [x, x_scale, zero, w, scales, y_scale, np.array(7, x.dtype), bias]
    constant = (1, 2, 3, 4, 5, 6, 7)
    return [
        first,
        Row("QLinearConvTranspose", operands, attributes, constant, 1, 1, "ingot", [y], note=f"{note} bytes"),
    ]


def image(*shape: int, dtype: Any = np.uint8) -> Array:
    return integers(*shape, dtype=dtype)


def weights(*shape: int) -> Array:
    return integers(*shape, dtype=np.int8, low=-127, seed=1, high=128)


ROWS = [
    *rows(image(1, 4, 3, 5), weights(4, 3, 3, 2), "phases", strides=[2, 2], pads=[1, 0, 1, 1]),
    *rows(image(2, 3, 6, dtype=np.int8), weights(3, 2, 4), "signal", strides=[3], output_padding=[1]),
    *rows(image(1, 4, 3, 3), weights(4, 1, 3, 3), "groups", group=4, strides=[2, 1]),
    *rows(image(1, 2, 3, 3), weights(2, 2, 2, 2), "gaps", strides=[3, 3], dilations=[2, 1]),
]
