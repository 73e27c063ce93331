"""Rows of the operators that `passes.byte_activations` puts in front of products: bytes, and their rest."""

from __future__ import annotations

import numpy as np

from ingot.ops.operand import LARGEST, fine
from tests.ops.rows import Array, Row, floats

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


ROWS = [row for note, x in kinds().items() for levels in (255, 127) for row in operand(x, levels, note)]
