"""The nodes that compute a product in bytes, in place of one: see `byte_activations`.

In: a Gemm, MatMul or Conv, and its weights in bytes. Out: nodes that quantise the operand, multiply
and scale. A Conv multiplies the windows of an image whose channels come last.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count

import numpy as np

from ingot.formula.budget import Budget
from ingot.formula.index import upper
from ingot.formula.types import FLOAT32
from ingot.graph.ir import Attribute, Graph, Node, Value, constant_value
from ingot.graph.onnx_types import dtype_to_onnx
from ingot.ops.control import infer_if
from ingot.ops.infer import infer, infer_node
from ingot.ops.operand import fine
from ingot.passes.byte_weights import Weights

VERSION = 21
Operands = list[Value | None]


def taps_of(node: Node) -> tuple[int, ...]:
    """The extents of a Conv's window."""
    w = node.inputs[1]
    assert w is not None and w.shape is not None
    return tuple(map(upper, w.shape[2:]))


def numbers_of(node: Node, attribute: str) -> tuple[int, ...]:
    """An attribute that is a list of integers; nothing where it is left out."""
    found = node.attributes.get(attribute, ())
    assert isinstance(found, tuple)
    return tuple(int(n) for n in found)


def is_gathered(node: Node) -> bool:
    """Whether the windows of a Conv are other than the points of its image."""
    return (
        set(taps_of(node)) != {1}
        or any(numbers_of(node, "pads"))
        or max(numbers_of(node, "strides"), default=1) > 1
    )


@dataclass(slots=True)
class Nodes:
    """The nodes that take the place of one."""

    node: Node
    levels: int
    nodes: list[Node] = field(default_factory=list)
    numbers: count[int] = field(default_factory=count)

    def product(
        self, x: Value, made: tuple[Weights, Value], allowed: tuple[float, float], bias: Value | None
    ) -> None:
        attributes, name = self.node.attributes, self.name
        # Both are floats by Gemm's schema.
        alpha, beta = (float(attributes.get(k, 1.0)) for k in ("alpha", "beta"))  # type: ignore[arg-type]
        weights, w = made
        operand: Value | None = x
        if self.is_windowed:
            (operand,) = self.add("Transpose", [x], perm=(0, 2, 3, 1))
        limits = constant_value(f"{name}_allowed", np.square(np.array(allowed, np.float32)))
        made_of_x = self.add("QuantizeOperand", [operand, limits], 5, "ingot", levels=self.levels)
        q, inverse, step, zero, coarse = made_of_x
        total = self.total(q, w, zero)
        inner = Nodes(self.node, self.levels, numbers=self.numbers)
        rest, middle = inner.add("QuantizeRest", [operand, q, zero, inverse], 2, "ingot", levels=self.levels)
        inner.total(rest, w, middle)  # written like the first: one kernel serves both
        (more,) = self.add(
            "Mul", [self.either(coarse, inner, total), self.number("fine", 1 / fine(self.levels))]
        )
        (total,) = self.add("Add", [total, more])
        (unit,) = self.add("Mul", [step, self.number("scale", weights.scale * alpha)])
        scaled = self.add("Mul", [total, unit])
        if bias is not None:
            if beta != 1:
                bias = self.add("Mul", [bias, self.number("beta", beta)])[0]
            scaled = self.add("Add", [*scaled, bias])
        if self.is_windowed:
            self.add("Transpose", scaled, perm=(0, 3, 1, 2))
        last, (out,) = self.nodes[-1], self.node.outputs
        assert out is not None
        last.outputs = [out]

    def total(self, q: Value | None, w: Value, zero: Value | None) -> Value | None:
        """What bytes stand for, multiplied, in float."""
        if self.is_windowed:
            q = self.patches(q, zero)
        total = self.add("MatMulInteger", [q, w, zero])
        return self.add("Cast", total, to=dtype_to_onnx(FLOAT32))[0]

    @property
    def is_windowed(self) -> bool:
        return self.node.op == "Conv"

    def patches(self, q: Value | None, zero: Value | None) -> Value | None:
        """The windows of an image, as rows."""
        if not is_gathered(self.node):
            return q
        kept = ("auto_pad", "dilations", "pads", "strides")
        attributes = {k: v for k, v in self.node.attributes.items() if k in kept}
        made = self.add("Patches", [q, zero], 1, "ingot", kernel_shape=taps_of(self.node), **attributes)
        rows = constant_value(f"{self.name}_rows", np.array([0, 0, 0, -1]))
        return self.add("Reshape", [*made, rows])[0]

    def either(self, condition: Value | None, then: Nodes, like: Value | None) -> Value:
        """What `then` makes at last where the condition holds, else zeros in the shape of another value."""
        other = Nodes(self.node, self.levels, numbers=self.numbers)
        other.add("Sub", [like, like])
        branches: dict[str, Attribute] = {}
        for which, made in (("then_branch", then), ("else_branch", other)):
            (out,) = made.nodes[-1].outputs
            assert out is not None
            branches[which] = Graph(f"{self.name}_{which}", [], [out], made.nodes)
        result = Value(f"{self.name}_If{next(self.numbers)}")
        node = Node("If", [condition], [result], branches, self.name, "", VERSION, self.node.text)
        infer_if(node, infer)
        self.nodes.append(node)
        return result

    def number(self, what: str, value: float) -> Value:
        return constant_value(f"{self.name}_{what}", np.array(value, np.float32))

    @property
    def name(self) -> str:
        first = self.node.outputs[0]
        return self.node.name or (first.name if first is not None else self.node.op)

    def add(
        self, op: str, inputs: Operands, outputs: int = 1, domain: str = "", **attributes: Attribute
    ) -> Operands:
        """A node of the newest opset that is needed, inferred; what it makes."""
        made: Operands = [Value(f"{self.name}_{op}{next(self.numbers)}") for _ in range(outputs)]
        node = Node(op, inputs, made, attributes, self.name, domain, VERSION, self.node.text)
        infer_node(node, Budget())
        self.nodes.append(node)
        return made
