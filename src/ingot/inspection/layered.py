"""Places for the boxes of a diagram: in layers from top to bottom, arrows bent through the gaps.

In: sizes of boxes and arrows between them. Out: a `Placement`. Layers by longest path; an arrow over several
layers passes through a way point in each, which arrows of the same source share; the order within a layer
comes from the mean place of the neighbours, and so do the coordinates, as close as order and gaps allow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

ACROSS, DOWN, MARGIN = 22.0, 30.0, 20.0
SWEEPS = 12

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Placement:
    """Centres of the boxes, the points each arrow runs through, and the size of the whole."""

    centres: tuple[Point, ...]
    routes: tuple[tuple[Point, ...], ...]
    width: float
    height: float


@dataclass(slots=True)
class _Site:
    """A box, or a way point of an arrow (height 0)."""

    layer: int
    width: float
    height: float
    above: list[int]
    below: list[int]
    x: float = 0.0


def place(sizes: Sequence[tuple[float, float]], arrows: Sequence[tuple[int, int]]) -> Placement:
    """Boxes must be numbered in topological order."""
    levels = _levels(len(sizes), arrows)
    sites = [_Site(level, w, h, [], []) for level, (w, h) in zip(levels, sizes, strict=True)]
    chains = _connect(sites, arrows)
    rows: list[list[int]] = [[] for _ in range(max(levels, default=-1) + 1)]
    for i, site in enumerate(sites):
        rows[site.layer].append(i)
    _order(sites, rows)
    _align(sites, rows)
    bands = _bands(sites, rows)
    left = min((s.x - s.width / 2 for s in sites), default=0.0) - MARGIN
    width = max((s.x + s.width / 2 for s in sites), default=0.0) - left + MARGIN
    for site in sites:
        site.x -= left
    centres = tuple((s.x, sum(bands[s.layer]) / 2) for s in sites[: len(sizes)])
    routes = tuple(_route(sites, bands, a, chain, b) for chain, (a, b) in zip(chains, arrows, strict=True))
    return Placement(centres, routes, width, (bands[-1][1] if bands else MARGIN) + MARGIN)


def _levels(count: int, arrows: Sequence[tuple[int, int]]) -> list[int]:
    """One below the lowest source; what has no source stands just above its first reader."""
    levels = [0] * count
    sourced = {b for _, b in arrows}
    readers: dict[int, list[int]] = {}
    for a, b in sorted(arrows, key=lambda arrow: arrow[1]):
        levels[b] = max(levels[b], levels[a] + 1)
        readers.setdefault(a, []).append(b)
    for i in range(count):
        if i not in sourced and i in readers:
            levels[i] = min(levels[b] for b in readers[i]) - 1
    return levels


def _connect(sites: list[_Site], arrows: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Fill in neighbours, adding way points; for each arrow the way points it passes, from the top."""
    points: dict[tuple[int, int], int] = {}
    chains: list[list[int]] = []
    for a, b in arrows:
        chain: list[int] = []
        previous = a
        for layer in range(sites[a].layer + 1, sites[b].layer):
            if (a, layer) not in points:
                points[a, layer] = len(sites)
                sites.append(_Site(layer, 4.0, 0.0, [previous], []))
                sites[previous].below.append(points[a, layer])
            previous = points[a, layer]
            chain.append(previous)
        sites[previous].below.append(b)
        sites[b].above.append(previous)
        chains.append(chain)
    return chains


def _order(sites: list[_Site], rows: list[list[int]]) -> None:
    """Sort each row by the mean position of the neighbours in the row before, down and up in turn."""
    position = {i: float(k) for row in rows for k, i in enumerate(row)}
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        for row in rows if down else reversed(rows):
            nears = {i: sites[i].above if down else sites[i].below for i in row}
            means = {i: _mean([position[n] for n in near], position[i]) for i, near in nears.items()}
            row.sort(key=means.__getitem__)
            position.update((i, float(k)) for k, i in enumerate(row))


def _mean(values: list[float], default: float) -> float:
    return sum(values) / len(values) if values else default


def _align(sites: list[_Site], rows: list[list[int]]) -> None:
    """Move each row towards its neighbours, below, above and both in turn."""
    for row in rows:
        for before, here in pairwise(row):
            sites[here].x = sites[before].x + _gap(sites[before], sites[here])
    for sweep in range(SWEEPS):
        for row in rows if sweep % 2 == 0 else reversed(rows):
            wanted = []
            for i in row:
                s = sites[i]
                near = (s.above if sweep % 2 == 0 else s.below) if sweep < SWEEPS - 2 else s.above + s.below
                wanted.append(_mean([sites[n].x for n in near], s.x))
            _settle(sites, row, wanted)


def _gap(a: _Site, b: _Site) -> float:
    return (a.width + b.width) / 2 + ACROSS


def _settle(sites: list[_Site], row: list[int], wanted: list[float]) -> None:
    """The places nearest to the wanted ones that keep order and gaps: what collides moves as one block."""
    offsets = [0.0]
    for before, here in pairwise(row):
        offsets.append(offsets[-1] + _gap(sites[before], sites[here]))
    blocks: list[tuple[float, int]] = []  # (mean of what its members want, how many)
    for want, offset in zip(wanted, offsets, strict=True):
        mean, count = want - offset, 1
        while blocks and blocks[-1][0] > mean:
            other, size = blocks.pop()
            mean, count = (mean * count + other * size) / (count + size), count + size
        blocks.append((mean, count))
    start = [mean for mean, count in blocks for _ in range(count)]
    for i, at, offset in zip(row, start, offsets, strict=True):
        sites[i].x = at + offset


def _bands(sites: list[_Site], rows: list[list[int]]) -> list[Point]:
    """Top and bottom of each row."""
    bands, y = [], MARGIN
    for row in rows:
        height = max(sites[i].height for i in row)
        bands.append((y, y + height))
        y += height + DOWN
    return bands


def _route(sites: list[_Site], bands: list[Point], a: int, passed: list[int], b: int) -> tuple[Point, ...]:
    """From the bottom of box a to the top of box b; straight down through the rows between."""
    start, end = sites[a], sites[b]
    points = [(start.x, sum(bands[start.layer]) / 2 + start.height / 2)]
    for i in passed:
        points += [(sites[i].x, edge) for edge in bands[sites[i].layer]]
    return (*points, (end.x, sum(bands[end.layer]) / 2 - end.height / 2))
