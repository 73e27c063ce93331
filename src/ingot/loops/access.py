"""How loads move with loop variables: element strides, and the vector forms of expressions."""

from __future__ import annotations

from ingot.formula.expr import Cast, Expr, Gathered, Load, Tensor, Var, transform, with_lanes
from ingot.formula.index import coefficient, mentions
from ingot.loops.layout import Storage


class NotVectorizable(Exception):
    """An expression has no vector form along the axis asked for; a generator catches it and declines."""


def strides(t: Tensor) -> tuple[int, ...] | None:
    """Elements between neighbours along each dimension; None unless all dimensions are static."""
    out, step = [], 1
    for n in reversed(t.spans):
        if not isinstance(n, int):
            return None
        out.append(step)
        step *= n
    return tuple(reversed(out))


def known_strides(t: Tensor) -> tuple[int | None, ...]:
    """The same, None for the dimensions before one whose extent is known at run time only."""
    out: list[int | None] = []
    step: int | None = 1
    for n in reversed(t.spans):
        out.append(step)
        step = None if step is None or not isinstance(n, int) else step * n
    return tuple(reversed(out))


def step(load: Load, name: str) -> int | None:
    """Elements by which a load moves when variable `name` grows by one; None if not a constant."""
    total = 0
    for i, size in zip(load.index, known_strides(load.tensor), strict=True):
        c = coefficient(i, name)
        if c is None or (c and size is None):
            return None
        total += c * (size or 0)
    return total


def vectorize(e: Expr, name: str, lanes: int) -> Expr:
    """The expression for `lanes` consecutive values of variable `name`.

    Loads that move by one become vector loads, those that stay are broadcast. Raises NotVectorizable
    otherwise.
    """
    if lanes == 1:
        return e

    def vector(node: Expr) -> Expr | None:
        match node:
            case Load():
                return _vector_load(node, name, lanes)
            case Var(n) if n == name:
                raise NotVectorizable(f"{name} itself is a value")
            case Gathered():
                raise NotVectorizable("a data-dependent index")
            case Cast(a, to) if mentions(a, name) and a.dtype.bits != to.bits:
                raise NotVectorizable("a cast between widths")
        return None

    return transform(e, vector)


def _vector_load(load: Load, name: str, lanes: int) -> Expr:
    moved = step(load, name)
    if moved == 0:
        return load
    if moved != 1 or not load.index or coefficient(load.index[load.tensor.lane_axis], name) != 1:
        raise NotVectorizable(f"{load.tensor.name} moves by {moved} with {name}")
    if load.tensor.type.compute is not load.tensor.type or load.tensor.type.bits < 32:
        raise NotVectorizable("a narrow element type")
    return with_lanes(load, lanes)


def align_constants(e: Expr, name: str, storage: Storage) -> Expr:
    """The expression with constants transposed at compile time so that they lie contiguous along variable
    `name`.
    """

    def aligned(node: Expr) -> Expr | None:
        if not isinstance(node, Load) or node.tensor.value is None or step(node, name) in (0, 1, None):
            return None
        moving = [d for d, i in enumerate(node.index) if coefficient(i, name) != 0]
        if len(moving) != 1 or coefficient(node.index[moving[0]], name) != 1:
            return None
        order = (*(d for d in range(node.tensor.rank) if d != moving[0]), moving[0])
        return Load(storage.transposed(node.tensor, order), tuple(node.index[d] for d in order), node.outside)

    return transform(e, aligned)
