"""States that a model declares itself: pairs of an output and the input as which it comes back.

The metadata `ingot.state` is JSON: {output: input}. An importer of another format writes it where a model has
variables (`frontends/tflite`). In: a ModelProto, and the graph read from it. Out: the graph's states.
"""

from __future__ import annotations

import onnx

from ingot.errors import ModelError
from ingot.files import conform, parse_json
from ingot.graph.ir import Graph, State

STATE = "ingot.state"


def declared_states(model: onnx.ModelProto) -> dict[str, str]:
    """The pairs, {output: input}. Raises InputError where the metadata is something else."""
    text = next((p.value for p in model.metadata_props if p.key == STATE), "{}")
    return conform(parse_json(text, f"the metadata {STATE!r}"), dict[str, str], f"the metadata {STATE!r}")


def pair_declared(graph: Graph, pairs: dict[str, str]) -> Graph:
    """Note the pairs in place and return the graph. Raises ModelError for a name that is not there."""
    outputs, inputs = ([v.name for v in values] for values in (graph.outputs, graph.inputs))
    for after, before in pairs.items():
        if after not in outputs or before not in inputs:
            raise ModelError(f"the metadata {STATE!r} pairs {after!r} with {before!r}, which are not there")
        where = inputs.index(before)
        graph.states.append(State(outputs.index(after), where, graph.inputs[where].initial))
    return graph
