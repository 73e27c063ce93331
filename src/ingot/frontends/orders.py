"""Tensors that are held with their axes in another order than the source framework gives them.

What a convolution makes stays channels-first until somebody needs it channels-last, so an image network in
NHWC has one Transpose at each end. In: values of a builder; out: the same values, transposed where that is
needed. Called by the importers of frameworks that keep channels last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ingot.formula.expr import Array, static
from ingot.formula.types import DType
from ingot.frontends import builder
from ingot.graph.ir import Value

Order = tuple[int, ...]
FAR = (1 << 31) - 1


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """The framework's axis i is axis `order[i]` of `value`; None: they are the same."""

    value: Value
    order: Order | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents as the framework has them."""
        held = self.value.shape
        assert held is not None, "every value of the importer is inferred"
        extents = tuple(map(static, held))
        return extents if self.order is None else tuple(extents[i] for i in self.order)

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def dtype(self) -> DType:
        assert self.value.type is not None, "every value of the importer is inferred"
        return self.value.type

    @property
    def constant(self) -> Array | None:
        """The elements as the framework has them, if they are known."""
        found = self.value.constant
        return found if found is None or self.order is None else np.transpose(found, self.order)


@dataclass(slots=True)
class Builder(builder.Builder):
    """Gives the value of a tensor with its axes as they are wanted."""

    def plain(self, t: Tensor) -> Value:
        """The value with its axes as the framework has them."""
        return t.value if t.order is None else self.transposed(t.value, t.order)

    def held(self, t: Tensor, order: Order | None) -> Value:
        """The value with its axes in this order."""
        if t.order == order:
            return t.value
        if order is None:
            return self.plain(t)
        back = [0] * len(order)
        for i, k in enumerate(order):
            back[k] = i
        return self.transposed(self.plain(t), tuple(back))


def channels_first(rank: int) -> Order:
    """
    >>> channels_first(4)
    (0, 2, 3, 1)
    """
    return (0, *range(2, rank), 1)


def like(b: builder.Builder, x: Value, number: float) -> Value:
    """A constant of x's type."""
    assert x.type is not None, "every value of the importer is inferred"
    return b.constant(number, x.type)


def aligned(b: Builder, tensors: Sequence[Tensor]) -> tuple[list[Value], Order | None]:
    """Operands that broadcast against each other, in the order in which the first of full rank is held."""
    rank = max(t.rank for t in tensors)
    order = next((t.order for t in tensors if t.rank == rank and t.order is not None), None)
    if order is None:
        return [b.plain(t) for t in tensors], None
    return [_raised(b, t, rank, order) for t in tensors], order


def _raised(b: Builder, t: Tensor, rank: int, order: Order) -> Value:
    if t.rank == rank:
        return b.held(t, order)
    if t.rank == 0:
        return b.plain(t)
    raised = b.reshape(b.plain(t), (1,) * (rank - t.rank) + t.shape)
    return b.held(Tensor(raised), order)


def sliced(
    b: builder.Builder, x: Value, starts: Sequence[int], ends: Sequence[int], steps: Sequence[int]
) -> Value:
    """ONNX's Slice of the axes not taken whole. Behind a negative step, an end of -1 is before the first."""
    assert x.shape is not None, "every value of the importer is inferred"
    used = [
        i
        for i, n in enumerate(x.shape)
        if (starts[i], steps[i]) != (0, 1) or (isinstance(n, int) and ends[i] < n)
    ]
    if not used:
        return x
    bounds = [[s[i] for i in used] for s in (starts, ends)]
    bounds[1] = [-FAR if steps[i] < 0 and ends[i] < 0 else ends[i] for i in used]
    return b.one("Slice", x, *map(b.ints, bounds), b.ints(used), b.ints([steps[i] for i in used]))


def same_pads(n: int, k: int, stride: int, dilation: int) -> tuple[int, int]:
    """Padding SAME of an axis of n elements and k taps: every input is covered, more of it behind.

    >>> same_pads(8, 3, 2, 1)
    (0, 1)
    """
    total = max((-(-n // stride) - 1) * stride + (k - 1) * dilation + 1 - n, 0)
    return total // 2, total - total // 2


def own(inner: builder.Builder, values: Sequence[Value]) -> list[Value]:
    """Outputs of a graph inside another one are made in it, each by itself."""
    made = {v for n in inner.graph.nodes for v in n.outputs}
    out: list[Value] = []
    for value in values:
        out.append(value if value in made and value not in out else inner.one("Identity", value))
    return out
