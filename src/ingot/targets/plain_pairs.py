"""What routines in plain C are made of: products of pairs of 16 bits, rounding, and bytes.

    pair16(p)               two neighbours in memory as the halves of a register
    put_pair16(p, x)        the halves of a register as two neighbours in memory
    halves16(low, high)     two numbers as the halves of one
    four_bytes(p)           four neighbours in memory as a register
    low_bytes16(x)          the low byte of each half, with its sign
    dual_mac16(x, y, sum)   both products of halves, added
    low_high16(x, y, sum)   the low half of x times the high half of y, added
    mac_tile16(sums, a, w)  a pair of terms of two points and four channels; a half of w is 256 * w1 + w0
    mac_two16(sums, a, w)   two of these
    mac_pairs16(a, end, w, first, sums)   all pairs of terms of such a tile: sums of both points, 256 times
                            those of the second of two channels
    widen_pairs16_KIND(a0, a1, to, rows, along, terms)   bytes of two points as 16 bits
    mac_duos16(raw, even, odd, w)   four terms of one point and four channels
    mac_row16_KIND(x, end, w, first, sums)   all terms of one point and four of eight channels
    limit_uint8(x), limit_int8(x)   x limited to bytes
    limit_byte(x, zero)     how far x is above a small zero, limited to 0 to 255
    nearest_byte(x, zero)   rounded, moved and limited
    byte_of_sum(sum, scale, zero)   the same of a sum that is scaled
    high_product(x, by)     the upper half of a product, rounded
    high_sum(x, by, more)   and more added
    fixed_product(twice, by, shift)   a doubled sum in fixed point: the upper half of a product, shifted
    fixed_above(twice, by, shift)     the same where what is negative may be rounded either way
    word_float(x)           the float whose bits x is

In: nothing. Out: the C of functions, by name. Compilers for Arm that know its C language extensions (ACLE)
get the instructions of these functions from them; for others they stand in C, which sees pairs in 32 bits,
too. Where routines are assembly nothing calls them. Pairs are at addresses that four divides.
"""

from __future__ import annotations

from collections.abc import Mapping

ACLE = "defined(__ARM_FEATURE_SIMD32) && defined(__ARM_FEATURE_DSP)"
LITTLE = f"{ACLE} && !defined(__ARM_BIG_ENDIAN)"


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


WIDENED = {"uint8": "({}) & 0xFF00FF", "int8": "low_bytes16({})"}
"""Bytes 0 and 2 of a word as halves."""


def _eight_terms(widened: str, at: int, indent: str) -> str:
    """Of a point and four channels, from a term on."""
    lines = (
        f"mac_duos16(raw, {widened.format(word)}, {widened.format(f'{word} >> 8')}, w + {4 * term});"
        for word, term in ((f"x{n}", n) for n in (at, at + 4))
    )
    loads = f"const uint32_t x{at} = four_bytes(x + {at}), x{at + 4} = four_bytes(x + {at + 4});"
    return "".join(f"{indent}{line}\n" for line in (loads, *lines))


def _row(kind: str, widened: str) -> str:
    """All terms of one point and four of eight channels."""
    return f"""\
/* Where gcc inlines it, its sums leave the registers. */
#ifdef __GNUC__
__attribute__((__noinline__))
#endif
static void mac_row16_{kind}(const {kind}_t *x, const {kind}_t *end, const int16_t *w, const int32_t *first,
                             int32_t *sums) {{
    uint32_t raw[4] = {{(uint32_t)first[0], (uint32_t)first[1], (uint32_t)first[2], (uint32_t)first[3]}};
    if ((end - x) % 8 != 0) {{
        const uint32_t terms = four_bytes(x);
        mac_duos16(raw, {widened.format("terms")}, {widened.format("terms >> 8")}, w);
        x += 4;
        w += 16;
    }}
    if ((end - x) % 16 != 0) {{
{_eight_terms(widened, 0, "        ")}        x += 8;
        w += 32;
    }}
    if (x != end) {{
        do {{
{_eight_terms(widened, 0, "            ")}{_eight_terms(widened, 8, "            ")}            x += 16;
            w += 64;
        }} while (x != end);
    }}
    sums[0] = (int32_t)raw[0];
    sums[1] = (int32_t)(raw[1] - raw[0]) >> 8;
    sums[2] = (int32_t)raw[2];
    sums[3] = (int32_t)(raw[3] - raw[2]) >> 8;
}}"""


def _widen(kind: str, widened: str) -> str:
    """Rows of terms of two points as 16 bits."""
    return f"""\
/* Beside loops over points that it would take registers from; unused beside the assembly. */
#ifdef __GNUC__
__attribute__((__noinline__, __unused__))
#endif
static void widen_pairs16_{kind}(const {kind}_t *a0, const {kind}_t *a1, int16_t *to, int rows, int along,
                                 int terms) {{
    const int whole = terms & ~3, rest = terms & 3;
    for (int row = 0; row < rows; row++, a0 += along - whole, a1 += along - whole) {{
        const {kind}_t *const end = a0 + whole;
        do {{
            const uint32_t x = four_bytes(a0), y = four_bytes(a1);
            put_pair16(to, {widened.format("x")});
            put_pair16(to + 2, {widened.format("y")});
            put_pair16(to + 4, {widened.format("x >> 8")});
            put_pair16(to + 6, {widened.format("y >> 8")});
            a0 += 4;
            a1 += 4;
            to += 8;
        }} while (a0 != end);
        if (rest > 1) {{
            put_pair16(to, halves16(a0[0], rest > 2 ? a0[2] : 0));
            put_pair16(to + 2, halves16(a1[0], rest > 2 ? a1[2] : 0));
            put_pair16(to + 4, halves16(a0[1], 0));
            put_pair16(to + 6, halves16(a1[1], 0));
            to += 8;
        }}
        if (rest == 1 && (row % 4 == 3 || row == rows - 1)) {{
            const int before = row % 4;
            const {kind}_t *const b0 = a0 - before * along, *const b1 = a1 - before * along;
            put_pair16(to, halves16(b0[0], before > 1 ? b0[2 * along] : 0));
            put_pair16(to + 2, halves16(b1[0], before > 1 ? b1[2 * along] : 0));
            put_pair16(to + 4, halves16(before > 0 ? b0[along] : 0, before > 2 ? b0[3 * along] : 0));
            put_pair16(to + 6, halves16(before > 0 ? b1[along] : 0, before > 2 ? b1[3 * along] : 0));
            to += 8;
        }}
    }}
}}"""


PLAIN_PAIRS: Mapping[str, str] = {
    "pair16": f"""\
/* Words are read as words; their first half is the lower one. */
union pair16 {{ int16_t half[2]; uint32_t word; }};
#if {LITTLE}
static inline uint32_t pair16(const int16_t *p) {{ return ((const union pair16 *)(const void *)p)->word; }}
#else
static inline uint32_t pair16(const int16_t *p) {{ return (uint16_t)p[0] | (uint32_t)p[1] << 16; }}
#endif""",
    "put_pair16": f"""\
#if {LITTLE}
static inline void put_pair16(int16_t *p, uint32_t x) {{ ((union pair16 *)(void *)p)->word = x; }}
#else
static inline void put_pair16(int16_t *p, uint32_t x) {{
    p[0] = (int16_t)x;
    p[1] = (int16_t)(x >> 16);
}}
#endif""",
    "four_bytes": """\
static inline uint32_t four_bytes(const void *p) {
    const uint8_t *const x = (const uint8_t *)p;
    return x[0] | (uint32_t)x[1] << 8 | (uint32_t)x[2] << 16 | (uint32_t)x[3] << 24;
}""",
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
        uint32_t duo = pair16(w); \\
        uint32_t second = pair16((w) + 2); \\
        const uint32_t a1 = pair16((a) + 2); \\
        sums[7] = dual_mac16(second, a1, sums[7]); \\
        sums[5] = dual_mac16(duo, a1, sums[5]); \\
        const uint32_t a0 = pair16(a); \\
        sums[3] = dual_mac16(second, a0, sums[3]); \\
        sums[1] = dual_mac16(duo, a0, sums[1]); \\
        second = low_bytes16(second); \\
        duo = low_bytes16(duo); \\
        sums[2] = dual_mac16(second, a0, sums[2]); \\
        sums[6] = dual_mac16(second, a1, sums[6]); \\
        sums[4] = dual_mac16(duo, a1, sums[4]); \\
        sums[0] = dual_mac16(duo, a0, sums[0]); \\
    } while (0)""",
    "mac_two16": """\
#define mac_two16(sums, a, w) \\
    do { \\
        mac_tile16(sums, a, w); \\
        mac_tile16(sums, (a) + 4, (w) + 4); \\
    } while (0)""",
    "mac_pairs16": """\
/* Where gcc inlines it, its sums leave the registers. Unused beside the assembly. An even number of pairs. */
#ifdef __GNUC__
__attribute__((__noinline__, __unused__))
#endif
static void mac_pairs16(const int16_t *a, const int16_t *end, const int16_t *w, const int32_t *first,
                        int32_t *sums) {
    const uint32_t f0 = (uint32_t)first[0], f1 = (uint32_t)first[1], f2 = (uint32_t)first[2];
    const uint32_t f3 = (uint32_t)first[3];
    uint32_t raw[8] = {f0, f1, f2, f3, f0, f1, f2, f3};
    if ((end - a) % 16 != 0) {
        mac_two16(raw, a, w);
        a += 8;
        w += 8;
    }
    if ((end - a) % 32 != 0) {
        mac_two16(raw, a, w);
        mac_two16(raw, a + 8, w + 8);
        a += 16;
        w += 16;
    }
    if (a != end) {
        do {
            mac_two16(raw, a, w);
            mac_two16(raw, a + 8, w + 8);
            mac_two16(raw, a + 16, w + 16);
            mac_two16(raw, a + 24, w + 24);
            a += 32;
            w += 32;
        } while (a != end);
    }
    sums[0] = (int32_t)raw[0];
    sums[1] = (int32_t)(raw[1] - raw[0]);
    sums[2] = (int32_t)raw[2];
    sums[3] = (int32_t)(raw[3] - raw[2]);
    sums[4] = (int32_t)raw[4];
    sums[5] = (int32_t)(raw[5] - raw[4]);
    sums[6] = (int32_t)raw[6];
    sums[7] = (int32_t)(raw[7] - raw[6]);
}""",
    "mac_duos16": """\
#define mac_duos16(raw, half, other, w) \\
    do { \\
        const uint32_t even = half, odd = other; \\
        const uint32_t w0 = pair16(w), w1 = pair16((w) + 2), w2 = pair16((w) + 4), w3 = pair16((w) + 6); \\
        raw[1] = dual_mac16(w1, odd, dual_mac16(w0, even, raw[1])); \\
        raw[0] = dual_mac16(low_bytes16(w1), odd, dual_mac16(low_bytes16(w0), even, raw[0])); \\
        raw[3] = dual_mac16(w3, odd, dual_mac16(w2, even, raw[3])); \\
        raw[2] = dual_mac16(low_bytes16(w3), odd, dual_mac16(low_bytes16(w2), even, raw[2])); \\
    } while (0)""",
    **{f"mac_row16_{kind}": _row(kind, widened) for kind, widened in WIDENED.items()},
    **{f"widen_pairs16_{kind}": _widen(kind, widened) for kind, widened in WIDENED.items()},
    "halves16": """\
static inline uint32_t halves16(int low, int high) { return (uint16_t)low | (uint32_t)high << 16; }""",
    "limit_byte": _one_of_two(
        "limit_byte(int32_t x, int32_t zero)",
        "__usat(__qsub(x, zero), 8)",
        "(uint32_t)(x < zero ? 0 : x > zero + 255 ? 255 : x - zero)",
    ),
    "limit_uint8": _one_of_two(
        "limit_uint8(int32_t x)", "__usat(x, 8)", "(uint32_t)(x < 0 ? 0 : x > 255 ? 255 : x)"
    ),
    "limit_int8": _one_of_two(
        "limit_int8(int32_t x)", "__ssat(x, 8)", "(uint32_t)(x < -128 ? -128 : x > 127 ? 127 : x)"
    ),
    "nearest_byte": """\
/* The bits of positive floats are in the order of the floats: what is far away is limited, too. */
static inline uint32_t nearest_byte(float x, int32_t zero) {
    union { float f; int32_t i; } u;
    u.f = x + 12582912.0f;
    return limit_byte(u.i, 0x4B400000 - zero);
}""",
    "byte_of_sum": """\
static inline uint32_t byte_of_sum(uint32_t sum, float scale, int32_t zero) {
    return nearest_byte((float)(int32_t)sum * scale, zero);
}""",
    "high_product": """\
static inline int32_t high_product(int32_t x, int32_t by) {
    const int64_t made = (int64_t)x * by;
    return (int32_t)(made >> 32) + (int32_t)((uint32_t)made >> 31);
}""",
    "high_sum": """\
/* One instruction multiplies and adds. */
static inline int32_t high_sum(int32_t x, int32_t by, int32_t more) {
    int64_t made = (int64_t)((uint64_t)(uint32_t)more << 32 | 0x80000000u);
    made += (int64_t)x * by;
    return (int32_t)(made >> 32);
}""",
    "fixed_product": """\
static inline int32_t fixed_product(int32_t twice, int32_t by, int32_t shift) {
    const int32_t high = high_product(twice, by);
    return (high + (int32_t)(1u << shift >> 1) + (high >> 31)) >> shift;
}""",
    "fixed_above": """\
static inline int32_t fixed_above(int32_t twice, int32_t by, int32_t shift) {
    return (high_product(twice, by) + (int32_t)(1u << shift >> 1)) >> shift;
}""",
    "word_float": """\
static inline float word_float(int32_t x) {
    union { int32_t i; float f; } u;
    u.i = x;
    return u.f;
}""",
}
