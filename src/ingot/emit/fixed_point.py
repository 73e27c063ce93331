"""The C of gemmlowp's two roundings, of numbers and of vectors: `doubling_high_i32`, `rounding_shr_i32_8`.

In: an operation and how many lanes. Out: the type, the parameters and the body of a static function, which
`helpers.py` prints. `formula/operations.py` says what they mean.
"""

from __future__ import annotations

from ingot.emit.expression import short
from ingot.formula.types import INT32

FIXED_POINT = ("doubling_high", "rounding_shr")
LOWEST = "(-2147483647 - 1)"


def fixed_point(operation: str, lanes: int) -> tuple[str, str, str]:
    """Type, parameters and body; of one lane it is a function of numbers."""
    made = {
        ("doubling_high", False): _doubling_high,
        ("doubling_high", True): _doubling_high_of_lanes,
        ("rounding_shr", False): _rounding_shr,
        ("rounding_shr", True): _rounding_shr_of_lanes,
    }
    t = f"{short(INT32.name)}x{lanes}" if lanes > 1 else INT32.c
    return t, f"{t} x, {t} y", made[operation, lanes > 1](lanes)


def _doubling_high(_: int) -> str:
    product = f"(int32_t)(((int64_t)x * y + {1 << 30}) >> 31)"
    return f"return x == y && x == {LOWEST} ? 2147483647 : {product};"


def _doubling_high_of_lanes(lanes: int) -> str:
    """Products of 64 bits hold the lanes by twos: of the lower half of each, and of the upper. Only -2^31
    times itself has another sign than its result: all its bits are turned over.
    """
    low, high = ("(wide)x << 32 >> 32", "(wide)y << 32 >> 32"), ("(wide)x >> 32", "(wide)y >> 32")
    products = [f"(bits)(({a}) * ({b}) + {1 << 30})" for a, b in (low, high)]
    size = lanes * INT32.bytes
    return (
        f"typedef int64_t wide __attribute__((vector_size({size}))); "
        f"typedef uint64_t bits __attribute__((vector_size({size}))); "
        f"const bits low = {products[0]}, high = {products[1]}; "
        f"const bits both = (low >> 31 & {0xFFFFFFFF:#x}u) | (high >> 31 << 32); "
        f"return ({short(INT32.name)}x{lanes})both ^ ((x == y) & (x == {LOWEST}));"
    )


def _rounding_shr(_: int) -> str:
    return (
        "if (y > 31) return 0; const int32_t mask = (int32_t)((1u << y) - 1u), rest = x & mask; "
        "return (x >> y) + (rest > (mask >> 1) + (x < 0));"
    )


def _rounding_shr_of_lanes(lanes: int) -> str:
    """Comparisons are 0 or -1. Shifts are known to be below 32 (`loops/access.py`)."""
    t = f"{short(INT32.name)}x{lanes}"
    return (
        f"typedef uint32_t bits __attribute__((vector_size({lanes * INT32.bytes}))); "
        f"const {t} mask = ({t})~(~(bits){{0}} << (bits)y), rest = x & mask; "
        "return (x >> y) - (rest > (mask >> 1) - (x < 0));"
    )
