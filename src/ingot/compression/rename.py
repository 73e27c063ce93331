"""Short names for what only a model itself refers to: of small models, names are most of the file.

In: a ModelProto; out: the same, changed. Inputs and outputs keep their names, and so do functions. Called by
the driver for `ingot compress --short-names`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import onnx


def shorten(model: onnx.ModelProto) -> onnx.ModelProto:
    """Rename tensors, and drop names of nodes, comments, and types of tensors that follow from the rest."""
    kept = {v.name for v in (*model.graph.input, *model.graph.output)}
    fresh = (name for name in (f"t{n}" for n in count()) if name not in kept)
    known = {name: name for name in kept} | {"": ""}
    for graph in _graphs(model.graph):
        _rename(graph, known, fresh)
    return model


def _graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """A graph and those of its nodes' branches and bodies."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                if inner.node or inner.output:
                    yield from _graphs(inner)


def _rename(graph: onnx.GraphProto, known: dict[str, str], fresh: Iterator[str]) -> None:
    """Give everything in one graph its new name, the same in every graph that can see it."""

    def new(name: str) -> str:
        if name not in known:
            known[name] = next(fresh)
        return known[name]

    del graph.value_info[:], graph.quantization_annotation[:]
    graph.doc_string = ""
    for value in (*graph.input, *graph.output):
        value.name = new(value.name)
    for tensor in graph.initializer:
        tensor.name, tensor.doc_string = new(tensor.name), ""
    for sparse in graph.sparse_initializer:
        sparse.values.name = new(sparse.values.name)
    for node in graph.node:
        node.name = node.doc_string = ""
        for names in (node.input, node.output):
            names[:] = [new(name) for name in names]
