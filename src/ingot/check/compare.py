"""How far two arrays are apart. In: what was computed and what is right; out: a `Difference`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ingot.formula.expr import Array
from ingot.formula.types import FLOAT8E8M0, dtype_of

if TYPE_CHECKING:
    from ingot.check.judge import Judgement

# Of the largest element: sums in another order, and two ulp in each of our functions.
TOLERANCES = {"float64": 1e-9, "float32": 1e-4, "float16": 5e-3, "bfloat16": 3e-2}


@dataclass(frozen=True, slots=True)
class Difference:
    """One tensor: `node` and `op` made it; `relative` is max|d|/max|y|; NaN counts as itself.

    `ulp` counts the representable numbers between the two farthest elements; for integers it is max|d|.
    `ok` where they agree, or else where the `judgement` says that the difference is none of Ingot's making.
    """

    name: str
    node: str
    op: str
    dtype: str
    shape: tuple[int, ...]
    max_abs: float
    relative: float
    ulp: int
    ok: bool
    remark: str = ""
    judgement: Judgement | None = None


def compare(
    found: Array,
    right: Array,
    tolerance: float | None = None,
    *,
    name: str = "",
    node: str = "",
    op: str = "",
) -> Difference:
    """Without a `tolerance`, floats may differ by what their type allows and everything else not at all.

    Floats of 8 bits and below may be neighbours: a sum in another order is rounded the other way.
    """
    right = np.asarray(right)
    kind, shape = str(found.dtype), tuple(found.shape)
    if found.dtype != right.dtype or shape != right.shape:
        remark = f"{kind}{list(shape)} instead of {right.dtype}{list(right.shape)}"
        return Difference(name, node, op, kind, shape, np.inf, np.inf, 0, False, remark)
    if not found.size:
        return Difference(name, node, op, kind, shape, 0.0, 0.0, 0, True)
    if found.dtype == object:
        return _texts(found, right, name, node, op)
    a, b = found.astype(np.float64), right.astype(np.float64)
    same = (found == right) | (np.isnan(a) & np.isnan(b))
    finite = np.isfinite(a) & np.isfinite(b)
    wild = int(np.sum(~same & ~finite))
    largest = float(np.max(np.abs(b), initial=0, where=np.isfinite(b)))
    apart = float(np.max(np.abs(np.where(finite, a, 0) - np.where(finite, b, 0))))
    max_abs = np.inf if wild else apart
    relative = max_abs / largest if largest else max_abs
    allowed = TOLERANCES.get(kind, 0.0) if tolerance is None else tolerance
    ok = bool(same.all()) or (relative <= allowed and (relative > 0 or allowed > 0))
    remark = f"{wild} elements are NaN or infinite on one side only" if wild else ""
    far = int(np.max(_ulp(found, right), initial=0, where=~same & finite))
    short = dtype_of(found).is_float and dtype_of(found).bits <= 8
    ok = ok or (tolerance is None and short and not wild and far <= 1)
    return Difference(name, node, op, kind, shape, max_abs, relative, far, ok, remark)


def _texts(found: Array, right: Array, name: str, node: str, op: str) -> Difference:
    """Strings are equal or not."""
    wrong = int(np.sum(found != right))
    off = np.inf if wrong else 0.0
    remark = f"{wrong} strings differ" if wrong else ""
    return Difference(name, node, op, "string", tuple(found.shape), off, off, 0, not wrong, remark)


def _ulp(a: Array, b: Array) -> Array:
    """How many representable numbers apart, element by element."""
    x, y = _ordered(a), _ordered(b)
    distance: Array = np.where(x > y, x - y, y - x)  # unsigned: one of the two wraps and is not taken
    return distance


def _ordered(array: Array) -> Array:
    """Unsigned integers in the order of the elements, neighbours next to each other."""
    if array.dtype == bool:
        return array.astype(np.uint64)
    dtype = dtype_of(array)
    top = np.uint64(1 << (dtype.bits - 1))
    whole = np.ascontiguousarray(array).view(f"u{dtype.bytes}").astype(np.uint64)
    bits: Array = whole & np.uint64((1 << dtype.bits) - 1)
    if dtype.kind == "u" or dtype is FLOAT8E8M0:
        return bits
    if dtype.kind == "i":
        return np.asarray(bits ^ top)
    ordered: Array = np.where(bits >= top, top - (bits - top), bits + top)  # sign and magnitude
    return ordered
