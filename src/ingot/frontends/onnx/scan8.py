"""Scan of opset 8, with its batch axis, as a Loop over Scans without one. Called by the reader.

    y, z = Scan-8(lens, s, x)      y, z = Loop(batch, true) { y_b, z_b = Scan-9(s[b], x[b]) }

Where lengths are given, a state stays as it is from the end of its sequence on; what is then collected is
undefined. Inputs that are read backwards are turned around first, each as far as it goes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from ingot.errors import ModelError
from ingot.frontends.onnx.functions import NEWEST

Nodes = list[onnx.NodeProto]


def as_batches(scan: onnx.NodeProto, label: str) -> Nodes:
    """Nodes that stand for the Scan. Raises ModelError where its inputs and its body do not fit."""
    given = {a.name: helper.get_attribute_value(a) for a in scan.attribute}
    body, slices = given.get("body"), given.get("num_scan_inputs", 0)
    states = len(scan.input) - 1 - slices
    fits = isinstance(body, onnx.GraphProto) and len(body.input) == states + slices
    directions = list(given.get("directions") or [0] * slices)
    if not fits or body is None or slices < 1 or states < 0 or len(directions) != slices:
        raise ModelError(f"{label}: its inputs, num_scan_inputs and its body do not fit")
    if len(body.output) < states or len(scan.output) > len(body.output):
        raise ModelError(f"{label}: its outputs and those of its body do not fit")
    return list(_Batches(scan, label, body, states, directions).nodes())


def _node(op: str, inputs: list[str], outputs: list[str], **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op, inputs, outputs, domain=NEWEST, **attributes)


@dataclass(frozen=True, slots=True)
class _Batches:
    """`states` inputs behind the lengths are carried, the others sliced along axis 1."""

    scan: onnx.NodeProto
    label: str
    body: onnx.GraphProto
    states: int
    directions: list[int]

    def name(self, what: str) -> str:
        """A name that nothing else has."""
        return f"{next(filter(None, self.scan.output), self.label)}/scan8/{what}"

    @property
    def has_lengths(self) -> bool:
        return bool(self.scan.input[0])

    def nodes(self) -> Iterator[onnx.NodeProto]:
        name = self.name
        for what, value in (("zero", 0), ("one", 1)):
            yield _node("Constant", [], [name(what)], value=numpy_helper.from_array(np.array(value)))
        truth = numpy_helper.from_array(np.array(True))
        yield _node("Constant", [], [name("true")], value=truth)
        inputs = [*self.scan.input[1 : 1 + self.states]]
        for x, direction in zip(self.scan.input[1 + self.states :], self.directions, strict=True):
            if direction and self.has_lengths:
                turned = {"batch_axis": 0, "time_axis": 1}
                yield _node("ReverseSequence", [x, self.scan.input[0]], [name(f"{x}/turned")], **turned)
                x = name(f"{x}/turned")
            inputs.append(x)
        yield _node("Shape", [inputs[-1]], [name("batch")], start=0, end=1)
        yield _node("Squeeze", [name("batch")], [name("count")])
        outputs = [*self.scan.output, *[""] * (len(self.body.output) - len(self.scan.output))]
        outer = self.outer(inputs)
        yield _node("Loop", [name("count"), name("true")], outputs, name=self.scan.name, body=outer)

    def outer(self, inputs: list[str]) -> onnx.GraphProto:
        """One sequence of the batch."""
        name = self.name
        slices = [name(f"slice{i}") for i in range(len(inputs))]
        made = [name(f"made{i}") for i in range(len(self.body.output))]
        nodes = [_node("Gather", [x, name("b")], [s], axis=0) for x, s in zip(inputs, slices, strict=True)]
        ends = list(made)
        if self.has_lengths:
            nodes.append(_node("Gather", [self.scan.input[0], name("b")], [name("length")], axis=0))
            slices, ends = [name("zero"), *slices], [name("turns"), *ends]
        scan = {"num_scan_inputs": len(self.directions), "name": self.scan.name, "body": self.inner()}
        if not self.has_lengths:
            scan["scan_input_directions"] = self.directions
        nodes.append(_node("Scan", slices, ends, **scan))
        return self.graph("batch", nodes, [name("b"), name("active")], [name("active"), *made])

    def inner(self) -> onnx.GraphProto:
        """The body; with lengths, its states are kept once their sequence has ended."""
        if not self.has_lengths:
            return self.body
        name, out = self.name, onnx.GraphProto()
        out.CopyFrom(self.body)
        del out.input[:], out.output[:]
        counter = helper.make_tensor_value_info(name("t"), onnx.TensorProto.INT64, [])
        out.input.extend([counter, *self.body.input])
        out.node.append(_node("Add", [name("t"), name("one")], [name("next")]))
        out.node.append(_node("Less", [name("t"), name("length")], [name("live")]))
        out.output.append(onnx.ValueInfoProto(name=name("next")))
        for i, (before, after) in enumerate(zip(self.body.input, self.body.output, strict=False)):
            if i >= self.states:
                break
            out.node.append(_node("Where", [name("live"), after.name, before.name], [name(f"kept{i}")]))
            out.output.append(onnx.ValueInfoProto(name=name(f"kept{i}")))
        out.output.extend(self.body.output[self.states :])
        return out

    def graph(self, what: str, nodes: Nodes, inputs: list[str], outputs: list[str]) -> onnx.GraphProto:
        out = onnx.GraphProto(name=what, node=nodes)
        types = (onnx.TensorProto.INT64, onnx.TensorProto.BOOL)
        out.input.extend(helper.make_tensor_value_info(n, t, []) for n, t in zip(inputs, types, strict=True))
        out.output.extend(onnx.ValueInfoProto(name=n) for n in outputs)
        return out
