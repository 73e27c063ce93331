"""How RISC-V's vector extension spells operations on vectors of 16 bytes: every processor that has the
extension for applications (V) holds that many in a register, however long its registers are.

The pinned compiler makes instructions of its builtins and of GNU vectors; it has intrinsics for vectors of
unknown length only, which GNU vectors do not become.
"""

from __future__ import annotations

from collections.abc import Iterator

from .record import Spellings

ROUNDINGS = {"round": "roundeven", "floor": "floor", "ceil": "ceil", "sqrt": "sqrt"}


def _rvv() -> Iterator[tuple[tuple[str, str], str]]:
    """max and min of floats are missing, as vfmax and vfmin answer the other operand where one is NaN, and
    trunc, as QEMU 7.2 aborts where a masked vfcvt.rtz changes the rounding: it is built of other operations.
    """
    for dtype in ("float32", "float64"):
        yield ("madd", dtype), "__builtin_elementwise_fma({a}, {b}, {c})"
        yield ("larger", dtype), "__builtin_elementwise_max({a}, {b})"
        yield from (
            ((name, dtype), f"__builtin_elementwise_{call}({{a}})") for name, call in ROUNDINGS.items()
        )
    for dtype in ("int8", "uint8", "int16", "int32"):
        yield from (((name, dtype), f"__builtin_elementwise_{name}({{a}}, {{b}})") for name in ("max", "min"))
    integers = "int __attribute__((__vector_size__(16)))"
    nearest = f"__builtin_convertvector(__builtin_elementwise_roundeven({{a}}), {integers})"
    yield ("nearest_int32", "float32"), nearest
    yield from ((("any", dtype), "__builtin_reduce_or({a})") for dtype in ("int32", "int64"))


RVV: Spellings = dict(_rvv())
