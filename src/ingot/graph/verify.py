"""The verifier of a graph, run after every pass. In: a graph; out: the same, or a ModelError naming the node.

Holds afterwards: every value is made once; nodes stand in topological order; whatever is read is an input, a
constant, made before, or seen from an enclosing graph; types, shapes and constants fit each other as far as
they are known; the names of the main graph's inputs and outputs are distinct.
"""

from __future__ import annotations

from collections.abc import Iterable

from ingot.errors import ModelError, UnsupportedError
from ingot.formula.index import upper
from ingot.graph.ir import Graph, Node, Value

COUNT_LIMIT = 1 << 31  # elements of a tensor: they are counted in int
RANK_LIMIT = 64  # axes of a tensor, as numpy has it: loops are nested so deep
DEPTH_LIMIT = 64
BOUNDARY_LIMIT = 1 << 13  # pointers that a C function takes: compilers take the square of them


def verify(graph: Graph) -> Graph:
    """Return the graph itself. Raises ModelError where it breaks a rule."""
    _verify(graph, set(), set(), 0)
    if (tensors := len(graph.inputs) + len(graph.outputs)) > BOUNDARY_LIMIT:
        raise UnsupportedError(
            f"the model has {tensors:,} inputs and outputs, a C function takes at most {BOUNDARY_LIMIT:,}",
            remedy="join some of them",
        )
    for what, values in (("inputs", graph.inputs), ("outputs", graph.outputs)):
        twice = _repeated(v.name for v in values)
        if twice is not None:
            raise ModelError(f"two graph {what} have the name {twice!r}")
    return graph


def _verify(graph: Graph, outside: set[Value], made: set[Value], depth: int) -> None:
    """`outside`: what the enclosing graphs have made so far; `made`: everything made in any graph."""
    if depth > DEPTH_LIMIT:
        raise ModelError(f"subgraphs are nested more than {DEPTH_LIMIT} deep")
    seen = outside
    for value in graph.inputs:
        _enter(value, graph, "input", made)
        if value.constant is not None:
            raise ModelError(f"graph {graph.name!r}: the input {value.name!r} is a constant")
    added = list(graph.inputs)
    seen.update(added)
    for node in graph.nodes:
        added += _node(node, seen, made, depth)
    for value in graph.outputs:
        if value not in seen:
            _constant(value, graph, "the output")
    seen.difference_update(added)


def _node(node: Node, seen: set[Value], made: set[Value], depth: int) -> list[Value]:
    """Check a node and return what it makes, now part of `seen`."""
    for value in node.inputs:
        if value is not None and value not in seen:
            _constant(value, node, "the input")
    for sub in node.attributes.values():
        if isinstance(sub, Graph):
            _verify(sub, seen, made, depth + 1)
    outputs = [v for v in node.outputs if v is not None]
    if not outputs:
        raise ModelError(f"{node.label}: makes nothing")
    for value in outputs:
        _enter(value, node, "output", made)
    seen.update(outputs)
    return outputs


def _enter(value: Value, owner: Graph | Node, role: str, made: set[Value]) -> None:
    if value in made:
        raise ModelError(f"{_named(owner, role)} {value.name!r} is made twice")
    made.add(value)
    _sane(value, owner, role)


def _constant(value: Value, owner: Graph | Node, role: str) -> None:
    """What nothing makes is a constant."""
    if value.constant is None:
        raise ModelError(f"{_named(owner, role)} {value.name!r} is read before anything makes it")
    _sane(value, owner, role)


def _sane(value: Value, owner: Graph | Node, role: str) -> None:
    """Type, shape and elements of one value fit each other."""
    if value.shape is not None:
        if len(value.shape) > RANK_LIMIT:
            what = f"{_named(owner, role)} {value.name!r}"
            raise ModelError(f"{what}: {len(value.shape)} axes, more than {RANK_LIMIT}")
        count = 1
        for n in value.shape:
            most = n if isinstance(n, int) else upper(n)
            count *= most
            if most < 0 or count >= COUNT_LIMIT:
                what = f"{_named(owner, role)} {value.name!r}"
                raise ModelError(f"{what}: its shape is negative or too large")
    array = value.constant
    if array is None:
        return
    if value.type is None or array.dtype != value.type.numpy or tuple(array.shape) != value.shape:
        what = f"{_named(owner, role)} {value.name!r}"
        raise ModelError(f"{what}: its elements are {array.dtype}{list(array.shape)}, not as it says")


def _named(owner: Graph | Node, role: str) -> str:
    """How an error calls a value's place; made for errors only, since a graph is verified many times."""
    return f"{owner.label if isinstance(owner, Node) else f'graph {owner.name!r}'}: {role}"


def _repeated(names: Iterable[str]) -> str | None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None
