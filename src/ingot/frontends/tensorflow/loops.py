"""Loops, however TensorFlow wrote them: unrolled while the condition is known, else an ONNX Loop.

In: a `Turns` (condition and body, to be written wherever they are asked for) and the state before; out: the
state after. Called by `control`, which knows frames and functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from ingot.errors import ModelError, UnsupportedError
from ingot.formula.types import BOOL, INT64
from ingot.frontends.orders import Builder, own
from ingot.frontends.tensorflow.model import Node
from ingot.frontends.tensorflow.ops.arrays import dense
from ingot.frontends.tensorflow.ops.table import Call
from ingot.frontends.tensorflow.values import Array, Item, Tensor, tensor
from ingot.graph.ir import Value

UNROLLED_TURNS = 4096
UNROLLED_NODES = 10_000
State = list[Item]


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
    place, first, begin = b.names.place, state, b.names.made
    for turns in range(UNROLLED_TURNS):
        known = loop.condition(b, state).constant
        if known is None or (turns > 1 and b.names.made - begin > UNROLLED_NODES):
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
    inner.graph.outputs = own(inner, [on, *after])
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
        raise UnsupportedError(
            "an array grows in a loop whose number of iterations is known at run time only"
        )
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
