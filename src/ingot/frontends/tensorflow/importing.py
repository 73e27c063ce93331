"""From nodes of TensorFlow's to an ONNX model. In: a `Model`, feeds, fetches, variables; out: a ModelProto.

Called by the readers of each kind of file in this package's `__init__`.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx

from ingot.errors import InputError, UnsupportedError
from ingot.frontends.builder import EXPANSION, NODES_LIMIT, Names
from ingot.frontends.orders import Builder
from ingot.frontends.tensorflow.activation import Read, World
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
from ingot.graph.ir import Graph


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
    names = Names(most=max(NODES_LIMIT, EXPANSION * len(model.main.nodes)))
    names.reserve(*(f.name for f in feeds), *(f.name for f in fetches))
    b = Builder(Graph(name), names)
    made: dict[str, list[Item]] = {}
    for feed in feeds:
        dtype, shape = resolved(feed, model.main)
        value = b.input(feed.name, dtype, shape)
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
        b.output(b.plain(found), fetch.name)
    return b.model()


def _all_of_it(model: Model, name: str, feeds: Sequence[Feed], variable: Read) -> onnx.ModelProto:
    """What nobody reads is an output."""
    found, remedy = default_fetches(model.main), "name what is wanted with --outputs"
    if not found:
        raise InputError(f"{model.main.name} computes nothing", remedy=remedy)
    try:
        return import_graph(model, name, feeds, found, variable)
    except UnsupportedError as error:
        raise UnsupportedError(f"{error}; {remedy}") from None
