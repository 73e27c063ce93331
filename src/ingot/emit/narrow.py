"""The C that reads and stores elements of the types below 16 bits: `widen_e4m3fn`, `narrow_i4`, ...

In: a type. Out: parameters and body of a static function, which `helpers.py` prints. Rounding is to nearest,
ties to even, in integer arithmetic but for denormals, which one addition rounds. What is stored is, code for
code, what ml_dtypes makes of the same float32.
"""

from __future__ import annotations

from ingot.formula.types import FLOAT8E8M0, DType, Format

UNION = "union { float f; uint32_t i; } u;"
QUIET = 0x7FC00000


def widen_body(t: DType) -> str:
    """`float widen(uint8_t x)`: every code is exact in float32."""
    if t is FLOAT8E8M0:
        return f"{UNION} u.i = x == 255 ? {QUIET:#x}u : x ? (uint32_t)x << 23 : 0x400000u; return u.f;"
    f = t.format
    parts = [UNION]
    if f.one_zero:
        parts.append(f"if (x == {f.nan:#x}) {{ u.i = {QUIET | 1 << 31:#x}u; return u.f; }}")
    parts.append(f"const uint32_t s = (uint32_t)(x >> {f.sign} & 1) << 31, a = x & {(1 << f.sign) - 1:#x}u;")
    parts.append(
        f"if (a < {1 << f.mantissa}u) {{ u.f = (float)a * {_power(1 - f.bias - f.mantissa)}; u.i |= s; }}"
    )
    if f.nan is not None and not f.one_zero:
        parts.append(f"else if (a > {f.infinite or f.largest:#x}u) u.i = s | {QUIET:#x}u;")
    if f.infinite is not None:
        parts.append(f"else if (a == {f.infinite:#x}u) u.i = s | 0x7f800000u;")
    moved = f"(a << {23 - f.mantissa}) + {(127 - f.bias) << 23:#x}u"
    parts.append(f"else u.i = s | ({moved}); return u.f;")
    return " ".join(parts)


def narrow_body(t: DType) -> str:
    """`uint8_t narrow(float x)`, or of an integer: its low bits."""
    if not t.is_float:
        low = f"x & {(1 << t.bits) - 1}"
        return (
            f"return ({t.c})({low});"
            if t.kind == "u"
            else f"return ({t.c})((({low}) ^ {1 << t.bits - 1}) - {1 << t.bits - 1});"
        )
    if t is FLOAT8E8M0:
        return (
            f"{UNION} u.f = x; if (u.i - 1 >= 0x7f7fffffu) return 255; "
            "return (uint8_t)(u.i < 0x800000u ? u.i > 0x400000u : (u.i + 0x400000u) >> 23);"
        )
    return _round(t.format)


def _round(f: Format) -> str:
    shift = 23 - f.mantissa
    parts = [f"{UNION} u.f = x; uint32_t s = (u.i >> 31) << {f.sign}, b = u.i & 0x7fffffffu, r;"]
    parts.append(f"if (b > 0x7f800000u) return (uint8_t){_nan(f)};")
    magic = shift + 1 - f.bias  # where a float32 has the weight of the last denormal bit as its own last
    least = (127 + 1 - f.bias) << 23
    parts.append(
        f"if (b < {least:#x}u) {{ u.i = b; u.f += {_power(magic)}; r = u.i - {(127 + magic) << 23:#x}u; }}"
    )
    up = f"{(1 << shift - 1) - 1:#x}u + (b >> {shift} & 1)"
    parts.append(f"else r = (b - {(127 - f.bias) << 23:#x}u + {up}) >> {shift};")
    parts.append(f"if (r > {f.largest:#x}u) {_too_large(f)};")
    if f.one_zero:
        parts.append("if (r == 0) s = 0;")
    parts.append("return (uint8_t)(s | r);")
    return " ".join(parts)


def _nan(f: Format) -> str:
    if f.nan is None:  # there is none: a zero of the other sign
        return f"(s ^ {1 << f.sign:#x}u)"
    return f"{f.nan:#x}u" if f.one_zero else f"(s | {f.nan:#x}u)"


def _too_large(f: Format) -> str:
    if f.one_zero:
        return f"return {f.nan:#x}u"
    code = f.infinite if f.infinite is not None else f.nan if f.nan is not None else f.largest
    return f"r = {code:#x}u"


def _power(n: int) -> str:
    """2^n as a float literal, exact in decimal."""
    return f"{2.0**n!r}f"
