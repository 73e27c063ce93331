"""Expressions where places decide what they select: guards, comparisons of indices, reads outside.

    y[c] = c < 24 ? x[c] : 0    for 0 <= c < 16    ->    y[c] = x[c]

In: an expression and the ranges of its axes. Out: the same without what is decided all over these ranges.
Called where loops are cut (`loop_partition`) and where registers are stored in parts (`epilogue`).
"""

from __future__ import annotations

from collections.abc import Callable

from ingot.formula.expr import Binary, Expr, Load, Select, transform
from ingot.formula.index import Bounds, at_least, simplify
from ingot.formula.types import INDEX

HOLDS: dict[str, Callable[[float], bool]] = {
    "lt": lambda d: d < 0,
    "le": lambda d: d <= 0,
    "gt": lambda d: d > 0,
    "ge": lambda d: d >= 0,
    "min": lambda d: d < 0,
    "max": lambda d: d < 0,
}
"""Whether a comparison holds, or which operand is picked, by the difference of the operands."""


def decided(e: Expr, bounds: Bounds) -> Expr:
    """The expression without selections by places whose condition is the same everywhere, and without reads
    that are outside everywhere.
    """

    def chosen(node: Expr) -> Expr | None:
        match node:
            case Select(Binary(op, a, b), x, y) if op in HOLDS and a.dtype is INDEX:
                lo, hi = index_range(a - b, bounds)
                if HOLDS[op](lo) == HOLDS[op](hi):
                    return decided(x if HOLDS[op](lo) else y, bounds)
            case Load(outside=other) if other is not None and _is_outside(node, bounds):
                return decided(other, bounds)
        return None

    return transform(e, chosen)


def _is_outside(load: Load, bounds: Bounds) -> bool:
    """Whether a read lies outside its tensor wherever it is done."""
    places = zip((index_range(i, bounds) for i in load.index), load.tensor.shape, strict=True)
    return any(hi < 0 or (isinstance(n, int) and lo >= n) for (lo, hi), n in places)


def index_range(i: Expr, bounds: Bounds) -> tuple[float, float]:
    """The least and largest value of an index, infinite where nothing is known."""
    return at_least(simplify(i, bounds), bounds), -at_least(simplify(0 - i, bounds), bounds)
