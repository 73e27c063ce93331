"""Equal weights of a model become one constant. In: a ModelProto; out: the same with fewer initializers.

Whoever unrolls a loop writes its weights once for each turn. Called by `compress` and by who scans a model
for it, so that they are pruned, stored and counted once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import sha256

import onnx

from ingot.compression.layers import FLOATS


def merge_equal(model: onnx.ModelProto) -> None:
    """Let readers of initializers of two axes or more read the first that is equal to theirs."""
    graph = model.graph
    kept: dict[bytes, str] = {}
    renamed: dict[str, str] = {}
    fixed = {v.name for v in (*graph.input, *graph.output)} | set(_inner_names(graph))
    for tensor in graph.initializer:
        if tensor.name in fixed or tensor.data_type not in FLOATS or len(tensor.dims) < 2:
            continue
        first = kept.setdefault(_content(tensor), tensor.name)
        if first != tensor.name:
            renamed[tensor.name] = first
    for i in reversed(range(len(graph.initializer))):
        if graph.initializer[i].name in renamed:
            del graph.initializer[i]
    _rename(graph, renamed)


def _content(tensor: onnx.TensorProto) -> bytes:
    """A digest that tensors have in common which are equal but for their names."""
    bare = onnx.TensorProto()
    bare.CopyFrom(tensor)
    bare.ClearField("name")
    bare.ClearField("doc_string")
    return sha256(bare.SerializeToString(deterministic=True)).digest()


def _inner_names(graph: onnx.GraphProto) -> Iterator[str]:
    """What graphs inside define for themselves: there the same name means something else."""
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from (v.name for v in (*inner.input, *inner.initializer))
                yield from (name for n in inner.node for name in n.output)
                yield from _inner_names(inner)


def _rename(graph: onnx.GraphProto, renamed: Mapping[str, str]) -> None:
    for node in graph.node:
        for i, name in enumerate(node.input):
            node.input[i] = renamed.get(name, name)
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                _rename(inner, renamed)
    for value in graph.output:
        value.name = renamed.get(value.name, value.name)
