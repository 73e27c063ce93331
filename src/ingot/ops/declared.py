"""Declared shapes, taken to where they are needed.

In: a graph in which some values are declared. Out: the same graph; where a declared value has, element by
element, the shape of what a node further up makes, that value has its shape too. `Builder.declared` reads it:
a shape that follows from run-time parameters cannot be inferred. Called by `infer`.

    s = ReduceSum(x, axes)         s has no shape: axes is an input
    y = Sqrt(Cast(s))              y is declared as [3, 2], hence so is s
"""

from __future__ import annotations

from ingot.graph.ir import Graph, Node, Value

UNARY = {
    *("Abs", "Cast", "CastLike", "Ceil", "Cos", "Erf", "Exp", "Floor", "Identity", "Log", "Neg", "Not"),
    *("Reciprocal", "Relu", "Round", "Sigmoid", "Sin", "Sqrt", "Tanh"),
}
BROADCAST = {"Add", "Div", "Max", "Min", "Mul", "Pow", "Sub"}


def spread_declared(graph: Graph) -> None:
    """Declare in place; subgraphs are done when they are inferred."""
    sources: dict[Value, Value | None] = {}
    for node in graph.nodes:
        out = node.outputs[0] if len(node.outputs) == 1 else None
        if out is None or node.domain or node.op not in UNARY | BROADCAST:
            continue
        shaped = {_source(v, sources) for v in _operands(node)} - {None}
        if len(shaped) > 1:
            continue
        source = sources[out] = next(iter(shaped), None)
        if source is not None and source.shape is None:
            source.shape = out.shape


def _operands(node: Node) -> list[Value]:
    """The inputs that the shape follows from."""
    return [v for v in (node.inputs[:1] if node.op in UNARY else node.inputs) if v is not None]


def _source(value: Value, sources: dict[Value, Value | None]) -> Value | None:
    """The value whose shape this one has; None for scalars, which broadcast to any shape."""
    return None if value.shape == () else sources.get(value, value)
