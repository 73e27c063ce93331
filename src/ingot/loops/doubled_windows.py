"""Which windows along rows are put together from windows half as long, in registers.

In: a stage that combines elements along one axis. Out: whether `doubled_rows` serves it. The layout of a
region depends on that, so both ask here: rows that such windows leave need no halo.
"""

from __future__ import annotations

from ingot.formula.compute import Compute
from ingot.formula.expr import Load, static
from ingot.formula.index import coefficient, mentions
from ingot.loops.edges import is_identity_outside
from ingot.targets.record import Target

MOST_APART = 2  # elements between neighbouring windows: one of two columns is picked by one shuffle
FEWEST_TAPS = 3
FEWEST_IN_PARTS = 8  # where a shift of two vectors is several instructions, and windows are not apart
REGISTERS = 32
SHORTEST = 4  # results of a row, and lanes of a vector


def doubled_load(c: Compute, target: Target) -> Load | None:
    """What a stage of pooling along rows reads, if its windows are put together from shorter ones."""
    r = c.reduction
    if target.vector_bytes == 0 or r is None or not isinstance(r.term, Load) or r.init != r.identity:
        return None
    x, taps = r.term, [k for k in r.axes if k.extent != 1]
    if not all(t.type.is_float and t.type.compute is t.type for t in (c.out, x.tensor)) or len(taps) != 1:
        return None
    if not all(isinstance(n, int) for n in (*x.tensor.shape, *(a.extent for a in (*c.axes, *r.axes)))):
        return None
    if x.outside is not None and not is_identity_outside(r):
        return None
    return x if c.axes and _goes_along(c, x, target) else None


def _goes_along(c: Compute, x: Load, target: Target) -> bool:
    """Whether windows of a few elements and more move along the rows of what they read, and those alone."""
    assert c.reduction is not None
    row, (k,) = c.axes[-1], (k for k in c.reduction.axes if k.extent != 1)
    along = [i for i in x.index if mentions(i, k.name) or mentions(i, row.name)]
    if along != [x.index[-1]] or coefficient(along[0], k.name) != 1:
        return False
    apart, columns = coefficient(along[0], row.name) or 0, static(x.tensor.shape[-1])
    fewest = FEWEST_TAPS if apart > 1 or target.registers >= REGISTERS else FEWEST_IN_PARTS
    if not 1 <= apart <= MOST_APART or static(k.extent) < fewest:
        return False
    return min(columns, static(row.extent), target.lanes(c.out.type.bytes)) >= SHORTEST
