"""Zero points and biases of integer sums become what the accumulators begin with.

    y = value(sum of (x - 11) * (w - 3) + bias)      ->      y = value(sum of x * w', from bias')

    w' = w - 3            bias' = bias - 11 * (sum of w')

Weights whose differences are no int8, as those of uint8 less 133 are not, become w' = w - 128, or stay if
they are int8. What they lack, 5 times the sum of (x - 11) at each place, is a stage of its own: one product
beside those of all outputs.

In: a fused region. Out: the same region with sums of plain products of bytes, which is what machines
multiply (int32 sums wrap, so no bit changes). Padding must read the zero point, as a quantised convolution's
does. A zero point that only the run knows is multiplied behind the sum. What stays: zero points for each row
of the operand, and encoded weights, whose codes the sparse generators read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from ingot.formula.compute import Compute, Reduction, Scan, Stage, accumulator
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
from ingot.formula.index import mentions, value_range
from ingot.formula.types import INT8, INT32, UINT8
from ingot.loops.region import Region, groups

ZERO = Const(0, INT32)
HALF = 128  # between uint8 and int8


@dataclass(frozen=True, slots=True)
class Factor:
    """(int32(element) - zero), one side of a product."""

    element: Load
    zero: Expr


def fold_zero_points(region: Region) -> Region:
    """Rewrite in place, regions of branches and loops included, and return the region."""
    for group in groups(region):
        group.stages = tuple(with_plain_products(group.stages))
    return region


def with_plain_products(stages: Iterable[Stage]) -> Iterator[Stage]:
    """The stages, their zero points folded where that can be, each behind the sums that it needs for it."""
    for stage in stages:
        if isinstance(stage, Scan):
            yield replace(stage, body=tuple(with_plain_products(stage.body)))
        else:
            yield from _folded(stage) or (stage,)


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


def _folded(c: Compute) -> tuple[Compute, ...] | None:
    """The stage with plain products, behind one that it needs, or None if it is no sum of products with
    constant weights.
    """
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
    if (weights := _centred(w)) is not None:
        return (_rewritten(c, x, weights),) if _is_fixed(weights, c.axes) else None
    return _halved(c, x, w)


def _is_fixed(e: Expr, axes: tuple[Var, ...]) -> bool:
    return all(isinstance(a.extent, int) for a in _moving(e, axes))


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


def _halved(c: Compute, x: Factor, w: Factor) -> tuple[Compute, ...] | None:
    """The sums of x at each place, and the stage that multiplies weights as int8 and adds what they lack."""
    t, zero = w.element.tensor, _zeros(w)
    if t.value is None or zero is None or not _is_fixed(w.element, c.axes):
        return None
    half = HALF if t.type is UINT8 else 0
    weights = replace(
        w.element, tensor=constant((t.value.astype(np.int16) - half).astype(np.int8), f"{t.name}_centred")
    )
    alone = [i for i, n in zip(w.element.index, zero.shape, strict=True) if n > 1]
    less = constant((zero - half).reshape([n for n in zero.shape if n > 1]), f"{t.name}_less")[tuple(alone)]
    sums = tuple(_sums(c, x))
    acc, places = accumulator(INT32), tuple(_moving(x.element, c.axes))
    right = acc - (Const(int(zero.item()) - half, INT32) if not alone else less) * sums[-1].out[places]
    whole = replace(c, value=transform(c.value, lambda n: right if n == acc else None))
    return *sums, _rewritten(whole, x, weights)


def _sums(c: Compute, x: Factor) -> Iterator[Compute]:
    """The stages that sum (x - zero) at each place of the result: over channels first, which are the same for
    all windows.
    """
    r, t = c.reduction, x.element.tensor
    assert r is not None
    places = tuple(_moving(x.element, c.axes))
    over = tuple(k for k in r.axes if k in x.element.index and _is_all_of(k, x.element))
    own = tuple(Var(f"i{d}", n) for d, n in enumerate(t.shape) if x.element.index[d] not in over)
    rest, free = tuple(k for k in r.axes if k not in over), iter(own)
    along = tuple(i if i in over else next(free) for i in x.element.index)
    centred = Binary("sub", Cast(t[along], INT32), cast(x.zero, INT32))
    outside = tuple(i for i in x.element.index if i not in over)
    if outside == places and not rest:
        yield _summed(f"{t.name}_sums", own, over, centred)
        return
    if over:
        first = _summed(f"{t.name}_channel_sums", own, over, centred)
        yield first
        term: Expr = first.out.at(outside, outside=None if x.element.outside is None else 0)
    else:
        term = Binary("sub", Cast(x.element, INT32), cast(x.zero, INT32))
    yield _summed(f"{t.name}_sums", places, rest, term)


def _is_all_of(k: Var, load: Load) -> bool:
    """Whether a summed axis is one whole axis of a tensor, and no other moves with it."""
    moving = [d for d, i in enumerate(load.index) if mentions(i, k.name)]
    return len(moving) == 1 and load.tensor.shape[moving[0]] == k.extent


def _summed(name: str, places: tuple[Var, ...], over: tuple[Var, ...], term: Expr) -> Compute:
    out = Tensor(name, INT32, tuple(a.extent or 0 for a in places))
    return Compute(out, places, accumulator(INT32), Reduction("sum", over, ZERO, term))


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
