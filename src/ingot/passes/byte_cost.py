"""Whether a product with encoded weights is faster in bytes than in floats: entries, rows in lanes.

In: the sizes of the product, and the target. Out: a yes or no, by estimated cycles. Asked by
`byte_activations` where the target picks bytes out of registers; elsewhere bytes need less memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from ingot.targets.record import Target

QUANTISING = 0.8  # cycles of an element of the operand
POINT = 60  # cycles of a block of rows around its steps
STEP = {64: 5.0, 32: 7.0, 16: 7.0}  # cycles of one, by the bytes of a vector
BOTH_SIGNS = 1.5  # of activations that may need their rest: some do
FLOAT_SLOTS, BYTE_SLOTS = 2, 8  # entries of a row in a step


@dataclass(frozen=True, slots=True)
class Sizes:
    """A product of `points` rows by a matrix of which `kept` elements are not zero, of so many `values`."""

    points: int
    terms: int
    outputs: int
    kept: int
    values: int


def pays(s: Sizes, target: Target, is_rectified: bool) -> bool:
    """Whether bytes are estimated to be faster; never where registers have no room for the values."""
    window = 128 if target.spelling("pick128", "uint8") else 32
    most = 32 if target.spelling("pick32", "int8") else 16
    if s.terms < window or s.values > most:
        return False
    if s.points == 1:  # memory decides: bytes are fewer
        return True
    lanes = target.lanes(4)
    blocks, step = -(-s.outputs // lanes), STEP[target.vector_bytes]
    in_bytes = s.terms * QUANTISING + blocks * POINT + step * _steps(s, lanes, window, BYTE_SLOTS)
    dense = blocks * s.terms / 2
    has_look_up = target.spelling("pick16", "float32") is not None
    entries = step * _steps(s, lanes, 2 * lanes, FLOAT_SLOTS) if has_look_up else dense
    return in_bytes * (1 if is_rectified else BOTH_SIGNS) < min(dense, entries)


def _steps(s: Sizes, lanes: int, window: int, slots: int) -> float:
    """Steps of one point: some slots stay empty where rows wait for each other."""
    seen = window * s.kept / max(s.terms * s.outputs, 1)
    return s.kept / lanes / slots * (seen + 0.6 + 0.35 * slots) / max(seen, 1e-9)
