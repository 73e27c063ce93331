"""If and Loop of the model: graphs whose inputs and outputs are objects become graphs between tensors.

In: a node that holds graphs. Out: the same with every object taken apart into its values, brought to one form
on all ways through the node. The attribute `sequences` says where among the node's outputs the three values
of a sequence begin: `infer` gives their arrays room for all elements.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx

from ingot.errors import ModelError, UnsupportedError
from ingot.frontends.onnx.objects import (
    Form,
    Listed,
    Object,
    flat,
    form_of,
    joined,
    rebuilt,
    sequences_in,
    suffixes,
)
from ingot.frontends.onnx.place import Handler, Place
from ingot.frontends.onnx.scope import Scope
from ingot.frontends.onnx.sequences import content_of
from ingot.graph.ir import Graph, Value, constant_value


def _inside(at: Place, graph: Graph, scope: Scope) -> Place:
    """The place at the end of a graph that the node holds."""
    return Place(at.reader, graph, scope, at.proto, at.node, [])


def _joined(at: Place, a: Form | None, b: Form | None) -> Form | None:
    try:
        return joined(a, b)
    except UnsupportedError as error:
        raise UnsupportedError(f"{at.label}: {error}") from None


def _outputs(inside: Place, things: Sequence[Object], forms: Sequence[Form], names: Sequence[str]) -> None:
    """The objects, in their forms, are the outputs of the graph."""
    for thing, form, name in zip(things, forms, names, strict=True):
        inside.graph.outputs += flat(inside.fitted(thing, form, name))


def _results(at: Place, forms: Sequence[Form], skip: int = 0) -> list[Object]:
    """New objects of these forms: what the node makes; their values become the node's outputs."""
    made: list[Object] = []
    for i, form in enumerate(forms):
        name = at.proto.output[i] if i < len(at.proto.output) else ""
        values: list[Value | None] = []
        if name:
            values += [at.reader.value(at.scope, name, s) for s in suffixes(form)]
        if name and form.count == 1:
            values = [at.reader.define(at.scope, name)]
        at.node.outputs += values or [None] * form.count
        made.append(rebuilt(form, iter([v for v in values if v is not None])) if name else Listed(()))
    return made


def if_(at: Place) -> bool:
    """If: both branches give objects of one form each."""
    node, sides = at.node, []
    node.inputs = [at.tensor(0)]
    for which in ("then_branch", "else_branch"):
        proto, scope = at.subgraph(which), at.scope.subgraph()
        if not all(at.scope.knows(v.name) for v in proto.input):  # Glow lists values from outside there
            raise ModelError(f"{at.label}: {which} has inputs, but nothing is given to a branch")
        graph = Graph(proto.name)
        at.reader.declare(proto, scope)
        things = at.reader.fill(graph, proto, scope)
        if len(things) != len(at.proto.output):
            count = f"{len(at.proto.output)} outputs, but a branch gives {len(things)}"
            raise ModelError(f"{at.label}: {count}")
        sides.append((which, _inside(at, graph, scope), things))
    forms = [_form(at, a, b) for a, b in zip(sides[0][2], sides[1][2], strict=True)]
    for which, inside, things in sides:
        _outputs(inside, things, forms, list(at.proto.output))
        node.attributes[which] = inside.graph
    made = _results(at, forms)
    node.attributes["sequences"] = sequences_in(forms)
    at.graph.nodes.append(node)
    for i, (thing, form) in enumerate(zip(made, forms, strict=True)):
        if form.count > 1:
            at.result(i, thing)
    return True


def _form(at: Place, a: Object, b: Object) -> Form:
    found = _joined(at, form_of(a), form_of(b))
    if found is None:
        raise UnsupportedError(f"{at.label}: nothing says what its empty optional may hold")
    return found


def loop(at: Place) -> bool:
    """Loop: what is carried has one form before, within and after the body."""
    node, proto = at.node, at.subgraph("body")
    initial = at.operands[2:]
    if len(proto.input) != 2 + len(initial) or len(proto.output) < 1 + len(initial):
        raise ModelError(f"{at.label}: the body's inputs or outputs do not fit {len(initial)} carried values")
    if None in initial:
        raise ModelError(f"{at.label}: a carried value is missing")
    begins = [thing for thing in initial if thing is not None]
    forms = [_carried(at, t, i.type) for t, i in zip(begins, proto.input[2:], strict=True)]
    scope = at.scope.subgraph()
    graph = Graph(proto.name)
    at.reader.declare(proto, scope)
    graph.inputs = [
        _counter(at, graph, scope, proto.input[0]),
        at.reader.define(scope, proto.input[1].name),
    ]
    for form, info in zip(forms, proto.input[2:], strict=True):
        _enter(at, graph, scope, form, info.name)
    things = at.reader.fill(graph, proto, scope)
    inside = _inside(at, graph, scope)
    names = [o.name for o in proto.output]
    ends = things[1 : 1 + len(forms)]
    every = [Form("tensor"), *forms, *[Form("tensor")] * (len(things) - 1 - len(forms))]
    _outputs(inside, things, every, names)
    given = [None if at.operand(i) is None else at.tensor(i) for i in (0, 1)]
    if given[1] is None and _is_one_element(proto.input[1]):
        given[1] = constant_value("goes", np.ones(1, np.bool_))
    node.inputs = [*given, *(v for t, f in zip(begins, forms, strict=True) for v in flat(at.fitted(t, f)))]
    _finish(at, graph, forms, ends, every[1:])
    return True


def _is_one_element(info: onnx.ValueInfoProto) -> bool:
    """Whether what is a scalar for the standard is declared as a tensor of one element."""
    return [d.dim_value for d in info.type.tensor_type.shape.dim] == [1]


def _counter(at: Place, graph: Graph, scope: Scope, info: onnx.ValueInfoProto) -> Value:
    """The number of the turn, a scalar; a body may declare it as a tensor of one element."""
    named = at.reader.define(scope, info.name)
    if not _is_one_element(info):
        return named
    turn = at.reader.value(scope, info.name, ".turn")
    axes = constant_value("axes", np.zeros(1, np.int64))
    _inside(at, graph, scope).append("Unsqueeze", [turn, axes], [named])
    return turn


def _finish(
    at: Place, graph: Graph, forms: Sequence[Form], ends: Sequence[Object], every: Sequence[Form]
) -> None:
    """The node itself, and what the model calls the values it makes."""
    node = at.node
    if len(at.proto.output) > len(every):
        raise ModelError(f"{at.label}: {len(at.proto.output)} outputs, but the body gives {len(every)}")
    made = _results(at, every)
    node.attributes["body"] = graph
    node.attributes["sequences"] = sequences_in(forms)
    at.graph.nodes.append(node)
    for i, (thing, form) in enumerate(zip(made, every, strict=True)):
        if form.count == 1 or i >= len(at.proto.output) or not at.proto.output[i]:
            continue
        end = form_of(ends[i])
        is_plain = end is not None and end.kind != "optional"  # the body's output says what the result is
        at.result(i, content_of(at, thing, at.proto.output[i]) if is_plain else thing)


def _carried(at: Place, thing: Object, declared: onnx.TypeProto) -> Form:
    """The form of a carried value: that of its first content, or an optional where the body says so."""
    said = _declared_form(declared)
    try:
        found = joined(form_of(thing), said or form_of(thing))
    except UnsupportedError:
        found = form_of(thing)
    if found is None:
        raise UnsupportedError(f"{at.label}: nothing says what its empty optional may hold")
    return found


def _declared_form(type_: onnx.TypeProto) -> Form | None:
    match type_.WhichOneof("value"):
        case "sequence_type":
            return Form("sequence")
        case "optional_type":
            inner = _declared_form(type_.optional_type.elem_type)
            return None if inner is None else Form("optional", inner)
        case "tensor_type":
            return Form("tensor")
    return None


def _enter(at: Place, graph: Graph, scope: Scope, form: Form, name: str) -> None:
    """An input of the body, of a form."""
    if form.count == 1:
        graph.inputs.append(at.reader.define(scope, name))
        return
    values = [at.reader.value(scope, name, s) for s in suffixes(form)]
    graph.inputs += values
    at.reader.call_it(scope, name, rebuilt(form, iter(values)))


CONTROL: dict[str, Handler] = {"If": if_, "Loop": loop}
