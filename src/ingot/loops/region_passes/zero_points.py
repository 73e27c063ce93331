"""Zero points and biases of integer sums become what the accumulators begin with.

    y = value(sum of (x - 11) * (w - 3) + bias)      ->      y = value(sum of x * w', from bias')

    w' = w - 3            bias' = bias - 11 * (sum of w')

In: a fused region. Out: the same region with sums of plain products of bytes, which is what machines
multiply (int32 sums wrap, so no bit changes). Padding must read the zero point, as a quantised convolution's
does. A zero point that only the run knows is multiplied behind the sum. What stays: weights whose shifted
values leave int8, zero points for each row of the operand, and encoded weights, whose codes the sparse
generators read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from ingot.formula.compute import Compute, accumulator
from ingot.formula.evaluate import value_over
from ingot.formula.expr import (
    Array,
    Binary,
    Cast,
    Const,
    Expr,
    Load,
    Tensor,
    Var,
    cast,
    children,
    constant,
    static,
    transform,
    walk,
)
from ingot.formula.index import value_range
from ingot.formula.types import INT8, INT32
from ingot.loops.region import Region, replace_computes

ZERO = Const(0, INT32)


@dataclass(frozen=True, slots=True)
class Factor:
    """(int32(element) - zero), one side of a product."""

    element: Load
    zero: Expr


def fold_zero_points(region: Region) -> Region:
    """Rewrite in place, regions of branches and loops included, and return the region."""
    return replace_computes(region, with_plain_products)


def with_plain_products(c: Compute) -> Compute:
    """The stage, its zero points folded where that can be."""
    return _folded(c) or c


def factors(term: Expr) -> tuple[Factor, Factor] | None:
    """What a term multiplies: of bytes that are widened to int32."""
    match term:
        case Binary("mul", a, b) if term.dtype is INT32:
            x, y = _factor(a), _factor(b)
            return None if x is None or y is None else (x, y)
    return None


def _factor(e: Expr) -> Factor | None:
    match e:
        case Cast(Load() as element, _) if element.tensor.type.bits == 8:
            return Factor(element, ZERO)
        case Binary("sub", Cast(Load() as element, _), zero) if element.tensor.type.bits == 8:
            return Factor(element, zero)
    return None


def _folded(c: Compute) -> Compute | None:
    """The stage with plain products, or None if it is no sum of products with constant weights."""
    r = c.reduction
    found = factors(r.term) if r is not None and r.combine == "sum" else None
    if r is None or found is None or not all(isinstance(k.extent, int) and k.extent for k in r.axes):
        return None
    x, w = found if found[1].element.tensor.value is not None else found[::-1]
    own = {a.name for a in (*c.axes, *r.axes)}
    if (
        w.element.tensor.value is None
        or w.element.tensor.codebook is not None
        or w.element.outside is not None
    ):
        return None
    if any(isinstance(n, Var) and n.name in own for n in walk(x.zero)):
        return None
    if x.element.outside is not None and not _is_same_number(x.element.outside, x.zero):
        return None
    weights = _centred(w)
    if weights is None or not all(isinstance(a.extent, int) for a in _moving(weights, c.axes)):
        return None
    return _rewritten(c, x, weights)


def _is_same_number(outside: Expr, zero: Expr) -> bool:
    return isinstance(outside, Const) and isinstance(zero, Const) and outside.value == zero.value


def _centred(w: Factor) -> Load | None:
    """The constant with its zero point subtracted; None where the differences are no int8."""
    t, array = w.element.tensor, w.element.tensor.value
    zero = _zeros(w)
    assert array is not None
    if zero is None:
        return None
    lo, hi = value_range(t) or (0, 0)
    if not zero.any() and lo >= -128 and hi <= 127:
        made = t if t.type is INT8 else replace(t, type=INT8, value=array.astype(np.int8))
        return replace(w.element, tensor=made)
    shifted = array.astype(np.int32) - zero
    if shifted.min(initial=0) < -128 or shifted.max(initial=0) > 127:
        return None
    return replace(w.element, tensor=constant(shifted.astype(np.int8), f"{t.name}_centred"))


def _zeros(w: Factor) -> Array | None:
    """The zero points of a constant, in a shape that broadcasts with it."""
    index, rank = w.element.index, w.element.tensor.rank
    match w.zero:
        case Const(value, _):
            return np.full((1,) * rank, int(value), np.int32)
        case Cast(Load(tensor=t, index=at, outside=None), _) if t.value is not None:
            if t.count == 1 or (t.value == t.value.flat[0]).all():
                return np.full((1,) * rank, int(t.value.flat[0]), np.int32)
            along = [i for i in at if i != Const(0)]
            if len(along) == 1 and isinstance(along[0], Var) and along[0] in index:
                d = index.index(along[0])
                return t.value.astype(np.int32).reshape([-1 if k == d else 1 for k in range(rank)])
    return None


def _rewritten(c: Compute, x: Factor, w: Load) -> Compute:
    """The stage that multiplies plain bytes: what follows from constants is added to its first value."""
    r, acc = c.reduction, accumulator(INT32)
    assert r is not None
    bias = _bias(c, acc)
    value = c.value if bias is None else transform(c.value, lambda n: acc if n == acc + bias else None)
    first = [e for e in (r.init, bias) if e is not None and e != ZERO]
    if isinstance(x.zero, Const):
        first += [] if x.zero == ZERO else [ZERO - x.zero * _total(c, w)]
    else:
        moved = acc - cast(x.zero, INT32) * _total(c, w)
        value = transform(value, lambda n: moved if n == acc else None)
    term = Binary("mul", Cast(x.element, INT32), Cast(w, INT32))
    return replace(c, value=value, reduction=replace(r, init=_known(c, first), term=term))


def _bias(c: Compute, acc: Expr) -> Expr | None:
    """The constants that are added to the sum wherever it is read, if any are."""
    readers = {n for n in walk(c.value) if acc in children(n)}
    match tuple(readers):
        case (Binary("add", a, Load(tensor=Tensor(value=np.ndarray()), outside=None) as bias),) if a == acc:
            fixed = all(isinstance(x.extent, int) for x in _moving(bias, c.axes))
            return bias if fixed else None
    return None


def _total(c: Compute, w: Load) -> Expr:
    """The sum of the weights that each result is made with."""
    assert c.reduction is not None
    own, summed = (list(_moving(w, axes)) for axes in (c.axes, c.reduction.axes))
    over = prod(static(k.extent) for k in c.reduction.axes if k not in summed)
    read = value_over(w, [*own, *summed])
    array = read.sum(axis=tuple(range(len(own), read.ndim)), dtype=np.int32) * np.int32(over)
    return constant(np.asarray(array, np.int32), f"{w.tensor.name}_totals")[tuple(own)]


def _known(c: Compute, first: list[Expr]) -> Expr:
    """What the sums begin with, one constant of the axes that it moves with."""
    if not first:
        return ZERO
    total = first[0]
    for e in first[1:]:
        total = total + e
    own = list(_moving(total, c.axes))
    return constant(value_over(total, own).astype(np.int32), f"{c.out.name}_first")[tuple(own)]


def _moving(e: Expr, axes: tuple[Var, ...]) -> Iterator[Var]:
    names = {n.name for n in walk(e) if isinstance(n, Var)}
    return (a for a in axes if a.name in names)
