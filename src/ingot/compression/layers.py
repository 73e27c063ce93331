"""The layers of a model whose weights can be compressed.

In: a ModelProto whose own functions are inlined, but those of encodings. Out: every constant of two axes or
more that a matrix product, a convolution or a recurrent operator takes as a factor, in the order of use;
one that several nodes share is one layer. Called before anything else in `compress`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Literal

import numpy as np
import onnx

from ingot.errors import InputError, ModelError
from ingot.formula.expr import Array
from ingot.graph.encoding import Encoding, Sparse
from ingot.graph.onnx_form import DOMAIN, Part, encoding_of, is_call
from ingot.graph.onnx_types import dtype_from_onnx

Kind = Literal["conv", "fc"]

# Where an operator takes weights, and what the papers call such a layer.
FACTORS: Mapping[str, tuple[Kind, tuple[int, ...]]] = {
    "Conv": ("conv", (1,)),
    "ConvTranspose": ("conv", (1,)),
    "Gemm": ("fc", (0, 1)),
    "MatMul": ("fc", (0, 1)),
    "Einsum": ("fc", (0, 1)),
    "LSTM": ("fc", (1, 2)),
    "GRU": ("fc", (1, 2)),
    "RNN": ("fc", (1, 2)),
}
# What only moves or rounds elements: a constant behind it is as good as before it.
MOVES = {"Identity", "Cast", "Transpose", "Reshape", "Flatten", "Squeeze", "Unsqueeze"}
FLOATS = {
    onnx.TensorProto.FLOAT,
    onnx.TensorProto.FLOAT16,
    onnx.TensorProto.BFLOAT16,
    onnx.TensorProto.DOUBLE,
}
Read = Callable[[onnx.TensorProto, str], Array]
"""The elements of a tensor, which messages call by the second argument. Raises ModelError."""


@dataclass(slots=True, eq=False)
class Layer:
    """A constant factor. `name` is the constant's, `nodes` are the names of those who multiply by it.

    `weights` are float32, whatever `dtype` (of ONNX) they have in the model; those of INT8 are whole numbers,
    and so are those of an encoding that is cast to INT8. `owner` is the graph that
    holds the constant: as an initializer, or as what `maker` makes, a Constant node or the call of
    `encoding`.
    """

    name: str
    kind: Kind
    nodes: list[str]
    weights: Array
    dtype: int
    owner: onnx.GraphProto
    maker: onnx.NodeProto | None = None
    encoding: Encoding | None = None
    is_int8: bool = False

    @property
    def width(self) -> int:
        """The bits of a weight that is not encoded; floats count as 32, whatever they are stored in."""
        return 8 if self.is_int8 else 32


def layers_of(model: onnx.ModelProto, read: Read) -> list[Layer]:
    """The layers of a model. Raises InputError where there are none."""
    search = _Search(read)
    search.graph(model.graph, {})
    found = list(search.layers.values())
    if not found:
        raise InputError(
            "the model has no weights to compress",
            remedy="these are constants with two axes or more, of floats, or of INT8 behind DequantizeLinear "
            f"without zero points, factors of {', '.join(FACTORS)}",
        )
    return found


@dataclass(slots=True, eq=False)
class _Constant:
    """A constant that nodes can see: `tensor` of an initializer or a Constant node, or an encoding's call."""

    name: str
    owner: onnx.GraphProto
    tensor: onnx.TensorProto | None = None
    maker: onnx.NodeProto | None = None
    arguments: list[onnx.TensorProto] = field(default_factory=list)
    is_int8: bool = False


@dataclass(slots=True, eq=False)
class _Search:
    """Walks the graphs from the outermost inwards; what a name means depends on where one stands."""

    read: Read
    # By the constant itself, not its id: that of a branch already left may be given to the next one's.
    layers: dict[_Constant, Layer] = field(default_factory=dict)
    claimed: int = 0

    def graph(self, graph: onnx.GraphProto, outer: Mapping[str, _Constant]) -> None:
        """`outer`: the constants that the graphs around this one let it see."""
        hidden = {value.name for value in graph.input}
        seen = {name: constant for name, constant in outer.items() if name not in hidden}
        seen.update((t.name, _Constant(t.name, graph, t)) for t in graph.initializer)
        for node in graph.node:
            self._node(node, graph, seen)
            for attribute in node.attribute:
                for inner in (attribute.g, *attribute.graphs):
                    self.graph(inner, seen)

    def _node(self, node: onnx.NodeProto, graph: onnx.GraphProto, seen: dict[str, _Constant]) -> None:
        made = _made(node, graph, seen)
        if made is not None:
            seen[node.output[0]] = made
        if node.domain not in ("", "ai.onnx"):
            return
        if node.input and node.input[0] in seen and node.output and self._moves(node, seen):
            seen[node.output[0]] = constant = seen[node.input[0]]
            constant.is_int8 |= node.op_type == "Cast" and node.attribute[0].i == onnx.TensorProto.INT8
        kind, places = FACTORS.get(node.op_type, ("fc", ()))
        for name in (node.input[i] for i in places if i < len(node.input)):
            if name in seen:
                self._use(seen[name], kind, node)

    def _moves(self, node: onnx.NodeProto, seen: Mapping[str, _Constant]) -> bool:
        """Whether what comes out is zero where a constant is, and as much as it elsewhere."""
        if node.op_type != "DequantizeLinear":
            return node.op_type in MOVES
        if len(node.input) < 3 or not node.input[2]:
            return True
        zero = seen.get(node.input[2])
        return zero is not None and zero.tensor is not None and not self.read(zero.tensor, zero.name).any()

    def _use(self, constant: _Constant, kind: Kind, node: onnx.NodeProto) -> None:
        known = self.layers.get(constant)
        user = node.name or next(iter(node.output), node.op_type)
        if known is not None:
            if user not in known.nodes:
                known.nodes.append(user)
            return
        layer = self._layer(constant, kind, user)
        if layer is not None:
            self.layers[constant] = layer

    def _layer(self, constant: _Constant, kind: Kind, user: str) -> Layer | None:
        """The layer of a constant, if it is a matrix of floats at least."""
        tensor, maker = constant.tensor, constant.maker
        if tensor is None:
            assert maker is not None, "a constant is a tensor or a call"
            encoding: Encoding | None = (known := self._encoding(maker, constant.arguments))
            dtype, weights = int(onnx.TensorProto.FLOAT), known.decode()
        else:
            if tensor.data_type not in (*FLOATS, onnx.TensorProto.INT8) or len(tensor.dims) < 2:
                return None
            encoding, dtype = None, int(tensor.data_type)
            with np.errstate(over="ignore"):  # infinity, which `choices_of` refuses by name
                weights = self.read(tensor, f"weights {constant.name!r}").astype(np.float32)
        if weights.ndim < 2 or not weights.size:
            return None
        is_int8 = dtype == onnx.TensorProto.INT8 or (constant.is_int8 and encoding is not None)
        return Layer(constant.name, kind, [user], weights, dtype, constant.owner, maker, encoding, is_int8)

    def _encoding(self, call: onnx.NodeProto, tensors: Sequence[onnx.TensorProto]) -> Encoding:
        what = f"node {call.name!r} ({call.op_type}), weights {call.output[0]!r}"
        parts = [Part(t.name, dtype_from_onnx(t.data_type), self.read(t, what)) for t in tensors]
        try:
            found = encoding_of(call, parts, self.claimed)
        except ValueError as error:
            raise ModelError(f"{what}: {error}") from None
        self.claimed += prod(found.shape) if isinstance(found, Sparse) else 0
        return found


def is_encoded(node: onnx.NodeProto) -> bool:
    """Whether the node is the call of an encoding, in a model whose other functions are inlined."""
    return is_call(node, {})


def _made(node: onnx.NodeProto, graph: onnx.GraphProto, seen: Mapping[str, _Constant]) -> _Constant | None:
    """The constant that a node makes by itself, or out of tensors as the call of an encoding."""
    if not node.output:
        return None
    if is_encoded(node):
        arguments = [seen[name].tensor for name in node.input if name in seen]
        tensors = [tensor for tensor in arguments if tensor is not None]
        if len(tensors) < len(node.input):
            return None
        return _Constant(node.output[0], graph, None, node, tensors)
    if node.op_type == "Constant" and node.domain in ("", "ai.onnx"):
        for attribute in node.attribute:
            if attribute.name == "value":
                return _Constant(node.output[0], graph, attribute.t, node)
    return None


def take_out(layer: Layer) -> None:
    """Take the constant out of its graph: with the arguments of an encoding that nobody else reads."""
    graph = layer.owner
    for i, node in enumerate(graph.node):
        if layer.maker is not None and node.output == layer.maker.output:
            arguments = set(node.input) if node.domain == DOMAIN else set()
            del graph.node[i]
            _drop(graph, arguments - _read(graph))
            return
    _drop(graph, {layer.name})


def _drop(graph: onnx.GraphProto, names: set[str]) -> None:
    """Remove initializers, and the inputs of the graph that they gave a default to."""
    for things in (graph.initializer, graph.input):
        for i in reversed(range(len(things))):
            if things[i].name in names:
                del things[i]


def _read(graph: onnx.GraphProto) -> set[str]:
    """The names that nodes read, those in inner graphs too."""
    found: set[str] = {value.name for value in graph.output}
    for node in graph.node:
        found.update(node.input)
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                found |= _read(inner)
    return found
