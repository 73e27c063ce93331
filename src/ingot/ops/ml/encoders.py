"""Values for keys: LabelEncoder and CategoryMapper; and categories as ones among zeros: OneHotEncoder.

In: numbers or strings of any shape. Out: what the model's lists give for them. A key that is listed twice
means its first entry to LabelEncoder-2 and -4, its last one to the others, as in onnxruntime.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ingot.errors import ModelError
from ingot.formula.expr import (
    Array,
    Const,
    Expr,
    Gathered,
    Tensor,
    Var,
    call,
    cast,
    equal,
    select,
    wrap,
)
from ingot.formula.strings import encoded
from ingot.formula.types import FLOAT32, INT32, INT64, DType, dtype_of
from ingot.ops.lookup import lookup
from ingot.ops.registry import Builder, op

Ints = tuple[int, ...]
Floats = tuple[float, ...]
Strings = tuple[str, ...]


def _require(f: Builder, condition: bool, message: str) -> None:
    if not condition:
        raise ModelError(f"{f.node.label}: {message}")


def _table(f: Builder, values: Sequence[Any] | Array, dtype: DType | None = None) -> Array:
    """A list from the model as an array: of strings, or of `dtype`."""
    if isinstance(values, np.ndarray):
        return values.reshape(-1)
    if dtype is None:
        return encoded(values, f.node.text)
    return np.array(values, dtype.numpy)


def _mapped(f: Builder, x: Tensor, keys: Array, values: Array, default: Any) -> Tensor:
    """values[i] where keys[i] is the element, `default` where none is; of equal keys the first counts.

    NaN is a key like others.
    """
    _require(f, len(keys) == len(values), f"{len(keys)} keys for {len(values)} values")
    _require(f, x.type is dtype_of(keys), f"the keys are {dtype_of(keys)}, the input is {x.type}")
    _require(f, len(keys) > 0, "there are no keys")
    unknown = np.isnan(keys) if x.type.is_float else np.zeros(len(keys), bool)
    unique, first = np.unique(keys[~unknown], return_index=True)
    known = values[~unknown][first]
    out = dtype_of(values)
    axes = f.axes(x.shape)
    y: Expr = wrap(default, out.compute)
    if len(unique):
        place, found = lookup(f, x, f.constant(unique, "keys"))(axes)
        y = select(found, f.constant(known, "values")[place], y)
    if unknown.any():
        y = select(call("isnan", x[axes]), f.constant(values[unknown][:1], "unknown")[0], y)
    return f.map(axes, y, out)


def _one(f: Builder, what: str, *choices: Array | None) -> Array:
    given = [c for c in choices if c is not None]
    _require(f, len(given) == 1, f"{len(given)} lists of {what} are given instead of one")
    return given[0]


@op("LabelEncoder", domain="ai.onnx.ml")
def label_encoder_1(
    f: Builder,
    x: Tensor,
    *,
    classes_strings: Strings = (),
    default_int64: int = -1,
    default_string: str = "_Unused",
) -> Tensor:
    """The number of a string in a list, or the string of a number (LabelEncoder-1)."""
    return _numbered(f, x, classes_strings, tuple(range(len(classes_strings))), default_int64, default_string)


@op("CategoryMapper", domain="ai.onnx.ml")
def category_mapper(
    f: Builder,
    x: Tensor,
    *,
    cats_int64s: Ints = (),
    cats_strings: Strings = (),
    default_int64: int = -1,
    default_string: str = "_Unused",
) -> Tensor:
    """The integer that goes with a string, or the string with an integer (CategoryMapper-1)."""
    return _numbered(f, x, cats_strings, cats_int64s, default_int64, default_string)


def _numbered(
    f: Builder, x: Tensor, strings: Strings, numbers: Ints, default_int64: int, default_string: str
) -> Tensor:
    names, ints = _table(f, strings[::-1]), _table(f, numbers[::-1], INT64)
    if x.type.is_text:
        return _mapped(f, x, names, ints, default_int64)
    return _mapped(f, x, ints, names, _table(f, (default_string,)).item())


@op("LabelEncoder", since=2, domain="ai.onnx.ml")
def label_encoder(
    f: Builder,
    x: Tensor,
    *,
    default_float: float = -0.0,
    default_int64: int = -1,
    default_string: str = "_Unused",
    default_tensor: Array | None = None,
    keys_floats: Floats | None = None,
    keys_int64s: Ints | None = None,
    keys_strings: Strings | None = None,
    keys_tensor: Array | None = None,
    values_floats: Floats | None = None,
    values_int64s: Ints | None = None,
    values_strings: Strings | None = None,
    values_tensor: Array | None = None,
) -> Tensor:
    """The value of a key, else a default (LabelEncoder-4; -2 knows no tensors)."""

    def lists(floats: Floats | None, ints: Ints | None, strings: Strings | None) -> list[Array | None]:
        return [
            None if floats is None else _table(f, floats, FLOAT32),
            None if ints is None else _table(f, ints, INT64),
            None if strings is None else _table(f, strings),
        ]

    keys = _one(f, "keys", keys_tensor, *lists(keys_floats, keys_int64s, keys_strings)).reshape(-1)
    values = _one(f, "values", values_tensor, *lists(values_floats, values_int64s, values_strings)).reshape(
        -1
    )
    out = dtype_of(values)
    default: Any = default_float if out.is_float else default_int64
    if out.is_text:
        default = _table(f, (default_string,)).item()
    if default_tensor is not None:
        fits = default_tensor.size == 1 and default_tensor.dtype == values.dtype
        _require(f, fits, f"default_tensor is not one {out}")
        default = default_tensor.item()
    elif out not in (FLOAT32, INT64) and not out.is_text:
        default = -0.0 if out.is_float else -1
    return _mapped(f, x, keys, values, default)


@op("OneHotEncoder", domain="ai.onnx.ml")
def one_hot_encoder(
    f: Builder, x: Tensor, *, cats_int64s: Ints = (), cats_strings: Strings = (), zeros: int = 1
) -> Tensor:
    """y[..., c] = 1 where x is category c, else 0 (OneHotEncoder-1); other numbers are cast to int64 first.

    A value of no category is an error of the bundle (ERR_INDEX) unless `zeros`.
    """
    _require(f, bool(cats_int64s) != bool(cats_strings), "one list of categories is needed")
    _require(f, x.type.is_text == bool(cats_strings), f"the input is {x.type}, the categories are not")
    table = _table(f, cats_strings or cats_int64s, None if cats_strings else INT64)
    last = {key: i for i, key in enumerate(table.tolist())}
    counts = np.array([last[key] == i for i, key in enumerate(table.tolist())])
    axes = f.axes((*x.shape, len(table)))
    rest, c = axes[:-1], Var("c", len(table))

    def matches(at: Var) -> Expr:
        element = x[rest] if x.type.is_text else cast(x[rest], INT64)
        same = equal(element, f.constant(table, "categories")[at])
        return same if counts.all() else same & f.constant(counts, "counts")[at]

    is_it = matches(axes[-1])
    if not zeros:
        place = select(matches(c), cast(c, INT32), -1)
        found = f.reduce("max", rest, (c,), place, init=-1, name="found")
        is_it = equal(Gathered(found[rest], Const(0), Const(len(table))), axes[-1])
    return f.map(axes, cast(is_it, FLOAT32), FLOAT32)
