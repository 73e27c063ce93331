"""One activation of a subgraph. In: items for its inputs; out: items for its outputs, written to a builder.

Operators are in an order in which they can run. What an operator needs to know of its tensors (quantisation,
constants) the file says; shapes are inferred while nodes are written.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ingot.errors import ModelError, UnsupportedError
from ingot.frontends.orders import Builder
from ingot.frontends.tensorflow.values import DEAD, Dead, Item, Tensor
from ingot.frontends.tflite.model import NO_TENSOR, Model, Operator, Subgraph, TensorInfo, brief
from ingot.frontends.tflite.ops import OPS
from ingot.frontends.tflite.ops.table import Call
from ingot.frontends.tflite.variables import Variables
from ingot.frontends.tflite.weights import elements_of
from ingot.graph.ir import Value

DEPTH_LIMIT = 32


@dataclass(slots=True)
class Scope:
    """Items by tensor. `variables` are shared by all scopes of a model."""

    model: Model
    subgraph: Subgraph
    b: Builder
    variables: Variables
    items: dict[int, Item] = field(default_factory=dict)
    depth: int = 0

    def run(self, inputs: list[Item]) -> list[Item]:
        """Everything the subgraph computes. Raises ModelError for a tensor that nothing makes."""
        if len(inputs) != len(self.subgraph.inputs):
            raise ModelError(
                f"{self.subgraph.name}: {len(inputs)} values for {len(self.subgraph.inputs)} inputs"
            )
        self.items.update(zip(self.subgraph.inputs, inputs, strict=True))
        for operator in self.subgraph.operators:
            self._convert(operator)
        return [self.item(i, f"the output of {self.subgraph.name}") for i in self.subgraph.outputs]

    def call(self, index: int, inputs: list[Item], label: str, b: Builder | None = None) -> list[Item]:
        """Another subgraph's outputs, written here or to another builder."""
        self.b.names.count()
        if self.depth == DEPTH_LIMIT:
            raise UnsupportedError(f"{label}: subgraphs call each other more than {DEPTH_LIMIT} deep")
        inner = Scope(
            self.model, self.model.subgraph(index, label), b or self.b, self.variables, depth=self.depth + 1
        )
        return inner.run(inputs)

    def item(self, index: int, reader: str) -> Item:
        """What a tensor holds: a constant, the state of a variable, or what an operator made."""
        if index == NO_TENSOR:
            return DEAD
        if index not in self.items:
            self.items[index] = self._given(self.subgraph.tensors[index], reader)
        return self.items[index]

    def _given(self, t: TensorInfo, reader: str) -> Item:
        if t.is_variable:
            return self.variables.tensor(self.b, self.subgraph.index, t)
        if t.is_constant or 0 in t.shape:
            self.b.names.place = t.name
            return Tensor(self.b.constant(elements_of(t)))
        raise ModelError(f"{reader} reads {t.label}, which nothing makes")

    def _convert(self, operator: Operator) -> None:
        """One operator: its outputs become items."""
        b, tensors = self.b, self.subgraph.tensors
        items = [self.item(i, operator.label) for i in operator.inputs]
        b.names.label, b.names.place = operator.label, operator.place or operator.kind
        infos = [None if i == NO_TENSOR else tensors[i] for i in operator.inputs]
        call = Call(b, operator, items, infos, [tensors[i] for i in operator.outputs], self)
        try:
            made = OPS[operator.kind](call)
        except (AssertionError, TypeError, ValueError, AttributeError, LookupError, ArithmeticError) as error:
            reason = f"cannot take {call.shown()} with these options ({error})"
            raise ModelError(f"{operator.label} {reason}") from error
        found = made if isinstance(made, list) else [made]
        if len(found) < len(operator.outputs):
            raise ModelError(f"{operator.label}: {len(operator.outputs)} outputs, it has {len(found)}")
        for index, item in zip(operator.outputs, found, strict=False):
            self.items[index] = Tensor(item) if isinstance(item, Value) else item


COMPILED = {"CUSTOM ethos-u": "an Ethos-U", "CUSTOM edgetpu-custom-op": "an Edge TPU"}
"""Operators that stand for layers which a compiler has made into code of an accelerator, and of which."""


def require_known(model: Model) -> None:
    """Raise UnsupportedError that lists every operator that is in the way, with one place for each."""
    found: dict[str, str] = {}
    for graph in model.subgraphs:
        for operator in graph.operators:
            if operator.kind not in OPS:
                found.setdefault(operator.kind, operator.place)
    if found:
        listed = ", ".join(f"{brief(kind)} (at {brief(place)!r})" for kind, place in sorted(found.items()))
        chips = [chip for kind, chip in COMPILED.items() if kind in found]
        remedy = (
            f"the model is compiled for {chips[0]}: give the model that it was compiled from" if chips else ""
        )
        raise UnsupportedError(f"operators of TFLite that are not supported: {listed}", remedy=remedy)


def require_one_maker(model: Model) -> None:
    """Raise ModelError for a tensor that two operators make, or one that is an input or a constant."""
    for graph in model.subgraphs:
        makers = dict.fromkeys(graph.inputs, f"the inputs of {brief(graph.name)}")
        for operator in graph.operators:
            for t in (graph.tensors[i] for i in operator.outputs):
                if t.index in makers or t.is_constant:
                    maker = makers.get(t.index, "a buffer of the file")
                    raise ModelError(f"{operator.label} makes {t.label}, which comes from {maker}, too")
                makers[t.index] = operator.label


def is_absent(item: Item) -> bool:
    """Whether it stands for an optional input that is not given."""
    return isinstance(item, Dead)
