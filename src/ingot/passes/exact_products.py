"""Products of two tensors of bytes are summed in floats, where no sum of floats is rounded.

    y = QLinearMatMul(a, sa, za, b, sb, zb, sy, zy)    ->    p = MatMul(a - za, b - zb)
                                                             y = QuantizeLinear(p * (sa * sb / sy), 1, zy)

Vectors multiply floats that both come from the run as they stand; products of bytes want one operand packed
when the bundle is made. Whole numbers up to 2^24 are floats, so the bytes are those of integers. Needs an
inferred graph after `integer_layers`, and a target with vectors; products of more terms stay as they are.
"""

from __future__ import annotations

import numpy as np

from ingot.formula.budget import Budget
from ingot.formula.expr import Array
from ingot.formula.types import FLOAT32
from ingot.graph.ir import Attribute, Graph, Node, Value, constant_value
from ingot.ops.infer import infer_node
from ingot.passes.quantised import BYTES, Quantisation
from ingot.targets.record import Target

EXACT = 1 << 24  # whole numbers up to here are floats
VERSION = 21


def exact_products(graph: Graph, target: Target) -> Graph:
    """Rewrite in place, subgraphs too, and return the graph."""
    if target.vector_bytes:
        _rewrite(graph)
    return graph


def _rewrite(graph: Graph) -> None:
    nodes: list[Node] = []
    for node in graph.nodes:
        for sub in node.subgraphs.values():
            _rewrite(sub)
        nodes += _in_floats(node) or [node]
    graph.nodes = nodes


def largest_sum(a: Quantisation, b: Quantisation) -> float:
    """What the sums of a matrix product of two tensors of bytes never exceed; infinite where only the run
    knows how many terms they have.
    """
    terms = (a.q.shape or (None,))[-1]
    return float(terms * a.farthest * b.farthest) if isinstance(terms, int) else float("inf")


def _in_floats(node: Node) -> list[Node] | None:
    """The nodes that stand for a product; None where it stays."""
    if node.op != "QLinearMatMul" or node.domain:
        return None
    a, b = (operand(node.inputs[k : k + 3]) for k in (0, 3))
    scale, zero = node.inputs[6:8]
    if a is None or b is None or largest_sum(a, b) > EXACT:
        return None
    if scale is None or zero is None or scale.constant is None or zero.constant is None:
        return None
    if scale.type is not FLOAT32 or zero.type not in BYTES:
        return None
    made = Made(node)
    product = made.add("MatMul", [made.whole(a), made.whole(b)])
    multiplier = np.float32(a.scale * b.scale) / scale.constant.reshape(())
    scaled = made.add("Mul", [product, made.constant("multiplier", np.asarray(multiplier, np.float32))])
    made.add("QuantizeLinear", [scaled, made.one, zero], node.outputs[0])
    return made.nodes


def operand(given: list[Value | None]) -> Quantisation | None:
    """An operand that is bytes of the run, by one constant scale and zero point."""
    q, scale, zero = given
    if q is None or scale is None or zero is None or q.constant is not None or q.type not in BYTES:
        return None
    if scale.constant is None or zero.constant is None or scale.type is not FLOAT32:
        return None
    if scale.constant.size != 1 or zero.constant.size != 1:
        return None
    return Quantisation(q, scale.constant.reshape(()), zero.constant.reshape(()))


class Made:
    """The nodes that stand for one node, inferred as they are added."""

    def __init__(self, node: Node) -> None:
        self.node, self.nodes = node, list[Node]()
        (out,) = node.outputs
        assert out is not None
        self.name = out.name
        self.one = self.constant("one", np.ones((), np.float32))

    def constant(self, what: str, array: Array) -> Value:
        return constant_value(f"{self.name}_{what}", array)

    def whole(self, how: Quantisation) -> Value:
        """The distances from the zero point, as floats."""
        zero = self.constant(f"zero{len(self.nodes)}", how.zero.astype(how.type.numpy))
        return self.add("DequantizeLinear", [how.q, self.one, zero])

    def add(
        self,
        op: str,
        inputs: list[Value],
        out: Value | None = None,
        attributes: dict[str, Attribute] | None = None,
    ) -> Value:
        made = Value(f"{self.name}_{op}{len(self.nodes)}") if out is None else out
        name = self.node.name or self.name
        text, caller = self.node.text, self.node.caller
        node = Node(op, [*inputs], [made], attributes or {}, name, "", VERSION, text, caller=caller)
        infer_node(node, Budget())
        self.nodes.append(node)
        return made
