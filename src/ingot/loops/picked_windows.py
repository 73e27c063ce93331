"""Which windows of pooling lie so near each other that a vector of each tap is picked from loaded rows.

In: a reduction, and how many points neighbouring windows are apart. Out: whether `narrow_pooling` serves it.
The layout of a region depends on that, so both ask here.
"""

from __future__ import annotations

from math import prod

from ingot.formula.compute import Reduction
from ingot.formula.expr import Load, static

MOST_TAPS = 25
MOST_APART = 4  # points between neighbouring windows: all of them are loaded


def is_picked(r: Reduction, apart: int) -> bool:
    """Whether elements are combined, few for a window, and windows overlap or nearly do."""
    is_pool = isinstance(r.term, Load) and r.init == r.identity
    return is_pool and apart <= MOST_APART and prod(static(k.extent) for k in r.axes) <= MOST_TAPS
