"""What becomes of the sums of a register tile: the stage's value of each, stored where it belongs.

    y[m, n:n+16] = value(c0), y[m, n+16:n+24] = value(first half of c1)

In: registers of sums, the segment of channels that they are and the points of the tile. Out: the stores, in
parts where not all of a register is stored, one by one where the value has no vector form. What a register
has too many is computed with the rest where the constants that it takes can be lengthened.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np

from ingot.formula.expr import Expr, Lane, Load, Var, loads, substitute, transform
from ingot.formula.index import Bounds, mentions
from ingot.formula.statements import Let, Statement, Store
from ingot.loops.access import NotVectorizable, vectorize
from ingot.loops.cuts import parts
from ingot.loops.decided import decided
from ingot.loops.kernels.contraction.tiles import Segment
from ingot.loops.layout import Storage
from ingot.loops.nearby import Place, placer
from ingot.loops.requantise import in_integers

Offsets = dict[str, int]
Part = tuple[int, int, Place, Place]
"""First lane, lanes, target, value."""


@dataclass(frozen=True, slots=True)
class Epilogue:
    """to = value(acc) along the axis `vector`; the axes called `names` tell the points of a tile apart."""

    to: Load
    value: Expr
    vector: Var
    names: list[str]
    bounds: Bounds
    storage: Storage

    def stores(
        self, s: Segment, j: int, points: Sequence[Offsets], sums: Sequence[Expr]
    ) -> Iterator[Statement]:
        """Stores of the j-th register of every point."""
        width, offset = s.widths[j], s.offsets[j]
        valid = min(width, s.channels - offset)
        lanes_of_parts = self._parts_of(valid, width)
        if lanes_of_parts != (width,) and (whole := self._whole(offset, width, width - valid)) is not None:
            yield from self._by_register(whole, lanes_of_parts, j, points, sums)
            return
        made = (
            self._parts(offset, lanes_of_parts, self.value)
            or self._between_guards(s, offset, valid)
            or self._parts(offset, (1,) * valid, self.value)
            or ()
        )
        for point, acc in zip(points, sums, strict=True):
            for first, lanes, to, value in made:
                stored = acc if lanes == width else Lane(acc, first, lanes)
                at = to(point)
                assert isinstance(at, Load)
                yield Store(at, substitute(value(point), {"acc": stored}), lanes)

    def _by_register(
        self, whole: Part, stored: tuple[int, ...], j: int, points: Sequence[Offsets], sums: Sequence[Expr]
    ) -> Iterator[Statement]:
        """Registers of values, and the stores of their first lanes."""
        _, width, to, value = whole
        for i, (point, acc) in enumerate(zip(points, sums, strict=True)):
            register = Var(f"y{i}_{j}", None, self.value.dtype)
            yield Let(register.name, substitute(value(point), {"acc": acc}), width)
            at, first = to(point), 0
            for lanes in stored:
                moved = placer(at, [self.vector.name], self.bounds)({self.vector.name: first})
                assert isinstance(moved, Load)
                yield Store(moved, Lane(register, first, lanes), lanes)
                first += lanes

    def _parts_of(self, valid: int, width: int) -> tuple[int, ...]:
        """The lanes of the stores of so many values: single ones where they do not lie side by side."""
        wanted = (width,) if valid == width else parts(valid, width)
        try:
            vectorize(self.to, self.vector.name, max(wanted))
        except NotVectorizable:
            return (1,) * valid
        return wanted

    def _whole(self, offset: int, width: int, extra: int) -> Part | None:
        """A register of values, all of it; None where it reads what has no such length, or is stored as it is
        summed.
        """
        name, value = self.vector.name, in_integers(self.value)
        if value == Var("acc", None, self.value.dtype):
            return None
        if extra:
            moving = {x for x in loads(value) if any(mentions(i, name) for i in x.index)}
            if not all(_is_along(x, name) for x in moving):
                return None
            longer = {x: _lengthened(x, extra, self.storage) for x in moving}
            value = transform(value, lambda e: longer.get(e) if isinstance(e, Load) else None)
        try:
            value = vectorize(placer(value, [name], self.bounds)({name: offset}), name, width)
        except NotVectorizable:
            return None
        to = placer(self.to, [name], self.bounds)({name: offset})
        return 0, width, placer(to, self.names, self.bounds), placer(value, self.names, self.bounds)

    def _between_guards(self, s: Segment, offset: int, valid: int) -> list[Part] | None:
        """Parts that end where a condition on the channel changes, as the guard of channels that padding has
        added: each computes what holds there. None where there is no such condition.
        """
        if s.blocks > 1:
            return None
        out, first = list[Part](), 0
        channels = range(s.first + offset, s.first + offset + valid)
        values = [decided(self.value, {**self.bounds, self.vector.name: (c, c)}) for c in channels]
        for value, same in groupby(values):
            run = len(list(same))
            made = self._parts(offset + first, parts(run, s.widths[0]), value)
            if made is None or value == self.value:
                return None
            out += [(first + at, lanes, to, placed) for at, lanes, to, placed in made]
            first += run
        return out

    def _parts(self, offset: int, widths: tuple[int, ...], value: Expr) -> list[Part] | None:
        """The parts of a register; None where a vector cannot be."""
        v, out, first = self.vector, list[Part](), 0
        whole = in_integers(value)
        for lanes in widths:
            moved = (
                placer(self.to, [v.name], self.bounds),
                placer(whole if lanes > 1 else value, [v.name], self.bounds),
            )
            to, made = (at({v.name: offset + first}) for at in moved)
            if lanes > 1:
                try:
                    vectorize(to, v.name, lanes)
                    made = vectorize(made, v.name, lanes)
                except NotVectorizable:
                    return None
            places = placer(to, self.names, self.bounds), placer(made, self.names, self.bounds)
            out.append((first, lanes, *places))
            first += lanes
        return out


def alike(s: Segment, value: Expr, vector: Var, bounds: Bounds) -> Iterator[Segment]:
    """A segment in runs of blocks over each of which the conditions on channels are decided alike."""
    values = [
        decided_in(replace(s, first=s.first + i * s.size, blocks=1), value, vector, bounds)
        for i in range(s.blocks)
    ]
    first = s.first
    for _, same in groupby(values):
        blocks = len(list(same))
        yield replace(s, first=first, blocks=blocks)
        first += blocks * s.size


def decided_in(s: Segment, value: Expr, vector: Var, bounds: Bounds) -> Expr:
    """What a stage makes of the sums of a segment, without conditions that are decided over all of it."""
    last = s.first + (s.blocks - 1) * s.size + s.channels - 1
    return decided(value, {**bounds, vector.name: (s.first, last)})


def _is_along(load: Load, name: str) -> bool:
    """Whether a constant is read along an axis, element by element."""
    lane = load.tensor.lane_axis
    others = (i for d, i in enumerate(load.index) if d != lane)
    return load.tensor.value is not None and not any(mentions(i, name) for i in others)


def _lengthened(load: Load, extra: int, storage: Storage) -> Load:
    """The read of a constant that has so many elements more where its lanes lie."""
    t, lane = load.tensor, load.tensor.lane_axis
    more = [(0, extra if d == lane else 0) for d in range(t.rank)]
    return replace(
        load, tensor=storage.derived(t, ("longer", extra), lambda a: np.pad(a, more), what="longer")
    )


def points_of(axes: tuple[Var, ...], sizes: Offsets) -> Iterator[Offsets]:
    """Offsets of the points of a tile from its first, the innermost axis running fastest."""
    if not axes:
        yield {}
        return
    first, *rest = axes
    for i in range(sizes[first.name]):
        for point in points_of(tuple(rest), sizes):
            yield {first.name: i, **point}
