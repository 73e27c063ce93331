"""Rows of the operators that `passes.byte_activations` makes of operands: bytes, their rest, windows."""

from __future__ import annotations

from typing import Any

import numpy as np

from ingot.ops.operand import LARGEST, fine
from tests.ops.rows import Array, Row, expected, floats, integers, model

ALLOWED = np.array([6e-5, 2e-5], np.float32)  # of one sign, of both: |lost|^2 / |x|^2


def quantised(x: Array, levels: int) -> list[Array]:
    """What QuantizeOperand says of x: bytes, steps in 1, a step, the byte of 0, whether too much is lost."""
    low, high = min(x.min(initial=0), 0), max(x.max(initial=0), 0)
    large, small = max(high, -low), min(high, -low)
    few = np.ceil(levels * (small / large) / (small / large + 1)) if large > 0 else 0.0
    inverse = np.float32(min((levels - few) / large if large > 0 else np.inf, LARGEST))
    zero = levels - few if high < -low else few
    steps = x.astype(np.float64) * inverse
    left = steps - np.rint(steps)
    coarse = (steps**2).sum() * ALLOWED[1 if low < 0 else 0] < (left**2).sum()
    q = np.clip(np.rint(steps) + zero, 0, levels).astype(np.uint8)
    return [q, inverse, np.float32(1 / inverse), np.uint8(zero), np.bool_(coarse)]


def rest(x: Array, q: Array, zero: Array, inverse: Array, levels: int) -> list[Array]:
    """What QuantizeRest says: what x is more than q, in steps `fine(levels)` times as small."""
    middle = (levels + 1) // 2
    left = (x.astype(np.float64) * inverse - (q.astype(np.float64) - zero)) * fine(levels)
    return [np.clip(np.rint(left) + middle, 0, levels).astype(np.uint8), np.uint8(middle)]


def operand(x: Array, levels: int, note: str) -> list[Row]:
    made, attributes = quantised(x, levels), {"levels": levels}
    q, inverse, _, zero, _ = made
    first = Row("QuantizeOperand", [x, ALLOWED], attributes, (), 5, 1, "ingot", made, note=note)
    left = rest(x, q, zero, inverse, levels)
    second = Row("QuantizeRest", [x, q, zero, inverse], attributes, (), 2, 1, "ingot", left, note=note)
    return [first, second]


def kinds() -> dict[str, Array]:
    two = np.where(floats(3, 7, seed=2) > 0, 1, -1).astype(np.float32)
    return {
        "normal": floats(5, 9, seed=1),
        "rectified": np.maximum(floats(40, seed=3), 0),
        "negative": -np.abs(floats(2, 3, 4, seed=4)) - np.float32(0.25),
        "two": two,
        "zeros": np.zeros((2, 2), np.float32),
        "nothing": np.zeros((0, 3), np.float32),
        "far": np.array([3e38, -3e38, 1e38], np.float32),
        "one": np.array([-0.75], np.float32),
    }


def windows(shape: tuple[int, int, int, int], note: str, **attributes: Any) -> Row:
    """What each window of an image of bytes holds, 7 outside: found by a convolution that picks one tap."""
    x = integers(*shape, seed=1, dtype=np.uint8, low=8, high=256)
    channels, kernel = shape[-1], attributes["kernel_shape"]
    taps = [np.zeros((channels, *kernel), np.float32) for _ in range(int(np.prod(kernel)))]
    for n, tap in enumerate(taps):
        tap[:].reshape(channels, -1)[:, n] = 1
    given = {k: v for k, v in attributes.items() if k != "kernel_shape"}
    found = []
    for tap in taps:
        image = np.ascontiguousarray(x.transpose(0, 3, 1, 2)).astype(np.float32) - 7
        one = Row("Conv", [image, tap[:, None]], {"group": channels, **given}, constant=(1,))
        found.append(expected(one, model(one))[0].transpose(0, 2, 3, 1) + 7)
    y = np.stack(found, 3).reshape(*found[0].shape[:3], *kernel, channels).astype(np.uint8)
    return Row("Patches", [x, np.uint8(7)], attributes, (), 1, 1, "ingot", [y], note=note)


ROWS = [row for note, x in kinds().items() for levels in (255, 127) for row in operand(x, levels, note)]
ROWS += [
    windows((2, 5, 4, 3), "padded", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
    windows((1, 6, 7, 5), "strides", kernel_shape=[3, 2], strides=[2, 3], pads=[0, 1, 1, 0]),
    windows((1, 7, 7, 2), "dilated", kernel_shape=[2, 2], dilations=[2, 3]),
    windows((1, 5, 5, 40), "same", kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_UPPER"),
    windows((1, 4, 4, 3), "points", kernel_shape=[1, 1], strides=[2, 2]),
]
