"""Whether a kernel has read in time what it writes over, for one distance between operand and result.

In: a kernel, an operand x, a result y, how many bytes y begins before x. Out: None, or why not. The kernel is
played in the order of its loops on a row of flags, one for every element of x: a store to y marks the element
that lies there as lost, and a load of x must find no mark. `slides` finds distances from the first and the
last time of every element instead, and nothing is shared with it, so that `check` proves what it says.

A routine is one event: it may store everything before it loads anything, unless it goes through its outermost
loop in order; then every iteration is one, or every part of it that is a routine itself. Only what it loads
to store it in the same place, element by element, does it load first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

import numpy as np

from ingot.formula.evaluate import value
from ingot.formula.expr import Array, Const, Expr, Load, Tensor, Var, children, loads, static, walk
from ingot.formula.statements import For, Statement, Store, body_of, flatten, loaded
from ingot.loops.program import Kernel

MOST_PLACES = 1 << 23  # elements of all accesses that are worth their memory


class UnknownError(Exception):
    """An access whose place the loops do not tell."""


def has_routines(kernel: Kernel) -> bool:
    """Whether the kernel leaves loops to routines; else a statement loads an element before it stores it."""
    return any(isinstance(s, For) and s.routine is not None for s in flatten(kernel.body))


def lost_read(kernel: Kernel, x: Tensor, y: Tensor, distance: int) -> str | None:
    """What is wrong with y beginning `distance` bytes before x."""
    if x.type.bytes != y.type.bytes or distance % x.type.bytes:
        return "elements lie across each other"
    try:
        events = _events(kernel.body, (), _Pair(x, y, distance // x.type.bytes))
    except UnknownError as error:
        return str(error)
    lost = np.zeros(x.count + 2, bool)  # then a place that is never lost, and one that nobody reads
    return None if _play(events, (), lost) else "an element is read after its bytes were written"


@dataclass(frozen=True, slots=True)
class _Pair:
    """Operand and result, and how many elements the result begins before the operand."""

    x: Tensor
    y: Tensor
    before: int


@dataclass(frozen=True, slots=True)
class _Touch:
    """An access: numbers of elements of x, one axis for each loop around it (of extent 1 where it stands
    still) and one for the lanes. `is_replaced`: what is loaded is what the same statement stores there.
    """

    is_store: bool
    is_replaced: bool
    places: Array


@dataclass(frozen=True, slots=True)
class _Event:
    """Accesses in any order."""

    touches: tuple[_Touch, ...]


@dataclass(frozen=True, slots=True)
class _Turns:
    """A loop whose iterations follow each other."""

    count: int
    body: tuple[_Event | _Turns, ...]


def _play(steps: tuple[_Event | _Turns, ...], turn: tuple[int, ...], lost: Array) -> bool:
    """Whether every load finds its element; marks what is stored."""
    for step in steps:
        if isinstance(step, _Turns):
            if not all(_play(step.body, (*turn, n), lost) for n in range(step.count)):
                return False
            continue
        now = [(t, _at(t.places, turn)) for t in step.touches]
        stored = [places.ravel() for t, places in now if t.is_store]
        if any(lost[places].any() for t, places in now if t.is_replaced) or not _is_once(now, stored):
            return False
        for places in stored:
            lost[places] = True
        if any(lost[places].any() for t, places in now if not t.is_store and not t.is_replaced):
            return False
    return True


def _is_once(now: list[tuple[_Touch, Array]], stored: list[Array]) -> bool:
    """Whether no element is stored twice, where some are replaced."""
    if not stored or not any(t.is_replaced for t, _ in now):
        return True
    every = np.concatenate(stored)
    return len(np.unique(every)) == len(every)


def _at(places: Array, turn: tuple[int, ...]) -> Array:
    return np.asarray(places[tuple(min(n, places.shape[i] - 1) for i, n in enumerate(turn))])


# -- from statements to events


def _events(body: tuple[Statement, ...], loops: tuple[For, ...], pair: _Pair) -> tuple[_Event | _Turns, ...]:
    return tuple(step for s in body for step in _steps(s, loops, pair))


def _steps(s: Statement, loops: tuple[For, ...], pair: _Pair) -> Iterator[_Event | _Turns]:
    """What a statement does, one after the other; nothing where it touches neither x nor y."""
    if isinstance(s, For) and not s.is_done_at_once:
        inside = _events(s.body, (*loops, s), pair)
        if inside:
            yield _Turns(len(_range(s)), inside)
    elif isinstance(s, For) and s.routine is not None and s.routine.in_order:
        touches = tuple(t for b in s.body for t in _touches(b, (*loops, s), pair))
        if touches:
            yield _Turns(len(_range(s)), (_Event(touches),))
    elif isinstance(s, For):
        touches = tuple(_touches(s, loops, pair))
        yield from (_Event(touches),) if touches else ()
    else:
        own = tuple(_own(s, loops, pair))
        reads, writes = (tuple(t for t in own if t.is_store is kind) for kind in (False, True))
        yield from (_Event(part) for part in (reads, writes) if part)
        yield from _events(body_of(s), loops, pair)


def _touches(s: Statement, loops: tuple[For, ...], pair: _Pair) -> Iterator[_Touch]:
    """All accesses of a statement and of those inside it."""
    yield from _own(s, loops, pair)
    inner = (*loops, s) if isinstance(s, For) else loops
    for b in body_of(s):
        yield from _touches(b, inner, pair)


def _own(s: Statement, loops: tuple[For, ...], pair: _Pair) -> Iterator[_Touch]:
    """The accesses of a statement itself; a routine is told addresses, and loads nothing by that."""
    found = [] if isinstance(s, For) else [n for e in loaded(s) for n in loads(e)]
    target = s.to if isinstance(s, Store) and s.to.tensor is pair.y else None
    for load in found:
        if load.tensor is pair.y:
            raise UnknownError("the result is read")
        if load.tensor is pair.x:
            same = target is not None and pair.before == 0 and load.index == target.index
            same = same and all(len(_range(f)) == 1 for f in loops if not _moves(f, load))
            yield _Touch(False, same, _places(load, load.lanes, loops, 0, pair.x))
    if isinstance(s, Store) and s.to.tensor is pair.x:
        raise UnknownError("the operand is written")
    if target is not None and isinstance(s, Store):
        yield _Touch(True, False, _places(target, s.lanes, loops, pair.before, pair.x))


def _range(f: For) -> range:
    if not isinstance(f.lo, Const) or not isinstance(f.hi, Const):
        raise UnknownError("a loop's limits are not constant")
    return range(int(f.lo.value), int(f.hi.value), f.step)


def _moves(f: For, at: Load) -> bool:
    return any(isinstance(n, Var) and n.name == f.var for i in at.index for n in walk(i))


def _places(at: Load, lanes: int, loops: tuple[For, ...], before: int, x: Tensor) -> Array:
    """The elements of x that lie where an access goes; two further numbers stand for those that do not exist:
    one for loads, one for stores.
    """
    sizes = [len(_range(f)) if _moves(f, at) else 1 for f in loops]
    if prod(sizes) * lanes > MOST_PLACES:
        raise UnknownError("the accesses are too many to be followed")
    axes = np.ix_(*(np.arange(n, dtype=np.int64) for n in (*sizes, lanes)))
    grid = {
        f.var: axis * f.step + _range(f).start for f, axis in zip(loops, axes, strict=False) if _moves(f, at)
    }
    number: Array = np.zeros((*sizes, lanes), np.int64)
    exists: Array = np.ones((*sizes, lanes), bool)
    stride = 1
    for d in reversed(range(at.tensor.rank)):
        index = _index(at.index[d], grid)
        lane = axes[-1] if d == at.tensor.lane_axis else 0
        exists &= (index + lane >= 0) & (index + lane < static(at.tensor.shape[d]))
        number += (index + lane) * stride
        stride *= static(at.tensor.shape[d])
    is_store = at.tensor is not x
    number -= before
    exists &= (number >= 0) & (number < x.count)
    return np.where(exists, number, x.count + is_store).astype(np.int32)


def _index(e: Expr, grid: dict[str, Array]) -> Array:
    for n in walk(e):
        if isinstance(n, Load) or not (children(n) or isinstance(n, Const | Var)):
            raise UnknownError("an index depends on data")
        if isinstance(n, Var) and n.name not in grid:
            raise UnknownError("an index depends on data")
    return np.asarray(value(e, {}, grid), np.int64)
