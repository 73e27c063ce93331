"""Nodes in an order in which they can be read. In: a graph's nodes as they are in the file; out: sorted.

ONNX wants them sorted, and files that are not exist. Called by `graph.GraphReader`, once per graph.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence

import onnx

HOLDERS = (onnx.AttributeProto.UNDEFINED, onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS)


def in_order(nodes: Sequence[onnx.NodeProto]) -> Sequence[onnx.NodeProto]:
    """Each node behind the makers of what it reads, otherwise as given.

    Nodes of a cycle, and those behind it, stay where they are: whoever reads them says what is missing.
    """
    if len(nodes) < 2:
        return nodes  # branches of branches: each level would walk through all those within
    makers = {name: i for i, node in reversed(list(enumerate(nodes))) for name in node.output if name}
    needs = [{makers[r] for r in _reads(node) if r in makers} - {i} for i, node in enumerate(nodes)]
    if all(max(need, default=-1) < i for i, need in enumerate(needs)):
        return nodes
    readers: list[list[int]] = [[] for _ in nodes]
    for i, need in enumerate(needs):
        for maker in need:
            readers[maker].append(i)
    ready, order = [i for i, need in enumerate(needs) if not need], list[int]()
    while ready:
        order.append(heapq.heappop(ready))
        for reader in readers[order[-1]]:
            needs[reader].discard(order[-1])
            if not needs[reader]:
                heapq.heappush(ready, reader)
    return [nodes[i] for i in order] if len(order) == len(nodes) else nodes


def _reads(node: onnx.NodeProto) -> Iterator[str]:
    """What a node names: its inputs, and all that its graphs read or return."""
    yield from node.input
    for attribute in node.attribute:
        if attribute.type not in HOLDERS:
            continue
        for graph in (attribute.g, *attribute.graphs):
            for inner in graph.node:
                yield from _reads(inner)
            yield from (info.name for info in graph.output)
