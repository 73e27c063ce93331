"""What a name of the model may mean besides a tensor: sequences and optionals, made of ordinary values.

Below the reader there are tensors only. A sequence whose elements are known one by one is a `Listed`: no
work at all. Any other is a `Ragged`: data [capacity, *largest element], of which element k occupies the
corner that extents[k] names (-1: the element has no such axis), and a length. An `Option` is its content and
a bool. A `Map` is keys, values and how many; `Maps` are the rows of one tensor, under keys that never change.
`flat` and `rebuilt` take objects apart into a node's inputs and outputs, and put them together again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from ingot.errors import UnsupportedError
from ingot.formula.types import DType
from ingot.graph.ir import Value, constant_value


@dataclass(frozen=True, slots=True, eq=False)
class Ragged:
    """A sequence as three tensors: data, extents (int64, one row per element), length (int64 scalar)."""

    data: Value
    extents: Value
    length: Value


@dataclass(frozen=True, slots=True, eq=False)
class Listed:
    """A sequence whose elements are known one by one; `dtype` is what an empty one says of itself."""

    elements: tuple[Value, ...]
    dtype: DType | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Option:
    """An optional: its content and whether it is there. No content: there is none, and none is known."""

    content: Object | None
    present: Value

    @property
    def is_there(self) -> bool | None:
        """Whether there is an element; None where only the bundle's run shows it."""
        known = self.present.constant
        return None if known is None else bool(known)


@dataclass(frozen=True, slots=True, eq=False)
class Map:
    """A map as three tensors: keys and values in any order, and how many there are (int64 scalar)."""

    keys: Value
    values: Value
    length: Value


@dataclass(frozen=True, slots=True, eq=False)
class Maps:
    """A sequence of maps that all have the same keys: row n of the values [N, keys] is map n."""

    values: Value
    keys: tuple[int | str, ...]


Object: TypeAlias = Value | Ragged | Listed | Option | Map | Maps


@dataclass(frozen=True, slots=True)
class Form:
    """How an object is taken apart: `kind` is tensor, sequence, optional, map or maps; an optional has a
    content, maps have keys.
    """

    kind: str
    content: Form | None = None
    keys: tuple[int | str, ...] = ()

    @property
    def count(self) -> int:
        """How many values an object of this form is made of."""
        inner = 0 if self.content is None else self.content.count
        return {"tensor": 1, "sequence": 3, "optional": inner + 1, "map": 3, "maps": 1}[self.kind]

    def __str__(self) -> str:
        return self.kind if self.content is None else f"{self.kind} of {self.content}"


TENSOR, SEQUENCE = Form("tensor"), Form("sequence")


def form_of(thing: Object) -> Form | None:
    """The form of an object; None for an empty optional of unknown content."""
    match thing:
        case Value():
            return TENSOR
        case Ragged() | Listed():
            return SEQUENCE
        case Map():
            return Form("map")
        case Maps(_, keys):
            return Form("maps", None, keys)
        case Option(None):
            return None
        case Option(content):
            assert content is not None
            inner = form_of(content)
            return None if inner is None else Form("optional", inner)


def joined(a: Form | None, b: Form | None) -> Form | None:
    """The form that holds objects of both: an optional where one is. Raises UnsupportedError."""
    if a is None or b is None:
        known = a or b
        return known if known is None or known.kind == "optional" else Form("optional", known)
    if a.kind == "optional" or b.kind == "optional":
        inner = [f.content if f.kind == "optional" else f for f in (a, b)]
        return Form("optional", joined(*inner))
    if a.kind != b.kind:
        raise UnsupportedError(f"a {a} in one case, a {b} in the other")
    return a


def flat(thing: Object) -> list[Value]:
    """The values an object is made of. `Listed` ones must have been made `Ragged` before."""
    match thing:
        case Value():
            return [thing]
        case Ragged(data, extents, length):
            return [data, extents, length]
        case Map(keys, values, length):
            return [keys, values, length]
        case Maps(values):
            return [values]
        case Option(content, present) if content is not None:
            return [*flat(content), present]
    raise AssertionError(f"{thing} has no values of its own")


def rebuilt(form: Form, values: Iterator[Value]) -> Object:
    """The object of a form, made of the next values."""
    if form.kind == "tensor":
        return next(values)
    if form.kind == "sequence":
        return Ragged(next(values), next(values), next(values))
    if form.kind == "map":
        return Map(next(values), next(values), next(values))
    if form.kind == "maps":
        return Maps(next(values), form.keys)
    assert form.content is not None
    return Option(rebuilt(form.content, values), next(values))


def suffixes(form: Form) -> list[str]:
    """What the values of an object are called, behind its name: the data has the name itself."""
    match form.kind:
        case "tensor" | "maps":
            return [""]
        case "sequence":
            return ["", ".extents", ".length"]
        case "map":
            return [".keys", "", ".length"]
    assert form.content is not None
    return [*suffixes(form.content), ".present"]


def sequences_in(forms: Sequence[Form]) -> tuple[int, ...]:
    """Where among the values of objects of these forms the three of a sequence begin."""
    found, at = [], 0
    for form in forms:
        inner = form
        while inner.content is not None:
            inner = inner.content
        if inner.kind == "sequence":
            found.append(at)
        at += form.count
    return tuple(found)


def truth(value: bool) -> Value:
    return constant_value("present", np.array(value))
