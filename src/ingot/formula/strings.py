"""Strings as elements: Python's in, zero-padded UTF-8 of a fixed capacity out, and back.

The readers of models and the bundle's Python face call this; everything between them moves numpy's `S<n>`.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ingot.errors import InputError
from ingot.formula.expr import Array
from ingot.formula.types import DType

MOST_BYTES = 1 << 16
"""The largest capacity of a string."""
SHOWN = 40


def encoded(values: Iterable[object], dtype: DType) -> Array:
    """The strings (str, or bytes of UTF-8) as one axis of `dtype`.

    Raises InputError for what is no string, not UTF-8, holds a zero or is too long.
    """
    return np.array([_checked(v, dtype) for v in values], dtype.numpy)


def _checked(value: object, dtype: DType) -> bytes:
    if not isinstance(value, (str, bytes)):
        raise InputError(f"{value!r} is not a string"[: 2 * SHOWN])
    try:
        data = value.encode() if isinstance(value, str) else value
        data.decode()
    except UnicodeError:
        raise InputError(f"the string {value[:SHOWN]!r} is not UTF-8") from None
    if 0 in data:
        raise InputError(f"the string {value[:SHOWN]!r} holds a zero, which ends strings in C")
    if len(data) >= dtype.bytes:
        reason = f"takes {len(data)} bytes and the zero at its end, more than {dtype.bytes}"
        more = min(-(-(len(data) + 1) // 16) * 16, MOST_BYTES)
        raise InputError(
            f"the string {value[:SHOWN]!r} {reason}", remedy=f"compile with --string-bytes {more}"
        )
    return data


def decoded(array: Array) -> Array:
    """Elements as Python's strings; bytes that are not UTF-8 survive as surrogates."""
    out = np.empty(array.shape, object)
    flat = [v.decode("utf-8", "surrogateescape") for v in array.reshape(-1).tolist()]
    out.reshape(-1)[:] = flat
    return out


WORDS = ("", "a", "B", "ab", "Ab c", " x ", "0", "12", "-3.5", "Größe", "日本", "e,f;g")


def random_texts(rng: np.random.Generator, dtype: DType, shape: tuple[int, ...]) -> Array:
    """Short words of several scripts, and numbers, as far as they fit."""
    words = [w.encode() for w in WORDS if len(w.encode()) < dtype.bytes]
    return np.array(words, dtype.numpy)[rng.integers(0, len(words), shape)].reshape(shape)
