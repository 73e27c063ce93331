"""What routines in plain C are made of: products of pairs of 16 bits, rounding, and bytes.

    pair16(p)               two neighbours in memory as the halves of a register
    halves16(low, high)     two numbers as the halves of one
    low_bytes16(x)          the low byte of each half, with its sign
    dual_mac16(x, y, sum)   both products of halves, added
    low_high16(x, y, sum)   the low half of x times the high half of y, added
    mac_tile16(sums, a, w)  a pair of terms of two points and four channels; a half of w is 256 * w1 + w0
    mac_duo16(sums, c, even, odd, w)   four terms of one point and two channels
    limit_byte(x, zero)     how far x is above a small zero, limited to 0 to 255
    byte_of_sum(sum, scale, zero)   scaled, rounded, moved and limited
    byte_by_word(sum, is_high, by, zero)   the same by an integer, or by the bits of a float below 0;
                            `is_high`: of the second of two channels, whose sum is 256 times as large

In: nothing. Out: the C of functions, by name. Compilers for Arm that know its C language extensions (ACLE)
get the instructions of these functions from them; for others they stand in C, which sees pairs in 32 bits,
too. Where routines are assembly nothing calls them.
"""

from __future__ import annotations

from collections.abc import Mapping

ACLE = "defined(__ARM_FEATURE_SIMD32) && defined(__ARM_FEATURE_DSP)"


def _one_of_two(parameters: str, acle: str, plain: str) -> str:
    """A function by an intrinsic, or in C."""
    return f"""\
#if {ACLE}
#include <arm_acle.h>
static inline uint32_t {parameters} {{ return (uint32_t){acle}; }}
#else
static inline uint32_t {parameters} {{
    return {plain};
}}
#endif"""


PLAIN_PAIRS: Mapping[str, str] = {
    "pair16": """\
static inline uint32_t pair16(const int16_t *p) { return (uint16_t)p[0] | (uint32_t)p[1] << 16; }""",
    "low_bytes16": _one_of_two(
        "low_bytes16(uint32_t x)",
        "__sxtb16((int8x4_t)x)",
        "(uint16_t)(int8_t)x | (uint32_t)(int8_t)(x >> 16) << 16",
    ),
    "dual_mac16": _one_of_two(
        "dual_mac16(uint32_t x, uint32_t y, uint32_t sum)",
        "__smlad((int16x2_t)x, (int16x2_t)y, (int32_t)sum)",
        "sum + (uint32_t)((int16_t)x * (int16_t)y) + (uint32_t)((int16_t)(x >> 16) * (int16_t)(y >> 16))",
    ),
    "low_high16": _one_of_two(
        "low_high16(uint32_t x, uint32_t y, uint32_t sum)",
        "__smlabt((int32_t)x, (int32_t)y, (int32_t)sum)",
        "sum + (uint32_t)((int16_t)x * (int16_t)(y >> 16))",
    ),
    "mac_tile16": """\
/* A macro: compilers that do not inline it would keep the sums in memory. */
#define mac_tile16(sums, a, w) \\
    do { \\
        const uint32_t a0 = pair16(a), a1 = pair16((a) + 2); \\
        uint32_t duo = pair16(w); \\
        sums[1] = dual_mac16(duo, a0, sums[1]); \\
        sums[5] = dual_mac16(duo, a1, sums[5]); \\
        duo = low_bytes16(duo); \\
        sums[0] = dual_mac16(duo, a0, sums[0]); \\
        sums[4] = dual_mac16(duo, a1, sums[4]); \\
        duo = pair16((w) + 2); \\
        sums[3] = dual_mac16(duo, a0, sums[3]); \\
        sums[7] = dual_mac16(duo, a1, sums[7]); \\
        duo = low_bytes16(duo); \\
        sums[2] = dual_mac16(duo, a0, sums[2]); \\
        sums[6] = dual_mac16(duo, a1, sums[6]); \\
    } while (0)""",
    "mac_duo16": """\
#define mac_duo16(sums, c, even, odd, w) \\
    do { \\
        const uint32_t w02 = pair16(w), w13 = pair16((w) + 2); \\
        sums[c + 1] = dual_mac16(w13, odd, dual_mac16(w02, even, sums[c + 1])); \\
        sums[c] = dual_mac16(low_bytes16(w13), odd, dual_mac16(low_bytes16(w02), even, sums[c])); \\
    } while (0)""",
    "halves16": """\
static inline uint32_t halves16(int low, int high) { return (uint16_t)low | (uint32_t)high << 16; }""",
    "limit_byte": _one_of_two(
        "limit_byte(int32_t x, int32_t zero)",
        "__usat(__qsub(x, zero), 8)",
        "(uint32_t)(x < zero ? 0 : x > zero + 255 ? 255 : x - zero)",
    ),
    "byte_of_sum": """\
static inline uint32_t byte_of_sum(uint32_t sum, float scale, int32_t zero) {
    union { float f; int32_t i; } u;
    u.f = (float)(int32_t)sum * scale + 12582912.0f;
    return limit_byte(u.i, 0x4B400000 - zero);
}""",
    "byte_by_word": """\
static inline uint32_t byte_by_word(uint32_t sum, int is_high, int32_t by, int32_t zero) {
    union { int32_t i; float f; } u;
    u.i = by;
    if (by < 0) return byte_of_sum(sum, -u.f, zero);
    sum = (uint32_t)((int32_t)sum / (is_high ? 256 : 1));
    return limit_byte((int32_t)(((int64_t)(int32_t)sum * by + 2147483648) >> 32), -zero);
}""",
}
