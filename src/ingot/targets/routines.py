"""Functions in assembly that compute what a loop of a kernel does, where no compiler finds the loop.

    widen2(a0, a1, to, rows, along, terms)              bytes of two points as pairs of 16 bits
    dot2_bytes(a, w, first, scale, y, blocks, ...)      bytes of two points and all channels, by fours
    dot2_row(x, w, first, scale, y, blocks, ...)        bytes of one point and all channels, by eights
    dot2_tile(a, w, sums, pairs)                        sums of two points and four channels

In: nothing. Out: the C of functions; the loops that they stand for give their meaning. Beside the assembly
stands the same in plain C, for compilers that take no naked functions. All jumps go to labels, so that the
audit of the stack can follow them.

What `scale` holds for blocks of two points is said in `loops/exact_scales.py`: integers, or floats.

`w` holds two channels in one int16, 256 * w1 + w0: a word of it times a word of activations adds
256 * acc1 + acc0 to an accumulator; what SXTB16 leaves of the word adds acc0 to another. In the end
raw - acc0 is 256 * acc1, exact as long as |acc1| < 2^23.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import product

KINDS = ("uint8", "int8")
SUM_LIMIT = 1 << 23
"""What sums of channels that share a register stay below."""
SCALES = {False: "float", True: "int32_t"}
"""Of channels: in fixed point multipliers and shifts."""
HALF_LIMIT = 1 << 15
"""What results stay below before they are limited to bytes: two share a register."""


HAS_PAIRS = "defined(__ARM_FEATURE_DSP) && defined(__ARM_FP)"
"""Where a compiler has the instructions that multiply pairs of 16 bits."""


def routine(
    name: str, parameters: str, assembly: Iterable[str], plain: str, what: str, where: str = HAS_PAIRS
) -> str:
    """The C of a function: naked assembly where a compiler takes it, else what stands beside it."""
    text = "\n".join(f'        "{line}\\n\\t"' for line in assembly)
    unused = ", ".join(f"__attribute__((__unused__)) {p.strip()}" for p in parameters.split(","))
    return f"""\
/* {what} */
#if defined(__GNUC__) && {where}
__attribute__((__naked__, __noinline__)) static void {name}({unused}) {{
    __asm__(
{text});
}}
#else
static void {name}({parameters}) {{
{plain}}}
#endif"""


def called(name: str, texts: Mapping[str, str]) -> list[str]:
    """The functions that the text of a routine calls, by their whole names."""
    words = set(re.findall(r"\w+(?=\()", texts[name]))
    return [n for n in texts if n != name and n in words]


def from_zero(name: str, plain: bool) -> str:
    """The routine for bytes whose zero point is the smallest of their type, where `plain`, or for all."""
    return f"{name}_plain" if plain else name


def bytes_name(name: str, kind: str, plain: bool, fixed: bool = False) -> str:
    """The routine `name` for results of a type, `fixed`: that are scaled in fixed point."""
    return from_zero(f"{'fixed_' if fixed else ''}{name}_{kind}", plain)


def product_name(plain: bool) -> str:
    """The function of `plain_pairs` that scales a doubled sum in fixed point; `plain`: for bytes whose zero
    point is the smallest of their type.
    """
    return "fixed_above" if plain else "fixed_product"


def in_fixed_point(total: str, multiplier: str, shift: str, to: str, zero: str, indent: int) -> str:
    """Lines of C that scale a sum by a multiplier and a power of two, rounded to the nearest, halves away
    from 0: gemmlowp's SaturatingRoundingDoublingHighMul and RoundingDivideByPOT.
    """
    lines = (
        f"const int32_t high = (int32_t)(((int64_t){total} * {multiplier} + 1073741824) >> 31);",
        f"const int32_t half = (int32_t)(1u << {shift} >> 1);",
        f"const int {to} = ((high + half - (high < 0)) >> {shift}) + {zero};",
    )
    return "".join(f"{' ' * indent}{line}\n" for line in lines)


def dot2_routines() -> Mapping[str, str]:
    """The routines of products of two points, by name."""
    return {
        "dot2_tile": routine(
            "dot2_tile",
            "const int16_t *a, const int16_t *w, int32_t *sums, int pairs",
            _tile(),
            _TILE,
            "Adds products of two points and four channels; an int16 of w holds two: 256 * b + a.",
        ),
        **{
            bytes_name("dot2_bytes", *how): routine(
                bytes_name("dot2_bytes", *how),
                "const int16_t *a, const int16_t *w, const int32_t *first, const int32_t *scale,"
                f" {how[0]}_t *to, int step, int blocks, int pairs, int zero",
                _bytes(*how),
                blocks_in_c(*how),
                "Products of two points and four channels a block, scaled, rounded and limited to bytes.",
            )
            for how in product(KINDS, (False, True), (False, True))
        },
        **{
            f"widen2_{kind}": routine(
                f"widen2_{kind}",
                f"const {kind}_t *a0, const {kind}_t *a1, int16_t *to, int rows, int along, int terms",
                _widen(kind[0]),
                f"    widen_pairs16_{kind}(a0, a1, to, rows, along, terms);\n",
                "Bytes of two points as int16: terms 0 and 2 of each, then 1 and 3, what is missing as 0;"
                " where one term is left, those of four rows behind these.",
            )
            for kind in KINDS
        },
        **{
            from_zero(f"dot2_row_{of}_{kind}", plain): routine(
                from_zero(f"dot2_row_{of}_{kind}", plain),
                f"const {of}_t *x, const int16_t *w, const int32_t *first, const float *scale, {kind}_t *to,"
                " int blocks, int loads, int zero",
                _row("uxtb16" if of == "uint8" else "sxtb16", kind, plain),
                _as_bytes(_row_in_c(of), kind, ""),
                "Products of one point and eight channels a block, scaled, rounded and limited to bytes.",
            )
            for of, kind, plain in product(KINDS, KINDS, (False, True))
        },
    }


# -- products


def _products(pairs: int) -> Iterator[str]:
    """Adds the products of some pairs of terms to the sums in r4-r11; r0: activations, r1: weights."""
    for _ in range(pairs):
        yield from ("ldrd r2, r3, [r0], #8", "ldrd r12, lr, [r1], #8")
        yield from ("smlad r5, r12, r2, r5", "smlad r9, r12, r3, r9", "sxtb16 r12, r12")
        yield from ("smlad r7, lr, r2, r7", "smlad r11, lr, r3, r11", "sxtb16 lr, lr")
        yield from ("smlad r4, r12, r2, r4", "smlad r8, r12, r3, r8")
        yield from ("smlad r6, lr, r2, r6", "smlad r10, lr, r3, r10")


def _all_products(end: str) -> Iterator[str]:
    """All products of a tile, sixteen pairs an iteration; lr: pairs, which are even; `end` of `a`."""
    yield from ("lsls r2, lr, #29", "bne 3f", "bcs 8f")  # Z: whole eights, C: eight on top, N: four
    for label in (4, 10, 7, 11, 8, 12, 9, 13):
        yield f"{label}:"
        yield from _products(2)
    yield from (f"ldr r2, {end}", "cmp r0, r2", "bne 4b", "6:")


def _products_on_top() -> Iterator[str]:
    """Where the products of a tile begin that are no whole eights; behind the routine, which does not fall
    through to it. Without four there are two.
    """
    yield from ("3:", "bpl 3f", "tst lr, #2", "bne 5f", "bcs 7b", "b 9b")
    yield from ("3:", "bcs 11b", "b 13b", "5:", "bcs 10b", "b 12b")


def _tile() -> Iterator[str]:
    yield from ("push {r4-r11, lr}", "add r12, r0, r3, lsl #3", "push {r2, r3, r12, lr}")
    yield from (f"movs r{n}, #0" for n in range(4, 8))
    yield from (f"mov r{n}, #0" for n in range(8, 12))
    yield "mov lr, r3"
    yield from _all_products("[sp, #8]")
    yield from ("ldr r0, [sp]", "add sp, sp, #16")
    for first in (4, 8):  # a point: the sums of its four channels
        yield "ldm r0, {r1, r2, r3, r12}"
        for low, old, older in ((first, "r2", "r1"), (first + 2, "r12", "r3")):
            yield f"sub r{low + 1}, r{low + 1}, r{low}"
            yield f"add r{low}, r{low}, {older}"
            yield f"add r{low + 1}, {old}, r{low + 1}, asr #8"
        yield f"stm r0!, {{r{first}-r{first + 3}}}"
    yield from ("pop {r4-r11, pc}", *_products_on_top())


_TILE = """\
    const int32_t none[4] = {0};
    int32_t made[8];
    mac_pairs16(a, a + 4 * pairs, w, none, made);
    for (int i = 0; i < 8; i += 2) {
        sums[i] += made[i];
        sums[i + 1] += made[i + 1] >> 8;
    }
"""


def _as_bytes(plain: str, kind: str, results: str) -> str:
    """The routine in plain C, for results of a type."""
    words = "8" if "scale[7]" in results else "4"
    plain = plain.replace("        RESULTS\n", results).replace("SCALES", words)
    flip, lowest = (" ^ 128", " - 128") if kind == "int8" else ("", "")
    return plain.replace("KIND", kind).replace(" FLIP", flip).replace(" LOWEST", lowest)


def blocks_in_c(kind: str, plain: bool, fixed: bool) -> str:
    return _as_bytes(_BYTES, kind, _fixed_results(plain) if fixed else _word_results())


def _word_results() -> str:
    """Both points of four channels, written out: compilers would count the loop."""
    of_words, of_floats = [], []
    for c in range(4):
        for i, to in ((4 + c, "second"), (c, "to")):
            total = f"sums[{i}]{' >> 8' * (c % 2)}"
            of_words.append(f"{to}[{c}] = (KIND_t)limit_KIND(high_product({total}, by{c}) + moved);")
            made = f"byte_of_sum((uint32_t)sums[{i}], f{c}, (int16_t)zero)"
            of_floats.append(f"{to}[{c}] = (KIND_t)(uint8_t)({made} FLIP);")
    factors = (f"f{c} = -word_float(by{c})" for c in range(4))
    return f"""\
        const int32_t by0 = scale[0], by1 = scale[1], by2 = scale[2], by3 = scale[3];
        KIND_t *const second = to + step;
        if (by0 >= 0) {{
            {f"{chr(10)}            ".join(of_words)}
        }} else {{
            const float {", ".join(factors)};
            {f"{chr(10)}            ".join(of_floats)}
        }}
"""


def _fixed_results(plain: bool) -> str:
    """Both points of four channels, written out."""
    half = "\n            const int32_t half = (int32_t)(1u << shift >> 1);" * plain
    lines = []
    for c in range(4):
        lines += ["{", f"    const int32_t by = scale[{2 * c}], shift = scale[{2 * c + 1}];{half}"]
        for of, to in ((4 + c, "second"), (c, "to")):
            total, twice = f"sums[{of}]", f"sums[{of}] >> 7" if c % 2 else f"2 * sums[{of}]"
            made = f"fixed_product({twice}, by, shift)"
            if plain:  # where the multiplier is doubled the sum is added instead
                made = f"high_sum({twice}, by, half)" if c % 2 else f"high_sum({total}, by, {total} + half)"
                made += " >> shift"
            lines.append(f"    {to}[{c}] = (KIND_t)limit_KIND(({made}) + moved);")
        lines.append("}")
    return "".join(f"        {line}\n" for line in ("KIND_t *const second = to + step;", *lines))


FRAME = "{r0, r2, r3, r5, r6, r7, lr}"
"""a, first, scale, y, how far behind it the second point is, the end of y, pairs: for each block."""


def _bytes(kind: str, plain: bool, fixed: bool) -> Iterator[str]:
    """On the stack: the frame, the end of a, zero; then registers; then y, step, blocks, pairs, zero."""
    yield from ("push {r4-r11, lr}", "sub sp, sp, #36", "ldr r5, [sp, #72]", "ldrd r6, r7, [sp, #76]")
    yield from ("ldrd lr, r12, [sp, #84]", "add r7, r5, r7, lsl #2", "add r4, r0, lr, lsl #3")
    yield from ("strd r4, r12, [sp, #28]", f"stm sp, {FRAME}", *all_blocks(kind, plain, fixed))
    yield from ("add sp, sp, #36", "pop {r4-r11, pc}", *behind_blocks(plain, fixed))


END, ZERO = "[sp, #28]", "[sp, #32]"
"""Behind the frame: the end of a, and the zero point."""


def all_blocks(kind: str, plain: bool, fixed: bool) -> Iterator[str]:
    """All blocks of two points; in registers and on the stack is the frame; r1: weights."""
    yield from ("2:", "ldm r2, {r4-r7}", "ldm r2!, {r8-r11}")
    yield from (f"vldm r3!, {{s0-s{7 if fixed else 3}}}", "strd r2, r3, [sp, #4]")
    yield from _all_products(END)
    yield from (f"sub r{n + 1}, r{n + 1}, r{n}" for n in (4, 6, 8, 10))
    yield from (_scaled_fixed if fixed else _scaled_words)("" if plain else ZERO)
    yield from ("1:", *_limited(kind), f"ldm sp, {FRAME}", "str r8, [r5, r6]", "str r4, [r5], #4")
    yield from ("str r5, [sp, #12]", "cmp r5, r7", "bne 2b")


def behind_blocks(plain: bool, fixed: bool) -> Iterator[str]:
    """What `all_blocks` jumps to."""
    yield from _products_on_top()
    if not fixed:
        yield from ("2:", *_scaled_floats("s0 s1 s2 s3 s0 s1 s2 s3", "vnmul"))
        yield from _moved("" if plain else ZERO)
        yield "b 1b"


def _scaled_words(zero: str) -> Iterator[str]:
    """The sums in r4-r11 scaled by what s0-s3 hold, and moved: by integers, or floats, which are negative."""
    yield from ("vmov r0, r2, s0, s1", "vmov r3, r12, s2, s3", "cmp r0, #0", "bmi 2f")
    yield from (f"asr r{n}, r{n}, #8" for n in (5, 7, 9, 11))
    made = [(f"r{n}", by) for n, by in zip(range(4, 12), ("r0", "r2", "r3", "r12") * 2, strict=True)]
    if zero:
        yield from (f"ldr lr, {zero}", *(f"smmlar {r}, {r}, {by}, lr" for r, by in made))
    else:
        yield from (f"smmulr {r}, {r}, {by}" for r, by in made)


def _moved(zero: str) -> Iterator[str]:
    """The results in r4-r11 moved by the number at `zero`, if it is not 0."""
    if zero:
        yield from (f"ldr r2, {zero}", *(f"add r{n}, r{n}, r2" for n in range(4, 12)))


def _scaled_floats(scales: str, multiply: str = "vmul") -> Iterator[str]:
    """The sums in r4-r11 scaled and rounded, by way of the stack."""
    yield from ("push {r4-r11}", "vpop {s4-s11}")
    yield from (f"vcvt.f32.s32 s{n}, s{n}" for n in range(4, 12))
    yield from (f"{multiply}.f32 s{n}, s{n}, {by}" for n, by in enumerate(scales.split(), 4))
    yield from (f"vcvtr.s32.f32 s{n}, s{n}" for n in range(4, 12))
    yield from ("vpush {s4-s11}", "pop {r4-r11}")


def _scaled_fixed(zero: str) -> Iterator[str]:
    """The same of two points, by multipliers in s0, s2, s4, s6 and shifts behind each. The upper half of a
    doubled sum by a multiplier, less 1 where it is negative, is shifted: the carry of that is what rounds it
    up. If results are not moved, what is negative becomes 0 whichever way it is rounded; then multipliers of
    the first of two channels are doubled, so that the sums need not be: 2 s m = s (2 m - 2^32) + 2^32 s.
    """
    if zero:
        yield f"ldr r2, {zero}"
    for n in range(4):
        yield f"vmov r0, r12, s{2 * n}, s{2 * n + 1}"
        for r in (f"r{4 + n}", f"r{8 + n}"):
            if n % 2 or zero:
                yield f"asr {r}, {r}, #7" if n % 2 else f"lsl {r}, {r}, #1"
                less = "asr r3, {0}, #31", "smmlar {0}, {0}, r0, r3"
                yield from (line.format(r) for line in (less if zero else ("smmulr {0}, {0}, r0",)))
            else:
                yield f"smmlar {r}, {r}, r0, {r}"  # by what doubled is 2^32 more
            yield from (f"asrs {r}, {r}, r12", f"adc {r}, {r}, {'r2' if zero else '#0'}")


def _limited(kind: str) -> Iterator[str]:
    """Two words of four bytes each in r4 and r8, of the results in r4-r11, which are to be unsigned."""
    for n in (4, 5, 8, 9):
        yield from (f"pkhbt r{n}, r{n}, r{n + 2}, lsl #16", f"usat16 r{n}, #8, r{n}")
    yield from (f"orr r{n}, r{n}, r{n + 1}, lsl #8" for n in (4, 8))
    if kind == "int8":
        yield from ("eor r4, r4, #0x80808080", "eor r8, r8, #0x80808080")


_BYTES = """\
    const int16_t *const end = a + 4 * pairs;
    const int moved = (int16_t)zero LOWEST;
    for (const int32_t *const last = first + 4 * blocks; first != last; first += 4) {
        int32_t sums[8];
        mac_pairs16(a, end, w, first, sums);
        RESULTS
        w += 4 * pairs;
        scale += SCALES;
        to += 4;
    }
"""


# -- one point


def _row(extend: str, kind: str, plain: bool) -> Iterator[str]:
    """On the stack: first, scale, x, its end, the end of y; registers; then y, blocks, loads, zero."""
    y, blocks, loads, zero = (f"[sp, #{56 + 4 * i}]" for i in range(4))
    yield from ("push {r4-r11, lr}", "sub sp, sp, #20", f"ldr r4, {y}", f"ldr r5, {blocks}")
    yield from ("add r5, r4, r5, lsl #3", f"ldr r6, {loads}", "add r6, r0, r6, lsl #2")
    yield from ("strd r2, r3, [sp]", "strd r0, r6, [sp, #8]", "str r5, [sp, #16]")
    yield from ("2:", "ldrd r2, r3, [sp]", "ldm r2!, {r4-r11}", "vldm r3!, {s0-s3}")
    yield from ("vldm r3!, {s12-s15}", "strd r2, r3, [sp]", "ldr r0, [sp, #8]")
    yield from (f"ldr lr, {loads}", "lsls lr, lr, #31", "bpl 3f")  # N: one load on top, C: two
    yield from _four_terms(extend)
    yield from ("bcs 5f", "ldr r2, [sp, #12]", "cmp r0, r2", "beq 6f", "b 4f", "3:", "bcs 5f", "4:")
    yield from (line for _ in range(2) for line in _four_terms(extend))
    yield "5:"
    yield from (line for _ in range(2) for line in _four_terms(extend))
    yield from ("ldr r2, [sp, #12]", "cmp r0, r2", "bne 4b", "6:")
    yield from (f"sub r{n + 1}, r{n + 1}, r{n}" for n in (4, 6, 8, 10))
    yield from _scaled_floats("s0 s1 s2 s3 s12 s13 s14 s15")
    yield from (*_moved("" if plain else zero), *_limited(kind))
    yield from (f"ldr r2, {y}", "str r4, [r2], #4", "str r8, [r2], #4", f"str r2, {y}")
    yield from ("ldr r3, [sp, #16]", "cmp r2, r3", "bne 2b", "add sp, sp, #20", "pop {r4-r11, pc}")


def _four_terms(extend: str) -> Iterator[str]:
    """Adds the products of four terms and eight channels to the sums in r4-r11."""
    yield from ("ldr r2, [r0], #4", f"{extend} r3, r2, ror #8", f"{extend} r2, r2")
    for low in (4, 6, 8, 10):
        yield from ("ldrd r12, lr, [r1], #8", f"smlad r{low + 1}, r12, r2, r{low + 1}")
        yield from (f"smlad r{low + 1}, lr, r3, r{low + 1}", "sxtb16 r12, r12", "sxtb16 lr, lr")
        yield from (f"smlad r{low}, r12, r2, r{low}", f"smlad r{low}, lr, r3, r{low}")


def _row_in_c(of: str) -> str:
    made = "".join(
        f"        to[{c}] = (KIND_t)(uint8_t)(byte_of_sum((uint32_t)sums[{c}], scale[{c}]"
        f"{' * 256.0f' * (c % 2)}, (int16_t)zero) FLIP);\n"
        for c in range(8)
    )
    return f"""\
    const {of}_t *const end = x + 4 * loads;
    for (int block = 0; block < blocks; block++, w += 16 * loads, first += 8, scale += 8, to += 8) {{
        int32_t sums[8];
        mac_row16_{of}(x, end, w, first, sums);
        mac_row16_{of}(x, end, w + 8, first + 4, sums + 4);
{made}    }}
"""


# -- activations


MARK = 1 << 31
"""Where a word gathers bytes from above: what is shifted out of it when it has four."""


def _widen(sign: str) -> Iterator[str]:
    yield from ("push {r4-r11, lr}", "ldrd r9, r10, [sp, #36]", "and r8, r10, #3", "bic r11, r10, #3")
    yield from ("sub r9, r9, r11", "rsb r11, r8, #4", "lsl r11, r11, #3", "lsr r10, r10, #2")
    yield from ("cmp r8, #1", "bne 1f", f"mov r11, #{MARK}")
    yield from (*widened_rows(sign), "pop {r4-r11, pc}", *one_term_more(sign))


def widened_rows(sign: str, labels: int = 0) -> Iterator[str]:
    """r0, r1: the points; r2: where pairs go; r3: rows; r8: terms behind the last four; r9: how far it is to
    the next row; r10: fours of a row; r11: bits above the terms of the last four; r12: fours that are left.
    Where one term is left, r11 and lr gather those of the rows. Labels are those behind `labels`.
    """
    one, two, three, four, five, six, seven = range(labels + 1, labels + 8)
    yield from (f"{one}:", "lsrs r12, r10, #1", f"bcc {two}f")
    yield from _widened_four(sign)
    yield from ("cmp r12, #0", f"beq {three}f", f"{two}:")
    yield from _widened_four(sign)
    yield from _widened_four(sign)
    yield from ("subs r12, r12, #1", f"bne {two}b", f"{three}:", "cmp r8, #1", f"bcc {four}f")
    yield from (f"beq {five}f", "sub r12, r8, #4")
    yield from ("ldr r4, [r0, r12]", "ldr r5, [r1, r12]", "lsr r4, r4, r11", "lsr r5, r5, r11")
    yield from _halves(sign)
    yield from (f"{four}:", "add r0, r0, r9", "add r1, r1, r9", "subs r3, r3, #1", f"bne {one}b")
    yield from ("cmp r8, #1", f"bne {seven}f", f"cmp r11, #{MARK}", f"beq {seven}f", f"{six}:")
    yield from ("lsr lr, lr, #8", "lsrs r11, r11, #8", f"bcc {six}b", *_gathered(sign), f"{seven}:")


def one_term_more(sign: str, labels: int = 0) -> Iterator[str]:
    """What `widened_rows` does where one term is left; behind the routine."""
    yield from (f"{labels + 5}:", "ldrb r4, [r0]", "ldrb r5, [r1]", "lsr lr, lr, #8")
    yield from ("orr lr, lr, r5, lsl #24", "lsrs r11, r11, #8", "orr r11, r11, r4, lsl #24")
    yield from (f"bcc {labels + 4}b", *_gathered(sign), f"mov r11, #{MARK}", f"b {labels + 4}b")


def _gathered(sign: str) -> Iterator[str]:
    yield from ("mov r4, r11", "mov r5, lr")
    yield from _halves(sign)


def _widened_four(sign: str) -> Iterator[str]:
    yield from ("ldr r4, [r0], #4", "ldr r5, [r1], #4")
    yield from _halves(sign)


def _halves(sign: str) -> Iterator[str]:
    """Four terms of two points in r4 and r5, as pairs of both."""
    extend = "uxtb16" if sign == "u" else "sxtb16"
    yield from (f"{extend} r6, r4, ror #8", f"{extend} r7, r5, ror #8")
    yield from (f"{extend} r4, r4", f"{extend} r5, r5", "stm r2!, {r4-r7}")
