"""Functions in assembly for depthwise windows of three by three bytes or fewer, by vectors of bytes (Helium).

    quads(x, to, above, rows, columns, ..., fill)           four rows of up to sixteen channels, interleaved
    next_quads(x, to, above, rows, columns, ..., fill)      the same of two rows, behind two of those before
    quad_windows(a, w, first, scale, y, rows, columns, ...) bytes of windows, one channel after the other

In: nothing. Out: the C of functions, by name; see `routines.py`. Four rows of each channel of a column are
interleaved, so that one vector, gathered, holds four by four elements of a channel. It times four vectors of
weights, the window shifted to each of its places, gives the results of two rows and two columns of windows
that move by one; of those that move by two it holds one. Sixteen zeros stand before the first weights.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product

from ingot.targets.mve import HAS_MVE, less_if_negative, packed, paired
from ingot.targets.routines import KINDS, SCALES, bytes_name, in_fixed_point, routine

QUAD = 4  # rows that are interleaved, and columns of a vector
LANES = 16  # channels of a block
REACH = 1 << 16
"""What lies between two results that are made together is less, in bytes."""


def quad_name(stride: int, kind: str, is_fixed: bool = False, plain: bool = False) -> str:
    """The routine for windows that move so far both ways, and results of a type; `is_fixed`: that are scaled
    in fixed point. Then there is one for bytes whose zero point is the smallest of their type, if `plain`.
    """
    return bytes_name(f"quad_windows_{stride}", kind, is_fixed and plain, is_fixed)


def quads_name(kind: str, is_next: bool = False) -> str:
    """The routine that interleaves rows of a type; `is_next`: behind the last two of those before."""
    return f"{'next_' * is_next}quads_{kind}"


def quad_routines() -> Mapping[str, str]:
    """The routines by name."""
    made = {quads_name(*how): _interleaving(*how) for how in product(KINDS, (False, True))}
    scaled = ((False, False), (True, False), (True, True))
    every = ((stride, kind, *how) for stride in (1, 2) for kind in KINDS for how in scaled)
    return made | {quad_name(*how): _windows(*how) for how in every}


# -- four rows interleaved


def _interleaving(kind: str, is_next: bool) -> str:
    new = QUAD // 2 if is_next else QUAD
    flip = " ^ 128" if kind == "uint8" else ""
    kept = """\
            quad[0] = quad[2];
            quad[1] = quad[3];
"""
    plain = f"""\
    for (int column = 0; column < columns; column++)
        for (int channel = 0; channel < channels; channel++) {{
            int8_t *const quad = to + 64 * column + 4 * channel;
{kept * is_next}\
            for (int row = 0; row < {new}; row++) {{
                const int at = row - above;
                const int found = at < 0 || at >= rows ? fill : x[at * down + column * along + channel];
                quad[{QUAD - new} + row] = (int8_t)(found{flip});
            }}
        }}
"""
    return routine(
        quads_name(kind, is_next),
        f"const {kind}_t *x, int8_t *to, int above, int rows, int columns, int down, int along, int channels,"
        " int fill",
        tuple(_quads(kind, range(QUAD - new, QUAD))),
        plain,
        "Some rows of up to sixteen channels, and what is filled: four signed bytes of each channel.",
        HAS_MVE,
    )


def _quads(kind: str, new: range) -> Iterator[str]:
    """r4-r7: the rows, r8-r11: to the next column of each, q4-q7: bytes of a column, those that are kept from
    q2 on with two in front. On the stack: sixteen times `fill`, which stands for rows that are not in memory;
    registers; then columns, down, along, channels, fill.
    """
    yield from ("push {r4-r11, lr}", "vpush {d8-d15}", "sub sp, sp, #16", "ldr r12, [sp, #132]")
    yield from ("vdup.8 q0, r12", "vstrw.32 q0, [sp]", "ldr lr, [sp, #120]")
    for n, row in enumerate(new):
        yield from (f"mov r{4 + row}, sp", f"mov r{8 + row}, #0", f"rsb r12, r2, #{n}", "cmp r12, r3")
        yield from ("itt lo", f"mlalo r{4 + row}, r12, lr, r0", f"ldrlo r{8 + row}, [sp, #124]")
    yield from ("ldr r2, [sp, #128]", "vctp.8 r2", "mov r12, #128", "ldr r3, [sp, #116]", "dls lr, r3", "4:")
    if new.start:
        yield from (f"vld4{n}.8 {{q2, q3, q4, q5}}, [r1]" for n in range(QUAD))
    yield from (f"vpst{'t' * (len(new) - 1)}", *(f"vldrbt.u8 q{4 + n}, [r{4 + n}]" for n in new))
    if kind == "uint8":
        yield from (f"vadd.i8 q{4 + n}, q{4 + n}, r12" for n in new)
    yield from (f"add r{4 + n}, r{4 + n}, r{8 + n}" for n in new)
    yield from (f"vst4{n}.8 {{q4, q5, q6, q7}}, [r1]{'!' if n == 3 else ''}" for n in range(QUAD))
    yield from ("le lr, 4b", "add sp, sp, #16", "vpop {d8-d15}", "pop {r4-r11, pc}")


# -- windows


def _windows(stride: int, kind: str, is_fixed: bool, plain: bool) -> str:
    low, high = (0, 255) if kind == "uint8" else (-128, 127)
    words = {"STRIDE": stride, "KIND": kind, "LOW": low, "HIGH": high}
    scaled = _SCALED
    if is_fixed:
        scaled = in_fixed_point("sum", "scale[2 * c]", "scale[2 * c + 1]", "made", "zero", 16)
    text = _WINDOWS.replace("SCALED", scaled)
    for word, value in words.items():
        text = text.replace(word, str(value))
    return routine(
        quad_name(stride, kind, is_fixed, plain),
        f"const int8_t *a, const int8_t *w, const int32_t *first, const {SCALES[is_fixed]} *scale,"
        f" {kind}_t *y, int rows, int columns, int channels, int down, int along, int apart, int zero",
        tuple((_by_one if stride == 1 else _by_two)(_Scaled(kind, is_fixed, plain))),
        text,
        f"Windows that move by {stride}, of interleaved rows, as bytes; w: columns of four weights.",
        HAS_MVE,
    )


_WINDOWS = """\
    for (int c = 0; c < channels; c++)
        for (int oh = 0; oh < rows; oh++)
            for (int ow = 0; ow < columns; ow++) {
                const int8_t *const at = a + (STRIDE * ow) * 64 + 4 * c + STRIDE * oh;
                int sum = first[c];
                for (int k = 0; k < 3; k++)
                    for (int l = 0; l < 3; l++) sum += at[64 * l + k] * w[16 * c + 4 * l + k];
SCALED\
                const int limited = made < LOW ? LOW : made > HIGH ? HIGH : made;
                y[oh * down + ow * along + c * apart] = (KIND_t)limited;
            }
"""

_SCALED = """\
                const float x = (float)sum * scale[c];
                const float near = x < -66000.0f ? -66000.0f : x > 66000.0f ? 66000.0f : x;
                const int made = (int)(near + 12582912.0f - 12582912.0f) + zero;
"""

SAVED = 184  # bytes of the stack below the arguments
STARTS, OFFSETS, SHIFTS = 36, 52, 68
"""Where in it are the places of four columns, how far eight results are from the first, a channel's shift."""
Y, ROWS, COLUMNS, CHANNELS, DOWN, ALONG, APART, ZERO = (f"[sp, #{SAVED + 4 * i}]" for i in range(8))
STATE = "r0, r1, r2, r3, r4, r6, r8"


@dataclass(frozen=True, slots=True)
class _Scaled:
    """How a routine makes bytes of sums."""

    kind: str
    is_fixed: bool
    plain: bool

    def limited(self, shift: str) -> Iterator[str]:
        """The sums in q1 and q2 as bytes in q1, those of q2 behind those of q1; `shift` holds the shift, but
        for q0, which is free. If results are not moved, what is negative becomes 0 however it is rounded.
        """
        both = ("q1", "q2")
        yield from (f"vadd.i32 {q}, {q}, r5" for q in both)
        if not self.is_fixed:
            yield from (f"vcvt.f32.s32 {q}, {q}" for q in both)
            yield from (f"vmul.f32 {q}, {q}, r7" for q in both)
            yield from paired(self.kind, *both, "r9")
            return
        yield from (f"vqrdmulh.s32 {q}, {q}, r7" for q in both)
        if not self.plain:
            yield from less_if_negative("q0", *both)
        if shift == "q0":
            yield f"vldrw.u32 q0, [sp, #{SHIFTS}]"
        yield from (*(f"vrshl.s32 {q}, {q}, {shift}" for q in both), *packed(self.kind, *both, "r9"))

    def shift(self, to: str) -> Iterator[str]:
        """A channel's, which stands behind its multiplier; in memory if `to` is q0."""
        if self.is_fixed:
            yield from ("ldr r12, [r6], #4", "rsb r12, r12, #0", f"vdup.32 {to}, r12")
            if to == "q0":
                yield f"vstrw.32 q0, [sp, #{SHIFTS}]"


def _by_one(how: _Scaled) -> Iterator[str]:
    """Two rows by four columns at a time. Where there is one row, both are that one. q5-q7: the weights a
    column further, a row, and both; the zeros behind a channel's weights stand before the next one's.
    """
    yield from (*_start(), f"ldr r6, {DOWN}", "mul r4, r7, r6", "lsl r4, r4, #16", "lsl r11, r5, #2")
    yield from (*_offsets(), *_channel(), f"vldrw.u32 q3, [sp, #{STARTS}]", "vadd.i32 q3, q3, r0")
    yield from ("vldrb.8 q5, [r2, #-4]", "vldrb.8 q6, [r8], #16", "vldrb.8 q7, [r8, #-20]")
    yield from (*_next(how, "q0"), "2:")
    for sums in (("r0", "r2", "r4", "r6"), ("r8", "r10", "r12", "lr")):
        yield "vldrw.u32 q0, [q3, #128]!"
        yield from (f"vmladav.s8 {r}, q0, q{4 + i}" for i, r in enumerate(sums))
    yield from (*_four("q1", "r0 r2 r8 r10"), *_four("q2", "r4 r6 r12 lr"), *how.limited("q0"))
    yield from (f"vldrw.u32 q0, [sp, #{OFFSETS}]", "vctp.32 r1", "vpst", "vstrbt.16 q1, [r3, q0]")
    yield from ("add r3, r3, r11", "subs r1, r1, #4", "bgt 2b", *_end())


def _by_two(how: _Scaled) -> Iterator[str]:
    """Eight columns of a row at a time."""
    yield from (*_start(), "lsl r4, r5, #16", "lsl r11, r5, #3", "lsl r5, r5, #1", *_offsets())
    yield from (f"vldrw.u32 q5, [sp, #{OFFSETS}]", f"vldrw.u32 q6, [sp, #{STARTS}]")
    yield from (*_channel(), "vadd.i32 q3, q6, r0", *_next(how, "q7"), "2:")
    for r in ("r0", "r2", "r4", "r6", "r8", "r10", "r12", "lr"):
        yield from ("vldrw.u32 q0, [q3, #128]!", f"vmladav.s8 {r}, q0, q4")
    yield from (*_four("q1", "r0 r4 r8 r12"), *_four("q2", "r2 r6 r10 lr"), *how.limited("q7"))
    yield from ("vctp.16 r1", "vpst", "vstrbt.16 q1, [r3, q5]", "add r3, r3, r11")
    yield from ("subs r1, r1, #8", "bgt 2b", *_end())


def _start() -> Iterator[str]:
    """On the stack: `a` before its first vector, columns, w, y, first, scale, w for the last row, apart, the
    end of `a`, four columns, offsets; registers; then y, rows, columns, channels, down, along, apart, zero.
    r5: along, r7: rows but one, r9: zero.
    """
    yield from (
        ".arch_extension mve.fp",
        "push {r4-r11, lr}",
        "vpush {d8-d15}",
        f"sub sp, sp, #{SAVED - 100}",
    )
    yield from ("sub r0, r0, #128", "mov r6, r3", "mov r4, r2", "mov r2, r1", f"ldr r3, {Y}")
    yield from (f"ldrd r7, r1, {ROWS}", "sub r7, r7, #1", "sub r8, r2, r7", f"ldr r10, {APART}")
    yield from (f"ldr r12, {CHANNELS}", "add r12, r0, r12, lsl #2", f"stm sp, {{{STATE}, r10, r12}}")
    yield from ("mov r0, #0", "vidup.u32 q3, r0, #8", "vshl.i32 q3, q3, #3", f"vstrw.32 q3, [sp, #{STARTS}]")
    yield from (f"ldr r5, {ALONG}", f"ldr r9, {ZERO}")


def _offsets() -> Iterator[str]:
    """The offsets of results: two in r4, and again, each time r5 further."""
    yield from ("orr r5, r5, r5, lsl #16", "add r6, r4, r5", "add r7, r6, r5", "add r8, r7, r5")
    yield from (f"strd r4, r6, [sp, #{OFFSETS}]", f"strd r7, r8, [sp, #{OFFSETS + 8}]")


def _channel() -> Iterator[str]:
    """What a channel begins with, unless there is none: the first words of the stack."""
    yield from ("1:", f"ldm sp, {{{STATE}, r10, r12}}", "cmp r0, r12", "beq 3f")


def _next(how: _Scaled, shift: str) -> Iterator[str]:
    """r1: columns, r3: results, r5: first value, r7: scale; q4: weights. The stack has the next channel."""
    yield from ("vldrw.u32 q4, [r2], #16", "ldr r5, [r4], #4", "ldr r7, [r6], #4", *how.shift(shift))
    yield "add r0, r0, #4"
    yield from ("add r3, r3, r10", f"stm sp, {{{STATE}}}", "sub r3, r3, r10")


def _four(q: str, sums: str) -> Iterator[str]:
    a, b, c, d = sums.split()
    yield from (f"vmov {q}[2], {q}[0], {a}, {c}", f"vmov {q}[3], {q}[1], {b}, {d}")


def _end() -> Iterator[str]:
    yield from ("b 1b", "3:", f"add sp, sp, #{SAVED - 100}", "vpop {d8-d15}", "pop {r4-r11, pc}")
