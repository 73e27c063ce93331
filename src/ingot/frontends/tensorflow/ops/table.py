"""The table of TensorFlow's operators, and what a mapping gets: a `Call`.

    @op("Softplus")
    def softplus(c): return c.b.one("Softplus", c.plain(0))

A mapping returns a Value or an Item for a single output, or a list with one for each port.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Union

from ingot.errors import ModelError, ShapeError, UnsupportedError
from ingot.formula.expr import Array
from ingot.frontends.orders import Builder, Order, channels_first
from ingot.frontends.tensorflow.model import Node
from ingot.frontends.tensorflow.values import Array as Elements
from ingot.frontends.tensorflow.values import Item, Tensor, tensor
from ingot.graph.ir import Value

Result = Union[Value, Item, "list[Value | Item]"]
Mapping = Callable[["Call"], Result]
OPS: dict[str, Mapping] = {}
FORMATS = ("NHWC", "NCHW", "NDHWC", "NCDHW")


def op(*names: str) -> Callable[[Mapping], Mapping]:
    """Enter a mapping under TensorFlow's names."""

    def enter(mapping: Mapping) -> Mapping:
        OPS.update(dict.fromkeys(names, mapping))
        return mapping

    return enter


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """One node with its inputs, and the builder of the graph that it is written to."""

    b: Builder
    node: Node
    items: list[Item]

    def tensor(self, i: int) -> Tensor:
        """Input i. Raises ModelError where there is none."""
        if not -len(self.items) <= i < len(self.items):
            raise ModelError(f"{self.node.label}: input {i} is read, but there are only {len(self.items)}")
        return tensor(self.items[i], self.node.label)

    def plain(self, i: int) -> Value:
        """Input i with its axes as TensorFlow has them."""
        return self.b.plain(self.tensor(i))

    @property
    def tensors(self) -> list[Tensor]:
        return [self.tensor(i) for i in range(len(self.items))]

    def elements(self, i: int) -> Elements:
        """Input i, a TensorArray or TensorList."""
        found = self.items[i] if i < len(self.items) else None
        if not isinstance(found, Elements):
            raise ModelError(
                f"{self.node.label}: input {i} must be a TensorArray or a TensorList, but it is a tensor"
            )
        return found

    def known(self, i: int, what: str) -> Array:
        """The elements of input i. Raises UnsupportedError where only a run-time value tells them."""
        found = self.tensor(i).constant
        if found is None:
            reason = "is computed at run time, but the shapes of the bundle depend on it"
            raise UnsupportedError(f"{self.node.label}: {what} {reason}")
        return found

    def ints(self, i: int, what: str) -> tuple[int, ...]:
        found = self.known(i, what)
        self.require(found.dtype.kind in "iub", f"{what} must be integers, but it is of type {found.dtype}")
        return tuple(int(v) for v in found.reshape(-1))

    def number(self, i: int, what: str) -> int | float:
        """Input i as one number."""
        found = self.known(i, what)
        self.require(found.size == 1, f"{what} must be one number, but there are {found.size}")
        number: int | float = found.reshape(()).item()
        return number

    def axis(self, i: int, rank: int) -> int:
        """Input i as one axis, counted from the front."""
        found = self.ints(i, "the axis")
        self.require(
            len(found) == 1 and -rank <= found[0] < rank,
            f"the axis {list(found)} must be one number from {-rank} to {rank - 1}",
        )
        return found[0] % rank

    def axes(self, i: int, rank: int) -> tuple[int, ...]:
        found = self.ints(i, "the axes")
        self.require(
            all(-rank <= a < rank for a in found),
            f"the axes {list(found)} must lie between {-rank} and {rank - 1}",
        )
        return tuple(a % rank for a in found)

    def require(self, condition: bool, message: str) -> None:
        """Raise ShapeError naming the node unless `condition` holds."""
        if not condition:
            raise ShapeError(f"{self.node.label}: {message}", shapes=self._shapes())

    def shown(self) -> str:
        """The inputs, for messages."""
        return ", ".join(str(list(shape)) for shape in self._shapes()) or "no tensors"

    def refuse(self, message: str) -> UnsupportedError:
        return UnsupportedError(f"{self.node.label}: {message}")

    def _shapes(self) -> list[tuple[int | str, ...]]:
        return [t.shape for t in self.items if isinstance(t, Tensor)]

    def order(self, rank: int) -> Order | None:
        """How a tensor with channels is held so that they come first: its data_format says where they are."""
        text = self.node.text("data_format", "NHWC")
        if text not in FORMATS:
            raise self.refuse(
                f"the data format {text!r} is not supported; it must be one of {', '.join(FORMATS)}"
            )
        return None if text.startswith("NC") else channels_first(rank)
