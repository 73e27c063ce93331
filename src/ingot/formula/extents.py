"""Extents in their simplest form, and compared by their values: what the normal form cannot tell.

In: extents over parameters between known bounds. Out: a plain int where only one value is possible, and
whether two are equal. So M - M // 2 and (M + 1) // 2 are alike, and (N // 2) + 1 is 3 for N in 4 .. 5.
"""

from __future__ import annotations

from ingot.formula.expr import Extent
from ingot.formula.index import as_expr, simplify, span


def extent(n: Extent) -> Extent:
    """An extent in its simplest form: a plain int where its bounds leave one value, and equal ones alike."""
    if isinstance(n, int):
        return n
    from ingot.formula.index import (
        simplify,  # which stands on this module
        span,
    )

    n = simplify(n)
    lo, hi = span(n)
    return lo if lo == hi else n


def alike(a: Extent, b: Extent) -> bool:
    """Whether two extents are equal whatever their parameters are."""
    return a == b or (
        not (isinstance(a, int) and isinstance(b, int)) and span(simplify(as_expr(a) - b)) == (0, 0)
    )
