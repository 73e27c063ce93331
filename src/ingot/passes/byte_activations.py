"""Products with encoded weights in bytes: activations quantised as the bundle runs, weights when it is made.

    y = Gemm(x, W, b)    ->    q, i, s, z, coarse = QuantizeOperand(x)
                               total = float(MatMulInteger(q, W', z))
                               if coarse: r, m = QuantizeRest(x, q, z, i)
                                          more = float(MatMulInteger(r, W', m))
                               y = (total + more / 254) * (s * t) + b

W is t * W' nearly, W' bytes of as many values as W has. Needs an inferred graph and `--activations int8`;
serves MatMul and Gemm by encoded matrices, and through `byte_recurrent` RNN, GRU and LSTM. A layer is to stay
within 1 % of max|y| of what it was (99 of 100 random ones do, if rounding errors are independent): what
rounding the weights loses is known here, what rounding the activations loses is measured in each run, and
where that is too much the rest is multiplied too. A layer whose weights lose too much stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from math import prod

import numpy as np

from ingot.formula.expr import upper
from ingot.formula.types import FLOAT32
from ingot.graph.ir import Attribute, Graph, Node, Value, constant_value, reads
from ingot.graph.onnx_types import dtype_to_onnx
from ingot.ops.control import infer_if
from ingot.ops.infer import infer, infer_node
from ingot.ops.operand import fine
from ingot.passes.byte_cost import Sizes, in_bytes, in_floats, pays
from ingot.passes.byte_recurrent import RECURRENT, recurrent
from ingot.passes.byte_weights import Weights, quantise
from ingot.passes.never_negative import NeverNegative
from ingot.targets.record import Target

VERSION = 21
Operands = list[Value | None]
EXACT = ((127, 255),)
SATURATING = ((64, 255), (127, 127))
"""The largest weight and the largest activation. Where sums of two products have 16 bits these must fit them:
with activations of 7 bits the rest is needed more often.
"""


@dataclass(frozen=True, slots=True)
class _How:
    """What the target's products of bytes ask for. `in_lanes`: it picks bytes out of registers.

    `made` are the weights so far: layers that share them do so in bytes.
    """

    target: Target
    ways: tuple[tuple[int, int], ...]
    in_lanes: bool
    made: dict[tuple[Value, bool, int], tuple[Weights, Value] | None] = field(default_factory=dict)

    def weights(self, w: Value, turned: bool, most: int, levels: int) -> tuple[Weights, Value] | None:
        """A constant as bytes, [terms, outputs]; `turned`: it is [outputs, terms]."""
        key = (w, turned, most)
        if key not in self.made:
            assert w.constant is not None and w.encoding is not None
            found = quantise(w.constant.T if turned else w.constant, w.encoding.values, most, levels)
            self.made[key] = None if found is None else (found, _constant(w.name, found))
        return self.made[key]


def _constant(name: str, weights: Weights) -> Value:
    value = constant_value(f"{name}_bytes", weights.bytes.decode())
    value.encoding = weights.bytes
    return value


def byte_activations(graph: Graph, target: Target, walked: bool = False) -> Graph:
    """Rewrite in place, subgraphs too, and return the graph. `walked`: matrices are read entry by entry."""
    exact = target.spelling("dot4s", "uint8") is None or target.spelling("dot4", "uint8") is not None
    in_lanes = target.spelling("pick16", "int8") is not None and not walked
    how = _How(target, EXACT if exact or not in_lanes else SATURATING, in_lanes)
    _rewrite(graph, how, NeverNegative())
    return graph


def _rewrite(graph: Graph, how: _How, known: NeverNegative) -> None:
    nodes: list[Node] = []
    for node in graph.nodes:
        for sub in node.subgraphs.values():
            _rewrite(sub, how, known)
        known.add(node)
        nodes += _rewritten(node, how, known) or [_recurrent(node, how, known)]
    graph.nodes = nodes


def _rewritten(node: Node, how: _How, known: NeverNegative) -> list[Node] | None:
    """What computes a product in bytes; None for any other node, and where it would lose too much."""
    if node.domain or node.op not in ("Gemm", "MatMul") or node.attributes.get("transA"):
        return None
    x, w, *rest = node.inputs
    if x is None or w is None or w.encoding is None or w.constant is None or w.constant.ndim != 2:
        return None
    if not w.constant.size:
        return None
    if x.type is not FLOAT32 or w.type is not FLOAT32 or x.constant is not None or not x.shape:
        return None
    for most, levels in how.ways:
        found = how.weights(w, bool(node.attributes.get("transB")), most, levels)
        allowed = None if found is None else _allowed(found[0], x in known)
        if found is not None and allowed is not None and _pays(x, found[0], how, x in known):
            nodes = _Nodes(node, levels)
            nodes.product(x, found, allowed, rest[0] if rest else None)
            return nodes.nodes
    return None


def _recurrent(node: Node, how: _How, known: NeverNegative) -> Node:
    """A recurrent node in bytes where that pays, else as it is."""

    def cost(s: Sizes, parts: int) -> float:
        return in_bytes(s, how.target, parts) if parts else in_floats(s, how.target)

    is_rectified = bool(node.inputs) and node.inputs[0] in known
    return (recurrent(node, how.ways, cost, is_rectified) if how.in_lanes else None) or node


def _allowed(weights: Weights, rectified: bool) -> tuple[float, float] | None:
    """What activations that are `rectified`, and others, may lose by rounding; None: weights lose more."""
    some = weights.left(weights.rectified)
    others = some if rectified else weights.left(weights.signed)
    return None if some is None or others is None else (some, others)


def _pays(x: Value, weights: Weights, how: _How, is_rectified: bool) -> bool:
    terms, outputs = weights.bytes.shape
    table = weights.bytes.values
    kept, values = int(np.count_nonzero(weights.bytes.decode())), len(np.unique(np.append(table, 0)))
    points = prod(map(upper, x.shape or ())) // terms
    return not how.in_lanes or pays(Sizes(points, terms, outputs, kept, values), how.target, is_rectified)


def layers_in_a_row(graph: Graph) -> int:
    """How many layers in bytes stand behind each other at most: what they lose adds up."""
    behind: dict[Value, int] = {}
    _count(graph, behind)
    return max(behind.values(), default=0)


def _count(graph: Graph, behind: dict[Value, int]) -> None:
    """Note how many stand in front of each value. The turns of a loop count as one."""
    for node in graph.nodes:
        before = max((behind.get(v, 0) for v in reads(node)), default=0)
        for sub in node.subgraphs.values():
            behind.update(dict.fromkeys(sub.inputs, before))
            _count(sub, behind)
            before = max([before, *(behind.get(v, 0) for v in sub.outputs)])
        here = before + (node.op in ("QuantizeOperand", *RECURRENT) and node.domain == "ingot")
        behind.update(dict.fromkeys((v for v in node.outputs if v is not None), here))


@dataclass(slots=True)
class _Nodes:
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
        limits = constant_value(f"{name}_allowed", np.square(np.array(allowed, np.float32)))
        made_of_x = self.add("QuantizeOperand", [x, limits], 5, "ingot", levels=self.levels)
        q, inverse, step, zero, coarse = made_of_x
        total = self.total(q, w, zero)
        inner = _Nodes(self.node, self.levels, numbers=self.numbers)
        rest, middle = inner.add("QuantizeRest", [x, q, zero, inverse], 2, "ingot", levels=self.levels)
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
            self.add("Add", [*scaled, bias])
        last, (out,) = self.nodes[-1], self.node.outputs
        assert out is not None
        last.outputs = [out]

    def total(self, q: Value | None, w: Value, zero: Value | None) -> Value | None:
        """What bytes stand for, multiplied, in float."""
        total = self.add("MatMulInteger", [q, w, zero])
        return self.add("Cast", total, to=dtype_to_onnx(FLOAT32))[0]

    def either(self, condition: Value | None, then: _Nodes, like: Value | None) -> Value:
        """What `then` makes at last where the condition holds, else zeros in the shape of another value."""
        other = _Nodes(self.node, self.levels, numbers=self.numbers)
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
        infer_node(node)
        self.nodes.append(node)
        return made
