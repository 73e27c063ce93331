"""Parameters of operators that are known at run time only: how a definition reads them.

In: parameter tensors without a value; out: int64 expressions, of which `Builder.measured` makes extents.
"""

from __future__ import annotations

from ingot.formula.expr import (
    Const,
    Expr,
    Extent,
    Gathered,
    Tensor,
    cast,
    equal,
    maximum,
    minimum,
    select,
)
from ingot.formula.index import as_expr, interval
from ingot.formula.types import INT64
from ingot.ops.registry import Builder

FAR = 1 << 30  # beyond every axis, and far from overflow


def parameter(values: Tensor, axes: Tensor | None, axis: int, rank: int, default: int) -> Expr:
    """The element of a run-time parameter that belongs to `axis`; `axes` says which stands for which."""
    if axes is None:
        return cast(values[axis], INT64) if axis < values.count else Const(default, INT64)
    out: Expr = Const(default, INT64)
    for k in range(axes.count):
        named = cast(axes[k], INT64)
        hit = equal(named, axis) | equal(named, axis - rank)
        out = select(hit, cast(values[k], INT64), out)
    return out


def within(value: Expr, most: int = FAR) -> Expr:
    """An int64 that is data, cut to what arithmetic with extents can take without overflowing."""
    return maximum(minimum(value, most), -most)


def scalar(t: Tensor) -> Expr:
    """The one element of a run-time parameter as an int64."""
    return cast(t[(0,) * t.rank], INT64)


def zero_if(condition: Expr) -> Expr:
    """An index that is 0: the bundle leaves with ERR_INDEX where the condition does not hold."""
    return Gathered(select(condition, Const(0, INT64), Const(-1, INT64)), Const(0), Const(1))


def there(i: Expr, n: Extent) -> Expr:
    """A position in an axis; of one that may be empty only the run tells: ERR_INDEX."""
    return i if interval(n)[0] > 0 else Gathered(cast(i, INT64), Const(0), as_expr(n))


def require_single(f: Builder, kinds: str, **parameters: Tensor | None) -> None:
    """Raise ShapeError unless every parameter given has one element, of a type among `kinds`."""
    for name, t in parameters.items():
        fits = t is None or (t.count == 1 and t.type.kind in kinds)
        f.require(fits, f"{name} is {t and t.type}{t and list(t.shape)}, one element is needed")
