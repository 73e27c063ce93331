"""A graph of TensorFlow's as nodes by name. In: GraphDef messages; out: a `Model` of bodies.

The main graph writes inputs as NODE, NODE:PORT or ^NODE (order only, which a function without side effects
need not keep); function bodies write NODE:RESULT:INDEX. Both become (name, port). Called by `importing`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ingot.errors import ModelError
from ingot.formula.types import DType
from ingot.frontends.tensorflow.protos import entries
from ingot.frontends.tensorflow.tensors import dtype_of, shape_of

PORTS_LIMIT = 1 << 16
PORT = re.compile(r"\d{1,9}", re.ASCII)
Ref = tuple[str, int]
"""Output PORT of the node NAME."""
RESULTS = {
    "Switch": ("output_false", "output_true"),
    "RefSwitch": ("output_false", "output_true"),
    "Merge": ("output", "value_index"),
    "RefMerge": ("output", "value_index"),
    "TopKV2": ("values", "indices"),
    "TopK": ("values", "indices"),
    "Unique": ("y", "idx"),
    "UniqueV2": ("y", "idx"),
    "ListDiff": ("out", "idx"),
    "MaxPoolWithArgmax": ("output", "argmax"),
    "TensorArrayV3": ("handle", "flow"),
    "TensorArrayV2": ("handle", "flow"),
    "TensorArrayConcatV3": ("value", "lengths"),
    "TensorListPopBack": ("output_handle", "tensor"),
    "LSTMBlockCell": ("i", "cs", "f", "o", "ci", "co", "h"),
    "BlockLSTM": ("i", "cs", "f", "o", "ci", "co", "h"),
    "BlockLSTMV2": ("i", "cs", "f", "o", "ci", "co", "h"),
    "GRUBlockCell": ("r", "u", "c", "h"),
    "NonMaxSuppressionV4": ("selected_indices", "valid_outputs"),
    "NonMaxSuppressionV5": ("selected_indices", "selected_scores", "valid_outputs"),
    **{
        f"FusedBatchNorm{version}": (
            "y",
            "batch_mean",
            "batch_variance",
            *(f"reserve_space_{i}" for i in "123"),
        )
        for version in ("", "V2", "V3")
    },
}
"""What the results of operators with several are called; a single one, or a list of them, is port INDEX."""


@dataclass(slots=True, eq=False)
class Node:
    """One operation: where its inputs come from, and its attributes as TensorFlow's messages.

    `controls` name the nodes that must have run before; they matter to constants inside of branches.
    """

    name: str
    op: str
    inputs: list[Ref]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    controls: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        return f"{self.op} node {self.name!r}"

    def has(self, name: str) -> bool:
        return name in self.attributes

    def integer(self, name: str, default: int = 0) -> int:
        return int(self.attributes[name].i) if name in self.attributes else default

    def number(self, name: str, default: float = 0.0) -> float:
        return float(self.attributes[name].f) if name in self.attributes else default

    def flag(self, name: str, default: bool = False) -> bool:
        return bool(self.attributes[name].b) if name in self.attributes else default

    def text(self, name: str, default: str = "") -> str:
        return self.attributes[name].s.decode(errors="replace") if name in self.attributes else default

    def integers(self, name: str, default: tuple[int, ...] = ()) -> tuple[int, ...]:
        return tuple(map(int, self.attributes[name].list.i)) if name in self.attributes else default

    def texts(self, name: str) -> tuple[str, ...]:
        found = self.attributes[name].list.s if name in self.attributes else ()
        return tuple(s.decode(errors="replace") for s in found)

    def dtype(self, name: str) -> DType:
        """Raises ModelError where it is missing."""
        if name not in self.attributes:
            raise ModelError(f"{self.label}: the attribute {name!r} is missing")
        return dtype_of(self.attributes[name].type)

    def shape(self, name: str) -> tuple[int | None, ...] | None:
        """Raises ModelError for what is no shape."""
        try:
            return shape_of(self.attributes[name].shape) if name in self.attributes else None
        except ModelError as error:
            raise ModelError(f"{self.label}: {error}") from None

    def functions(self, name: str) -> tuple[str, ...]:
        """The names of functions given as an attribute."""
        found = self.attributes[name].list.func if name in self.attributes else ()
        return tuple(str(f.name) for f in found)

    def function(self, name: str) -> str:
        """The name of a function given as an attribute, or ""."""
        return str(self.attributes[name].func.name) if name in self.attributes else ""


@dataclass(frozen=True, slots=True, eq=False)
class Body:
    """The main graph or a function: nodes by name; a function's `inputs` are nodes of the kind _Arg."""

    name: str
    nodes: dict[str, Node]
    inputs: tuple[str, ...] = ()
    outputs: tuple[Ref, ...] = ()

    def node(self, name: str, reader: str) -> Node:
        """Raises ModelError for a name without a node."""
        if name not in self.nodes:
            raise ModelError(f"{reader} reads {name!r}, which is no node of {self.name}")
        return self.nodes[name]

    def reached(self, refs: list[Ref]) -> Iterator[Node]:
        """Every node that some of `refs` depend on, once."""
        stack, seen = [name for name, _ in refs], set[str]()
        while stack:
            name = stack.pop()
            if name in seen or name not in self.nodes:
                continue
            seen.add(name)
            yield self.nodes[name]
            stack.extend(source for source, _ in self.nodes[name].inputs)


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """The main graph and the functions it calls."""

    main: Body
    functions: dict[str, Body]

    def function(self, name: str, label: str) -> Body:
        if name not in self.functions:
            raise ModelError(f"{label}: there is no function {name!r}")
        return self.functions[name]


def model_of(graph: Any, what: str) -> Model:
    """Everything that a GraphDef holds. Raises ModelError where two nodes have one name."""
    main = Body(what, _nodes(graph.node, plain_ref, what))
    functions = {}
    for function in graph.library.function:
        name = str(function.signature.name)
        functions[name] = _function(function, name)
    return Model(main, functions)


def plain_ref(text: str) -> Ref:
    """
    >>> plain_ref("split:2"), plain_ref("x")
    (('split', 2), ('x', 0))
    """
    name, colon, port = text.rpartition(":")
    return (name, int(port)) if colon and PORT.fullmatch(port) else (text, 0)


def _nodes(protos: Any, ref: Any, what: str) -> dict[str, Node]:
    nodes: dict[str, Node] = {}
    for proto in protos:
        if not proto.name or not proto.op or proto.name in nodes:
            raise ModelError(
                f"{what}: a node without a name or an operator, or a second one called {proto.name!r}"
            )
        inputs = [ref(i) for i in proto.input if not i.startswith("^")]
        controls = tuple(i[1:].split(":")[0] for i in proto.input if i.startswith("^"))
        nodes[proto.name] = Node(proto.name, proto.op, inputs, entries(proto.attr), controls)
    return nodes


def _function(function: Any, name: str) -> Body:
    arguments = [a.name for a in function.signature.input_arg]
    ops = {n.name: n.op for n in function.node_def}

    def ref(text: str) -> Ref:
        source, *rest = text.split(":")
        if len(rest) < 2 or source not in ops:
            return plain_ref(text)
        result, index = rest[0], int(rest[1]) if PORT.fullmatch(rest[1]) else 0
        named = RESULTS.get(ops[source], ())
        return source, named.index(result) + index if result in named else index

    nodes = {a: Node(a, "_Arg", []) for a in arguments}
    nodes |= _nodes(function.node_def, ref, f"the function {name!r}")
    returned = entries(function.ret)
    wanted = [a.name for a in function.signature.output_arg]
    if missing := [w for w in wanted if w not in returned]:
        raise ModelError(f"the function {name!r} does not return {', '.join(missing)}")
    return Body(f"the function {name!r}", nodes, tuple(arguments), tuple(ref(returned[w]) for w in wanted))
