"""Encoded weights written into a model. In: a ModelProto, its layers and their encodings; out: the model,
changed.

The constants give way to calls of the functions of `graph.onnx_form`, under the same names: no other node
changes. Called by `compress`.
"""

from __future__ import annotations

from collections.abc import Mapping

import onnx
from onnx import helper

from ingot.compression.layers import Layer, take_out
from ingot.errors import UnsupportedError
from ingot.graph.encoding import Encoding, Sparse
from ingot.graph.onnx_form import DOMAIN, OLDEST_OPSET, UINT4_OPSET, functions, is_ours, parts

FUNCTIONS_IR = 8  # the first version of ONNX's format with functions
UINT4_IR = 10


def write(model: onnx.ModelProto, encodings: Mapping[Layer, Encoding], opset: int) -> onnx.ModelProto:
    """Put the encodings in the place of the layers' weights, and return the model."""
    needed = OLDEST_OPSET if any(isinstance(e, Sparse) for e in encodings.values()) else 1
    if opset < needed:
        raise UnsupportedError(
            f"the model is written for opset {opset}, sparse weights need {needed}",
            remedy="convert it with onnx.version_converter",
        )
    taken = _names(model.graph)
    for layer, encoding in encodings.items():
        _replace(layer, encoding, opset, taken)
    _declare(model, opset)
    return model


def _replace(layer: Layer, encoding: Encoding, opset: int, taken: set[str]) -> None:
    graph, name = layer.owner, layer.name
    op, tensors, attributes = parts(encoding, opset)
    decoded = name if layer.dtype == onnx.TensorProto.FLOAT else _fresh(f"{name}.float", taken)
    names = [_fresh(f"{name}.{part}", taken) for part in tensors]
    for tensor, fresh in zip(tensors.values(), names, strict=True):
        tensor.name = fresh
    title = _fresh(f"{name}.{op}", taken)
    nodes = [helper.make_node(op, names, [decoded], title, domain=DOMAIN)]
    nodes[0].attribute.extend(helper.make_attribute(key, value) for key, value in attributes.items())
    if decoded != name:
        nodes.append(helper.make_node("Cast", [decoded], [name], to=layer.dtype))
    take_out(layer)
    graph.initializer.extend(tensors.values())
    rest = list(graph.node)
    del graph.node[:]
    graph.node.extend([*nodes, *rest])


def _names(graph: onnx.GraphProto) -> set[str]:
    """Every name in use, of values and of nodes."""
    found = {v.name for v in (*graph.input, *graph.output, *graph.initializer)}
    for node in graph.node:
        found.update((node.name, *node.input, *node.output))
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                found |= _names(inner)
    return found


def _fresh(name: str, taken: set[str]) -> str:
    """A name like this one that nothing has, which is taken from now on."""
    found, number = name, 1
    while found in taken:
        number += 1
        found = f"{name}.{number}"
    taken.add(found)
    return found


def _declare(model: onnx.ModelProto, opset: int) -> None:
    """The functions, their domain, and a version of the format that knows them."""
    kept = [f for f in model.functions if not is_ours(f)]
    del model.functions[:]
    model.functions.extend([*kept, *functions(opset)])
    if all(o.domain != DOMAIN for o in model.opset_import):
        model.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    model.ir_version = max(model.ir_version, UINT4_IR if opset >= UINT4_OPSET else FUNCTIONS_IR)
