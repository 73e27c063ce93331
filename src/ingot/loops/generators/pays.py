"""Whether a product with an encoded matrix is worth walking through its entries, and not all elements.

In: a contraction whose constant is encoded. Out: yes or no, from estimates of cycles. Called by the Chooser;
products of bytes have no other generator, and are not asked about.
"""

from __future__ import annotations

from math import prod

import numpy as np

from ingot.formula.expr import static
from ingot.loops.generators.lanes import Way, way_of
from ingot.loops.generators.roles import Contraction
from ingot.loops.generators.winograd.blocking import stream
from ingot.targets.record import Target

WORTH = 1.1  # how much faster the estimate has to be
NARROW_STEP, WIDE_STEP = 8, 5  # cycles of a step of two floats a row: with look-ups of two registers, of one
ENTRY_CYCLES = {1: 12.0, 4: 5.0}  # of an entry of a column, by the lanes that dense loops would have
SCALAR_MADD = 4.5  # cycles of a multiply-add of naive loops, its loads and its share of the loop
FILLED = 1.3  # entries of columns for each that is not zero


def pays(c: Contraction, target: Target, cold: bool) -> bool:
    """Whether skipping zeros beats the plain contraction."""
    assert c.b.tensor.value is not None
    entries = int(np.count_nonzero(c.b.tensor.value))
    points = prod(static(x.extent) for x in (*c.tile, *c.outer))
    way = way_of(c, target)
    if way is not None:
        walk = points * _lane_cycles(c, way, entries, target)
    else:
        walk = points * entries * FILLED * ENTRY_CYCLES[4 if target.lanes(4) > 1 else 1]
    return walk * WORTH < _dense_cycles(c, points, target, cold)


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
