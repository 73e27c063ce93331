"""One activation of a body, as control flow sees it, and what all activations of an import share.

`scope.Scope` is the activation that evaluates; `control` stands below it and runs loops and branches by it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from ingot.formula.expr import Array as Elements
from ingot.frontends.orders import Builder
from ingot.frontends.tensorflow.model import Body, Model, Node, Ref
from ingot.frontends.tensorflow.values import Item

Read = Callable[[str], Elements]


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


@dataclass(slots=True)
class World:
    """What all activations of one import share. `variable` reads one by the name of its node; `wanted` begins
    everything that is imported."""

    model: Model
    variable: Read
    wanted: list[Ref]
    constants: dict[Node, Item] = field(default_factory=dict)
    frames: dict[Body, Frames] = field(default_factory=dict)


class Activation(Protocol):
    """The main graph, a function's call or one turn of a loop. `outer` is what is around a while frame."""

    world: World
    body: Body
    b: Builder
    exits: dict[str, dict[str, Item]]
    prefix: str

    @property
    def outer(self) -> Activation | None: ...

    def inside(
        self, body: Body, b: Builder, made: Mapping[str, list[Item]], *, frame: bool = False
    ) -> Activation: ...

    def item(self, ref: Ref, reader: str = ...) -> Item: ...
