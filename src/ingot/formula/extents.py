"""Extents compared by their values: what the normal form of an index cannot tell.

In: extents over parameters between known bounds. Out: their least and largest value, and whether two are
equal. Where the parameters have few values the extent is computed at all of them; else its interval answers.
So M - M // 2 and (M + 1) // 2 are alike, and (N // 2) + 1 is 3 for N in 4 .. 5.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from math import prod

import numpy as np

from ingot.formula.expr import FOLD, Array, Binary, Const, Expr, Extent, Param, walk
from ingot.formula.index import as_expr, interval, simplify

MOST_POINTS = 1 << 14  # of the parameters at which an extent is computed
# what FOLD does to numbers, done to arrays; a division by 0 apart
_ARRAYS: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "floordiv": np.floor_divide,
    "mod": np.mod,
    "max": np.maximum,
    "min": np.minimum,
}


def span(n: Extent) -> tuple[int, int]:
    """The least and the largest value of an extent: exactly, where its parameters take few values."""
    if isinstance(n, int):
        return n, n
    found = _values(n)
    return interval(n) if found is None else (int(found.min()), int(found.max()))


def alike(a: Extent, b: Extent) -> bool:
    """Whether two extents are equal whatever their parameters are."""
    return a == b or (
        not (isinstance(a, int) and isinstance(b, int)) and span(simplify(as_expr(a) - b)) == (0, 0)
    )


@lru_cache(maxsize=1024)
def _values(e: Expr) -> Array | None:
    """The value at every point of its parameters, if these are few and nothing overflows."""
    nodes = list(walk(e))
    params = {n.name: n for n in nodes if isinstance(n, Param)}
    points = prod(p.hi - p.lo + 1 for p in params.values())
    known = all(isinstance(n, Const | Param) or (isinstance(n, Binary) and n.op in FOLD) for n in nodes)
    if not known or points > MOST_POINTS:
        return None
    grid = np.meshgrid(*(np.arange(p.lo, p.hi + 1) for p in params.values()), indexing="ij")
    try:
        return _at(e, {name: g.reshape(-1) for name, g in zip(params, grid, strict=True)})
    except OverflowError:
        return None


def _at(e: Expr, points: Mapping[str, Array]) -> Array:
    match e:
        case Const(v):
            return np.array([v], np.int64)
        case Param(name):
            return points[name]
        case Binary(op, a, b):
            x, y = _at(a, points), _at(b, points)
            if op in ("floordiv", "mod"):
                return np.where(y == 0, 0, _ARRAYS[op](x, np.where(y == 0, 1, y)))
            if np.abs(_ARRAYS[op](x.astype(np.float64), y.astype(np.float64))).max() > 1 << 62:
                raise OverflowError
            return np.asarray(_ARRAYS[op](x, y))
    raise TypeError(f"{e!r} is no extent")
