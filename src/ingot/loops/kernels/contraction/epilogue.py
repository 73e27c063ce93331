"""What becomes of the sums of a register tile: the stage's value of each, stored where it belongs.

    y[m, n:n+16] = value(c0), y[m, n+16:n+24] = value(first half of c1)

In: registers of sums, the segment of channels that they are and the points of the tile. Out: the stores, in
parts where not all of a register is stored, one by one where the value has no vector form.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ingot.formula.expr import Expr, Lane, Load, Var, substitute
from ingot.formula.index import Bounds
from ingot.formula.statements import Store
from ingot.loops.access import NotVectorizable, vectorize
from ingot.loops.cuts import parts
from ingot.loops.kernels.contraction.tiles import Segment
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

    def stores(self, s: Segment, j: int, points: Sequence[Offsets], sums: Sequence[Expr]) -> Iterator[Store]:
        """Stores of the j-th register of every point."""
        width, offset = s.widths[j], s.offsets[j]
        valid = min(width, s.channels - offset)
        lanes_of_parts = (width,) if valid == width else parts(valid, width)
        made = self._parts(offset, lanes_of_parts) or self._parts(offset, (1,) * valid) or ()
        for point, acc in zip(points, sums, strict=True):
            for first, lanes, to, value in made:
                stored = acc if lanes == width else Lane(acc, first, lanes)
                at = to(point)
                assert isinstance(at, Load)
                yield Store(at, substitute(value(point), {"acc": stored}), lanes)

    def _parts(self, offset: int, widths: tuple[int, ...]) -> list[Part] | None:
        """The parts of a register; None where a vector cannot be."""
        v, out, first = self.vector, list[Part](), 0
        whole = in_integers(self.value)
        for lanes in widths:
            moved = (
                placer(self.to, [v.name], self.bounds),
                placer(whole if lanes > 1 else self.value, [v.name], self.bounds),
            )
            to, value = (at({v.name: offset + first}) for at in moved)
            if lanes > 1:
                try:
                    vectorize(to, v.name, lanes)
                    value = vectorize(value, v.name, lanes)
                except NotVectorizable:
                    return None
            places = placer(to, self.names, self.bounds), placer(value, self.names, self.bounds)
            out.append((first, lanes, *places))
            first += lanes
        return out


def points_of(axes: tuple[Var, ...], sizes: Offsets) -> Iterator[Offsets]:
    """Offsets of the points of a tile from its first, the innermost axis running fastest."""
    if not axes:
        yield {}
        return
    first, *rest = axes
    for i in range(sizes[first.name]):
        for point in points_of(tuple(rest), sizes):
            yield {first.name: i, **point}
