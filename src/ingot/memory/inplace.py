"""Which operand of a kernel its result may overwrite, element by element.

    y[i] = relu(x[i])         y[oh, ow, oc] = conv(...) + s[oh, ow, oc]
    ->  y may stand where x (or s) stands

In: a kernel. Out: pairs of parameters (x, y). x is loaded only in the values of stores to y, each time at the
very element that is stored; no element of y is stored twice; so every element of x is read for the last time
just before it is replaced. Nothing is concluded from names or operators, only from the statements. `share`
asks about the calls where it matters.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ingot.formula.evaluate import value
from ingot.formula.expr import Array, Const, Expr, Load, Tensor, Var, children, loads, walk
from ingot.formula.index import linear
from ingot.formula.statements import For, Statement, Store, body_of, expressions, flatten
from ingot.loops.access import strides
from ingot.loops.program import Kernel

Pair = tuple[Tensor, Tensor]
MOST_STORES = 1 << 25  # elements whose stores are counted one by one; beyond it nothing is overwritten


def overwritable(kernel: Kernel) -> frozenset[Pair]:
    """The pairs (x, y) of parameters such that y may be written over x."""
    pairs = _aligned_pairs(kernel)
    nests: dict[Tensor, list[_Nest]] = {y: [] for _, y in pairs}
    for n in _nests(kernel.body) if pairs else ():
        if n.store.to.tensor in nests:
            nests[n.store.to.tensor].append(n)
    once = {y for y, found in nests.items() if _stored_once(found, y)}
    return frozenset(pair for pair in pairs if pair[1] in once)


def _aligned_pairs(kernel: Kernel) -> list[Pair]:
    """Pairs where every load of x stands in a store to y at the same element."""
    users: dict[Tensor, set[Tensor]] = {}
    spoiled: set[Tensor] = set()
    for s in flatten(kernel.body):
        if not isinstance(s, Store):
            spoiled.update(load.tensor for e in _read(s) for load in loads(e))
            continue
        spoiled.add(s.to.tensor)
        spoiled.update(load.tensor for i in s.to.index for load in loads(i))
        for load in loads(s.value):
            if _same_place(load, s):
                users.setdefault(load.tensor, set()).add(s.to.tensor)
            else:
                spoiled.add(load.tensor)
    only = [(x, next(iter(ys))) for x, ys in users.items() if len(ys) == 1 and x not in spoiled]
    whole = [(x, y) for x, y in only if x.pitch is None and y.pitch is None]  # no corner of something larger
    return [(x, y) for x, y in whole if x.type is y.type and x.shape == y.shape and x.value is None]


def _read(s: Statement) -> tuple[Expr, ...]:
    """What a statement reads, but the first accesses of a routine, which its loop tells of like all others.

    It reads an element before it writes it, in whatever order it takes them.
    """
    return (s.lo, s.hi) if isinstance(s, For) else expressions(s)


def _same_place(load: Load, s: Store) -> bool:
    if load.outside is not None or load.lanes != s.lanes or load.tensor.shape != s.to.tensor.shape:
        return False
    return all(a == b or not linear(a - b) for a, b in zip(load.index, s.to.index, strict=True))


@dataclass(frozen=True, slots=True)
class _Nest:
    """A store and the loops around it."""

    loops: tuple[For, ...]
    store: Store


def _nests(body: tuple[Statement, ...], loops: tuple[For, ...] = ()) -> Iterator[_Nest]:
    for s in body:
        if isinstance(s, Store):
            yield _Nest(loops, s)
        yield from _nests(body_of(s), (*loops, s) if isinstance(s, For) else loops)


def _stored_once(nests: list[_Nest], y: Tensor) -> bool:
    """Whether no element of y is stored twice by all its stores: seen from a plain one, or counted."""
    return (len(nests) == 1 and _is_plain(nests[0])) or _counted_once(nests, y)


def _is_plain(n: _Nest) -> bool:
    """One index per loop and one loop per index: y[i, j] for i, for j, whatever the extents."""
    steps = {f.var: f.step for f in n.loops}
    index = [i for i in n.store.to.index if not isinstance(i, Const)]
    names = [i.name for i in index if isinstance(i, Var)]
    if len(names) < len(index) or sorted(names) != sorted(steps) or len(steps) < len(n.loops):
        return False
    if n.store.lanes == 1:
        return True
    last = n.store.to.index[n.store.to.tensor.lane_axis]
    if isinstance(last, Const):  # one vector is all there is along that axis
        return True
    return last == Var(names[-1]) and steps[names[-1]] == n.store.lanes


def _counted_once(nests: list[_Nest], y: Tensor) -> bool:
    """Proof by exhaustion: mark every element stored. Needs constant limits and indices of loop variables."""
    if strides(y) is None or sum(map(_trips, nests)) > MOST_STORES:
        return False
    marks = np.zeros(y.count, np.uint8)
    for n in nests:
        places = _places(n, y)
        if places is None or not places.size or int(places.min()) < 0 or int(places.max()) >= y.count:
            return False
        if np.bincount(places, minlength=1).max() > 1 or marks[places].any():
            return False
        marks[places] = 1
    return True


def _trips(n: _Nest) -> int:
    """How many elements a nest stores; more than is ever counted where a loop's limits are not constants."""
    total = n.store.lanes
    for f in n.loops:
        if not isinstance(f.lo, Const) or not isinstance(f.hi, Const):
            return MOST_STORES + 1
        total *= max(0, -((int(f.lo.value) - int(f.hi.value)) // f.step))
    return total


def _places(n: _Nest, y: Tensor) -> Array | None:
    """The elements of y that a nest stores, one entry per store."""
    # the limits are constants: `_trips` counted them
    ranges = [range(int(f.lo.value), int(f.hi.value), f.step) for f in n.loops]  # type: ignore[attr-defined]
    names = [f.var for f in n.loops]
    if len(set(names)) < len(names) or not all(_depends_on(i, names) for i in n.store.to.index):
        return None
    shape = tuple(map(len, ranges))
    axes = np.ix_(*(np.arange(r.start, r.stop, r.step, dtype=np.int64) for r in ranges))
    grid = dict(zip(names, axes, strict=True))
    sizes = strides(y)
    assert sizes is not None
    flat = np.zeros((*shape, n.store.lanes), np.int64) + np.arange(n.store.lanes)
    for i, size in zip(n.store.to.index, sizes, strict=True):
        flat += np.broadcast_to(value(i, {}, grid), shape)[..., None] * size
    return flat.ravel()


def _depends_on(e: Expr, names: list[str]) -> bool:
    """Whether an index is made of constants and the given variables only."""
    return all(
        children(n) or isinstance(n, Const) or (isinstance(n, Var) and n.name in names) for n in walk(e)
    )
