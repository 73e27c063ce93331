"""Numbers as C literals that round-trip exactly, and strings as C strings that nothing can leave."""

from __future__ import annotations

import math

import numpy as np

from ingot.formula.types import FLOAT32, FLOAT64, INDEX, DType


def literal(value: int | float | bool, dtype: DType) -> str:
    """A C expression of exactly this value and type."""
    if dtype.is_float and dtype.is_narrow:
        return hex(int(np.array(value, dtype.numpy).view(f"u{dtype.bytes}")))
    if dtype.is_float:
        return floating(float(value), dtype)
    n = int(value)
    if dtype is INDEX or dtype.bits < 32:
        return str(n) if n >= 0 else f"({n})"
    suffix = {"i": "", "u": "u"}[dtype.kind] + ("ll" if dtype.bits == 64 else "")
    lowest = -(1 << (dtype.bits - 1))
    if dtype.kind == "i" and n == lowest:
        return f"({lowest + 1}{suffix} - 1)"
    return f"{n}{suffix}" if n >= 0 else f"({n}{suffix})"


PLAIN = frozenset(range(32, 127)) - frozenset(b'"\\?')
"""Characters that stand for themselves: no quote, no escape, and no trigraph."""


def quoted(value: bytes) -> str:
    """A C string of exactly these bytes; three octal digits never take a fourth."""
    return '"' + "".join(chr(c) if c in PLAIN else f"\\{c:03o}" for c in value) + '"'


def floating(x: float, dtype: DType) -> str:
    """Shortest decimal that reads back as the same number; `__builtin_` spellings for inf and NaN."""
    assert dtype in (FLOAT32, FLOAT64)
    f = "f" if dtype is FLOAT32 else ""
    if math.isnan(x):
        return f'__builtin_nan{f}("")'
    if math.isinf(x):
        return f"(-__builtin_inf{f}())" if x < 0 else f"__builtin_inf{f}()"
    digits = repr(float(x)) if not f else np.format_float_positional(np.float32(x), unique=True, trim="0")
    if f and not 1e-4 <= abs(x) < 1e9 and x != 0:
        digits = np.format_float_scientific(np.float32(x), unique=True, trim="0")
    return f"({digits}{f})" if digits.startswith("-") else digits + f
