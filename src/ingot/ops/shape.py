"""Operators that move elements and compute none: views, copies, selections by constant indices."""

from __future__ import annotations

from ingot.formula.expr import Const, Expr, Extent, Tensor
from ingot.formula.index import as_expr, product
from ingot.ops.registry import Builder, op


def reshape_to(f: Builder, x: Tensor, shape: tuple[Extent, ...]) -> Tensor:
    """The elements of `x` in row-major order under another shape."""
    axes = f.axes(shape)
    f.view = x
    flat: Expr = Const(0)
    for a, n in zip(axes, shape, strict=True):
        flat = flat * n + a
    index: list[Expr] = []
    for n in reversed(x.shape):
        index.append(flat % as_expr(n))
        flat = flat // n
    return f.map(axes, x[tuple(reversed(index))], x.type)


@op("Flatten")
def flatten(f: Builder, x: Tensor, *, axis: int = 1) -> Tensor:
    """[d0 .. d(axis-1), d(axis) .. dn] as a matrix."""
    f.require(-x.rank <= axis <= x.rank, f"axis {axis} is out of range for rank {x.rank}")
    axis = axis + x.rank if axis < 0 else axis
    from ingot.formula.expr import extent

    return reshape_to(f, x, (extent(product(x.shape[:axis])), extent(product(x.shape[axis:]))))
