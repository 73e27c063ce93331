"""Function bodies of ONNX operators. In: a NodeProto without a definition; out: the nodes that stand for it.

A model's own functions come first, then the bodies in ONNX's schemas, then what `foreign.py` has. Some of
ONNX's are built for the types of the node's inputs (context-dependent): its own inference gives them, asked
only where it is needed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, cast

import onnx
import onnx.shape_inference
from google.protobuf.message import Error  # type: ignore[import-untyped]
from onnx.checker import ValidationError

from ingot.errors import ModelError, UnsupportedError
from ingot.frontends.onnx.foreign import foreign_function

SMALL = 4096
NEWEST = "ingot.newest"  # the domain of the reader's own nodes among those of an older opset
LAST_OPSET = (1 << 31) - 1  # what onnx's own functions take
EXPANDED_LIMIT = 20_000
EXPANSION = 10  # times as many nodes, in a graph that itself has more
Types = Mapping[str, onnx.TypeProto]
Key = tuple[str, str, str]
"""Domain, name and overload of a function."""


@dataclass(frozen=True, slots=True)
class Body:
    """The instance of a function at one call: its nodes, with the call's attributes put in."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[onnx.NodeProto, ...]
    opsets: Mapping[str, int]


@dataclass(slots=True)
class Functions:
    """All functions a model can call. `local` is keyed by domain, name and overload."""

    local: Mapping[Key, onnx.FunctionProto]

    def is_local(self, call: onnx.NodeProto) -> bool:
        """Whether the model itself defines the function."""
        return key_of(call) in self.local

    def find_local(self, call: onnx.NodeProto) -> Body | None:
        """The body of a function that the model itself defines."""
        function = self.local.get(key_of(call))
        return None if function is None else instantiate(function, call, {})

    def find_schema(self, call: onnx.NodeProto, version: int, scope: LazyTypes) -> Body | None:
        """The body that ONNX gives for the operator as of opset `version`."""
        try:
            schema = onnx.defs.get_schema(call.op_type, version, call.domain)
        except onnx.defs.SchemaError:
            foreign = foreign_function(call)
            return None if foreign is None else instantiate(foreign, call, {})
        bodies = cast(Schema, schema)
        function = _plain(bodies, version) or _for_types(bodies, version, call, scope)
        defaults = {n: a.default_value for n, a in schema.attributes.items() if a.default_value.type}
        if function is None:
            return None
        body = instantiate(function, call, defaults)
        return replace(body, opsets={**scope.opsets, **body.opsets})  # FlexAttention-1 imports no opset of ''


def functions_of(model: onnx.ModelProto) -> Functions:
    """The functions that the model calls, directly or through others.

    Raises ModelError where one calls itself, UnsupportedError where they stand for too many nodes.
    """
    every = {(normal(f.domain), f.name, f.overload): f for f in model.functions}
    if len(every) < len(model.functions):
        (_, name, _), _ = Counter(
            (normal(f.domain), f.name, f.overload) for f in model.functions
        ).most_common(1)[0]
        raise ModelError(f"the function {name!r} is defined twice")
    sizes: dict[Key, int] = {}
    total, limit = 0, expanded_limit(model.graph)
    for called in calls_of(model.graph.node):
        _measure(called, every, sizes)
        total += sizes.get(called, 0)
        if total > limit:
            name = "node" if called not in every else every[called].name
            raise UnsupportedError(f"{name!r}: the functions expand to more than {limit} nodes")
    return Functions({key: every[key] for key in sizes if key in every})


def expanded_limit(graph: onnx.GraphProto) -> int:
    """How many nodes those of a graph may stand for."""
    return max(EXPANDED_LIMIT, EXPANSION * len(graph.node))


def calls_of(nodes: Iterable[onnx.NodeProto]) -> Iterator[Key]:
    """What the nodes call, and those of the graphs in them."""
    for node in nodes:
        yield key_of(node)
        for attribute in node.attribute:
            for graph in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                yield from calls_of(graph.node)


def _measure(start: Key, every: Mapping[Key, onnx.FunctionProto], sizes: dict[Key, int]) -> None:
    """Note how many nodes a function stands for, and those it calls, each once and without recursion."""
    stack, opened = [start], set[Key]()
    while stack:
        key = stack[-1]
        called = [k for k in calls_of(every[key].node) if k in every] if key in every else []
        missing = [k for k in called if k not in sizes]
        if key in sizes or not missing:
            if key in every:
                sizes.setdefault(key, len(every[key].node) + sum(sizes[k] for k in called))
            stack.pop()
        elif key in opened:
            raise ModelError(f"the function {every[key].name!r} calls itself")
        else:
            opened.add(key)
            stack.extend(missing)


def key_of(call: onnx.NodeProto) -> Key:
    return (normal(call.domain), call.op_type, call.overload)


def normal(domain: str) -> str:
    """'ai.onnx' is the long name of ''."""
    return "" if domain == "ai.onnx" else domain


def opsets_of(imports: Iterable[onnx.OperatorSetIdProto], importer: str) -> dict[str, int]:
    """The opset of each domain that is imported. Raises where there is none, or one from the future."""
    released = [row[3] for row in onnx.helper.VERSION_TABLE]
    found, newest = dict[str, int](), {"": onnx.defs.onnx_opset_version(), "ai.onnx.ml": max(released)}
    for domain, version in ((normal(o.domain), int(o.version)) for o in imports):
        if found.setdefault(domain, version) != version:
            raise ModelError(f"{importer} imports opsets {found[domain]} and {version} of domain {domain!r}")
        if not 1 <= version <= LAST_OPSET:
            reason = f"imports opset {version} of domain {domain!r}; opsets count from 1 to {LAST_OPSET}"
            raise ModelError(f"{importer} {reason}")
        if version > newest.get(domain, LAST_OPSET):
            of = f" of domain {domain!r}" if domain else ""
            reason = f"is written for opset {version}{of}; the newest known is {newest[domain]}"
            raise UnsupportedError(f"{importer} {reason}")
    return found


def instantiate(
    function: onnx.FunctionProto, call: onnx.NodeProto, defaults: Mapping[str, onnx.AttributeProto]
) -> Body:
    """The body with every attribute reference replaced by what the call gives, or its default, or dropped."""
    if len(call.input) > len(function.input) or len(call.output) > len(function.output):
        raise ModelError(f"node {call.name!r}: more inputs or outputs than the function {call.op_type} has")
    arguments = dict(defaults)
    arguments.update((a.name, a) for a in (*function.attribute_proto, *call.attribute))
    nodes = tuple(_with_arguments(node, arguments) for node in function.node)
    return Body(tuple(function.input), tuple(function.output), nodes, _opsets(function))


def _opsets(function: onnx.FunctionProto) -> dict[str, int]:
    return opsets_of(function.opset_import, f"the function {function.name!r}")


def _with_arguments(node: onnx.NodeProto, arguments: Mapping[str, onnx.AttributeProto]) -> onnx.NodeProto:
    out = onnx.NodeProto()
    out.CopyFrom(node)
    del out.attribute[:]
    for attribute in node.attribute:
        found = arguments.get(attribute.ref_attr_name) if attribute.ref_attr_name else attribute
        if found is not None:
            new = out.attribute.add()
            new.CopyFrom(found)
            new.name = attribute.name
            if new.type == onnx.AttributeProto.GRAPH and not attribute.ref_attr_name:
                inner = [_with_arguments(n, arguments) for n in new.g.node]
                del new.g.node[:]
                new.g.node.extend(inner)
    return out


class Schema(Protocol):
    """What onnx's own stubs leave out of OpSchema."""

    function_opset_versions: list[int]
    context_dependent_function_opset_versions: list[int]

    def get_function_with_opset_version(self, version: int) -> bytes: ...

    def get_context_dependent_function_with_opset_version(
        self, version: int, node: bytes, types: list[bytes]
    ) -> bytes: ...


def _plain(schema: Schema, version: int) -> onnx.FunctionProto | None:
    """The newest body as of `version`, or the oldest: every body says itself which opset it is written in."""
    found = _newest(schema.function_opset_versions, version)
    return None if found is None else _parse(schema.get_function_with_opset_version(found))


def _for_types(
    schema: Schema, version: int, call: onnx.NodeProto, scope: LazyTypes
) -> onnx.FunctionProto | None:
    found = _newest(schema.context_dependent_function_opset_versions, version)
    if found is None:
        return None
    types = [scope.of(name).SerializeToString() for name in call.input]
    try:
        data = schema.get_context_dependent_function_with_opset_version(
            found, call.SerializeToString(), types
        )
    except (RuntimeError, ValueError):
        return None
    return _parse(data) if data else None


def _newest(versions: Sequence[int], version: int) -> int | None:
    return max((v for v in versions if v <= version), default=min(versions, default=None))


def _parse(data: bytes) -> onnx.FunctionProto:
    function = onnx.FunctionProto()
    function.ParseFromString(data)
    return function


@dataclass(slots=True)
class LazyTypes:
    """ONNX's inferred types of every name in a model or function body, computed when first asked for."""

    graph: Callable[[], onnx.GraphProto]
    opsets: Mapping[str, int]
    functions: Functions
    found: dict[str, onnx.TypeProto] | None = None

    def of(self, name: str) -> onnx.TypeProto:
        """The type of a value; an empty one where it is unknown or the name is ""."""
        if self.found is None:
            self.found = {}
            _collect(_inferred(self.graph(), self.opsets, self.functions), self.found)
        return self.found.get(name, onnx.TypeProto())

    def inside(self, body: Body, call: onnx.NodeProto) -> LazyTypes:
        """The types within the body of a call made here."""

        def graph() -> onnx.GraphProto:
            out = onnx.GraphProto(name="body", node=body.nodes)
            for formal, actual in zip(body.inputs, call.input, strict=False):
                if actual:
                    out.input.add(name=formal).type.CopyFrom(self.of(actual))
            out.output.extend(onnx.ValueInfoProto(name=name) for name in body.outputs)
            return out

        return LazyTypes(graph, body.opsets, self.functions)


def light(graph: onnx.GraphProto) -> onnx.GraphProto:
    """The graph with inputs in place of its large initializers: enough to infer types."""
    out = onnx.GraphProto(name=graph.name, node=graph.node, input=graph.input, output=graph.output)
    out.value_info.extend(graph.value_info)
    inputs = {v.name for v in graph.input}
    for tensor in graph.initializer:
        external = tensor.data_location == onnx.TensorProto.EXTERNAL
        if tensor.ByteSize() <= SMALL and not external:
            out.initializer.append(tensor)
        elif tensor.name not in inputs:
            out.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    return out


def _inferred(graph: onnx.GraphProto, opsets: Mapping[str, int], functions: Functions) -> onnx.GraphProto:
    imports = [onnx.OperatorSetIdProto(domain=d, version=v) for d, v in opsets.items()]
    model = onnx.ModelProto(ir_version=10, opset_import=imports, graph=graph)
    model.functions.extend(functions.local.values())
    if any(_hangs(nodes) for nodes in (graph.node, *(f.node for f in model.functions))):
        return graph
    try:
        return onnx.shape_inference.infer_shapes(model, data_prop=True).graph
    except (onnx.shape_inference.InferenceError, ValidationError, Error, RuntimeError, ValueError):
        return graph


def _hangs(nodes: Iterable[onnx.NodeProto]) -> bool:
    """Whether onnx's shape inference would never end: it loops on a stray dot in an Einsum equation."""
    for node in nodes:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH and _hangs(attribute.g.node):
                return True
            stray = b"." in attribute.s.replace(b"...", b"")
            if node.op_type == "Einsum" and attribute.name == "equation" and stray:
                return True
    return False


def _collect(graph: onnx.GraphProto, out: dict[str, onnx.TypeProto]) -> None:
    for info in (*graph.input, *graph.value_info, *graph.output):
        if info.type.WhichOneof("value"):
            out[info.name] = info.type
    for tensor in graph.initializer:
        out[tensor.name] = onnx.helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                _collect(attribute.g, out)
