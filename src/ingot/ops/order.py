"""TopK, by repeated selection: each step finds what follows the element found before in the order wanted."""

from __future__ import annotations

from ingot.formula.expr import Const, Expr, Extent, Tensor, Var, cast, equal, select, wrap
from ingot.formula.index import as_expr
from ingot.formula.types import INT64
from ingot.ops.registry import Builder, op
from ingot.ops.runtime import scalar


@op("TopK")
def top_k_1(f: Builder, x: Tensor, *, k: int, axis: int = -1) -> tuple[Tensor, Tensor]:
    """TopK-1: k is an attribute."""
    return _top(f, x, f.axis(axis, x.rank), k, True)


@op("TopK", since=10)
def top_k(
    f: Builder, x: Tensor, k: Tensor, *, axis: int = -1, largest: int = 1, sorted: int = 1
) -> tuple[Tensor, Tensor]:
    """The k largest (or smallest) elements along an axis and where they are; ties in order (TopK-24)."""
    a = f.axis(axis, x.rank)
    f.require(k.count == 1, f"k is {list(k.shape)}, one element is needed")
    if f.is_late(k):
        count = f.measured(f.map((), scalar(k), name="k"), x.shape[a], axis=a)
    else:
        count = f.extents(k, "k")[0]
    return _top(f, x, a, count, bool(largest))


def _top(f: Builder, x: Tensor, a: int, count: Extent, largest: bool) -> tuple[Tensor, Tensor]:
    n = x.shape[a]
    f.require(not isinstance(count, int) or not isinstance(n, int) or 0 <= count <= n, f"k is {count} of {n}")
    shape = (*x.shape[:a], count, *x.shape[a + 1 :])
    values, places = f.empty(x.type, shape, "values"), f.empty(INT64, shape, "places")
    if count == 0:
        nothing = f.axes(shape)
        return f.map(nothing, wrap(0, x.type.compute), x.type), f.map(nothing, Const(0, INT64))
    axes = f.axes(x.shape)
    rest, i = (*axes[:a], *axes[a + 1 :]), Var("i", n)
    t = x.type.compute
    best, worst = (t.highest, t.lowest) if largest else (t.lowest, t.highest)
    last = f.map(rest, wrap(best, t), name="last")
    where = f.map(rest, Const(-1, INT64), name="where")
    step = Var("step", count)

    def body() -> None:
        element = x.at((*axes[:a], i, *axes[a + 1 :]))
        beyond = element < last[rest] if largest else element > last[rest]
        left: Expr = beyond | (equal(element, last[rest]) & (cast(i, INT64) > where[rest]))
        found = f.reduce(
            "max" if largest else "min",
            rest,
            (i,),
            select(left, element, wrap(worst, t)),
            init=worst,
            name="found",
        )
        hit = left & equal(element, found[rest])
        end = cast(as_expr(n) - 1, INT64)
        at = f.reduce("min", rest, (i,), select(hit, cast(i, INT64), end), init=end, name="at")
        out = (*rest[:a], step, *rest[a:])
        f.put(values, rest, out, found[rest])
        f.put(places, rest, out, at[rest])
        f.put(last, rest, rest, found[rest])
        f.put(where, rest, rest, at[rest])

    f.scan(step, (last, where), body)
    return values, places
