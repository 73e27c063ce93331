"""What a product with encoded weights costs in bytes and in floats, where the target picks bytes out of
registers: entries, rows in lanes.

In: the sizes of the product, and the target. Out: estimated cycles, or whether bytes are faster. Asked by
`byte_activations`; elsewhere bytes need less memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from ingot.targets.record import Target
from ingot.targets.stream import stream

QUANTISING = 1.4  # cycles of an element of the operand, each time
POINT = 10  # cycles of a block of rows around its steps
STEP = {64: 5.0, 32: 7.0, 16: 11.0}  # cycles of one, by the bytes of a vector
BOTH_SIGNS = 1.9  # times the cycles where activations need their rest
FLOAT_SLOTS, BYTE_SLOTS = 2, 8  # entries of a row in a step
SLOT_BYTES = 1.5  # of an entry in bytes


@dataclass(frozen=True, slots=True)
class Sizes:
    """A product of `points` rows by a matrix of which `kept` elements are not zero, of so many `values`."""

    points: int
    terms: int
    outputs: int
    kept: int
    values: int


def pays(s: Sizes, target: Target, is_rectified: bool) -> bool:
    """Whether bytes are estimated to be faster."""
    return in_bytes(s, target) * (1 if is_rectified else BOTH_SIGNS) < in_floats(s, target)


def in_bytes(s: Sizes, target: Target, parts: int = 1) -> float:
    """Cycles, quantising the operand in so many parts; no end where registers have no room for the values."""
    window = 128 if target.spelling("pick128", "uint8") else 32
    most = 32 if target.spelling("pick32", "int8") else 16
    if s.terms < window or s.values > most:
        return inf
    lanes = target.lanes(4)
    steps, blocks = _steps(s, lanes, window, BYTE_SLOTS), -(-s.outputs // lanes)
    point = s.terms * QUANTISING + blocks * POINT + STEP[target.vector_bytes] * steps
    size = int(steps * lanes * BYTE_SLOTS * SLOT_BYTES)
    return max(s.points * parts * point, size / stream(size, target, False))


def in_floats(s: Sizes, target: Target) -> float:
    """Cycles of all elements, or of the entries where floats are picked out of registers."""
    lanes = target.lanes(4)
    size = 4 * s.terms * s.outputs
    dense = max(s.points * -(-s.outputs // lanes) * s.terms / 2, size / stream(size, target, False))
    if target.spelling("pick16", "float32") is None:
        return dense
    return min(dense, s.points * STEP[target.vector_bytes] * _steps(s, lanes, 2 * lanes, FLOAT_SLOTS))


def _steps(s: Sizes, lanes: int, window: int, slots: int) -> float:
    """Steps of one point: some slots stay empty where rows wait for each other."""
    seen = window * s.kept / max(s.terms * s.outputs, 1)
    return s.kept / lanes / slots * (seen + 0.6 + 0.35 * slots) / max(seen, 1e-9)
