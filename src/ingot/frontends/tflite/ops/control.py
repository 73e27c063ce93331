"""Branches, loops, calls of subgraphs, and variables."""

from __future__ import annotations

from typing import Any

from ingot.errors import ModelError
from ingot.formula.types import BOOL
from ingot.frontends.orders import Builder, own
from ingot.frontends.tensorflow.loops import Turns, run
from ingot.frontends.tensorflow.ops.table import Result
from ingot.frontends.tensorflow.values import Item, Resource, Tensor, tensor
from ingot.frontends.tflite.ops.table import Call, op
from ingot.graph.ir import Value


@op("CALL_ONCE")
def call_once(c: Call) -> Result:
    """What runs before the first run: it gives variables their first content."""
    variables = c.scope.variables
    outer, variables.is_initialising = variables.is_initialising, True
    c.scope.call(int(c.option("init_subgraph_index")), [], c.operator.label)
    variables.is_initialising = outer
    return []


@op("CALL")
def call(c: Call) -> Result:
    return list(c.scope.call(int(c.option("subgraph")), list(c.items), c.operator.label))


@op("IF")
def if_(c: Call) -> Result:
    """Both branches are written unless the condition is known."""
    branches = [int(c.option(f"{name}_subgraph_index")) for name in ("then", "else")]
    condition, given = c.tensor(0), list(c.items[1:])
    known = condition.constant
    if known is not None:
        return list(c.scope.call(branches[0 if known.any() else 1], given, c.operator.label))
    bodies = []
    states = _contents(c)
    for name, index in zip(("then", "else"), branches, strict=True):
        inner = c.b.inner(c.b.names.fresh(f"{c.b.names.place}/{name}"))
        made = c.scope.call(index, given, c.operator.label, inner)
        inner.graph.outputs = own(inner, [inner.plain(tensor(m, c.operator.label)) for m in made])
        bodies.append(inner.graph)
        if _contents(c) != states:
            raise c.refuse("a variable written in a branch is not supported")
    flag = c.b.reshape(c.b.cast(c.b.plain(condition), BOOL), ())
    names: dict[str, Any] = {"then_branch": bodies[0], "else_branch": bodies[1]}
    return list(c.b.many("If", len(c.results), flag, **names))


def _contents(c: Call) -> list[Value]:
    """What variables hold, to see whether that changes."""
    return [s.now.value for s in c.scope.variables.states.values()]


@op("WHILE")
def while_(c: Call) -> Result:
    """Unrolled while the condition is known, else a loop."""
    condition, body = (int(c.option(f"{name}_subgraph_index")) for name in ("cond", "body"))
    label, states = c.operator.label, _contents(c)

    def goes_on(b: Builder, state: list[Item]) -> Item:
        found = c.scope.call(condition, state, label, b)
        if len(found) != 1:
            raise ModelError(f"{label}: the condition has {len(found)} outputs")
        first: Item = found[0]
        return first

    def turn(b: Builder, state: list[Item]) -> list[Item]:
        return list(c.scope.call(body, state, label, b))

    made = run(c.b, Turns(c.node, goes_on, turn), list(c.items))
    if _contents(c) != states:
        raise c.refuse("a variable written in a loop is not supported")
    return list(made)


@op("VAR_HANDLE")
def var_handle(c: Call) -> Result:
    options = c.operator.options
    if options is None or options.name != "VarHandleOptions":
        raise c.refuse("the variable has no name")
    container, name = options.text("container"), options.text("shared_name")
    return Resource(f"{container}/{name}" if container else name)


def _resource(c: Call) -> str:
    found = c.items[0] if c.items else None
    if not isinstance(found, Resource):
        raise ModelError(f"{c.operator.label}: it reads no variable")
    return found.name


@op("READ_VARIABLE")
def read_variable(c: Call) -> Result:
    t = c.result()
    found: Tensor = c.scope.variables.read(_resource(c), t.shape, t.dtype.numpy, t.quantisation)
    return found


@op("ASSIGN_VARIABLE")
def assign_variable(c: Call) -> Result:
    value = Tensor(c.plain(1))
    c.scope.variables.assign(_resource(c), value, c.operator.label)
    return []
