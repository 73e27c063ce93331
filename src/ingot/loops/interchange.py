"""Which constants may stand for each other in one kernel: what generators and proofs ask of their elements.

    y = gather(x, [3, 1, 7])        an index: its range is what the proof of the access rests on
    y = conv(x, w) * m              elements: which type would hold them, and whether they are all the same

In: the stages of a kernel. Out: for each tensor they read what another one must have in common with it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator

import numpy as np

from ingot.formula.compute import Compute, Stage, computes
from ingot.formula.expr import Binary, Expr, Gathered, Load, Select, Tensor, children, walk
from ingot.formula.index import value_range
from ingot.formula.types import INT8, INT16, UINT8
from ingot.loops.access import LARGEST_SCALE

CONDITIONS = frozenset({"lt", "le", "gt", "ge", "eq", "ne", "and", "or"})
HOLDING = (INT8, UINT8, INT16)


def steering(stages: tuple[Stage, ...]) -> frozenset[Tensor]:
    """The tensors whose elements say which elements are read or written, or whether."""
    return frozenset(load.tensor for c in computes(stages) for e in _steering(c) for load in _loads(e))


def _loads(e: Expr) -> Iterator[Load]:
    return (n for n in walk(e) if isinstance(n, Load))


def _steering(c: Compute) -> Iterator[Expr]:
    """Indices and conditions, wherever they stand in the stage."""
    yield from c.at
    for node in (n for e in c.expressions for n in walk(e)):
        match node:
            case Load(index=index):
                yield from index
            case Gathered():
                yield from children(node)
            case Select(condition, _, _):
                yield condition
            case Binary(op, _, _) if op in CONDITIONS:
                yield node


def in_common(t: Tensor, is_steering: bool) -> Hashable:
    """What a tensor that takes the place of this one has in common with it, besides type and shape."""
    span = value_range(t)
    if t.value is None or is_steering:
        return span
    if span is None:
        return _is_scale(t)
    lo, hi = span
    held = tuple(k.lowest <= lo and hi <= k.highest for k in HOLDING)
    return held, lo if lo == hi else None


def _is_scale(t: Tensor) -> bool:
    """Whether floats are small enough for what they scale to fit the integers it came from."""
    if t.value is None or not t.value.size or not t.type.is_float:
        return False
    return bool(np.all(t.value < LARGEST_SCALE) and np.all(t.value > -LARGEST_SCALE))
