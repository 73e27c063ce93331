"""Control flow: loops, branches and calls, in both of TensorFlow's forms.

Old graphs have frames: Enter, Merge, Switch, NextIteration, Exit around a loop, Switch and Merge around a
branch. New ones have While, If and calls of functions. A loop whose condition is known at every turn is
unrolled; any other becomes an ONNX Loop. A branch whose condition is known is taken; else a functional If
becomes an ONNX If, and a Merge chooses between what both branches computed. Called by `scope`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ingot.errors import ModelError, UnsupportedError
from ingot.formula.types import BOOL, INT32
from ingot.frontends.orders import Builder, aligned, own
from ingot.frontends.tensorflow.activation import Activation, Frame, Frames, Variable
from ingot.frontends.tensorflow.loops import State, Turns, run
from ingot.frontends.tensorflow.model import PORTS_LIMIT, Body, Node
from ingot.frontends.tensorflow.values import DEAD, Dead, Guard, Item, Tensor, tensor

MERGES = frozenset(("Merge", "RefMerge"))
ENTERS = frozenset(("Enter", "RefEnter"))
SWITCHES = frozenset(("Switch", "RefSwitch"))
NEXTS = frozenset(("NextIteration", "RefNextIteration"))
PIVOTS = MERGES | SWITCHES | {"_SwitchN", "Identity", "RefIdentity"}


def needed(scope: Activation, node: Node) -> list[str]:
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


# ---- frames


def _frames(scope: Activation) -> Frames:
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


def _frame(scope: Activation, exit_: Node) -> Frame:
    """The loop that a node leaves."""
    source = exit_.inputs[0][0] if exit_.inputs else ""
    if source not in _frames(scope):
        raise ModelError(f"{exit_.label} leaves no loop")
    return _frames(scope)[source]


def _leave(scope: Activation, node: Node) -> list[Item]:
    """Exit: run the loop, once for all that leaves it."""
    frame = _frame(scope, node)
    if frame.name not in scope.exits:
        scope.b.names.label, scope.b.names.place = node.label, scope.prefix + node.name
        first = [scope.item(v.enter.inputs[0], v.enter.label) for v in frame.variables]
        last = [DEAD] * len(first) if DEAD in first else run(scope.b, _turns(scope, frame, node), first)
        scope.exits[frame.name] = {v.switch.name: i for v, i in zip(frame.variables, last, strict=True)}
    return [scope.exits[frame.name][node.inputs[0][0]]]


def _turns(scope: Activation, frame: Frame, node: Node) -> Turns:
    def inside(b: Builder, state: State) -> Activation:
        made: dict[str, State] = {}
        for v, item in zip(frame.variables, state, strict=True):
            made[v.merge.name], made[v.switch.name] = [item, DEAD], [DEAD, item]
        return scope.inside(scope.body, b, made, frame=True)

    def turn(b: Builder, state: State) -> State:
        turned = inside(b, state)
        return [turned.item(v.next.inputs[0], v.next.label) for v in frame.variables]

    return Turns(node, lambda b, state: inside(b, state).item((frame.condition, 0), node.label), turn)


def _enter(scope: Activation, node: Node) -> list[Item]:
    """What comes into a frame is a value of the scope around it."""
    if not node.inputs:
        raise ModelError(f"{node.label} has no input")
    return [(scope.outer or scope).item(node.inputs[0], node.label)]


EXITS = frozenset(("Exit", "RefExit"))
LAZY: dict[str, Callable[[Activation, Node], list[Item]]] = {
    **dict.fromkeys(ENTERS, _enter),
    **dict.fromkeys(EXITS, _leave),
}
"""Nodes that do not evaluate their inputs in their own scope."""


# ---- branches of old graphs


def switch(scope: Activation, node: Node, items: State) -> list[Item]:
    """The data goes out at port 1 where the condition is true, at port 0 where it is not."""
    _require(node, items, 2)
    data, condition = items[0], tensor(items[1], node.label)
    if condition.constant is not None:
        return [DEAD, data] if np.any(condition.constant) else [data, DEAD]
    if not isinstance(data, Tensor):
        return [data, data]
    sides = ((condition.value, False), (condition.value, True))
    return [replace(data, guards=data.guards | condition.guards | {side}) for side in sides]


def switch_n(scope: Activation, node: Node, items: State) -> list[Item]:
    """The data goes out at the port of a number; beyond the last, at the last."""
    _require(node, items, 2)
    known, count = tensor(items[1], node.label).constant, node.integer("num_outs", 1)
    if known is None or known.size != 1 or not 0 < count <= PORTS_LIMIT:
        raise UnsupportedError(f"{node.label}: the number of its branch is known at run time only")
    at = int(known.reshape(()))
    return [items[0] if i == (at if 0 <= at < count else count - 1) else DEAD for i in range(count)]


def merge(scope: Activation, node: Node, items: State) -> list[Item]:
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


def _call(scope: Activation, b: Builder, name: str, node: Node, items: State) -> State:
    """What a function returns."""
    body = scope.world.model.function(name, node.label)
    if len(body.inputs) != len(items):
        raise ModelError(f"{node.label}: {body.name} takes {len(body.inputs)} inputs, not {len(items)}")
    inner = scope.inside(body, b, {a: [i] for a, i in zip(body.inputs, items, strict=True)})
    return [inner.item(ref, body.name) for ref in body.outputs]


def _partitioned(scope: Activation, node: Node, items: State) -> list[Item]:
    return _call(scope, scope.b, node.function("f") or node.op, node, items)


def _while(scope: Activation, node: Node, items: State) -> list[Item]:
    def goes_on(b: Builder, state: State) -> Item:
        return next(iter(_call(scope, b, node.function("cond"), node, state)), DEAD)

    def turn(b: Builder, state: State) -> State:
        b.names.place = scope.prefix + node.name
        return _call(scope, b, node.function("body"), node, state)

    return run(scope.b, Turns(node, goes_on, turn), items)


def _if(scope: Activation, node: Node, items: State) -> list[Item]:
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
        inner.graph.outputs = own(inner, [inner.plain(tensor(i, node.label)) for i in made])
        graphs[branch] = inner.graph
        b.names.place, b.names.label = place, node.label
    on = b.reshape(b.cast(b.plain(condition), BOOL), ())
    made_values = b.many("If", len(graphs["then_branch"].outputs), on, **graphs)
    return [Tensor(v) for v in made_values]


def _case(scope: Activation, node: Node, items: State) -> list[Item]:
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


CALLS: dict[str, Callable[[Activation, Node, State], list[Item]]] = {
    **dict.fromkeys(SWITCHES, switch),
    "_SwitchN": switch_n,
    **dict.fromkeys(("PartitionedCall", "StatefulPartitionedCall", "RemoteCall"), _partitioned),
    **dict.fromkeys(("While", "StatelessWhile"), _while),
    **dict.fromkeys(("If", "StatelessIf"), _if),
    **dict.fromkeys(("Case", "StatelessCase"), _case),
}


def call_of(scope: Activation, node: Node) -> Callable[[Activation, Node, State], list[Item]] | None:
    """What runs a node that is control flow; in old graphs an operator may be called like a function."""
    found = CALLS.get(node.op)
    return _partitioned if found is None and node.op in scope.world.model.functions else found


def functions_of(node: Node) -> list[str]:
    """The functions that a node may call."""
    names = [node.function(a) for a in ("f", "cond", "body", "then_branch", "else_branch")]
    return [n for n in (*names, *node.functions("branches"), node.op) if n]
