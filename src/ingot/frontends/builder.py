"""Our graph as the importers write it, one ONNX operation after the other; then the graph as an ONNX model.

Every operation is inferred at once, so that shapes are known to whoever comes next, and what follows from
constants becomes a constant instead of a node. A builder per graph: the bodies of Loop and If have their own.
In: operations in terms of ONNX. Out: a ModelProto. Called by the importers of every other format.

    b = Builder(Graph("net"), Names())
    b.names.reserve("x", "y")
    x = b.input("x", FLOAT32, (1, 4))
    b.at("dense 1")                                    # what errors call the layer, and where names come from
    b.output(b.one("MatMul", x, b.constant(w)), "y")
    model = b.model()
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import onnx
import onnx.numpy_helper

from ingot.errors import IngotError, ModelError, UnsupportedError
from ingot.formula.budget import Budget
from ingot.formula.expr import Array, static
from ingot.formula.types import INT64, DType
from ingot.graph.ir import Attribute, Graph, Node, Value, constant_value, reads
from ingot.graph.onnx_types import dtype_to_onnx
from ingot.graph.to_onnx import to_onnx
from ingot.graph.verify import COUNT_LIMIT, RANK_LIMIT
from ingot.ops.infer import infer_written

AnyBuilder = TypeVar("AnyBuilder", bound="Builder")
OPSET = 18
NODES_LIMIT = 20_000
EXPANSION = 10  # nodes for each of a graph that has more
COUNTED_BYTES = 1 << 28  # of elements that a file counts and does not hold


@dataclass(slots=True)
class Names:
    """What outer and inner graphs share. Errors call the node that is being written `label`; names of what it
    makes begin with `place`. `folding` is what may still be folded."""

    taken: dict[str, int] = field(default_factory=dict)
    label: str = ""
    place: str = "value"
    made: int = 0
    most: int = NODES_LIMIT
    folding: Budget = field(default_factory=Budget)

    def count(self) -> None:
        """One node more, or one call. Raises UnsupportedError where it is one too many."""
        self.made += 1
        if self.made > self.most:
            raise UnsupportedError(
                f"{self.label}: the graph unrolls to more than {self.most} nodes and calls"
            )

    def reserve(self, *names: str) -> None:
        """Keep these names for the inputs and outputs of the model, before any node takes one."""
        for name in names:
            self.taken.setdefault(name, 1)

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
    opset: int = OPSET

    # ---- the edge

    def input(self, name: str, dtype: DType, shape: Sequence[int]) -> Value:
        """An input of the graph, under its own name."""
        self.names.reserve(name)
        value = Value(name, dtype, tuple(shape))
        self.graph.inputs.append(value)
        return value

    def output(self, value: Value, name: str) -> Value:
        """Make a value an output of the graph under this name: the value itself if it has no other name.

        The name is one that `names.reserve` kept free for it.
        """
        is_made = any(value in n.outputs for n in self.graph.nodes)
        if value in self.graph.outputs or not is_made:
            value = self.one("Identity", value)
            if value.constant is not None:
                value = Value(name, value.type, value.shape, value.constant)
        value.name = name
        self.graph.outputs.append(value)
        return value

    def model(self) -> onnx.ModelProto:
        """The graph as an ONNX model, without what no output needs."""
        _prune(self.graph)
        return to_onnx(self.graph)

    # ---- operations

    def at(self, label: str, place: str = "") -> None:
        """What comes next belongs to this layer: so errors call it, and names begin with `place`."""
        self.names.label, self.names.place = label, place or label

    def one(self, op: str, *inputs: Value | None, **attributes: Any) -> Value:
        """An operation with one output."""
        return self.many(op, 1, *inputs, **attributes)[0]

    def many(self, op: str, count: int, *inputs: Value | None, **attributes: Any) -> list[Value]:
        """An operation with `count` outputs. A DType among the attributes becomes ONNX's number.

        An operator of another domain is written with it, as in "com.microsoft.Gelu", and is of its version 1.
        Raises InputError naming the layer.
        """
        self.names.count()
        outputs = [Value(self.names.fresh(self.names.place)) for _ in range(count)]
        given = {k: _attribute(v) for k, v in attributes.items() if v is not None}
        operands = list(inputs)
        while operands and operands[-1] is None:
            operands.pop()
        domain, _, op = op.rpartition(".")
        version = 1 if domain else self.opset
        name = self.names.fresh(f"{self.names.place}/{op}")
        node = Node(op, operands, list(outputs), given, name, domain, version)
        try:
            infer_written(node, self.names.folding)
        except IngotError as error:
            raise type(error)(f"{self.names.label}: {error}") from None
        if any(v.constant is None for v in outputs):
            self.graph.nodes.append(node)
        return outputs

    def call(self, function: onnx.FunctionProto, *inputs: Value) -> Value:
        """What a function of ONNX's own operators gives, written out: it has one output, and no subgraphs."""
        found = dict(zip(function.input, inputs, strict=True))
        for node in function.node:
            (name,) = node.output
            given = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
            if node.op_type == "Constant":
                found[name] = self.constant(onnx.numpy_helper.to_array(given["value"]))
            else:
                found[name] = self.one(node.op_type, *(found[i] for i in node.input), **given)
        result: Value = found[function.output[0]]
        return result

    def constant(self, array: Any, dtype: DType | None = None) -> Value:
        """A constant of this type; Python's integers are int64."""
        made = np.asarray(array, dtype.numpy if dtype else None)
        return self.brought(self.names.fresh(f"{self.names.place}/const"), made)

    def brought(self, name: str, array: Array) -> Value:
        """A constant that the model brings along, with its share of what may be folded."""
        self.names.folding.grant(array.size, array.nbytes)
        return constant_value(name, array)

    def filled(self, shape: Sequence[int], number: Any, dtype: DType) -> Value:
        """A tensor of one number: a constant, or an operation where that would take much room."""
        if self.is_modest(shape, dtype):
            return self.constant(np.full(shape, number, dtype.numpy))
        return self.one("Expand", self.constant(number, dtype), self.ints(shape))

    def counted(self, count: int) -> Value:
        """0, 1, ... count - 1 in int64: a constant, or an operation where that would take much room."""
        if self.is_modest([count], INT64):
            return self.constant(np.arange(count))
        return self.one("Range", *(self.constant(n, INT64) for n in (0, count, 1)))

    def is_modest(self, shape: Sequence[int], dtype: DType) -> bool:
        """Whether elements that the file does not hold may be made here. Raises ModelError for no shape."""
        count = math.prod(shape)
        if min(shape, default=0) < 0 or count >= COUNT_LIMIT:
            shown = ", ".join(map(str, shape[:RANK_LIMIT]))
            raise ModelError(f"{self.names.label}: a tensor of [{shown}] is impossible or too large")
        return count * dtype.bytes <= COUNTED_BYTES

    def ints(self, values: Sequence[int] | int) -> Value:
        """Raises ModelError for numbers of more than 64 bits."""
        try:
            return self.constant(np.asarray(values, np.int64))
        except OverflowError:
            raise ModelError(f"{self.names.label}: {values} is more than 64 bits hold") from None

    # ---- small words

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

    def cast(self, value: Value, dtype: DType) -> Value:
        return value if value.type == dtype else self.one("Cast", value, to=dtype)

    def reshape(self, value: Value, shape: Sequence[int]) -> Value:
        return value if value.shape == tuple(shape) else self.one("Reshape", value, self.ints(list(shape)))

    def inner(self: AnyBuilder, name: str) -> AnyBuilder:
        """A builder for a graph inside this one."""
        return type(self)(Graph(name), self.names, self, opset=self.opset)


def extents_of(value: Value) -> list[int]:
    """The shape, which is static."""
    assert value.shape is not None, "every value of the importer is inferred"
    return [static(n) for n in value.shape]


def _prune(graph: Graph) -> None:
    """Drop what nobody reads, subgraphs too."""
    needed, kept = set(graph.outputs), []
    for node in reversed(graph.nodes):
        if any(v in needed for v in node.outputs):
            for inner in node.subgraphs.values():
                _prune(inner)
            needed.update(reads(node))
            kept.append(node)
    graph.nodes = kept[::-1]


def _attribute(value: Any) -> Attribute:
    if isinstance(value, DType):
        return dtype_to_onnx(value)
    if isinstance(value, list):
        return tuple(value)
    found: Attribute = value
    return found
