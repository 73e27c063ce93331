"""Maps of a few planes to elements side by side, as pictures enter networks: red, green and blue.

    y[i, c] = value(x[c, i]) for c < 3        x0 = |a b c d|  x1 = |e f g h|  x2 = |i j k l|
                                              y  = |a e i b| |f j c g| |k d h l|

Each plane is mapped in vectors, where it lies, and the results are interleaved by shuffles, before they are
narrowed if they are. In: a stage that maps elements to elements. Out: statements, or None if it is not that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import reduce

from ingot.formula.compute import Compute
from ingot.formula.expr import Cast, Const, Expr, Shuffle, Var, loads, static, substitute, walk
from ingot.formula.index import Bounds, simplify
from ingot.formula.statements import For, Let, Statement, Store
from ingot.formula.types import BOOL, INDEX
from ingot.loops.access import NotVectorizable, step, vectorize
from ingot.loops.cuts import in_vectors
from ingot.loops.kernels.naive import nested
from ingot.loops.kernels.transpose import Turn, turn
from ingot.loops.layout import Storage
from ingot.loops.requantise import in_integers
from ingot.targets.record import Target

MOST_PLANES = 4


def interleave(c: Compute, storage: Storage, target: Target, bounds: Bounds) -> tuple[Statement, ...] | None:
    """Statements for a map of few planes, or None."""
    found = turn(c, storage, target, bounds)
    if found is None or not _is_interleaved(found):
        return None
    widest = max(n.dtype.bytes for n in walk(found.value) if n.dtype not in (INDEX, BOOL))
    try:
        return tuple(_loops(found, target.lanes(widest)))
    except NotVectorizable:
        return None


def _is_interleaved(t: Turn) -> bool:
    """Whether few elements lie side by side for each of a plane, all of the planes moving by one."""
    planes = static(t.down.extent)
    in_planes = all(x in t.turned or step(x, t.across.name) in (0, 1) for x in loads(t.value))
    beside = step(t.to, t.across.name) == planes and t.to.tensor.pitch is None  # vectors run across points
    return 2 <= planes <= MOST_PLANES and beside and in_planes


def _loops(t: Turn, lanes: int) -> Iterator[Statement]:
    return along(t, t.across, lanes, lambda width: _group(t, width) if width > 1 else _points(t))


def along(t: Turn, axis: Var, lanes: int, group: Callable[[int], Iterator[Statement]]) -> Iterator[Statement]:
    """Loops around groups of so many elements of an axis as vectors have lanes, in the end of fewer."""
    cuts = in_vectors(static(axis.extent), lanes, overlap=t.is_copy)
    loops = (For(axis.name, Const(lo), Const(hi), w, tuple(group(w))) for lo, hi, w in cuts if hi > lo)
    yield from nested(t.outer, tuple(loops))


def _points(t: Turn) -> Iterator[Statement]:
    for c in range(static(t.down.extent)):
        yield _stored(t, {t.down.name: Const(c)}, substitute(t.value, {t.down.name: Const(c)}), 1)


def _group(t: Turn, lanes: int) -> Iterator[Statement]:
    """As many elements of each plane as a vector has lanes, interleaved and stored."""
    planes, whole = static(t.down.extent), in_integers(t.value)
    is_narrowed = isinstance(whole, Cast) and whole.type.bytes < whole.a.dtype.bytes
    element = whole.a if isinstance(whole, Cast) and is_narrowed else whole
    for c in range(planes):
        here = simplify(substitute(element, {t.down.name: Const(c)}), t.bounds)
        yield Let(f"v{c}", vectorize(here, t.across.name, lanes), lanes)
    registers = [Var(f"v{c}", None, element.dtype) for c in range(planes)]
    for k in range(planes):
        point, plane = divmod(k * lanes, planes)
        at = {t.across.name: t.across + point, t.down.name: Const(plane)}
        places = [divmod(k * lanes + i, planes)[::-1] for i in range(lanes)]
        value = picked(registers, places)
        yield _stored(t, at, Cast(value, whole.dtype) if is_narrowed else value, lanes)


def picked(registers: Sequence[Var], places: Sequence[tuple[int, int]]) -> Expr:
    """The elements at `places`, each a register and a lane: those of each register join those before it."""
    lanes = len(places)

    def joined(so_far: Expr, n: int) -> Expr:
        kept = (
            lanes + lane if of == n else i if n > 1 else lane if of == 0 else 0
            for i, (of, lane) in enumerate(places)
        )
        return Shuffle(so_far, registers[n], tuple(kept))

    start: Expr = registers[0]
    return reduce(joined, range(1, len(registers)), start)


def _stored(t: Turn, at: dict[str, Expr], value: Expr, lanes: int) -> Store:
    return Store(simplify(substitute(t.to, at), t.bounds), simplify(value, t.bounds), lanes)
