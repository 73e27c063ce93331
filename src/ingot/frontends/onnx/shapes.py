"""Declared types and shapes of ONNX values. In: ValueInfoProtos and `--define`; out: types and extents.

A named dimension is an int or a bounded `Param` as the caller defines it; one without a name is INPUT:AXIS.
A first dimension that nobody defines is 1, as everywhere in the field, and a remark says so. Whatever else
stays unknown in a graph input is reported at once, with the options to add.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import onnx

from ingot.errors import IngotError, InputError, ModelError, UnsupportedError
from ingot.formula.expr import Extent, Param, extent_name
from ingot.formula.types import STRING, DType
from ingot.graph.onnx_types import dtype_from_onnx
from ingot.log import remark

Define = Mapping[str, "int | tuple[int, int]"]
Declared: TypeAlias = "tuple[DType | None, tuple[Extent, ...] | None]"
DIMENSION_LIMIT = 1 << 31


@dataclass(slots=True)
class Dimensions:
    """What dynamic dimensions are, and strings: `known` maps a name to its extent."""

    define: Define
    known: dict[str, Extent] = field(default_factory=dict)
    text: DType = STRING

    def resolve(self, inputs: Iterable[onnx.ValueInfoProto]) -> None:
        """Give every dimension of the graph inputs its extent. InputError lists all that stay open."""
        inputs = list(inputs)
        names = [name for info in inputs for name in dynamic_dimensions(info)]
        inner = [name for info in inputs for name in _element_names(info)]
        for name, bounds in self.define.items():
            if name not in (*names, *inner):
                known = ", ".join(dict.fromkeys((*names, *inner))) or "none"
                raise InputError(f"--define {name}: no such dynamic dimension; the model has: {known}")
            self.known[name] = _extent(name, bounds)
        batches = [name for name in _batches(inputs) if name not in self.known]
        self.known.update(dict.fromkeys(batches, 1))
        missing = [n for n in dict.fromkeys(names) if n not in self.known]
        if missing:
            options = " ".join(f"--define {n}=..." for n in missing)
            reason = f"unknown dimensions {', '.join(missing)}: add {options}"
            raise InputError(reason, remedy="each is a number, or a range such as 1..64")
        for name in batches:
            remark(f"note: batch dimension {name} is 1; --define {name}=... changes it")

    def declared(self, info: onnx.ValueInfoProto) -> Declared:
        """The declared type and shape, None where not declared. Raises for values that no graph can have."""
        kind = info.type.WhichOneof("value")
        if kind is None:
            return None, None
        if kind != "tensor_type":
            raise UnsupportedError(f"value {info.name!r}: a {kind.removesuffix('_type')} is not supported")
        tensor = info.type.tensor_type
        dtype = _dtype(info.name, tensor.elem_type, self.text) if tensor.elem_type else None
        if not tensor.HasField("shape"):
            return dtype, None
        dims = [self._dim(info.name, axis, d) for axis, d in enumerate(tensor.shape.dim)]
        return dtype, None if None in dims else tuple(d for d in dims if d is not None)

    def element(self, name: str, type_: onnx.TypeProto) -> tuple[DType, tuple[Extent | None, ...] | None]:
        """Type and extents of a sequence's elements, None for what may differ; no extents: of any rank."""
        tensor = type_.tensor_type
        if not tensor.elem_type:
            raise ModelError(f"the input {name!r}: its elements have no type")
        dtype = _dtype(name, tensor.elem_type, self.text)
        if not tensor.HasField("shape"):
            return dtype, None
        return dtype, tuple(self._dim(name, axis, d) for axis, d in enumerate(tensor.shape.dim))

    def loosely(self, info: onnx.ValueInfoProto) -> Declared:
        """The same for what a node makes: types that no tensor has are the node's fault, reported there."""
        try:
            return self.declared(info)
        except UnsupportedError:
            return None, None

    def _dim(self, name: str, axis: int, dim: onnx.TensorShapeProto.Dimension) -> Extent | None:
        symbol = _symbol(name, axis, dim)
        if symbol is not None:
            return self.known.get(symbol)
        if not 0 <= dim.dim_value < DIMENSION_LIMIT:
            raise ModelError(f"value {name!r}: extent {dim.dim_value} is negative or too large")
        return int(dim.dim_value)


def _extent(name: str, bounds: int | tuple[int, int]) -> Extent:
    pair = (bounds, bounds) if isinstance(bounds, int) else bounds
    if not (isinstance(pair, tuple) and [type(n) for n in pair] == [int, int]):
        raise InputError(
            f"--define {name}={bounds!r}: a dimension is a number, or a pair of its least and largest"
        )
    lo, hi = pair
    if not 0 <= lo <= hi < DIMENSION_LIMIT:
        raise InputError(f"--define {name}={bounds}: a dimension must be between 0 and {DIMENSION_LIMIT - 1}")
    if hi == 0:
        remark(f"note: --define {name}=0 leaves tensors without elements")
    return lo if lo == hi else Param(extent_name(name), lo, hi)


def _dtype(name: str, number: int, text: DType) -> DType:
    try:
        return dtype_from_onnx(number, text)
    except IngotError as error:
        raise type(error)(f"value {name!r}: {error}") from None


def contradict(one: Declared, other: Declared) -> bool:
    """Whether no value can be declared both ways. Numbers decide, not symbols."""
    if None not in (one[0], other[0]) and one[0] != other[0]:
        return True
    a, b = one[1], other[1]
    if a is None or b is None:
        return False
    numbers = ((m, n) for m, n in zip(a, b, strict=False) if isinstance(m, int) and isinstance(n, int))
    return len(a) != len(b) or any(m != n for m, n in numbers)


def as_text(declared: Declared) -> str:
    """A declaration in a message."""
    dtype, shape = declared
    return f"{dtype or 'a tensor'}{'' if shape is None else list(shape)}"


def _batches(inputs: Iterable[onnx.ValueInfoProto]) -> list[str]:
    """The dynamic dimensions that are the first of inputs, and nowhere another."""
    named = [dynamic_axes(info) for info in inputs]
    first = [name for axes in named for axis, name in axes if axis == 0]
    inner = {name for axes in named for axis, name in axes if axis > 0}
    return [name for name in dict.fromkeys(first) if name not in inner]


def dynamic_dimensions(info: onnx.ValueInfoProto) -> list[str]:
    """The dynamic dimensions of a graph input, whose type and rank must be there."""
    if info.type.WhichOneof("value") == "tensor_type":
        if not info.type.tensor_type.elem_type:
            raise ModelError(f"the input {info.name!r} has no element type")
        if not info.type.tensor_type.HasField("shape"):
            raise InputError(f"the input {info.name!r} has no declared rank; give it a shape in the model")
    elif info.type.WhichOneof("value") is None:
        raise ModelError(f"the input {info.name!r} has no type")
    return [name for _, name in dynamic_axes(info)]


def dynamic_axes(info: onnx.ValueInfoProto) -> list[tuple[int, str]]:
    """The dynamic dimensions of a tensor: axis and name."""
    symbols = ((i, _symbol(info.name, i, d)) for i, d in enumerate(info.type.tensor_type.shape.dim))
    return [(i, s) for i, s in symbols if s is not None]


def _element_names(info: onnx.ValueInfoProto) -> list[str]:
    """The dynamic dimensions of the elements of a sequence: one need not say what they are."""
    type_ = info.type
    if type_.WhichOneof("value") == "optional_type":
        type_ = type_.optional_type.elem_type
    if type_.WhichOneof("value") == "sequence_type":
        type_ = type_.sequence_type.elem_type
    if type_ is info.type or type_.WhichOneof("value") != "tensor_type":
        return []
    symbols = (_symbol(info.name, i, d) for i, d in enumerate(type_.tensor_type.shape.dim))
    return [s for s in symbols if s is not None]


def dimension_name(dim: onnx.TensorShapeProto.Dimension) -> str:
    """The name that the model gives a dimension, "" for none. Some exporters call all unnamed ones `?`."""
    name = str(dim.dim_param)  # bytes where it is not UTF-8
    return "" if name == "?" else name


def _symbol(name: str, axis: int, dim: onnx.TensorShapeProto.Dimension) -> str | None:
    """What a dynamic dimension is called; None for a static one. Old exporters write -1 for "dynamic"."""
    if called := dimension_name(dim):
        return called
    dynamic = dim.WhichOneof("value") != "dim_value" or dim.dim_value == -1
    return f"{name}:{axis}" if dynamic else None
