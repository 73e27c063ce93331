"""What each named operation means, on numpy arrays: the one table the formula and loop evaluators share.

Integers wrap. Division by zero yields 0 on integers (C leaves it undefined; a bundle must not trap). A shift
by the width or more yields what an infinitely wide register would.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ingot.formula import soft_floats
from ingot.formula.types import DType

Array = Any  # numpy scalar or array: the evaluators broadcast


def _floordiv(a: Array, b: Array) -> Array:
    return np.where(b == 0, np.zeros_like(b), a // np.where(b == 0, np.ones_like(b), b))


def _mod(a: Array, b: Array) -> Array:
    if np.asarray(a).dtype.kind == "f":
        return np.mod(a, b)
    return np.where(b == 0, np.zeros_like(b), np.mod(a, np.where(b == 0, np.ones_like(b), b)))


def _div(a: Array, b: Array) -> Array:
    """True division of floats, C's truncating division of integers."""
    if np.asarray(a).dtype.kind == "f":
        return np.divide(a, b)
    q = _floordiv(a, b)
    inexact = _mod(a, b) != 0
    return np.where(inexact & ((a < 0) != (b < 0)), q + np.ones_like(q), q)


def _fmod(a: Array, b: Array) -> Array:
    if np.asarray(a).dtype.kind == "f":
        return np.fmod(a, b)
    return np.where(b == 0, np.zeros_like(b), a - _div(a, b) * b)


def _shl(a: Array, b: Array) -> Array:
    bits = np.asarray(a).dtype.itemsize * 8
    return np.where(b >= bits, np.zeros_like(a), np.left_shift(a, np.minimum(b, bits - 1)))


def _shr(a: Array, b: Array) -> Array:
    bits = np.asarray(a).dtype.itemsize * 8
    far = (
        np.where(a < 0, ~np.zeros_like(a), np.zeros_like(a))
        if np.asarray(a).dtype.kind == "i"
        else np.zeros_like(a)
    )
    return np.where(b >= bits, far, np.right_shift(a, np.minimum(b, bits - 1)))


def _pow(a: Array, b: Array) -> Array:
    if np.asarray(a).dtype.kind == "f":
        # numpy takes a constant exponent 1/2 for sqrt, which differs from C's pow at -0 and -inf
        root = np.where(np.isneginf(a), -a, np.sqrt(a) + np.zeros_like(a))
        return np.where(b == 0.5, root, np.power(a, b))
    out, base, e = np.ones_like(a), np.array(a), np.array(b)
    while np.any(e > 0):
        out = np.where(e % 2 == 1, out * base, out)
        base, e = base * base, e // 2
    if np.asarray(b).dtype.kind == "u":
        return out
    one = np.ones_like(a)
    turned = np.where(b % 2 == 0, one, -one) if np.asarray(a).dtype.kind == "i" else np.zeros_like(a)
    small = np.where(a == 1, one, np.where(a == -one, turned, np.zeros_like(a)))
    return np.where(b < 0, small, out)


def mulhi(a: Array, b: Array) -> Array:
    """The high half of the double-width product."""
    dtype = np.asarray(a).dtype
    bits = dtype.itemsize * 8
    double = f"{dtype.kind}{2 * dtype.itemsize}" if bits <= 32 else object
    wide = np.asarray(a).astype(double) * np.asarray(b).astype(double)
    return np.asarray(wide >> bits).astype(dtype)


def doubling_high(a: Array, b: Array) -> Array:
    """The upper half of 2ab of int32, rounded to the nearest, halves up: gemmlowp's
    SaturatingRoundingDoublingHighMul. Only -2^31 times itself saturates.
    """
    rounded = (np.asarray(a).astype(np.int64) * np.asarray(b).astype(np.int64) + (1 << 30)) >> 31
    return np.minimum(rounded, (1 << 31) - 1).astype(np.int32)


def rounding_shr(a: Array, b: Array) -> Array:
    """a / 2^b of int32, rounded to the nearest, halves away from 0: gemmlowp's RoundingDivideByPOT, which
    is not defined from 32 on; there it is 0.
    """
    wide, by = np.asarray(a).astype(np.int64), np.minimum(np.asarray(b), 32).astype(np.int64)
    mask = (np.int64(1) << by) - 1
    more = (wide & mask) > (mask >> 1) + (wide < 0)
    return np.where(by < 32, (wide >> by) + more, 0).astype(np.int32)


def _away(a: Array) -> Array:
    whole = np.floor(np.abs(a))
    return np.copysign(whole + (np.abs(a) - whole >= 0.5), a).astype(np.asarray(a).dtype)


def _erf(a: Array) -> Array:
    return np.vectorize(math.erf, otypes=[float])(np.asarray(a, dtype=float)).astype(np.asarray(a).dtype)


def _tan(x: Array) -> Array:
    """Beside a pole glibc's double tan is off by 8 units in the last place where its own is all numpy has."""
    wide = np.tan(x.astype(np.longdouble)) if x.dtype == np.float64 else np.tan(x)
    return np.asarray(wide.astype(x.dtype))


def _sigmoid(a: Array) -> Array:
    small = np.exp(-np.abs(a))
    return np.where(np.asarray(a) < 0, small / (1 + small), 1 / (1 + small))


def scalef(a: Array, b: Array) -> Array:
    """a * 2^floor(b), rounded once: overflow gives infinity, denormals come out right."""
    steps = np.clip(np.floor(np.nan_to_num(b)), -(2**14), 2**14).astype(np.int32)
    return np.where(np.isnan(b), b, np.ldexp(a, steps)).astype(np.asarray(a).dtype)


def fma(a: Array, b: Array, c: Array) -> Array:
    """a * b + c rounded once (where a*b's rounding error is not below the range); of floats' bits if int32.

    The exact sum is a pair of wider numbers; its low part goes into the high one's last bit (rounding to odd:
    Boldo & Melquiond, "Emulation of FMA and correctly rounded sums", 2008), so that the last rounding is the
    only one.
    """
    dtype = np.asarray(c).dtype
    if dtype == np.int32:
        return soft_floats.on_floats(fma)(a, b, c)
    if dtype == np.float32:
        product, addend = np.multiply(a, b, dtype=np.float64), np.asarray(c, np.float64)  # exact
        return _to_odd(*_exact_sum(product, addend)).astype(dtype)
    larger = np.where(np.abs(a) > np.abs(b), a, b)
    scale = np.where(np.maximum(np.abs(larger), np.abs(c)) > 2.0**960, 2.0**-80, 1.0)  # halves overflow
    high, low = _exact_product(larger * scale, np.where(np.abs(a) > np.abs(b), b, a))
    head, rest = _exact_sum(c * scale, low)
    top, middle = _exact_sum(high, head)
    exact = (top + _to_odd(*_exact_sum(rest, middle))) / scale
    return np.where(np.isfinite(exact), exact, np.asarray(a) * b + c)


def _exact_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """a + b and what its rounding lost (Knuth, TAOCP 2, 4.2.2)."""
    total = a + b
    back = total - a
    return total, (a - (total - back)) + (b - back)


def _exact_product(a: Array, b: Array) -> tuple[Array, Array]:
    """a * b of float64 and what its rounding lost (Dekker 1971)."""
    product = a * b
    (ah, al), (bh, bl) = _halves(a), _halves(b)
    return product, ((ah * bh - product) + ah * bl + al * bh) + al * bl


def _halves(a: Array) -> tuple[Array, Array]:
    high = a * 134217729.0
    high = high - (high - a)
    return high, a - high


def _to_odd(total: Array, lost: Array) -> Array:
    """The sum with its last bit set where something was lost, on the side where the exact sum lies."""
    total, lost = np.broadcast_arrays(np.asarray(total, np.float64), np.asarray(lost, np.float64))
    inexact = (lost != 0) & np.isfinite(lost) & (total.view(np.int64) & 1 == 0)
    towards = np.where(lost > 0, np.inf, -np.inf)
    return np.where(inexact, np.nextafter(total, towards), total)


UNARY: dict[str, Callable[[Array], Array]] = {
    "neg": np.negative,
    "abs": np.abs,
    "not": np.logical_not,
    "invert": np.invert,
    "sign": np.sign,
    "exp": np.exp,
    "exp_nonpositive": np.exp,
    "exp_steady": np.exp,
    "log": np.log,
    "exp2": np.exp2,
    "log2": np.log2,
    "sigmoid": _sigmoid,
    "sqrt": np.sqrt,
    "sin": np.sin,
    "cos": np.cos,
    "tan": _tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "erf": _erf,
    "expm1": np.expm1,
    "log1p": np.log1p,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "away": _away,
    "trunc": np.trunc,
    "isnan": np.isnan,
    "isinf": np.isinf,
}
UNARY |= {f"soft_{op}": soft_floats.on_floats(f) for op, f in UNARY.items()} | soft_floats.UNARY

BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": _div,
    "floordiv": _floordiv,
    "mod": _mod,
    "fmod": _fmod,
    "max": np.maximum,
    "min": np.minimum,
    "larger": lambda a, b: np.where(np.greater(a, b), a, b),
    "pow": _pow,
    "scalef": scalef,
    "shl": _shl,
    "shr": _shr,
    "mulhi": mulhi,
    "doubling_high": doubling_high,
    "rounding_shr": rounding_shr,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    **soft_floats.BINARY,
}


class _Running:
    """A sum of one element after the other, where numpy's adds in pairs."""

    def __call__(self, a: Array, b: Array) -> Array:
        return np.add(a, b)

    def reduce(self, terms: Array, axis: tuple[int, ...], dtype: Any) -> Array:
        flat = terms.reshape(*terms.shape[: axis[0]], -1)
        return np.add.accumulate(flat, axis=-1, dtype=dtype)[..., -1]


REDUCE: dict[str, Any] = {
    "sum": np.add,
    "running sum": _Running(),  # for the evaluator only: see `loops/widen.py`
    "prod": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "largest": np.fmax,
    "largest number": np.fmax,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
}


def convert(a: Array, to: DType) -> Array:
    """`Cast`: float to integer truncates and saturates, NaN is 0; integers wrap; else numpy's."""
    source = np.asarray(a)
    if source.dtype.kind not in "fV" or to.is_float or to.kind == "b":
        return source.astype(to.numpy)
    wide = np.nan_to_num(source.astype(np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf)
    inside = np.clip(np.trunc(wide), float(to.lowest), np.nextafter(float(to.highest) + 1, 0))
    return np.where(wide >= float(to.highest), to.highest, inside.astype(to.numpy)).astype(to.numpy)
