"""Which constants may stand for each other in one kernel: what generators and proofs ask of their elements.

    y = gather(x, [3, 1, 7])            an index: its range is what the proof of the access rests on
    y = (x * w + b) * m                 a layer's weights, biases and scales: only whether they fit

In: the stages of a kernel. Out: for each tensor they read what another one must have in common with it. Two
layers whose weights differ are one kernel, called with the weights of each.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeGuard

import numpy as np

from ingot.formula.compute import Stage, computes
from ingot.formula.expr import Binary, Cast, Expr, Load, Tensor, loads, walk
from ingot.formula.index import value_range
from ingot.formula.types import INT8, INT32, DType
from ingot.loops.access import DOUBLED, LARGEST_SCALE


def parameters_of_layers(stages: tuple[Stage, ...]) -> frozenset[Tensor]:
    """Constants that are only weights, int8 factors of what is summed, biases, first values of sums, or what
    scales these in fixed point.
    """
    free, bound = set[Tensor](), set[Tensor]()
    for c in computes(stages):
        r = c.reduction
        chosen = () if r is None else (*_factors(r.term), *_bias(r.init), *_scales(c.value))
        read = [load for e in c.expressions for load in loads(e)]
        for load in chosen:
            read.remove(load)
        free.update(load.tensor for load in chosen)
        bound.update(load.tensor for load in read)
    return frozenset(free - bound)


def _factors(term: Expr) -> tuple[Load, ...]:
    match term:
        case Binary("mul", a, b):
            return tuple(e.a for e in (a, b) if isinstance(e, Cast) and _is_constant(e.a, INT8))
    return ()


def _scales(value: Expr) -> tuple[Load, ...]:
    """Multipliers and shifts."""
    made = (e for e in walk(value) if isinstance(e, Binary) and e.op in ("doubling_high", "rounding_shr"))
    return tuple(e.b for e in made if _is_constant(e.b, INT32))


def _bias(init: Expr) -> tuple[Load, ...]:
    return (init,) if _is_constant(init, INT32) else ()


def _is_constant(e: Expr, of: DType) -> TypeGuard[Load]:
    return isinstance(e, Load) and e.tensor.value is not None and e.tensor.type is of


def in_common(t: Tensor, is_parameter: bool) -> Hashable:
    """What a tensor that takes the place of this one has in common with it, besides type and shape.

    Of weights: whether one is the lowest integer, which shares no register with another; of int32: whether
    a sum that begins with them may be doubled, and whether they are shifts, none of which is 0; of floats:
    whether what they scale still fits the integers that it came from.
    """
    span = value_range(t)
    if t.value is None or (span is not None and not is_parameter):
        return span
    if span is None:
        return _is_scale(t)
    if t.type is INT32:
        return max(-span[0], span[1]) < DOUBLED, span[0] > 0
    return t.type is INT8 and span[0] == INT8.lowest


def _is_scale(t: Tensor) -> bool:
    """Whether all elements of a constant are small enough."""
    if t.value is None or not t.value.size or not t.type.is_float:
        return False
    return bool(np.all(t.value < LARGEST_SCALE) and np.all(t.value > -LARGEST_SCALE))
