"""Control flow: types and shapes of If, whose meaning is the graphs it holds; Loop is `ingot.ops.loop`'s.

Branches may give tensors of different extents: the result's are then data, measured by the branch that is
taken. Sequences get room for those of either branch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ingot.errors import ModelError, ShapeError
from ingot.formula.expr import data_extent
from ingot.formula.index import upper
from ingot.formula.types import BOOL, DType
from ingot.graph.ir import Attribute, Graph, Node, Value, constant_value
from ingot.ops.room import static_shape

Infer = Callable[..., Graph]
Shape = tuple[int, ...]


def body(node: Node, name: str) -> Graph:
    """A graph attribute. Raises ModelError where it is missing."""
    found = node.attributes.get(name)
    if not isinstance(found, Graph):
        raise ModelError(f"{node.label}: the graph '{name}' is missing")
    return found


def require_scalar(node: Node, value: Value | None, dtype: DType, what: str) -> None:
    """Raise ModelError unless a value that steers the node is one element of a type."""
    if value is None or value.shape is None:
        return
    if value.type is not dtype or any(n != 1 for n in value.shape):
        found = f"{value.type}{list(map(str, value.shape))}"
        raise ModelError(f"{node.label}: {what} is {found}, one {dtype} is needed")


def sequences(node: Node) -> tuple[int, ...]:
    """Where among the outputs (of a Loop: what it carries) the three values of a sequence begin."""
    found = node.attributes.get("sequences", ())
    assert isinstance(found, tuple)
    return tuple(int(i) for i in found)


def taken(node: Node) -> Graph | None:
    """The branch of an If whose condition is known at compile time."""
    condition = node.inputs[0]
    if condition is None or condition.constant is None:
        return None
    return body(node, "then_branch" if np.asarray(condition.constant).reshape(-1)[0] else "else_branch")


def infer_if(node: Node, infer: Infer) -> None:
    """Infer the branches and declare the outputs of an If. ShapeError where ranks or types differ."""
    if not node.inputs or node.inputs[0] is None:
        raise ModelError(f"{node.label}: the condition is missing")
    require_scalar(node, node.inputs[0], BOOL, "the condition")
    known = taken(node)
    branches = [known] if known else [body(node, "then_branch"), body(node, "else_branch")]
    for branch in branches:
        said = [static_shape(v.shape) for v in branch.outputs]
        infer(branch)
        if len(branch.outputs) != len(node.outputs):
            raise ModelError(
                f"{node.label}: {len(node.outputs)} outputs, but a branch gives {len(branch.outputs)}"
            )
        pin(branch, said, infer)
    if len(branches) == 2:
        for i in sequences(node):
            _same_room(node, branches, i, infer)
        for i in range(len(node.outputs)):
            _same_rank_of_one(branches, i, infer)
    for i, value in enumerate(node.outputs):
        _declare(node, value, [b.outputs[i] for b in branches], i)
        if known and value is not None:
            value.constant, value.known = known.outputs[i].constant, known.outputs[i].known


def _same_rank_of_one(branches: Sequence[Graph], i: int, infer: Infer) -> None:
    """Branches that give one element each give it in the larger rank of both: operators broadcast either.

    The standard's own body of AffineGrid has a scalar in one branch and a vector of one in the other.
    """
    shapes = [static_shape(b.outputs[i].shape) for b in branches]
    if any(s is None or any(n != 1 for n in s) for s in shapes):
        return
    rank = max(len(s) for s in shapes if s is not None)
    for branch in branches:
        value = branch.outputs[i]
        if len(value.shape or ()) < rank:
            made = Value(f"{value.name}.level")
            shape = constant_value(f"{value.name}.shape", np.ones(rank, np.int64))
            node = Node("Reshape", [value, shape], [made], name=made.name, version=5)
            infer(Graph("level", [], [made], [node]))
            branch.nodes.append(node)
            branch.outputs[i] = made


def _declare(node: Node, value: Value | None, made: Sequence[Value], i: int) -> None:
    """Output i, from what the branches give for it."""
    first = made[0]
    assert first.shape is not None
    for other in made[1:]:
        assert other.shape is not None
        if other.type is not first.type or len(other.shape) != len(first.shape):
            raise ShapeError(
                f"{node.label}: output {i} is {first.type}{list(map(str, first.shape))} in one branch, "
                f"{other.type}{list(map(str, other.shape))} in the other: type and rank must be the same"
            )
    if value is None:
        return
    value.type, value.shape = first.type, first.shape
    for d in range(len(first.shape)):
        extents = [v.shape[d] for v in made if v.shape is not None]
        if any(n != extents[0] for n in extents):  # equal ones are known outside: nobody else has the name
            measure(node, (i, d), value, max(map(upper, extents)))


def measure(node: Node, key: tuple[int, int], value: Value, most: int) -> None:
    """The extent along an axis of an output is data, up to `most`; key: (output, axis)."""
    assert value.shape is not None
    axis = key[1]
    node.measured[key] = data_extent(f"{value.name}_extent{axis}", most)
    value.shape = (*value.shape[:axis], node.measured[key], *value.shape[axis + 1 :])


def pin(graph: Graph, said: Sequence[Shape | None], infer: Infer) -> None:
    """Outputs that the model declares get the declared shape, checked, where theirs is data."""
    for i, (value, shape) in enumerate(zip(graph.outputs, said, strict=True)):
        if shape is None or value.shape is None or static_shape(value.shape) is not None:
            continue
        if len(shape) == len(value.shape):
            (graph.outputs[i],) = appended(graph, "Pinned", [value], infer, shape=shape)


def fit(graph: Graph, i: int, count: int, shape: Shape, like: Value, infer: Infer) -> None:
    """The sequence whose data is output i of a graph gets other room."""
    three = graph.outputs[i : i + 3]
    if three[0].shape == (count, *shape) and three[0].type is like.type:
        return
    assert like.type is not None
    graph.outputs[i : i + 3] = appended(
        graph, "SequenceFit", three, infer, count=count, shape=shape, dtype=like.type
    )


def appended(
    graph: Graph, op: str, inputs: Sequence[Value], infer: Infer, **attributes: Attribute
) -> list[Value]:
    """A new node at the end of a graph: as many outputs as inputs."""
    first = inputs[0].name
    made = [Value(f"{first}.{op}{i or ''}") for i in range(len(inputs))]
    node = Node(op, list(inputs), list(made), dict(attributes), first, "ingot")
    infer(Graph(op, [], list(made), [node]))
    graph.nodes.append(node)
    return made


def room(values: Sequence[Value]) -> tuple[int, Shape]:
    """How many elements a sequence has room for, and the extents of the largest."""
    assert values[0].shape is not None
    count, *rest = map(upper, values[0].shape)
    return count, tuple(rest)


def larger(a: tuple[int, Shape], b: tuple[int, Shape]) -> tuple[int, Shape]:
    """Room for the sequences of both. An axis that one has not takes one place."""
    (m, s), (n, t) = a, b
    if not m or not n:
        return (n, t) if not m else (m, s)
    rank = max(len(s), len(t))
    wide = [[*x, *[1] * (rank - len(x))] for x in (s, t)]
    return max(m, n), tuple(map(max, *wide)) if rank else ()


def _same_room(node: Node, branches: Sequence[Graph], i: int, infer: Infer) -> None:
    """Both branches' sequence i in room that serves either."""
    first, second = (b.outputs[i : i + 3] for b in branches)
    count, shape = larger(room(first), room(second))
    like = first[0] if room(first)[0] else second[0]
    for branch in branches:
        fit(branch, i, count, shape, like, infer)
