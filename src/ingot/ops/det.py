"""Determinants, by elimination with partial pivoting.

In: square matrices, batched. Out: one number each; what makes it is a Scan over the columns.
"""

from __future__ import annotations

from ingot.formula.expr import Const, Expr, Gathered, Tensor, Var, binary, call, cast, equal, select, wrap
from ingot.formula.index import as_expr
from ingot.formula.types import INT32
from ingot.ops.registry import Builder, op


@op("Det", since=11)
def det(f: Builder, x: Tensor) -> Tensor:
    """The product of the pivots, its sign changed by every exchange of rows; 1 of no rows (Det-22)."""
    f.same_type((x,), "f")
    f.require(x.rank >= 2 and x.shape[-1] == x.shape[-2], f"shape {list(x.shape)} holds no square matrices")
    t, n = x.type.compute, x.shape[-1]
    *lead, i, j = axes = f.axes(x.shape)
    batch = tuple(lead)
    a = f.map(axes, x[axes], t, "a")
    product = f.map(batch, wrap(1, t), name="product")
    k = Var("k", n)

    def body() -> None:
        """Column k: the row with its largest element goes out, row k into its place."""
        size = call("abs", a.at((*batch, i, k)))
        below = binary("ge", i, k)
        top = f.reduce("max", batch, (i,), select(below, size, wrap(-1, t)), init=-1, name="top")
        hit = below & equal(size, top[batch])
        last = cast(as_expr(n) - 1, INT32)
        found = f.reduce("min", batch, (i,), select(hit, cast(i, INT32), last), init=last, name="found")
        row: Expr = Gathered(found[batch], Const(0), as_expr(n))
        pivot = f.map((*batch, j), a.at((*batch, row, j)), name="pivot")
        f.put(a, (*batch, j), (*batch, row, j), a.at((*batch, k, j)))
        p = pivot.at((*batch, k))
        f.put(product, batch, batch, product[batch] * select(equal(found[batch], cast(k, INT32)), p, -p))
        rest = select((i > k) & binary("ne", p, 0.0), a.at((*batch, i, k)) / p, wrap(0, t))
        factor = f.map((*batch, i), rest, name="factor")
        f.put(a, axes, axes, a[axes] - factor.at((*batch, i)) * pivot.at((*batch, j)))

    f.scan(k, (a, product), body)
    return f.map(batch, product[batch], x.type)
