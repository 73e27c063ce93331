"""Sums of products of two elements: of a tensor by constants, of two tensors along the memory of both.

In: a stage. Out: which of these it is. An inner product, y[m, n] = sum(a[m, k] * b[n, k]), has vectors along
its terms where turning an operand around, which lets them go along the outputs, would take longer
(`dot_product`); else `contract` turns blocks of it.
"""

from __future__ import annotations

from math import prod

from ingot.formula.compute import Compute
from ingot.formula.expr import Binary, Load, Var, loads, static
from ingot.formula.index import mentions
from ingot.formula.types import FLOAT32

SHARED = 12  # terms for each output that would share the turned operand: with fewer, turning it pays
FEW, NEAR = 16, 256 << 10  # outputs for which an operand is read again from afar; bytes that stay near


def is_product(c: Compute) -> bool:
    """Whether a stage sums products of two elements."""
    r = c.reduction
    if r is None or r.combine != "sum" or not isinstance(r.term, Binary) or r.term.op != "mul":
        return False
    return isinstance(r.term.a, Load) and isinstance(r.term.b, Load)


def weighs(c: Compute) -> bool:
    """Whether a stage sums products of one tensor by constants."""
    if c.reduction is None or not is_product(c):
        return False
    return sum(x.tensor.value is not None for x in loads(c.reduction.term)) == 1


def is_inner_product(c: Compute) -> bool:
    """Whether the terms of a product of two dense tensors lie side by side in both."""
    r = c.reduction
    if r is None or not is_product(c) or len(r.axes) != 1:
        return False
    if not all(isinstance(a.extent, int) for a in (*c.axes, *r.axes)):
        return False
    found, (k,) = tuple(loads(r.term)), r.axes
    if len(found) != 2:  # a tensor of places tells which element is read
        return False
    a, b = found
    if not all(_runs_along(load, k) and load.tensor.value is None for load in (a, b)):
        return False
    return max(_alone(p, q, c) for p, q in ((a, b), (b, a))) > 1


def turning_costs(few: int, many: int, terms: int) -> bool:
    """Whether a product of few x many outputs is quicker without a copy of the larger operand."""
    stays = few <= FEW or many * terms * FLOAT32.bytes <= NEAR
    return few * SHARED <= terms and stays


def _alone(load: Load, other: Load, c: Compute) -> int:
    """How many outputs there are along the axes that move one operand only."""
    return prod(static(x.extent) for x in c.axes if _moves(load, x) and not _moves(other, x))


def _runs_along(load: Load, k: Var) -> bool:
    """Whether neighbours along an axis are neighbours in a dense tensor, and the axis is whole there."""
    *others, last = load.index
    plain = load.outside is None and last == k and load.tensor.shape[-1] == k.extent
    return plain and not any(mentions(i, k.name) for i in others)


def _moves(load: Load, a: Var) -> bool:
    return any(mentions(i, a.name) for i in load.index)
