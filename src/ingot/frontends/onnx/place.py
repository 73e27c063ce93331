"""One node where it stands in the model, for the handlers of what is not a plain operator on tensors.

In: a node and what its inputs name. Out: nodes appended to the graph, and names given to what they make.
`handlers` has the table of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from ingot.errors import ModelError, UnsupportedError
from ingot.formula.types import INT64
from ingot.frontends.onnx.objects import Form, Listed, Object, Option, Ragged, form_of, truth
from ingot.frontends.onnx.reader import Reader
from ingot.frontends.onnx.scope import Scope
from ingot.graph.ir import Attribute, Graph, Node, Value, constant_value


@dataclass(slots=True)
class Place:
    """A node of the file, the graph that is being filled, and the names around it."""

    reader: Reader
    graph: Graph
    scope: Scope
    proto: onnx.NodeProto
    node: Node
    operands: list[Object | None]

    @property
    def label(self) -> str:
        return f"{self.node.op} node {self.node.name or next(iter(self.proto.output), '')!r}"

    # -- operands

    def tensors(self) -> list[Value | None]:
        """All operands, for an operator on tensors. Raises ModelError for anything else."""
        for name, thing in zip(self.proto.input, self.operands, strict=False):
            if not isinstance(thing, Value | None):
                raise ModelError(f"{self.label}: {name!r} is a {form_of(thing)}, the operator takes tensors")
        return [thing for thing in self.operands if isinstance(thing, Value | None)]

    def operand(self, i: int) -> Object | None:
        return self.operands[i] if i < len(self.operands) else None

    def tensor(self, i: int) -> Value:
        """Operand i, a tensor. Raises ModelError."""
        found = self.operand(i)
        if not isinstance(found, Value):
            raise ModelError(f"{self.label}: input {i} is not a tensor")
        return found

    def optional_tensor(self, i: int) -> Value | None:
        """Operand i, a tensor or left out."""
        return None if self.operand(i) is None else self.tensor(i)

    def sequence(self, i: int) -> Listed | Ragged:
        """Operand i, a sequence. Raises ModelError."""
        found = self.operand(i)
        if not isinstance(found, Listed | Ragged):
            raise ModelError(f"{self.label}: input {i} is not a sequence")
        return found

    def attributes(self) -> dict[str, Attribute]:
        """The node's attributes; graphs and types are the handlers' own business."""
        own = (onnx.AttributeProto.GRAPH, onnx.AttributeProto.TYPE_PROTO)
        return {
            a.name: self.reader.attribute(a, self.node) for a in self.proto.attribute if a.type not in own
        }

    def subgraph(self, name: str) -> onnx.GraphProto:
        """The graph attribute `name`. Raises ModelError where there is none."""
        for a in self.proto.attribute:
            if a.name == name and a.type == onnx.AttributeProto.GRAPH:
                found: onnx.GraphProto = a.g
                return found
        raise ModelError(f"{self.label}: the graph '{name}' is missing")

    # -- results

    def result(self, i: int, thing: Object) -> None:
        """Output i of the node is an object that is there."""
        if i < len(self.proto.output) and self.proto.output[i]:
            self.reader.call_it(self.scope, self.proto.output[i], thing)

    def values(self, i: int, suffixes: Sequence[str]) -> list[Value]:
        """New values for output i, one for each suffix of its name."""
        name = self.proto.output[i] if i < len(self.proto.output) else ""
        return [self.reader.value(self.scope, name or self.label, suffix) for suffix in suffixes]

    def append(
        self,
        op: str,
        inputs: Sequence[Value | None],
        outputs: Sequence[Value | None],
        **attributes: Attribute,
    ) -> None:
        """A node of the newest opset."""
        version = onnx.defs.onnx_opset_version()
        text = self.reader.text
        node = Node(op, list(inputs), list(outputs), attributes, self.node.name, "", version, text)
        self.graph.nodes.append(node)

    def tensor_result(self, op: str, inputs: Sequence[Value | None], **attributes: Attribute) -> None:
        """Output 0 is a tensor that the operator makes."""
        value = self.reader.define(self.scope, self.proto.output[0])
        self.append(op, inputs, [value], **attributes)

    def sequence_result(self, op: str, inputs: Sequence[Value | None], **attributes: Attribute) -> None:
        """Output 0 is a sequence that the operator makes."""
        made = self.values(0, ["", ".extents", ".length"])
        self.append(op, inputs, made, **attributes)
        self.result(0, Ragged(*made))

    # -- one form for several objects

    def ragged(self, sequence: Listed | Ragged, name: str = "") -> Ragged:
        """A sequence as its three tensors."""
        if isinstance(sequence, Ragged):
            return sequence
        made = [
            self.reader.value(self.scope, name or self.label, s) for s in (".data", ".extents", ".length")
        ]
        if sequence.elements:
            self.append("SequenceConstruct", sequence.elements, made)
        else:
            data = np.zeros(0, np.float32 if sequence.dtype is None else sequence.dtype.numpy)
            arrays = (data, np.zeros((0, 0), np.int64), np.zeros((), np.int64))
            made = [constant_value(v.name, a) for v, a in zip(made, arrays, strict=True)]
        return Ragged(*made)

    def fitted(self, thing: Object, form: Form | None, name: str = "") -> Object:
        """The object in a form that it can be brought to. Raises UnsupportedError."""
        if isinstance(thing, Listed | Ragged) and form is not None and form.kind == "sequence":
            return self.ragged(thing, name)
        if form is None or form.kind != "optional":
            if form is None or form_of(thing) != form:
                raise UnsupportedError(f"{self.label}: {name!r} is a {form_of(thing)}, a {form} is needed")
            return thing
        if not isinstance(thing, Option):
            return Option(self.fitted(thing, form.content, name), truth(True))
        if thing.content is None:
            return Option(self.placeholder(form.content, name), thing.present)
        return Option(self.fitted(thing.content, form.content, name), thing.present)

    def placeholder(self, form: Form | None, name: str) -> Object:
        """What stands where an optional has no element."""
        if form is None or form.kind == "tensor":
            raise UnsupportedError(f"{self.label}: nothing says of what shape the empty optional {name!r} is")
        return self.fitted(Listed(()), form, name)


Handler = Callable[[Place], bool]  # reads a node; False leaves it to the reader, as a plain operator


def scalar(name: str, number: int) -> Value:
    return constant_value(name, np.array(number, INT64.numpy))
