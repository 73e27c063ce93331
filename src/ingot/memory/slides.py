"""How far before an operand a result may begin, where a kernel has read in time what it writes over.

    y[p][c] = products of x[p][..], pair of points after pair            x   ........
    ->  y may begin before x, a pair of results or more                  y ........

In: a kernel, an operand x and a result y of bytes. Out: a `Slide`, the distances of x from y that are safe,
or None. Every element of x has a time at which it is read last, every element of y one at which it is written
first; y may stand wherever no element is written before what lies there is read. Times are counted from the
loops; a routine is assumed to write all its results before it reads its operands, or where it goes through
its outermost loop in order (`Routine.in_order`) those of an iteration, or of a part of it that is a routine
itself. Only kernels that hand both tensors to routines are asked: to these, parameters without `restrict`
cost nothing. Called by `plan`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import lcm, prod

import numpy as np

from ingot.formula.evaluate import value
from ingot.formula.expr import Array, Const, Expr, Load, Tensor, Var, children, loads, static, walk
from ingot.formula.index import mentions
from ingot.formula.statements import For, Statement, Store, body_of, flatten, loaded
from ingot.loops.access import strides
from ingot.loops.program import Kernel
from ingot.memory.tree import ALIGN

MOST_ACCESSES = 1 << 22  # that are followed one by one
NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Slide:
    """Safe are distances of `least` bytes and more, multiples of `period`, and none if it is `in_place`."""

    least: int | None
    period: int | None
    in_place: bool = True

    def allows(self, distance: int) -> bool:
        """Whether x may begin so many bytes behind the beginning of y."""
        if self.in_place and distance == 0:
            return True
        if self.period is not None and distance % self.period == 0:
            return True
        return self.least is not None and distance >= self.least


def slide(kernel: Kernel, x: Tensor, y: Tensor) -> Slide | None:
    """The distances from y to x that are safe in a kernel; None where there are none, or nobody knows."""
    if not _is_asked(kernel, x, y):
        return None
    every = list(_accesses(kernel.body, 0, ())) if _is_counted(kernel.body) else []
    mine = [a for a in every if a.at.tensor is (y if a.is_store else x)]
    if any(a.at.tensor is y and not a.is_store for a in every) or not all(map(_is_known, mine)):
        return None
    if not 0 < sum(map(_count, mine)) <= MOST_ACCESSES:
        return None
    read, written = np.full(x.count, -1, np.int64), np.full(y.count, NEVER, np.int64)
    for a in mine:
        if a.is_store:
            np.minimum.at(written, *_times(a))
        else:
            np.maximum.at(read, *_times(a))
    return _safe(read, written, static(y.shape[-1]))


def _is_asked(kernel: Kernel, x: Tensor, y: Tensor) -> bool:
    """Whether both are bytes, dense and handed to routines, and x is only read."""
    if x in kernel.written or x.type.bytes != 1 or y.type.bytes != 1 or not y.rank:
        return False
    if any(t.pitch is not None or t.packed is not None or strides(t) is None for t in (x, y)):
        return False
    told = {
        a.tensor
        for s in flatten(kernel.body)
        if isinstance(s, For) and s.routine
        for a in s.routine.arguments
    }
    return {x, y} <= told


def _safe(read: Array, written: Array, channels: int) -> Slide | None:
    """From the times at which elements are read last and written first."""
    order = np.argsort(written, kind="stable")
    furthest = np.concatenate([[-1], np.maximum.accumulate(order)])  # of so many that are written first
    before = furthest[np.searchsorted(written[order], read)]
    reach = max(int((before - np.arange(len(read)))[read >= 0].max(initial=-1)) + 1, 0)
    least = -(-reach // ALIGN) * ALIGN
    period = lcm(ALIGN, channels)
    in_turns = _ends(written, period, np.minimum, NEVER) >= _ends(read, period, np.maximum, -1)
    common = min(len(read), len(written))
    in_place = bool((read[:common] <= written[:common]).all())
    found = Slide(least if least < len(written) else None, period if in_turns.all() else None, in_place)
    return None if found == Slide(None, None, False) else found


def _ends(times: Array, period: int, take: np.ufunc, none: int) -> Array:
    """Of the elements of each residue the first time, or the last."""
    short = -len(times) % period
    rows = np.concatenate([times, np.full(short, none, np.int64)]).reshape(-1, period)
    return np.asarray(take.reduce(rows))


# -- the times of accesses


@dataclass(frozen=True, slots=True)
class _Around:
    """A loop around an access, and the times that an iteration takes."""

    loop: For
    time: int

    @property
    def places(self) -> range:
        assert isinstance(self.loop.lo, Const) and isinstance(self.loop.hi, Const)
        return range(int(self.loop.lo.value), int(self.loop.hi.value), self.loop.step)


@dataclass(frozen=True, slots=True)
class _Access:
    """A load or a store in its loops, the first of which begins at a time."""

    at: Load
    lanes: int
    is_store: bool
    start: int
    around: tuple[_Around, ...]


def _is_counted(body: tuple[Statement, ...]) -> bool:
    """Whether all loops have constant limits."""
    loops = (s for s in flatten(body) if isinstance(s, For))
    return all(isinstance(f.lo, Const) and isinstance(f.hi, Const) for f in loops)


def _duration(s: Statement) -> int:
    """How many times a statement takes: one to read and one to write, in either order."""
    if not isinstance(s, For):
        return 2 + sum(map(_duration, body_of(s)))
    if s.routine is not None and not s.routine.in_order:
        return 2
    return len(_Around(s, 0).places) * _each(s)


def _each(s: For) -> int:
    """The times of an iteration."""
    return 2 if s.is_done_at_once else sum(map(_duration, s.body))


def _accesses(
    body: tuple[Statement, ...], start: int, around: tuple[_Around, ...], inside: bool = False
) -> Iterator[_Access]:
    """All loads and stores; those inside a routine happen at once."""
    for s in body:
        yield from (
            _Access(n, n.lanes, False, start + inside, around) for e in loaded(s) for n in _performed(s, e)
        )
        if isinstance(s, Store):
            yield _Access(s.to, s.lanes, True, start + (not inside), around)
        if isinstance(s, For):
            is_passed = not inside and (s.routine is None or s.routine.in_order)
            more = (*around, _Around(s, _each(s) if is_passed else 0))
            yield from _accesses(s.body, start, more, inside or s.is_done_at_once)
        else:
            yield from _accesses(body_of(s), start + 2 * (not inside), around, inside)
        start += 0 if inside else _duration(s)


def _performed(s: Statement, e: Expr) -> Iterator[Load]:
    """The loads of an expression; what a routine is given are addresses."""
    return iter(()) if isinstance(s, For) else loads(e)


def _is_known(a: _Access) -> bool:
    """Whether its place is told by loops that have names of their own."""
    names = [r.loop.var for r in a.around]
    parts = (n for i in a.at.index for n in walk(i) if not children(n))
    return len(set(names)) == len(names) and all(
        isinstance(n, Const) or (isinstance(n, Var) and n.name in names) for n in parts
    )


def _moving(a: _Access) -> tuple[_Around, ...]:
    """The loops that an access moves with."""
    return tuple(r for r in a.around if any(mentions(i, r.loop.var) for i in a.at.index))


def _count(a: _Access) -> int:
    return a.lanes * prod(len(r.places) for r in _moving(a))


def _times(a: _Access) -> tuple[Array, Array]:
    """Every element that an access touches, and when: a store for the first time, a load for the last."""
    moving = _moving(a)
    shape = (*(len(r.places) for r in moving), a.lanes)
    numbers = np.ix_(*(np.arange(n, dtype=np.int64) for n in shape))
    grid = {r.loop.var: n * r.loop.step + r.places.start for r, n in zip(moving, numbers, strict=False)}
    others = (r for r in a.around if r not in moving and not a.is_store)
    times = np.full(shape, a.start + sum(r.time * (len(r.places) - 1) for r in others), np.int64)
    for r, n in zip(moving, numbers, strict=False):
        times += n * r.time
    sizes, is_there = strides(a.at.tensor), np.ones(shape, bool)
    assert sizes is not None
    flat = np.zeros(shape, np.int64) + numbers[-1]
    for i, size, extent in zip(a.at.index, sizes, a.at.tensor.shape, strict=True):
        at = np.broadcast_to(np.asarray(value(i, {}, grid)), shape)
        is_there &= (at >= 0) & (at < static(extent))  # what a condition keeps from being read
        flat += at * size
    return flat[is_there], times[is_there]
