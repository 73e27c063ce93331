"""Casts between element types."""

from __future__ import annotations

from ingot.errors import UnsupportedError
from ingot.formula.expr import Bitcast, Tensor, cast
from ingot.formula.types import DTYPES, DType
from ingot.graph.onnx_types import dtype_from_onnx
from ingot.ops.registry import Builder, op

OLD_NAMES = {"FLOAT": "float32", "DOUBLE": "float64"}


def cast_to(f: Builder, x: Tensor, to: DType) -> Tensor:
    """Floats round half to even; float to integer truncates and saturates, NaN is 0; integers wrap."""
    if to is x.type:
        f.view = x
    elif x.type.is_text or to.is_text:
        raise UnsupportedError(f"{f.node.label}: casts between {x.type} and {to} are not supported")
    axes = f.axes(x.shape)
    return f.map(axes, cast(x[axes], to.compute), to)


@op("Cast")
def cast_(f: Builder, x: Tensor, *, to: int | str, saturate: int = 1, round_mode: str = "up") -> Tensor:
    """Cast-13. `to` was a name in opset 1; `saturate` and `round_mode` matter to 8-bit floats only."""
    if isinstance(to, int):
        return cast_to(f, x, dtype_from_onnx(to, f.node.text))
    name = OLD_NAMES.get(to, to.lower())
    if name == "string":
        return cast_to(f, x, f.node.text)
    if name not in DTYPES:
        raise UnsupportedError(f"{f.node.label}: no type {to!r} is known")
    return cast_to(f, x, DTYPES[name])


@op("CastLike", since=15)
def cast_like(f: Builder, x: Tensor, like: Tensor, *, saturate: int = 1, round_mode: str = "up") -> Tensor:
    return cast_to(f, x, like.type)


@op("BitCast", since=26)
def bit_cast(f: Builder, x: Tensor, *, to: int) -> Tensor:
    """The same bits read as another type of the same width (BitCast-26)."""
    dtype = dtype_from_onnx(to)
    whole = x.type.compute is x.type and dtype.compute is dtype
    f.require(dtype.bits == x.type.bits and whole, f"no {dtype} has the bits of {x.type}")
    axes = f.axes(x.shape)
    return f.map(axes, x[axes] if dtype is x.type else Bitcast(x[axes], dtype))
