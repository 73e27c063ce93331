"""The activations of a model's products, read off the values of a run of the model.

In: products, and the elements of the values that `wanted` names. Out: vectors, float32 [samples, cols], by
the product's number. Called by `ingot eie run`, which asks an oracle for the elements. Of a GRU whose reset
gate comes before the product, the candidate reads the states without the gate: as many of them are zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx

from ingot.eie.layers import Product, State
from ingot.errors import UnsupportedError
from ingot.formula.expr import Array
from ingot.graph.ir import Value


def with_states(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model in which every recurrent node of the main graph names the output of all its states."""
    out = onnx.ModelProto()
    out.CopyFrom(model)
    taken = {name for node in out.graph.node for name in (*node.input, *node.output)}
    for node in out.graph.node:
        if node.op_type in ("RNN", "GRU", "LSTM") and node.output and not node.output[0]:
            name = next(n for n in (f"states_{i}" for i in range(len(taken) + 1)) if n not in taken)
            taken.add(name)
            node.output[0] = name
    return out


def wanted(found: Sequence[Product]) -> list[str]:
    """The names of the values whose elements `vectors` needs."""
    names: dict[str, None] = {}
    for p in found:
        if p.state is None:
            names[p.source.name] = None
            continue
        states = p.state.node.outputs[0]
        if states is None:
            raise UnsupportedError("its states have no name", node=p.name)
        names[states.name] = None
        first = _initial(p.state)
        if first is not None and first.constant is None:
            names[first.name] = None
    return list(names)


def vectors(found: Sequence[Product], values: Mapping[str, Array], most: int) -> dict[int, Array]:
    """Up to `most` vectors for each product, those of the first samples or steps."""
    out = {}
    for n, p in enumerate(found):
        cols = p.shape[1]
        if p.state is not None:
            made = _states(p.state, values).reshape(-1, cols)
        else:
            x = values[p.source.name]
            made = (np.moveaxis(x, -2, -1) if p.is_turned and x.ndim > 1 else x).reshape(-1, cols)
        out[n] = made[:most].astype(np.float32)
    return out


def _initial(state: State) -> Value | None:
    inputs = state.node.inputs
    return inputs[5] if len(inputs) > 5 else None


def _states(state: State, values: Mapping[str, Array]) -> Array:
    """What the steps of one direction start from, [steps, batch, hidden]."""
    all_of = state.node.outputs[0]
    assert all_of is not None
    y = values[all_of.name]
    is_batch_first = bool(state.node.attributes.get("layout", 0))
    # [steps, directions, batch, hidden], or [batch, steps, directions, hidden]
    own = np.moveaxis(y[:, :, state.direction], 0, 1) if is_batch_first else y[:, state.direction]
    first = _initial(state)
    start = np.zeros_like(own[:1])
    if first is not None:
        given = first.constant if first.constant is not None else values[first.name]
        start = given[:, state.direction][None] if is_batch_first else given[state.direction][None]
    return np.concatenate((own[1:], start) if state.is_reverse else (start, own[:-1]))
