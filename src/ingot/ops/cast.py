"""Casts between element types."""

from __future__ import annotations

from ingot.errors import UnsupportedError
from ingot.formula.expr import Tensor
from ingot.formula.types import DTYPES, FLOAT8E5M2, DType
from ingot.graph.onnx_types import dtype_from_onnx
from ingot.ops.narrow import bits_of, converted, of_bits
from ingot.ops.registry import Builder, op
from ingot.ops.text.numerals import number_from_text, text_from_number

OLD_NAMES = {"FLOAT": "float32", "DOUBLE": "float64"}


def cast_to(f: Builder, x: Tensor, to: DType, saturate: int = 1, round_mode: str = "up") -> Tensor:
    """Every element as `to`, by the rules of `converted`."""
    if x.type.is_text != to.is_text:
        return text_from_number(f, x, to) if to.is_text else number_from_text(f, x, to)
    axes = f.axes(x.shape)
    if to is x.type and not (saturate and to is FLOAT8E5M2):  # whose infinity would become a number
        f.view = x
        return f.map(axes, x[axes], to)
    return f.map(axes, converted(x[axes], to, bool(saturate), round_mode), to)


@op("Cast")
def cast_(f: Builder, x: Tensor, *, to: int | str, saturate: int = 1, round_mode: str = "up") -> Tensor:
    """Cast-25. `to` was a name in opset 1; `saturate` matters to 8-bit floats, `round_mode` to float8e8m0."""
    if isinstance(to, int):
        return cast_to(f, x, dtype_from_onnx(to, f.node.text), saturate, round_mode)
    name = OLD_NAMES.get(to, to.lower())
    if name == "string":
        return cast_to(f, x, f.node.text)
    if name not in DTYPES:
        raise UnsupportedError(f"{f.node.label}: no type {to!r} is known")
    return cast_to(f, x, DTYPES[name])


@op("CastLike", since=15)
def cast_like(f: Builder, x: Tensor, like: Tensor, *, saturate: int = 1, round_mode: str = "up") -> Tensor:
    """Cast to the type of another tensor (CastLike-25)."""
    return cast_to(f, x, like.type, saturate, round_mode)


@op("BitCast", since=26)
def bit_cast(f: Builder, x: Tensor, *, to: int) -> Tensor:
    """The same bits read as another type of the same width (BitCast-26)."""
    dtype = dtype_from_onnx(to)
    f.require(dtype.bits == x.type.bits, f"{dtype} has {dtype.bits} bits, {x.type} has {x.type.bits}")
    axes = f.axes(x.shape)
    return f.map(axes, x[axes] if dtype is x.type else of_bits(bits_of(x[axes]), dtype), dtype)
