"""Options that would do nothing to a model are errors: who gave one believes that it did.

Needs an inferred graph, whose constants are folded; changes nothing. Called by the driver, before the passes
that the options ask for.
"""

from __future__ import annotations

from collections.abc import Iterator

from ingot.errors import InputError
from ingot.graph.ir import Graph, Node
from ingot.options import Options


def require_use(graph: Graph, options: Options) -> Graph:
    """Return the graph. Raises InputError for `activations` and `huffman` where no weights are encoded."""
    nodes = list(_all_nodes(graph))
    encoded = ["--activations int8"] * (options.activations == "int8") + ["--huffman"] * options.huffman
    if encoded and not any(v is not None and v.encoding is not None for n in nodes for v in n.inputs):
        raise InputError(
            f"{encoded[0]}: the model has no encoded weights, which are all that it is about",
            remedy="ingot compress MODEL -o FILE.onnx encodes them; compile that file",
        )
    return graph


def _all_nodes(graph: Graph) -> Iterator[Node]:
    """The nodes of a graph and of the graphs within it."""
    for node in graph.nodes:
        yield node
        for inner in node.subgraphs.values():
            yield from _all_nodes(inner)
