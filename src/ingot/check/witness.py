"""Another opinion on one value, independent of Ingot's definitions: onnx's reference evaluator in float64.

In: the model's message, a value and the values it is made of. Out: an array, or None where the evaluator does
not take the nodes. `judge` asks before it says that the oracle is wrong.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from ingot.formula.expr import Array

FLOATS = (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16)
TYPES = ("to", "dtype")  # attributes that name an element type


def second_opinion(model: onnx.ModelProto, name: str, operands: Mapping[str, Any]) -> Array | None:
    """The value `name`, computed from `operands` in float64, or else in the model's own types."""
    part = _part(model, name, operands)
    wide = {k: _wide(v) for k, v in operands.items()}
    for proto, given in ((_widened(part), wide), (part, dict(operands))):
        try:
            return _evaluated(proto, name, given)
        except Exception:  # the evaluator raises what it likes, and in its own ways for each type
            continue
    return None


def _evaluated(proto: onnx.ModelProto, name: str, given: Mapping[str, Any]) -> Array:
    from onnx.reference import ReferenceEvaluator

    with np.errstate(all="ignore"):
        (found,) = ReferenceEvaluator(proto).run([name], dict(given))
    return np.asarray(found)


def _part(model: onnx.ModelProto, name: str, known: Collection[str]) -> onnx.ModelProto:
    """The nodes that make a value of the known ones, as a model."""
    missing, nodes = {name}, list[onnx.NodeProto]()
    for node in reversed(model.graph.node):
        if missing & set(node.output):
            missing.update(n for n in _read(node) if n not in known)
            nodes.insert(0, node)
    graph = onnx.GraphProto(name="part", node=nodes)
    graph.input.extend(onnx.ValueInfoProto(name=n) for n in known)
    graph.output.append(onnx.ValueInfoProto(name=name))
    graph.initializer.extend(t for t in model.graph.initializer if t.name in missing)
    out = onnx.ModelProto(ir_version=model.ir_version, graph=graph)
    out.opset_import.extend(model.opset_import)
    out.functions.extend(model.functions)
    return out


def _read(node: onnx.NodeProto) -> Iterator[str]:
    """What a node reads, and its subgraphs do from outside."""
    yield from node.input
    for graph in (a.g for a in node.attribute if a.HasField("g")):
        own = {v.name for v in graph.input} | {n for inner in graph.node for n in inner.output}
        inner = [*(n for node in graph.node for n in _read(node)), *(v.name for v in graph.output)]
        yield from (n for n in inner if n not in own | {t.name for t in graph.initializer})


def _widened(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with float64 constants, and casts to float64."""
    out = onnx.ModelProto()
    out.CopyFrom(model)
    _widen_graph(out.graph)
    for function in out.functions:
        _widen_nodes(function.node)
    return out


def _widen_graph(graph: onnx.GraphProto) -> None:
    for tensor in graph.initializer:
        _widen_tensor(tensor)
    _widen_nodes(graph.node)


def _widen_nodes(nodes: Iterable[onnx.NodeProto]) -> None:
    for attribute in (a for node in nodes for a in node.attribute):
        if attribute.HasField("g"):
            _widen_graph(attribute.g)
        elif attribute.HasField("t"):
            _widen_tensor(attribute.t)
        elif attribute.name in TYPES and attribute.i in FLOATS:
            attribute.i = onnx.TensorProto.DOUBLE


def _widen_tensor(tensor: onnx.TensorProto) -> None:
    if tensor.data_type in FLOATS:
        array = np.asarray(numpy_helper.to_array(tensor), np.float64)
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


def _wide(value: Any) -> Any:
    array = np.asarray(value)
    rounded = array.dtype.kind in "fV" and array.dtype.itemsize in (2, 4)
    return array.astype(np.float64) if rounded and isinstance(value, np.ndarray) else value
