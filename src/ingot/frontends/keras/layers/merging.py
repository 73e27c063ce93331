"""Layers that join several tensors into one."""

from __future__ import annotations

from functools import reduce

from ingot.errors import ModelError
from ingot.formula.types import BOOL, INT32
from ingot.frontends.keras.table import Call, Result, layer
from ingot.frontends.orders import Builder, Tensor, aligned, like
from ingot.graph.ir import Value

JOINS = {"Add": "Add", "Multiply": "Mul", "Maximum": "Max", "Minimum": "Min", "Average": "Add"}
LETTERS = "abcdefghijklmnopqrstuvwxyz"


@layer(*JOINS, mask="own")
def merge(c: Call) -> Result:
    """Elements with elements; an operand of fewer axes gets axes of 1 behind the batch."""
    if c.layer.kind == "Multiply" and c.world.is_3 and any(c.mask_of(t) is not None for t in c.tensors):
        raise c.refuse("Keras 3 takes hidden steps as ones in a product, which is not supported")
    values, order = aligned(c.b, _raised(c))
    made = reduce(lambda a, b: c.b.one(JOINS[c.layer.kind], a, b), values)
    if c.layer.kind == "Average":
        made = c.b.one("Mul", made, like(c.b, made, 1 / len(values)))
    return c.mask(Tensor(made, order), _mask(c))


@layer("Subtract", mask="own")
def subtract(c: Call) -> Result:
    operands = _raised(c)
    c.require(len(operands) == 2, "two operands are needed")
    values, order = aligned(c.b, operands)
    return c.mask(Tensor(c.b.one("Sub", *values), order), _mask(c))


def _raised(c: Call) -> list[Tensor]:
    operands = c.tensors
    rank = max(t.rank for t in operands)
    if len({t.rank for t in operands}) == 1 or min(t.rank for t in operands) == 0:
        return operands
    return [
        t
        if t.rank == rank
        else Tensor(c.b.reshape(c.plain(t), (t.shape[0], *[1] * (rank - t.rank), *t.shape[1:])))
        for t in operands
    ]


def _mask(c: Call) -> Value | None:
    """Keras 3 shows what any operand shows, if all have a mask; Keras 2 what all masks show."""
    masks = [c.mask_of(t) for t in c.tensors]
    given = [m for m in masks if m is not None]
    if not given or (c.world.is_3 and len(given) < len(masks)):
        return None
    return reduce(lambda a, b: c.b.one("Or" if c.world.is_3 else "And", a, b), given)


@layer("Concatenate", mask="own")
def concatenate(c: Call) -> Result:
    operands = c.tensors
    axis = c.settings.integer("axis", -1)
    rank = operands[0].rank
    c.require(all(t.rank == rank for t in operands) and -rank <= axis < rank, f"joined along {axis}")
    made = concatenated(c.b, operands, axis % rank)
    return c.mask(made, _joined_mask(c, operands, axis % rank))


def concatenated(b: Builder, operands: list[Tensor], axis: int) -> Tensor:
    """In the order in which the first one is held that is not held plainly."""
    order = next((t.order for t in operands if t.order is not None), None)
    values = [b.held(t, order) for t in operands]
    return Tensor(b.one("Concat", *values, axis=order[axis] if order else axis), order)


def _joined_mask(c: Call, operands: list[Tensor], axis: int) -> Value | None:
    """What every operand shows; along the axis of the masks they lie behind each other."""
    b = c.b
    masks = [c.mask_of(t) for t in operands]
    if all(m is None for m in masks):
        return None
    spread = []
    for t, mask in zip(operands, masks, strict=True):
        if mask is None:
            spread.append(b.one("Expand", b.constant(True, BOOL), b.ints(t.shape)))
            continue
        extents = Tensor(mask).shape
        raised = b.reshape(mask, (*extents, *[1] * (t.rank - len(extents))))
        spread.append(b.one("Expand", raised, b.ints(t.shape)))
    joined = b.cast(b.one("Concat", *spread, axis=axis), INT32)
    return b.cast(b.one("ReduceMin", joined, b.ints([-1]), keepdims=0), BOOL)


@layer("Dot", mask="drop")
def dot(c: Call) -> Result:
    """Products along one axis of each of two tensors, perhaps of vectors of length 1."""
    s, operands = c.settings, c.tensors
    c.require(len(operands) == 2 and min(t.rank for t in operands) >= 2, "two tensors are needed")
    found = s.integers("axes", 2)
    axes = [a % t.rank if -t.rank <= a < t.rank else 0 for a, t in zip(found, operands, strict=True)]
    c.require(min(axes) > 0, f"axes {found}")
    x, y = (c.plain(t) for t in operands)
    if s.flag("normalize"):
        x, y = (_unit(c, v, a) for v, a in zip((x, y), axes, strict=True))
    made = c.b.one("Einsum", x, y, equation=_equation(operands, axes))
    result = Tensor(made)
    return Tensor(c.b.reshape(made, (*result.shape, 1))) if result.rank == 1 else result


def _equation(operands: list[Tensor], axes: list[int]) -> str:
    """The batch is common, and so is the axis of the products: batch, rest of x, rest of y."""
    if sum(t.rank for t in operands) > len(LETTERS):
        raise ModelError("the tensors of the product have too many axes")
    x, y = list(LETTERS[: operands[0].rank]), list(LETTERS[operands[0].rank :][: operands[1].rank])
    y[0], y[axes[1]] = x[0], x[axes[0]]
    rest = [*(a for a in x[1:] if a != x[axes[0]]), *(a for a in y[1:] if a != x[axes[0]])]
    return f"{''.join(x)},{''.join(y)}->{x[0]}{''.join(rest)}"


def _unit(c: Call, x: Value, axis: int) -> Value:
    square = c.b.one("ReduceSum", c.b.one("Mul", x, x), c.b.ints([axis]), keepdims=1)
    least = 1e-24 if c.world.is_3 else 1e-12
    return c.b.one("Div", x, c.b.one("Sqrt", c.b.one("Max", square, like(c.b, square, least))))
