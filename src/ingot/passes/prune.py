"""Remove nodes whose results nobody reads, or whose results are known.

    y = Shape(x); z = Reshape(x, y)      ->      z = Reshape(x, [2, 3])

Needs an inferred graph. Guarantees that every node left contributes to an output.
"""

from __future__ import annotations

from ingot.graph.ir import Graph, Node, reads


def contributing(graph: Graph) -> list[Node]:
    """The nodes of a graph whose results are not known and reach its outputs."""
    needed, found = set(graph.outputs), []
    for node in reversed(graph.nodes):
        if any(v in needed and v.constant is None for v in node.outputs if v is not None):
            needed.update(reads(node))
            found.append(node)
    return found[::-1]


def prune(graph: Graph) -> Graph:
    """Prune in place, subgraphs too, and return the graph."""
    needed = set(graph.outputs)
    kept = []
    for node in reversed(graph.nodes):
        outputs = [v for v in node.outputs if v is not None]
        if all(v.constant is not None for v in outputs) or not any(v in needed for v in outputs):
            continue
        for sub in node.subgraphs.values():
            prune(sub)
        needed.update(reads(node))
        kept.append(node)
    graph.nodes = kept[::-1]
    return graph
