"""Functions in assembly that compute what a loop of a kernel does, where no compiler finds the loop.

    dot2_tile_8(a, w, sums, pairs)      two points by four channels, eight pairs of terms a turn

In: how far to unroll. Out: the C of a function; the loop that it stands for gives its meaning. Beside the
assembly stands the same in plain C, for compilers that take no naked functions.

`w` holds two channels in one int16, 256 * w1 + w0: a word of it times a word of activations adds
256 * acc1 + acc0 to an accumulator; what SXTB16 leaves of the word adds acc0 to another. In the end acc1 is
(raw - acc0) >> 8, exact as long as |acc1| < 2^23.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

STEPS = (8, 4, 2)  # pairs of terms in one turn of the loop
MOST_TERMS = 512  # 512 * 128 * 127 < 2^23


def dot2_tile(pairs: int) -> str:
    """The name of the routine for so many pairs of terms, which are even."""
    return f"dot2_tile_{next(n for n in STEPS if pairs % n == 0)}"


def dot2_tiles() -> Mapping[str, str]:
    """The routines by name."""
    return {f"dot2_tile_{n}": _dot2_tile(n) for n in STEPS}


def _dot2_tile(unrolled: int) -> str:
    text = "\n".join(f'        "{line}\\n\\t"' for line in _assembly(unrolled))
    return _TEMPLATE.replace("UNROLLED", str(unrolled)).replace("ASSEMBLY", text)


def _assembly(unrolled: int) -> Iterator[str]:
    yield from ("push {r4-r11, lr}", "add r3, r0, r3, lsl #3", "push {r2, r3}")
    yield from (f"movs r{n}, #0" for n in range(4, 8))
    yield from (f"mov r{n}, #0" for n in range(8, 12))
    yield "1:"
    for _ in range(unrolled):
        yield from ("ldrd r2, r3, [r0], #8", "ldrd r12, lr, [r1], #8")
        yield from ("smlad r5, r12, r2, r5", "smlad r9, r12, r3, r9", "sxtb16 r12, r12")
        yield from ("smlad r7, lr, r2, r7", "smlad r11, lr, r3, r11", "sxtb16 lr, lr")
        yield from ("smlad r4, r12, r2, r4", "smlad r8, r12, r3, r8")
        yield from ("smlad r6, lr, r2, r6", "smlad r10, lr, r3, r10")
    yield from ("ldr r2, [sp, #4]", "cmp r0, r2", "bne 1b", "pop {r0, r1}")
    for first in (4, 8):  # a point: the sums of its four channels
        yield "ldm r0, {r1, r2, r3, r12}"
        for low, old, older in ((first, "r2", "r1"), (first + 2, "r12", "r3")):
            yield f"sub r{low + 1}, r{low + 1}, r{low}"
            yield f"add r{low}, r{low}, {older}"
            yield f"add r{low + 1}, {old}, r{low + 1}, asr #8"
        yield f"stm r0!, {{r{first}-r{first + 3}}}"
    yield "pop {r4-r11, pc}"


_TEMPLATE = """\
/* Adds products of two points and four channels; an int16 of w has two: 256 * the second + the first. */
#if defined(__GNUC__) && defined(__ARM_FEATURE_DSP)
__attribute__((__naked__, __noinline__)) static void dot2_tile_UNROLLED(
        __attribute__((__unused__)) const int16_t *a, __attribute__((__unused__)) const int16_t *w,
        __attribute__((__unused__)) int32_t *sums, __attribute__((__unused__)) int pairs) {
    __asm__(
ASSEMBLY);
}
#else
static void dot2_tile_UNROLLED(const int16_t *a, const int16_t *w, int32_t *sums, int pairs) {
    for (int i = 0; i < 4 * pairs; i++) {
        const int point = i / 2 % 2, term = i % 2;
        for (int duo = 0; duo < 2; duo++) {
            const int both = w[i / 4 * 4 + 2 * duo + term], low = (int8_t)both;
            sums[4 * point + 2 * duo] += low * a[i];
            sums[4 * point + 2 * duo + 1] += (both - low) / 256 * a[i];
        }
    }
}
#endif"""
