"""Products of bytes for all points of a row, two at a time, that become bytes: one call for the loop around.

    dot2_points(x, wide, w, first, scale, y, rows, along, terms, apart, blocks, pairs, step, zero, count)

does `count` times what `widen2` and `dot2_bytes` of `routines.py` do, for points that lie evenly: those of
the operand `apart`, those of the result `step` behind each other.

In: nothing. Out: the C of functions, by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from textwrap import indent

from ingot.targets.routines import (
    KINDS,
    MARK,
    all_blocks,
    behind_blocks,
    blocks_in_c,
    bytes_name,
    one_term_more,
    routine,
    widened_rows,
)

LABELS = 20  # of what is widened; those of products are below


def points_name(of: str, kind: str, plain: bool, fixed: bool) -> str:
    """The routine for operands and results of two types."""
    return bytes_name(f"dot2_points_{of}", kind, plain, fixed)


def point_routines() -> Mapping[str, str]:
    """The routines by name."""
    return {
        points_name(of, *how): routine(
            points_name(of, *how),
            f"const {of}_t *x, int16_t *wide, const int16_t *weights, const int32_t *firsts,"
            f" const int32_t *scales, {how[0]}_t *y, int rows, int along, int terms, int apart, int blocks,"
            " int pairs, int step, int zero, int count",
            _points(of[0], *how),
            _in_c(of, *how),
            "Two points at a time: what they read as int16, then products of all channels as bytes.",
        )
        for of, how in product(KINDS, list(product(KINDS, (False, True), (False, True))))
    }


def _points(sign: str, kind: str, plain: bool, fixed: bool) -> Iterator[str]:
    """On the stack, behind the frame, the end of `wide` and zero: what `widened_rows` begins with, what a
    block begins with, both points, how far it is to the next ones, from the end of y to the next, the end of
    all; then registers and parameters from `scales` on.
    """
    yield from ("push {r4-r11, lr}", "sub sp, sp, #100", "add r12, sp, #136", "ldm r12!, {r4-r11}")
    yield from ("add lr, sp, #60", "stm lr, {r1-r4, r11}", "add lr, r0, r9", "strd r0, lr, [sp, #80]")
    yield from ("lsl r9, r9, #1", "str r9, [sp, #88]", "ldr r0, [r12, #4]", "add lr, r1, r11, lsl #3")
    yield from ("strd lr, r0, [sp, #28]", "strd r1, r6, [sp, #36]", "and r2, r8, #3", "bic r3, r8, #3")
    yield from ("sub r7, r7, r3", "lsr r8, r8, #2", "rsb r3, r2, #4", "lsl r3, r3, #3", "cmp r2, #1")
    yield from (f"bne {LABELS}f", f"mov r3, #{MARK}", f"{LABELS}:", "strd r2, r7, [sp, #44]")
    yield from ("strd r8, r3, [sp, #52]", "ldr r6, [r12]", "add r7, r5, r10, lsl #2", "str r1, [sp]")
    yield from ("str r5, [sp, #12]", "strd r6, r7, [sp, #16]", "str r11, [sp, #24]", "lsl r3, r10, #2")
    yield from ("lsl r6, r6, #1", "sub r3, r6, r3", "ldr r4, [r12, #8]", "sub r4, r4, #1")
    yield from ("mla r4, r4, r6, r7", "strd r3, r4, [sp, #92]", f"{LABELS}:", "ldrd r0, r1, [sp, #80]")
    yield from ("ldr r4, [sp, #88]", "add r5, r0, r4", "add r4, r4, r1", "strd r5, r4, [sp, #80]")
    yield from ("add r12, sp, #36", "ldm r12, {r2, r3, r8-r11}", *widened_rows(sign, LABELS))
    yield from ("add r12, sp, #60", "ldm r12, {r0-r3, lr}", *all_blocks(kind, plain, fixed))
    yield from ("ldrd r3, r4, [sp, #92]", "cmp r7, r4", "add r5, r5, r3", "add r7, r7, r6, lsl #1")
    yield from ("str r5, [sp, #12]", "str r7, [sp, #20]", f"bne {LABELS}b", "add sp, sp, #100")
    yield from ("pop {r4-r11, pc}", *one_term_more(sign, LABELS), *behind_blocks(plain, fixed))


def _in_c(of: str, kind: str, plain: bool, fixed: bool) -> str:
    return f"""\
    for (; count > 0; count--, x += 2 * apart, y += 2 * step) {{
        widen_pairs16_{of}(x, x + apart, wide, rows, along, terms);
        const int16_t *const a = wide, *w = weights;
        const int32_t *first = firsts, *scale = scales;
        {kind}_t *to = y;
{indent(blocks_in_c(kind, plain, fixed), " " * 4)}\
    }}
"""
