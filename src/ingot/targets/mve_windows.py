"""Functions in assembly for depthwise windows of three by three bytes or fewer, by vectors of bytes (Helium).

    quads(x, to, rows, columns, down, along, channels)      four rows of up to sixteen channels, interleaved
    quad_windows(a, w, first, scale, y, rows, columns, ...) bytes of windows, one channel after the other

In: nothing. Out: the C of functions, by name; see `routines.py`. Four rows of each channel of a column are
interleaved, so that one vector, gathered, holds four by four elements of a channel. It times four vectors of
weights, the window shifted to each of its places, gives the results of two rows and two columns of windows
that move by one; of those that move by two it holds one. Sixteen zeros stand before the first weights.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ingot.targets.mve import HAS_MVE, paired
from ingot.targets.routines import KINDS, routine

QUAD = 4  # rows that are interleaved, and columns of a vector
LANES = 16  # channels of a block
REACH = 1 << 16
"""What lies between two results that are made together is less, in bytes."""


def quad_name(stride: int, kind: str) -> str:
    """The routine for windows that move so far both ways, and results of a type."""
    return f"quad_windows_{stride}_{kind}"


def quad_routines() -> Mapping[str, str]:
    """The routines by name."""
    made = {f"quads_{kind}": _interleaving(kind) for kind in KINDS}
    return made | {quad_name(stride, kind): _windows(stride, kind) for stride in (1, 2) for kind in KINDS}


# -- four rows interleaved


def _interleaving(kind: str) -> str:
    flip = " ^ 128" if kind == "uint8" else ""
    plain = f"""\
    for (int column = 0; column < columns; column++)
        for (int channel = 0; channel < channels; channel++)
            for (int row = 0; row < rows; row++)
                to[64 * column + 4 * channel + row] =
                    (int8_t)(x[row * down + column * along + channel]{flip});
"""
    return routine(
        f"quads_{kind}",
        f"const {kind}_t *x, int8_t *to, int rows, int columns, int down, int along, int channels",
        tuple(_quads(kind)),
        plain,
        "Up to four rows of up to sixteen channels: four signed bytes of each channel side by side.",
        HAS_MVE,
    )


def _quads(kind: str) -> Iterator[str]:
    """r0, r4, r5, r6: the rows, the last one again where there are fewer; r7: to the next column."""
    yield from ("push {r4-r7, lr}", "ldr r7, [sp, #20]")
    for label, row, before in ((1, 4, 0), (2, 5, 4), (3, 6, 5)):
        yield from (f"mov r{row}, r{before}", f"cmp r2, #{label + 1}", f"blt {label}f")
        yield from (f"add r{row}, r{row}, r7", f"{label}:")
    yield from ("ldr r7, [sp, #24]", "ldr r2, [sp, #28]", "vctp.8 r2", "mov r12, #128", "dls lr, r3", "4:")
    yield from ("vpstttt", *(f"vldrbt.u8 q{n}, [r{row}]" for n, row in enumerate((0, 4, 5, 6))))
    if kind == "uint8":
        yield from (f"vadd.i8 q{n}, q{n}, r12" for n in range(QUAD))
    yield from (f"add r{row}, r{row}, r7" for row in (0, 4, 5, 6))
    yield from (f"vst4{n}.8 {{q0, q1, q2, q3}}, [r1]{'!' if n == 3 else ''}" for n in range(QUAD))
    yield from ("le lr, 4b", "pop {r4-r7, pc}")


# -- windows


def _windows(stride: int, kind: str) -> str:
    low, high = (0, 255) if kind == "uint8" else (-128, 127)
    words = {"STRIDE": stride, "KIND": kind, "LOW": low, "HIGH": high}
    plain = _WINDOWS
    for word, value in words.items():
        plain = plain.replace(word, str(value))
    return routine(
        quad_name(stride, kind),
        f"const int8_t *a, const int8_t *w, const int32_t *first, const float *scale, {kind}_t *y, int rows,"
        " int columns, int channels, int down, int along, int apart, int zero",
        tuple(_by_one(kind) if stride == 1 else _by_two(kind)),
        plain,
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
                const float x = (float)sum * scale[c];
                const float near = x < -66000.0f ? -66000.0f : x > 66000.0f ? 66000.0f : x;
                const int made = (int)(near + 12582912.0f - 12582912.0f) + zero;
                const int limited = made < LOW ? LOW : made > HIGH ? HIGH : made;
                y[oh * down + ow * along + c * apart] = (KIND_t)limited;
            }
"""

SAVED = 168  # bytes of the stack below the arguments
STARTS, OFFSETS = 36, 52  # where in it four columns lie, and how far eight results are from the first
Y, ROWS, COLUMNS, CHANNELS, DOWN, ALONG, APART, ZERO = (f"[sp, #{SAVED + 4 * i}]" for i in range(8))
STATE = "r0, r1, r2, r3, r4, r6, r8"


def _by_one(kind: str) -> Iterator[str]:
    """Two rows by four columns at a time. Where there is one row, both are that one. q5-q7: the weights a
    column further, a row, and both; the zeros behind a channel's weights stand before the next one's.
    """
    yield from (*_start(), f"ldr r6, {DOWN}", "mul r4, r7, r6", "lsl r4, r4, #16", "lsl r11, r5, #2")
    yield from (*_offsets(), *_channel(), f"vldrw.u32 q3, [sp, #{STARTS}]", "vadd.i32 q3, q3, r0")
    yield from ("vldrb.8 q5, [r2, #-4]", "vldrb.8 q6, [r8], #16", "vldrb.8 q7, [r8, #-20]", *_next(), "2:")
    for sums in (("r0", "r2", "r4", "r6"), ("r8", "r10", "r12", "lr")):
        yield "vldrw.u32 q0, [q3, #128]!"
        yield from (f"vmladav.s8 {r}, q0, q{4 + i}" for i, r in enumerate(sums))
    yield from (*_four("q1", "r0 r2 r8 r10"), *_four("q2", "r4 r6 r12 lr"), *_limited(kind))
    yield from (f"vldrw.u32 q0, [sp, #{OFFSETS}]", "vctp.32 r1", "vpst", "vstrbt.16 q1, [r3, q0]")
    yield from ("add r3, r3, r11", "subs r1, r1, #4", "bgt 2b", *_end())


def _by_two(kind: str) -> Iterator[str]:
    """Eight columns of a row at a time."""
    yield from (*_start(), "lsl r4, r5, #16", "lsl r11, r5, #3", "lsl r5, r5, #1", *_offsets())
    yield from (f"vldrw.u32 q5, [sp, #{OFFSETS}]", f"vldrw.u32 q6, [sp, #{STARTS}]")
    yield from (*_channel(), "vadd.i32 q3, q6, r0", *_next(), "2:")
    for r in ("r0", "r2", "r4", "r6", "r8", "r10", "r12", "lr"):
        yield from ("vldrw.u32 q0, [q3, #128]!", f"vmladav.s8 {r}, q0, q4")
    yield from (*_four("q1", "r0 r4 r8 r12"), *_four("q2", "r2 r6 r10 lr"), *_limited(kind))
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


def _next() -> Iterator[str]:
    """r1: columns, r3: results, r5: first value, r7: scale; q4: weights. The stack has the next channel."""
    yield from ("vldrw.u32 q4, [r2], #16", "ldr r5, [r4], #4", "ldr r7, [r6], #4", "add r0, r0, #4")
    yield from ("add r3, r3, r10", f"stm sp, {{{STATE}}}", "sub r3, r3, r10")


def _four(q: str, sums: str) -> Iterator[str]:
    a, b, c, d = sums.split()
    yield from (f"vmov {q}[2], {q}[0], {a}, {c}", f"vmov {q}[3], {q}[1], {b}, {d}")


def _limited(kind: str) -> Iterator[str]:
    """The sums in q1 and q2 as bytes in q1, those of q2 behind those of q1."""
    for step in ("vadd.i32 {0}, {0}, r5", "vcvt.f32.s32 {0}, {0}", "vmul.f32 {0}, {0}, r7"):
        yield from (step.format(q) for q in ("q1", "q2"))
    yield from paired(kind, "q1", "q2", "r9")


def _end() -> Iterator[str]:
    yield from ("b 1b", "3:", f"add sp, sp, #{SAVED - 100}", "vpop {d8-d15}", "pop {r4-r11, pc}")
