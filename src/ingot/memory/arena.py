"""Offsets: a place in the arena for every buffer, those alive together apart.

In: buffers with the spans in which they live. Out: an offset each. The searches are omnimalloc's: single-
threaded, seeded and limited by steps, never by time, so that a model gets the same offsets everywhere. Its
lifetimes are intervals; our own first fit knows the gaps in ours and tries where the searches stay above the
bound. The best is taken.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ingot.memory.share import Buffer

if TYPE_CHECKING:
    from omnimalloc.allocators import BaseAllocator

Offsets = dict[Buffer, int]
MANY = 1000  # buffers up to which what takes quadratic time or thousands of trials is tried


def place(buffers: tuple[Buffer, ...], bound_bytes: int) -> Offsets:
    """The first placement that needs no more than the bound, or else the smallest."""
    best: Offsets | None = None
    for found in _placements(buffers):
        if best is None or height(found) < height(best):
            best = found
        if height(best) <= bound_bytes:
            break
    return best or {}


def height(offsets: Offsets) -> int:
    return max((at + b.bytes for b, at in offsets.items()), default=0)


def _placements(buffers: tuple[Buffer, ...]) -> Iterator[Offsets]:
    """Each is computed when asked for, the cheapest first."""
    if not buffers:
        return
    from omnimalloc import allocators  # here, for it takes a quarter of a second to load

    yield _searched(buffers, allocators.GreedyBySizeAllocator())
    yield _searched(buffers, allocators.TelamallocAllocator(timeout=None))
    yield _searched(buffers, allocators.GreedyByConflictSizeAllocator())
    if len(buffers) <= MANY:
        yield first_fit(sorted(buffers, key=lambda b: (-b.bytes, b.spans)))
        yield first_fit(sorted(buffers, key=lambda b: (-b.bytes * (b.spans[-1][1] - b.spans[0][0]), b.spans)))
        yield _searched(buffers, allocators.HillClimbAllocator(timeout=None))


def _searched(buffers: tuple[Buffer, ...], allocator: BaseAllocator) -> Offsets:
    """An allocator's offsets; each buffer from the start of its first span to the end of its last."""
    from omnimalloc import Allocation

    asked = (
        Allocation(id=i, size=b.bytes, start=b.spans[0][0], end=b.spans[-1][1]) for i, b in enumerate(buffers)
    )
    return {buffers[int(a.id)]: int(a.offset or 0) for a in allocator.allocate(tuple(asked))}


def first_fit(buffers: Iterable[Buffer]) -> Offsets:
    """In the order given, each at the lowest offset that is free whenever it lives."""
    placed: list[tuple[int, int, Buffer]] = []
    offsets: Offsets = {}
    for b in buffers:
        at = 0
        for low, _, other in placed:
            if at + b.bytes <= low:
                break
            if low + other.bytes > at and _meet(b, other):
                at = low + other.bytes
        offsets[b] = at
        insort(placed, (at, len(placed), b), key=lambda p: p[:2])
    return offsets


def _meet(a: Buffer, b: Buffer) -> bool:
    for p, q in a.spans:
        for r, s in b.spans:
            if p < s and r < q:
                return True
    return False
