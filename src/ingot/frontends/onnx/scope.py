"""What names mean where. In: the graphs and function bodies around a place; out: what a name means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import onnx

from ingot.errors import UnsupportedError
from ingot.frontends.onnx.functions import Body, LazyTypes
from ingot.frontends.onnx.objects import Object
from ingot.frontends.onnx.shapes import Declared

DEPTH_LIMIT = 32


@dataclass(slots=True)
class Scope:
    """The names of one graph or body. A subgraph sees the graphs around it, a body only its inputs, and what
    is around the call where the call gives it a graph (SequenceMap).

    A value of None is a function's input that the call leaves out. `prefix` begins the names a body makes,
    `caller` is the model's own node that all of it stands for.
    """

    opsets: Mapping[str, int]
    types: LazyTypes
    values: dict[str, Object | None] = field(default_factory=dict)
    declared: dict[str, Declared] = field(default_factory=dict)
    outer: Scope | None = None
    prefix: str = ""
    depth: int = 0
    caller: str = ""

    def find(self, name: str) -> Object | None:
        """Raises KeyError for a name without a meaning."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.values:
                return scope.values[name]
            scope = scope.outer
        raise KeyError(name)

    def knows(self, name: str) -> bool:
        """Whether a name has a meaning here."""
        return name in self.values or (self.outer is not None and self.outer.knows(name))

    def subgraph(self) -> Scope:
        return Scope(self.opsets, self.types, {}, {}, self, self.prefix, self._deeper(), self.caller)

    def call(self, body: Body, node: onnx.NodeProto, inputs: list[Object | None]) -> Scope:
        label = node.name or next(iter(node.output), "") or node.op_type
        missing: list[Object | None] = [None] * (len(body.inputs) - len(inputs))
        values = dict(zip(body.inputs, inputs + missing, strict=True))
        types = self.types.inside(body, node)
        outer = self if any(a.HasField("g") for a in node.attribute) else None
        if outer is not None and (hidden := [n for n in values if self._differs(n, values[n])]):
            raise UnsupportedError(
                f"{node.op_type} node {label!r}: the model has a value {hidden[0]!r} as well"
            )
        caller = self.caller or f"{node.op_type} node {label!r}"
        return Scope(body.opsets, types, values, {}, outer, f"{self.prefix}{label}/", self._deeper(), caller)

    def _differs(self, name: str, thing: Object | None) -> bool:
        """Whether a name means something else here."""
        try:
            return self.find(name) is not thing
        except KeyError:
            return False

    def _deeper(self) -> int:
        if self.depth == DEPTH_LIMIT:
            raise UnsupportedError(f"subgraphs and functions are nested more than {DEPTH_LIMIT} deep")
        return self.depth + 1
