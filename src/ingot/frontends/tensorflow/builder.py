"""Our graph as the importer writes it, one ONNX operation after the other.

Every operation is inferred at once, so that shapes are known to whoever comes next, and what follows from
constants becomes a constant instead of a node. A builder per graph: the bodies of Loop and If have their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ingot.errors import IngotError, ModelError, UnsupportedError
from ingot.formula.expr import static
from ingot.formula.types import DType
from ingot.frontends.tensorflow.values import Order, Tensor
from ingot.graph.ir import Attribute, Graph, Node, Value, constant_value
from ingot.graph.onnx_types import dtype_to_onnx
from ingot.ops.infer import infer

OPSET = 18
NODES_LIMIT = 20_000
EXPANSION = 10  # nodes for each of a graph that has more


@dataclass(slots=True)
class Names:
    """Names in use, and the TensorFlow node that is being written."""

    taken: dict[str, int] = field(default_factory=dict)
    label: str = ""
    place: str = "value"
    made: int = 0
    most: int = NODES_LIMIT

    def count(self) -> None:
        """One node more, or one call. Raises UnsupportedError where it is one too many."""
        self.made += 1
        if self.made > self.most:
            raise UnsupportedError(
                f"{self.label}: the graph unrolls to more than {self.most} nodes and calls"
            )

    def fresh(self, wanted: str) -> str:
        """`wanted`, or with a number behind it. Outer and inner graphs share the names."""
        wanted = wanted or "value"
        number = self.taken.get(wanted, 0)
        self.taken[wanted] = number + 1
        return wanted if not number else self.fresh(f"{wanted}__{number}")


@dataclass(slots=True)
class Builder:
    """Appends to `graph`. `orders` remembers what a value is called with its axes in another order."""

    graph: Graph
    names: Names
    outer: Builder | None = None
    orders: dict[tuple[Value, tuple[int, ...]], Value] = field(default_factory=dict)

    # ---- operations

    def one(self, op: str, *inputs: Value | None, **attributes: Any) -> Value:
        """An operation with one output."""
        return self.many(op, 1, *inputs, **attributes)[0]

    def many(self, op: str, count: int, *inputs: Value | None, **attributes: Any) -> list[Value]:
        """An operation with `count` outputs. A DType among the attributes becomes ONNX's number."""
        self.names.count()
        outputs = [Value(self.names.fresh(self.names.place)) for _ in range(count)]
        given = {k: _attribute(v) for k, v in attributes.items() if v is not None}
        operands = list(inputs)
        while operands and operands[-1] is None:
            operands.pop()
        node = Node(
            op, operands, list(outputs), given, self.names.fresh(f"{self.names.place}/{op}"), "", OPSET
        )
        try:
            infer(Graph("", [], [], [node]))
        except IngotError as error:
            raise type(error)(f"{self.names.label}: {error}") from None
        if any(v.constant is None for v in outputs):
            self.graph.nodes.append(node)
        return outputs

    def constant(self, array: Any, dtype: DType | None = None) -> Value:
        """A constant of this type; Python's integers are int64."""
        made = np.asarray(array, dtype.numpy if dtype else None)
        return constant_value(self.names.fresh(f"{self.names.place}/const"), made)

    def ints(self, values: Sequence[int] | int) -> Value:
        """Raises ModelError for numbers of more than 64 bits."""
        try:
            return self.constant(np.asarray(values, np.int64))
        except OverflowError:
            raise ModelError(f"{self.names.label}: {values} is more than 64 bits hold") from None

    # ---- orders of axes

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

    def transposed(self, value: Value, order: tuple[int, ...]) -> Value:
        """Axis i of the result is axis order[i]; made once for each value."""
        if order == tuple(range(len(order))):
            return value
        builder: Builder | None = self
        while builder is not None:
            if (value, order) in builder.orders:
                return builder.orders[value, order]
            builder = builder.outer
        extents = extents_of(value)
        moved = [a for a in order if extents[a] != 1]
        if value.constant is not None:
            made = self.constant(np.ascontiguousarray(np.transpose(value.constant, order)))
        elif moved == sorted(moved):  # only axes of extent 1 change places: the elements stay
            made = self.one("Reshape", value, self.ints([extents[a] for a in order]))
        else:
            made = self.one("Transpose", value, perm=order)
        self.orders[value, order] = made
        return made

    # ---- small words

    def cast(self, value: Value, dtype: DType) -> Value:
        return value if value.type == dtype else self.one("Cast", value, to=dtype)

    def reshape(self, value: Value, shape: Sequence[int]) -> Value:
        return value if value.shape == tuple(shape) else self.one("Reshape", value, self.ints(list(shape)))

    def inner(self, name: str) -> Builder:
        """A builder for a graph inside this one."""
        return Builder(Graph(name), self.names, self)


def extents_of(value: Value) -> list[int]:
    """The shape, which is static."""
    assert value.shape is not None, "every value of the importer is inferred"
    return [static(n) for n in value.shape]


def _attribute(value: Any) -> Attribute:
    if isinstance(value, DType):
        return dtype_to_onnx(value)
    if isinstance(value, list):
        return tuple(value)
    found: Attribute = value
    return found
