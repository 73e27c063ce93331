"""Functions in assembly for products of sixteen bytes at once (Helium), and for the copies that they read.

    bytes2(a0, a1, to, rows, step, terms, pitch)        bytes of two points side by side, made signed
    bytes1(a0, to, rows, step, terms)                   of one point
    long2(a, w, first, scale, y, step, blocks, ...)     bytes of two points and all channels, by fours
    long1(a, w, first, scale, y, blocks, ...)           bytes of one point and all channels, by eights

In: nothing. Out: the C of functions, by name; see `routines.py`. Products of sixteen bytes add to an even
register, of which eight are free: so many sums a tile has. Weights fill whole vectors with zeros, so that
what lies behind the last term of a copy is of no matter.

They round by vectors of floats, which the compiler is not given for loops of its own: such vectors take
denormals for 0, and no scaled sum of integers becomes another byte by that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ingot.targets.mve import HAS_MVE, KINDS, narrowed
from ingot.targets.routines import routine

SUMS = ("r0", "r2", "r4", "r6", "r8", "r10", "r12", "lr")
LONG = 16  # bytes of a vector


def long_routines() -> Mapping[str, str]:
    """The routines by name."""
    copies = {f"bytes{n}_{kind}": _copy(n, kind) for n in (1, 2) for kind in KINDS}
    return copies | {f"long{n}_{kind}": _products(n, kind) for n in (1, 2) for kind in KINDS}


# -- copies


def _copy(points: int, kind: str) -> str:
    second = f" const {kind}_t *a1," if points == 2 else ""
    pitch = ", int pitch" if points == 2 else ""
    flip = " ^ 128" if kind == "uint8" else ""
    stores = [f"to[term] = (int8_t)(a0[term]{flip});", f"to[pitch + term] = (int8_t)(a1[term]{flip});"]
    body = "".join(f"            {s}\n" for s in stores[:points])
    along = "a0 += step, a1 += step" if points == 2 else "a0 += step"
    plain = f"""\
    for (int row = 0; row < rows; row++, to += terms, {along})
        for (int term = 0; term < terms; term++) {{
{body}        }}
"""
    return routine(
        f"bytes{points}_{kind}",
        f"const {kind}_t *a0,{second} int8_t *to, int rows, int step, int terms{pitch}",
        tuple(_copy2(kind) if points == 2 else _copy1(kind)),
        plain,
        "Rows of bytes one behind the other, signed.",
        HAS_MVE,
    )


def _copy2(kind: str) -> Iterator[str]:
    """r0, r1: points; r2, r6: where they go; r3: rows; r4, r7: to the next row; r5: terms."""
    yield from ("push {r4-r7, lr}", "ldrd r4, r5, [sp, #20]", "ldr r6, [sp, #28]", "add r6, r2, r6")
    yield from ("add r7, r5, #15", "bic r7, r7, #15", "sub r4, r4, r7", "sub r7, r5, r7")
    if kind == "uint8":
        yield "vmov.i8 q2, #0x80"
    yield from ("1:", "dlstp.8 lr, r5", "2:", "vldrb.8 q0, [r0], #16", "vldrb.8 q1, [r1], #16")
    if kind == "uint8":
        yield from ("veor q0, q0, q2", "veor q1, q1, q2")
    yield from ("vstrb.8 q0, [r2], #16", "vstrb.8 q1, [r6], #16", "letp lr, 2b")
    yield from ("add r0, r0, r4", "add r1, r1, r4", "add r2, r2, r7", "add r6, r6, r7")
    yield from ("subs r3, r3, #1", "bne 1b", "pop {r4-r7, pc}")


def _copy1(kind: str) -> Iterator[str]:
    """r0: point; r1: where it goes; r2: rows; r3, r5: to the next row; r4: terms."""
    yield from ("push {r4, r5, r6, lr}", "ldr r4, [sp, #16]", "add r5, r4, #15", "bic r5, r5, #15")
    yield from ("sub r3, r3, r5", "sub r5, r4, r5")
    if kind == "uint8":
        yield "vmov.i8 q2, #0x80"
    yield from ("1:", "dlstp.8 lr, r4", "2:", "vldrb.8 q0, [r0], #16")
    if kind == "uint8":
        yield "veor q0, q0, q2"
    yield from ("vstrb.8 q0, [r1], #16", "letp lr, 2b", "add r0, r0, r3", "add r1, r1, r5")
    yield from ("subs r2, r2, #1", "bne 1b", "pop {r4, r5, r6, pc}")


# -- products


def _products(points: int, kind: str) -> str:
    step = " int step," if points == 2 else ""
    return routine(
        f"long{points}_{kind}",
        f"const int8_t *a, const int8_t *w, const int32_t *first, const float *scale, {kind}_t *to,"
        f"{step} int blocks, int terms, int zero",
        tuple(_long(points, kind)),
        _plain(points, kind),
        f"Products of {points} x {8 // points} points and channels, scaled, rounded and limited to bytes.",
        HAS_MVE,
    )


def _plain(points: int, kind: str) -> str:
    low, high = (0, 255) if kind == "uint8" else (-128, 127)
    size, apart = 8 // points, " + point * step" if points == 2 else ""
    loop, row = (
        ("    for (int point = 1; point >= 0; point--)\n", " + point * pitch") if points == 2 else ("", "")
    )
    return f"""\
    const int pitch = (terms + 15) / 16 * 16;
{loop}    for (int c = 0; c < {size} * blocks; c++) {{
        const int8_t *const row = a{row}, *const of = w + c / {size} * {size} * pitch + c % {size} * 16;
        int32_t sum = first[c];
        for (int term = 0; term < terms; term++) sum += row[term] * of[term / 16 * {size * LONG} + term % 16];
        const int y = (int)((float)sum * scale[c] + 12582912.0f - 12582912.0f) + zero;
        to[c{apart}] = ({kind}_t)(y < {low} ? {low} : y > {high} ? {high} : y);
    }}
"""


def _long(points: int, kind: str) -> Iterator[str]:
    """r1: weights, r3 and r9: activations, r5: first values, r7: scales, r11: turns of four vectors. On the
    stack: a, its second point, vectors but one, the end of y; registers; then y, (step,) blocks, terms, zero.
    """
    y, step = "[sp, #52]", "[sp, #56]"
    blocks, terms, zero = (f"[sp, #{52 + 4 * (points - 1) + 4 * i}]" for i in (1, 2, 3))
    yield from (".arch_extension mve.fp", "push {r4-r11, lr}", "sub sp, sp, #16", "mov r5, r2", "mov r7, r3")
    yield from (f"ldr r2, {terms}", "add r2, r2, #15", "bic r3, r2, #15", "add r3, r0, r3", "lsr r2, r2, #4")
    yield from ("sub r2, r2, #1", "strd r0, r3, [sp]", f"ldr r3, {y}", f"ldr r4, {blocks}")
    yield from (f"add r3, r3, r4, lsl #{4 - points}", "strd r2, r3, [sp, #8]")
    yield from ("1:", "ldr r11, [sp, #8]", "lsls lr, r11, #31")  # C: two vectors more than fours, N: one
    yield from ("add.w r11, r11, #3", "lsr.w r11, r11, #2", "ldr r3, [sp]")
    if points == 2:
        yield "ldr r9, [sp, #4]"
    yield from _vector(points, "vmladav")
    yield from ("bcs 3f", "bmi 6f", "cmp r11, #0", "beq 7f", "b 2f", "3:", "bmi 4f", "b 5f")
    for label in "2456":
        yield from (f"{label}:", *_vector(points, "vmladava"))
    yield from ("subs r11, r11, #1", "bne 2b", "7:", *_limited(kind, points, zero))
    yield f"ldr r3, {y}"
    if points == 2:
        yield from (f"ldr r0, {step}", "add r0, r0, r3", "vstrb.32 q1, [r0]", "vstrb.32 q0, [r3], #4")
    else:
        yield from ("vstrb.32 q0, [r3], #4", "vstrb.32 q1, [r3], #4")
    yield from (f"str r3, {y}", "ldr r0, [sp, #12]", "cmp r3, r0", "bne 1b", "add sp, sp, #16")
    yield "pop {r4-r11, pc}"


def _vector(points: int, how: str) -> Iterator[str]:
    """The products of sixteen terms: of each point with each channel of the block."""
    yield "vldrb.8 q0, [r3], #16"
    if points == 2:
        yield "vldrb.8 q1, [r9], #16"
    size = len(SUMS) // points
    for c in range(size):
        yield f"vldrb.8 q{2 + c % 2}, [r1], #16"
        yield from (f"{how}.s8 {SUMS[p * size + c]}, q{p}, q{2 + c % 2}" for p in range(points))


def _limited(kind: str, points: int, zero: str) -> Iterator[str]:
    """The sums as bytes, in every fourth byte of q0 and q1."""
    yield from ("vmov q0[2], q0[0], r0, r4", "vmov q0[3], q0[1], r2, r6")
    yield from ("vmov q1[2], q1[0], r8, r12", "vmov q1[3], q1[1], r10, lr", f"ldr r11, {zero}")
    yield "vldrw.32 q2, [r5], #16"
    yield from ("vadd.i32 q0, q0, q2", *(() if points == 2 else ("vldrw.32 q2, [r5], #16",)))
    yield from ("vadd.i32 q1, q1, q2", "vldrw.32 q2, [r7], #16", "vcvt.f32.s32 q0, q0", "vcvt.f32.s32 q1, q1")
    yield from ("vmul.f32 q0, q0, q2", *(() if points == 2 else ("vldrw.32 q2, [r7], #16",)))
    yield "vmul.f32 q1, q1, q2"
    yield from (*narrowed(kind, "q0", "r11"), *narrowed(kind, "q1", "r11"))
