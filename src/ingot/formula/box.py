"""Boxes: rectangles of a tensor as half-open ranges, one per axis.

Verifiers ask whether two meet and whether some together cover another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

Box = tuple[tuple[int, int], ...]


def meet(a: Box, b: Box) -> bool:
    """Whether the boxes have an element in common."""
    return all(max(p, r) < min(q, s) for (p, q), (r, s) in zip(a, b, strict=True))


def any_meet(boxes: Iterable[Box]) -> bool:
    """Whether two of some boxes have an element in common. Those that stand apart along an axis cost no more
    than sorting them.
    """
    several = [b for b in boxes if all(lo < hi for lo, hi in b)]
    if len(several) < 2:
        return False
    axes = range(len(several[0]))
    along = max(axes, key=lambda d: len({b[d] for b in several}), default=None)
    if along is None:
        return True  # all of them are the one element of a scalar
    several.sort(key=lambda b: b[along])
    open_: list[Box] = []
    for b in several:
        open_ = [a for a in open_ if a[along][1] > b[along][0]]
        if any(meet(a, b) for a in open_):
            return True
        open_.append(b)
    return False


def without(a: Box, b: Box) -> Iterator[Box]:
    """Disjoint boxes that make up `a` less `b`."""
    if not meet(a, b):
        yield a
        return
    for d, ((p, q), (r, s)) in enumerate(zip(a, b, strict=True)):
        for lo, hi in ((p, max(p, r)), (min(q, s), q)):
            if lo < hi:
                yield (*a[:d], (lo, hi), *a[d + 1 :])
        a = (*a[:d], (max(p, r), min(q, s)), *a[d + 1 :])


def covered(a: Box, by: Iterable[Box]) -> bool:
    """Whether every element of `a` is in one of the boxes."""
    left = [a] if all(lo < hi for lo, hi in a) else []
    for b in by:
        left = [rest for box in left for rest in without(box, b)]
    return not left
