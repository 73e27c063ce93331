"""From a TFLite model to an ONNX model. In: a checked `Model`, what the user wants of it; out: a ModelProto.

Inputs and outputs are called as the signature calls them, else by their tensors. Their quantisation stands in
the model's metadata (`ingot.quantisation.NAME` = "scale zero_point"), variables in `ingot.state`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import onnx
from onnx import numpy_helper

from ingot.errors import InputError
from ingot.frontends.builder import EXPANSION, NODES_LIMIT, Names
from ingot.frontends.onnx.scales import QUANTISATION
from ingot.frontends.onnx.states import STATE
from ingot.frontends.orders import Builder
from ingot.frontends.tensorflow.config import SHAPE
from ingot.frontends.tensorflow.values import Item, Tensor, tensor
from ingot.frontends.tflite.model import Model, Signature, Subgraph, TensorInfo
from ingot.frontends.tflite.scope import Scope, require_known, require_one_maker
from ingot.frontends.tflite.variables import Variables
from ingot.graph.ir import Graph, Value


def import_model(model: Model, name: str, inputs: Sequence[str], outputs: Sequence[str]) -> onnx.ModelProto:
    """The canonical ONNX of the first signature's subgraph, else of the first subgraph."""
    require_known(model)
    require_one_maker(model)
    signature = model.signatures[0] if model.signatures else None
    subgraph = model.subgraphs[signature.subgraph if signature else 0]
    labels = _labels(subgraph, signature)
    names = Names(most=max(NODES_LIMIT, EXPANSION * sum(len(g.operators) for g in model.subgraphs)))
    names.reserve(*(labels[i] for i in (*subgraph.inputs, *subgraph.outputs)))
    b = Builder(Graph(name), names)
    values = _inputs(b, subgraph, labels, inputs)
    variables = Variables(names)
    made = Scope(model, subgraph, b, variables).run([Tensor(values[i]) for i in subgraph.inputs])
    wanted, found = _wanted(subgraph, labels, outputs), dict(zip(subgraph.outputs, made, strict=True))
    for index in wanted:
        _give(b, found[index], labels[index])
    pairs = _kept(b, variables)
    proto = b.model()
    _annotate(proto, [subgraph.tensors[i] for i in (*subgraph.inputs, *wanted)], labels)
    initial = {s.before.name: s.initial for s in variables.states.values()}
    proto.graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in initial.items())
    if pairs:
        proto.metadata_props.add(key=STATE, value=json.dumps(pairs))
    return proto


def _kept(b: Builder, variables: Variables) -> dict[str, str]:
    """Variables become inputs, and those that are written outputs too: {output: input}."""
    pairs = {}
    for state in variables.states.values():
        b.graph.inputs.append(state.before)
        if state.now.value is not state.before:
            name = b.names.fresh(f"{state.before.name}_next")
            _give(b, state.now, name)
            pairs[name] = state.before.name
    return pairs


def _labels(subgraph: Subgraph, signature: Signature | None) -> dict[int, str]:
    """What each input and output is called, each name once."""
    named = {} if signature is None else {i: n for n, i in (*signature.outputs, *signature.inputs)}
    labels: dict[int, str] = {}
    for index in (*subgraph.inputs, *subgraph.outputs):
        wanted = named.get(index) or subgraph.tensors[index].name
        number, label = 1, wanted
        while index not in labels and label in labels.values():
            number, label = number + 1, f"{wanted}_{number}"
        labels.setdefault(index, label)
    return labels


def _inputs(b: Builder, subgraph: Subgraph, labels: dict[int, str], given: Sequence[str]) -> dict[int, Value]:
    """The inputs as the file shapes them, or the user (NAME:SHAPE)."""
    known = {labels[i] for i in subgraph.inputs}
    shapes = dict(_parsed(word, known) for word in given)
    if other := [n for n in shapes if n not in known]:
        raise InputError(
            f"the model has no input {other[0]!r}", remedy=f"its inputs: {', '.join(sorted(known))}"
        )
    values = {}
    for index in dict.fromkeys(subgraph.inputs):
        t = subgraph.tensors[index]
        shape = shapes.get(labels[index]) or t.shape
        if len(shape) != len(t.shape) and t.shape:
            raise InputError(f"the input {labels[index]!r} is declared as {list(t.shape)}, not {list(shape)}")
        values[index] = b.input(labels[index], t.dtype, shape)
    return values


def _parsed(word: str, known: set[str]) -> tuple[str, tuple[int, ...]]:
    """`NAME` or `NAME:SHAPE`; names of TensorFlow's end in a colon and a port."""
    name, _, shape = word.rpartition(":")
    if word in known or not name or not SHAPE.fullmatch(shape):
        return word, ()
    return name, tuple(int(n) for n in re.split("[x,]", shape) if n)


def _wanted(subgraph: Subgraph, labels: dict[int, str], outputs: Sequence[str]) -> list[int]:
    """The outputs that the user names, else all."""
    every = list(dict.fromkeys(subgraph.outputs))
    by_name = {labels[i]: i for i in every}
    if other := [n for n in outputs if n not in by_name]:
        raise InputError(f"the model has no output {other[0]!r}", remedy=f"its outputs: {', '.join(by_name)}")
    return [by_name[n] for n in outputs] or every


def _give(b: Builder, item: Item, name: str) -> None:
    b.at(f"the output {name!r}", name)
    b.output(b.plain(tensor(item, f"the output {name!r}")), name)


def _annotate(proto: onnx.ModelProto, tensors: list[TensorInfo], labels: dict[int, str]) -> None:
    """Scale and zero point of each input and output that has them."""
    for t in tensors:
        if t.quantisation is not None and t.quantisation.is_single and not t.dtype.is_float:
            scale, zero = float(t.quantisation.scale[0]), int(t.quantisation.zero[0])
            proto.metadata_props.add(key=QUANTISATION + labels[t.index], value=f"{scale!r} {zero}")
