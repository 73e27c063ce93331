"""Requantisation as machines compute it: a formula rounds, moves and limits floats.

    uint8(min(larger(round(acc * m) + zero, 0), 255))                       in floats: two limits, and a cast
    ->  saturate(int32(round(acc * m)) + zero)                              rounded first, limited as integers
    ->  uint8(int32(round(min(larger(acc * m, -zero), 255 - zero))) + zero) limited first, then rounded

In: the value of a stage. Out: an equal one. Where instructions round to integers and saturate as they narrow
integers are limited; the product must then be known to fit int32: |m| < 1 of a sum of 32 bits. Scalar code
without such an instruction limits first, because the nearest of a small float takes one addition.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ingot.formula.expr import Array, Binary, Cast, Const, Expr, Load, Unary, cast, rebuild, transform, walk
from ingot.formula.types import FLOAT32, INT32, DType
from ingot.loops.access import SMALL, is_scaled_sum, is_small
from ingot.targets.record import Target

MOST_MOVED = 1 << 16  # a zero point
LEAST_MULTIPLIER = 1 << 30  # of fixed point, but for 0


def in_integers(value: Expr, small: bool = False) -> Expr:
    """The value with its last cast from integers, where it is a sum that is scaled, moved and limited; with
    `small`, also where it is any small number.
    """
    match value:
        case Cast(Binary("min", Binary("larger", Binary("add", Unary("round") as y, Const(z)), lo), hi), to):
            pass
        case _:
            return value
    whole = isinstance(lo, Const) and isinstance(hi, Const) and _are_whole(z, lo, hi)
    if not whole or not (is_scaled_sum(y) or (small and is_small(y.a))):
        return value
    moved = cast(y, INT32) + Const(int(z), INT32) if z else cast(y, INT32)
    limits = (Const(int(v.value), INT32) for v in (lo, hi) if isinstance(v, Const))
    return Cast(Binary("min", Binary("max", moved, next(limits)), next(limits)), to)


def for_scalars(target: Target) -> Callable[[Expr], Expr]:
    """How scalar code of a target writes it, which has registers of floats and no vectors of them: as vector
    code does where an instruction rounds to integers, and else limited before it is rounded.
    """
    rounds = target.spelling("nearest_int32", "float32", 0) is not None

    def written(node: Expr) -> Expr | None:
        if not isinstance(node, Cast):
            return None
        inner = rebuild(node, lambda e: transform(e, written))  # what a sum adds may be requantised itself
        if not isinstance(inner, Cast):
            return inner
        whole = in_integers(inner, True) if rounds else inner
        return limited_first(inner) if whole is inner else whole

    return lambda e: transform(e, written)


def limited_first(value: Cast) -> Cast:
    """The cast from integers, of what is limited and then rounded."""
    match value:
        case Cast(Binary("min", Binary("larger", Binary("add", Unary("round", x), Const(z)), lo), hi), to):
            pass
        case _:
            return value
    if not (isinstance(lo, Const) and isinstance(hi, Const) and _are_whole(z, lo, hi)):
        return value
    ends = [float(v.value) - float(z) for v in (lo, hi)]
    if x.dtype is not FLOAT32 or max(map(abs, ends)) > SMALL:
        return value
    first, last = (Const(v, x.dtype) for v in ends)
    nearest = cast(Unary("round", Binary("min", Binary("larger", x, first), last)), INT32)
    return Cast(nearest + Const(int(z), INT32) if z else nearest, to)


def _are_whole(z: float, lo: Const, hi: Const) -> bool:
    return all(v == int(v) for v in (z, lo.value, hi.value)) and abs(z) <= MOST_MOVED


def limited(e: Expr, to: DType) -> Expr:
    """The integer, limited to what a narrower type holds: what instructions do as they narrow."""
    lo, hi = Const(int(to.lowest), e.dtype), Const(int(to.highest), e.dtype)
    return Cast(Binary("min", Binary("max", e, lo), hi), to)


def is_limited(value: Cast) -> bool:
    """Whether what a cast narrows is limited to what its type holds."""
    match value:
        case Cast(Binary("min", Binary("max", _, Const(lo)), Const(hi)), to):
            return to.lowest <= lo <= hi <= to.highest
    return False


def unlimited(value: Cast) -> Expr:
    """What a cast narrows, without limits that are those of its type: for whom `limited` narrows it again."""
    match value:
        case Cast(Binary("min", Binary("max", x, Const(lo)), Const(hi)), to) if x.dtype.is_integer:
            return x if (lo, hi) == (to.lowest, to.highest) else value.a
    return value.a


@dataclass(frozen=True, slots=True)
class Requantised:
    """`node`, a part of a value: a sum scaled, rounded, moved by a zero point and limited to bytes.

    `is_whole`: by no narrower limits than those of its type. In fixed point `scale` is a multiplier, by which
    the doubled sum's upper half is made, and `shift` the power of two that divides that.
    """

    node: Cast
    scale: Const | Load
    zero: int
    limits: tuple[int, int]
    shift: Const | Load | None = None

    @property
    def is_whole(self) -> bool:
        return self.limits == (self.node.type.lowest, self.node.type.highest)

    @property
    def ends(self) -> tuple[int, int]:
        """The results that stand for the lowest and the highest byte, before they are moved."""
        return int(self.node.type.lowest) - self.zero, int(self.node.type.highest) - self.zero

    @property
    def is_fixed(self) -> bool:
        return self.shift is not None

    @property
    def constants(self) -> tuple[Const | Load, ...]:
        return (self.scale,) if self.shift is None else (self.scale, self.shift)


def requantised(value: Expr, acc: Expr) -> Requantised | None:
    """The part of a value that makes bytes of the sum, if nothing else of the value reads the sum."""
    found = {n for n in walk(value) if isinstance(n, Cast) and n.type.bits == 8 and acc in walk(n)}
    for node in found:
        match in_integers(node):
            case Cast(Binary("min", Binary("max", moved, Const(lo)), Const(hi))):
                made = _scaled(moved, acc)
                if made is not None and acc not in walk(_without(value, node)):
                    (scale, shift), zero = made
                    return Requantised(node, scale, zero, (int(lo), int(hi)), shift)
    return None


def _without(value: Expr, node: Expr) -> Expr:
    return transform(value, lambda n: Const(0, n.dtype) if n == node else None)


def _scaled(moved: Expr, acc: Expr) -> tuple[tuple[Const | Load, Const | Load | None], int] | None:
    """The scale and the zero point of int32(round(float32(acc) * scale)) + zero, or in fixed point the
    multiplier and the shift, which is not 0.
    """
    rounded, zero = without_zero_point(moved)
    match rounded:
        case Cast(Unary("round", Binary("mul", Cast(a, kind), Const() | Load() as scale))) if a == acc:
            return ((scale, None), zero) if kind is FLOAT32 else None
        case Binary(
            "rounding_shr",
            Binary("doubling_high", a, Const() | Load() as scale),
            Const() | Load() as shift,
        ) if a == acc and type(scale) is type(shift) and _is_positive(shift) and _has_31_bits(scale):
            return (scale, shift), zero
    return None


def _is_positive(e: Const | Load) -> bool:
    """Whether a constant, all its elements, is above 0."""
    value = _value(e)
    return value is not None and bool((value > 0).all())


def _has_31_bits(e: Const | Load) -> bool:
    """Whether a constant's elements have all bits that multipliers have, or none."""
    value = _value(e)
    return value is not None and bool(((value >= LEAST_MULTIPLIER) | (value == 0)).all())


def _value(e: Const | Load) -> Array | None:
    return np.asarray(e.value) if isinstance(e, Const) else e.tensor.value


def without_zero_point(moved: Expr) -> tuple[Expr, int]:
    """An integer and the constant that is added to it, 0 where none is."""
    match moved:
        case Binary("add", rounded, Const(z)):
            return rounded, int(z)
    return moved, 0
