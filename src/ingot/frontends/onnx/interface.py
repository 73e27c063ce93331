"""The model's own inputs and outputs as values of the graph, and back to what the model calls them.

In: declarations of sequences, optionals and tensors. Out: the graph's inputs, one value per tensor; objects
for the scope; `Port`s, which tell the manifest which values belong together. A sequence that comes from the
caller is checked once, by a SequenceInput.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import onnx

from ingot.errors import InputError, ModelError, UnsupportedError
from ingot.formula.expr import Extent
from ingot.formula.index import upper
from ingot.formula.types import BOOL, INT64, DType
from ingot.frontends.onnx.objects import (
    Map,
    Maps,
    Object,
    Option,
    Ragged,
    flat,
    form_of,
    rebuilt,
    suffixes,
)
from ingot.frontends.onnx.place import Place
from ingot.frontends.onnx.reader import Reader
from ingot.frontends.onnx.scope import Scope
from ingot.graph.ir import Graph, Node, Port, Value
from ingot.graph.onnx_types import dtype_from_onnx

INTERNAL = "ingot"  # the domain of operators that no model has: what the reader itself puts between


def give_inputs(
    reader: Reader, graph: Graph, infos: Sequence[onnx.ValueInfoProto], scope: Scope
) -> list[tuple[str, Object]]:
    """Define the inputs of the main graph. The objects are what the caller gives, before any check."""
    given: list[tuple[str, Object]] = []
    for info in infos:
        if info.type.WhichOneof("value") in (None, "tensor_type"):
            scope.declared[info.name] = reader.dimensions.declared(info)
            value = reader.define(scope, info.name)
            graph.inputs.append(value)
            given.append((info.name, value))
            continue
        raw, checked = _container(reader, graph, scope, info.name, info.type, None)
        reader.call_it(scope, info.name, checked)
        given.append((info.name, raw))
    return given


def _container(
    reader: Reader, graph: Graph, scope: Scope, name: str, type_: onnx.TypeProto, present: Value | None
) -> tuple[Object, Object]:
    """What the caller gives for a sequence or an optional, and what the graph reads instead."""
    match type_.WhichOneof("value"):
        case "optional_type" if present is None:
            flag = _input(reader, scope, name, ".present", BOOL, ())
            inner = type_.optional_type.elem_type
            raw, checked = _container(reader, graph, scope, name, inner, flag)
            graph.inputs.append(flag)
            return Option(raw, flag), Option(checked, flag)
        case "tensor_type":
            info = onnx.ValueInfoProto(name=name, type=type_)
            dtype, shape = reader.dimensions.declared(info)
            if dtype is None or shape is None:
                raise InputError(f"the input {name!r}: its element has no declared type and shape")
            value = _input(reader, scope, name, "", dtype, shape)
            graph.inputs.append(value)
            return value, value
        case "sequence_type" if type_.sequence_type.elem_type.WhichOneof("value") in (None, "tensor_type"):
            return _sequence(reader, graph, scope, name, type_.sequence_type.elem_type, present)
        case "map_type":
            made = _map(reader, scope, name, type_.map_type)
            graph.inputs += flat(made)
            return made, made
    raise UnsupportedError(f"the input {name!r}: this kind of container is not supported")


def _map(reader: Reader, scope: Scope, name: str, type_: onnx.TypeProto.Map) -> Map:
    """A map from the caller: room for as many entries as --capacity says. Its readers check the length."""
    given = reader.capacities.of(name)
    room = given if isinstance(given, int) or given is None else given[0]
    if room is None:
        remedy = f"say how many entries it has at most: --capacity {name}=N"
        raise InputError(f"the input {name!r} is a map of any length", remedy=remedy)
    numbers = (type_.key_type, type_.value_type.tensor_type.elem_type)
    if 0 in numbers:
        raise ModelError(f"the input {name!r}: its keys or values have no type")
    key, value = (dtype_from_onnx(number, reader.text) for number in numbers)
    keys = _input(reader, scope, name, ".keys", key, (room,))
    values = _input(reader, scope, name, "", value, (room,))
    return Map(keys, values, _input(reader, scope, name, ".length", INT64, ()))


def _input(
    reader: Reader, scope: Scope, name: str, suffix: str, dtype: DType, shape: tuple[Extent, ...]
) -> Value:
    """An input of the graph: all of what the model calls `name`, or a part of it."""
    value = reader.value(scope, name, suffix) if suffix else Value(name)
    value.type, value.shape = dtype, shape
    return value


def _sequence(
    reader: Reader,
    graph: Graph,
    scope: Scope,
    name: str,
    element: onnx.TypeProto,
    present: Value | None,
) -> tuple[Object, Object]:
    dtype, dims = reader.dimensions.element(name, element)
    count, room = _room(name, dims, reader.capacities.of(name))
    data = _input(reader, scope, name, "", dtype, (count, *room))
    extents = _input(reader, scope, name, ".extents", INT64, (count, len(room)))
    length = _input(reader, scope, name, ".length", INT64, ())
    graph.inputs += [data, extents, length]
    fixed = tuple(d if isinstance(d, int) else -1 for d in dims) if dims is not None else (-2,) * len(room)
    right = reader.value(scope, name, ".checked_length")
    known = reader.value(scope, name, ".known_extents") if min(fixed, default=0) >= 0 else None
    node = Node("SequenceInput", [data, extents, length, present], [known, right], {"shape": fixed}, name)
    node.domain = INTERNAL
    graph.nodes.append(node)
    return Ragged(data, extents, length), Ragged(data, known or extents, right)


def _room(
    name: str, dims: Sequence[Extent | None] | None, given: int | tuple[int, ...] | None
) -> tuple[int, tuple[int, ...]]:
    """How many elements, and the extents of the largest. Raises InputError where nothing tells."""
    rank = None if dims is None else len(dims)
    axes = "AxBx..." if rank is None else "x".join("ABCDEFGH"[:rank])
    option = f"--capacity {name}=" + "x".join(("N", axes) if axes else "N")
    remedy = f"say how many elements it has at most, and their largest extents: {option}"
    if given is None or (isinstance(given, int) and rank is None):
        raise InputError(f"the input {name!r} is a sequence of any length or rank", remedy=remedy)
    numbers = (given,) * (1 + (rank or 0)) if isinstance(given, int) else given
    if rank is not None and len(numbers) != 1 + rank:
        reason = f"--capacity {name}: {len(numbers)} numbers for sequences of {rank} axes"
        raise InputError(reason, remedy=remedy)
    said: list[Extent | None] = [None] * (len(numbers) - 1) if dims is None else list(dims)
    room = [n if d is None else upper(d) for d, n in zip(said, numbers[1:], strict=True)]
    return numbers[0], tuple(room)


def give_outputs(
    reader: Reader,
    graph: Graph,
    scope: Scope,
    infos: Sequence[onnx.ValueInfoProto],
    things: list[Object],
) -> None:
    """The outputs of the main graph under the model's names; `things` is brought to what is given out."""
    so_far = _SoFar(graph)
    for i, (name, kind) in enumerate((o.name, o.type.WhichOneof("value")) for o in infos):
        thing = things[i]
        if kind in ("tensor_type", "sequence_type") and (kind == "tensor_type") != isinstance(thing, Value):
            declared = str(kind).removesuffix("_type")
            raise ModelError(f"the output {name!r} is declared as a {declared}, but is a {form_of(thing)}")
        if isinstance(thing, Option) and thing.content is None:
            raise UnsupportedError(f"the output {name!r} is an optional of unknown content, always empty")
        things[i] = _settled(reader, so_far, name, thing)
        graph.outputs += flat(things[i])
        so_far.outputs.update(flat(things[i]))


@dataclass(slots=True)
class _SoFar:
    """A graph, what it gives so far, and the values that its first nodes make."""

    graph: Graph
    outputs: set[Value] = field(default_factory=set)
    made: set[Value | None] = field(default_factory=set)
    nodes: int = 0
    inputs: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        self.inputs = frozenset(v.name for v in self.graph.inputs)

    def makes(self, value: Value) -> bool:
        """Whether a node of the graph, which grows, makes the value."""
        for node in self.graph.nodes[self.nodes :]:
            self.made.update(node.outputs)
        self.nodes = len(self.graph.nodes)
        return value in self.made


def _settled(reader: Reader, so_far: _SoFar, name: str, thing: Object) -> Object:
    """The object made of values that are called as the output is."""
    form = form_of(thing)
    assert form is not None
    scope = Scope({}, None)  # type: ignore[arg-type]  # what is made here has no names to look up
    node, proto = Node("Identity", [], []), onnx.NodeProto(op_type="Identity")
    place = Place(reader, so_far.graph, scope, proto, node, [])
    values = flat(place.fitted(thing, form, name)) if form.count > 1 else flat(thing)
    named = [_called(so_far, v, name + s) for v, s in zip(values, suffixes(form), strict=True)]
    return rebuilt(form, iter(named))


def _called(so_far: _SoFar, value: Value, name: str) -> Value:
    """The value itself if it has the name, else a copy that has."""
    is_new = value not in so_far.outputs
    if value.name == name and is_new:
        return value
    if is_new and value.name not in so_far.inputs and so_far.makes(value):
        value.name = name
        return value
    copy = Value(name)
    version = onnx.defs.onnx_opset_version()
    so_far.graph.nodes.append(Node("Identity", [value], [copy], version=version))
    return copy


def ports(
    given: Sequence[tuple[str, Object]], made: Sequence[tuple[str, Object]]
) -> tuple[tuple[Port, ...], tuple[Port, ...]]:
    """What the inputs and outputs of the model are made of; nothing where all are tensors."""
    every = [*given, *made]
    if all(isinstance(thing, Value) for _, thing in every):
        return (), ()
    return tuple(_port(n, t) for n, t in given), tuple(_port(n, t) for n, t in made)


def _port(name: str, thing: Object) -> Port:
    match thing:
        case Value():
            return Port(name, "tensor", (("data", thing.name),))
        case Ragged(data, extents, length):
            members = (("data", data.name), ("extents", extents.name), ("length", length.name))
            return Port(name, "sequence", members)
        case Map(keys, values, length):
            members = (("keys", keys.name), ("values", values.name), ("length", length.name))
            return Port(name, "map", members)
        case Maps(values, names):
            return Port(name, "maps", (("data", values.name),), keys=names)
        case Option(content, present) if content is not None:
            return Port(name, "optional", (("present", present.name),), _port(name, content))
    raise ModelError(f"{name!r} cannot be given to a caller")
