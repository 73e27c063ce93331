"""Orders: a stable merge sort as stages, and the comparison of elements that it and others go by.

In: items of one or several columns. Out: their permutation. log2(n) passes double the length of the sorted
runs; in each, every item finds its place in the run beside its own by a binary search.
"""

from __future__ import annotations

import numpy as np

from ingot.formula.expr import (
    Const,
    Expr,
    Extent,
    Gathered,
    Tensor,
    Var,
    call,
    cast,
    equal,
    maximum,
    minimum,
    select,
)
from ingot.formula.index import as_expr, upper
from ingot.formula.types import BOOL, INDEX, INT32, UINT8
from ingot.ops.registry import Builder


def less(a: Expr, b: Expr) -> Expr:
    """Whether a stands before b: NaN is greater than every number, false less than true."""
    if a.dtype is BOOL:
        return cast(a, UINT8) < cast(b, UINT8)
    if a.dtype.is_float:
        return (a < b) | (call("isnan", b) & call("not", call("isnan", a)))
    return a < b


def same(a: Expr, b: Expr) -> Expr:
    """Whether neither stands before the other: all NaNs are one."""
    if a.dtype is BOOL:
        return equal(cast(a, UINT8), cast(b, UINT8))
    if a.dtype.is_float:
        return equal(a, b) | (call("isnan", a) & call("isnan", b))
    return equal(a, b)


def place(e: Expr, n: Extent) -> Expr:
    """A number that is an index into an axis of `n` by how it was made."""
    return maximum(minimum(cast(e, INDEX), as_expr(n) - 1), 0)


def sorted_order(f: Builder, items: Tensor) -> Tensor:
    """Which of the items [n, columns] comes k-th: [n], int32. The first column counts most; stable."""
    n, columns = items.shape
    i = Var("i", n)
    order = f.map((i,), cast(i, INT32), INT32, "order")
    passes = (upper(n) - 1).bit_length() if upper(n) > 1 else 0
    if not passes:
        return order
    widths = f.constant(2 ** np.arange(passes, dtype=np.int32), "widths")
    following = f.map((i,), cast(i, INT32), INT32, "following")
    column, turn = Var("column", columns), Var("turn", passes)

    def merge() -> None:
        _merge(f, items, order, following, as_expr(columns) - 1 - column, cast(widths[turn], INDEX), passes)

    f.scan(column, (order, following), lambda: f.scan(turn, (order, following), merge))
    return order


def _merge(
    f: Builder, items: Tensor, order: Tensor, following: Tensor, column: Expr, width: Expr, steps: int
) -> None:
    """Runs of `width` items become runs of twice as many; the left of equal ones stays on the left."""
    n = items.shape[0]
    size, i = as_expr(n), Var("i", n)
    run = i // width
    is_right = run % 2
    beside = minimum((run + 1 - is_right * 2) * width, size)
    low = f.map((i,), cast(beside, INT32), INT32, "low")
    high = f.map((i,), cast(minimum(beside + width, size), INT32), INT32, "high")

    def key(k: Expr) -> Expr:
        return items.at((place(order.at((place(k, n),)), n), column))

    def search() -> None:
        middle = f.map((i,), (low[i] + high[i]) >> 1, INT32, "middle")
        own, other = key(i), key(middle[i])
        after = select(equal(is_right, 0), less(other, own), call("not", less(own, other)))
        beyond = f.map((i,), (low[i] < high[i]) & after, BOOL, "beyond")
        f.put(high, (i,), (i,), select(beyond[i], high[i], middle[i]))
        f.put(low, (i,), (i,), select(beyond[i], middle[i] + 1, low[i]))

    f.scan(Var("step", steps), (low, high), search)
    start = (run - is_right) * width + (i - run * width) - beside
    to = Gathered(cast(start, INT32) + low[i], Const(0), size)
    f.put(following, (i,), (to,), order[i])
    f.put(order, (i,), (i,), following[i])
