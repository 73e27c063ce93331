"""`--state NEXT=PREV`: pair an output with an input, so that what one run leaves is what the next one finds.

In: an inferred graph and the names. Out: the graph with `states`, each checked: the two values have one type
and one fixed shape, and no value stands in two pairs. Pairs that a frontend made already are checked too.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence

from ingot.errors import InputError
from ingot.graph.ir import Graph, State, Value
from ingot.graph.text import describe


def pair_states(graph: Graph, wanted: Mapping[str, str]) -> Graph:
    """Pair in place and return the graph. Raises InputError for a pair that cannot be."""
    for after, before in wanted.items():
        output = _find(graph.outputs, after, "output", f"--state {after}={before}")
        input_ = _find(graph.inputs, before, "input", f"--state {after}={before}")
        graph.states.append(State(output, input_, graph.inputs[input_].initial))
    for state in graph.states:
        _require_alike(graph.outputs[state.output], graph.inputs[state.input])
    _require_once("output", (graph.outputs[s.output].name for s in graph.states))
    _require_once("input", (graph.inputs[s.input].name for s in graph.states))
    return graph


def _find(values: Sequence[Value], name: str, kind: str, option: str) -> int:
    names = [v.name for v in values]
    if name not in names:
        near = difflib.get_close_matches(name, names, 8, 0.5) or names[:8]
        listed = ", ".join(map(repr, near)) or "none"
        raise InputError(f"{option}: the model has no {kind} {name!r}", remedy=f"its {kind}s: {listed}")
    return names.index(name)


def _require_alike(after: Value, before: Value) -> None:
    option = f"--state {after.name}={before.name}"
    if after.type is not before.type or after.shape != before.shape:
        raise InputError(
            f"{option}: the two differ in type or shape: {describe(after)}, {describe(before)}",
            remedy="a state is an output and an input of equal type and shape",
        )
    assert before.shape is not None, "graph inputs have shapes"
    if any(not isinstance(n, int) for n in before.shape):
        raise InputError(
            f"{option}: the shape of {describe(before)} is known at run time only",
            remedy="a state keeps its shape between runs: --define its dimensions as numbers",
        )


def _require_once(kind: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InputError(f"--state: the {kind} {name!r} is in two pairs", remedy="pair it once")
        seen.add(name)
