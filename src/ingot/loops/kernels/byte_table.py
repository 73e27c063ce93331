"""Tables of 256 entries, looked up by vectors of bytes.

    y[i] = table[x[i]]      ->      low = x & 63; x2 = x + x
                                    y0 = x2 < 0 ? pick(table[64 .. 128], low) : pick(table[0 .. 64], low)
                                    y1 = x2 < 0 ? pick(table[192 .. 256], low) : pick(table[128 .. 192], low)
                                    y = x < 0 ? y1 : y0

Registers pick among as many entries as their instruction has, by the low bits of each byte; the others select
between what was picked, the highest first, each as the sign of the byte doubled so often. A target that
gathers bytes has the table in memory. In: a stage that maps bytes to bytes by a table. Out: statements with
vectors, or None where the target picks no bytes or rows are shorter than a vector.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from itertools import count as count_from
from itertools import pairwise

import numpy as np

from ingot.formula.compute import Compute
from ingot.formula.expr import (
    Binary,
    Bitcast,
    Const,
    Expr,
    Load,
    Pick,
    Select,
    Tensor,
    Var,
    loads,
    static,
    with_lanes,
)
from ingot.formula.index import Bounds, interval, simplify
from ingot.formula.statements import For, Let, Statement, Store
from ingot.formula.types import INT8, UINT8
from ingot.loops.access import step
from ingot.loops.axes import normal_axes
from ingot.loops.kernels.joint_axes import join
from ingot.loops.kernels.naive import nested
from ingot.loops.layout import Storage, bind, destination
from ingot.loops.lookup import BYTES, looked_up
from ingot.targets.record import Target

ENTRIES = 256
PICKS = ((64, 2), (16, 4), (16, 1))
"""Lanes of a register and how many of them an instruction looks into, the most first."""
GATHERED = 16
"""Bytes of a vector that gathers."""


@dataclass(frozen=True, slots=True)
class _Lookup:
    """A matched stage: loads bound to physical tensors, the axes around the one that vectors go along."""

    to: Load
    table: Tensor
    x: Load
    along: Var
    outer: tuple[Var, ...]


def byte_table(c: Compute, storage: Storage, target: Target, bounds: Bounds) -> tuple[Statement, ...] | None:
    """Statements for a map by a table, or None."""
    ways = _ways(target)
    found = _match(c, storage, bounds) if ways else None
    if found is None:
        return None
    loops, done, n = list[Statement](), 0, static(found.along.extent)
    for lanes, pick in ways:
        if (end := n - (n - done) % lanes) > done:
            body = tuple(_vector(found, storage, lanes, pick))
            loops.append(For(found.along.name, Const(done), Const(end), lanes, body))
            done = end
    if done == 0:
        return None
    if done < n:
        entry = Store(found.to, looked_up(found.table, found.x))
        loops.append(For(found.along.name, Const(done), Const(n), 1, (entry,)))
    return nested(found.outer, loops)


def _match(c: Compute, storage: Storage, bounds: Bounds) -> _Lookup | None:
    """The stage, if it is such a map and its elements lie side by side along some axis."""
    c = normal_axes(c)
    if c.reduction is not None or not all(isinstance(a.extent, int) for a in c.axes):
        return None
    inner = {**bounds, **{a.name: interval(a) for a in c.axes}}
    to, value = destination(c, storage, inner), bind(c.value, storage, inner)
    if not isinstance(value, Load) or value.tensor.value is None or value.tensor.shape != (ENTRIES,):
        return None
    x = next(iter(loads(value.index[0])), None)
    if x is None or x.tensor.type not in BYTES or value.tensor.type not in BYTES:
        return None
    along = next((a for a in c.axes if step(to, a.name) == step(x, a.name) == 1), None)
    if along is None or simplify(looked_up(value.tensor, x), inner) != value:
        return None
    outer = [a for a in c.axes if a is not along]
    while outer and (joint := join(outer[-1], along, (to, x), storage, inner)) is not None:
        along, moved = joint
        to, x = (e for e in moved if isinstance(e, Load))
        inner = {**inner, along.name: interval(along)}
        outer.pop()
    return _Lookup(to, value.tensor, x, along, tuple(outer))


def _ways(target: Target) -> list[tuple[int, tuple[int, int] | None]]:
    """Lanes of the vectors that look up, the widest first, and which of PICKS each has; None: they gather."""
    if target.spelling("gather", "uint8", GATHERED):
        return [(GATHERED, None)]
    widths = [w for w in (64, 32, 16) if w <= target.vector_bytes]
    found = ((w, next((p for p in PICKS if _is_spelled(p, w, target)), None)) for w in widths)
    return [(width, pick) for width, pick in found if pick is not None]


def _is_spelled(pick: tuple[int, int], lanes: int, target: Target) -> bool:
    return target.spelling(f"pick{pick[0] * pick[1]}", "uint8", lanes) is not None


def _vector(s: _Lookup, storage: Storage, lanes: int, pick: tuple[int, int] | None) -> Iterator[Statement]:
    """One vector of bytes looked up and stored."""
    x = with_lanes(s.x, lanes)
    yield Let("x", Bitcast(x, INT8) if x.dtype is UINT8 else x, lanes)
    yield from _gathered(s, storage, lanes) if pick is None else _picked(s, storage, lanes, pick)


def _picked(s: _Lookup, storage: Storage, lanes: int, pick: tuple[int, int]) -> Iterator[Statement]:
    """Entries picked by the low bits of the bytes, and one of them for each byte by its high bits."""
    width, count = pick
    group = width * count
    levels = (ENTRIES // group).bit_length() - 1
    table = _by_bits(s, storage)
    low = Var("low", None, INT8)
    yield Let("low", Var("x", None, INT8) & Const(group - 1, INT8), lanes)
    names = ["x", *(f"x{1 << k}" for k in range(1, levels))]
    for old, new in pairwise(names):
        yield Let(new, Var(old, None, INT8) + Var(old, None, INT8), lanes)

    numbers = count_from(0)

    def chosen(first: int, signs: list[str]) -> Generator[Statement, None, Expr]:
        """What the bits that signs tell choose from the entries from `first` on."""
        if not signs:
            places = range(first, first + group, width)
            return Pick(tuple(Load(table, (Const(k),), lanes=width) for k in places), low)
        half = group << len(signs) - 1
        lower = yield from chosen(first, signs[1:])
        upper = yield from chosen(first + half, signs[1:])
        name = f"y{next(numbers)}"
        is_set = Binary("lt", Var(signs[0], None, INT8), Const(0, INT8))
        yield Let(name, Select(is_set, upper, lower), lanes)
        return Var(name, None, UINT8)

    found = yield from chosen(0, names)
    yield _stored(s, found, lanes)


def _gathered(s: _Lookup, storage: Storage, lanes: int) -> Iterator[Statement]:
    """Entries that the target reads from memory, all lanes at once."""
    whole = Load(_by_bits(s, storage), (Const(0),), lanes=ENTRIES)
    yield _stored(s, Pick((whole,), Bitcast(Var("x", None, INT8), UINT8)), lanes)


def _by_bits(s: _Lookup, storage: Storage) -> Tensor:
    """The entries as bytes without a sign, in the order of bytes without one."""
    turn = ENTRIES // 2 if s.x.tensor.type is INT8 else 0
    return storage.derived(s.table, ("by bits", turn), lambda t: np.roll(t, turn).view(np.uint8), UINT8)


def _stored(s: _Lookup, value: Expr, lanes: int) -> Store:
    return Store(s.to, Bitcast(value, INT8) if s.to.tensor.type is INT8 else value, lanes)
