"""Which windows with strides lie so near each other that a vector of each tap is picked from loaded rows.

In: a reduction, and how many points neighbouring windows are apart. Out: whether `picked_columns` serves it.
The layout of a region depends on that, so both ask here.
"""

from __future__ import annotations

from math import prod

from ingot.formula.compute import Reduction
from ingot.formula.expr import Binary, Load, static

MOST_TAPS = 25
MOST_WEIGHTS = 9  # each of them has a vector picked for itself: of more, copies cost less
MOST_APART = 4  # points between neighbouring windows: all of them are loaded


def is_picked(r: Reduction, apart: int) -> bool:
    """Whether elements are combined, few for a window, and windows overlap or nearly do."""
    if apart > MOST_APART or (found := combined(r)) is None:
        return False
    return prod(static(k.extent) for k in r.axes) <= (MOST_TAPS if found[1] is None else MOST_WEIGHTS)


def combined(r: Reduction) -> tuple[Load, Load | None] | None:
    """What a window reads, and the constant that its elements are multiplied by, if any; None for others."""
    match r.term:
        case Load() as x if r.init == r.identity:
            return x, None
        case Binary("mul", Load() as a, Load() as b) if r.combine == "sum":
            x, w = (a, b) if a.tensor.value is None else (b, a)
            return (x, w) if x.tensor.value is None and w.tensor.value is not None else None
    return None
