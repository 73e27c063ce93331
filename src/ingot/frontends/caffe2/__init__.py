"""Caffe2's two nets without Caffe2. In: a path; out: canonical ONNX, as a ModelProto. Called by `canonical`.

    a folder with init_net.pb and predict_net.pb, or .pbtxt
    X_predict_net.pb                                  the init net is the file beside it: X_init_net.pb

The operators of the init net make constants; what the predict net reads and nobody makes is an input, whose
type and shape the user says, as for Glow: NAME,TYPE,SHAPE or NAME,TYPE,SCALE,OFFSET,SHAPE.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnx

import ingot.frontends.caffe2.elementwise
import ingot.frontends.caffe2.fills
import ingot.frontends.caffe2.layers
import ingot.frontends.caffe2.sparse  # noqa: F401  (these fill the table)
from ingot.errors import InputError, ModelError, UnsupportedError
from ingot.frontends.builder import Builder, Names
from ingot.frontends.caffe2.call import OPS, Call, Quantisation
from ingot.frontends.caffe2.protos import read_net
from ingot.frontends.formats import caffe2_nets
from ingot.frontends.model_inputs import ModelInput, parse_model_inputs
from ingot.graph.ir import Graph, Value

SHOWN, LONGEST = 8, 64


def import_caffe2(path: Path, model_inputs: Sequence[str] = ()) -> onnx.ModelProto:
    """The ONNX of two nets of Caffe2's. Raises InputError for what cannot be read or imported."""
    init, predict = caffe2_nets(path)
    nets = [read_net(p) for p in (init, predict) if p is not None]
    inputs = parse_model_inputs(model_inputs)
    net = nets[-1]
    fetches = list(dict.fromkeys(net.external_output)) or _last(net)
    b = Builder(Graph(str(net.name) or path.stem), Names())
    b.names.reserve(*inputs, *fetches)
    world = _Importer(b, inputs)
    world.enter(nets)
    for one in nets:
        for op in one.op:
            world.operator(op)
    if missing := [name for name in fetches if name not in world.values]:
        raise ModelError(f"{predict.name}: nothing makes the output {missing[0]!r}")
    for name in fetches:
        b.at(f"the output {name!r}", name)
        b.output(world.values[name], name)
    return b.model()


def _word(name: str) -> str:
    """A name as an error shows it: on one line, and not too long."""
    short = name if len(name) <= LONGEST else f"{name[:LONGEST]}..."
    return short if short.isprintable() else repr(short)


def _last(net: Any) -> list[str]:
    """Without a word of outputs, what nobody reads."""
    read = {name for op in net.op for name in op.input}
    return list(dict.fromkeys(name for op in net.op for name in op.output[:1] if name not in read))


class _Importer:
    """Evaluates operators one after the other; a name may mean another value later on."""

    def __init__(self, b: Builder, inputs: dict[str, ModelInput]) -> None:
        self.b, self.inputs = b, inputs
        self.values: dict[str, Value] = {}
        self.quantised: dict[Value, Quantisation] = {}

    def enter(self, nets: Sequence[Any]) -> None:
        """Define the inputs: what is read before anybody makes it. Raises InputError for unknown ones."""
        made: set[str] = set()
        needed: dict[str, None] = {}
        for net in nets:
            for op in net.op:
                needed.update((name, None) for name in op.input if name not in made)
                made.update(op.output)
            needed.update((n, None) for n in net.external_output if n not in made)
        unsaid = [name for name in needed if name not in self.inputs]
        if unsaid:
            shown = [_word(name) for name in unsaid[:SHOWN]]
            options = " ".join(f"--model-input {name},float,[...]" for name in shown)
            reason = f"inputs {', '.join(shown)}{', ...' if len(unsaid) > SHOWN else ''}"
            raise InputError(f"{reason}: the nets do not say their types", remedy=f"add {options}")
        for name, said in self.inputs.items():
            if name not in needed:
                known = ", ".join(map(_word, list(needed)[:SHOWN])) or "none"
                raise InputError(
                    f"--model-input {name}: the model has no such input; its inputs are: {known}"
                )
            value = self.b.input(name, said.dtype, said.shape)
            self.values[name] = value
            if said.quantisation is not None:
                self.quantised[value] = said.quantisation

    def operator(self, op: Any) -> None:
        name = next(iter(op.output), op.type)
        self.b.at(f"{_word(op.type)} operator {op.name or name!r}", name)
        if op.type == "Free":
            return
        if not op.type:
            raise ModelError(f"operator {op.name or name!r} of the net has no type")
        if op.type not in OPS:
            raise UnsupportedError(f"{self.b.names.label}: {_word(op.type)} of Caffe2's is not supported")
        call = Call(
            self.b, op, [self._read(n) for n in op.input], self.quantised, {a.name: a for a in op.arg}
        )
        try:
            made = OPS[op.type](call)
        except (AssertionError, TypeError, ValueError, AttributeError, LookupError, ArithmeticError) as error:
            shapes = ", ".join(str(call.shape(i)) for i in range(len(call.inputs)))
            raise ModelError(f"{self.b.names.label}: cannot take {shapes or 'this'} ({error})") from error
        results = made if isinstance(made, list) else [made]
        if len(op.output) > len(results):
            raise UnsupportedError(
                f"{self.b.names.label}: output {op.output[len(results)]!r} is not supported"
            )
        self.values.update(zip(op.output, results, strict=False))

    def _read(self, name: str) -> Value:
        if name not in self.values:
            raise ModelError(f"{self.b.names.label}: nothing makes {name!r}")
        return self.values[name]
