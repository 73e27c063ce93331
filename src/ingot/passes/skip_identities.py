"""Let readers of what is copied as it is read the original.

    y = Identity(x); z = Conv(y, w)      ->      z = Conv(x, w)

In between a copy would be a view, which is stored densely: the layers around it could not share a layout.
Needs an inferred graph. Guarantees that nobody but an output of the graph needs a copy; `prune` takes the
nodes away.
"""

from __future__ import annotations

from ingot.graph.ir import Graph, Node, Value, replace_value, uses


def skip_identities(graph: Graph) -> Graph:
    """Skip them in place, in subgraphs too, and return the graph."""
    read = uses(graph)
    for node in graph.nodes:
        for sub in node.subgraphs.values():
            skip_identities(sub)
        if node.domain or not _copies(node) or any(v in read for v in node.outputs[1:]):
            continue
        source, copy = node.inputs[0], node.outputs[0]
        given = any(v in graph.outputs for v in node.outputs)
        if source is not None and copy is not None and not given and _is_alike(source, copy):
            replace_value(graph, copy, source)
    return graph


def _is_alike(source: Value, copy: Value) -> bool:
    """Whether no more is said of the copy, such as how far it may grow."""
    return copy.type is source.type and copy.shape == source.shape and copy.capacity == source.capacity


def _copies(node: Node) -> bool:
    """Whether the first result is the first operand."""
    if node.op == "Identity":
        return True
    training = node.inputs[2] if len(node.inputs) > 2 else None
    is_off = training is None or (training.constant is not None and not training.constant.any())
    return node.op == "Dropout" and is_off
