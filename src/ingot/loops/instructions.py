"""What each instruction means that a target may spell: the evaluator runs these, tests check spellings.

`accumulator` has lanes [..., n], integers of 32 bits that wrap. An operand of k elements per lane has lanes
[..., k * n], element k*i + j belonging to lane i; one of just k elements serves every lane. The printer's
portable spelling is in `emit/helpers.py`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ingot.formula.expr import Array

Meaning = Callable[[Array, Array, Array], Array]


def _dot(k: int) -> Meaning:
    def meaning(accumulator: Array, a: Array, b: Array) -> Array:
        wide = [np.asarray(v).astype(np.int32) for v in (a, b)]
        x, y = (v.reshape(*v.shape[:-1], v.shape[-1] // k, k) for v in wide)
        return np.asarray(accumulator + np.sum(x * y, axis=-1, dtype=np.int32))

    return meaning


def _dot_saturating(accumulator: Array, a: Array, b: Array) -> Array:
    wide = (np.asarray(v).astype(np.int32) for v in (a, b))
    x, y = (v.reshape(*v.shape[:-1], v.shape[-1] // 4, 2, 2) for v in wide)
    pairs = np.sum(x * y, axis=-1, dtype=np.int32)
    return np.asarray(accumulator + np.clip(pairs, -32768, 32767).sum(-1, dtype=np.int32))


def _madd16(accumulator: Array, a: Array, b: Array) -> Array:
    x, y = (np.asarray(v).astype(np.int16).astype(np.int32) for v in (a, b))
    return np.asarray(accumulator + x * y)[()]


GROUP = {"madd16": 1, "dot2": 2, "dot4": 4, "dot4s": 4, "dot16": 16}
"""Elements of an operand that go into one lane."""

GROUP_BYTES = 16
"""What instruction sets shuffle and pack freely; wider vectors are several such groups."""


def packed_lanes(lanes: int, group: int) -> tuple[int, ...]:
    """Which of the lanes of two registers in a row stand where as they are packed in one: by turns a group of
    the first, and of the second.
    """
    half = lanes // 2
    return tuple(i for lo in range(0, half, group) for x in (lo, half + lo) for i in range(x, x + group))


INSTRUCTIONS: dict[str, Meaning] = {
    "madd16": _madd16,
    "dot2": _dot(2),
    "dot4": _dot(4),
    "dot4s": _dot_saturating,
    "dot16": _dot(16),
}
"""madd16: c + a * b, of the low 16 bits of two int32, signed; dot2: c[i] + the sum of two products of int16;
dot4: of four products of int8 or uint8, not saturated; dot4s: the same, where two and two products are summed
in int16, saturated; dot16: of sixteen products of int8.
"""
