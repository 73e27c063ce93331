"""Rows of products with weights packed in blocks."""

from dataclasses import replace
from typing import Any

import numpy as np

from tests.ops.rows import Array, Row, floats, integers

DOMAIN: dict[str, Any] = {"domain": "com.microsoft", "opset": 1}


def packed(
    bits: int, inner: int, zeros: str, columns: int = 6, *, block: int = 16, rows: Any = (3,), **more: Any
) -> Row:
    """A row of MatMulNBits; `zeros` says how its zero points are given."""
    blocks = -(-inner // block)
    b = integers(columns, blocks, block * bits // 8, dtype=np.uint8)
    scales = np.abs(floats(columns, blocks, seed=1, scale=0.1))
    zero: Array | None = None
    if zeros == "packed":
        zero = integers(columns, -(-blocks * bits // 8), dtype=np.uint8, seed=2)
    elif zeros == "floats":
        zero = floats(columns, blocks, seed=2, scale=3)
    inputs = [floats(*rows, inner), b, scales, zero]
    if more.pop("bias", False):
        inputs += [None, floats(columns, seed=3)]
    fixed = () if more.pop("late", False) else (1, 2, 3, 5)
    how = {"K": inner, "N": columns, "bits": bits, "block_size": block, **more}
    constant = tuple(i for i in fixed if i < len(inputs))
    note = f"{columns}_{zeros}_{'bias' if len(inputs) > 4 else ''}_{'late' if not fixed else ''}"
    while inputs[-1] is None:
        inputs.pop()
    constant = tuple(i for i in constant if i < len(inputs))
    return Row("MatMulNBits", inputs, how, constant=constant, note=note, **DOMAIN)


def allowed(level: int) -> Row:
    """A row whose activations may be rounded; numpy's exact answer, as onnxruntime rounds them to int8."""
    row = packed(4, 64, "none", block=32, accuracy_level=level)
    a, b, scales = row.inputs
    assert a is not None and b is not None and scales is not None
    codes = np.stack([b & 15, b >> 4], -1).reshape(*scales.shape, 32).astype(np.float64) - 8
    y = a @ (codes * scales[..., None]).reshape(len(b), -1).T
    return replace(row, oracle=[y.astype(np.float32)])


ROWS = [
    packed(4, 64, "none"),
    allowed(1),
    allowed(4),
    packed(4, 48, "packed"),
    packed(4, 40, "packed", rows=(2, 3)),
    packed(4, 64, "floats", block=32),
    packed(4, 32, "none", bias=True, rows=(1, 1)),
    packed(4, 48, "packed", late=True),
    packed(8, 64, "none", block=32),
    packed(8, 48, "packed", bias=True),
    packed(2, 64, "packed"),
    packed(4, 160, "none", 200, block=32, rows=(1,)),
    packed(4, 100, "packed", 37, rows=(5,)),
    packed(4, 76, "none", 70, block=128, rows=(7,), bias=True),
    packed(4, 82, "floats", 33, block=64),
    packed(8, 82, "packed", 33, block=64),
    packed(2, 77, "none", 130, rows=(2, 9)),
    packed(4, 96, "packed", 72, rows=(1,), late=True),
]
