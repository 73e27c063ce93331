"""Weights between a model and the container that the authors of "Deep Compression" released theirs in.

In: a container's bytes and the model whose layers it holds, in this order; out: encodings and biases for
the model. Or a model's layers with their encodings; out: the container. Called by `compress`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from ingot.compression.container import GAP_BITS, Form, Stored, read_container, write_container
from ingot.compression.layers import Layer
from ingot.errors import InputError
from ingot.formula.expr import Array
from ingot.graph.encoding import Encoding, Sparse


@dataclass(frozen=True, slots=True, eq=False)
class Slot:
    """A layer's place in a container. `turned`: the model holds [inputs, outputs], the container the
    transpose.

    `bias` is the constant's name, "" where there is none.
    """

    layer: Layer
    form: Form
    bias: str
    turned: bool


def slots(model: onnx.ModelProto, layers: Sequence[Layer], constants: Mapping[str, Array]) -> list[Slot]:
    """Where each layer goes. Raises InputError for layers that the format has no room for."""
    nodes = {n.name or n.output[0]: n for n in model.graph.node}
    found = []
    for layer in layers:
        node = nodes.get(layer.nodes[0])
        if node is None or node.op_type not in ("Conv", "Gemm", "MatMul"):
            raise InputError(
                f"layer {layer.name!r} of {layer.nodes[0]!r} has no place in a container",
                remedy="containers hold what Conv, Gemm and MatMul multiply by",
            )
        found.append(_slot(layer, node, constants))
    return found


def _slot(layer: Layer, node: onnx.NodeProto, constants: Mapping[str, Array]) -> Slot:
    shape = tuple(layer.weights.shape)
    transposed = any(a.name == "transB" and a.i for a in node.attribute)
    turned = layer.kind == "fc" and not transposed and layer.name == node.input[1]
    shape = shape[::-1] if turned else shape
    third = node.input[2] if node.op_type != "MatMul" and len(node.input) > 2 else ""
    bias = third if third in constants and constants[third].size == shape[0] else ""
    form = Form(layer.name, shape, shape[0], 8 if layer.kind == "conv" else 4)
    return Slot(layer, form, bias, turned)


def unpack(data: bytes, places: Sequence[Slot]) -> tuple[dict[Layer, Encoding], dict[str, Array]]:
    """The encodings and biases in a container. Raises ModelError for a file of another model."""
    encodings: dict[Layer, Encoding] = {}
    biases: dict[str, Array] = {}
    for slot, stored in zip(places, read_container(data, [slot.form for slot in places]), strict=True):
        encodings[slot.layer] = _turned(stored.weights) if slot.turned else stored.weights
        if slot.bias:
            biases[slot.bias] = stored.bias
        elif stored.bias.any():
            raise InputError(
                f"layer {slot.layer.name!r}: the container holds a bias, the model has none to replace",
                remedy="give the node a bias of zeros",
            )
    return encodings, biases


def pack(places: Sequence[Slot], encodings: Mapping[str, Encoding], constants: Mapping[str, Array]) -> bytes:
    """The container of a compressed model. Raises InputError where the encodings do not fit the format."""
    stored = []
    for slot in places:
        encoding = encodings.get(slot.layer.name)
        if encoding is None or encoding.values[0] != 0:
            raise InputError(
                f"layer {slot.layer.name!r} is not sparse, which containers want of every layer",
                remedy="compress with --form sparse",
            )
        codes = encoding.dense().codes
        weights = Sparse.of(codes.T if slot.turned else codes, encoding.values, GAP_BITS)
        bias = constants[slot.bias] if slot.bias else np.zeros(slot.form.outputs, np.float32)
        stored.append((slot.form, Stored(weights, bias)))
    return write_container(stored)


def _turned(weights: Sparse) -> Sparse:
    """The transpose."""
    return Sparse.of(np.ascontiguousarray(weights.dense().codes.T), weights.values, weights.gap_bits)
