"""RAM and flash in several regions: what lies in which, so that the hottest lies in the fastest.

In: tensors (or buffers that tensors share) with their bytes and how often these are touched, and the regions'
rooms, fastest first. Out: one region for each. What only few regions can hold is placed first, then what is
touched most for its size; where that leaves something without a place, the largest first. What did
not fit is told, and by how much.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from ingot.errors import InputError
from ingot.memory.arena import Offsets, height, place
from ingot.memory.lifetimes import profile
from ingot.memory.share import Buffer

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,30}")
MOST = 1 << 48
"""Bytes: no region has so many."""


@dataclass(frozen=True, slots=True)
class Region:
    """A region of RAM: its name, the bytes there are, those that a plan uses from `start` of its addresses
    on, and those that the state takes beside them.
    """

    name: str
    room: int
    start: int
    bytes: int
    state_bytes: int = 0

    @property
    def end(self) -> int:
        return self.start + self.bytes


def require_regions(rooms: Mapping[str, int], flag: str) -> None:
    """InputError unless every name can be a section's and every size is one."""
    for name, room in rooms.items():
        if not NAME.fullmatch(name):
            raise InputError(
                f"{flag}: {name!r} cannot name a section",
                remedy="letters, digits and _, at most 31, a digit not first",
            )
        if isinstance(room, bool) or not isinstance(room, int) or not 0 < room < MOST:
            raise InputError(f"{flag}: region {name!r} has {room!r} bytes: from 1 to {MOST - 1:,} are a size")
    lower = [name.lower() for name in rooms]
    if twice := next((name for name in lower if lower.count(name) > 1), None):
        raise InputError(f"{flag}: two regions are called {twice!r}; capitals do not tell them apart")


class Sized(Protocol):
    @property
    def bytes(self) -> int: ...


T = TypeVar("T", bound=Sized)
Fits = Callable[[Sequence[T], int], int]
"""How many bytes things need together, at most as many as there are where they can be made to fit."""


@dataclass(frozen=True, slots=True)
class Lacking:
    """What has no place, and the fewest bytes that a region would need beside its own; its name."""

    thing: object
    bytes: int
    region: str


def spread(
    things: Sequence[T], heat: Mapping[T, float], rooms: Mapping[str, int], needed: Fits[T]
) -> dict[str, tuple[T, ...]] | Lacking:
    """The things of each region, or what has no place."""

    def choices(x: T) -> int:
        return sum(x.bytes <= room for room in rooms.values())

    hottest = sorted(things, key=lambda x: (choices(x), -heat[x]))
    first = _in_order(hottest, rooms, needed)
    if not isinstance(first, Lacking):
        return first
    second = _in_order(sorted(things, key=lambda x: -x.bytes), rooms, needed)
    return first if isinstance(second, Lacking) and first.bytes <= second.bytes else second


def _in_order(
    things: Sequence[T], rooms: Mapping[str, int], needed: Fits[T]
) -> dict[str, tuple[T, ...]] | Lacking:
    """Each in the first region that still has room."""
    held: dict[str, tuple[T, ...]] = {name: () for name in rooms}
    for x in things:
        over = {name: needed((*held[name], x), room) - room for name, room in rooms.items()}
        name = next((name for name, more in over.items() if more <= 0), None)
        if name is None:
            nearest = min(over, key=lambda name: over[name])
            return Lacking(x, over[nearest], nearest)
        held[name] = (*held[name], x)
    return held


def spread_buffers(
    buffers: tuple[Buffer, ...], heat: Mapping[Buffer, float], rooms: Mapping[str, int]
) -> dict[str, Offsets] | Lacking:
    """Offsets of buffers, which share bytes where they do not live together, in their regions."""

    def needed(held: Sequence[Buffer], room: int) -> int:
        return peak if (peak := _peak(held)) > room else height(place(tuple(held), room))

    first, room = next(iter(rooms.items()))
    if needed(buffers, room) <= room:
        return {name: place(buffers, _peak(buffers)) if name == first else {} for name in rooms}
    found = spread(buffers, heat, rooms, needed)
    if isinstance(found, Lacking):
        return found
    return {name: place(held, _peak(held)) for name, held in found.items()}


def _peak(buffers: Sequence[Buffer]) -> int:
    """The most bytes alive at once."""
    return max(profile((b.spans, b.bytes) for b in buffers).values(), default=0)
