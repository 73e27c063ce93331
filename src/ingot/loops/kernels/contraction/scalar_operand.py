"""The constant operand of a contraction that is read as scalars, its terms in the order the loops read them.

    w[ic, oc, 1, 2]    ->    w[oc, ic]        one phase of a transposed convolution

In: a contraction whose vectors are of the other operand. Out: the same, reading a constant made at compile
time if the terms did not lie side by side: each would come from a cache line of its own.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ingot.formula.evaluate import grid_over
from ingot.formula.evaluate import value as evaluate
from ingot.formula.expr import Array, Load, static
from ingot.formula.index import mentions
from ingot.loops.access import step
from ingot.loops.kernels.contraction.roles import Contraction, around, is_swapped
from ingot.loops.layout import Storage


def with_terms_side_by_side(c: Contraction, storage: Storage) -> Contraction:
    """The contraction with its constant scalars packed, if that brings the innermost terms together."""
    a, axes = c.a, (*c.outer, *c.tile)
    if not is_swapped(a, c.b) or step(a, c.reduce[-1].name) == 1 or a.outside is not None:
        return c
    if around(a, (c.vector, *axes, *c.reduce)) or a.dtype is not a.tensor.type:
        return c
    moving = (*(x for x in axes if mentions(a, x.name)), *c.reduce)
    names, extents = [x.name for x in moving], tuple(static(x.extent) for x in moving)

    def pack(array: Array) -> Array:
        load = replace(a, tensor=replace(a.tensor, value=array))
        return np.ascontiguousarray(np.broadcast_to(evaluate(load, {}, grid_over(names, extents)), extents))

    made = storage.derived(a.tensor, ("scalars", a.index, *names, extents), pack)
    return replace(c, a=Load(made, moving))
