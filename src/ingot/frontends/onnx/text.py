"""How large strings get. In: a model and the capacity asked for; out: the one type of all its strings.

Constants must fit: strings in initializers, in attributes that are tensors, and in lists of strings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import onnx

from ingot.errors import InputError
from ingot.formula.strings import MOST_BYTES
from ingot.formula.types import DType, text_type

MOST_UNASKED = 1 << 12
STEP = 16
ONE = frozenset({"value_string", "default_string"})
"""Attributes that are one string and end up in a tensor."""
COMPARED = frozenset({"stopwords"})
"""Lists of strings with which others are compared: what is too long for a tensor is equal to none."""


def text_type_of(model: onnx.ModelProto, wanted: int) -> DType:
    """The capacity that was asked for; if a constant is longer, that one's, rounded up.

    Raises InputError for a capacity, or a constant, beyond all measure.
    """
    if not 2 <= wanted <= MOST_BYTES:
        raise InputError(f"--string-bytes {wanted}: a capacity must be between 2 and {MOST_BYTES}")
    longest = max(map(len, _strings(model)), default=0)
    needed = -(-(longest + 1) // STEP) * STEP
    if needed <= max(wanted, MOST_UNASKED):
        return text_type(needed if longest >= wanted else wanted)
    reason = f"a constant of the model is a string of {longest} bytes, and all strings take that much room"
    remedy = f"compile with --string-bytes {needed}" if needed <= MOST_BYTES else ""
    raise InputError(f"{reason}; without being asked for, no more than {MOST_UNASKED} bytes", remedy=remedy)


def _strings(model: onnx.ModelProto) -> Iterator[bytes]:
    yield from _of_graph(model.graph)
    for function in model.functions:
        yield from _of_nodes(function.node)


def _of_graph(graph: onnx.GraphProto) -> Iterator[bytes]:
    for tensor in graph.initializer:
        yield from tensor.string_data
    yield from _of_nodes(graph.node)


def _of_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[bytes]:
    for node in nodes:
        for a in node.attribute:
            yield from () if a.name in COMPARED else a.strings
            yield from a.t.string_data
            if a.name in ONE:
                yield a.s
            for tensor in a.tensors:
                yield from tensor.string_data
            for graph in (*([a.g] if a.HasField("g") else []), *a.graphs):
                yield from _of_graph(graph)
