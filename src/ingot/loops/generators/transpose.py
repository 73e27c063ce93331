"""The transpose generator: maps whose result is contiguous along one axis, an operand along another.

    y[i, j] = x[j, i]      as square tiles: rows of x in vector registers, turned there, stored as rows of y

In: a stage that maps elements to elements. Out: statements, or None if no operand has to be turned. Tiles are
as large as a vector; what is left over is done in smaller tiles, and in the end one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ingot.formula.compute import Compute
from ingot.formula.expr import Const, Expr, Load, Shuffle, Var, loads, static, substitute, transform
from ingot.formula.index import Bounds, as_expr, interval, simplify
from ingot.formula.statements import For, Let, Statement, Store
from ingot.loops.access import NotVectorizable, step, vectorize
from ingot.loops.axes import normal_axes
from ingot.loops.generators.vertical import has_vector_form
from ingot.loops.layout import Storage, bind
from ingot.targets.record import Target

GROUP_BYTES = 16  # what instruction sets shuffle freely; wider vectors are several such groups


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


def transpose(c: Compute, storage: Storage, target: Target, bounds: Bounds) -> tuple[Statement, ...] | None:
    """Statements for a map that turns an operand, or None."""
    t = c.out.type
    if target.vector_bytes == 0 or c.reduction is not None or not t.is_float or t.compute is not t:
        return None
    found = match(normal_axes(c), storage, bounds)
    if found is None:
        return None
    lanes = target.lanes(t.bytes)
    while lanes > min(static(found.down.extent), static(found.across.extent)):
        lanes //= 2
    try:
        return tuple(_nest(found, lanes)) if lanes * t.bytes >= GROUP_BYTES else None
    except NotVectorizable:
        return None


def match(c: Compute, storage: Storage, bounds: Bounds) -> Turn | None:
    """Bind the stage; every operand moves by one, or not at all, along `down` or, those to turn, `across`."""
    if not c.axes or not all(isinstance(a.extent, int) for a in c.axes):
        return None
    inner = {**bounds, **{a.name: interval(a) for a in c.axes}}
    index = storage.layout(c.out).index(tuple(simplify(bind(i, storage, inner), inner) for i in c.index))
    to = Load(storage.tensor(c.out), tuple(simplify(i, inner) for i in index))
    value = bind(c.value, storage, inner)
    down = next((a for a in c.axes if step(to, a.name) == 1), None)
    if down is None or not has_vector_form(value):
        return None
    turned = tuple(dict.fromkeys(x for x in loads(value) if step(x, down.name) not in (0, 1)))
    across = [a for a in c.axes if turned and all(step(x, a.name) == 1 for x in turned)]
    if not across or across[0] is down:
        return None
    outer = tuple(a for a in c.axes if a not in (down, across[0]))
    return Turn(to, value, turned, down, across[0], outer, inner)


def _nest(t: Turn, lanes: int) -> Iterator[Statement]:
    nest = tuple(_cover(t, lanes, (0, static(t.down.extent)), (0, static(t.across.extent))))
    for a in reversed(t.outer):
        nest = (For(a.name, Const(0), as_expr(a.extent or 0), 1, nest),)
    yield from nest


def _cover(t: Turn, lanes: int, down: tuple[int, int], across: tuple[int, int]) -> Iterator[Statement]:
    """Tiles of lanes x lanes over a rectangle, smaller ones over what they leave at its edges."""
    ends = [lo + (hi - lo) // lanes * lanes for lo, hi in (down, across)]
    if ends[0] > down[0] and ends[1] > across[0]:
        body = tuple(_tile(t, lanes) if lanes > 1 else (Store(t.to, t.value),))
        inner = For(t.across.name, Const(across[0]), Const(ends[1]), lanes, body)
        yield For(t.down.name, Const(down[0]), Const(ends[0]), lanes, (inner,))
    less = lanes // 2 if lanes // 2 * t.to.dtype.bytes >= GROUP_BYTES else 1
    if ends[0] > down[0] and across[1] > ends[1]:
        yield from _cover(t, less, (down[0], ends[0]), (ends[1], across[1]))
    if down[1] > ends[0]:
        yield from _cover(t, less, (ends[0], down[1]), across)


def _tile(t: Turn, lanes: int) -> Iterator[Statement]:
    """Rows of the operands, turned, then the rows of the result."""
    columns: dict[Load, list[Var]] = {}
    for k, load in enumerate(t.turned):
        rows = [Var(f"x{k}_{i}", None, load.dtype) for i in range(lanes)]
        for i, row in enumerate(rows):
            yield Let(row.name, vectorize(_moved(load, t, t.down, i), t.across.name, lanes), lanes)
        network = _Network(f"y{k}_", lanes, GROUP_BYTES // load.dtype.bytes)
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


@dataclass(slots=True)
class _Network:
    """The shuffles that turn a square of `lanes` rows; each result is a register `name`N.

    Within groups of 16 bytes rows are interleaved, by ones, then by twos; then whole groups change places.
    """

    name: str
    lanes: int
    group: int
    statements: list[Statement] = field(default_factory=list)

    def columns(self, rows: list[Var]) -> list[Var]:
        g = self.group
        blocks = [self.interleaved(rows[i : i + g], 1) for i in range(0, self.lanes, g)]
        across = [self.exchanged([block[c] for block in blocks]) for c in range(g)]
        return [across[i % g][i // g] for i in range(self.lanes)]

    def interleaved(self, rows: list[Var], unit: int) -> list[Var]:
        """Columns of a square of group x group elements, for every group of the vectors."""
        if len(rows) == 1:
            return rows
        pairs = list(zip(rows[::2], rows[1::2], strict=True))
        low, high = ([self.mixed(a, b, unit, half) for a, b in pairs] for half in (0, 1))
        return [*self.interleaved(low, 2 * unit), *self.interleaved(high, 2 * unit)]

    def mixed(self, a: Var, b: Var, unit: int, half: int) -> Var:
        """By turns `unit` elements of a and b, from the lower or upper half of each group."""
        index = []
        for lo in range(0, self.lanes, self.group):
            for i in range(lo + half * self.group // 2, lo + (half + 1) * self.group // 2, unit):
                index += [*range(i, i + unit), *range(self.lanes + i, self.lanes + i + unit)]
        return self.shuffled(a, b, index)

    def exchanged(self, parts: list[Var]) -> list[Var]:
        """Vector i of the result has the i-th group of each vector."""
        if len(parts) == 1:
            return parts
        pairs = list(zip(parts[::2], parts[1::2], strict=True))
        even, odd = (self.exchanged([self.picked(a, b, parity) for a, b in pairs]) for parity in (0, 1))
        return [v for both in zip(even, odd, strict=True) for v in both]

    def picked(self, a: Var, b: Var, parity: int) -> Var:
        """Every second group of a, then of b."""
        starts = range(parity * self.group, 2 * self.lanes, 2 * self.group)
        return self.shuffled(a, b, [i for lo in starts for i in range(lo, lo + self.group)])

    def shuffled(self, a: Var, b: Var, index: list[int]) -> Var:
        name = f"{self.name}{len(self.statements)}"
        self.statements.append(Let(name, Shuffle(a, b, tuple(index)), self.lanes))
        return Var(name, None, a.dtype)
