"""Branches, loops, calls of subgraphs, and variables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ingot.errors import ModelError
from ingot.formula.types import BOOL
from ingot.frontends.orders import Builder, own
from ingot.frontends.tensorflow.loops import Turns, run
from ingot.frontends.tensorflow.ops.table import Result
from ingot.frontends.tensorflow.values import Item, Resource, Tensor, tensor
from ingot.frontends.tflite.ops.table import Call, op
from ingot.frontends.tflite.variables import Key, Variables
from ingot.graph.ir import Graph


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
    variables: Variables = c.scope.variables
    before, written = variables.contents(), dict[Key, None]()
    found = []
    for name, index in zip(("then", "else"), branches, strict=True):
        inner = c.b.inner(c.b.names.fresh(f"{c.b.names.place}/{name}"))
        made = [tensor(m, c.operator.label) for m in c.scope.call(index, given, c.operator.label, inner)]
        written |= dict.fromkeys(variables.changed(before))
        found.append((inner, made, variables.contents()))
        variables.restore(before)
    bodies = [_body(variables, written, *branch) for branch in found]
    flag = c.b.reshape(c.b.cast(c.b.plain(condition), BOOL), ())
    names: dict[str, Any] = {"then_branch": bodies[0], "else_branch": bodies[1]}
    count = len(c.results)
    values = c.b.many("If", count + len(written), flag, **names)
    for key, value in zip(written, values[count:], strict=True):
        variables.write(key, Tensor(value))
    return list(values[:count])


def _body(
    variables: Variables, written: Iterable[Key], b: Builder, made: list[Tensor], after: Mapping[Key, Tensor]
) -> Graph:
    """A branch's graph, whose last outputs are the variables that either branch writes."""
    kept = [after.get(key) or variables.states[key].now for key in written]
    b.graph.outputs = own(b, [b.plain(t) for t in (*made, *kept)])
    return b.graph


@op("WHILE")
def while_(c: Call) -> Result:
    """Unrolled while the condition is known, else a loop. It carries the variables that a turn writes, which
    the first attempt shows.
    """
    variables: Variables = c.scope.variables
    before = variables.contents()
    made = run(c.b, _turns(c, []), list(c.items))
    if written := variables.changed(before):
        variables.restore(before)
        held = [variables.states[key].now for key in written]
        made = run(c.b, _turns(c, written), [*c.items, *held])
        variables.restore(before)
        for key, item in zip(written, made[len(c.items) :], strict=True):
            variables.write(key, tensor(item, c.operator.label))
    return list(made[: len(c.items)])


def _turns(c: Call, carried: Sequence[Key]) -> Turns:
    """The loop, whose state ends with these variables."""
    condition, body = (int(c.option(f"{name}_subgraph_index")) for name in ("cond", "body"))
    label, count, variables = c.operator.label, len(c.items), c.scope.variables

    def filled(state: list[Item]) -> list[Item]:
        for key, item in zip(carried, state[count:], strict=True):
            variables.write(key, tensor(item, label))
        return state[:count]

    def goes_on(b: Builder, state: list[Item]) -> Item:
        given, before = filled(state), variables.contents()
        found: list[Item] = c.scope.call(condition, given, label, b)
        if len(found) != 1:
            raise ModelError(f"{label}: the condition has {len(found)} outputs")
        if variables.changed(before):
            raise c.refuse("a variable written in the condition of a loop is not supported")
        return found[0]

    def turn(b: Builder, state: list[Item]) -> list[Item]:
        made = c.scope.call(body, filled(state), label, b)
        return [*made, *(variables.states[key].now for key in carried)]

    return Turns(c.node, goes_on, turn)


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
