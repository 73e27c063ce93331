"""Pooling: reductions over sliding windows."""

from __future__ import annotations

from ingot.formula.expr import Tensor
from ingot.ops.contract import SPATIAL
from ingot.ops.registry import Builder, op
from ingot.ops.window import window


@op("MaxPool")
def max_pool(
    f: Builder,
    x: Tensor,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: tuple[int, ...] | None = None,
    kernel_shape: tuple[int, ...],
    pads: tuple[int, ...] | None = None,
    storage_order: int = 0,
    strides: tuple[int, ...] | None = None,
) -> Tensor:
    """y[n, c, o...] = max over k... of x[n, c, o*stride + k*dilation - pad]; padding never wins."""
    where = window(f, x.shape[2:], tuple(kernel_shape), auto_pad, dilations, pads, strides, bool(ceil_mode))
    names = SPATIAL[len(where.out)].split()
    n, c, *o = f.axes((*x.shape[:2], *where.out), " ".join(["n c", *(f"o{s}" for s in names)]))
    k = f.axes(where.kernel, " ".join(f"k{s}" for s in names))
    lowest = x.type.compute.lowest
    term = x.at((n, c, *where.positions(o, k)), outside=lowest)
    return f.reduce("max", (n, c, *o), tuple(k), term, init=lowest, dtype=x.type)
