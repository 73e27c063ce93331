"""Products of bytes: what a sum of them multiplies, and what is subtracted on either side.

    sum of (a - zero) * (b - shift)        a given as the bundle runs, b a constant

In: a stage. Out: its contraction of the bytes themselves, with both zero points beside it. Called by the
generators `int_dot` and `csc`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ingot.formula.compute import Compute
from ingot.formula.expr import Cast, Const, Expr, Load, Var, cast, walk
from ingot.formula.index import Bounds, value_range
from ingot.formula.types import INT32
from ingot.loops.axes import normal_axes
from ingot.loops.kernels.contraction.roles import Contraction, match
from ingot.loops.layout import Storage, bind
from ingot.loops.region_passes.zero_points import factors


@dataclass(frozen=True, slots=True, eq=False)
class Product:
    """A contraction of bytes: `zero` is subtracted from each element of `a`, `shift` from each of `b`."""

    c: Contraction
    zero: Expr
    shift: int


def byte_product(c: Compute, storage: Storage, bounds: Bounds) -> Product | None:
    """A sum of (a - zero) * (b - shift), b constant and int8 when shifted, read off a stage; or None.

    The zero point of `a` is one number for all points; a table of it for `b` holds one number.
    """
    c = normal_axes(c)
    r = c.reduction
    found = None if r is None else factors(r.term)
    if r is None or found is None:
        return None
    a, b = found if found[1].element.tensor.value is not None else found[::-1]
    shift, (lo, hi) = _number(b.zero), value_range(b.element.tensor) or (0, 255)
    if shift is None or lo - shift < -128 or hi - shift > 127:
        return None
    axes = {v.name for v in (*c.axes, *r.axes)}
    if any(isinstance(n, Var) and n.name in axes for n in walk(a.zero)):
        return None
    plain = replace(c, reduction=replace(r, term=cast(a.element, INT32) * cast(b.element, INT32)))
    sums = match(plain, storage, bounds, integers=True)
    if sums is None or sums.b.tensor.value is None:
        return None
    return Product(sums, bind(a.zero, storage, sums.bounds), shift)


def _number(zero: Expr) -> int | None:
    """A zero point that is one number, if in a table too."""
    match zero:
        case Const(value, _):
            return int(value)
        case Cast(Load(tensor), _) if tensor.value is not None:
            lo, hi = value_range(tensor) or (0, 1)
            return lo if lo == hi else None
    return None
