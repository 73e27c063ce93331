"""A float ONNX model open for rewriting: nodes, and what is known of the tensors between them.

In: a self-contained ModelProto without functions of its own. Out: a `Network`, and the ModelProto again.
What Ingot's own reader infers (types, ranks, constants that follow from constants) is asked of it, so nodes
stay as they are in the file. Called by `quantize`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from ingot.compression.opset import modernise, opset_of
from ingot.errors import UnsupportedError
from ingot.formula.expr import Array
from ingot.formula.types import FLOAT32
from ingot.frontends.onnx import read_model
from ingot.frontends.onnx.shapes import Define, dynamic_dimensions
from ingot.graph.ir import Graph
from ingot.ops.infer import infer

PER_AXIS_OPSET = 13  # of QuantizeLinear and DequantizeLinear with scales along an axis
INT16_OPSET = 21  # of those of 16-bit integers
IR = 8
ANY = (1, 2)  # what stands for a dimension that nobody defined: not one number, so nothing is folded by it


@dataclass(slots=True, eq=False)
class Network:
    """Nodes in order; `constants` by name, in float32 or as they are; `shapes` of float32 tensors.

    Extents that only a run knows are None. `inner` are the names that subgraphs read from outside.
    """

    model: onnx.ModelProto
    nodes: list[onnx.NodeProto]
    constants: dict[str, Array]
    shapes: dict[str, tuple[int | None, ...]]
    inner: set[str]
    taken: set[str]
    fresh: dict[str, Array] = field(default_factory=dict)

    def copy(self) -> Network:
        """Return a network that can be rewritten while this one stays."""
        model = onnx.ModelProto()
        model.CopyFrom(self.model)
        nodes = []
        for node in self.nodes:
            nodes.append(onnx.NodeProto())
            nodes[-1].CopyFrom(node)
        held = dict(self.constants), dict(self.shapes), set(self.inner), set(self.taken), dict(self.fresh)
        return Network(model, nodes, *held)

    @property
    def inputs(self) -> list[str]:
        """The names of the graph's inputs, those that initializers give a default to left out."""
        return [v.name for v in self.model.graph.input if v.name not in self.constants]

    @property
    def outputs(self) -> list[str]:
        """The names of the graph's outputs."""
        return [v.name for v in self.model.graph.output]

    def is_float(self, name: str) -> bool:
        """Whether a tensor holds float32 that only a run knows."""
        return name in self.shapes and name not in self.constants

    def makers(self) -> dict[str, onnx.NodeProto]:
        """Return the node that makes each tensor."""
        return {name: node for node in self.nodes for name in node.output if name}

    def readers(self) -> dict[str, list[onnx.NodeProto]]:
        """Return the nodes that read each tensor, those whose subgraphs do included."""
        found: dict[str, list[onnx.NodeProto]] = {}
        for node in self.nodes:
            for name in dict.fromkeys((*node.input, *captured(node))):
                found.setdefault(name, []).append(node)
        return found

    def is_private(self, name: str, readers: Mapping[str, list[onnx.NodeProto]]) -> bool:
        """Whether one node alone reads a tensor, once, and not the caller."""
        reading = readers.get(name, [])
        return len(reading) == 1 and list(reading[0].input).count(name) == 1 and not self.is_kept(name)

    def is_kept(self, name: str) -> bool:
        """Whether a tensor must keep its name: the caller or a subgraph reads it."""
        return name in self.outputs or name in self.inner

    def unused(self, name: str) -> str:
        """Return a name like this one that no tensor has, and claim it."""
        found, n = name, 1
        while found in self.taken:
            n += 1
            found = f"{name}_{n}"
        self.taken.add(found)
        return found

    def add_constant(self, name: str, array: Array) -> str:
        """Add a constant under a name of its own, which is returned."""
        found = self.unused(name)
        self.fresh[found] = self.constants[found] = array
        return found


def opened(model: onnx.ModelProto, define: Define, is_wide: bool = False) -> Network:
    """Return the network of a copy of a model, in opset 13 at least, or 21 for 16-bit integers.

    Raises InputError for a model that Ingot does not read, UnsupportedError for one of an older opset that
    onnx cannot convert.
    """
    needed = INT16_OPSET if is_wide else PER_AXIS_OPSET
    made = onnx.ModelProto()
    made.CopyFrom(model)
    model = modernise(made) if opset_of(made) < needed else made
    if opset_of(model) < needed:
        raise UnsupportedError(
            f"the model is of opset {opset_of(model)}, its quantised form needs {needed}, and onnx cannot "
            "convert it",
            remedy="export it with a newer opset",
        )
    graph = infer(read_model(model, define=_defined(model, define)))
    constants = {v.name: v.constant for v in _values(graph) if v.constant is not None}
    shapes = {
        v.name: tuple(n if isinstance(n, int) else None for n in v.shape)
        for v in graph.values()
        if v.type is FLOAT32 and v.shape is not None
    }
    nodes = list(model.graph.node)
    inner = {name for node in nodes for name in captured(node)}
    taken = {name for node in nodes for name in (*node.input, *node.output)} | inner
    taken |= {v.name for v in (*model.graph.input, *model.graph.initializer)}
    return Network(model, nodes, constants, shapes, inner, taken)


def closed(net: Network) -> onnx.ModelProto:
    """Return the model of the network: nodes that nothing reads and constants that no node reads are gone."""
    model = onnx.ModelProto()
    model.CopyFrom(net.model)
    graph = model.graph
    del graph.value_info[:], graph.quantization_annotation[:]
    nodes = _read_nodes(net)
    read = {n for node in nodes for n in (*node.input, *captured(node))} | set(net.outputs)
    del graph.node[:]
    graph.node.extend(nodes)
    initializers = [t for t in graph.initializer if t.name in read and t.name not in net.fresh]
    initializers += [numpy_helper.from_array(a, name) for name, a in net.fresh.items() if name in read]
    gone = {t.name for t in graph.initializer} - {t.name for t in initializers}
    inputs = [v for v in graph.input if v.name not in gone]
    del graph.initializer[:], graph.input[:]
    graph.initializer.extend(initializers)
    graph.input.extend(inputs)
    model.ir_version = max(model.ir_version, IR)
    model.producer_name = "ingot"
    return model


def _read_nodes(net: Network) -> list[onnx.NodeProto]:
    """The nodes that outputs depend on, in order."""
    wanted, kept = set(net.outputs), []
    for node in reversed(net.nodes):
        if wanted & set(node.output):
            kept.append(node)
            wanted |= {*node.input, *captured(node)}
    return kept[::-1]


def _defined(model: onnx.ModelProto, define: Define) -> dict[str, int | tuple[int, int]]:
    """What dynamic dimensions are while the network is looked at."""
    given = {t.name for t in model.graph.initializer}
    inputs = [v for v in model.graph.input if v.name not in given]
    names = {n for v in inputs for n in dynamic_dimensions(v)}
    return {**dict.fromkeys(names, ANY), **define}


def _values(graph: Graph) -> Iterator[Any]:
    """Every value of the outermost graph, constants too."""
    yield from graph.values()
    for node in graph.nodes:
        yield from (v for v in node.inputs if v is not None)


def captured(node: onnx.NodeProto) -> set[str]:
    """Return the names that a node's subgraphs read from outside."""
    found: set[str] = set()
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs) if attribute.type in (5, 10) else ():
            own = {v.name for v in (*graph.input, *graph.initializer)}
            for inner in graph.node:
                found |= ({*inner.input} | captured(inner)) - own
                own |= set(inner.output)
            found |= {v.name for v in graph.output} - own
    return found - {""}


def attributes(node: onnx.NodeProto) -> dict[str, Any]:
    """Return the attributes of a node by name."""
    return {a.name: helper.get_attribute_value(a) for a in node.attribute}


def label(node: onnx.NodeProto) -> str:
    """Return the name of what a node makes first: names of nodes may be missing, or given twice."""
    return str(next((n for n in node.output if n), node.name))


def is_own(node: onnx.NodeProto) -> bool:
    """Whether a node is of ONNX's own domain."""
    return node.domain in ("", "ai.onnx")


def float_array(net: Network, node: onnx.NodeProto, place: int) -> Array | None:
    """Return the constant float32 operand of a node at a place, if it is one."""
    name = node.input[place] if place < len(node.input) else ""
    found = net.constants.get(name)
    return found if found is not None and found.dtype == np.float32 else None
