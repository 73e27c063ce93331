"""Rows of RNN, GRU and LSTM by matrices of bytes: results are those of floats like them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from tests.ops.recurrent import BOTH, DIRECTIONS, GATES, row
from tests.ops.rows import Array, Row, expected, model

TOLERANCES = {1: 0.03, 2: 1e-3, 3: 1e-5}  # by the parts of an operand


@dataclass(frozen=True)
class Floats:
    """What a row in floats gives."""

    of: Row

    def __iter__(self) -> Iterator[Array]:
        yield from expected(self.of, model(self.of))


def in_bytes(
    of: Row, levels: int = 255, parts: tuple[int, int] = (2, 2), most: int = 127, gain: float = 1
) -> Row:
    """The row with matrices, times `gain`, rounded to bytes up to `most`.

    Two parts of an operand lose next to nothing, three what floats lose.
    """
    inputs, scales = list(of.inputs), []
    whole = list(of.inputs)
    for n in (1, 2):
        w = of.inputs[n]
        assert w is not None
        scales.append(np.float32(np.abs(w).max() / most * gain))
        whole[n] = np.rint(w * gain / scales[-1]).astype(np.int8)
        inputs[n] = (whole[n] * scales[-1]).astype(np.float32)
    how = dict(zip(("w_scale", "r_scale", "levels"), (*map(float, scales), levels), strict=True))
    attributes = {**of.attributes, **how, "x_parts": parts[0], "h_parts": parts[1]}
    return replace(
        of,
        inputs=whole,
        attributes=attributes,
        domain="ingot",
        opset=1,
        oracle=Floats(replace(of, inputs=inputs)),
        tolerance=TOLERANCES[min(parts)] if parts[0] == parts[1] else TOLERANCES[1],
        note=f"bytes_{levels}_{parts[0]}{parts[1]}_{of.note}",
    )


def dequantised(of: Row, dtype: type[np.int8 | np.uint8], zero: int) -> Row:
    """The row with an x that is bytes about a zero point."""
    x, *others = of.inputs
    assert x is not None and isinstance(of.oracle, Floats)
    scale, info = np.float32(0.02), np.iinfo(dtype)
    q = np.clip(np.rint(x / scale) + zero, info.min, info.max).astype(dtype)
    floats = (q.astype(np.float32) - zero) * scale
    same = replace(of.oracle.of, inputs=[floats, *of.oracle.of.inputs[1:]])
    return replace(
        of,
        inputs=[q, *others],
        attributes={**of.attributes, "x_scale": float(scale), "x_zero": zero},
        oracle=Floats(same),
        note=f"x_{info.dtype}_{of.note}",
    )


def rows(op: str) -> Iterator[Row]:
    for d in DIRECTIONS:
        yield in_bytes(row(op, f"{d}_lengths", attributes={"direction": d}, lengths=[5, 2, 4]))
        yield in_bytes(row(op, f"{d}_plain", attributes={"direction": d}, bias=False, states=False, batch=1))
    yield in_bytes(row(op, "clip", attributes={"direction": BOTH, "clip": 0.4}), 127, most=64)
    for hidden in (33, 40):
        weights = row(
            op, f"units{hidden}", hidden=hidden, width=70, steps=3, batch=hidden % 4 + 1, constant=(1, 2, 3)
        )
        for parts in ((1, 1), (2, 1), (2, 2), (3, 3)):
            yield in_bytes(weights, parts=parts, gain=0.2)
        yield dequantised(in_bytes(weights, parts=(3, 3), gain=0.2), np.int8, -3)
        yield dequantised(in_bytes(weights, parts=(3, 3), gain=0.2), np.uint8, 117)
        yield in_bytes(weights, 127, (2, 1), 64, 0.2)


ROWS = [
    *(r for op in GATES for r in rows(op)),
    in_bytes(row("LSTM", "peepholes", peepholes=True, attributes={"input_forget": 0})),
    in_bytes(row("GRU", "linear", attributes={"linear_before_reset": 1, "direction": BOTH})),
    in_bytes(row("RNN", "relu", attributes={"activations": ["Relu"]})),
]
