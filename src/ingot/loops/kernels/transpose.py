"""The transpose generator: maps whose result is contiguous along one axis, an operand along another.

    y[i, j] = x[j, i]      as square tiles: rows of x in vector registers, turned there, stored as rows of y

In: a stage that maps elements to elements. Out: statements, or None if no operand has to be turned. Tiles are
as large as a vector; what is left over is done in smaller tiles, and in the end one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ingot.formula.compute import Compute
from ingot.formula.expr import Const, Expr, Load, Var, loads, static, substitute, transform, walk
from ingot.formula.index import Bounds, interval, simplify
from ingot.formula.statements import For, Let, Statement, Store
from ingot.formula.types import BOOL, INDEX
from ingot.loops.access import NotVectorizable, has_vector_form, step, vectorize
from ingot.loops.axes import normal_axes
from ingot.loops.instructions import GROUP_BYTES
from ingot.loops.kernels.contraction.tiles import LINE
from ingot.loops.kernels.joint_axes import join
from ingot.loops.kernels.naive import nested
from ingot.loops.kernels.shuffles import Network
from ingot.loops.layout import Storage, bind, destination
from ingot.targets.record import Target

MOST_LANES = 16  # rows of a tile, a register each
FEWEST_LANES = 8  # of elements so narrow that even fewer would fill a group


@dataclass(frozen=True, slots=True)
class Turn:
    """A matched stage: the result moves by one along `down`, the operands of `turned` along `across`."""

    to: Load
    value: Expr
    turned: tuple[Load, ...]
    down: Var
    across: Var
    outer: tuple[Var, ...]
    bounds: Bounds

    @property
    def is_copy(self) -> bool:
        """Whether nothing but what is turned is read, which the result is never written over."""
        return all(x in self.turned or x.tensor.value is not None for x in loads(self.value))

    @property
    def widest(self) -> int:
        """Bytes of the widest number on the way from what is read to what is stored."""
        return max(n.dtype.bytes for n in walk(self.value) if n.dtype not in (INDEX, BOOL))

    @property
    def fewest(self) -> int:
        """Lanes of the smallest tile: a group of the widest numbers, however narrow those in memory are."""
        return min(FEWEST_LANES, GROUP_BYTES // self.widest)


def transpose(c: Compute, storage: Storage, target: Target, bounds: Bounds) -> tuple[Statement, ...] | None:
    """Statements for a map that turns an operand, or None."""
    found = turn(c, storage, target, bounds)
    if found is None:
        return None
    lanes = min(MOST_LANES, target.lanes(found.widest))
    while lanes > min(static(found.down.extent), static(found.across.extent)):
        lanes //= 2
    try:
        return tuple(_nest(found, lanes)) if lanes >= found.fewest else None
    except NotVectorizable:
        return None


def turn(c: Compute, storage: Storage, target: Target, bounds: Bounds) -> Turn | None:
    """The stage, if it is a map of numbers that are stored as they are computed, and turns an operand."""
    t, c = c.out.type, normal_axes(c)
    if target.vector_bytes == 0 or c.reduction is not None or t.kind not in "iuf" or t.compute is not t:
        return None
    return _match(c, storage, bounds)


def turned(t: Turn, lanes: int) -> tuple[Statement, ...]:
    """Statements of a copy in tiles of at most `lanes` elements a side, one by one where no tile fits."""
    lanes = min(lanes, MOST_LANES)
    while lanes > min(static(t.down.extent), static(t.across.extent)):
        lanes //= 2
    return tuple(_nest(t, lanes if lanes >= t.fewest else 1))


def _match(c: Compute, storage: Storage, bounds: Bounds) -> Turn | None:
    """Bind the stage; every operand moves by one, or not at all, along `down` or, those to turn, `across`."""
    if not c.axes or not all(isinstance(a.extent, int) for a in c.axes):
        return None
    inner = {**bounds, **{a.name: interval(a) for a in c.axes}}
    to = destination(c, storage, inner)
    value = bind(c.value, storage, inner)
    down = next((a for a in c.axes if step(to, a.name) == 1), None)
    if down is None or not has_vector_form(value):
        return None
    turned = tuple(dict.fromkeys(x for x in loads(value) if step(x, down.name) not in (0, 1)))
    across = [a for a in c.axes if turned and all(step(x, a.name) == 1 for x in turned)]
    if not across or across[0] is down:
        return None
    outer = tuple(a for a in c.axes if a not in (down, across[0]))
    return _lengthened(Turn(to, value, turned, down, across[0], outer, inner), storage)


def _lengthened(t: Turn, storage: Storage) -> Turn:
    """Either axis of the tiles made one with axes around it that memory does not tell apart while it leaves a
    rest: an image of 14 rows of 14 is 196 elements.
    """
    short = [a for a in (t.across, t.down) if static(a.extent) % MOST_LANES]
    for inner, outer in ((a, o) for a in short for o in t.outer):
        joint = join(outer, inner, (t.to, t.value), storage, t.bounds)
        if joint is not None:
            axis, (to, value) = joint
            assert isinstance(to, Load)
            across, down = (axis if a is inner else a for a in (t.across, t.down))
            turned = tuple(dict.fromkeys(x for x in loads(value) if step(x, down.name) not in (0, 1)))
            rest = tuple(a for a in t.outer if a is not outer)
            bounds = {**t.bounds, axis.name: interval(axis)}
            return _lengthened(Turn(to, value, turned, down, across, rest, bounds), storage)
    return t


def _nest(t: Turn, lanes: int) -> Iterator[Statement]:
    tiles = _cover(t, lanes, (0, static(t.down.extent)), (0, static(t.across.extent)))
    yield from nested(t.outer, tuple(tiles))


def _cover(t: Turn, lanes: int, down: tuple[int, int], across: tuple[int, int]) -> Iterator[Statement]:
    """Tiles of lanes x lanes over a rectangle, smaller ones over what they leave at its edges."""
    ends = [lo + (hi - lo) // lanes * lanes for lo, hi in (down, across)]
    if ends[0] > down[0] and ends[1] > across[0]:
        yield from _tiles(t, lanes, (down[0], ends[0]), (across[0], ends[1]))
    if ends[0] > down[0] and across[1] > ends[1]:
        first, less = _rest(t, lanes, *across, ends[1])
        yield from _cover(t, less, (down[0], ends[0]), (first, across[1]))
    if down[1] > ends[0]:
        first, less = _rest(t, lanes, *down, ends[0])
        yield from _cover(t, less, (first, down[1]), across)


def _tiles(t: Turn, lanes: int, down: tuple[int, int], across: tuple[int, int]) -> Iterator[Statement]:
    """Whole tiles; those that share lines of the result are made one after the other, so that no line is
    written again when it has left the caches.
    """
    body = tuple(_tile(t, lanes) if lanes > 1 else (Store(t.to, t.value),))
    shared = max(lanes, LINE // t.to.tensor.type.bytes) if lanes > 1 else lanes
    lo, hi = down
    end = lo + (hi - lo) // shared * shared if shared > lanes else lo
    if end > lo:
        first = Var(f"{t.down.name}_line")
        within = For(t.down.name, first, first + shared, lanes, body)
        inner = For(t.across.name, Const(across[0]), Const(across[1]), lanes, (within,))
        yield For(first.name, Const(lo), Const(end), shared, (inner,))
    if hi > end:
        inner = For(t.across.name, Const(across[0]), Const(across[1]), lanes, body)
        yield For(t.down.name, Const(end), Const(hi), lanes, (inner,))


def _rest(t: Turn, lanes: int, lo: int, hi: int, end: int) -> tuple[int, int]:
    """From where on, and by how many lanes, what tiles leave is covered: one more tile that ends where the
    axis does, if an element may be copied twice and there is room for it, else smaller ones.
    """
    if t.is_copy and end > lo:
        while lanes // 2 >= max(hi - end, t.fewest):
            lanes //= 2
        return hi - lanes, lanes
    return end, lanes // 2 if lanes // 2 >= t.fewest else 1


def _tile(t: Turn, lanes: int) -> Iterator[Statement]:
    """Rows of the operands, turned, then the rows of the result."""
    columns: dict[Load, list[Var]] = {}
    for k, load in enumerate(t.turned):
        rows = [Var(f"x{k}_{i}", None, load.dtype) for i in range(lanes)]
        for i, row in enumerate(rows):
            yield Let(row.name, vectorize(_moved(load, t, t.down, i), t.across.name, lanes), lanes)
        network = Network(f"y{k}_", lanes, min(lanes, GROUP_BYTES // load.dtype.bytes))
        columns[load] = network.columns(rows)
        yield from network.statements
    for j in range(lanes):

        def column(e: Expr, j: int = j) -> Expr | None:
            return columns[e][j] if isinstance(e, Load) and e in columns else None

        to, value = _moved(t.to, t, t.across, j), transform(t.value, column)
        assert isinstance(to, Load)
        yield Store(to, vectorize(_moved(value, t, t.across, j), t.down.name, lanes), lanes)


def _moved(e: Expr, t: Turn, axis: Var, by: int) -> Expr:
    return simplify(substitute(e, {axis.name: axis + by}), t.bounds) if by else e
