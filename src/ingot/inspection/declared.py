"""A model as its file declares it, for what cannot be compiled: nothing is inferred, and nothing refused.

In: a ModelProto. Out: lines like those of a graph, shapes with the names of their dimensions; which operators
have no definition. Called by `ingot inspect`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import onnx

from ingot.frontends.onnx.foreign import foreign_function
from ingot.frontends.onnx.shapes import dimension_name
from ingot.inspection.operators import supported

DEPTH_LIMIT = 32
DOMAINS = ("", "ai.onnx")
_TYPES = frozenset(onnx.TensorProto.DataType.values())
Row = tuple[int, str, str, int, tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Declared:
    """`nodes` are (depth, name, operator, version, inputs, outputs), those of inner graphs behind their own.
    `unsupported` are operators, `dimensions` the names of free dimensions of the inputs.
    """

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[Row, ...]
    unsupported: tuple[str, ...]
    dimensions: tuple[str, ...]


def declared(model: onnx.ModelProto) -> Declared:
    """What a model says of itself."""
    graph = model.graph
    versions = {_text(o.domain): o.version for o in model.opset_import}
    shapes = {_text(v.name): _described(v) for v in (*graph.value_info, *graph.input, *graph.output)}
    constants = {_text(t.name) for t in graph.initializer}
    nodes = tuple(_nodes(graph, versions, shapes, 0))
    own = {(_text(f.domain), _text(f.name)): 0 for f in model.functions}
    known = {(o.domain, o.name): o.opsets[-1] for o in supported()} | own
    unsupported = {
        f"{op} (opset {version})"
        for _, _, op, version, _, _ in nodes
        if known.get(_key(op), version + 1) > version and foreign_function(_call(op)) is None
    }
    inputs = [v for v in graph.input if _text(v.name) not in constants]
    dims = [
        _text(dimension_name(d)) for v in inputs for d in v.type.tensor_type.shape.dim if dimension_name(d)
    ]
    return Declared(
        _text(graph.name),
        tuple(map(_described, inputs)),
        tuple(map(_described, graph.output)),
        nodes,
        tuple(sorted(unsupported)),
        tuple(dict.fromkeys(dims)),
    )


def declared_text(found: Declared) -> str:
    """The text form, like that of a graph."""
    lines = [f"graph {found.name}({', '.join(found.inputs)}) -> {', '.join(found.outputs)}"]
    for depth, name, op, _, inputs, outputs in found.nodes:
        indent, label = "  " * (depth + 1), f"  # {name}" if name else ""
        lines.append(f"{indent}{', '.join(outputs)} = {op}({', '.join(inputs)}){label}")
    return "\n".join(lines)


def _nodes(
    graph: onnx.GraphProto, versions: dict[str, int], shapes: dict[str, str], depth: int
) -> Iterator[Row]:
    for node in graph.node:
        name, kind, domain = map(_text, (node.name, node.op_type, node.domain))
        domain = "" if domain in DOMAINS else domain
        version = versions.get(domain) or versions.get(domain or "ai.onnx", 0)
        op = f"{domain}.{kind}" if domain else kind
        outputs = tuple(shapes.get(output, output) or "_" for output in map(_text, node.output))
        yield depth, name, op, version, tuple(_text(n) or "_" for n in node.input), outputs
        for a in node.attribute if depth < DEPTH_LIMIT else ():
            for inner in (*([a.g] if a.HasField("g") else []), *a.graphs):
                yield from _nodes(inner, versions, shapes, depth + 1)


def _text(name: str | bytes) -> str:
    """A name that can be shown: protobuf hands over as bytes what is not UTF-8."""
    return name.decode(errors="backslashreplace") if isinstance(name, bytes) else name


def _key(op: str) -> tuple[str, str]:
    domain, _, name = op.rpartition(".")
    return domain, name


def _call(op: str) -> onnx.NodeProto:
    domain, name = _key(op)
    return onnx.NodeProto(op_type=name, domain=domain)


def _type(number: int) -> str:
    return onnx.TensorProto.DataType.Name(number).lower() if number in _TYPES else f"type {number}"


def _described(info: onnx.ValueInfoProto) -> str:
    """NAME: TYPE[DIMENSIONS], a dimension by its name where it is free."""
    name, kind = _text(info.name), info.type.WhichOneof("value")
    tensor = info.type.tensor_type
    if kind != "tensor_type":
        return f"{name}: {kind.removesuffix('_type')}" if kind else name
    if not tensor.HasField("shape"):
        return f"{name}: {_type(tensor.elem_type)}[...]"
    dims = [
        _text(d.dim_param) or (str(d.dim_value) if d.HasField("dim_value") else "?") for d in tensor.shape.dim
    ]
    return f"{name}: {_type(tensor.elem_type)}[{', '.join(dims)}]"
