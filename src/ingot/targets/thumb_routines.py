"""Functions in assembly for cores that have the 16-bit instructions of Thumb only: Cortex-M0, M0+, M1, M23.

    dot8(x, w, from, sums, terms, blocks)       sums of one point and all channels, by eights
    scale8(sums, by, y, near, channels, zero)   sums as bytes, those near a tie marked
    fixed_scale8(sums, by, y, channels, zero)   the same in fixed point: multipliers and shifts side by side

In: nothing. Out: the C of functions, by name; see `routines.py`. Weights lie as w + 128: a load of a byte
without a sign takes an offset, one with a sign does not. What that adds, 128 times the sum of x, is
subtracted first. Eight sums fill r4 to r11.

`scale8` rounds sum * by / 2^32, which is exact to a few 65536ths. Where that leaves open which of two bytes
the number is nearer to, it sets `near`, and the caller computes the bytes by another way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ingot.targets.routines import KINDS, in_fixed_point, routine

CHANNELS = 8  # of a block
UNROLLED = 4  # terms of a turn: as far as offsets reach
OFFSET = 128  # of a weight
FRACTION = 16  # bits of a result behind the point
NEAR = 16  # units of these from a tie, about which a result is open
NARROW = (2.0**-12, 2.0**-2)  # scales for which no more is


def thumb_routines() -> Mapping[str, str]:
    """The routines by name."""
    dots = {
        f"dot8_{kind}": routine(
            f"dot8_{kind}",
            f"const {kind}_t *x, const uint8_t *w, const int32_t *from, int32_t *sums, int terms, int blocks",
            _dot8(kind),
            _DOT8,
            "Adds products of one point and eight channels a block; weights are 128 more than they are.",
            "defined(__thumb__)",
        )
        for kind in KINDS
    }
    scales = {
        f"scale8_{kind}": routine(
            f"scale8_{kind}",
            f"const int32_t *sums, const int32_t *by, {kind}_t *y, int32_t *near, int channels, int zero",
            _scale8(kind),
            _SCALE8.replace("KIND", kind).replace(" FLIP", " ^ 128" if kind == "int8" else ""),
            "Sums scaled, moved and limited to bytes; near: whether one is too close to a tie.",
            "defined(__thumb__)",
        )
        for kind in KINDS
    }
    fixed = {
        f"fixed_scale8_{kind}": routine(
            f"fixed_scale8_{kind}",
            f"const int32_t *sums, const int32_t *by, {kind}_t *y, int channels, int zero",
            _fixed_scale8(kind),
            _FIXED_SCALE8.replace("KIND", kind).replace(" FLIP", " ^ 128" if kind == "int8" else ""),
            "Sums multiplied, shifted, moved and limited to bytes.",
            "defined(__thumb__)",
        )
        for kind in KINDS
    }
    return dots | scales | fixed


def _dot8(kind: str) -> Iterator[str]:
    """On the stack: what is added first, from, sums, blocks; registers; then terms and blocks."""
    extend = ("sxtb r7, r7",) if kind == "int8" else ()
    yield from (".syntax unified", "push {r4-r7, lr}", "mov r4, r8", "mov r5, r9", "mov r6, r10")
    yield from ("mov r7, r11", "push {r4-r7}", "ldr r6, [sp, #36]", "adds r6, r0, r6", "mov r12, r6")
    yield from ("movs r4, #0", "mov r5, r0", "2:")
    for term in range(UNROLLED):
        yield from (f"ldrb r7, [r5, #{term}]", *extend, "subs r4, r4, r7")
    yield from (f"adds r5, r5, #{UNROLLED}", "cmp r5, r12", "bne 2b", "lsls r4, r4, #7", "mov r5, r2")
    yield from ("mov r6, r3", "ldr r7, [sp, #40]", "push {r4-r7}", "3:", "ldr r2, [sp, #4]", "ldr r3, [sp]")
    yield "adds r2, r2, #16"
    for high in (8, 4):
        yield "ldm r2!, {r4-r7}"
        yield from (f"adds r{n}, r{n}, r3" for n in range(4, 8))
        if high == 8:
            yield from (*(f"mov r{n + 4}, r{n}" for n in range(4, 8)), "subs r2, r2, #32")
    yield from ("adds r2, r2, #16", "str r2, [sp, #4]", "1:")
    for term in range(UNROLLED):
        yield f"ldrb r2, [r0, #{term}]"
        yield from ("sxtb r2, r2",) if kind == "int8" else ()
        for c in range(CHANNELS):
            yield from (f"ldrb r3, [r1, #{CHANNELS * term + c}]", "muls r3, r2, r3")
            yield f"add r{4 + c}, r{4 + c}, r3"
    yield from (f"adds r1, r1, #{CHANNELS * UNROLLED}", f"adds r0, r0, #{UNROLLED}", "cmp r0, r12", "bne 1b")
    yield from ("ldr r2, [sp, #8]", "stm r2!, {r4-r7}", "mov r4, r8", "mov r5, r9", "mov r6, r10")
    yield from ("mov r7, r11", "stm r2!, {r4-r7}", "str r2, [sp, #8]", "ldr r3, [sp, #52]", "subs r0, r0, r3")
    yield from ("ldr r3, [sp, #12]", "subs r3, r3, #1", "str r3, [sp, #12]", "beq 4f", "b 3b", "4:")
    yield from ("add sp, sp, #16", "pop {r4-r7}", "mov r8, r4", "mov r9, r5", "mov r10, r6", "mov r11, r7")
    yield "pop {r4-r7, pc}"


_DOT8 = """\
    for (; blocks > 0; blocks--, from += 8, sums += 8) {
        for (int c = 0; c < 8; c++) sums[c] = from[c];
        for (int term = 0; term < terms; term++, w += 8)
            for (int c = 0; c < 8; c++) sums[c] += x[term] * (w[c] - 128);
    }
"""


def _scale8(kind: str) -> Iterator[str]:
    """r8: what is added behind the point, zero above it; r9: the end of y; r10: near. A product of 32 bits is
    made of four of 16: the upper half of a sum has its sign.
    """
    yield from (".syntax unified", "push {r4-r7, lr}", "mov r4, r8", "mov r5, r9", "mov r6, r10")
    yield from ("push {r4-r6}", "ldr r4, [sp, #32]", "adds r4, r2, r4", "mov r9, r4", "mov r10, r3")
    yield from ("movs r4, #1", f"lsls r4, r4, #{FRACTION - 1}", f"adds r4, r4, #{NEAR}", "ldr r5, [sp, #36]")
    yield from (f"lsls r5, r5, #{FRACTION}", "adds r4, r4, r5", "mov r8, r4")
    yield from ("1:", "ldm r0!, {r4}", "ldm r1!, {r5}", "lsrs r6, r5, #16", "uxth r5, r5", "uxth r7, r4")
    yield from ("asrs r4, r4, #16", "mov r3, r5", "muls r3, r7, r3", "lsrs r3, r3, #16", "muls r7, r6, r7")
    yield from ("adds r3, r3, r7", "muls r5, r4, r5", "adds r3, r3, r5", "add r3, r3, r8", "muls r4, r6, r4")
    yield from ("lsls r5, r3, #16", f"lsrs r5, r5, #{FRACTION + NEAR.bit_length()}", "beq 4f", "2:")
    yield from ("asrs r3, r3, #16", "adds r3, r3, r4", "lsrs r4, r3, #8", "beq 3f", "mvns r3, r3")
    yield from ("asrs r3, r3, #31", "3:", *(("subs r3, r3, #128",) if kind == "int8" else ()))
    yield from ("strb r3, [r2]", "adds r2, r2, #1", "cmp r2, r9", "bne 1b", "pop {r4-r6}", "mov r8, r4")
    yield from ("mov r9, r5", "mov r10, r6", "pop {r4-r7, pc}")
    yield from ("4:", "mov r5, r10", "movs r6, #1", "str r6, [r5]", "b 2b")


_SCALE8 = f"""\
    for (int c = 0; c < channels; c++) {{
        const int64_t wide = ((int64_t)sums[c] * by[c] >> {FRACTION}) + {(1 << FRACTION - 1) + NEAR};
        const int32_t made = (int32_t)(wide >> {FRACTION}) + zero;
        if (((uint32_t)wide & 65535u) < {2 * NEAR}u) *near = 1;
        y[c] = (KIND_t)(uint8_t)((made < 0 ? 0 : made > 255 ? 255 : made) FLIP);
    }}
"""


def _fixed_scale8(kind: str) -> Iterator[str]:
    """r8: zero; r9: the end of y. The product is r4:r3. The upper half of twice that is rounded by the bit
    below it, and so is what a shift leaves: its carry.
    """
    yield from (".syntax unified", "push {r4-r7, lr}", "mov r4, r8", "mov r5, r9", "push {r4, r5}")
    yield from ("ldr r4, [sp, #28]", "mov r8, r4", "adds r4, r2, r3", "mov r9, r4")
    yield from ("1:", "ldm r0!, {r4}", "ldm r1!, {r5}", "lsrs r7, r5, #16", "uxth r5, r5", "uxth r6, r4")
    yield from ("asrs r4, r4, #16", "mov r3, r5", "muls r3, r6, r3", "muls r6, r7, r6", "muls r5, r4, r5")
    yield from ("muls r4, r7, r4", "lsls r7, r6, #16", "lsrs r6, r6, #16", "adds r3, r3, r7", "adcs r4, r6")
    yield from ("lsls r7, r5, #16", "asrs r5, r5, #16", "adds r3, r3, r7", "adcs r4, r5")
    yield from ("lsls r3, r3, #1", "adcs r4, r4", "movs r7, #0", "lsls r3, r3, #1", "adcs r4, r7")
    yield from ("ldm r1!, {r5}", "asrs r6, r4, #31", "adds r4, r4, r6", "mov r6, r8", "asrs r4, r5")
    yield from ("adcs r4, r6", "lsrs r6, r4, #8", "beq 3f", "mvns r4, r4", "asrs r4, r4, #31")
    yield from ("3:", *(("subs r4, r4, #128",) if kind == "int8" else ()), "strb r4, [r2]")
    yield from ("adds r2, r2, #1", "cmp r2, r9", "bne 1b", "pop {r4, r5}", "mov r8, r4", "mov r9, r5")
    yield "pop {r4-r7, pc}"


_FIXED_SCALE8 = f"""\
    for (int c = 0; c < channels; c++) {{
{in_fixed_point("sums[c]", "by[2 * c]", "by[2 * c + 1]", "made", "zero", 8)}\
        y[c] = (KIND_t)(uint8_t)((made < 0 ? 0 : made > 255 ? 255 : made) FLIP);
    }}
"""
