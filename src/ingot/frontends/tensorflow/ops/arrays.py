"""TensorArrays (of while frames) and TensorLists (of functional loops): both are Arrays of elements here.

With an index that is known, an element is put or found by it; else the elements are one tensor, which is
gathered from and scattered to.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from ingot.errors import ModelError
from ingot.formula.types import INT64
from ingot.frontends.orders import sliced
from ingot.frontends.tensorflow.ops.movement import stacked
from ingot.frontends.tensorflow.ops.table import Call, Result, op
from ingot.frontends.tensorflow.tensors import dtype_of
from ingot.frontends.tensorflow.values import Array, Tensor

SIZE_LIMIT = 1 << 20


def _size(c: Call, i: int) -> int:
    n = int(c.number(i, "the number of elements"))
    c.require(0 <= n <= SIZE_LIMIT, f"an array of {n} elements; it may have 0 to {SIZE_LIMIT}")
    return n


def dense(c: Call, array: Array, like: Tensor | None = None) -> Tensor:
    """All elements stacked; zeros where there is none, in the shape of `like` if nothing else tells it."""
    if array.dense is not None and not array.items:
        return array.dense
    some = next(iter(array.items.values()), like)
    dtype = some.dtype if some else array.dtype
    element = some.shape if some else array.element
    if array.dense is not None:
        element, dtype = array.dense.shape[1:], array.dense.dtype
    if element is None or dtype is None or None in element:
        raise c.refuse("nothing says the shape of the array's elements; give its element_shape in the model")
    shape = tuple(int(n) for n in element if n is not None)
    if not array.items or not array.size:
        return Tensor(c.b.filled((array.size, *shape), 0, dtype))
    zeros = Tensor(c.b.filled(shape, 0, dtype))
    parts = [_element(c, array, i, zeros) for i in range(array.size)]
    return Tensor(stacked(c, parts, 0))


def _element(c: Call, array: Array, i: int, missing: Tensor | None = None) -> Tensor:
    if i in array.items:
        return array.items[i]
    if array.dense is not None and 0 <= i < min(array.size, array.dense.shape[0]):
        x = c.b.plain(array.dense)
        shape = array.dense.shape
        part = sliced(c.b, x, [i, *[0] * (len(shape) - 1)], [i + 1, *shape[1:]], [1] * len(shape))
        return Tensor(c.b.reshape(part, shape[1:]))
    if missing is None:
        raise ModelError(f"{c.node.label}: element {i} of {array.size} is read before it is written")
    return missing


def read(c: Call, array: Array, index: Tensor) -> Tensor:
    c.require(math.prod(index.shape) == 1, "the index must be one number")
    known = index.constant
    if known is not None:
        return _element(c, array, int(known.reshape(())), _zeros(c, array))
    return Tensor(c.b.one("Gather", c.b.plain(dense(c, array)), c.b.reshape(c.b.plain(index), ()), axis=0))


def _zeros(c: Call, array: Array) -> Tensor | None:
    """What a list yields where nothing was put."""
    if array.element is None or None in array.element or array.dtype is None:
        return None
    return Tensor(c.b.filled([int(n or 0) for n in array.element], 0, array.dtype))


def write(c: Call, array: Array, index: Tensor, value: Tensor) -> Array:
    c.require(math.prod(index.shape) == 1, "the index must be one number")
    known = index.constant
    if known is not None:
        i = int(known.reshape(()))
        c.require(0 <= i < SIZE_LIMIT, f"element {i} is written, but an array has 0 to {SIZE_LIMIT - 1}")
        return replace(array, size=max(array.size, i + 1), items={**array.items, i: value})
    all_of = c.b.plain(dense(c, array, value))
    where = c.b.cast(c.b.reshape(c.b.plain(index), (1, 1)), INT64)
    made = c.b.one("ScatterND", all_of, where, c.b.reshape(c.b.plain(value), (1, *value.shape)))
    return replace(array, dense=Tensor(made), items={})


# ---- TensorArrays: a handle, and the flow that stands for the contents


@op("TensorArrayV3", "TensorArrayV2")
def tensor_array(c: Call) -> Result:
    made = Array(_size(c, 0), c.node.dtype("dtype"), c.node.shape("element_shape"))
    return [made, made]


@op("TensorArrayWriteV3", "TensorArrayWriteV2")
def array_write(c: Call) -> Result:
    return write(c, c.elements(3), c.tensor(1), c.tensor(2))


@op("TensorArrayReadV3", "TensorArrayReadV2")
def array_read(c: Call) -> Result:
    return read(c, c.elements(2), c.tensor(1))


@op("TensorArrayGatherV3", "TensorArrayGatherV2")
def array_gather(c: Call) -> Result:
    array, known = c.elements(2), c.tensor(1).constant
    if known is not None and known.tolist() == list(range(array.size)):
        return dense(c, array)
    if known is not None and len(known):
        return stacked(c, [_element(c, array, int(i), _zeros(c, array)) for i in known.reshape(-1)], 0)
    return c.b.one("Gather", c.b.plain(dense(c, array)), c.plain(1), axis=0)


@op("TensorArrayScatterV3", "TensorArrayScatterV2")
def array_scatter(c: Call) -> Result:
    array, value = c.elements(3), c.tensor(2)
    indices = c.ints(1, "the indices")
    fits = value.rank > 0 and value.shape[0] == len(indices)
    c.require(fits, f"there are {len(indices)} indices, but the value does not have so many rows")
    whole = replace(array, size=max(array.size, len(indices)), dense=value, items={})
    if list(indices) == list(range(whole.size)):
        return whole
    fits = all(0 <= i < SIZE_LIMIT for i in indices)
    c.require(fits, f"the indices must lie between 0 and {SIZE_LIMIT - 1}, but one of them does not")
    source = Array(len(indices), value.dtype, dense=value)
    items = {i: _element(c, source, k) for k, i in enumerate(indices)}
    return replace(array, size=max(array.size, *(i + 1 for i in indices), 0), items={**array.items, **items})


@op("TensorArraySizeV3", "TensorArraySizeV2")
def array_size(c: Call) -> Result:
    return c.b.constant(np.int32(c.elements(1).size))


@op("TensorArrayConcatV3", "TensorArrayConcatV2")
def array_concat(c: Call) -> Result:
    """Elements end to end, and how long each is."""
    x = dense(c, c.elements(1))
    c.require(x.rank > 1, "the elements are scalars, which cannot be concatenated; stack them instead")
    joined = c.b.reshape(c.b.plain(x), (x.shape[0] * x.shape[1], *x.shape[2:]))
    return [joined, c.b.ints([x.shape[1]] * x.shape[0])]


# ---- TensorLists


def _shape_input(c: Call, i: int) -> tuple[int | None, ...] | None:
    """A shape as a tensor: -1 for an unknown extent, a scalar for an unknown rank."""
    known = c.tensor(i).constant
    if known is None or known.ndim == 0:
        return None
    return tuple(int(n) if n >= 0 else None for n in known)


@op("TensorListReserve", "EmptyTensorList")
def list_reserve(c: Call) -> Result:
    size = _size(c, 1) if c.node.op == "TensorListReserve" else 0
    kind = c.node.attributes["element_dtype"].type if c.node.has("element_dtype") else 0
    return Array(size, dtype_of(kind) if kind else None, _shape_input(c, 0))


@op("TensorListFromTensor")
def list_from_tensor(c: Call) -> Result:
    x = c.tensor(0)
    c.require(x.rank > 0, "a scalar has no first axis whose elements could become a list")
    return Array(x.shape[0], x.dtype, x.shape[1:], dense=x)


@op("TensorListStack")
def list_stack(c: Call) -> Result:
    array, wanted = c.elements(0), _shape_input(c, 1)
    return dense(c, array if array.element or not wanted else replace(array, element=wanted))


@op("TensorListGetItem")
def list_get(c: Call) -> Result:
    array = c.elements(0)
    wanted = _shape_input(c, 2) if len(c.items) > 2 else None
    known = array.element is not None and None not in array.element
    return read(c, array if known else replace(array, element=wanted), c.tensor(1))


@op("TensorListSetItem")
def list_set(c: Call) -> Result:
    return write(c, c.elements(0), c.tensor(1), c.tensor(2))


@op("TensorListLength")
def list_length(c: Call) -> Result:
    return c.b.constant(np.int32(c.elements(0).size))


@op("TensorListPushBack")
def list_push(c: Call) -> Result:
    array = c.elements(0)
    return replace(array, size=array.size + 1, items={**array.items, array.size: c.tensor(1)})


@op("TensorListPopBack")
def list_pop(c: Call) -> Result:
    array = c.elements(0)
    c.require(array.size > 0, "the list is empty, so there is no last element to take")
    last = _element(c, array, array.size - 1, _zeros(c, array))
    items = {i: t for i, t in array.items.items() if i < array.size - 1}
    rest = sliced_list(c, array.dense, array.size - 1) if array.dense is not None else None
    return [replace(array, size=array.size - 1, items=items, dense=rest), last]


def sliced_list(c: Call, x: Tensor, n: int) -> Tensor:
    """The first n elements."""
    ends = [min(n, x.shape[0]), *x.shape[1:]]
    return Tensor(sliced(c.b, c.b.plain(x), [0] * x.rank, ends, [1] * x.rank))
