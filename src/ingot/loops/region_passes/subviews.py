"""Where one tensor can be a corner of another: concatenations and slices that copy nothing.

    a = conv1(x)          a, b are the two halves of y: the convolutions write them there,
    b = conv2(x)          whoever reads a or b reads y's memory, and the copies y[..] = a, y[..] = b vanish
    y = concat(a, b)

In: a region whose groups may copy rectangles. Out: rectangles (part, whole, corner) such that a part may live
in its whole: each part in one whole at most, none in itself, nothing written twice. `assign_layouts` keeps
those whose two sides are stored alike, `lower` drops the stages that would copy a tensor onto itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from ingot.formula.box import Box, any_meet
from ingot.formula.compute import Compute, Stage
from ingot.formula.expr import Const, Expr, Load, Tensor, Var, static
from ingot.formula.index import linear
from ingot.loops.layout import Layout
from ingot.loops.region import Group


@dataclass(frozen=True, slots=True, eq=False)
class Rectangle:
    """`part` is what stands in `whole` from the element `corner` on."""

    part: Tensor
    whole: Tensor
    corner: tuple[int, ...]

    @property
    def moved(self) -> tuple[int, ...]:
        """The axes along which the part is shorter."""
        return tuple(d for d, n in enumerate(self.part.shape) if n != self.whole.shape[d])


@dataclass(frozen=True, slots=True)
class Move:
    """A stage that copies: out[to + i] = source[at + i] for i in `extents`."""

    source: Tensor
    at: tuple[int, ...]
    out: Tensor
    to: tuple[int, ...]
    extents: tuple[int, ...]

    @property
    def written(self) -> Box:
        return tuple((k, k + n) for k, n in zip(self.to, self.extents, strict=True))


def move_of(stage: Stage) -> Move | None:
    """The stage as a copy of one box to another, if that is all it does."""
    if not isinstance(stage, Compute) or stage.reduction is not None or not isinstance(stage.value, Load):
        return None
    source, out = stage.value, stage.out
    if source.outside is not None or source.tensor.type is not out.type or source.tensor.rank != out.rank:
        return None
    at, to = _offsets(source.index, stage.axes), _offsets(stage.index, stage.axes)
    tensors = (out, source.tensor)
    if at is None or to is None or not all(isinstance(n, int) and n for t in tensors for n in t.shape):
        return None
    return Move(source.tensor, at, out, to, tuple(static(a.extent) for a in stage.axes))


def _offsets(index: tuple[Expr, ...], axes: tuple[Var, ...]) -> tuple[int, ...] | None:
    """k such that the index is axes + k."""
    out: list[int] = []
    if len(index) != len(axes):
        return None
    for i, a in zip(index, axes, strict=True):
        form = dict(linear(i))
        k = form.pop(None, 0)
        if form != ({} if a.extent == 1 and isinstance(i, Const) else {a: 1}):
            return None
        out.append(k)
    return tuple(out)


def rectangles(groups: Iterable[Group], free: set[Tensor]) -> list[Rectangle]:
    """Rectangles that may all be realised at once. `free` are the tensors that may live anywhere."""
    groups = list(groups)
    bases = {g.view[1] for g in groups if g.view}
    where: dict[Tensor, Rectangle] = {}
    for group in groups:
        moves = _moves(group)
        for r in (r for m in moves for r in _placements(m)):
            allowed = r.part in free and r.part not in bases and r.part not in where
            if allowed and r.whole.value is None and not _leads_to(r.whole, r.part, where):
                where[r.part] = r
    return list(where.values())


def _moves(group: Group) -> list[Move]:
    """What a group copies, if it does nothing else and writes nothing twice."""
    found = [move_of(s) for s in group.stages]
    moves = [m for m in found if m is not None]
    if len(moves) < len(found) or group.view:
        return []
    written: dict[Tensor, list[Box]] = {}
    for m in moves:
        written.setdefault(m.out, []).append(m.written)
    return [] if any(map(any_meet, written.values())) else moves


def _placements(m: Move) -> Iterator[Rectangle]:
    """A part of a source that is read in place, or a source that is made in place."""
    if m.extents == m.out.shape and not any(m.to):
        yield Rectangle(m.out, m.source, m.at)
    elif m.extents == m.source.shape and not any(m.at):
        yield Rectangle(m.source, m.out, m.to)


def _leads_to(t: Tensor, goal: Tensor, where: dict[Tensor, Rectangle]) -> bool:
    while t in where:
        t = where[t].whole
    return t is goal


def is_nothing(stage: Stage, layouts: Mapping[Tensor, Layout]) -> bool:
    """Whether a stage would copy elements onto themselves: its result has its place where the operand is."""
    m = move_of(stage)
    return m is not None and is_in_place(m, layouts)


def is_in_place(m: Move, layouts: Mapping[Tensor, Layout]) -> bool:
    """Whether a copy's two sides are the same memory."""
    return _corner(m.source, m.at, layouts) == _corner(m.out, m.to, layouts)


def _corner(
    t: Tensor, at: tuple[int, ...], layouts: Mapping[Tensor, Layout]
) -> tuple[Tensor, tuple[int, ...]]:
    """The tensor that owns the memory, and the element of it."""
    while t in layouts and (place := layouts[t].place) is not None:
        t, at = place.whole, tuple(i + k for i, k in zip(at, place.corner, strict=True))
    return t, at
