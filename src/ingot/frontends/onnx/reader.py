"""What the handlers of nodes and of the model's interface ask of whoever reads the model.

`graph.GraphReader` is it; the handlers stand below it, so it is named here by what it does.
"""

from __future__ import annotations

from typing import Protocol

import onnx

from ingot.formula.types import DType
from ingot.frontends.capacities import Capacities
from ingot.frontends.onnx.objects import Object
from ingot.frontends.onnx.scope import Scope
from ingot.frontends.onnx.shapes import Dimensions
from ingot.graph.ir import Attribute, Graph, Node, Value


class Reader(Protocol):
    """Defines values under the model's names and appends the nodes of its graphs."""

    dimensions: Dimensions
    capacities: Capacities
    text: DType

    def declare(self, proto: onnx.GraphProto, scope: Scope) -> None: ...

    def define(self, scope: Scope, name: str) -> Value: ...

    def value(self, scope: Scope, name: str, suffix: str = "") -> Value: ...

    def call_it(self, scope: Scope, name: str, thing: Object) -> None: ...

    def attribute(self, a: onnx.AttributeProto, node: Node) -> Attribute: ...

    def fill(self, graph: Graph, proto: onnx.GraphProto, scope: Scope) -> list[Object]: ...

    def count(self, nodes: int, label: str) -> None: ...
