"""The builder of TensorFlow's importer: the common one, and tensors held with their axes in another order."""

from __future__ import annotations

from dataclasses import dataclass

from ingot.frontends import builder
from ingot.frontends.tensorflow.values import Order, Tensor
from ingot.graph.ir import Value


@dataclass(slots=True)
class Builder(builder.Builder):
    """Gives the value of a tensor with its axes as they are wanted."""

    def plain(self, t: Tensor) -> Value:
        """The value with its axes as TensorFlow has them."""
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
        source = self.plain(t) if t.order is not None else t.value
        return self.transposed(source, tuple(back))
