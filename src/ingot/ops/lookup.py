"""Where a value stands among constants. Encoders and n-grams call this.

In: a tensor and its keys, ascending, each once; numbers or strings. Out: for every element the place of its
key, found in as many steps as the number of keys has bits.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ingot.formula.expr import Const, Expr, Operand, Tensor, Var, cast, equal, maximum, minimum, select
from ingot.formula.types import INDEX, INT32
from ingot.ops.registry import Builder

Lookup = Callable[[tuple[Operand, ...]], tuple[Expr, Expr]]


def lookup(f: Builder, x: Tensor, keys: Tensor) -> Lookup:
    """What gives, for an index into x, a place among the keys and whether the element's key stands there.

    x has the type of the keys; NaN is none of them. The scan keeps keys[place] <= x wherever a key is so
    small, and halves what is left to add to the place.
    """
    last = keys.count - 1
    f.require(last >= 0, "there are no keys")
    axes = f.axes(x.shape)
    at = f.map(axes, Const(0, INT32), name="at")

    def place(index: tuple[Operand, ...], more: Expr | int = 0) -> Expr:
        return minimum(maximum(cast(at.at(index), INDEX) + more, 0), last)

    steps = last.bit_length()
    if steps:
        halves = f.constant(np.array([1 << k for k in reversed(range(steps))], np.int32), "halves")
        step = Var("step", steps)

        def halve() -> None:
            further = place(axes, cast(halves[step], INDEX))
            f.put(at, axes, axes, select(keys[further] <= x[axes], cast(further, INT32), at[axes]))

        f.scan(step, (at,), halve)
    return lambda index: (place(index), equal(keys[place(index)], x.at(index)))
