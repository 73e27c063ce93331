"""Requantisation as vector code writes it: rounded to integers first, then moved and limited as integers.

    uint8(min(max(round(acc * m) + zero, 0), 255))    in floats: two limits, and a cast
    ->  saturate(int32(round(acc * m)) + zero)        in integers: instructions saturate as they narrow

In: the value of a stage. Out: an equal one. The product must be known to fit int32: |m| < 1 of a sum of 32
bits. Scalar code keeps floats, where limits cost no more and a cast that saturates costs less.
"""

from __future__ import annotations

from ingot.formula.expr import Binary, Cast, Const, Expr, Unary, cast
from ingot.formula.types import INT32, DType
from ingot.loops.access import is_scaled_sum


def in_integers(value: Expr) -> Expr:
    """The value with its last cast from integers, where it is a sum that is scaled, moved and limited."""
    match value:
        case Cast(Binary("min", Binary("larger", Binary("add", Unary("round") as y, Const(z)), lo), hi), to):
            pass
        case _:
            return value
    whole = (
        isinstance(lo, Const) and isinstance(hi, Const) and all(v == int(v) for v in (z, lo.value, hi.value))
    )
    if not whole or abs(z) > 1 << 16 or not is_scaled_sum(y):
        return value
    moved = cast(y, INT32) + Const(int(z), INT32) if z else cast(y, INT32)
    limits = (Const(int(v.value), INT32) for v in (lo, hi) if isinstance(v, Const))
    return Cast(Binary("min", Binary("max", moved, next(limits)), next(limits)), to)


def limited(e: Expr, to: DType) -> Expr:
    """The integer, limited to what a narrower type holds: what instructions do as they narrow."""
    lo, hi = Const(int(to.lowest), e.dtype), Const(int(to.highest), e.dtype)
    return Cast(Binary("min", Binary("max", e, lo), hi), to)


def unlimited(value: Cast) -> Expr:
    """What a cast narrows, without limits that are those of its type: for whom `limited` narrows it again."""
    match value:
        case Cast(Binary("min", Binary("max", x, Const(lo)), Const(hi)), to) if x.dtype.is_integer:
            return x if (lo, hi) == (to.lowest, to.highest) else value.a
    return value.a
