"""Inputs that the user fixes: constants of the model from here on.

In: a ModelProto and the elements by name, as a user writes them. Out: the model without these inputs, and
with initializers of their names, so that every reader, and every oracle, sees the same model. What depends on
them alone folds; an If whose condition does becomes the branch that it takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from ingot.errors import InputError
from ingot.formula.expr import Array
from ingot.frontends.onnx.shapes import dimension_name
from ingot.frontends.onnx.tensors import Home, embed_external, tensors_of
from ingot.graph.onnx_types import dtype_from_onnx

Fix = Mapping[str, Any]
MARK = "ingot.fixed"
"""The key under which a model's metadata names the inputs that it had."""


def fixed(model: onnx.ModelProto, values: Fix, define: Mapping[str, Any], home: Home) -> onnx.ModelProto:
    """A copy of the model in which inputs are constants; elements in files beside it are in the copy.

    A single number fills an input. Dimensions that only a fixed input has are those of its elements. Raises
    InputError for a name that is no input, and for elements that do not fit its type or shape.
    """
    done = {p.value for p in model.metadata_props if p.key == MARK}
    values = {name: value for name, value in values.items() if name not in done}
    if not values:
        return model  # the steps of a compilation hand on what the first of them fixed
    made = onnx.ModelProto()
    made.CopyFrom(model)
    if home is not None and any(t.data_location == t.EXTERNAL for t in tensors_of(made)):
        embed_external(made, home)
    inputs = {v.name: v for v in made.graph.input}
    for name, value in values.items():
        if name not in inputs:
            known = ", ".join(inputs) or "none"
            raise InputError(f"--fix {name}: the model has no such input; it has: {known}")
        array = _elements(inputs[name], value, define)
        bind(made.graph, inputs[name], array.shape, define)
        made.graph.input.remove(inputs[name])
        for old in [t for t in made.graph.initializer if t.name == name]:
            made.graph.initializer.remove(old)
        made.metadata_props.add(key=MARK, value=name)
        made.graph.initializer.append(numpy_helper.from_array(array, name))
    return made


def _elements(info: onnx.ValueInfoProto, value: Any, define: Mapping[str, Any]) -> Array:
    """What the user gives, in the input's type and shape."""
    who, tensor = f"--fix {info.name}", info.type.tensor_type
    if info.type.WhichOneof("value") != "tensor_type" or not tensor.elem_type:
        raise InputError(f"{who}: only a tensor can be fixed")
    try:
        given = np.asarray(value)
    except ValueError:
        given = np.array(None)
    if given.dtype == object and not all(isinstance(s, str | bytes) for s in given.reshape(-1)):
        raise InputError(f"{who}: the rows differ in length, or hold no numbers")
    array = _typed(given, tensor.elem_type, who)
    if not tensor.HasField("shape"):
        return array
    wanted = [_extent(d, define) for d in tensor.shape.dim]
    if array.ndim == 0 and None not in wanted:
        return np.full([n for n in wanted if n is not None], array)
    if len(wanted) != array.ndim or any(w not in (None, n) for w, n in zip(wanted, array.shape, strict=True)):
        named = [d.dim_param or str(d.dim_value or "?") for d in tensor.shape.dim]
        found = "x".join(map(str, array.shape)) or "one element"
        raise InputError(f"{who}: its shape is {'x'.join(named)}, not {found}")
    return array


def _typed(given: Array, number: int, who: str) -> Array:
    """The elements in the input's type, none of them changed by that but for a float's rounding."""
    dtype = dtype_from_onnx(number)
    if dtype.is_text:
        if given.dtype.kind not in "UO":
            raise InputError(f"{who}: the input holds strings")
        return given.astype(object)
    if given.dtype.kind == "V" and given.dtype.itemsize == dtype.numpy.itemsize:
        return given.view(dtype.numpy)  # a type that numpy does not know
    if given.dtype.kind not in "biuf":
        raise InputError(f"{who}: the input holds {dtype}, write numbers")
    with np.errstate(all="ignore"):
        array = given.astype(dtype.numpy)
        is_changed = dtype.kind in "iub" and not np.array_equal(array.astype(given.dtype), given)
    if is_changed:
        raise InputError(f"{who}: the input holds {dtype}, which some of the elements are not")
    return np.asarray(array)


def _extent(dim: onnx.TensorShapeProto.Dimension, define: Mapping[str, Any]) -> int | None:
    """The extent of a dimension; None for one that nobody says."""
    if dim.WhichOneof("value") == "dim_value" and dim.dim_value >= 0:
        return int(dim.dim_value)
    said = define.get(dim.dim_param)
    return said if isinstance(said, int) else None


def bind(
    graph: onnx.GraphProto, info: onnx.ValueInfoProto, shape: tuple[int, ...], define: Mapping[str, Any]
) -> None:
    """Give the dimensions that only a fixed input's elements tell their extents, wherever they stand."""
    dims = info.type.tensor_type.shape.dim
    named = {dimension_name(d): n for d, n in zip(dims, shape, strict=False) if dimension_name(d)}
    known = {name: n for name, n in named.items() if name not in define}
    for other in (*graph.input, *graph.output, *graph.value_info):
        for d in other.type.tensor_type.shape.dim:
            if d.dim_param in known:
                d.dim_value = known[d.dim_param]
