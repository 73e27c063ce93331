"""Conversions to types for storage: float8, float6, float4, integers below 8 bits; and the bits of elements.

In: expressions in the types that arithmetic happens in. Out: expressions whose value, stored in the narrow
type, is the number rounded once. Called by Cast, QuantizeLinear, BitCast and what packs the boundary.
"""

from __future__ import annotations

from ingot.errors import ModelError
from ingot.formula.expr import (
    Bitcast,
    Cast,
    Const,
    Expr,
    Load,
    binary,
    call,
    cast,
    maximum,
    minimum,
    select,
)
from ingot.formula.types import (
    BFLOAT16,
    BOOL,
    DTYPES,
    FLOAT8E8M0,
    FLOAT32,
    FLOAT64,
    INT32,
    UINT8,
    DType,
)

ROUND_MODES = {"up": 0x7FFFFF, "nearest": 0x400000, "down": 0}
MANTISSA = 23  # bits of a float32
LEAST = 0x400000  # the bits of 2^-127, the least float8e8m0


def converted(x: Expr, to: DType, saturate: bool = True, round_mode: str = "up") -> Expr:
    """The value that is stored as `to` (Cast-25): floats round half to even, once; to integers they truncate.

    `saturate`: an 8-bit float stops at its largest number. `round_mode` is float8e8m0's. What is too large
    for an integer saturates, but below 8 bits only its low bits stay, as of integers.
    """
    if not to.is_narrow:
        return cast(x, to)
    if not to.is_float:
        return cast(cast(x, INT32) if x.dtype.is_float else x, to.compute)
    if to is BFLOAT16 and x.dtype.is_integer and x.dtype.bits >= 32:  # smaller floats end before 2^24
        x = _as_double(x)
    y = rounded_to_odd(x) if x.dtype is FLOAT64 else cast(x, FLOAT32)
    if to is FLOAT8E8M0:
        return _power_of_two(y, saturate, round_mode)
    if saturate and to.bits == 8:
        return minimum(maximum(y, -to.largest), to.largest)
    return y


def _as_double(x: Expr) -> Expr:
    """An integer as a float64: of 64 bits what does not fit goes into the last bit that does (to odd)."""
    if x.dtype.bits < 64:
        return cast(x, FLOAT64)
    cut = (1 << 64 - 53) - 1
    is_signed = x.dtype.kind == "i"
    folded = (x | ((x & cut) + cut)) & (~cut if is_signed else (1 << 64) - 1 - cut)
    small = (x < 1 << 53) & (x > -(1 << 53)) if is_signed else x < 1 << 53
    return cast(select(small, x, folded), FLOAT64)


def rounded_to_odd(x: Expr) -> Expr:
    """A float64 as float32, the last bit set where something was lost: rounding it again rounds only once."""
    near = cast(x, FLOAT32)
    back, bits = cast(near, FLOAT64), Bitcast(near, INT32)
    below = select(call("abs", back) > call("abs", x), bits - 1, bits)
    lost = binary("ne", back, x) & (call("abs", back) < float("inf"))
    return select(lost, Bitcast(below | 1, FLOAT32), near)


def _power_of_two(x: Expr, saturate: bool, round_mode: str) -> Expr:
    """|x| as float8e8m0 (Cast-25): without `saturate` what is out of range, 0 included, is NaN."""
    if round_mode not in ROUND_MODES:
        raise ModelError(f"round_mode {round_mode!r} is not one of {', '.join(ROUND_MODES)}")
    bits = Bitcast(call("abs", x), INT32)
    code = (bits + ROUND_MODES[round_mode]) >> MANTISSA
    half = {"up": LEAST + 1, "nearest": LEAST + LEAST // 2, "down": 2 * LEAST}[round_mode]
    code = select(bits < 2 * LEAST, select(bits >= half, Const(1, INT32), 0), code)
    if saturate:
        code = select(call("isnan", x), Const(255, INT32), minimum(code, 254))
    else:
        code = select((bits < LEAST) | call("isnan", x), Const(255, INT32), code)
    return Bitcast(cast(code, UINT8), FLOAT8E8M0)


def within(x: Expr, t: DType) -> Expr:
    """A float32 rounded to a narrower float and read back: arithmetic in that type."""
    return x if t is FLOAT32 or x.dtype is not FLOAT32 else Cast(Cast(x, t), FLOAT32)


def bits_of(x: Load) -> Expr:
    """The bits of an element as an unsigned integer of as many bytes."""
    t = x.tensor.type
    carrier = DTYPES[f"uint{8 * t.bytes}"]
    if t.bits < 8 and not t.is_float:
        return cast(x, UINT8) & ((1 << t.bits) - 1)
    if t is BOOL:
        return cast(x, UINT8)
    return Bitcast(cast(x, t) if t.is_float else x, carrier) if carrier is not t else x


def of_bits(bits: Expr, t: DType) -> Expr:
    """The element with these bits, to be stored as `t`; what is above the bits of the type must be zero."""
    if t is BOOL:
        return binary("ne", bits, 0)
    if t.bits < 8 and not t.is_float:
        sign = 1 << (t.bits - 1)
        return bits if t.kind == "u" else cast((bits ^ sign) - sign, t.compute)
    return bits if bits.dtype is t else Bitcast(bits, t)
