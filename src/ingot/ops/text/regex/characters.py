"""Sets of characters: sorted ranges of code points, and the names that patterns give to some."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from functools import cache

LAST = 0x10FFFF
Ranges = tuple[tuple[int, int], ...]

PERL: dict[str, Ranges] = {
    "d": ((48, 57),),
    "s": ((9, 10), (12, 13), (32, 32)),
    "w": ((48, 57), (65, 90), (95, 95), (97, 122)),
}
POSIX: dict[str, Ranges] = {
    "alnum": ((48, 57), (65, 90), (97, 122)),
    "alpha": ((65, 90), (97, 122)),
    "ascii": ((0, 127),),
    "blank": ((9, 9), (32, 32)),
    "cntrl": ((0, 31), (127, 127)),
    "digit": ((48, 57),),
    "graph": ((33, 126),),
    "lower": ((97, 122),),
    "print": ((32, 126),),
    "punct": ((33, 47), (58, 64), (91, 96), (123, 126)),
    "space": ((9, 13), (32, 32)),
    "upper": ((65, 90),),
    "word": PERL["w"],
    "xdigit": ((48, 57), (65, 70), (97, 102)),
}


def union(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Sorted, and what touches joined."""
    out: list[tuple[int, int]] = []
    for lo, hi in sorted(ranges):
        if out and lo <= out[-1][1] + 1:
            out[-1] = (out[-1][0], max(hi, out[-1][1]))
        else:
            out.append((lo, hi))
    return tuple(out)


def complement(ranges: Ranges) -> Ranges:
    """Every other character."""
    out, start = [], 0
    for lo, hi in ranges:
        if start < lo:
            out.append((start, lo - 1))
        start = hi + 1
    return (*out, (start, LAST)) if start <= LAST else tuple(out)


@cache
def category(name: str) -> Ranges | None:
    """The characters of a general category (L, Lu, Nd, ...); None for an unknown one."""
    if name == "Any":
        return ((0, LAST),)
    found = union((c, c) for c in range(LAST + 1) if unicodedata.category(chr(c)).startswith(name))
    return found if found and len(name) <= 2 else None


@cache
def _orbits() -> dict[int, frozenset[int]]:
    """The characters that differ from each other in case only."""
    alike: dict[str, set[int]] = {}
    for c in map(chr, range(0x20000)):
        folds = [f for f in (c.casefold(), c.lower(), c) if len(f) == 1]
        alike.setdefault(folds[0], set()).add(ord(c))
    return {c: frozenset(found) for found in alike.values() if len(found) > 1 for c in found}


def folded(ranges: Ranges) -> Ranges:
    """The set with every character's other cases."""
    return union([*ranges, *_other_cases(ranges)])


def _other_cases(ranges: Ranges) -> Iterator[tuple[int, int]]:
    for c, orbit in _orbits().items():
        if any(lo <= c <= hi for lo, hi in ranges):
            yield from ((o, o) for o in orbit)


def byte_ranges(lo: int, hi: int) -> Iterator[Ranges]:
    """UTF-8 of a range of code points: sequences of byte ranges; surrogates have none."""
    for first, last in ((0, 0x7F), (0x80, 0x7FF), (0x800, 0xD7FF), (0xE000, 0xFFFF), (0x10000, LAST)):
        if max(lo, first) <= min(hi, last):
            yield from _split(chr(max(lo, first)).encode(), chr(min(hi, last)).encode())


def _split(lo: bytes, hi: bytes) -> Iterator[Ranges]:
    """lo .. hi of one length, cut where the bytes behind the first are not free."""
    if len(lo) == 1 or lo[:-1] == hi[:-1]:
        yield tuple(zip(lo, hi, strict=True))
        return
    free = len(lo) - 1
    least, most = b"\x80" * free, b"\xbf" * free
    if lo[0] == hi[0]:
        yield from (((lo[0], lo[0]), *rest) for rest in _split(lo[1:], hi[1:]))
        return
    first, last = lo[0], hi[0]
    if lo[1:] != least:
        yield from (((first, first), *rest) for rest in _split(lo[1:], most))
        first += 1
    if hi[1:] != most:
        yield from (((last, last), *rest) for rest in _split(least, hi[1:]))
        last -= 1
    if first <= last:
        yield ((first, last), *(((0x80, 0xBF),) * free))
