"""What the operators of a layer are in the model: attributes, and the tensors that they read and write.

In: a graph, and which layer computes each box of its diagram. Out: the operations by layer, for the report.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from ingot.graph.ir import Graph, Node
from ingot.graph.text import attribute_text, describe


@dataclass(frozen=True, slots=True)
class Operation:
    """A node of the model, as text: `name=value` for attributes, `name: type[shape]` for tensors."""

    op: str
    name: str
    attributes: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def operations_of(graph: Graph, layer_of: Mapping[int, int]) -> dict[int, list[Operation]]:
    """Return the operations of each layer. `layer_of`: box of the graph's diagram -> layer; boxes of nodes
    come after those of the inputs.
    """
    found: dict[int, list[Operation]] = defaultdict(list)
    for box, node in enumerate(graph.nodes, len(graph.inputs)):
        if box in layer_of:
            found[layer_of[box]].append(_operation(node))
    return dict(found)


def _operation(node: Node) -> Operation:
    attributes = (
        f"{name}: {len(value.nodes)} nodes" if isinstance(value, Graph) else f"{name}={attribute_text(value)}"
        for name, value in sorted(node.attributes.items())
    )
    inputs, outputs = (
        tuple(describe(v) for v in values if v is not None) for values in (node.inputs, node.outputs)
    )
    return Operation(node.op, node.name, tuple(attributes), inputs, outputs)
