"""Reductions along axes that are known. The operand stays in the order in which it is held."""

from __future__ import annotations

from ingot.formula.types import BOOL, INT32, INT64
from ingot.frontends.tensorflow.ops.table import Call, Result, op
from ingot.frontends.tensorflow.values import Tensor
from ingot.graph.ir import Value

ONNX = {
    "Sum": "ReduceSum",
    "Mean": "ReduceMean",
    "Prod": "ReduceProd",
    "Max": "ReduceMax",
    "Min": "ReduceMin",
    "EuclideanNorm": "ReduceL2",
    "All": "ReduceMin",
    "Any": "ReduceMax",
}


@op(*ONNX)
def reduction(c: Call) -> Result:
    """No axes: the operand as it is."""
    x = c.tensor(0)
    axes = c.axes(1, x.rank)
    if not axes:
        return x
    value = c.b.cast(x.value, INT32) if x.dtype is BOOL else x.value
    made = c.b.one(ONNX[c.node.op], value, c.b.ints(sorted(held_axes(x, axes))), keepdims=1)
    return without(c, Tensor(c.b.cast(made, x.dtype), x.order), axes)


def held_axes(x: Tensor, axes: tuple[int, ...]) -> list[int]:
    return [x.order[a] for a in axes] if x.order else list(axes)


def without(c: Call, y: Tensor, axes: tuple[int, ...]) -> Tensor | Value:
    """The result without the axes of extent 1 that were reduced, unless they are to be kept."""
    if c.node.flag("keep_dims") or c.node.flag("keepdims"):
        return y
    kept = [a for a in range(y.rank) if a not in axes]
    shape = [y.shape[a] for a in kept]
    places = held_axes(y, tuple(kept))
    return c.b.reshape(y.value if places == sorted(places) else c.b.plain(y), shape)


@op("ArgMax", "ArgMin")
def arg(c: Call) -> Result:
    """The first of several equal ones."""
    x = c.tensor(0)
    axis = c.axis(1, x.rank) if len(c.items) > 1 else 0
    made = c.b.one(c.node.op, c.b.plain(x), axis=axis, keepdims=0)
    return c.b.cast(made, c.node.dtype("output_type") if c.node.has("output_type") else INT64)
