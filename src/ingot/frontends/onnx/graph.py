"""From an ONNX GraphProto to a Graph. In: a model's messages; out: nodes and values, constants as arrays.

Values of the main graph carry the model's names; those of subgraphs and function bodies get a number where a
name is taken already, so that a name means one value. Declared types and shapes are put on the values, for
`infer` to check. Operators without a definition are replaced by their function bodies on the way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import prod

import onnx

import ingot.ops  # noqa: F401  (fills the registry)
from ingot.errors import ModelError, UnsupportedError
from ingot.formula.expr import Array
from ingot.formula.types import STRING, DType, dtype_of
from ingot.frontends.capacities import Capacities
from ingot.frontends.onnx.attributes import (
    attribute_of,
    constant_of,
    kind_of,
    kinds_of,
    require_known,
)
from ingot.frontends.onnx.encoded import encoding_of
from ingot.frontends.onnx.functions import (
    EXPANDED_LIMIT,
    NEWEST,
    Body,
    Functions,
    LazyTypes,
    expanded_limit,
    light,
    normal,
)
from ingot.frontends.onnx.glow import TF2ONNX, is_placement
from ingot.frontends.onnx.handlers import is_handled
from ingot.frontends.onnx.interface import give_inputs, give_outputs, ports
from ingot.frontends.onnx.objects import Object
from ingot.frontends.onnx.order import in_order
from ingot.frontends.onnx.place import Place
from ingot.frontends.onnx.scan import as_loop
from ingot.frontends.onnx.scan8 import as_batches
from ingot.frontends.onnx.scope import Scope
from ingot.frontends.onnx.shapes import Dimensions, as_text, contradict
from ingot.frontends.onnx.tensors import Home, array_of, dense
from ingot.graph.encoding import Sparse
from ingot.graph.ir import Attribute, Graph, Node, Value
from ingot.ops.registry import find


@dataclass(slots=True)
class GraphReader:
    """Reads one model. `home` is its file, beside which external data lies, `text` the type of all strings;
    `taken` counts the names in use. `kept` are inputs that stay inputs though the model has initial values
    for them. With `doubt` the operators are believed where the model declares other shapes.
    """

    home: Home
    dimensions: Dimensions
    functions: Functions
    keep_inputs: bool = False
    kept: frozenset[str] = frozenset()
    capacities: Capacities = field(default_factory=lambda: Capacities({}))
    text: DType = STRING
    doubt: bool = False
    taken: dict[str, int] = field(default_factory=dict)
    most_nodes: int = EXPANDED_LIMIT
    expanded: int = 0
    claimed: int = 0

    def main(self, proto: onnx.GraphProto, opsets: Mapping[str, int]) -> Graph:
        """The main graph: its inputs must be fully known."""
        self.most_nodes = expanded_limit(proto)
        self.taken = {name: 1 for node in proto.node for name in node.output}
        self.taken.update((v.name, 1) for v in (*proto.input, *proto.initializer))
        constants = {t.name for t in proto.initializer} | {t.values.name for t in proto.sparse_initializer}
        kept = [v for v in proto.input if self.keep_inputs or v.name not in constants - self.kept]
        inputs = [*kept, *_variables(proto, self.kept)]
        self.dimensions.resolve(inputs)
        if not proto.output:
            raise ModelError("the graph has no outputs")
        scope = Scope(opsets, LazyTypes(lambda: light(proto), opsets, self.functions))
        graph = Graph(proto.name)
        self.declare(proto, scope)
        given = give_inputs(self, graph, inputs, scope)
        outputs = self.fill(graph, proto, scope)
        give_outputs(self, graph, scope, proto.output, outputs)
        graph.ports = ports(given, list(zip([o.name for o in proto.output], outputs, strict=True)))
        self.capacities.require_used()
        self._initial(graph, proto)
        return graph

    def _initial(self, graph: Graph, proto: onnx.GraphProto) -> None:
        """What the kept inputs hold at first."""
        given = {t.name: t for t in proto.initializer if t.name in self.kept}
        for value in graph.inputs:
            if value.name in given:
                array = array_of(given[value.name], self.home, f"initializer {value.name!r}")
                if (value.type, value.shape) != (dtype_of(array), tuple(array.shape)):
                    raise ModelError(
                        f"the initializer of {value.name!r} is not of the input's type and shape"
                    )
                value.initial = array

    def declare(self, proto: onnx.GraphProto, scope: Scope) -> None:
        """Note what a graph says of its values."""
        require_text(proto.name, *(v.name for v in (*proto.value_info, *proto.input, *proto.output)))
        for info in (*proto.value_info, *proto.input, *proto.output):
            said, before = self.dimensions.loosely(info), scope.declared.get(info.name, (None, None))
            if contradict(said, before) and not self.doubt:
                reason = f"is declared twice, as {as_text(before)} and as {as_text(said)}"
                raise ModelError(f"the value {info.name!r} {reason}")
            scope.declared[info.name] = said

    def fill(self, graph: Graph, proto: onnx.GraphProto, scope: Scope) -> list[Object]:
        """Append the nodes of a graph whose inputs are defined; what its outputs are."""
        self.initializers(proto, scope)
        self.body(graph, in_order(proto.node), scope)
        found = [self.read(info.name, scope, "the graph output") for info in proto.output]
        assert None not in found, "only function bodies have left-out inputs, and they are no graphs"
        return [thing for thing in found if thing is not None]

    def initializers(self, proto: onnx.GraphProto, scope: Scope) -> None:
        inputs = set(scope.values)
        for t in proto.initializer:
            if t.name not in inputs:
                elements = array_of(t, self.home, f"initializer {t.name!r}", self.text)
                _hold(self.define(scope, t.name), elements)
        for s in proto.sparse_initializer:
            name = s.values.name
            if name not in inputs:
                _hold(self.define(scope, name), dense(s, self.home, f"initializer {name!r}"))

    def define(self, scope: Scope, name: str) -> Value:
        """A new value under its name in the model; below the main graph it may get another for itself."""
        if not name:
            raise ModelError("a graph input or initializer has no name")
        require_text(name)
        if name in scope.values:
            raise ModelError(f"the value {name!r} is defined twice")
        value = Value(self.fresh(scope.prefix + name) if scope.depth else name)
        value.type, value.shape = scope.declared.get(name, (None, None))
        value.is_doubted = self.doubt
        value.capacity = self.capacities.of(value.name, scope.prefix + name)
        scope.values[name] = value
        return value

    def value(self, scope: Scope, name: str, suffix: str = "") -> Value:
        """A new value without a name in the model: part of what the model calls `name`."""
        value = Value(self.fresh(scope.prefix + name + suffix))
        value.capacity = self.capacities.of(value.name, scope.prefix + name)
        return value

    def count(self, nodes: int, label: str) -> None:
        """So many nodes more stand for one of the model. Raises UnsupportedError where it is too many."""
        self.expanded += nodes
        if self.expanded > self.most_nodes:
            raise UnsupportedError(f"{label}: the functions expand to more than {self.most_nodes} nodes")

    def call_it(self, scope: Scope, name: str, thing: Object) -> None:
        """Give an object that is there already a name."""
        require_text(name)
        if name in scope.values:
            raise ModelError(f"the value {name!r} is defined twice")
        scope.values[name] = thing

    def fresh(self, name: str) -> str:
        candidate = name
        while candidate in self.taken:
            self.taken[name] += 1
            candidate = f"{name}_{self.taken[name]}"
        self.taken[candidate] = 1
        return candidate

    def read(self, name: str, scope: Scope, reader: str) -> Object | None:
        try:
            return scope.find(name)
        except KeyError:
            reason = "which nothing before it makes: a missing node or a cycle"
            raise ModelError(f"{reader} reads {name!r}, {reason}") from None

    def body(self, graph: Graph, nodes: Iterable[onnx.NodeProto], scope: Scope) -> None:
        for proto in nodes:
            node, operands = self._node(proto, scope)
            at = Place(self, graph, scope, proto, node, operands)
            if (node.domain, node.op) == ("", "Scan"):
                require_known(node, proto)
                self._scan(graph, proto, node, scope)
                continue
            encoding = encoding_of(node, proto, operands, self.functions.local, self.claimed)
            if encoding is not None:
                self.claimed += prod(encoding.shape) if isinstance(encoding, Sparse) else 0
                made = self.define(scope, proto.output[0])
                _hold(made, encoding.decode())
                made.encoding = encoding
                continue
            if not self.functions.is_local(proto) and is_handled(at):
                continue
            body = self._function(proto, node, scope)
            if body is not None:
                self._expand(graph, proto, node, operands, body, scope)
                continue
            node.inputs = at.tensors()
            node.outputs = [self.define(scope, name) if name else None for name in proto.output]
            for attribute in proto.attribute:
                if not is_placement(attribute.name):
                    node.attributes[attribute.name] = self.attribute(attribute, node)
            first = node.outputs[0] if node.outputs else None
            if node.op == "Constant" and node.domain == "" and first is not None:
                _hold(first, constant_of(node))
            else:
                graph.nodes.append(node)

    def _node(self, proto: onnx.NodeProto, scope: Scope) -> tuple[Node, list[Object | None]]:
        """The node, and what its inputs name; outputs and attributes follow."""
        domain = normal(proto.domain)
        names = [a.name for a in proto.attribute]
        require_text(domain, proto.op_type, proto.name, *proto.input, *names)
        if not proto.op_type or not all(map(str.isprintable, (domain, proto.op_type, *names))):
            raise ModelError(f"node {proto.name!r}: {proto.op_type!r} of {domain!r} is not an operator")
        version = scope.opsets.get(domain, int(domain == TF2ONNX))  # files of Glow's do not import it
        if domain == NEWEST:
            domain, version = "", onnx.defs.onnx_opset_version()
        node = Node(proto.op_type, [], [], {}, proto.name, domain, version, self.text, caller=scope.caller)
        label = f"{node.op} node {node.name or next(iter(proto.output), '')!r}"
        if len(set(names)) < len(names):
            raise ModelError(f"{label}: the same attribute is given twice")
        if not node.version:
            raise ModelError(f"{label}: no opset of the domain {domain!r} is imported")
        operands = [self.read(name, scope, label) if name else None for name in proto.input]
        while operands and operands[-1] is None:
            operands.pop()
        return node, operands

    def attribute(self, a: onnx.AttributeProto, node: Node) -> Attribute:
        what, kind = f"{node.label}: attribute {a.name!r}", kind_of(a)
        wanted = kinds_of(node.domain, node.op, node.version).get(a.name, kind)
        if kind != wanted:
            raise ModelError(f"{what} is of type {kind}, {wanted} is needed")
        return attribute_of(a, self.home, what, self.text)

    def _scan(self, graph: Graph, proto: onnx.NodeProto, node: Node, scope: Scope) -> None:
        """Scan is a Loop over slices; the nodes around that are written in the newest opset."""
        if node.version < 9:
            self.body(graph, as_batches(proto, node.label), scope)
            return
        newest = replace(scope, opsets={**scope.opsets, "": onnx.defs.onnx_opset_version()})
        before, loop, after = as_loop(proto, node.label, scope.types)
        self.body(graph, before, newest)
        self.body(graph, [loop], scope)
        self.body(graph, after, newest)

    def _function(self, proto: onnx.NodeProto, node: Node, scope: Scope) -> Body | None:
        """The body to put in the node's place. The model's own functions hide operators of their name."""
        body = self.functions.find_local(proto)
        if body is None and find(node) is None:
            body = self.functions.find_schema(proto, node.version, scope.types)
        return body

    def _expand(
        self,
        graph: Graph,
        proto: onnx.NodeProto,
        node: Node,
        operands: list[Object | None],
        body: Body,
        scope: Scope,
    ) -> None:
        """Append the body's nodes; what it returns gets the names of the call's outputs."""
        self.count(len(body.nodes), node.label)
        inner = scope.call(body, proto, operands)
        self.body(graph, body.nodes, inner)
        own = inner.values.keys() - set(body.inputs)
        for formal, name in zip(body.outputs, proto.output, strict=False):
            if name:
                made = self.read(formal, inner, f"the function {proto.op_type}")
                self._return(graph, scope, name, made, formal in own)
                own.discard(formal)

    def _return(self, graph: Graph, scope: Scope, name: str, made: Object | None, own: bool) -> None:
        """`made` is the call's output `name`. Where it has another name already, a new value copies it."""
        if made is not None and not isinstance(made, Value):
            self.call_it(scope, name, made)
            return
        outer = self.define(scope, name)
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
    fits = value.shape in (None, shape) or value.is_doubted
    if value.type not in (None, dtype) or not fits:
        raise ModelError(f"the constant {value.name!r} is {dtype}{list(shape)}, but declared otherwise")
    value.type, value.shape, value.constant = dtype, shape, array
