"""An extent at every point of its parameters, where these are few: exact, whatever the algebra can tell.

In: an expression over parameters between known bounds. Out: its values as an array, or nothing where they are
too many or one overflows. Called by `index`, whose intervals answer for the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from math import prod

import numpy as np

from ingot.formula.expr import FOLD, Array, Binary, Const, Expr, Param, walk

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


@lru_cache(maxsize=1024)
def values_of(e: Expr) -> Array | None:
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
