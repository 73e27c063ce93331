"""How an extent is cut: into equal pieces, into vectors, into parts of one vector.

In: an extent and the most that a piece may have. Out: the pieces, in order. Shared by the generators.
"""

from __future__ import annotations

from collections.abc import Iterator


def balanced(n: int, size: int) -> int:
    """At most `size` outputs, so that the tiles of n are as equal as can be: 9 in fours is 3, 3, 3."""
    return -(-n // -(-n // size))


def pieces(n: int, most: int) -> Iterator[tuple[int, int, int]]:
    """(from, to, size) of runs of equal pieces no longer than `most`; sizes differ by one at most.

    49 by 14                ->                (0, 13, 13), (13, 49, 12)
    """
    count = -(-n // most)
    small = n // count
    large = n - count * small
    if large:
        yield 0, large * (small + 1), small + 1
    yield large * (small + 1), n, small


def in_vectors(n: int, widest: int, overlap: bool = False) -> Iterator[tuple[int, int, int]]:
    """How n elements are cut into vectors: (from, to, lanes), wide ones first.

        58 by 16:       0 .. 48 by 16, 48 .. 56 by 8, 56 .. 58 by 1
        with overlap:   0 .. 48 by 16, 42 .. 58 by 16

    With `overlap` the rest is one vector that repeats some of what its neighbour did; not for what may be
    written over its operand.
    """
    lanes = next((w for w in _widths(widest) if w <= n), 1)
    full = n // lanes * lanes
    yield 0, full, lanes
    rest = n - full
    if overlap and rest:
        narrow = next(w for w in reversed(_widths(lanes)) if w >= min(max(rest, 2), lanes))
        yield n - narrow, n, narrow
    while not overlap and full < n:
        narrow = next((w for w in _widths(lanes) if 4 <= w <= n - full), 1)
        end = full + narrow if narrow > 1 else n
        yield full, end, narrow
        full = end


def parts(count: int, lanes: int) -> tuple[int, ...]:
    """`count` lanes as vectors of at most `lanes`, at least four, and single elements: 14 is 8, 4, 1, 1."""
    out: list[int] = []
    for n in (64, 32, 16, 8, 4, 1):
        if n <= lanes:
            out += [n] * (count // n)
            count %= n
    return tuple(out)


def _widths(widest: int) -> list[int]:
    """Powers of two, the widest first."""
    return [1 << i for i in reversed(range(widest.bit_length())) if 1 << i <= widest]
