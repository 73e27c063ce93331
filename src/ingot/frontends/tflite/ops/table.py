"""The table of TFLite's operators, and what a mapping gets: a `Call`.

    @op("ELU")
    def elu(c): return c.b.one("Elu", c.plain(0))

A mapping returns a Value or an Item for a single output, or a list with one for each. Operators that
TensorFlow has too are written by its mappings (`Call.standard`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from ingot.errors import ModelError
from ingot.formula.types import DType
from ingot.frontends.orders import Builder, like
from ingot.frontends.tensorflow.model import Node
from ingot.frontends.tensorflow.ops.table import OPS as STANDARD
from ingot.frontends.tensorflow.ops.table import Call as Operands
from ingot.frontends.tensorflow.ops.table import Result
from ingot.frontends.tensorflow.tensors import number_of
from ingot.frontends.tensorflow.values import Dead, Item, Tensor
from ingot.frontends.tflite.model import Operator, Quantisation, TensorInfo
from ingot.frontends.tflite.schema import TABLES, TYPES
from ingot.graph.ir import Value

Mapping = Callable[["Call"], Result]
OPS: dict[str, Mapping] = {}
INTEGERS = ("INT8", "UINT8", "INT16")
"""Types that stand for numbers where they have a scale."""


def op(*names: str) -> Callable[[Mapping], Mapping]:
    """Enter a mapping under TFLite's names."""

    def enter(mapping: Mapping) -> Mapping:
        OPS.update(dict.fromkeys(names, mapping))
        return mapping

    return enter


@dataclass(frozen=True, slots=True)
class Listed:
    """Numbers of an attribute, under the name that TensorFlow's messages have for them."""

    i: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute as TensorFlow's messages have it."""

    i: int = 0
    f: float = 0.0
    b: bool = False
    s: bytes = b""
    type: int = 0
    list: Listed = field(default_factory=Listed)


class Standing(Node):
    """A node of TensorFlow's that stands for an operator of TFLite's, whose label errors have."""

    __slots__ = ("said",)
    said: str

    @property
    def label(self) -> str:
        return self.said


class Scope(Protocol):
    """The activation of the subgraph in which the operator stands."""

    def call(self, index: int, inputs: list[Item], label: str, b: Builder | None = None) -> list[Item]: ...


class Call(Operands):
    """One operator with its inputs, and the builder of the graph that it is written to."""

    __slots__ = ("infos", "operator", "results", "scope")
    operator: Operator
    infos: list[TensorInfo | None]
    results: list[TensorInfo]
    scope: Any

    def __init__(
        self,
        b: Builder,
        operator: Operator,
        items: list[Item],
        infos: list[TensorInfo | None],
        results: list[TensorInfo],
        scope: Any,
    ) -> None:
        super().__init__(b, _standing(operator.label, operator.kind, {}), items)
        for name, value in (("operator", operator), ("infos", infos), ("results", results), ("scope", scope)):
            object.__setattr__(self, name, value)

    # ---- options

    def option(self, name: str, default: int | float = 0) -> Any:
        """A field of the options; the schema's default, else `default`, where there are no options."""
        options = self.operator.options
        if options is None:
            return default
        if name not in TABLES[options.name]:
            raise ModelError(f"{self.operator.label}: options of {options.name} have no {name}")
        return options.number(name)

    def listed(self, name: str) -> tuple[int, ...]:
        options = self.operator.options
        if options is None:
            return ()
        if name not in TABLES[options.name]:
            raise ModelError(f"{self.operator.label}: options of {options.name} have no {name}")
        return options.integers(name)

    def kind_option(self, name: str, default: str) -> DType:
        """An option that is an element type."""
        from ingot.formula.types import DTYPES

        number = self.option(name, TYPES.index(default))
        found = TYPES[number].lower() if 0 <= number < len(TYPES) else ""
        if found not in DTYPES:
            raise self.refuse(f"element type {number} is not supported")
        return DTYPES[found]

    # ---- inputs

    def has(self, i: int) -> bool:
        """Whether the optional input i is given."""
        return i < len(self.items) and not isinstance(self.items[i], Dead)

    def info(self, i: int) -> TensorInfo:
        """What the file says of input i. Raises ModelError where there is none."""
        found = self.infos[i] if i < len(self.infos) else None
        if found is None:
            raise ModelError(f"{self.operator.label}: the input {i} is missing")
        return found

    def result(self, i: int = 0) -> TensorInfo:
        """What the file says of output i."""
        if i >= len(self.results):
            raise ModelError(f"{self.operator.label}: {len(self.results)} outputs are too few")
        return self.results[i]

    def scales(self, t: TensorInfo) -> Quantisation:
        """A tensor's quantisation. Raises ModelError where it has none."""
        if t.quantisation is None:
            raise ModelError(f"{self.operator.label}: {t.label} is {t.kind} without a scale")
        return t.quantisation

    def scale(self, t: TensorInfo) -> tuple[float, int]:
        """Scale and zero point of a tensor that has one of each."""
        q = self.scales(t)
        self.require(q.is_single, f"{t.label} has {len(q.scale)} scales, one is needed")
        return float(q.scale[0]), int(q.zero[0])

    def is_quantised(self, t: TensorInfo) -> bool:
        """Whether a tensor's integers stand for numbers."""
        return t.kind in INTEGERS and t.quantisation is not None

    # ---- TensorFlow's mappings

    def standard(self, name: str, items: list[Item] | None = None, **attributes: Any) -> Result:
        """What TensorFlow's operator of that name gives of the inputs."""
        return STANDARD[name](self.as_standard(name, items, **attributes))

    def as_standard(self, name: str, items: list[Item] | None = None, **attributes: Any) -> Operands:
        given = {k: _attribute(v) for k, v in attributes.items()}
        node = _standing(self.operator.label, name, given)
        return Operands(self.b, node, self.items if items is None else items)


def _standing(label: str, name: str, attributes: dict[str, Any]) -> Node:
    node = Standing(name, name, [], attributes)
    node.said = label
    return node


def _attribute(value: Any) -> Attribute:
    match value:
        case bool():
            return Attribute(b=value)
        case int():
            return Attribute(i=value)
        case float():
            return Attribute(f=value)
        case str():
            return Attribute(s=value.encode())
        case DType():
            return Attribute(type=number_of(value))
    return Attribute(list=Listed(tuple(value)))


def single(made: Result) -> Tensor:
    """The one result of a mapping."""
    found = made[0] if isinstance(made, list) else made
    found = Tensor(found) if isinstance(found, Value) else found
    assert isinstance(found, Tensor), "an operation on tensors has tensors as results"
    return found


NONE, RELU, RELU_N1_TO_1, RELU6, TANH, SIGN_BIT = range(6)
LIMITS = {RELU_N1_TO_1: (-1.0, 1.0), RELU6: (0.0, 6.0)}
"""Fused activations by their numbers."""


def activated(c: Call, y: Tensor, which: int | None = None) -> Tensor:
    """The operator's fused activation of floats."""
    number = c.option("fused_activation_function") if which is None else which
    value, b = y.value, c.b
    if number == RELU:
        value = b.one("Relu", value) if y.dtype.is_float else b.one("Max", value, like(b, value, 0))
    elif number in LIMITS:
        low, high = (like(b, value, n) for n in LIMITS[number])
        value = b.one("Clip", value, low, high)
    elif number == TANH:
        value = b.one("Tanh", value)
    elif number == SIGN_BIT:
        value = b.cast(b.one("Less", value, like(b, value, 0)), y.dtype)
    elif number != NONE:
        raise c.refuse(f"fused activation {number} is not known")
    return Tensor(value, y.order)
