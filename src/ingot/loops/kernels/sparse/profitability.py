"""How a product with an encoded matrix is best read: entry by entry, code by code, or as its elements.

In: a contraction whose constant is encoded. Out: the reading of the least cycles, estimated. Called by the
Chooser; products of bytes have only generators that skip zeros, and are not asked about.
"""

from __future__ import annotations

from math import prod
from typing import Literal

import numpy as np

from ingot.formula.expr import static
from ingot.loops.kernels.contraction.codes import VALUES
from ingot.loops.kernels.contraction.roles import Contraction
from ingot.loops.kernels.sparse.csc import POINTS
from ingot.loops.kernels.sparse.ways import Way, most_values, way_of
from ingot.targets.record import Target
from ingot.targets.stream import stream

Reading = Literal["entries", "codes", "elements"]
WORTH = 1.1  # how much faster the estimate has to be
NARROW_STEP, WIDE_STEP = 8, 5  # cycles of a step of two floats a row: with look-ups of two registers, of one
ENTRY_CYCLES = {1: 12.0, 4: 5.0}  # of an entry of a column, by the lanes that dense loops would have
SHARED = 0.5  # of these where several points share an entry
LOOK_UP = 1.0  # cycles of looking up a register of weights, a table of one register
ROWS = 8  # points that share a register of weights
SCALAR_MADD = 4.5  # cycles of a multiply-add of naive loops, its loads and its share of the loop
FILLED = 1.3  # entries of columns for each that is not zero


def cheapest(c: Contraction, target: Target, cold: bool) -> Reading:
    """How to read the constant: its entries only, its codes, or its elements."""
    points = prod(static(x.extent) for x in (*c.tile, *c.outer))
    dense = _dense_cycles(c, points, target, cold)
    ways: dict[Reading, float] = {
        "entries": _entry_cycles(c, points, target) * WORTH,
        "codes": _code_cycles(c, points, target, cold) * WORTH,
        "elements": dense,
    }
    return min(ways, key=lambda way: ways[way])


def _entry_cycles(c: Contraction, points: int, target: Target) -> float:
    """Of walking through what is not zero."""
    assert c.b.tensor.value is not None
    entries = int(np.count_nonzero(c.b.tensor.value))
    way = way_of(c, target)
    if way is not None and _values(c) > most_values(c, target):
        return float("inf")
    if way is not None:
        return points * _lane_cycles(c, way, entries, target)
    shared = SHARED if points >= POINTS else 1.0
    return points * entries * FILLED * ENTRY_CYCLES[4 if target.lanes(4) > 1 else 1] * shared


def _values(c: Contraction) -> int:
    assert c.b.tensor.codebook is not None
    return len(np.unique(c.b.tensor.codebook))


def _lane_cycles(c: Contraction, way: Way, entries: int, target: Target) -> float:
    """Of one point: slots that are needed, for some stay empty where rows wait for each other."""
    form = way.form
    seen = form.window * entries / max(c.channels * c.terms, 1)
    used = seen / (seen + 0.6 + 0.35 * form.slots)
    steps = entries / max(used, 1e-9) / (form.rows * form.slots)
    return steps * (WIDE_STEP if target.vector_bytes == 64 else NARROW_STEP)


def _dense_cycles(c: Contraction, points: int, target: Target, cold: bool) -> float:
    """Two multiply-adds of vectors a cycle, or the weights' way from where they are."""
    size, lanes = c.b.tensor.bytes, target.lanes(4)
    if lanes == 1:
        return points * c.channels * c.terms * SCALAR_MADD
    compute = points * -(-c.channels // lanes) * c.terms / 2
    return max(compute, size / stream(size, target, cold))


def _code_cycles(c: Contraction, points: int, target: Target, cold: bool) -> float:
    """Of looking weights up. Without vectors that costs a load and a shift more than reading them, and an
    eighth of the memory, which such targets lack: there it counts as cheaper.
    """
    dense = _dense_cycles(c, points, target, cold)
    if target.lanes(4) == 1:
        return dense / WORTH * 0.99
    if target.spelling("pick16", "float32") is None or _values(c) > VALUES:
        return float("inf")
    size, vectors = c.b.tensor.bytes, -(-c.channels // target.lanes(4)) * c.terms
    looked_up = vectors * (LOOK_UP if target.vector_bytes == 64 else 2 * LOOK_UP) * -(-points // ROWS)
    compute = points * vectors / 2 + looked_up
    return max(compute, size / 8 / stream(size // 8, target, cold and size // 8 > target.caches[2]))
