"""Control flow: loops, branches and calls, in both of TensorFlow's forms.

Old graphs have frames: Enter, Merge, Switch, NextIteration, Exit around a loop, Switch and Merge around a
branch. New ones have While, If and calls of functions. A loop whose condition is known at every turn is
unrolled; any other becomes an ONNX Loop. A branch whose condition is known is taken; else a functional If
becomes an ONNX If, and a Merge chooses between what both branches computed. Called by `scope`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from ingot.errors import ModelError, UnsupportedError
from ingot.formula.types import BOOL, INT32, INT64
from ingot.frontends.tensorflow.builder import Builder
from ingot.frontends.tensorflow.model import Body, Node
from ingot.frontends.tensorflow.ops.arrays import dense
from ingot.frontends.tensorflow.ops.table import Call, aligned
from ingot.frontends.tensorflow.values import DEAD, Array, Dead, Guard, Item, Tensor, tensor
from ingot.graph.ir import Value

if TYPE_CHECKING:
    from ingot.frontends.tensorflow.scope import Scope

PORTS_LIMIT = 1 << 16
UNROLLED_TURNS = 4096
UNROLLED_NODES = 10_000
MERGES = frozenset(("Merge", "RefMerge"))
ENTERS = frozenset(("Enter", "RefEnter"))
SWITCHES = frozenset(("Switch", "RefSwitch"))
NEXTS = frozenset(("NextIteration", "RefNextIteration"))
PIVOTS = MERGES | SWITCHES | {"_SwitchN", "Identity", "RefIdentity"}
State = list[Item]


def needed(scope: Scope, node: Node) -> list[str]:
    """The nodes of this scope that must be evaluated before a node is."""
    if node.op in ENTERS and scope.outer is not None:
        return []
    if node.op in EXITS:
        return [v.enter.inputs[0][0] for v in _frame(scope, node).variables]
    return [*(name for name, _ in node.inputs), *pivots(scope.body, node)]


def pivots(body: Body, node: Node) -> list[str]:
    """What tells in which branch a node without inputs stands."""
    if node.inputs:
        return []
    return [n for n in node.controls if n in body.nodes and body.nodes[n].op in PIVOTS]


# ---- loops


@dataclass(frozen=True, slots=True)
class Turns:
    """A loop of `node`: its condition and its body, both written to a builder of the caller's choice."""

    node: Node
    goes_on: Callable[[Builder, State], Item]
    turn: Callable[[Builder, State], State]

    def condition(self, b: Builder, state: State) -> Tensor:
        found = tensor(self.goes_on(b, state), self.node.label)
        if int(np.prod(found.shape)) != 1:
            raise ModelError(f"{self.node.label}: the condition has the shape {list(found.shape)}")
        return found


def run(b: Builder, loop: Turns, state: State) -> State:
    """The state after the loop. What an attempt to unroll it has written is pruned in the end."""
    place, first, begin = b.names.place, state, len(b.graph.nodes)
    for turns in range(UNROLLED_TURNS):
        known = loop.condition(b, state).constant
        if known is None or (turns > 1 and len(b.graph.nodes) - begin > UNROLLED_NODES):
            break
        if not np.any(known):
            return state
        state = loop.turn(b, state)
    b.names.place, b.names.label = place, loop.node.label
    return _loop(b, loop, first)


def _loop(b: Builder, loop: Turns, first: State) -> State:
    """ONNX's Loop carries tensors: the elements of an array are one."""
    carried = _carried(b, loop, first)
    place = b.names.place
    inner = b.inner(b.names.fresh(f"{place}/body"))
    before = [b.plain(t) for t in _tensors(b, loop, carried)]
    start = b.reshape(b.cast(b.plain(loop.condition(b, carried)), BOOL), ())
    names = (b.names.fresh(f"{place}/{name}") for name in ("turn", "on", *["state"] * len(before)))
    kinds = [(INT64, ()), (BOOL, ()), *((v.type, v.shape) for v in before)]
    inner.graph.inputs = [Value(n, t, s) for n, (t, s) in zip(names, kinds, strict=True)]
    turned = loop.turn(inner, _filled(carried, inner.graph.inputs[2:]))
    b.names.place, b.names.label = place, loop.node.label
    after = [inner.plain(t) for t in _tensors(inner, loop, turned)]
    on = inner.reshape(inner.cast(inner.plain(loop.condition(inner, turned)), BOOL), ())
    if on.constant is not None and on.constant.all():
        raise UnsupportedError(f"{loop.node.label}: the loop does not end: its condition is always true")
    for x, y in zip(before, after, strict=True):
        if (x.type, x.shape) != (y.type, y.shape):
            goes = f"goes in as {x.type}{x.shape} and comes out as {y.type}{y.shape}"
            raise UnsupportedError(f"{loop.node.label}: what it carries {goes}; its shape must stay")
    inner.graph.outputs = _own(inner, [on, *after])
    b.names.place, b.names.label = place, loop.node.label
    return _filled(carried, b.many("Loop", len(before), None, start, *before, body=inner.graph))


def _carried(b: Builder, loop: Turns, state: State) -> State:
    """The state with every array's elements stacked. What an empty one will hold is seen by trying a turn."""
    if any(isinstance(i, Array) and not _is_shaped(i) for i in state):
        tried = loop.turn(b.inner("trial"), state)
        state = [_shaped(i, after) for i, after in zip(state, tried, strict=True)]
    return [
        replace(i, dense=dense(Call(b, loop.node, []), i), items={}) if isinstance(i, Array) else i
        for i in state
    ]


def _is_shaped(array: Array) -> bool:
    is_told = array.element is not None and None not in array.element and array.dtype is not None
    return bool(array.items) or array.dense is not None or is_told


def _shaped(before: Item, after: Item) -> Item:
    """An array that is told by the next one what its elements are."""
    if not isinstance(before, Array) or not isinstance(after, Array) or _is_shaped(before):
        return before
    if after.size > before.size:
        raise UnsupportedError("an array grows in a loop whose number of turns is known at run time only")
    some = next(iter(after.items.values()), None)
    if some is None and after.dense is not None:
        return replace(before, element=after.dense.shape[1:], dtype=after.dense.dtype)
    return before if some is None else replace(before, element=some.shape, dtype=some.dtype)


def _tensors(b: Builder, loop: Turns, state: State) -> Iterator[Tensor]:
    for item in state:
        if isinstance(item, Tensor):
            yield item
        elif isinstance(item, Array):
            yield dense(Call(b, loop.node, []), item)


def _filled(state: State, values: list[Value]) -> State:
    """The state with these values for its tensors and arrays; variables stay."""
    rest = iter(values)
    filled: State = []
    for item in state:
        if isinstance(item, Array):
            item = replace(item, dense=Tensor(next(rest)), items={})
        elif isinstance(item, Tensor):
            item = Tensor(next(rest))
        filled.append(item)
    return filled


def _own(inner: Builder, values: list[Value]) -> list[Value]:
    """Outputs of a graph are made in it, each by itself."""
    made = {v for n in inner.graph.nodes for v in n.outputs}
    out: list[Value] = []
    for value in values:
        out.append(value if value in made and value not in out else inner.one("Identity", value))
    return out


# ---- frames


@dataclass(frozen=True, slots=True)
class Variable:
    """One that a frame carries: where it enters, meets what the turn before left, leaves, is handed on."""

    enter: Node
    merge: Node
    switch: Node
    next: Node


@dataclass(slots=True)
class Frame:
    """A loop among the nodes of a graph. `condition` is its LoopCond."""

    name: str
    condition: str = ""
    variables: list[Variable] = field(default_factory=list)


Frames = dict[str, Frame]
"""By the names of the Switch nodes."""


def _frames(scope: Scope) -> Frames:
    """The frames of a body, of what is wanted of it."""
    body = scope.body
    if body in scope.world.frames:
        return scope.world.frames[body]
    wanted = list(body.outputs) or scope.world.wanted
    reached = {n.name: n for n in body.reached(wanted)}
    switches = {n.inputs[0][0]: n for n in reached.values() if n.op in SWITCHES and len(n.inputs) == 2}
    by_name: dict[str, Frame] = {}
    found = scope.world.frames[body] = {}
    for merge in reached.values():
        sources = [reached[n] for n, _ in merge.inputs if n in reached] if merge.op in MERGES else []
        enter = next((n for n in sources if n.op in ENTERS), None)
        after = next((n for n in sources if n.op in NEXTS), None)
        switch = switches.get(merge.name)
        if enter is None or after is None or switch is None:
            continue
        frame = by_name.setdefault(enter.text("frame_name"), Frame(enter.text("frame_name")))
        if frame.condition not in ("", switch.inputs[1][0]) or not enter.inputs or not after.inputs:
            raise ModelError(f"{switch.label}: the frame {frame.name!r} has no condition of its own")
        frame.condition = switch.inputs[1][0]
        frame.variables.append(Variable(enter, merge, switch, after))
        found[switch.name] = frame
    return found


def _frame(scope: Scope, exit_: Node) -> Frame:
    """The loop that a node leaves."""
    source = exit_.inputs[0][0] if exit_.inputs else ""
    if source not in _frames(scope):
        raise ModelError(f"{exit_.label} leaves no loop")
    return _frames(scope)[source]


def _leave(scope: Scope, node: Node) -> list[Item]:
    """Exit: run the loop, once for all that leaves it."""
    frame = _frame(scope, node)
    if frame.name not in scope.exits:
        scope.b.names.label, scope.b.names.place = node.label, scope.prefix + node.name
        first = [scope.item(v.enter.inputs[0], v.enter.label) for v in frame.variables]
        last = [DEAD] * len(first) if DEAD in first else run(scope.b, _turns(scope, frame, node), first)
        scope.exits[frame.name] = {v.switch.name: i for v, i in zip(frame.variables, last, strict=True)}
    return [scope.exits[frame.name][node.inputs[0][0]]]


def _turns(scope: Scope, frame: Frame, node: Node) -> Turns:
    def inside(b: Builder, state: State) -> Scope:
        made: dict[str, State] = {}
        for v, item in zip(frame.variables, state, strict=True):
            made[v.merge.name], made[v.switch.name] = [item, DEAD], [DEAD, item]
        return scope.inside(scope.body, b, made, frame=True)

    def turn(b: Builder, state: State) -> State:
        turned = inside(b, state)
        return [turned.item(v.next.inputs[0], v.next.label) for v in frame.variables]

    return Turns(node, lambda b, state: inside(b, state).item((frame.condition, 0), node.label), turn)


def _enter(scope: Scope, node: Node) -> list[Item]:
    """What comes into a frame is a value of the scope around it."""
    if not node.inputs:
        raise ModelError(f"{node.label} has no input")
    return [(scope.outer or scope).item(node.inputs[0], node.label)]


EXITS = frozenset(("Exit", "RefExit"))
LAZY: dict[str, Callable[[Scope, Node], list[Item]]] = {
    **dict.fromkeys(ENTERS, _enter),
    **dict.fromkeys(EXITS, _leave),
}
"""Nodes that do not evaluate their inputs in their own scope."""


# ---- branches of old graphs


def switch(scope: Scope, node: Node, items: State) -> list[Item]:
    """The data goes out at port 1 where the condition is true, at port 0 where it is not."""
    _require(node, items, 2)
    data, condition = items[0], tensor(items[1], node.label)
    if condition.constant is not None:
        return [DEAD, data] if np.any(condition.constant) else [data, DEAD]
    if not isinstance(data, Tensor):
        return [data, data]
    sides = ((condition.value, False), (condition.value, True))
    return [replace(data, guards=data.guards | condition.guards | {side}) for side in sides]


def switch_n(scope: Scope, node: Node, items: State) -> list[Item]:
    """The data goes out at the port of a number; beyond the last, at the last."""
    _require(node, items, 2)
    known, count = tensor(items[1], node.label).constant, node.integer("num_outs", 1)
    if known is None or known.size != 1 or not 0 < count <= PORTS_LIMIT:
        raise UnsupportedError(f"{node.label}: the number of its branch is known at run time only")
    at = int(known.reshape(()))
    return [items[0] if i == (at if 0 <= at < count else count - 1) else DEAD for i in range(count)]


def merge(scope: Scope, node: Node, items: State) -> list[Item]:
    """The input that is alive; of two, the one whose branch is taken, and its number."""
    alive = [(i, item) for i, item in enumerate(items) if not isinstance(item, Dead)]
    if not alive:
        return [DEAD]
    if len(alive) == 1:
        i, item = alive[0]
        return [item, Tensor(scope.b.constant(i, INT32))]
    tensors = [tensor(item, node.label) for item in items]
    guard = _deciding(tensors)
    if len(tensors) != 2 or guard is None:
        raise UnsupportedError(
            f"{node.label}: the condition that decides between its inputs is not to be seen"
        )
    condition, is_first = guard
    values, order = aligned(scope.b, tensors)
    chosen = values if is_first else values[::-1]
    if values[0].shape != values[1].shape:
        raise UnsupportedError(f"{node.label}: the branches give {values[0].shape} and {values[1].shape}")
    on = scope.b.reshape(scope.b.cast(condition, BOOL), ())
    guards = (tensors[0].guards | tensors[1].guards) - {(condition, True), (condition, False)}
    numbers = [scope.b.constant(i, INT32) for i in ((0, 1) if is_first else (1, 0))]
    which = Tensor(scope.b.one("Where", on, *numbers), None, guards)
    return [Tensor(scope.b.one("Where", on, *chosen), order, guards), which]


def _deciding(tensors: list[Tensor]) -> Guard | None:
    """The condition that only one of the two was computed under, or each under another side of it."""
    first, second = (t.guards for t in tensors[:2])
    both = [(c, side) for c, side in first if (c, not side) in second]
    one = [(c, side) for c, side in first if (c, side) not in second]
    other = [(c, not side) for c, side in second if (c, side) not in first]
    found = both or one or other
    return found[0] if len(found) == 1 else None


# ---- functions


def _call(scope: Scope, b: Builder, name: str, node: Node, items: State) -> State:
    """What a function returns."""
    body = scope.world.model.function(name, node.label)
    if len(body.inputs) != len(items):
        raise ModelError(f"{node.label}: {body.name} takes {len(body.inputs)} inputs, not {len(items)}")
    inner = scope.inside(body, b, {a: [i] for a, i in zip(body.inputs, items, strict=True)})
    return [inner.item(ref, body.name) for ref in body.outputs]


def _partitioned(scope: Scope, node: Node, items: State) -> list[Item]:
    return _call(scope, scope.b, node.function("f") or node.op, node, items)


def _while(scope: Scope, node: Node, items: State) -> list[Item]:
    def goes_on(b: Builder, state: State) -> Item:
        return next(iter(_call(scope, b, node.function("cond"), node, state)), DEAD)

    def turn(b: Builder, state: State) -> State:
        b.names.place = scope.prefix + node.name
        return _call(scope, b, node.function("body"), node, state)

    return run(scope.b, Turns(node, goes_on, turn), items)


def _if(scope: Scope, node: Node, items: State) -> list[Item]:
    _require(node, items, 1)
    b, place = scope.b, scope.b.names.place
    condition, branches = tensor(items[0], node.label), ("then_branch", "else_branch")
    if condition.constant is not None:
        taken = branches[0] if np.any(condition.constant) else branches[1]
        return _call(scope, b, node.function(taken), node, items[1:])
    graphs = {}
    for branch in branches:
        inner = b.inner(b.names.fresh(f"{place}/{branch}"))
        made = _call(scope, inner, node.function(branch), node, items[1:])
        inner.graph.outputs = _own(inner, [inner.plain(tensor(i, node.label)) for i in made])
        graphs[branch] = inner.graph
        b.names.place, b.names.label = place, node.label
    on = b.reshape(b.cast(b.plain(condition), BOOL), ())
    made_values = b.many("If", len(graphs["then_branch"].outputs), on, **graphs)
    return [Tensor(v) for v in made_values]


def _case(scope: Scope, node: Node, items: State) -> list[Item]:
    """The branch of a number that is known; beyond the last, the last."""
    _require(node, items, 1)
    known, names = tensor(items[0], node.label).constant, functions_of(node)[:-1]
    if known is None or known.size != 1 or not names:
        raise UnsupportedError(f"{node.label}: the number of its branch is known at run time only")
    at = int(known.reshape(()))
    return _call(scope, scope.b, names[at if 0 <= at < len(names) else -1], node, items[1:])


def _require(node: Node, items: State, count: int) -> None:
    if len(items) < count:
        raise ModelError(f"{node.label}: {len(items)} inputs are too few")


CALLS: dict[str, Callable[[Scope, Node, State], list[Item]]] = {
    **dict.fromkeys(SWITCHES, switch),
    "_SwitchN": switch_n,
    **dict.fromkeys(("PartitionedCall", "StatefulPartitionedCall", "RemoteCall"), _partitioned),
    **dict.fromkeys(("While", "StatelessWhile"), _while),
    **dict.fromkeys(("If", "StatelessIf"), _if),
    **dict.fromkeys(("Case", "StatelessCase"), _case),
}


def call_of(scope: Scope, node: Node) -> Callable[[Scope, Node, State], list[Item]] | None:
    """What runs a node that is control flow; in old graphs an operator may be called like a function."""
    found = CALLS.get(node.op)
    return _partitioned if found is None and node.op in scope.world.model.functions else found


def functions_of(node: Node) -> list[str]:
    """The functions that a node may call."""
    names = [node.function(a) for a in ("f", "cond", "body", "then_branch", "else_branch")]
    return [n for n in (*names, *node.functions("branches"), node.op) if n]
