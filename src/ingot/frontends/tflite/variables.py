"""Variables: what a model keeps from run to run. They become pairs of an input and an output of the graph.

In: tensors marked `is_variable`, and resources that operators name; out: states, each with its first content.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from ingot.errors import ModelError, UnsupportedError
from ingot.formula.types import dtype_of
from ingot.frontends.builder import Names
from ingot.frontends.orders import Builder
from ingot.frontends.tensorflow.values import Tensor
from ingot.frontends.tflite.model import Array, Quantisation, TensorInfo
from ingot.frontends.tflite.weights import elements_of
from ingot.graph.ir import Value

Key = tuple[int, ...] | str
"""A tensor of a subgraph; what an operator of one keeps; or the name of a resource."""


ELEMENTS_LIMIT = 1 << 26
"""Of one variable."""


def _require_small(label: str, shape: tuple[int, ...]) -> None:
    if math.prod(shape) > ELEMENTS_LIMIT:
        raise UnsupportedError(f"{label}: a variable of {list(shape)} is too large")


@dataclass(slots=True)
class State:
    """A variable that is read before it is written. `now` is what it holds."""

    before: Value
    initial: Array
    now: Tensor


@dataclass(slots=True)
class Variables:
    """`states` in the order in which they are first read."""

    names: Names
    states: dict[Key, State] = field(default_factory=dict)
    first: dict[str, Array] = field(default_factory=dict)
    is_initialising: bool = False

    def tensor(self, b: Builder, subgraph: int, t: TensorInfo) -> Tensor:
        """The content of a variable tensor, which begins as zeros."""
        _require_small(t.label, t.shape)
        zero = 0 if t.quantisation is None else int(t.quantisation.zero[0])
        initial = elements_of(t) if t.is_constant else np.full(t.shape, zero, t.dtype.numpy)
        return self._state((subgraph, t.index), t.name, initial).now

    def write_tensor(self, subgraph: int, t: TensorInfo, value: Tensor) -> None:
        """What a run leaves in a variable tensor."""
        if (subgraph, t.index) not in self.states:
            raise ModelError(f"{t.label} is written, but is no variable that was read")
        self.write((subgraph, t.index), value)

    def own(self, key: Key, name: str, initial: Array) -> Tensor:
        """What an operator keeps for itself."""
        return self._state(key, name, initial).now

    def write(self, key: Key, value: Tensor) -> None:
        """What a run leaves in a variable that was read."""
        self.states[key].now = value

    def read(
        self, name: str, shape: tuple[int, ...], dtype: np.dtype[np.generic], q: Quantisation | None
    ) -> Tensor:
        """The content of a resource; of one that nothing has written, what stands for zeros."""
        initial = self.first.get(name)
        if initial is None:
            _require_small(f"the variable {name!r}", shape)
            initial = np.full(shape, 0 if q is None else int(q.zero[0]), dtype)
        return self._state(name, name, initial).now

    def assign(self, name: str, value: Tensor, label: str) -> None:
        """A resource written: while a model is initialised, with a constant."""
        if self.is_initialising:
            if value.constant is None:
                raise ModelError(f"{label}: the first content of {name!r} is not known before the model runs")
            self.first[name] = value.constant
        elif name in self.states:
            self.states[name].now = value
        else:
            initial = self.first.get(name)
            found = self._state(
                name, name, np.zeros(value.shape, value.dtype.numpy) if initial is None else initial
            )
            found.now = value

    def contents(self) -> dict[Key, Tensor]:
        """What every variable holds now."""
        return {key: state.now for key, state in self.states.items()}

    def restore(self, contents: Mapping[Key, Tensor]) -> None:
        """As it was; a variable that was not read then holds what it held before the run."""
        for key, state in self.states.items():
            state.now = contents.get(key) or Tensor(state.before)

    def changed(self, since: Mapping[Key, Tensor]) -> list[Key]:
        """Which variables hold something else than they did."""
        return [
            key
            for key, state in self.states.items()
            if state.now.value is not (since[key].value if key in since else state.before)
        ]

    def _state(self, key: Key, name: str, initial: Array) -> State:
        if key not in self.states:
            before = Value(self.names.fresh(name), dtype_of(initial), tuple(initial.shape))
            self.states[key] = State(before, initial, Tensor(before))
        return self.states[key]
