"""Control flow: types and shapes of If and Loop, whose meaning is the graphs they hold.

Shapes are static: a branch must give what the other gives, and what a loop carries keeps its shape.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ingot.errors import ModelError, ShapeError, UnsupportedError
from ingot.formula.expr import Extent
from ingot.formula.types import BOOL, INT64
from ingot.graph.ir import Graph, Node, Value

Infer = Callable[[Graph], Graph]


def infer_control(node: Node, infer: Infer) -> None:
    """Infer the graphs a node holds and declare its outputs. Raises ShapeError where shapes would vary at run
    time.
    """
    {"If": _infer_if, "Loop": _infer_loop}[node.op](node, infer)


def body(node: Node, name: str) -> Graph:
    """A graph attribute. Raises ModelError where it is missing."""
    found = node.attributes.get(name)
    if not isinstance(found, Graph):
        raise ModelError(f"{node.label}: the graph '{name}' is missing")
    return found


def taken(node: Node) -> Graph | None:
    """The branch of an If whose condition is known at compile time."""
    condition = node.inputs[0]
    if condition is None or condition.constant is None:
        return None
    return body(node, "then_branch" if np.asarray(condition.constant).reshape(-1)[0] else "else_branch")


def _infer_if(node: Node, infer: Infer) -> None:
    known = taken(node)
    branches = [known] if known else [body(node, "then_branch"), body(node, "else_branch")]
    for branch in branches:
        infer(branch)
        if len(branch.outputs) != len(node.outputs):
            raise ModelError(
                f"{node.label}: {len(node.outputs)} outputs, but a branch gives {len(branch.outputs)}"
            )
    for i, value in enumerate(node.outputs):
        first, *others = (b.outputs[i] for b in branches)
        for other in others:
            if (other.type, other.shape) != (first.type, first.shape):
                raise ShapeError(
                    f"{node.label}: output {i} is {first.type}{first.shape} in one branch, "
                    f"{other.type}{other.shape} in the other; shapes must be known at compile time"
                )
        if value is not None:
            value.type, value.shape = first.type, first.shape
            value.constant = first.constant if known else None


def _infer_loop(node: Node, infer: Infer) -> None:
    graph, initial = body(node, "body"), node.inputs[2:]
    if len(graph.inputs) != 2 + len(initial) or len(graph.outputs) < 1 + len(initial):
        raise ModelError(
            f"{node.label}: the body's inputs or outputs do not fit {len(initial)} carried values"
        )
    counter, going, *carried = graph.inputs
    counter.type, counter.shape = INT64, ()
    going.type, going.shape = BOOL, ()
    for inner, outer in zip(carried, initial, strict=True):
        if outer is None:
            raise ModelError(f"{node.label}: a carried value is missing")
        inner.type, inner.shape = outer.type, outer.shape
    infer(graph)
    _declare_loop(node, graph, carried)


def _declare_loop(node: Node, graph: Graph, carried: list[Value]) -> None:
    for inner, made in zip(carried, graph.outputs[1:], strict=False):
        if (made.type, made.shape) != (inner.type, inner.shape):
            raise ShapeError(
                f"{node.label}: carried value {inner.name!r} goes in as {inner.type}{inner.shape} and "
                f"comes out as {made.type}{made.shape}; its shape must stay"
            )
    results: list[tuple[Value, tuple[Extent, ...]]] = [(v, v.shape or ()) for v in carried]
    stacked = graph.outputs[1 + len(carried) :]
    if stacked:
        results += [(v, (trip_count(node, graph), *(v.shape or ()))) for v in stacked]
    for value, (source, shape) in zip(node.outputs, results, strict=False):
        if value is not None:
            value.type, value.shape = source.type, shape


def trip_count(node: Node, graph: Graph) -> int:
    """The number of turns, where it is known. Raises UnsupportedError where scan outputs would need it at run
    time.
    """
    limit, start = node.inputs[0], node.inputs[1]
    goes_on = _origin(graph.outputs[0], graph)
    always = goes_on is graph.inputs[1] or (goes_on.constant is not None and bool(goes_on.constant))
    begins = start is None or (start.constant is not None and bool(start.constant))
    if limit is None or limit.constant is None or not (always and begins):
        raise UnsupportedError(
            f"{node.label}: scan outputs of a loop whose number of turns is known at run time only; "
            "make the trip count a constant and the condition true"
        )
    return max(int(np.asarray(limit.constant).reshape(-1)[0]), 0)


def _origin(value: Value, graph: Graph) -> Value:
    """The value that a chain of Identity nodes repeats."""
    makers = {v: n for n in graph.nodes for v in n.outputs}
    while value in makers and makers[value].op == "Identity":
        source = makers[value].inputs[0]
        assert source is not None
        value = source
    return value
