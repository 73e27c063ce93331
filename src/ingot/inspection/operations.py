"""What the operators of a layer are in the model: attributes, and the tensors that they read and write.

In: a graph, and which layer computes each box of its diagram. Out: the operations by layer, for the report.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ingot.formula.expr import Array
from ingot.graph.ir import Graph, Node, Value
from ingot.graph.text import attribute_text, describe

ELEMENTS = 1000
"""Elements of a constant that the page has."""


@dataclass(frozen=True, slots=True)
class Operation:
    """A node of the model, as text: `name=value` for attributes, `name: type[shape]` for tensors.

    `constants` are the names of constants that it reads and whose elements are more than a few.
    """

    op: str
    name: str
    attributes: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    constants: tuple[str, ...]


def operations_of(graph: Graph, layer_of: Mapping[int, int]) -> dict[int, list[Operation]]:
    """Return the operations of each layer. `layer_of`: box of the graph's diagram -> layer; boxes of nodes
    come after those of the inputs.
    """
    found: dict[int, list[Operation]] = defaultdict(list)
    for box, node in enumerate(graph.nodes, len(graph.inputs)):
        if box in layer_of:
            found[layer_of[box]].append(_operation(node))
    return dict(found)


def elements_of(graph: Graph) -> dict[str, str]:
    """Return the elements of the constants that nodes read, as text; of a large constant the first."""
    found = {}
    for node in graph.nodes:
        for value in _constants(node):
            assert value.constant is not None
            some = value.constant.reshape(-1)[:ELEMENTS]
            left = value.constant.size - some.size
            text = np.array2string(some, threshold=ELEMENTS, max_line_width=72)
            found[value.name] = text + (f"\n... and {left:,} more" if left else "")
    return found


def _constants(node: Node) -> list[Value]:
    return [v for v in node.inputs if v is not None and v.constant is not None and v.constant.size > 4]


def _operation(node: Node) -> Operation:
    attributes = (
        f"{name}: {len(value.nodes)} nodes" if isinstance(value, Graph) else f"{name}={attribute_text(value)}"
        for name, value in sorted(node.attributes.items())
    )
    inputs, outputs = (
        tuple(describe(v) + _range(v.constant) for v in values if v is not None)
        for values in (node.inputs, node.outputs)
    )
    constants = tuple(v.name for v in _constants(node))
    return Operation(node.op, node.name, tuple(attributes), inputs, outputs, constants)


def _range(constant: Array | None) -> str:
    """Return the least and the largest element of a constant of numbers that is not shown itself."""
    if constant is None or constant.size <= 4 or constant.dtype.kind not in "iuf":
        return ""
    return f", {constant.min():.4g} to {constant.max():.4g}"
