"""Replace an If whose condition is known by the branch it takes.

    y = If(true) {then: t = Relu(x); -> t}        ->        t = Relu(x)        (y is read as t)

Needs an inferred graph. Guarantees that every If left has a condition known at run time only.
"""

from __future__ import annotations

from ingot.graph.ir import Graph, Node, Value
from ingot.ops.control import taken


def inline_if(graph: Graph) -> Graph:
    """Inline in place, subgraphs too, and return the graph. The outputs of the graph keep their names."""
    renamed: dict[Value, Value] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        branch = taken(node) if node.op == "If" and node.domain == "" else None
        if branch is None:
            for sub in node.subgraphs.values():
                inline_if(sub)
            nodes.append(node)
            continue
        inline_if(branch)
        nodes += branch.nodes
        for made, inner in zip(node.outputs, branch.outputs, strict=True):
            if made is not None:
                renamed[made] = renamed.get(inner, inner)
    graph.nodes = nodes
    if renamed:
        _rename(graph, renamed)
    return graph


def _rename(graph: Graph, renamed: dict[Value, Value]) -> None:
    for node in graph.nodes:
        node.inputs = [renamed.get(v, v) if v is not None else None for v in node.inputs]
        for sub in node.subgraphs.values():
            _rename(sub, renamed)
    made = {v for n in graph.nodes for v in n.outputs if v is not None and v.constant is None}
    for i, old in enumerate(graph.outputs):
        if (new := renamed.get(old)) is None:
            continue
        if new in made and new not in graph.outputs:
            new.name, graph.outputs[i] = old.name, new
        else:  # it has a name already, or nobody makes it here
            graph.nodes.append(Node("Identity", [new], [old]))
