"""TopK, by repeated selection: each step finds what follows the element found before in the order wanted.

NaN is greater than every number, as ArgMax and Unique have it, onnxruntime and onnx's reference: the largest
begin with the NaNs, the smallest end with them. Equal elements, and all NaNs are equal, stand in the order of
their places. With `sorted=0` ONNX leaves the order open; it is the same.
"""

from __future__ import annotations

from ingot.formula.compute import Stage
from ingot.formula.expr import Const, Expr, Extent, Tensor, Var, call, cast, equal, select, wrap
from ingot.formula.index import as_expr
from ingot.formula.types import INT64
from ingot.graph.ir import Node
from ingot.ops.registry import Builder, op
from ingot.ops.runtime import scalar
from ingot.ops.sorting import less, same


@op("TopK")
def top_k_1(f: Builder, x: Tensor, *, k: int, axis: int = -1) -> tuple[Tensor, Tensor]:
    """TopK-1: k is an attribute."""
    return _top(f, x, f.axis(axis, x.rank), k, True)


@op("TopK", since=10)
def top_k(
    f: Builder, x: Tensor, k: Tensor, *, axis: int = -1, largest: int = 1, sorted: int = 1
) -> tuple[Tensor, Tensor]:
    """The k largest (or smallest) elements along an axis and where they are; ties in order (TopK-24). NaN is
    greater than every number.
    """
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
    if count == 0:
        nothing = f.axes((*x.shape[:a], count, *x.shape[a + 1 :]))
        return f.map(nothing, wrap(0, x.type.compute), x.type), f.map(nothing, Const(0, INT64))
    return _selected(f, x, a, count, largest)


def top_stages(x: Tensor, a: int, count: Extent, largest: bool) -> tuple[Stage, ...]:
    """The definition's stages for a tensor and an axis: what a generator of loops knows them by."""
    f = Builder(Node("TopK", [], []))
    _selected(f, x, a, count, largest)
    return tuple(f.stages)


def _selected(f: Builder, x: Tensor, a: int, count: Extent, largest: bool) -> tuple[Tensor, Tensor]:
    n, shape = x.shape[a], (*x.shape[:a], count, *x.shape[a + 1 :])
    values, places = f.empty(x.type, shape, "values"), f.empty(INT64, shape, "places")
    axes = f.axes(x.shape)
    rest, i = (*axes[:a], *axes[a + 1 :]), Var("i", n)
    t = x.type.compute
    top = float("nan") if t.is_float else t.highest
    last = f.map(rest, wrap(top if largest else t.lowest, t), name="last")
    where = f.map(rest, Const(-1, INT64), name="where")
    step = Var("step", count)

    def body() -> None:
        element = x.at((*axes[:a], i, *axes[a + 1 :]))
        beyond = less(element, last[rest]) if largest else less(last[rest], element)
        left = beyond | (same(element, last[rest]) & (cast(i, INT64) > where[rest]))
        found, at = (_greatest if largest else _least)(f, rest, i, element, left)
        out = (*rest[:a], step, *rest[a:])
        f.put(values, rest, out, found)
        f.put(places, rest, out, at)
        f.put(last, rest, rest, found)
        f.put(where, rest, rest, at)

    f.scan(step, (last, where), body)
    return values, places


def _greatest(f: Builder, rest: tuple[Var, ...], i: Var, element: Expr, left: Expr) -> tuple[Expr, Expr]:
    """The greatest element along `i` of those that are left, and its first place. A maximum keeps NaN."""
    worst = wrap(element.dtype.lowest, element.dtype)
    found = f.reduce("max", rest, (i,), select(left, element, worst), init=worst, name="found")
    end = cast(as_expr(i.extent or 0) - 1, INT64)
    hit = left & same(element, found[rest])
    at = f.reduce("min", rest, (i,), select(hit, cast(i, INT64), end), init=end, name="at")
    return found[rest], at[rest]


def _least(f: Builder, rest: tuple[Var, ...], i: Var, element: Expr, left: Expr) -> tuple[Expr, Expr]:
    """The least element, and its first place. NaNs are overlooked while there are numbers: their places count
    on behind the others'.
    """
    t = element.dtype
    worst, n = wrap(t.highest, t), cast(as_expr(i.extent or 0), INT64)
    if not t.is_float:
        found = f.reduce("min", rest, (i,), select(left, element, worst), init=worst, name="found")
        hit = select(left & equal(element, found[rest]), cast(i, INT64), n - 1)
        return found[rest], f.reduce("min", rest, (i,), hit, init=n - 1, name="at")[rest]
    is_number = equal(element, element)
    number = select(left & is_number, element, worst)
    found = f.reduce("min", rest, (i,), number, init=worst, name="found")
    behind = select(left & call("not", is_number), cast(i, INT64) + n, n + n - 1)
    hit = select(left & equal(element, found[rest]), cast(i, INT64), behind)
    at = f.reduce("min", rest, (i,), hit, init=n + n - 1, name="at")[rest]
    return select(at < n, found[rest], float("nan")), select(at < n, at, at - n)
