"""Functions in assembly that add bytes of two tensors in fixed point, as TFLite does.

    fixed_add(x, y, to, count, ...)     fixed(x << 19, fixed(y << 20, ..), ..): the sum scaled twice

In: nothing. Out: the C of functions, by name; see `routines.py`. The zero points are taken from x and y. Of
TFLite's multipliers of operands the larger is a half, which is that of x here: half of x << 20 is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import product

from ingot.targets.mve import HAS_MVE, less_if_negative
from ingot.targets.routines import HAS_PAIRS, KINDS, bytes_name, product_name, routine

LEFT = 20  # bits that TFLite shifts operands by

Assembly = Callable[[str, bool], Iterator[str]]


def add_name(kind: str, plain: bool) -> str:
    """The routine for bytes of a type; `plain`: whose zero point is the smallest of the type."""
    return bytes_name("add", kind, plain, True)


def _routines(assembly: Assembly, where: str) -> Mapping[str, str]:
    return {
        add_name(kind, plain): routine(
            add_name(kind, plain),
            f"const {kind}_t *x, const {kind}_t *y, {kind}_t *to, int count, int x_zero, int y_zero,"
            " int y_by, int y_shift, int by, int shift, int zero",
            assembly(kind, plain),
            _in_c(kind, plain),
            "Bytes of two tensors, added in fixed point.",
            where,
        )
        for kind, plain in product(KINDS, (False, True))
    }


def _in_c(kind: str, plain: bool) -> str:
    low, high = (0, 255) if kind == "uint8" else (-128, 127)
    return f"""\
    for (int i = 0; i < count; i++) {{
        const int32_t one = (x[i] - x_zero) * {1 << LEFT}, other = (y[i] - y_zero) * {2 << LEFT};
        const int32_t twice = one + 2 * fixed_product(other, y_by, y_shift);
        const int32_t made = {product_name(plain)}(twice, by, shift) + zero;
        to[i] = ({kind}_t)(made < {low} ? {low} : made > {high} ? {high} : made);
    }}
"""


def _one_by_one(kind: str, plain: bool) -> Iterator[str]:
    """Two elements an iteration. r0, r1: operands, r2: where sums go, r3: the end of x; r6: the zero point of
    x, negative, r7: that of y; r8, r9: multiplier and shift of y, r10, r11: of the sum; r12: its zero point.
    """
    yield from ("push {r4-r11, lr}", "ldrd r6, r7, [sp, #36]", "ldrd r8, r9, [sp, #44]")
    yield from (
        "ldrd r10, r11, [sp, #52]",
        "ldr r12, [sp, #60]",
        f"lsl r6, r6, #{LEFT - 1}",
        "rsb r6, r6, #0",
    )
    yield from (f"lsl r7, r7, #{LEFT + 1}", "lsls r4, r3, #31", "add r3, r0, r3", "bmi 2f", "1:")
    yield from (*_sum(kind, plain), "2:", *_sum(kind, plain), "cmp r0, r3", "bne 1b", "pop {r4-r11, pc}")


def _sum(kind: str, plain: bool) -> Iterator[str]:
    """What a multiplication takes is doubled; the carry of a shift is what it rounds up."""
    load, limit = ("ldrb", "usat") if kind == "uint8" else ("ldrsb", "ssat")
    yield from (f"{load} r5, [r1], #1", f"{load} r4, [r0], #1", f"rsb r5, r7, r5, lsl #{LEFT + 1}")
    yield from ("asr lr, r5, #31", "smmlar r5, r5, r8, lr", "asrs r5, r5, r9", "adc r5, r5, r6")
    yield from (f"add r5, r5, r4, lsl #{LEFT - 1}", "lsl r5, r5, #1")
    yield from (("smmulr r5, r5, r10",) if plain else ("asr lr, r5, #31", "smmlar r5, r5, r10, lr"))
    yield from ("asrs r5, r5, r11", "adc r5, r5, r12", f"{limit} r5, #8, r5", "strb r5, [r2], #1")


def _by_fours(kind: str, plain: bool) -> Iterator[str]:
    """r0, r1: operands, r2: where sums go; r4, r5: their zero points, negative, r6, r7: multiplier and shift
    of y, r8, r9: of the sum; r10: its zero point; r12: what x is multiplied by, and q3 y.
    """
    load = "vldrb.u32" if kind == "uint8" else "vldrb.s32"
    yield from ("push {r4-r10, lr}", "ldrd r4, r5, [sp, #32]", "ldrd r6, r7, [sp, #40]")
    yield from ("ldrd r8, r9, [sp, #48]", "ldr r10, [sp, #56]", f"mov r12, #{1 << LEFT}", "vdup.32 q3, r12")
    yield from (f"mov r12, #{1 << (LEFT - 1)}", f"lsl r4, r4, #{LEFT - 1}", f"lsl r5, r5, #{LEFT}")
    yield from (f"rsb r{n}, r{n}, #0" for n in (4, 5, 7, 9))
    yield from ("dlstp.32 lr, r3", "1:", f"{load} q1, [r1], #4", f"{load} q0, [r0], #4")
    yield from ("vmlas.s32 q1, q3, r5", "vqrdmulh.s32 q1, q1, r6", *less_if_negative("q2", "q1"))
    yield from ("vrshl.s32 q1, r7", "vmla.s32 q1, q0, r12", "vadd.i32 q1, q1, r4", "vqrdmulh.s32 q1, q1, r8")
    yield from (() if plain else less_if_negative("q2", "q1"))
    yield from ("vrshl.s32 q1, r9", "vadd.i32 q1, q1, r10", "vqmovnb.s32 q1, q1")
    yield "vqmovunb.s16 q1, q1" if kind == "uint8" else "vqmovnb.s16 q1, q1"
    yield from ("vstrb.32 q1, [r2], #4", "letp lr, 1b", "pop {r4-r10, pc}")


SCALARS = _routines(_one_by_one, HAS_PAIRS)
VECTORS = _routines(_by_fours, HAS_MVE)
