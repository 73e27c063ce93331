"""C of float32 in integers, for processors without floats: every operation on bits, rounded half to even.

Sums, products and quotients keep what they lose as one sticky bit; `soft_rounded` rounds them once, below the
normal range and to infinity too. NaN is quiet. In: the name of a helper. Out: its text, and the helpers it
calls. `formula/soft_floats.py` says what they mean.
"""

from __future__ import annotations

from typing import NamedTuple


class Soft(NamedTuple):
    """The C of a helper, and the other ones that it calls."""

    text: str
    calls: tuple[str, ...] = ()


ROUNDED = """\
/* The float of a sign and m * 2^(e - 158), rounded half to even; the last bit of m may be sticky. */
static __attribute__((__noinline__)) int32_t soft_rounded(uint32_t sign, int e, uint32_t m) {
    if (m == 0) return (int32_t)sign;
    const int zeros = __builtin_clz(m);
    m <<= zeros;
    e -= zeros;
    if (e <= 0) { /* below the normal range */
        m = e < -30 ? 1u : m >> (1 - e) | (m << (31 + e) != 0);
        e = 1;
    }
    if (e >= 255) return (int32_t)(sign | 0x7F800000u);
    const uint32_t r = m >> 8;
    const uint32_t up = ((m & 255u) + 127u + (r & 1u)) >> 8;
    return (int32_t)(sign | (((uint32_t)(e - 1) << 23) + r + up));
}"""

FLOAT = """\
static inline int32_t soft_float_i32(int32_t x) {
    return x < 0 ? soft_rounded(0x80000000u, 158, 0u - (uint32_t)x) : soft_rounded(0, 158, (uint32_t)x);
}"""

NEAREST = """\
/* The nearest int32, half to even, within its limits; the lowest for NaN. */
static __attribute__((__noinline__)) int32_t soft_nearest_i32(int32_t x) {
    const int away = 150 - (x >> 23 & 255);
    const uint32_t m = ((uint32_t)x & 0x7FFFFFu) | 0x800000u;
    if (((uint32_t)x & 0x7FFFFFFFu) > 0x7F800000u) return -0x7FFFFFFF - 1;
    if (away < -7) return x < 0 ? -0x7FFFFFFF - 1 : 0x7FFFFFFF;
    if (away > 24) return 0;
    uint32_t r = m << (-away & 31);
    if (away > 0) {
        const uint32_t half = 1u << (away - 1);
        r = (m + half - 1 + (m >> away & 1u)) >> away;
    }
    return (int32_t)(x < 0 ? 0u - r : r);
}"""

WHOLE = """\
/* The int32 next to it towards 0, within the limits; 0 for NaN. */
static __attribute__((__noinline__)) int32_t soft_whole_i32(int32_t x) {
    const int away = 150 - (x >> 23 & 255);
    const uint32_t m = ((uint32_t)x & 0x7FFFFFu) | 0x800000u;
    if (((uint32_t)x & 0x7FFFFFFFu) > 0x7F800000u || away > 23) return 0;
    if (away < -7) return x < 0 ? -0x7FFFFFFF - 1 : 0x7FFFFFFF;
    const uint32_t r = away > 0 ? m >> away : m << -away;
    return (int32_t)(x < 0 ? 0u - r : r);
}"""

PARTS = """\
/* The significand of a finite float, its leading bit in place; what it is an exponent of is never below 1. */
static inline uint32_t soft_digits(int32_t x) {
    return ((uint32_t)x & 0x7FFFFFu) | (x & 0x7F800000 ? 0x800000u : 0u);
}
static inline int soft_exponent(int32_t x) { return (x >> 23 & 255) + !(x & 0x7F800000); }
static inline int soft_is_finite(int32_t x) { return (x & 0x7F800000) != 0x7F800000; }
static inline int soft_is_nan(int32_t x) { return (x & 0x7FFFFFFF) > 0x7F800000; }"""

ADD = """\
static __attribute__((__noinline__)) int32_t soft_add_i32(int32_t x, int32_t y) {
    if ((x & 0x7FFFFFFF) < (y & 0x7FFFFFFF)) { const int32_t z = x; x = y; y = z; }
    const uint32_t sign = (uint32_t)x & 0x80000000u;
    const int differ = (x ^ y) < 0;
    if (!soft_is_finite(x)) return soft_is_nan(x) || (differ && !soft_is_finite(y)) ? 0x7FC00000 : x;
    const int e = soft_exponent(x), d = e - soft_exponent(y);
    const uint32_t a = soft_digits(x) << 7;
    uint32_t b = soft_digits(y) << 7;
    if (d > 31) b = b != 0;
    else if (d > 0) b = b >> d | (b << (32 - d) != 0);
    if (differ && a == b) return 0;
    if (a == 0) return x & y;
    return soft_rounded(sign, e + 1, differ ? a - b : a + b);
}"""

MUL = """\
static __attribute__((__noinline__)) int32_t soft_mul_i32(int32_t x, int32_t y) {
    const uint32_t sign = (uint32_t)(x ^ y) & 0x80000000u;
    if (!soft_is_finite(x) || !soft_is_finite(y))
        return soft_is_nan(x) || soft_is_nan(y) || !(x & 0x7FFFFFFF) || !(y & 0x7FFFFFFF)
                ? 0x7FC00000 : (int32_t)(sign | 0x7F800000u);
    uint32_t a = soft_digits(x) << 8, b = soft_digits(y) << 8, low;
    if (a == 0 || b == 0) return (int32_t)sign;
    const int a_zeros = __builtin_clz(a), b_zeros = __builtin_clz(b);
    a <<= a_zeros;
    b <<= b_zeros;
    const uint32_t high = soft_product(a, b, &low);
    const int e = soft_exponent(x) + soft_exponent(y) - a_zeros - b_zeros - 126;
    return soft_rounded(sign, e, high | (low != 0));
}"""

FUSED = """\
/* A number of two words shifted right; what falls off leaves the last bit set. */
static inline void soft_shifted(uint32_t *high, uint32_t *low, int by) {
    uint32_t lost = 0;
    for (; by > 31; by -= 32, *low = *high, *high = 0) {
        lost |= *low;
        if (by > 95) by = 95;
    }
    if (by > 0) {
        lost |= *low << (32 - by);
        *low = *low >> by | *high << (32 - by);
        *high >>= by;
    }
    *low |= lost != 0;
}
/* x * y + z, rounded once: the product has two words, and 16 bits of room. */
static __attribute__((__noinline__)) int32_t soft_fused_i32(int32_t x, int32_t y, int32_t z) {
    if (!soft_is_finite(x) || !soft_is_finite(y) || !(x & 0x7FFFFFFF) || !(y & 0x7FFFFFFF))
        return soft_add_i32(soft_mul_i32(x, y), z);
    if (!soft_is_finite(z)) return soft_is_nan(z) ? 0x7FC00000 : z;
    if (!(z & 0x7FFFFFFF)) return soft_mul_i32(x, y);
    uint32_t sign = (uint32_t)(x ^ y) & 0x80000000u;
    uint32_t a = soft_digits(x), b = soft_digits(y), c = soft_digits(z);
    const int a_zeros = __builtin_clz(a), b_zeros = __builtin_clz(b), c_zeros = __builtin_clz(c);
    uint32_t low, high = soft_product(a << a_zeros, b << b_zeros, &low), below = 0;
    low = low >> 2 | high << 30;
    high >>= 2;
    c = c << c_zeros >> 2;
    int e = soft_exponent(x) + soft_exponent(y) - a_zeros - b_zeros - 108;
    const int away = e - (soft_exponent(z) - c_zeros + 10);
    if (away < 0) {
        soft_shifted(&high, &low, -away);
        e -= away;
    } else {
        soft_shifted(&c, &below, away);
    }
    if (sign == ((uint32_t)z & 0x80000000u)) {
        low += below;
        high += c + (low < below);
    } else {
        if (high < c || (high == c && low < below)) {
            sign ^= 0x80000000u;
            a = high; high = c; c = a;
            a = low; low = below; below = a;
        }
        high -= c + (low < below);
        low -= below;
        if (!high && !low) return 0;
    }
    if (!high) return soft_rounded(sign, e - 32, low);
    const int zeros = __builtin_clz(high);
    if (zeros) {
        high = high << zeros | low >> (32 - zeros);
        low <<= zeros;
    }
    return soft_rounded(sign, e - zeros, high | (low != 0));
}"""

DIV = """\
static __attribute__((__noinline__)) int32_t soft_div_i32(int32_t x, int32_t y) {
    const uint32_t sign = (uint32_t)(x ^ y) & 0x80000000u;
    const int is_zero = !(y & 0x7FFFFFFF);
    if (soft_is_nan(x) || soft_is_nan(y) || (is_zero && !(x & 0x7FFFFFFF))
            || (!soft_is_finite(x) && !soft_is_finite(y))) return 0x7FC00000;
    if (!soft_is_finite(x) || is_zero) return (int32_t)(sign | 0x7F800000u);
    if (!soft_is_finite(y) || !(x & 0x7FFFFFFF)) return (int32_t)sign;
    uint32_t a = soft_digits(x), b = soft_digits(y);
    const int a_zeros = __builtin_clz(a) - 8, b_zeros = __builtin_clz(b) - 8;
    a <<= a_zeros;
    b <<= b_zeros;
    uint32_t q = a / b;
    for (int i = 0; i < 4; i++) { /* seven digits at a time */
        a = a % b << 7;
        q = q << 7 | a / b;
    }
    const int e = soft_exponent(x) - a_zeros - soft_exponent(y) + b_zeros + 130;
    return soft_rounded(sign, e, q | (a % b != 0));
}"""

PRODUCT = """\
/* The high word of a product. Processors of this kind multiply words to words only. */
static inline uint32_t soft_product(uint32_t x, uint32_t y, uint32_t *low) {
#if defined(__ARM_ARCH_6M__) || defined(__ARM_ARCH_8M_BASE__)
    const uint32_t a = x >> 16, b = x & 0xFFFFu, c = y >> 16, d = y & 0xFFFFu;
    uint32_t bd = b * d;
    const uint32_t bc = b * c, ad = a * d;
    __asm__("" : "+r"(bd)); /* or a compiler sees the product of two words, and calls a function for it */
    const uint32_t middle = (bd >> 16) + (bc & 0xFFFFu) + (ad & 0xFFFFu);
    *low = x * y;
    return a * c + (bc >> 16) + (ad >> 16) + (middle >> 16);
#else
    const uint64_t p = (uint64_t)x * y;
    *low = (uint32_t)p;
    return (uint32_t)(p >> 32);
#endif
}"""

SCALED = """\
/* The nearest int32 of (float)x * y, half to even. The product of whole numbers says it wherever it is no
   nearer to a tie than both roundings of floats move it, which is 1/1024 below 16384; else these are done. */
static __attribute__((__noinline__)) int32_t soft_scaled_far(int32_t x, int32_t y) {
    return soft_nearest_i32(soft_mul_i32(soft_float_i32(x), y));
}
static inline int32_t soft_scaled_i32(int32_t x, int32_t y) {
    const int away = 126 - (y >> 23); /* y = 2^-away times a significand below 1 */
    const uint32_t size = x < 0 ? 0u - (uint32_t)x : (uint32_t)x;
    uint32_t low;
    const uint32_t high = soft_product(size, (uint32_t)y << 8 | 0x80000000u, &low);
    const uint32_t whole = high >> (away & 31), part = high << (-away & 31) | low >> (away & 31);
    if (away - 1u > 30u || whole >= 16384u || part - 0x7F800000u <= 0x1000000u) return soft_scaled_far(x, y);
    const int32_t r = (int32_t)(whole + (part >> 31));
    return x < 0 ? -r : r;
}"""

LESS = """\
static inline int32_t soft_less_i32(int32_t x, int32_t y) {
    if ((x & 0x7FFFFFFF) > 0x7F800000 || (y & 0x7FFFFFFF) > 0x7F800000 || !((x | y) & 0x7FFFFFFF)) return 0;
    return (x ^ (x >> 31 & 0x7FFFFFFF)) < (y ^ (y >> 31 & 0x7FFFFFFF));
}"""

EQUAL = """\
static inline int32_t soft_equal_i32(int32_t x, int32_t y) {
    return (x & 0x7FFFFFFF) <= 0x7F800000 && (x == y || !((x | y) & 0x7FFFFFFF));
}"""

HELPERS = {
    "soft_rounded": Soft(ROUNDED),
    "soft_parts": Soft(PARTS),
    "soft_product": Soft(PRODUCT),
    "soft_float": Soft(FLOAT, ("soft_rounded",)),
    "soft_nearest": Soft(NEAREST),
    "soft_whole": Soft(WHOLE),
    "soft_add": Soft(ADD, ("soft_parts", "soft_rounded")),
    "soft_mul": Soft(MUL, ("soft_parts", "soft_product", "soft_rounded")),
    "soft_fused": Soft(FUSED, ("soft_parts", "soft_product", "soft_rounded", "soft_add", "soft_mul")),
    "soft_div": Soft(DIV, ("soft_parts", "soft_rounded")),
    "soft_scaled": Soft(SCALED, ("soft_float", "soft_mul", "soft_nearest", "soft_product")),
    "soft_less": Soft(LESS),
    "soft_equal": Soft(EQUAL),
}
