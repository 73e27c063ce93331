"""The graph: named values and named operations, in ONNX's terms. Mutable, but only through the helpers here.

A `Value` is a formula tensor with a place in the graph, so that an operator's definition reads it directly. A
graph's nodes stand in topological order; a subgraph (of If, Loop, Scan) sees the values of the graphs around
it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Union

import numpy as np

from ingot.formula.expr import Array, Expr, Extent, Param, Tensor
from ingot.formula.types import STRING, DType, dtype_of
from ingot.graph.encoding import Encoding
from ingot.options import Capacity

Attribute = Union[
    int, float, str, bytes, Array, "Graph", tuple[int, ...], tuple[float, ...], tuple[str, ...], DType
]


@dataclass(slots=True, eq=False)
class Value:
    """A tensor in the graph: `infer` gives it type and shape; `constant` holds its elements, if known.

    `known` holds them as expressions over run-time extents: the shape of a tensor with bounded dimensions.
    `is_doubted`: the shape the model declares yields to what the operator says.
    `capacity` is what the user lets axes grow to whose extents only the data tells: one number per axis, or
    an int for all. `initial` is what a graph input that becomes a state holds before the first run.
    `encoding` is how the model stores a constant, whose elements `constant` holds all the same.
    """

    name: str
    type: DType | None = None
    shape: tuple[Extent, ...] | None = None
    constant: Array | None = None
    known: tuple[Expr, ...] | None = None
    capacity: Capacity | None = None
    initial: Array | None = None
    is_doubted: bool = False
    encoding: Encoding | None = None

    def tensor(self) -> Tensor:
        """The formula tensor of this value. Needs an inferred type and shape."""
        assert self.type is not None and self.shape is not None, f"{self.name} has not been inferred"
        codebook = None if self.encoding is None else self.encoding.values
        return Tensor(self.name, self.type, self.shape, self.constant, self.known, codebook=codebook)


@dataclass(slots=True, eq=False)
class Node:
    """One operation. `version` is the opset of its domain under which it was written; missing inputs are
    None. `text` is the type of all strings of the model. `measured` are the extents of the outputs that are
    data, by output and axis: one each, for good; of a Loop, under -1, -2, ... also those of what it carries.
    `caller` names the node of the file that it stands for, where it comes of a function's body.
    """

    op: str
    inputs: list[Value | None]
    outputs: list[Value | None]
    attributes: dict[str, Attribute] = field(default_factory=dict)
    name: str = ""
    domain: str = ""
    version: int = 1
    text: DType = STRING
    measured: dict[tuple[int, int], Param] = field(default_factory=dict)
    caller: str = ""

    @property
    def subgraphs(self) -> dict[str, Graph]:
        return {k: v for k, v in self.attributes.items() if isinstance(v, Graph)}

    @property
    def label(self) -> str:
        """How messages name this node: behind the call in the model's file that it stands for."""
        first = next((v.name for v in self.outputs if v is not None), "")
        own = f"{self.op} node {self.name or first!r}" if self.name or first else f"{self.op} node"
        return f"{self.caller}, {own}" if self.caller else own


@dataclass(frozen=True, slots=True)
class State:
    """What one run leaves to the next: output number `output` comes back as input number `input`.

    `initial` is what the input holds before the first run; None stands for zeros.
    """

    output: int
    input: int
    initial: Array | None = None


@dataclass(frozen=True, slots=True)
class Port:
    """An input or output as the model has it, and which values of the graph it is made of.

    `kind` tensor: `members` is ("data",); sequence: data, extents, length; optional: present, and a
    `content`; map: keys, values, length; maps: data, a row for each of them, and what their `keys` are.
    """

    name: str
    kind: str
    members: tuple[tuple[str, str], ...]
    content: Port | None = None
    keys: tuple[int | str, ...] = ()

    @property
    def names(self) -> set[str]:
        """The values it is made of."""
        inner = set() if self.content is None else self.content.names
        return inner | {name for _, name in self.members}


@dataclass(frozen=True, slots=True)
class Scale:
    """What the integers of an input or output stand for: value = (integer - zero_point) * scale."""

    scale: float
    zero_point: int


@dataclass(slots=True, eq=False)
class Graph:
    """Nodes in topological order between inputs and outputs.

    `states` pairs outputs with inputs: a frontend does where its format says so, `pair_states` as the user
    says. `ports` says of a main graph what of the model its inputs and outputs are; empty where they are all
    tensors. `scales` says of quantised inputs and outputs, by name, what their integers stand for.
    `left_float` says which layers with encoded weights `byte_activations` left in floats, and why; `expanded`
    which encoded weights are stored as their elements, by `encoded_integers`.
    """

    name: str
    inputs: list[Value] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    states: list[State] = field(default_factory=list)
    ports: tuple[tuple[Port, ...], tuple[Port, ...]] = ((), ())
    scales: dict[str, Scale] = field(default_factory=dict)
    left_float: dict[str, str] = field(default_factory=dict)
    expanded: dict[str, str] = field(default_factory=dict)

    def values(self) -> Iterator[Value]:
        """Inputs, then what the nodes make; not the constants, which hang on the nodes that read them."""
        yield from self.inputs
        for node in self.nodes:
            yield from (v for v in node.outputs if v is not None)


def copied(graph: Graph) -> Graph:
    """The graph with values and nodes of its own, subgraphs too; what it reads from outside stays."""
    return _copied(graph, {})


def _copied(graph: Graph, new: dict[Value, Value]) -> Graph:
    def value(v: Value) -> Value:
        return new.get(v, v)

    for v in graph.values():
        new[v] = replace(v)
    nodes = []
    for n in graph.nodes:
        attributes = {k: _copied(a, new) if isinstance(a, Graph) else a for k, a in n.attributes.items()}
        inputs, outputs = ([None if v is None else value(v) for v in vs] for vs in (n.inputs, n.outputs))
        measured = dict(n.measured)
        nodes.append(replace(n, inputs=inputs, outputs=outputs, attributes=attributes, measured=measured))
    return replace(
        graph, inputs=[value(v) for v in graph.inputs], outputs=[value(v) for v in graph.outputs], nodes=nodes
    )


def constant_value(name: str, array: Array) -> Value:
    array = np.asarray(array)
    return Value(name, dtype_of(array), tuple(array.shape), array)


def uses(graph: Graph) -> dict[Value, list[Node]]:
    """Who reads each value, subgraphs counted as reads by the node that holds them."""
    out: dict[Value, list[Node]] = {}
    for node in graph.nodes:
        for value in reads(node):
            out.setdefault(value, []).append(node)
    return out


def reads(node: Node) -> Iterator[Value]:
    """The values a node reads: its inputs, and what its subgraphs take from outside."""
    yield from (v for v in node.inputs if v is not None)
    for sub in node.subgraphs.values():
        yield from captured(sub)


def captured(graph: Graph) -> Iterator[Value]:
    """What a subgraph reads from the graphs around it (constants included)."""
    own = set(graph.values())
    for node in graph.nodes:
        yield from (v for v in reads(node) if v not in own)
    yield from (v for v in graph.outputs if v not in own)


def replace_value(graph: Graph, old: Value, new: Value) -> None:
    """Every read of `old`, in subgraphs too, becomes a read of `new`; graph outputs keep their names by the
    caller.
    """
    for node in graph.nodes:
        node.inputs = [new if v is old else v for v in node.inputs]
        for sub in node.subgraphs.values():
            replace_value(sub, old, new)
    graph.outputs = [new if v is old else v for v in graph.outputs]
