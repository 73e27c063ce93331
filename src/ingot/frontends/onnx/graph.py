"""From an ONNX GraphProto to a Graph. In: a model's messages; out: nodes and values, constants as arrays.

Values of the main graph carry the model's names; those of subgraphs and function bodies get a number where a
name is taken already, so that a name means one value. Declared types and shapes are put on the values, for
`infer` to check. Operators without a definition are replaced by their function bodies on the way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import onnx

import ingot.ops  # noqa: F401  (fills the registry)
from ingot.errors import ModelError, UnsupportedError
from ingot.formula.expr import Array
from ingot.formula.types import STRING, DType, dtype_of
from ingot.frontends.capacities import Capacities
from ingot.frontends.onnx.attributes import attribute_of, constant_of
from ingot.frontends.onnx.functions import Body, Functions, LazyTypes, light, normal
from ingot.frontends.onnx.scan import as_loop
from ingot.frontends.onnx.scope import Scope
from ingot.frontends.onnx.shapes import Dimensions
from ingot.frontends.onnx.tensors import Folder, array_of, dense
from ingot.graph.ir import Attribute, Graph, Node, Value
from ingot.ops.registry import find

EXPANDED_LIMIT = 100_000


@dataclass(slots=True)
class Reader:
    """Reads one model. `folder` is where external data may lie, `text` the type of all strings; `taken`
    counts the names in use. `kept` are inputs that stay inputs though the model has initial values for them.
    """

    folder: Folder
    dimensions: Dimensions
    functions: Functions
    keep_inputs: bool = False
    kept: frozenset[str] = frozenset()
    capacities: Capacities = field(default_factory=lambda: Capacities({}))
    text: DType = STRING
    taken: dict[str, int] = field(default_factory=dict)
    expanded: int = 0

    def main(self, proto: onnx.GraphProto, opsets: Mapping[str, int]) -> Graph:
        """The main graph: its inputs must be fully known."""
        self.taken = {name: 1 for node in proto.node for name in node.output}
        self.taken.update((v.name, 1) for v in (*proto.input, *proto.initializer))
        constants = {t.name for t in proto.initializer} | {t.values.name for t in proto.sparse_initializer}
        kept = [v for v in proto.input if self.keep_inputs or v.name not in constants - self.kept]
        inputs = [*kept, *_variables(proto, self.kept)]
        self.dimensions.resolve(inputs)
        if not proto.output:
            raise ModelError("the graph has no outputs")
        types = LazyTypes(lambda: light(proto), opsets, self.functions)
        graph = self._graph(proto, inputs, Scope(opsets, types))
        self.capacities.require_used()
        self._initial(graph, proto)
        return graph

    def _initial(self, graph: Graph, proto: onnx.GraphProto) -> None:
        """What the kept inputs hold at first."""
        given = {t.name: t for t in proto.initializer if t.name in self.kept}
        for value in graph.inputs:
            if value.name in given:
                array = array_of(given[value.name], self.folder, f"initializer {value.name!r}")
                if (value.type, value.shape) != (dtype_of(array), tuple(array.shape)):
                    raise ModelError(
                        f"the initializer of {value.name!r} is not of the input's type and shape"
                    )
                value.initial = array

    def _graph(self, proto: onnx.GraphProto, inputs: Sequence[onnx.ValueInfoProto], scope: Scope) -> Graph:
        require_text(proto.name, *(v.name for v in (*proto.value_info, *proto.output)))
        known = (*proto.value_info, *proto.input, *proto.output)
        scope.declared = {v.name: self.dimensions.loosely(v) for v in known}
        scope.declared.update((v.name, self.dimensions.declared(v)) for v in inputs)
        graph = Graph(proto.name, [self._define(scope, v.name) for v in inputs])
        self._initializers(proto, scope)
        self._body(graph, proto.node, scope)
        for info in proto.output:
            value = self._read(info.name, scope, "the graph output")
            assert value is not None, "only function bodies have left-out inputs, and they are no graphs"
            graph.outputs.append(value)
        return graph

    def _initializers(self, proto: onnx.GraphProto, scope: Scope) -> None:
        inputs = set(scope.values)
        for t in proto.initializer:
            if t.name not in inputs:
                elements = array_of(t, self.folder, f"initializer {t.name!r}", self.text)
                _hold(self._define(scope, t.name), elements)
        for s in proto.sparse_initializer:
            name = s.values.name
            if name not in inputs:
                _hold(self._define(scope, name), dense(s, self.folder, f"initializer {name!r}"))

    def _define(self, scope: Scope, name: str) -> Value:
        """A new value under its name in the model; below the main graph it may get another for itself."""
        if not name:
            raise ModelError("a graph input or initializer has no name")
        require_text(name)
        if name in scope.values:
            raise ModelError(f"the value {name!r} is defined twice")
        value = Value(self._fresh(scope.prefix + name) if scope.depth else name)
        value.type, value.shape = scope.declared.get(name, (None, None))
        value.capacity = self.capacities.of(value.name, scope.prefix + name)
        scope.values[name] = value
        return value

    def _fresh(self, name: str) -> str:
        candidate = name
        while candidate in self.taken:
            self.taken[name] += 1
            candidate = f"{name}_{self.taken[name]}"
        self.taken[candidate] = 1
        return candidate

    def _read(self, name: str, scope: Scope, reader: str) -> Value | None:
        try:
            return scope.find(name)
        except KeyError:
            reason = "which nothing before it makes: a missing node, wrong order or a cycle"
            raise ModelError(f"{reader} reads {name!r}, {reason}") from None

    def _body(self, graph: Graph, nodes: Iterable[onnx.NodeProto], scope: Scope) -> None:
        for proto in nodes:
            node = self._node(proto, scope)
            if (node.domain, node.op) == ("", "Scan"):
                self._scan(graph, proto, node, scope)
                continue
            body = self._function(proto, node, scope)
            if body is not None:
                self._expand(graph, proto, node, body, scope)
                continue
            node.outputs = [self._define(scope, name) if name else None for name in proto.output]
            for attribute in proto.attribute:
                node.attributes[attribute.name] = self._attribute(attribute, scope, node)
            first = node.outputs[0] if node.outputs else None
            if node.op == "Constant" and node.domain == "" and first is not None:
                _hold(first, constant_of(node))
            else:
                graph.nodes.append(node)

    def _node(self, proto: onnx.NodeProto, scope: Scope) -> Node:
        """The node with its inputs; outputs and attributes follow."""
        domain = normal(proto.domain)
        names = [a.name for a in proto.attribute]
        require_text(domain, proto.op_type, proto.name, *proto.input, *names)
        if not proto.op_type or not all(map(str.isprintable, (domain, proto.op_type, *names))):
            raise ModelError(f"node {proto.name!r}: {proto.op_type!r} of {domain!r} is not an operator")
        version = scope.opsets.get(domain, 0)
        node = Node(proto.op_type, [], [], {}, proto.name, domain, version, self.text)
        label = f"{node.op} node {node.name or next(iter(proto.output), '')!r}"
        if len(set(names)) < len(names):
            raise ModelError(f"{label}: the same attribute is given twice")
        if not node.version:
            raise ModelError(f"{label}: no opset of the domain {domain!r} is imported")
        node.inputs = [self._read(name, scope, label) if name else None for name in proto.input]
        while node.inputs and node.inputs[-1] is None:
            node.inputs.pop()
        return node

    def _attribute(self, a: onnx.AttributeProto, scope: Scope, node: Node) -> Attribute:
        if a.type == onnx.AttributeProto.GRAPH:
            return self._graph(a.g, a.g.input, scope.subgraph())
        return attribute_of(a, self.folder, f"{node.label}: attribute {a.name!r}", self.text)

    def _scan(self, graph: Graph, proto: onnx.NodeProto, node: Node, scope: Scope) -> None:
        """Scan is a Loop over slices; the nodes around that are written in the newest opset."""
        newest = replace(scope, opsets={**scope.opsets, "": onnx.defs.onnx_opset_version()})
        before, loop, after = as_loop(proto, node.version, node.label, scope.types)
        self._body(graph, before, newest)
        self._body(graph, [loop], scope)
        self._body(graph, after, newest)

    def _function(self, proto: onnx.NodeProto, node: Node, scope: Scope) -> Body | None:
        """The body to put in the node's place. The model's own functions hide operators of their name."""
        body = self.functions.find_local(proto)
        if body is None and find(node) is None:
            body = self.functions.find_schema(proto, node.version, scope.types)
        return body

    def _expand(self, graph: Graph, proto: onnx.NodeProto, node: Node, body: Body, scope: Scope) -> None:
        """Append the body's nodes; what it returns gets the names of the call's outputs."""
        self.expanded += len(body.nodes)
        if self.expanded > EXPANDED_LIMIT:
            raise UnsupportedError(f"the functions of the model expand to more than {EXPANDED_LIMIT} nodes")
        inner = scope.call(body, proto, node.inputs)
        self._body(graph, body.nodes, inner)
        own = inner.values.keys() - set(body.inputs)
        for formal, name in zip(body.outputs, proto.output, strict=False):
            if name:
                made = self._read(formal, inner, f"the function {proto.op_type}")
                self._return(graph, scope, name, made, formal in own)
                own.discard(formal)

    def _return(self, graph: Graph, scope: Scope, name: str, made: Value | None, own: bool) -> None:
        """`made` is the call's output `name`. Where it has another name already, a new value copies it."""
        outer = self._define(scope, name)
        if own and made is not None:
            made.name, scope.values[name] = outer.name, made
            made.capacity = outer.capacity
            if made.type is None:
                made.type, made.shape = outer.type, outer.shape
        else:
            version = onnx.defs.onnx_opset_version()
            graph.nodes.append(Node("Identity", [made], [outer], version=version))


def _variables(proto: onnx.GraphProto, kept: frozenset[str]) -> list[onnx.ValueInfoProto]:
    """Inputs for initializers that are to be kept and that the model does not list as inputs."""
    listed = {v.name for v in proto.input}
    wanted = [t for t in proto.initializer if t.name in kept - listed]
    return [onnx.helper.make_tensor_value_info(t.name, t.data_type, t.dims) for t in wanted]


def require_text(*names: object) -> None:
    """Raise ModelError for a name that is not UTF-8: protobuf hands it over as bytes."""
    for name in names:
        if not isinstance(name, str):
            raise ModelError(f"the name {name!r} is not UTF-8")


def _hold(value: Value, array: Array) -> None:
    """Make a constant of a value that is declared already."""
    dtype, shape = dtype_of(array), tuple(array.shape)
    if value.type not in (None, dtype) or value.shape not in (None, shape):
        raise ModelError(f"the constant {value.name!r} is {dtype}{list(shape)}, but declared otherwise")
    value.type, value.shape, value.constant = dtype, shape, array
