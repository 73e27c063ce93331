"""`.npy` files as arrays. In: a path and the element type that is wanted; out: an array, or one InputError.

The header is held against one form and the file's size before anything is allocated; elements are mapped, not
read. Numpy's own reader evaluates the header as Python and believes its sizes. Called by whatever takes
`--input`.
"""

from __future__ import annotations

import mmap
import os
import re
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ingot.errors import InputError
from ingot.files import open_file

if TYPE_CHECKING:
    import numpy as np

    from ingot.formula.expr import Array

MAGIC = b"\x93NUMPY"
VERSIONS = {1: 2, 2: 4, 3: 4}  # of the format: bytes of the header's length
HEADER_BYTES = 1 << 16
AXES, DIGITS = 64, 18
FILE_BYTES = 1 << 36
STRINGS = 1 << 22
_VALUE = r"'(?P<descr>[<>|=]?[a-zA-Z]\w{0,9})'|(?P<order>True|False)|\((?P<shape>[\d,\s]*)\)"
_FIELD = re.compile(rf"\s*'(descr|fortran_order|shape)'\s*:\s*(?:{_VALUE})\s*(?:,|$)", re.ASCII)
_FORMS = {"descr": "descr", "fortran_order": "order", "shape": "shape"}
_SHAPE = re.compile(r"\s*|(\s*\d+\s*,)+\s*|\s*\d+\s*(,\s*\d+\s*)+", re.ASCII)  # (), (3,), (2, 3)


def read_array(path: Path, dtype: str | None = None) -> Array:
    """One .npy file. Types that numpy does not know come back from it as raw bytes and are restored.

    Without a type the elements are as the file has them.
    """
    from ingot.formula.strings import decoded
    from ingot.formula.types import dtype_named

    if dtype is None:
        return mapped(path)
    array, wanted = mapped(path), dtype_named(dtype).numpy
    if wanted.kind == "S" and array.dtype.kind in "SU":
        if array.size > STRINGS:
            raise InputError(f"{path} has {array.size:,} strings, more than {STRINGS:,}")
        try:
            return decoded(array) if array.dtype.kind == "S" else array.astype(object)
        except ValueError as error:
            raise InputError(f"{path} holds what is no text: {error}") from None
    if array.dtype.kind == "V" and array.dtype.itemsize == wanted.itemsize:
        return array.view(wanted)
    return array


def mapped(path: Path) -> Array:
    """Return a .npy file's elements as the file has them, mapped; booleans are 0 and 1, whatever bytes stand
    there. Raises InputError."""
    try:
        with os.fdopen(open_file(path, FILE_BYTES), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            start, form = _form(file.read(HEADER_BYTES), size)
            held = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)
    except (ValueError, TypeError) as error:
        raise InputError(f"{path} is not a .npy file of numbers or strings: {error}") from None
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None
    return _array(held, start, form)


def parse_array(data: bytes | bytearray, source: object) -> Array:
    """Return the elements of what is a .npy file, from `source`. Raises InputError."""
    try:
        start, form = _form(bytes(data[:HEADER_BYTES]), len(data))
    except (ValueError, TypeError) as error:
        raise InputError(f"{source} is not a .npy file of numbers or strings: {error}") from None
    return _array(data, start, form)


def _form(head: bytes, size: int) -> tuple[int, tuple[np.dtype[Any], bool, tuple[int, ...]]]:
    """Where the elements begin, their type, whether they are in Fortran's order, and the shape."""
    import numpy as np

    start, (descr, is_fortran, shape) = _header(head)
    element = np.dtype(descr)
    _require_size(element, shape, size - start)
    return start, (element, is_fortran, shape)


def _array(
    held: mmap.mmap | bytes | bytearray, start: int, form: tuple[np.dtype[Any], bool, tuple[int, ...]]
) -> Array:
    import numpy as np

    element, is_fortran, shape = form
    array: Array = np.ndarray(shape, element, held, start, order="F" if is_fortran else "C")
    if element.kind == "b":
        return np.asarray(array.view(np.uint8) != 0)
    return array if array.flags.aligned else array.copy()


def _require_size(element: np.dtype[Any], shape: tuple[int, ...], size: int) -> None:
    """ValueError unless the elements can be a tensor's and fill the rest of the file."""
    if element.kind not in "biufcSUV" or not element.itemsize or element.names or element.subdtype:
        raise ValueError(f"its elements are {element}")
    if (wanted := prod(shape) * element.itemsize) != size:
        raise ValueError(f"{list(shape)} of {element} take {wanted:,} bytes, there are {size:,}")


def _header(data: bytes) -> tuple[int, tuple[str, bool, tuple[int, ...]]]:
    """Where the elements begin, and what they are. Raises ValueError."""
    if data[:6] != MAGIC or len(data) < 12 or data[6] not in VERSIONS or data[7]:
        raise ValueError("it does not begin as one")
    start = 8 + VERSIONS[data[6]]
    end = start + int.from_bytes(data[8:start], "little")
    if end > len(data):
        raise ValueError(f"its header of {end - start:,} bytes does not end in time")
    return end, _fields(data[start:end].decode("ascii"))


def _fields(text: str) -> tuple[str, bool, tuple[int, ...]]:
    body = text.strip()
    if body[:1] + body[-1:] != "{}":
        raise ValueError("its header is no dictionary")
    found: dict[str, str] = {}
    at, body = 0, body[1:-1].strip()
    while at < len(body):
        field = _FIELD.match(body, at)
        if field is None or field[1] in found or field[_FORMS[field[1]]] is None:
            raise ValueError(f"its header is damaged: {text.strip()[:80]!r}")
        found[field[1]], at = field[_FORMS[field[1]]], field.end()
    if len(found) != len(_FORMS):
        raise ValueError(f"its header has {', '.join(found) or 'nothing'}")
    shape = re.findall(r"\d+", found["shape"])
    if not _SHAPE.fullmatch(found["shape"]) or len(shape) > AXES or any(len(n) > DIGITS for n in shape):
        raise ValueError(f"its shape is ({found['shape'][:DIGITS]})")
    return found["descr"], found["fortran_order"] == "True", tuple(map(int, shape))
