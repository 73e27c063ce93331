"""From nodes of TensorFlow's to an ONNX model. In: a `Model`, feeds, fetches, variables; out: a ModelProto.

Called by the readers of each kind of file in this package's `__init__`.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx

from ingot.errors import InputError, UnsupportedError
from ingot.frontends.tensorflow.activation import Read, World
from ingot.frontends.tensorflow.builder import EXPANSION, NODES_LIMIT, Builder, Names
from ingot.frontends.tensorflow.config import (
    Feed,
    Fetch,
    as_shape,
    default_feeds,
    default_fetches,
    require_node,
    resolved,
)
from ingot.frontends.tensorflow.model import Model
from ingot.frontends.tensorflow.scope import Scope
from ingot.frontends.tensorflow.values import DEAD, Item, Tensor, tensor
from ingot.graph.ir import Graph, Value, reads
from ingot.graph.to_onnx import to_onnx


def import_graph(
    model: Model, name: str, feeds: Sequence[Feed], fetches: Sequence[Fetch], variable: Read
) -> onnx.ModelProto:
    """The canonical ONNX of what leads from the feeds to the fetches; either may be empty: see `config`."""
    if not fetches:
        return _all_of_it(model, name, feeds, variable)
    feeds = [as_shape(f, model.main) for f in feeds] or default_feeds(model.main, fetches)
    for kind, labels in (("input", [f.name for f in feeds]), ("output", [g.name for g in fetches])):
        if double := next((n for n in labels if labels.count(n) > 1), ""):
            raise InputError(f"the {kind} {double!r} is asked for twice")
    names = Names(dict.fromkeys([*(f.name for f in feeds), *(f.name for f in fetches)], 1))
    names.most = max(NODES_LIMIT, EXPANSION * len(model.main.nodes))
    b = Builder(Graph(name), names)
    made: dict[str, list[Item]] = {}
    for feed in feeds:
        dtype, shape = resolved(feed, model.main)
        value = Value(feed.name, dtype, shape)
        b.graph.inputs.append(value)
        place = made.setdefault(feed.ref[0], [])
        place += [DEAD] * (feed.ref[1] + 1 - len(place))
        place[feed.ref[1]] = Tensor(value)
    for fetch in fetches:
        require_node(model.main, fetch.ref[0], "output")
    world = World(model, variable, [f.ref for f in fetches])
    scope = Scope(world, model.main, b, made)
    for fetch in fetches:
        found = tensor(scope.value_of(scope.item(fetch.ref)), f"the output {fetch.name!r}")
        b.names.label, b.names.place = f"the output {fetch.name!r}", fetch.name
        b.graph.outputs.append(_output(b, b.plain(found), fetch.name))
    _prune(b.graph)
    return to_onnx(b.graph)


def _all_of_it(model: Model, name: str, feeds: Sequence[Feed], variable: Read) -> onnx.ModelProto:
    """What nobody reads is an output."""
    found, remedy = default_fetches(model.main), "name what is wanted with --outputs"
    if not found:
        raise InputError(f"{model.main.name} computes nothing", remedy=remedy)
    try:
        return import_graph(model, name, feeds, found, variable)
    except UnsupportedError as error:
        raise UnsupportedError(f"{error}; {remedy}") from None


def _output(b: Builder, value: Value, name: str) -> Value:
    """The value under its name: its own, if it is a node's that has no other."""
    is_made = any(value in n.outputs for n in b.graph.nodes)
    if value in b.graph.outputs or not is_made:
        value = b.one("Identity", value)
        if value.constant is not None:
            value = Value(name, value.type, value.shape, value.constant)
    value.name = name
    return value


def _prune(graph: Graph) -> None:
    """Drop what nobody reads, subgraphs too."""
    needed, kept = set(graph.outputs), []
    for node in reversed(graph.nodes):
        if any(v in needed for v in node.outputs):
            for inner in node.subgraphs.values():
                _prune(inner)
            needed.update(reads(node))
            kept.append(node)
    graph.nodes = kept[::-1]
