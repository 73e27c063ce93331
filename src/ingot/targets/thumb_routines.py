"""Functions in assembly for cores that have the 16-bit instructions of Thumb only: Cortex-M0, M0+, M1, M23.

    dot8(x, w, sums, terms, blocks)     adds to the sums of one point and all channels, by eights

In: nothing. Out: the C of functions, by name; see `routines.py`. Weights lie as w + 128: a load of a byte
without a sign takes an offset, one with a sign does not. What that adds, 128 times the sum of x, is
subtracted first. Eight sums fill r4 to r11.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ingot.targets.routines import KINDS, routine

CHANNELS = 8  # of a block
UNROLLED = 4  # terms of a turn: as far as offsets reach
OFFSET = 128  # of a weight


def thumb_routines() -> Mapping[str, str]:
    """The routines by name."""
    return {
        f"dot8_{kind}": routine(
            f"dot8_{kind}",
            f"const {kind}_t *x, const uint8_t *w, int32_t *sums, int terms, int blocks",
            _dot8(kind),
            _DOT8,
            "Adds products of one point and eight channels a block; weights are 128 more than they are.",
            "defined(__thumb__)",
        )
        for kind in KINDS
    }


def _dot8(kind: str) -> Iterator[str]:
    """On the stack: what is added first, sums, terms, blocks; registers; then blocks as they were given."""
    yield from (".syntax unified", "push {r4-r7, lr}", "mov r4, r8", "mov r5, r9", "mov r6, r10")
    yield from ("mov r7, r11", "push {r4-r7}", "ldr r7, [sp, #36]", "movs r4, #0", "mov r5, r3")
    yield from ("subs r6, r0, #1", "mov r12, r6", "2:", "mov r6, r12", "adds r6, r6, r5")
    load = ("ldrb r6, [r6]",) if kind == "uint8" else ("ldrb r6, [r6]", "sxtb r6, r6")
    yield from (*load, "subs r4, r4, r6", "subs r5, r5, #1", "bne 2b", "lsls r4, r4, #7")
    yield from ("mov r5, r2", "mov r6, r3", "push {r4-r7}", "adds r6, r0, r3", "mov r12, r6", "3:")
    yield from ("ldr r2, [sp, #4]", "ldr r3, [sp]", "adds r2, r2, #16")
    for high in (8, 4):
        yield "ldm r2!, {r4-r7}"
        yield from (f"adds r{n}, r{n}, r3" for n in range(4, 8))
        if high == 8:
            yield from (*(f"mov r{n + 4}, r{n}" for n in range(4, 8)), "subs r2, r2, #32")
    yield "1:"
    for term in range(UNROLLED):
        yield f"ldrb r2, [r0, #{term}]"
        yield from ("sxtb r2, r2",) if kind == "int8" else ()
        for c in range(CHANNELS):
            yield from (f"ldrb r3, [r1, #{CHANNELS * term + c}]", "muls r3, r2, r3")
            yield f"add r{4 + c}, r{4 + c}, r3"
    yield from (f"adds r1, r1, #{CHANNELS * UNROLLED}", f"adds r0, r0, #{UNROLLED}", "cmp r0, r12", "bne 1b")
    yield from ("ldr r2, [sp, #4]", "stm r2!, {r4-r7}", "mov r4, r8", "mov r5, r9", "mov r6, r10")
    yield from ("mov r7, r11", "stm r2!, {r4-r7}", "str r2, [sp, #4]", "ldr r3, [sp, #8]", "subs r0, r0, r3")
    yield from (
        "ldr r3, [sp, #12]",
        "subs r3, r3, #1",
        "str r3, [sp, #12]",
        "beq 4f",
        "b 3b",
        "4:",
        "add sp, sp, #16",
    )
    yield from ("pop {r4-r7}", "mov r8, r4", "mov r9, r5", "mov r10, r6", "mov r11, r7", "pop {r4-r7, pc}")


_DOT8 = """\
    for (; blocks > 0; blocks--, sums += 8)
        for (int term = 0; term < terms; term++, w += 8)
            for (int c = 0; c < 8; c++) sums[c] += x[term] * (w[c] - 128);
"""
