"""From an ONNX GraphProto to a Graph. In: a model's messages; out: nodes and values, constants as arrays.

Values of the main graph carry the model's names; those of subgraphs and function bodies get a number where a
name is taken already, so that a name means one value. Declared types and shapes are put on the values, for
`infer` to check.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx

from ingot.errors import ModelError, UnsupportedError
from ingot.formula.expr import Array
from ingot.formula.types import dtype_of
from ingot.frontends.onnx_shapes import Dimensions
from ingot.frontends.onnx_tensors import array_of, dense
from ingot.graph.ir import Attribute, Graph, Node, Value, constant_value
from ingot.graph.onnx_types import dtype_from_onnx

DEPTH_LIMIT = 32
Attributes = Mapping[str, "onnx.AttributeProto"]


@dataclass(slots=True)
class Scope:
    """What names mean at one place: a graph, a subgraph in it, a function body."""

    opsets: Mapping[str, int]
    values: dict[str, Value] = field(default_factory=dict)
    outer: Scope | None = None
    arguments: Attributes = field(default_factory=dict)
    prefix: str = ""
    depth: int = 0

    def find(self, name: str) -> Value | None:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.values:
                return scope.values[name]
            scope = scope.outer
        return None


@dataclass(slots=True)
class Reader:
    """Reads one model. `folder` is where external data may lie; `taken` are the names in use."""

    folder: Path | None
    dimensions: Dimensions
    keep_inputs: bool = False
    taken: set[str] = field(default_factory=set)

    def main(self, proto: onnx.GraphProto, opsets: Mapping[str, int]) -> Graph:
        """The main graph: its inputs must be fully known."""
        self.taken.update(n for node in proto.node for n in node.output)
        self.taken.update(v.name for v in proto.input)
        constants = {t.name for t in proto.initializer} | {t.values.name for t in proto.sparse_initializer}
        inputs = [v for v in proto.input if self.keep_inputs or v.name not in constants]
        self.dimensions.resolve(inputs)
        return self.graph(proto, Scope(opsets), inputs)

    def graph(self, proto: onnx.GraphProto, scope: Scope, inputs: Iterable[onnx.ValueInfoProto]) -> Graph:
        if scope.depth > DEPTH_LIMIT:
            raise UnsupportedError(f"subgraphs are nested more than {DEPTH_LIMIT} deep")
        graph = Graph(proto.name)
        for info in inputs:
            graph.inputs.append(self._define(scope, Value(info.name, *self.dimensions.declared(info))))
        self._initializers(proto, scope)
        self._body(graph, proto.node, scope, {v.name: v for v in (*proto.value_info, *proto.output)})
        graph.outputs = [self._output(v.name, scope) for v in proto.output]
        return graph

    def _define(self, scope: Scope, value: Value) -> Value:
        """Enter a value under its name in the model; below the main graph it may get another for itself."""
        name = value.name
        if not name:
            raise ModelError("a graph input or initializer has no name")
        if name in scope.values:
            raise ModelError(f"the value {name!r} is defined twice")
        if scope.depth or scope.prefix:
            value.name = self._fresh(scope.prefix + name)
        scope.values[name] = value
        return value

    def _fresh(self, name: str) -> str:
        candidate, number = name, 1
        while candidate in self.taken:
            number += 1
            candidate = f"{name}_{number}"
        self.taken.add(candidate)
        return candidate

    def _initializers(self, proto: onnx.GraphProto, scope: Scope) -> None:
        inputs = set(scope.values)
        for t in proto.initializer:
            if t.name not in inputs:
                array = array_of(t, self.folder, f"initializer {t.name!r}")
                self._define(scope, constant_value(t.name, array))
        for s in proto.sparse_initializer:
            if s.values.name not in inputs:
                array = dense(s, self.folder, f"initializer {s.values.name!r}")
                self._define(scope, constant_value(s.values.name, array))

    def _body(
        self,
        graph: Graph,
        nodes: Iterable[onnx.NodeProto],
        scope: Scope,
        declared: Mapping[str, onnx.ValueInfoProto],
    ) -> None:
        for proto in nodes:
            node = self._node(proto, scope)
            for name in proto.output:
                value = None
                if name:
                    info = declared.get(name)
                    known = (None, None) if info is None else self.dimensions.declared(info)
                    value = self._define(scope, Value(name, *known))
                node.outputs.append(value)
            if node.op == "Constant" and node.domain == "" and node.outputs[0] is not None:
                _become(node.outputs[0], _constant(node))
            else:
                graph.nodes.append(node)

    def _node(self, proto: onnx.NodeProto, scope: Scope) -> Node:
        domain = "" if proto.domain == "ai.onnx" else proto.domain
        node = Node(proto.op_type, [], [], {}, proto.name, domain, scope.opsets.get(domain, 0))
        if not node.version:
            raise ModelError(f"node {proto.name!r} ({proto.op_type}): no opset of {domain!r} is imported")
        for name in proto.input:
            value = scope.find(name) if name else None
            if name and value is None:
                raise ModelError(
                    f"node {proto.name!r} ({proto.op_type}) reads {name!r}, which nothing before it makes: "
                    "a cycle, wrong order or a missing node"
                )
            node.inputs.append(value)
        for attribute in proto.attribute:
            found = scope.arguments.get(attribute.ref_attr_name) if attribute.ref_attr_name else attribute
            if found is not None:
                node.attributes[attribute.name] = self._attribute(found, scope, node)
        return node

    def _output(self, name: str, scope: Scope) -> Value:
        value = scope.find(name)
        if value is None:
            raise ModelError(f"nothing makes the graph output {name!r}")
        return value

    def _attribute(self, a: onnx.AttributeProto, scope: Scope, node: Node) -> Attribute:
        what = f"attribute {a.name!r} of {node.op} node {node.name!r}"
        kinds = onnx.AttributeProto
        match a.type:
            case kinds.FLOAT:
                return float(a.f)
            case kinds.INT:
                return int(a.i)
            case kinds.STRING:
                return _string(a.s)
            case kinds.FLOATS:
                return tuple(float(v) for v in a.floats)
            case kinds.INTS:
                return tuple(int(v) for v in a.ints)
            case kinds.STRINGS:
                return tuple(s.decode("utf-8", "replace") for s in a.strings)
            case kinds.TENSOR:
                return array_of(a.t, self.folder, what)
            case kinds.SPARSE_TENSOR:
                return dense(a.sparse_tensor, self.folder, what)
            case kinds.GRAPH:
                inner = Scope(scope.opsets, {}, scope, scope.arguments, scope.prefix, scope.depth + 1)
                return self.graph(a.g, inner, a.g.input)
        raise UnsupportedError(f"{what}: attributes of type {a.type} are not supported")


def _string(data: bytes) -> str | bytes:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def _become(value: Value, array: Array) -> None:
    value.type, value.shape, value.constant = dtype_of(array), tuple(array.shape), array


def _constant(node: Node) -> Array:
    """The elements of a Constant node. ONNX Constant-13: exactly one of its attributes is given."""
    if len(node.attributes) != 1:
        raise ModelError(f"{node.label}: {len(node.attributes)} attributes instead of one")
    name, value = next(iter(node.attributes.items()))
    if isinstance(value, np.ndarray):
        return value
    if name in ("value_float", "value_floats"):
        return np.asarray(value, np.float32)
    if name in ("value_int", "value_ints"):
        return np.asarray(value, np.int64)
    raise UnsupportedError(f"{node.label}: a Constant given by {name} is not supported")


__all__ = ["Attributes", "Reader", "Scope", "dtype_from_onnx"]
