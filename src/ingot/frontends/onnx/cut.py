"""Other outputs than an ONNX model's own: any values that its nodes make. Called by `canonical`.

In: a model and names. Out: a copy with these outputs, and only the nodes and inputs that they need.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Sequence

import onnx

from ingot.errors import InputError
from ingot.frontends.onnx.described import names_read


def with_only(model: onnx.ModelProto, names: Sequence[str]) -> onnx.ModelProto:
    """Return a copy of the model with these outputs, in this order. Raises InputError for a name that no node
    makes.
    """
    made = onnx.ModelProto()
    made.CopyFrom(model)
    graph = made.graph
    known = {name for node in graph.node for name in node.output if name}
    declared = {v.name: v for v in (*model.graph.value_info, *model.graph.output)}
    before = set(names_read(graph))
    del graph.output[:]
    for name in dict.fromkeys(names):
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            own = ", ".join(v.name for v in model.graph.output)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise InputError(
                f"--outputs {name}: no node makes it", remedy=f"{hint}the model's outputs: {own}"
            )
        graph.output.add().CopyFrom(declared.get(name, onnx.ValueInfoProto(name=name)))
    _keep_needed(graph, before)
    return made


def _keep_needed(graph: onnx.GraphProto, before: Collection[str]) -> None:
    """Drop the nodes that no output needs, and the inputs that only they read."""
    needed, kept = {v.name for v in graph.output}, list[onnx.NodeProto]()
    for node in reversed(graph.node):
        if not needed.isdisjoint(node.output):
            needed.update(names_read(onnx.GraphProto(node=[node])))
            kept.append(node)
    copies = onnx.GraphProto(node=kept[::-1])
    del graph.node[:]
    graph.node.extend(copies.node)
    for info in [v for v in graph.input if v.name in before and v.name not in needed]:
        graph.input.remove(info)
