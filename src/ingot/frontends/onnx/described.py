"""Inputs as the user describes them, for ONNX models that do not, or not fully: as Glow's users write them.

In: a ModelProto, and types and shapes by name. Out: a copy of it in which the inputs have them. Called by
`canonical`, before inputs are fixed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import onnx
from onnx import helper

from ingot.errors import InputError
from ingot.frontends.model_inputs import ModelInput
from ingot.frontends.onnx.fixed import bind
from ingot.frontends.onnx.scales import QUANTISATION
from ingot.frontends.onnx.tensors import Home, embed_external, tensors_of
from ingot.graph.onnx_types import dtype_from_onnx, dtype_to_onnx


def described(model: onnx.ModelProto, inputs: Mapping[str, ModelInput], home: Home) -> onnx.ModelProto:
    """A copy of the model with these types and shapes; elements in files beside it are in the copy.

    A value that nodes read and nothing makes becomes an input, as in Glow, where the user says what the
    inputs are; what a node makes is none. Raises InputError for a name that the model does not read, and for
    what contradicts a declaration.
    """
    made = onnx.ModelProto()
    made.CopyFrom(model)
    if home is not None and any(t.data_location == t.EXTERNAL for t in tensors_of(made)):
        embed_external(made, home)
    graph = made.graph
    results = {name for node in graph.node for name in node.output}
    for info in [v for v in graph.input if v.name in results]:
        graph.input.remove(info)
    for name, said in inputs.items():
        info = _declared(graph, name, results)
        _require_free(info, said)
        bind(graph, info, said.shape, {})
        info.type.CopyFrom(helper.make_tensor_type_proto(dtype_to_onnx(said.dtype), said.shape))
        _note_scale(made, name, said)
    return made


def _declared(graph: onnx.GraphProto, name: str, results: Iterable[str]) -> onnx.ValueInfoProto:
    """What the model says of an input, or a new declaration of one that only its readers know of."""
    declared: dict[str, onnx.ValueInfoProto] = {v.name: v for v in graph.input}
    if name in declared:
        return declared[name]
    constants = {t.name for t in graph.initializer} | {t.values.name for t in graph.sparse_initializer}
    if name in constants or name in results:
        raise InputError(f"--model-input {name}: the model makes this value itself")
    if name not in names_read(graph):
        known = ", ".join(n for n in declared if n not in constants) or "none"
        raise InputError(f"--model-input {name}: the model has no such input; it has: {known}")
    graph.input.add(name=name)
    made: onnx.ValueInfoProto = graph.input[-1]
    return made


def names_read(graph: onnx.GraphProto) -> Iterator[str]:
    """The names that nodes read, those of subgraphs included."""
    for node in graph.node:
        yield from node.input
        for a in node.attribute:
            for inner in (a.g, *a.graphs):
                yield from names_read(inner)


def _require_free(info: onnx.ValueInfoProto, said: ModelInput) -> None:
    """Raise InputError where the model declares another type or shape."""
    tensor, who = info.type.tensor_type, f"--model-input {info.name}"
    if info.type.WhichOneof("value") not in (None, "tensor_type"):
        raise InputError(f"{who}: only a tensor can be described")
    dims = [d.dim_value if d.HasField("dim_value") and d.dim_value >= 0 else None for d in tensor.shape.dim]
    is_other = tensor.elem_type not in (0, dtype_to_onnx(said.dtype))
    if tensor.HasField("shape"):
        is_other |= len(dims) != len(said.shape)
        is_other |= any(d not in (None, n) for d, n in zip(dims, said.shape, strict=False))
    if is_other:
        kind = dtype_from_onnx(tensor.elem_type) if tensor.elem_type else "any type"
        shape = "x".join("?" if d is None else str(d) for d in dims)
        raise InputError(f"{who}: the model declares it as {kind} of {shape or 'any shape'}")


def _note_scale(model: onnx.ModelProto, name: str, said: ModelInput) -> None:
    """What the integers of an input stand for, once."""
    key = f"{QUANTISATION}{name}"
    if said.quantisation is not None and not any(p.key == key for p in model.metadata_props):
        model.metadata_props.add(key=key, value=f"{said.quantisation[0]!r} {said.quantisation[1]}")
