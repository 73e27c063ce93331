"""ONNX tensors as numpy arrays. In: a TensorProto and the file of its model; out: an array, or one error.

Every length is checked before anything is allocated or read. External data must be a regular file inside the
model's folder: no absolute path, no "..", no symbolic link; it is mapped, not read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

import numpy as np
import onnx
from google.protobuf.message import Message  # type: ignore[import-untyped]
from onnx import numpy_helper

from ingot.errors import IngotError, ModelError, UnsupportedError
from ingot.files import MODEL_BYTES
from ingot.formula.expr import Array
from ingot.formula.packing import packed_bytes, unpack
from ingot.formula.strings import encoded
from ingot.formula.types import STRING, DType
from ingot.graph.onnx_types import dtype_from_onnx
from ingot.graph.verify import COUNT_LIMIT

Home: TypeAlias = "Path | None"
"""The model's own file, beside which the others lie; None for a model from memory."""
SHOWN = 40
# Where elements that are not raw bytes stand; all other types share int32_data.
_FIELDS = {
    "float32": "float_data",
    "float64": "double_data",
    "int64": "int64_data",
    "uint32": "uint64_data",
    "uint64": "uint64_data",
}
_TYPED = ("string_data", "int32_data", *dict.fromkeys(_FIELDS.values()))


def array_of(tensor: onnx.TensorProto, home: Home, what: str, text: DType = STRING) -> Array:
    """The elements of `tensor`, which messages call `what`; strings become elements of `text`."""
    try:
        return _array(tensor, home, text)
    except IngotError as error:
        raise type(error)(f"{what}: {error}") from None
    except (ValueError, TypeError, OSError, OverflowError) as error:
        raise ModelError(f"{what}: {error}") from None


def dense(sparse: onnx.SparseTensorProto, home: Home, what: str) -> Array:
    """A sparse tensor with its zeros."""
    values, indices = array_of(sparse.values, home, what), array_of(sparse.indices, home, what)
    shape = tuple(sparse.dims)
    if min(shape, default=0) < 0 or math.prod(shape) >= COUNT_LIMIT:
        raise ModelError(f"{what}: shape {list(shape)} is negative or too large")
    out = np.zeros(shape, values.dtype)
    try:
        where = indices if indices.ndim == 1 else np.ravel_multi_index(tuple(indices.T), shape)
        if min(where, default=0) < 0 or len(np.unique(where)) < len(where):
            raise ValueError("one is negative, or stands there twice")
        if where.shape != values.shape:  # numpy would repeat a single value
            raise ValueError(f"there are {where.size}, of {values.size} values")
        out.reshape(-1)[where] = values
    except (ValueError, IndexError, TypeError) as error:
        raise ModelError(f"{what}: bad indices of a sparse tensor: {error}") from None
    return out


def _array(tensor: onnx.TensorProto, home: Home, text: DType) -> Array:
    dtype, shape = dtype_from_onnx(tensor.data_type, text), tuple(tensor.dims)
    if min(shape, default=0) < 0 or math.prod(shape) >= COUNT_LIMIT:
        raise ModelError(f"shape {list(shape)} is negative or too large")
    if tensor.HasField("segment"):
        raise UnsupportedError("segmented tensors are not supported")
    is_external = tensor.data_location == onnx.TensorProto.EXTERNAL
    _require_one_place(tensor, is_external)
    if is_external:
        if dtype.is_text:
            raise ModelError("strings cannot lie in a file beside the model")
        return _external(tensor, home, dtype, shape)
    count = math.prod(shape)
    if dtype.is_text:
        _require_length(len(tensor.string_data), count, "elements", shape, dtype)
        return encoded(tensor.string_data, text).reshape(shape)
    if tensor.HasField("raw_data"):
        _require_length(len(tensor.raw_data), packed_bytes(count, dtype), "bytes", shape, dtype)
    else:
        field = _FIELDS.get(dtype.name, "int32_data")
        words = packed_bytes(count, dtype) if dtype.bits in (2, 4) else count
        _require_length(len(getattr(tensor, field)), words, "elements", shape, dtype)
    array = np.asarray(numpy_helper.to_array(tensor)).astype(dtype.numpy, copy=False)
    return _clean(array)


def _require_one_place(tensor: onnx.TensorProto, is_external: bool) -> None:
    """Raise ModelError for elements that are given twice: runtimes differ in which they take."""
    held = ["a file beside the model"] if is_external else []
    if tensor.HasField("raw_data") and not (is_external and not tensor.raw_data):
        held.append("raw_data")
    held += [name for name in _TYPED if len(getattr(tensor, name))]
    if len(held) > 1:
        raise ModelError(f"its elements are given in several places: {', '.join(held)}")


def _require_length(found: int, wanted: int, unit: str, shape: tuple[int, ...], dtype: DType) -> None:
    if found != wanted:
        raise ModelError(f"holds {found} {unit} where {dtype}{list(shape)} takes {wanted}")


def _external(tensor: onnx.TensorProto, home: Home, dtype: DType, shape: tuple[int, ...]) -> Array:
    (path, offset, length), wanted = _place(tensor, home), packed_bytes(math.prod(shape), dtype)
    length, size = wanted if length is None else length, path.stat().st_size
    _require_length(length, wanted, "bytes", shape, dtype)
    if offset < 0 or offset + length > size:
        raise ModelError(f"bytes {offset} to {offset + length} lie outside {path.name}, which has {size}")
    if wanted == 0:
        return np.zeros(shape, dtype.numpy)
    if dtype.is_packed:
        return unpack(np.asarray(np.memmap(path, np.uint8, "r", offset, (wanted,))), dtype, shape)
    return _clean(np.asarray(np.memmap(path, dtype.numpy, "r", offset, shape)))


def _place(tensor: onnx.TensorProto, home: Home) -> tuple[Path, int, int | None]:
    """The file that holds a tensor's elements, from which byte on, and how many, if that is said."""
    entries = {e.key: e.value for e in tensor.external_data}
    path = _inside(home, entries.get("location", ""))
    offset, length = (_bytes(key, entries.get(key, "")) for key in ("offset", "length"))
    return path, offset or 0, length


def _bytes(key: str, text: str) -> int | None:
    """A number of bytes, None where there is none. Raises ModelError."""
    if not re.fullmatch("(-?[0-9]{1,40})?", text):
        raise ModelError(f"the {key} of its external data, {text[:SHOWN]!r}, is no number of bytes")
    return int(text) if text else None


def tensors_of(message: Message) -> Iterator[onnx.TensorProto]:
    """Every tensor of a model. Raises ModelError where what names something is no text."""
    if isinstance(message, onnx.TensorProto):
        yield message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for part in value if field.is_repeated else (value,):
                yield from tensors_of(part)
        elif field.type == field.TYPE_STRING:
            for text in value if field.is_repeated else (value,):
                if isinstance(text, bytes):  # so protobuf gives what it cannot decode
                    raise ModelError(f"a name in the model is not UTF-8: {text[:40]!r}")


def external_parts(message: Message, home: Path) -> dict[str, tuple[Path, list[tuple[int, int]]]]:
    """The files beside a model and which of their bytes are elements of its tensors, by location."""
    found: dict[str, tuple[Path, list[tuple[int, int]]]] = {}
    for tensor in tensors_of(message):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            dtype, shape = _type_of(tensor), tuple(tensor.dims)
            path, offset, _ = _place(tensor, home)
            parts = found.setdefault(path.relative_to(home.parent).as_posix(), (path, []))[1]
            parts.append((offset, packed_bytes(math.prod(shape), dtype)))
    return found


def embed_external(message: Message, home: Home) -> None:
    """Bring the elements that lie in files beside a model into the model, whose tensors have types then.
    Raises ModelError as `array_of` does, and UnsupportedError where they are more than one message holds."""
    room = MODEL_BYTES - message.ByteSize()
    for tensor in list(tensors_of(message)):
        dtype = _type_of(tensor)
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            room -= packed_bytes(math.prod(map(abs, tensor.dims)), dtype)
            if room < 0:
                raise UnsupportedError(
                    f"with tensor {tensor.name!r} the model has more than {MODEL_BYTES:,} bytes"
                )
            array = array_of(tensor, home, f"tensor {tensor.name!r}")
            tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(array), tensor.name))


def _type_of(tensor: onnx.TensorProto) -> DType:
    """Raises ModelError or UnsupportedError that names the tensor."""
    try:
        return dtype_from_onnx(tensor.data_type)
    except IngotError as error:
        raise type(error)(f"tensor {tensor.name!r}: {error}") from None


def embed_sparse(message: Message) -> None:
    """Give graphs their sparse initializers with the zeros. Raises ModelError as `dense` does."""
    if isinstance(message, onnx.GraphProto):
        for sparse in message.sparse_initializer:
            name = sparse.values.name
            array = dense(sparse, None, f"initializer {name!r}")
            message.initializer.append(numpy_helper.from_array(array, name))
        del message.sparse_initializer[:]
    for field, value in message.ListFields():
        if field.message_type is not None:
            for part in (value,) if isinstance(value, Message) else value:
                embed_sparse(part)


def _clean(array: Array) -> Array:
    """Booleans as 0 and 1, whatever bytes stand in the file."""
    return np.asarray(array.view(np.uint8) != 0) if array.dtype == np.bool_ else array


def _inside(home: Home, location: str) -> Path:
    """The file `location` of the model's folder. Raises ModelError for anything that could lead out of it."""
    if home is None:
        raise ModelError(f"its data is in the file {location!r}; read the model from its own file to find it")
    parts = location.replace("\\", "/").split("/")
    is_odd = not parts[-1] or "\0" in location or ":" in parts[0]
    if is_odd or Path(location).is_absolute() or ".." in parts:
        raise ModelError(f"external data {location!r} is not a file inside the model's folder")
    path = home.parent
    for part in parts:
        path = path / part
        if path.is_symlink():
            raise ModelError(f"external data {location!r} is a symbolic link; copy the file itself there")
    if not path.is_file():
        raise ModelError(f"external data {location!r} is missing or not a regular file")
    if path.samefile(home):
        raise ModelError(f"external data {location!r} is the model's own file")
    return path
