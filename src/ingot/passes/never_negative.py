"""Which values of a graph have no negative elements, whatever the inputs are: what stands behind a Relu.

In: nodes in order. Out: whether a value is known to be so (NaN aside). Asked by `byte_activations`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ingot.formula.expr import Array
from ingot.graph.ir import Node, Value

ALWAYS = frozenset(["Abs", "Exp", "HardSigmoid", "Relu", "Sigmoid", "Softmax", "Softplus", "Sqrt"])
KEPT = frozenset(
    [
        "AveragePool",
        "Dropout",
        "Expand",
        "Flatten",
        "Gather",
        "GlobalAveragePool",
        "GlobalMaxPool",
        "Identity",
        "LRN",
        "MaxPool",
        "ReduceMax",
        "ReduceMean",
        "ReduceSum",
        "Reshape",
        "Slice",
        "Squeeze",
        "Transpose",
        "Unsqueeze",
    ]
)
"""Of the first input, which the others only steer."""
JOINED = frozenset(["Add", "Concat", "Mul", "Min", "Sum"])


@dataclass(slots=True)
class NeverNegative:
    """Contains values that are at least 0. Nodes are added in the order of the graph."""

    values: set[Value] = field(default_factory=set)

    def __contains__(self, v: Value | None) -> bool:
        if v is None:
            return False
        return v in self.values or (v.constant is not None and _not_below_0(v.constant))

    def add(self, node: Node) -> None:
        """Note the outputs of a node."""
        if not node.domain and self._is(node):
            self.values.update(v for v in node.outputs[:1] if v is not None)

    def _is(self, node: Node) -> bool:
        x = node.inputs[0] if node.inputs else None
        if node.op == "Clip" and len(node.inputs) > 1 and node.inputs[1] in self:
            return True
        if node.op in KEPT:
            return x in self
        return node.op in ALWAYS or (node.op in JOINED and all(v in self for v in node.inputs))


def _not_below_0(constant: Array) -> bool:
    """Of numbers, narrow ones (kind "V") included; strings are none."""
    return constant.dtype.kind in "biufV" and bool((constant >= 0).all())
