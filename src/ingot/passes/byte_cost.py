"""What a product with encoded weights costs in bytes and in floats, where the target picks bytes out of
registers: entries, rows in lanes.

In: the sizes of the product, and the target. Out: estimated cycles, or why bytes are not faster. Asked by
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
TAP = 80  # cycles of gathering what a tap of a window reads
REST = 6  # cycles of an element of an image whose rest is quantised
FAST = {64: 3.0, 32: 1.7, 16: 3.0}  # times that Winograd's form is faster, by the bytes of a vector
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


@dataclass(frozen=True, slots=True)
class Image:
    """What a convolution reads: so many elements, in windows of so many taps (1: they are not gathered).

    `is_fast`: floats have Winograd's form.
    """

    elements: int
    taps: int
    is_fast: bool


def slower(s: Sizes, target: Target, is_rectified: bool) -> str:
    """Why bytes are no faster; "" where they are estimated to be."""
    return _compared(s, target, in_bytes(s, target) * _parts(is_rectified), in_floats(s, target))


def convolution_slower(s: Sizes, image: Image, target: Target, is_rectified: bool) -> str:
    """The same of a convolution: its image is quantised and its windows are gathered."""
    gathered = s.points * image.taps * TAP if image.taps > 1 else 0
    product = s.points * _point(s, target) + gathered
    rest = 0 if is_rectified else product + image.elements * REST
    floats = in_floats(s, target, FAST[target.vector_bytes] if image.is_fast else 1)
    return _compared(s, target, product + image.elements * QUANTISING + rest, floats)


def _parts(is_rectified: bool) -> float:
    return 1 if is_rectified else BOTH_SIGNS


def _compared(s: Sizes, target: Target, cycles: float, floats: float) -> str:
    """Why bytes of so many cycles are not taken."""
    if cycles < floats:
        return ""
    if s.values > (most := _most_values(target)):
        return (
            f"its weights have {s.values} values, and registers of {target.name} pick among {most}: "
            f"`ingot compress --bits {most.bit_length() - 1}` gives no more"
        )
    if s.terms < _window(target):
        return f"it adds {s.terms} terms, a step of bytes sees {_window(target)}"
    return f"bytes are estimated to be slower: {cycles:,.0f} cycles, floats {floats:,.0f}"


def entries_slower(s: Sizes, largest: int, target: Target) -> str:
    """Why entries of bytes, none of them beyond `largest`, are no faster than all elements of their matrix;
    "" where they are. Nothing is quantised.
    """
    instructions = target.instructions.get(("dot4", "uint8"), 1)
    if target.spelling("dot4", "uint8") is None and 2 * 255 * largest >= 1 << 15:
        return f"sums of two products have 16 bits on {target.name}, and weights go up to {largest}"
    if s.values > (most := _most_values(target)):
        return f"its weights have {s.values} values, and registers of {target.name} pick among {most}"
    if s.terms < _window(target):
        return f"it adds {s.terms} terms, a step of entries sees {_window(target)}"
    held = int(_steps(s, target, True) * target.lanes(4) * BYTE_SLOTS * SLOT_BYTES)
    entries = max(s.points * _point(s, target), held / stream(held, target, False))
    size, blocks = s.terms * s.outputs, -(-s.outputs // target.lanes(4))
    elements = max(s.points * blocks * s.terms / 8 * instructions, size / stream(size, target, False))
    if entries < elements:
        return ""
    return f"entries are estimated to be slower: {entries:,.0f} cycles, all elements {elements:,.0f}"


def in_bytes(s: Sizes, target: Target, parts: int = 1) -> float:
    """Cycles, quantising the operand in so many parts; no end where registers have no room for the values."""
    point = s.terms * QUANTISING + _point(s, target)
    size = int(_steps(s, target, True) * target.lanes(4) * BYTE_SLOTS * SLOT_BYTES)
    return max(s.points * parts * point, size / stream(size, target, False))


def in_floats(s: Sizes, target: Target, gain: float = 1) -> float:
    """Cycles of all elements, or of the entries where floats are picked out of registers.

    `gain`: how many times faster all elements are than two multiply-adds of vectors a cycle.
    """
    size, blocks = 4 * s.terms * s.outputs, -(-s.outputs // target.lanes(4))
    dense = max(s.points * blocks * s.terms / 2 / gain, size / stream(size, target, False))
    if target.spelling("pick16", "float32") is None:
        return dense
    return min(dense, s.points * STEP[target.vector_bytes] * _steps(s, target, False))


def _point(s: Sizes, target: Target) -> float:
    """Cycles of a point whose operand is bytes."""
    if s.terms < _window(target) or s.values > _most_values(target):
        return inf
    return -(-s.outputs // target.lanes(4)) * POINT + STEP[target.vector_bytes] * _steps(s, target, True)


def _most_values(target: Target) -> int:
    """Values of weights among which registers pick."""
    return 32 if target.spelling("pick32", "int8") else 16


def _window(target: Target) -> int:
    """Bytes of the operand that a step sees."""
    return 128 if target.spelling("pick128", "uint8") else 32


def _steps(s: Sizes, target: Target, are_bytes: bool) -> float:
    """Steps of one point: some slots stay empty where rows wait for each other."""
    lanes = target.lanes(4)
    window, slots = (_window(target), BYTE_SLOTS) if are_bytes else (2 * lanes, FLOAT_SLOTS)
    seen = window * s.kept / max(s.terms * s.outputs, 1)
    return s.kept / lanes / slots * (seen + 0.6 + 0.35 * slots) / max(seen, 1e-9)
