"""ONNX's Scan as a Loop. In: a Scan node of opset 9 or newer; out: nodes for it. Called by the reader.

    y, z = Scan(s, x)      n = Shape(x)[axis]
                           y, z = Loop(n, true, s) { x_t = Gather(x, t, axis) ... }

A direction of 1 gathers at n - 1 - t, or turns an output around afterwards; outputs are stacked along axis 0
and transposed where another is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from ingot.errors import ModelError, UnsupportedError
from ingot.frontends.onnx.functions import LazyTypes

Nodes = list[onnx.NodeProto]
FIRST = -(1 << 62)  # as the end of a slice with a negative step: beyond the first element


def as_loop(scan: onnx.NodeProto, label: str, types: LazyTypes) -> tuple[Nodes, onnx.NodeProto, Nodes]:
    """Nodes before the Loop, the Loop, nodes after it. The others are of the newest opset."""
    a = {attribute.name: helper.get_attribute_value(attribute) for attribute in scan.attribute}
    body, slices = a.get("body"), a.get("num_scan_inputs", 0)
    states = len(scan.input) - slices
    fits = isinstance(body, onnx.GraphProto) and len(body.input) == len(scan.input)
    if body is None or not fits or not 0 < slices <= len(scan.input) or len(body.output) < states:
        raise ModelError(f"{label}: its inputs, num_scan_inputs and its body do not fit")
    found = _Scan(scan, label, body, states, a, types)
    found.require_one_length()
    return found.nodes()


@dataclass(frozen=True, slots=True)
class _Scan:
    """`states` values are carried; the inputs behind them are sliced. `given` are the node's attributes."""

    scan: onnx.NodeProto
    label: str
    body: onnx.GraphProto
    states: int
    given: dict[str, Any]
    types: LazyTypes

    def require_one_length(self) -> None:
        """Raise ModelError where sliced inputs are known to have different numbers of slices."""
        names, lengths = self.scan.input[self.states :], {}
        axes = self._list("scan_input_axes", len(names))
        for name, axis in zip(names, axes, strict=True) if len(names) > 1 else ():
            dims = self.types.of(name).tensor_type.shape.dim
            if -len(dims) <= axis < len(dims) and dims[axis].HasField("dim_value"):
                lengths[dims[axis].dim_value] = name
        if len(lengths) > 1:
            said = ", ".join(f"{n} of {name!r}" for n, name in lengths.items())
            raise ModelError(f"{self.label}: its inputs have different numbers of slices: {said}")

    def nodes(self) -> tuple[Nodes, onnx.NodeProto, Nodes]:
        before = list(self._before())
        stacked = [self._stacked(i, name) for i, name in enumerate(self.scan.output)]
        inputs = [self._name("count"), self._name("true"), *self.scan.input[: self.states]]
        loop = helper.make_node(
            "Loop", inputs, [s[0] for s in stacked], self.scan.name, body=self._loop_body()
        )
        return before, loop, [n for s in stacked for n in s[1]]

    def _name(self, what: str) -> str:
        """A name that nothing else has: node outputs are unique, and so is what begins with one."""
        return f"{next(filter(None, self.scan.output), self.label)}/scan/{what}"

    def _numbers(self, what: str, values: Any) -> onnx.NodeProto:
        tensor = numpy_helper.from_array(np.asarray(values))
        return helper.make_node("Constant", [], [self._name(what)], value=tensor)

    def _before(self) -> Iterator[onnx.NodeProto]:
        """The number of steps, read off the first sliced input."""
        axis = self._list("scan_input_axes", len(self.scan.input) - self.states)[0]
        name = self._name
        yield self._numbers("true", np.array(True))
        yield self._numbers("one", np.array(1, np.int64))
        yield self._numbers("axis", np.array(axis, np.int64))
        yield helper.make_node("Shape", [self.scan.input[self.states]], [name("shape")])
        yield helper.make_node("Gather", [name("shape"), name("axis")], [name("count")])
        yield helper.make_node("Sub", [name("count"), name("one")], [name("last")])

    def _loop_body(self) -> onnx.GraphProto:
        """The body, its slices being gathered first."""
        out = onnx.GraphProto()
        out.CopyFrom(self.body)
        del out.input[self.states :], out.node[:]
        turn, active = self._name("turn"), self._name("active")
        first = helper.make_tensor_value_info(turn, onnx.TensorProto.INT64, [])
        second = helper.make_tensor_value_info(active, onnx.TensorProto.BOOL, [])
        carried, made = list(out.input), list(out.output)
        del out.input[:], out.output[:]
        out.input.extend([first, second, *carried])
        out.output.extend([second, *made])
        out.value_info.extend(self.body.input[self.states :])
        out.node.extend([*self._slices(turn), *self.body.node])
        return out

    def _slices(self, turn: str) -> Iterator[onnx.NodeProto]:
        names, inner = self.scan.input[self.states :], self.body.input[self.states :]
        axes = self._list("scan_input_axes", len(names))
        directions = self._list("scan_input_directions", len(names))
        back = self._name("back")
        if any(directions):
            yield helper.make_node("Sub", [self._name("last"), turn], [back])
        for x, slice_, axis, direction in zip(names, inner, axes, directions, strict=True):
            yield helper.make_node("Gather", [x, back if direction else turn], [slice_.name], axis=axis)

    def _stacked(self, i: int, name: str) -> tuple[str, Nodes]:
        """What the Loop calls output i, and the nodes that make the Scan's output `name` of it."""
        at, count = i - self.states, len(self.body.output) - self.states
        if at < 0 or not name:
            return name, []
        axis = self._list("scan_output_axes", count)[at]
        backwards = self._list("scan_output_directions", count)[at]
        raw, turned = self._name(f"stacked{at}"), self._name(f"turned{at}")
        nodes: Nodes = []
        if backwards:
            nodes += [self._numbers(f"{w}{at}", np.array([v])) for w, v in (("minus", -1), ("end", FIRST))]
            nodes.append(self._numbers(f"zero{at}", np.array([0])))
            minus, end, zero = (self._name(f"{w}{at}") for w in ("minus", "end", "zero"))
            nodes.append(helper.make_node("Slice", [raw, minus, end, zero, minus], [turned]))
        last = turned if backwards else raw
        if axis:
            nodes.append(helper.make_node("Transpose", [last], [name], perm=self._perm(name, axis)))
        elif nodes:
            nodes.append(helper.make_node("Identity", [last], [name]))
        return (raw, nodes) if nodes else (name, [])

    def _perm(self, name: str, axis: int) -> list[int]:
        """The permutation that puts axis 0 at `axis`, for the rank that the model says or ONNX infers."""
        rank = len(self.types.of(name).tensor_type.shape.dim)
        if not -rank <= axis < rank:
            raise UnsupportedError(f"{self.label}: scan_output_axes {axis} of an output of unknown rank")
        others = list(range(1, rank))
        return [*others[: axis % rank], 0, *others[axis % rank :]]

    def _list(self, name: str, count: int) -> Sequence[int]:
        """An attribute of one number per input or output; zeros by default. Raises ModelError."""
        found: Sequence[int] = self.given.get(name) or [0] * count
        if len(found) != count:
            raise ModelError(f"{self.label}: {name} has {len(found)} elements instead of {count}")
        if name.endswith("_directions") and not set(found) <= {0, 1}:
            raise ModelError(f"{self.label}: {name} {list(found)}: 0 is forwards and 1 backwards")
        return found
