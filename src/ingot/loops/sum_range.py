"""How large sums of products of bytes become, whatever the bytes are: what lets two of them share a register.

    -x..255*p   for the sum over k of x[k] * w[k], with p the sum of the positive w[k] and x uint8

In: a stage. Out: `Room`. Kernels ask it before they put two channels in one register, and lowering before it
lets two layers share a kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod

import numpy as np

from ingot.formula.compute import Compute, accumulator
from ingot.formula.evaluate import grid_over
from ingot.formula.evaluate import value as evaluate
from ingot.formula.expr import Array, Binary, Cast, Expr, Load, Var, loads, static, walk
from ingot.formula.types import INT8, INT32
from ingot.loops.requantise import Requantised, requantised
from ingot.targets.routines import HALF_LIMIT, SUM_LIMIT
from ingot.targets.thumb_routines import NARROW

SMALLEST = 2.0**-100  # of a scale: a 256th of it is exact


@dataclass(frozen=True, slots=True)
class Room:
    """`sums`: two sums fit one register. `results`: so do two results, before they are limited to bytes.
    `scales`: those are such that products of 32 bits scale the sums to a few 65536ths.
    """

    sums: bool = False
    results: bool = False
    scales: bool = False


@lru_cache(maxsize=256)
def room(c: Compute) -> Room:
    """Of a stage's sums of bytes by constants; none where it is no such stage."""
    r = c.reduction
    if r is None or r.combine != "sum" or not all(isinstance(a.extent, int) for a in (*c.axes, *r.axes)):
        return Room()
    match r.term:
        case Binary("mul", Cast(Load() as a), Cast(Load() as b)) if a.tensor.type.bits == 8:
            x, w = (a, b) if b.tensor.value is not None else (b, a)
        case _:
            return Room()
    if w.tensor.value is None or w.tensor.type is not INT8 or w.outside is not None:
        return Room()
    found = requantised(c.value, accumulator(INT32))
    grid = _grid(c, (w, r.init, *(found.constants if found else ())))
    if grid is None:
        return Room()
    lo, hi = _sums(c, w, (int(x.tensor.type.lowest), int(x.tensor.type.highest)), grid)
    first = np.asarray(evaluate(r.init, {}, grid), np.int64)
    largest = np.maximum(np.abs(lo + first), np.abs(hi + first))
    fits = bool((np.maximum(np.maximum(-lo, hi), largest) < SUM_LIMIT).all())
    if not fits or found is None:
        return Room(fits)
    return Room(fits, _results_fit(found, largest, grid), _is_narrow(found, grid))


def _grid(c: Compute, constants: tuple[Expr, ...]) -> dict[str, Array] | None:
    """Every element of a stage's axes that constants move with and of its reduction; None if they move with
    anything else, or are none.
    """
    assert c.reduction is not None
    names = {n.name for e in constants for n in walk(e) if isinstance(n, Var)}
    own = [a for a in c.axes if a.name in names]
    axes = (*own, *c.reduction.axes)
    unknown = names - {a.name for a in axes}
    if unknown or any(t.value is None for e in constants for t in (n.tensor for n in loads(e))):
        return None
    return grid_over((a.name for a in axes), (static(a.extent) for a in axes))


def _sums(c: Compute, w: Load, x: tuple[int, int], grid: dict[str, Array]) -> tuple[Array, Array]:
    """The least and the largest sum for each element of the grid."""
    assert c.reduction is not None
    rank, terms = len(grid), len(c.reduction.axes)
    weights = np.asarray(evaluate(w, {}, grid), np.int64)
    along = tuple(range(rank - terms, rank))
    extents = [static(k.extent) for k in c.reduction.axes]
    again = prod(n for n, d in zip(extents, along, strict=True) if weights.ndim and weights.shape[d] != n)
    ends = (weights * x[0], weights * x[1])
    lo, hi = (np.sum(f(*ends), axis=along, keepdims=True) * again for f in (np.minimum, np.maximum))
    return lo, hi


def _is_narrow(found: Requantised, grid: dict[str, Array]) -> bool:
    scale = np.asarray(evaluate(found.scale, {}, grid))
    return found.shift is None and bool(((scale >= NARROW[0]) & (scale < NARROW[1])).all())


def _results_fit(found: Requantised, largest: Array, grid: dict[str, Array]) -> bool:
    scale = np.abs(np.asarray(evaluate(found.scale, {}, grid), np.float64))
    if found.shift is not None:
        scale = scale * 2.0 ** -(31.0 + np.asarray(evaluate(found.shift, {}, grid), np.float64))
    exact = scale.size == 0 or float(scale.min()) > SMALLEST
    return exact and bool((largest * scale + abs(found.zero) + 256 < HALF_LIMIT).all())
