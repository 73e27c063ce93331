"""Operators on rows of features: pick, scale, normalise, impute, threshold, join.

In: numbers [N, F], or one row [F]. Out: as the standard has it, float32 for most. Where it is silent the
definitions do as onnxruntime does.
"""

from __future__ import annotations

import numpy as np

from ingot.errors import ModelError
from ingot.formula.expr import Const, Expr, Extent, Operand, Tensor, Var, call, cast, equal, select, static
from ingot.formula.extents import extent
from ingot.formula.index import product
from ingot.formula.types import FLOAT32, FLOAT64
from ingot.ops.gather import positions
from ingot.ops.registry import Builder, op

Ints = tuple[int, ...]
Floats = tuple[float, ...]


def _require(f: Builder, condition: bool, message: str) -> None:
    if not condition:
        raise ModelError(f"{f.node.label}: {message}")


def _unravelled(flat: Expr, shape: tuple[Extent, ...]) -> tuple[Operand, ...]:
    """The index of an element in row-major order."""
    index: list[Operand] = []
    for d, n in enumerate(shape):
        at = flat // product(shape[d + 1 :])
        index.append(at % n if d else at)
    return tuple(index)


@op("ArrayFeatureExtractor", domain="ai.onnx.ml")
def array_feature_extractor(f: Builder, x: Tensor, y: Tensor) -> Tensor:
    """z[..., k] = x[..., y[k]] (ArrayFeatureExtractor-1); of a vector x one row.

    Negative indices count from the end.
    """
    f.require(x.rank > 0, "a scalar has no features")
    lead: tuple[Extent, ...] = x.shape[:-1] if x.rank > 1 else (1,)
    axes = f.axes((*lead, extent(product(y.shape))))
    place = positions(f, y, x.shape[-1])(_unravelled(axes[-1], y.shape))
    return f.map(axes, x.at((*axes[: x.rank - 1], place)), x.type)


@op("Binarizer", domain="ai.onnx.ml")
def binarizer(f: Builder, x: Tensor, *, threshold: float = 0.0) -> Tensor:
    """1 where x > threshold, else 0 (Binarizer-1); integers are compared as float64."""
    f.same_type((x,), "fi")
    axes = f.axes(x.shape)
    value = x[axes] if x.type.is_float else cast(x[axes], FLOAT64)
    return f.map(axes, cast(value > threshold, x.type.compute), x.type)


@op("FeatureVectorizer", domain="ai.onnx.ml")
def feature_vectorizer(f: Builder, *inputs: Tensor, inputdimensions: Ints) -> Tensor:
    """All inputs' rows side by side, each cut or filled with zeros to its size (FeatureVectorizer-1)."""
    _require(f, len(inputdimensions) == len(inputs), f"{len(inputdimensions)} sizes for {len(inputs)} inputs")
    _require(f, min(inputdimensions) >= 0, f"sizes {list(inputdimensions)}")
    f.same_type(inputs, "fi")
    rows: list[Extent] = [t.shape[0] if t.rank > 1 else 1 for t in inputs]
    f.require(all(t.rank > 0 and n == rows[0] for t, n in zip(inputs, rows, strict=True)), "the rows differ")
    y = f.empty(FLOAT32, (rows[0], sum(inputdimensions)))
    begin = 0
    for t, size in zip(inputs, inputdimensions, strict=True):
        n, k = f.axes((rows[0], size), "n k")
        rest = t.shape[1:] if t.rank > 1 else t.shape
        width = static(extent(product(rest)))
        first = (n,) if t.rank > 1 else ()
        value: Expr = Const(0.0, FLOAT32)
        if width and t.rank <= 2:
            value = cast(t.at((*first, k), outside=0), FLOAT32)
        elif width:
            inside = t.at((*first, *_unravelled(k % width, rest)))
            value = select(k < width, cast(inside, FLOAT32), value)
        f.put(y, (n, k), (n, k + begin), value)
        begin += size
    return y


@op("Imputer", domain="ai.onnx.ml")
def imputer(
    f: Builder,
    x: Tensor,
    *,
    imputed_value_floats: Floats = (),
    imputed_value_int64s: Ints = (),
    replaced_value_float: float = 0.0,
    replaced_value_int64: int = 0,
) -> Tensor:
    """Elements that are the replaced value (NaN is NaN here) become the imputed one, of all or of their
    feature (Imputer-1).
    """
    f.same_type((x,), "fi")
    f.require(x.rank in (1, 2), f"rank {x.rank}, rows of features are needed")
    _require(f, not (imputed_value_floats and imputed_value_int64s), "values of both types are given")
    values = imputed_value_floats if x.type.is_float else imputed_value_int64s
    _require(f, len(values) in (1, x.shape[-1]), f"{len(values)} values for {x.shape[-1]} {x.type} features")
    axes = f.axes(x.shape)
    new = f.constant(np.array(values, x.type.numpy), "imputed")[axes[-1] if len(values) > 1 else 0]
    element = x[axes]
    if x.type.is_float and np.isnan(replaced_value_float):
        return f.map(axes, select(call("isnan", element), new, element), x.type)
    old = replaced_value_float if x.type.is_float else replaced_value_int64
    return f.map(axes, select(equal(element, old), new, element), x.type)


@op("Normalizer", domain="ai.onnx.ml")
def normalizer(f: Builder, x: Tensor, *, norm: str = "MAX") -> Tensor:
    """Rows over their largest element (not its magnitude), sum of magnitudes or length (Normalizer-1).

    A row for which that is 0 stays as it is.
    """
    f.same_type((x,), "fi")
    f.require(x.rank in (1, 2), f"rank {x.rank}, rows of features are needed")
    _require(f, norm in ("MAX", "L1", "L2"), f"norm {norm!r} is unknown")
    axes = f.axes(x.shape)
    rest, k = axes[:-1], Var("j", axes[-1].extent)
    element = cast(x.at((*rest, k)), FLOAT32)
    if norm == "MAX":
        size = f.reduce("max", rest, (k,), element, init=float("-inf"), name="size")
    else:
        term = element * element if norm == "L2" else call("abs", element)
        size = f.reduce("sum", rest, (k,), term, name="size")
    divisor = call("sqrt", size[rest]) if norm == "L2" else size[rest]
    value = cast(x[axes], FLOAT32)
    return f.map(axes, select(equal(size[rest], 0.0), value, value / divisor), FLOAT32)


@op("Scaler", domain="ai.onnx.ml")
def scaler(f: Builder, x: Tensor, *, offset: Floats = (0.0,), scale: Floats = (1.0,)) -> Tensor:
    """(x - offset) * scale, of all or of each feature (Scaler-1), as float32."""
    f.same_type((x,), "fi")
    dtype = x.type if x.type.is_float else FLOAT32
    axes = f.axes(x.shape)

    def value(name: str, values: Floats) -> Expr:
        fits = len(values) == 1 or (x.rank in (1, 2) and len(values) == x.shape[-1])
        _require(f, fits, f"{name} has {len(values)} elements, the input is of shape {list(x.shape)}")
        if len(values) == 1:
            return Const(values[0], dtype.compute)
        return f.constant(np.array(values, dtype.numpy), name)[axes[-1]]

    scaled = (cast(x[axes], dtype.compute) - value("offset", offset)) * value("scale", scale)
    return f.map(axes, cast(scaled, FLOAT32), FLOAT32)
