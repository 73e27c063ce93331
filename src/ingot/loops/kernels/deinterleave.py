"""Maps of elements side by side to a few planes, as pictures leave cameras: red, green and blue.

    y[c, i] = value(x[i, c]) for c < 3        x0 = |a i r b|  x1 = |j s c k|  x2 = |t d l u|
                                              y  = |a b c d|  |i j k l|  |r s t u|

As many vectors as there are planes are loaded as they lie; the vector of each plane is picked from them by
shuffles, mapped and stored. In: a stage that maps elements to elements. Out: statements, or None if it is not
that.
"""

from __future__ import annotations

from collections.abc import Iterator

from ingot.formula.compute import Compute
from ingot.formula.expr import Const, Expr, Load, Var, loads, static, substitute, transform
from ingot.formula.index import Bounds, simplify
from ingot.formula.statements import Let, Statement, Store
from ingot.loops.access import NotVectorizable, step, vectorize
from ingot.loops.kernels.interleave import MOST_PLANES, along, picked
from ingot.loops.kernels.transpose import Turn, turn
from ingot.loops.layout import Storage
from ingot.targets.record import Target


def deinterleave(
    c: Compute, storage: Storage, target: Target, bounds: Bounds
) -> tuple[Statement, ...] | None:
    """Statements for a map to few planes, or None."""
    found = turn(c, storage, target, bounds)
    if found is None or not _is_interleaved(found):
        return None
    try:
        return tuple(_loops(found, target.lanes(c.out.type.bytes)))
    except NotVectorizable:
        return None


def _is_interleaved(t: Turn) -> bool:
    """Whether few elements of what is read lie side by side for each of a plane, of the result's type."""
    planes = static(t.across.extent)
    beside = all(step(x, t.down.name) == planes and x.tensor.pitch is None for x in t.turned)
    return 2 <= planes <= MOST_PLANES and beside and all(x.dtype is t.to.dtype for x in loads(t.value))


def _loops(t: Turn, lanes: int) -> Iterator[Statement]:
    return along(t, t.down, lanes, lambda width: _group(t, width) if width > 1 else _points(t))


def _points(t: Turn) -> Iterator[Statement]:
    for p in range(static(t.across.extent)):
        yield _stored(t, p, t.value, 1)


def _group(t: Turn, lanes: int) -> Iterator[Statement]:
    """As many elements of each plane as a vector has lanes."""
    planes = static(t.across.extent)
    registers: dict[Load, list[Var]] = {}
    for k, load in enumerate(t.turned):
        registers[load] = [Var(f"x{k}_{j}", None, load.dtype) for j in range(planes)]
        for j, register in enumerate(registers[load]):
            point, plane = divmod(j * lanes, planes)
            row = vectorize(substitute(load, {t.down.name: t.down + point}), t.across.name, lanes)
            yield Let(
                register.name, simplify(substitute(row, {t.across.name: Const(plane)}), t.bounds), lanes
            )
    for p in range(planes):
        columns: dict[Expr, Expr] = {}
        for k, (load, held) in enumerate(registers.items()):
            columns[load] = Var(f"y{k}_{p}", None, load.dtype)
            places = [divmod(p + i * planes, lanes) for i in range(lanes)]
            yield Let(f"y{k}_{p}", picked(held, places), lanes)
        yield _stored(t, p, transform(t.value, columns.get), lanes)


def _stored(t: Turn, plane: int, value: Expr, lanes: int) -> Store:
    """A store of elements of one plane."""
    at = {t.across.name: Const(plane)}
    made = vectorize(substitute(value, at), t.down.name, lanes)
    return Store(simplify(substitute(t.to, at), t.bounds), simplify(made, t.bounds), lanes)
