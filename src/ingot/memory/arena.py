"""Offsets: a place in the arena for every buffer, those alive together apart.

In: buffers with the spans in which they live. Out: an offset each. The searches are omnimalloc's: single-
threaded, seeded and limited by steps, never by time, so that a model gets the same offsets everywhere. Its
lifetimes are intervals; our own first fit knows the gaps in ours and tries where the searches stay above the
bound. The best is taken. Where results may begin before the operands that they replace (`slides`), first fit
alone places, in several orders, in changes of the best, where what ends highest goes earlier, and of these.
"""

from __future__ import annotations

import random
from bisect import insort
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from ingot.memory.share import Buffer
from ingot.memory.slides import Slide

if TYPE_CHECKING:
    from omnimalloc.allocators import BaseAllocator

Offsets = dict[Buffer, int]
Slides = Mapping[tuple[Buffer, Buffer], Slide]
"""Of an operand's buffer and that of the result which may replace it."""
NO_SLIDES: Slides = MappingProxyType({})
MANY = 1000  # buffers up to which what takes quadratic time or thousands of trials is tried
TRIALS = 300  # orders


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


def place_sliding(buffers: tuple[Buffer, ...], slides: Slides, bound_bytes: int) -> Offsets:
    """The lowest placement found of buffers some of which may overlap."""
    rng, firsts = random.Random(0), _firsts(buffers)
    placed = [(first_fit(order, slides), order) for order in firsts]
    best, order = min(placed, key=lambda p: height(p[0]))
    for trial in range(TRIALS if len(buffers) <= MANY else 0):
        if height(best) <= bound_bytes:
            break
        if trial < TRIALS * 2 // 3:
            tried = _changed(_with_highest_earlier(order, best, rng), trial % 3, rng)
        else:
            tried = _changed(firsts[trial % len(firsts)], 1 + trial % 4, rng)
        found = first_fit(tried, slides)
        if height(found) <= height(best):
            best, order = found, tried
    return best


def _firsts(buffers: tuple[Buffer, ...]) -> tuple[list[Buffer], ...]:
    """Orders worth trying: from the largest on, in size and in time."""
    peak = max(buffers, key=lambda b: b.bytes).spans[0][0]
    return (
        sorted(buffers, key=lambda b: (-b.bytes, b.spans)),
        sorted(buffers, key=lambda b: b.spans),
        sorted(buffers, key=lambda b: b.spans, reverse=True),
        sorted(buffers, key=lambda b: (abs(b.spans[0][0] - peak), -b.bytes)),
    )


def _changed(order: list[Buffer], moves: int, rng: random.Random) -> list[Buffer]:
    """An order in which some buffers are elsewhere."""
    found = list(order)
    for _ in range(moves):
        found.insert(rng.randrange(len(found)), found.pop(rng.randrange(len(found))))
    return found


def _with_highest_earlier(order: list[Buffer], offsets: Offsets, rng: random.Random) -> list[Buffer]:
    """An order in which a buffer that ends where the placement does is placed earlier."""
    top = height(offsets)
    at = rng.choice([n for n, b in enumerate(order) if offsets[b] + b.bytes == top])
    found = list(order)
    found.insert(rng.randrange(at + 1), found.pop(at))
    return found


def first_fit(buffers: Iterable[Buffer], slides: Slides = NO_SLIDES) -> Offsets:
    """In the order given, each at the lowest offset that is free whenever it lives."""
    placed: list[tuple[int, int, Buffer]] = []
    offsets: Offsets = {}
    for b in buffers:
        at = _lowest_slid(b, placed, slides) if slides else _lowest(b, placed)
        offsets[b] = at
        insort(placed, (at, len(placed), b), key=lambda p: p[:2])
    return offsets


def _lowest(b: Buffer, placed: list[tuple[int, int, Buffer]]) -> int:
    """The lowest offset at which a buffer shares no byte with what lives at the same time."""
    at = 0
    for low, _, other in placed:
        if at + b.bytes <= low:
            break
        if low + other.bytes > at and _meet(b, other):
            at = low + other.bytes
    return at


def _lowest_slid(b: Buffer, placed: list[tuple[int, int, Buffer]], slides: Slides) -> int:
    """The lowest offset at which a buffer leaves the others alone but for those that it may slide along."""
    beside = [(low, other) for low, _, other in placed if _meet(b, other)]
    tried = {0, *(low + other.bytes for low, other in beside)}
    for low, other in beside:
        tried.update(_slid(slides.get((b, other)), low, 1))
        tried.update(_slid(slides.get((other, b)), low, -1))
    return next(at for at in sorted(tried) if at >= 0 and all(_fits(b, at, *o, slides) for o in beside))


def _slid(slide: Slide | None, low: int, sign: int) -> Iterator[int]:
    """The lowest offsets of what slides along something at an offset: behind it as an operand (1), or before
    it as a result (-1).
    """
    if slide is not None and slide.least is not None:
        yield low + sign * slide.least
    if slide is not None and slide.period is not None:
        yield low % slide.period
    if slide is not None and slide.in_place:
        yield low


def _fits(b: Buffer, at: int, low: int, other: Buffer, slides: Slides) -> bool:
    """Whether a buffer at an offset leaves another one alone, or may replace it or be replaced by it."""
    if low + other.bytes <= at or at + b.bytes <= low:
        return True
    pairs = (((b, other), at - low), ((other, b), low - at))
    return any(pair in slides and slides[pair].allows(apart) for pair, apart in pairs)


def _meet(a: Buffer, b: Buffer) -> bool:
    for p, q in a.spans:
        for r, s in b.spans:
            if p < s and r < q:
                return True
    return False
