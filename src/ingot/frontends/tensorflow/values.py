"""What flows along the edges of a TensorFlow graph while it is imported.

A `Tensor` is a value of our graph, perhaps held with its axes in another order: what a convolution makes
stays channels-first until somebody needs it as TensorFlow has it. An `Array` is TensorFlow's TensorArray or
TensorList with its elements, a `Resource` names a variable, `Complex` is what a Fourier transform makes, DEAD
is what a branch not taken yields.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ingot.errors import UnsupportedError
from ingot.formula.types import DType
from ingot.frontends import orders
from ingot.graph.ir import Value

Guard = tuple[Value, bool]


@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """That a tensor is an image cut into blocks, perhaps convolved with `kernel` since.

    So old TensorFlow writes a dilated convolution, which can be seen only when the blocks are joined again.
    """

    source: Tensor
    block: list[int]
    pads: list[list[int]]
    kernel: Value | None = None
    group: int = 1


@dataclass(frozen=True, slots=True, eq=False)
class Tensor(orders.Tensor):
    """A tensor of TensorFlow's, perhaps held in another order of axes.

    `guards` are the conditions, known at run time only, under which TensorFlow would have computed it.
    """

    guards: frozenset[Guard] = frozenset()
    blocks: Blocks | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Array:
    """Elements by index: those of `dense` (stacked along axis 0), where `items` has no newer ones.

    `size` is None where only a run-time value tells it. A handle of a TensorArray is an empty one.
    """

    size: int
    dtype: DType | None
    element: tuple[int | None, ...] | None = None
    dense: Tensor | None = None
    items: Mapping[int, Tensor] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Resource:
    """A variable, by the name of the node that makes it."""

    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Complex:
    """Complex numbers, as pairs [..., 2] of their parts."""

    pairs: Value


@dataclass(frozen=True, slots=True)
class Dead:
    """The result of a branch that is not taken."""


DEAD = Dead()
Item = Tensor | Array | Resource | Complex | Dead


def tensor(item: Item, label: str) -> Tensor:
    """The item if it is a tensor. Raises UnsupportedError naming who reads it."""
    if isinstance(item, Tensor):
        return item
    kinds = {Array: "an array of tensors", Resource: "a variable itself", Complex: "complex numbers"}
    kind = kinds.get(type(item), "nothing")
    raise UnsupportedError(f"{label} reads {kind}, where only a tensor is understood")
