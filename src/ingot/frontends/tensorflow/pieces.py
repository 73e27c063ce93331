"""Partitioned variables: which piece of one a node of the graph holds, and under which keys the pieces of one
lie in a checkpoint.

In: a saver's words for a piece, or the extents of one. Out: where it lies, as ranges of indices. A saver
writes `300 7 0,100:-`: of a 300x7 variable the first 100 rows. A checkpoint's keys of pieces are the name and
the ranges in a code whose bytes sort as the numbers do (TensorFlow's ordered_code).
"""

from __future__ import annotations

from collections.abc import Sequence

from ingot.errors import ModelError

WHOLE = -1
"""The length of a range that takes all of an axis."""

Range = tuple[int, int]
"""Start and length."""


def parse_piece(text: str, what: str) -> tuple[Range, ...]:
    """The ranges of a piece, none for a whole variable. Raises ModelError, in which `what` is named."""
    if not text:
        return ()
    *shape, ranges = text.split(" ")
    try:
        found = tuple(_parse_range(word) for word in ranges.split(":"))
    except ValueError:
        found = ()
    if not found or len(found) != len(shape):
        raise ModelError(f"{what}: the piece {text!r} should be a shape and a range for each of its axes")
    return found


def _parse_range(word: str) -> Range:
    if word == "-":
        return 0, WHOLE
    start, length = map(int, word.split(","))
    if start < 0 or length < 0:
        raise ValueError
    return start, length


def slices(ranges: Sequence[Range], shape: Sequence[int], what: str) -> tuple[slice, ...]:
    """The ranges as indices of an array. Raises ModelError where they leave it."""
    whole = [(s, d - s if n == WHOLE else n) for (s, n), d in zip(ranges, shape, strict=False)]
    if len(ranges) != len(shape) or any(s + n > d for (s, n), d in zip(whole, shape, strict=True)):
        raise ModelError(f"{what}: the piece {list(ranges)} does not lie in the shape {list(shape)}")
    return tuple(slice(s, s + n) for s, n in whole)


def piece_key(name: str, ranges: Sequence[Range]) -> bytes:
    """The key of a piece in the checkpoint's table."""
    escaped = name.encode().replace(b"\0", b"\0\xff")  # UTF-8 holds no 0xff, which would be escaped too
    numbers = b"".join(_signed(number) for one in ranges for number in one)
    return _unsigned(0) + escaped + b"\0\1" + _unsigned(len(ranges)) + numbers


def _unsigned(value: int) -> bytes:
    """A byte that says how many follow, then the number without leading zeros."""
    size = (value.bit_length() + 7) // 8
    return bytes([size]) + value.to_bytes(size, "big")


def _signed(value: int) -> bytes:
    """As many bytes as the number needs at seven bits each, the count in the leading bits; negative numbers
    have those inverted, so that they sort first."""
    magnitude = ~value if value < 0 else value
    size = magnitude.bit_length() // 7 + 1
    header = ((1 << size) - 1) << (8 * size - size)
    return (header ^ (value & ((1 << 8 * size) - 1))).to_bytes(size, "big")
