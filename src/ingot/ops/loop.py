"""Loop: types and shapes of what it carries and collects.

What is carried may change its shape from iteration to iteration: its extents are then data, and carried
along. How large they get follows from the number of iterations where that has a bound, else from
`--capacity`. The body is inferred on copies until the room for what is carried serves all iterations; the
last copy stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ingot.errors import ModelError, ShapeError, UnsupportedError
from ingot.formula.expr import Extent, Param, text, walk
from ingot.formula.extents import extent
from ingot.formula.index import interval, upper
from ingot.formula.types import BOOL, INT64, DType
from ingot.graph.ir import Graph, Node, Value, copied
from ingot.graph.verify import COUNT_LIMIT
from ingot.ops.control import Infer, Shape, body, fit, larger, measure, pin, require_scalar, room, sequences
from ingot.ops.room import static_shape

ROUNDS = 24
PATIENCE = 3  # sizes in a row that grow before nothing but the user's word bounds them
ENDLESS_TURNS = 1 << 40  # a nanosecond each, a quarter of an hour
Key = tuple[int, int]  # a carried value and an axis of it


@dataclass(slots=True)
class _Growth:
    """How an extent grows: `sizes` after 0, 1, 2, ... turns; `final` where it is known for all."""

    sizes: list[int]
    final: int | None = None

    @property
    def now(self) -> int:
        return self.sizes[-1] if self.final is None else self.final


@dataclass(slots=True)
class _Loop:
    """One Loop while its shapes are looked for."""

    node: Node
    initial: list[Value]
    turns: int | None
    growth: dict[Key, _Growth] = field(default_factory=dict)
    types: dict[int, DType] = field(default_factory=dict)
    rooms: dict[int, tuple[int, Shape]] = field(default_factory=dict)

    @property
    def in_sequences(self) -> set[int]:
        """Carried values that are part of a sequence."""
        return {k for i in sequences(self.node) for k in (i, i + 1, i + 2)}


def inside(i: int) -> int:
    """Under which output of its node the extents of carried value i stand, as the body has it."""
    return -1 - i


def infer_loop(node: Node, infer: Infer) -> None:
    """Infer the body and declare the outputs of a Loop."""
    graph, initial = body(node, "body"), [v for v in node.inputs[2:] if v is not None]
    if len(initial) < len(node.inputs) - 2:
        raise ModelError(f"{node.label}: a carried value is missing")
    if len(graph.inputs) != 2 + len(initial) or len(graph.outputs) < 1 + len(initial):
        reason = f"the body's inputs or outputs do not fit {len(initial)} carried values"
        raise ModelError(f"{node.label}: {reason}")
    require_scalar(node, node.inputs[0], INT64, "the number of iterations")
    require_scalar(node, node.inputs[1], BOOL, "the condition")
    loop = _Loop(node, initial, _most_turns(node.inputs[0]))
    loop.rooms = {i: room(initial[i : i + 3]) for i in sequences(node)}
    for number in range(ROUNDS):
        trial = copied(graph)
        _enter(loop, trial)
        said = [static_shape(v.shape) for v in trial.outputs]
        infer(trial, **({"again": True} if number else {}))
        require_scalar(node, trial.outputs[0], BOOL, "the condition that the body gives")
        pin(trial, said, infer)
        if not _grown(loop, trial):
            break
    else:
        raise UnsupportedError(
            f"{node.label}: no bound is found for what it carries", remedy=_remedy(node, 0)
        )
    for i, (count, shape) in loop.rooms.items():
        fit(trial, 1 + i, count, shape, trial.inputs[2 + i], infer)
    _require_end(node, trial)
    node.attributes["body"] = trial
    _declare(loop, trial)


def _most_turns(limit: Value | None) -> int | None:
    """A bound on the number of iterations."""
    if limit is None:
        return None
    if limit.constant is not None:
        return max(int(np.asarray(limit.constant).reshape(-1)[0]), 0)
    return None if limit.known is None else max(upper(limit.known[0]), 0)


def _require_end(node: Node, graph: Graph) -> None:
    """Raise ModelError where no condition ends the loop, and no number of iterations soon."""
    limit, start = node.inputs[:2]
    turns = _most_turns(limit)
    at_run_time = limit is not None and limit.constant is None
    if at_run_time or (turns is not None and turns <= ENDLESS_TURNS) or not _is_true(start):
        return
    makers = {v: n for n in graph.nodes for v in n.outputs if v is not None}
    said: Value | None = graph.outputs[0]
    while said in makers and makers[said].op == "Identity":
        said = makers[said].inputs[0]
    if said is graph.inputs[1] or (said is not None and _is_true(said)):
        often = "forever" if turns is None else f"{turns} times"
        raise ModelError(
            f"{node.label} turns {often}: its condition is always true",
            remedy=f"give it at most {ENDLESS_TURNS} iterations, or a condition that the body computes",
        )


def _is_true(condition: Value | None) -> bool:
    """Whether a condition is known to be true; so is one that is left out."""
    return condition is None or (condition.constant is not None and bool(np.all(condition.constant)))


def _enter(loop: _Loop, graph: Graph) -> None:
    """The body's inputs, as large as is known so far that they get."""
    counter, active, *carried = graph.inputs
    counter.type, counter.shape = INT64, ()
    start = loop.node.inputs[1]
    active.type, active.shape = BOOL, () if start is None else start.shape  # () or one element
    for i, (inner, outer) in enumerate(zip(carried, loop.initial, strict=True)):
        inner.type, inner.shape = loop.types.get(i, outer.type), outer.shape
        for (k, d), growth in loop.growth.items():
            if k == i:
                measure(loop.node, (inside(i), d), inner, growth.now)
    for i, (count, shape) in loop.rooms.items():
        carried[i].shape, carried[i + 1].shape = (count, *shape), (count, len(shape))


def _grown(loop: _Loop, graph: Graph) -> bool:
    """Note how large what an iteration makes gets; whether the room for it has changed."""
    changed = False
    for i, (inner, made) in enumerate(zip(graph.inputs[2:], graph.outputs[1:], strict=False)):
        if i in loop.rooms:
            changed |= _more_room(loop, graph, i)
        elif i not in loop.in_sequences:
            changed |= _tensor(loop, i, inner, made)
    return changed


def _tensor(loop: _Loop, i: int, inner: Value, made: Value) -> bool:
    assert inner.shape is not None and made.shape is not None
    if made.type is not inner.type or len(made.shape) != len(inner.shape):
        raise ShapeError(
            f"{loop.node.label}: carried value {inner.name!r} goes in as {inner.type}{_text(inner.shape)} "
            f"and comes out as {made.type}{_text(made.shape)}; its type and rank must stay"
        )
    if loop.turns == 0:
        return False
    changed = False
    for d, (before, after) in enumerate(zip(inner.shape, made.shape, strict=True)):
        key = (i, d)
        if key not in loop.growth:
            if before == after:
                continue
            loop.growth[key] = _Growth([upper(before)])
            loop.growth[key].sizes.append(max(upper(before), upper(after)))
            _settle(loop, key, inner)
            changed = True
        else:
            changed |= _further(loop, key, inner, upper(after))
    return changed


def _further(loop: _Loop, key: Key, inner: Value, size: int) -> bool:
    """Another turn makes an extent of this size."""
    growth = loop.growth[key]
    if growth.final is not None or size <= growth.now:
        return False
    growth.sizes.append(size)
    _settle(loop, key, inner)
    return True


def _settle(loop: _Loop, key: Key, inner: Value) -> None:
    """Fix an extent's bound as soon as the number of iterations, or else the user, tells it."""
    growth = loop.growth[key]
    sizes, turns = growth.sizes, loop.turns
    step = sizes[-1] - sizes[-2]
    if not step:
        return
    if turns is not None and len(sizes) > turns:
        growth.final = sizes[-1]
    elif turns is not None and len(sizes) > 2 and step == sizes[-2] - sizes[-3]:
        growth.final = sizes[0] + turns * step
    if (turns is None and len(sizes) > PATIENCE) or max(sizes[-1], growth.final or 0) >= COUNT_LIMIT:
        growth.final = max(sizes[0], _capacity(loop, key, inner))


def _capacity(loop: _Loop, key: Key, inner: Value) -> int:
    """What the user says of an axis of a carried value: by the name it has outside or inside the loop."""
    i, axis = key
    outer = loop.node.outputs[i] if i < len(loop.node.outputs) else None
    given = next((v.capacity for v in (outer, inner) if v is not None and v.capacity is not None), None)
    if given is None:
        name = inner.name if outer is None else outer.name
        reason = f"{name!r} may grow from iteration to iteration, and the number of iterations has no bound"
        raise UnsupportedError(f"{loop.node.label}: {reason}", remedy=_remedy(loop.node, i))
    if isinstance(given, tuple):
        if axis >= len(given):
            raise ShapeError(f"{loop.node.label}: --capacity has {len(given)} axes, {axis + 1} are needed")
        return given[axis]
    return given


def _remedy(node: Node, i: int) -> str:
    value = node.outputs[i] if i < len(node.outputs) else None
    name = "VALUE" if value is None else value.name
    return f"say how large it can get: --capacity {name}=AxBx..., or --capacity N for all"


def _more_room(loop: _Loop, graph: Graph, i: int) -> bool:
    """The sequence whose data is carried value i."""
    made, inner = graph.outputs[1 + i : 4 + i], graph.inputs[2 + i]
    if loop.turns == 0 or not room(made)[0]:
        return False
    before = loop.rooms[i]
    if not before[0]:
        assert made[0].type is not None
        loop.types[i] = made[0].type
    elif made[0].type is not inner.type:
        reason = f"goes in with elements of {inner.type} and comes out with {made[0].type}"
        raise ShapeError(f"{loop.node.label}: the sequence {inner.name!r} {reason}")
    count, shape = larger(before, room(made))
    sizes = (count, *shape)
    old = (before[0], *(before[1] if before[0] else shape))
    for d, size in enumerate(sizes):
        key = (inside(i), d)  # apart from tensors: their arrays are large enough, nothing is measured
        if key not in loop.growth:
            first = old[d] if d < len(old) else size
            loop.growth[key] = _Growth([first])
        growth = loop.growth[key]
        if growth.final is None and size > growth.now:
            growth.sizes.append(size)
            _settle_sequence(loop, key, i, d, inner)
    found = [loop.growth[(inside(i), d)].now for d in range(len(sizes))]
    loop.rooms[i] = (found[0], tuple(found[1:]))
    return loop.rooms[i] != before


def _settle_sequence(loop: _Loop, key: Key, i: int, d: int, inner: Value) -> None:
    growth = loop.growth[key]
    sizes, turns = growth.sizes, loop.turns
    step = sizes[-1] - sizes[-2]
    if turns is not None and (len(sizes) > turns or (len(sizes) > 2 and step == sizes[-2] - sizes[-3])):
        growth.final = sizes[-1] if len(sizes) > turns else sizes[0] + turns * step
    endless = turns is None and (d == 0 or len(sizes) > PATIENCE)
    if endless or max(sizes[-1], growth.final or 0) >= COUNT_LIMIT:
        growth.final = max(sizes[0], _capacity(loop, (i, d), inner))


def _declare(loop: _Loop, graph: Graph) -> None:
    node, count = loop.node, len(loop.initial)
    for i, (value, inner) in enumerate(zip(node.outputs, graph.inputs[2:], strict=False)):
        if value is not None:
            value.type, value.shape = inner.type, loop.initial[i].shape
            for (k, d), growth in loop.growth.items():
                if k == i:
                    measure(node, (i, d), value, growth.now)
            if i in loop.in_sequences:
                value.shape = inner.shape
    inner_extents = _inner_extents(graph) | {p for (k, _), p in node.measured.items() if k < 0}
    for value, made in zip(node.outputs[count:], graph.outputs[1 + count :], strict=False):
        assert made.shape is not None
        if any(p in inner_extents for n in made.shape for p in _params(n)):
            reason = f"the extents {_text(made.shape)} of the slices of {made.name!r} are data"
            raise UnsupportedError(f"{node.label}: {reason}", remedy="declare their shape in the body")
        if value is not None:
            _declare_stacked(loop, graph, value, made)


def _declare_stacked(loop: _Loop, graph: Graph, value: Value, made: Value) -> None:
    """A scan output has one slice per iteration: how many that is may be data."""
    said = None if value.shape is None else value.shape[:1]
    known = trip_count(loop.node, graph)
    assert made.shape is not None
    value.type = made.type
    value.shape = (0 if known is None else known, *made.shape)
    if known is not None:
        return
    given = value.capacity[0] if isinstance(value.capacity, tuple) else value.capacity
    most = loop.turns if loop.turns is not None and loop.turns < COUNT_LIMIT else given
    if said and isinstance(said[0], int) and not (value.is_doubted and most is not None):
        value.shape = (said[0], *made.shape)
        return
    if most is None:
        reason = f"nothing bounds the number of iterations, which is the first extent of {value.name!r}"
        remedy = _remedy(loop.node, loop.node.outputs.index(value))
        raise UnsupportedError(f"{loop.node.label}: {reason}", remedy=remedy)
    measure(loop.node, (loop.node.outputs.index(value), 0), value, most)


def _inner_extents(graph: Graph) -> set[Param]:
    """Extents that are measured anew in every iteration."""
    found = {p for n in graph.nodes for p in n.measured.values()}
    return found.union(*(_inner_extents(g) for n in graph.nodes for g in n.subgraphs.values()))


def _params(n: Extent) -> list[Param]:
    return [] if isinstance(n, int) else [p for p in walk(n) if isinstance(p, Param)]


def _text(shape: Sequence[Extent]) -> str:
    return "[" + ", ".join(map(text, shape)) + "]"


def trip_count(node: Node, graph: Graph) -> Extent | None:
    """The number of iterations, where it is known: a number, or an extent."""
    limit, start = node.inputs[0], node.inputs[1]
    goes_on = _origin(graph.outputs[0], graph)
    always = goes_on is graph.inputs[1] or (goes_on.constant is not None and bool(goes_on.constant))
    begins = start is None or (start.constant is not None and bool(start.constant))
    if limit is None or not (always and begins):
        return None
    if limit.constant is not None:
        return max(int(np.asarray(limit.constant).reshape(-1)[0]), 0)
    if limit.known is None or interval(limit.known[0])[0] < 0:
        return None
    return extent(limit.known[0])


def _origin(value: Value, graph: Graph) -> Value:
    """The value that a chain of Identity nodes repeats."""
    makers = {v: n for n in graph.nodes for v in n.outputs}
    while value in makers and makers[value].op == "Identity":
        source = makers[value].inputs[0]
        assert source is not None
        value = source
    return value
