"""Unique: the different elements of a tensor, or its different slices along an axis.

In: a tensor. Out: what is different, where it stands first, which of them each element is, and how often
each occurs. Elements are sorted (`sorting`), equal neighbours are one.
"""

from __future__ import annotations

from ingot.formula.expr import Const, Expr, Gathered, Tensor, Var, call, cast, equal, select
from ingot.formula.extents import extent
from ingot.formula.index import as_expr, product
from ingot.formula.types import INT32, INT64
from ingot.ops.nonzero import point
from ingot.ops.registry import Builder, op
from ingot.ops.sorting import place, same, sorted_order


@op("Unique", since=11)
def unique(f: Builder, x: Tensor, *, axis: int | None = None, sorted: int = 1) -> tuple[Tensor, ...]:
    """y, the first places, the inverse, the counts; in order of size or of first places (Unique-28).

    NaNs are one element and stand last, zeros are one; what stands first in `x` is taken.
    """
    a = None if axis is None else f.axis(axis, x.rank)
    items = _items(f, x, a)
    n = items.shape[0]
    inverse, count = _numbered(f, items, bool(sorted))
    first, often = _summary(f, inverse)
    beyond = None if isinstance(n, int) else 0  # of nothing nothing is read, but who is to prove that?

    def listed(values: Tensor, output: int) -> Tensor:
        """What is known of each, as an output."""
        if output >= len(f.wanted) or not f.wanted[output]:
            return values
        u = Var("u", f.measured(count, n, output=output))
        return f.map((u,), cast(values.at((place(u, n),), beyond), INT64), name=f"y{output}")

    k = Var("u", f.measured(count, n, axis=a or 0))
    at = place(first.at((place(k, n),), beyond), n)
    if a is None:
        y = f.map((k,), items.at((at, 0), beyond), x.type)
    else:
        axes = f.axes(x.shape)
        y = f.map((*axes[:a], k, *axes[a + 1 :]), x.at((*axes[:a], at, *axes[a + 1 :]), beyond), x.type)
    return y, listed(first, 1), inverse, listed(often, 3)


def _items(f: Builder, x: Tensor, a: int | None) -> Tensor:
    """What is compared: [n, columns]."""
    if a is None:
        i, c = f.axes((extent(product(x.shape)), 1), "i c")
        return f.map((i, c), x.at(point(i, x.shape)), x.type, "items")
    rest = (*x.shape[:a], *x.shape[a + 1 :])
    i, c = f.axes((x.shape[a], extent(product(rest))), "i c")
    index = point(c, rest)
    return f.map((i, c), x.at((*index[:a], i, *index[a:])), x.type, "items")


def _numbered(f: Builder, items: Tensor, by_size: bool) -> tuple[Tensor, Tensor]:
    """Which of the different ones every item is, and how many there are."""
    n, columns = items.shape
    order = sorted_order(f, items)
    k, c = Var("k", n), Var("c", columns)
    own, last = (place(order.at((place(j, n),)), n) for j in (k, k - 1))
    differs = call("not", same(items.at((own, c)), items.at((last, c))))
    begins = f.reduce(
        *("or", (k,), (c,), differs), init=False, post=lambda acc: acc | equal(k, 0), name="begins"
    )
    zero = Const(0, INT64)
    number = f.map((k,), zero, name="number")
    heads = f.map((k,), Const(0, INT32), name="heads")
    count, head = f.map((), zero, name="count"), f.map((), Const(0, INT32), name="head")
    step = Var("step", n)

    def body() -> None:
        """The items in order of size: each gets its number, and the place of the first item equal to it."""
        item = order.at((step,))
        to = Gathered(item, Const(0), as_expr(n))
        f.put(head, (), (), select(begins.at((step,)), item, head[()]))
        f.put(count, (), (), count[()] + cast(begins.at((step,)), INT64))
        f.put(number, (), (to,), count[()] - 1)
        f.put(heads, (), (to,), head[()])

    f.scan(step, (count, head, number, heads), body)
    return (number if by_size else _by_place(f, heads)), count


def _by_place(f: Builder, heads: Tensor) -> Tensor:
    """Numbers in order of the first places."""
    n = heads.shape[0]
    i, step = Var("i", n), Var("step", n)
    rank, seen = f.map((i,), Const(0, INT64), name="rank"), f.map((), Const(0, INT64), name="seen")

    def body() -> None:
        f.put(rank, (), (step,), seen[()])
        is_first: Expr = equal(heads.at((step,)), cast(step, INT32))
        f.put(seen, (), (), seen[()] + cast(is_first, INT64))

    f.scan(step, (rank, seen), body)
    return f.map((i,), rank.at((place(heads[i], n),)), name="inverse")


def _summary(f: Builder, inverse: Tensor) -> tuple[Tensor, Tensor]:
    """The first place of each number, and how often it occurs; items backwards, so that the first wins."""
    n = inverse.shape[0]
    i, step = Var("i", n), Var("step", n)
    first, often = (f.map((i,), Const(0, INT64), name=name) for name in ("first", "often"))

    def body() -> None:
        item = as_expr(n) - 1 - step
        to = Gathered(inverse.at((item,)), Const(0), as_expr(n))
        f.put(first, (), (to,), cast(item, INT64))
        f.put(often, (), (to,), often.at((to,)) + 1)

    f.scan(step, (first, often), body)
    return first, often
