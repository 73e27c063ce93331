"""Protobuf's wire format, walked without reading what it holds: two gigabytes of garbage are refused at once.

In: the path of a model. Out: its bytes, or a ModelError for a large file that is no message. Called by the
readers of ONNX's and TensorFlow's binary forms; what is small is left to protobuf, which reads all of it.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

from ingot.errors import ModelError
from ingot.files import MODEL_BYTES, open_file, read_file

Parts: TypeAlias = Mapping[int, "Parts"]
"""The fields that are messages and are walked too, by number."""
LARGE = 1 << 26
_VARINT_BYTES = 10
_FIXED = {1: 8, 5: 4}  # bytes, by wire type


def read_message(path: Path, what: str, parts: Parts) -> bytes:
    """The bytes of a file that may be a message. Raises InputError, for `what` it is not too."""
    with os.fdopen(open_file(path, MODEL_BYTES), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size >= LARGE:
            with mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) as data:
                if not is_message(data, 0, size, parts):
                    raise ModelError(f"{path} is not {what}, or is cut short")
    return read_file(path)


def is_message(data: mmap.mmap | bytes, at: int, end: int, parts: Parts) -> bool:
    """Whether fields follow one another up to the end; of those in `parts` what they hold too."""
    while at < end:
        tag, at = _varint(data, at, end)
        number, kind = tag >> 3, tag & 7
        if kind == 0:
            _, at = _varint(data, at, end)
            size = 0
        elif kind == 2:
            size, at = _varint(data, at, end)
        else:
            size = _FIXED.get(kind, end)  # groups are of a time before ONNX
        if number < 1 or at + size > end:
            return False
        if kind == 2 and number in parts and not is_message(data, at, at + size, parts[number]):
            return False
        at += size
    return at == end


def _varint(data: mmap.mmap | bytes, at: int, end: int) -> tuple[int, int]:
    """A number and where it ends: beyond `end` where it does not."""
    value = 0
    for k in range(min(_VARINT_BYTES, end - at)):
        value |= (data[at + k] & 0x7F) << 7 * k
        if data[at + k] < 0x80:
            return value, at + k + 1
    return 0, end + 1


def fields(data: bytes, most: int) -> Iterator[tuple[int, int, bytes]]:
    """The first fields of a message: number, wire type, content (b"" for a number). The last one may be cut.

    Ends without a word where no field begins: the message may be cut short, or be none.
    """
    at = 0
    for _ in range(most):
        tag, at = _varint(data, at, len(data))
        number, kind = tag >> 3, tag & 7
        if number < 1 or kind not in (0, 1, 2, 5) or at > len(data):
            return
        value, after = _varint(data, at, len(data)) if kind in (0, 2) else (_FIXED[kind], at)
        start, at = after, after + (0 if kind == 0 else value)
        yield number, kind, data[start:at]
