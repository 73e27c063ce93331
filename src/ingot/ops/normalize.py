"""Softmax and the normalisations: statistics along axes, then a map."""

from __future__ import annotations

from ingot.formula.expr import Tensor, call
from ingot.ops.registry import Builder, op


@op("Softmax", since=13)
def softmax(f: Builder, x: Tensor, *, axis: int = -1) -> Tensor:
    """exp(x - max) / sum(exp(x - max)) along one axis."""
    i = f.axis(axis, x.rank)
    axes = f.axes(x.shape)
    rest, along = (*axes[:i], *axes[i + 1 :]), axes[i]
    top = f.reduce("max", rest, (along,), x[axes], init=x.type.compute.lowest, name="top")
    e = f.map(axes, call("exp", x[axes] - top[rest]), name="e")
    total = f.reduce("sum", rest, (along,), e[axes], name="total")
    return f.map(axes, e[axes] / total[rest], x.type)
