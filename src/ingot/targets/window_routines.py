"""Functions in assembly for depthwise windows of three by three bytes or fewer, one channel after the other.

    plane(x, plane, rows, columns, down, along, pitch)      one channel as 16 bits, in rows of their own
    window(plane, w, first, scale, y, rows, columns, ...)   its results as bytes

In: nothing. Out: the C of functions, by name; see `routines.py`. In a plane neighbours of one channel are
neighbours in memory, so that one instruction multiplies two of them. Results are made two by two, from the
right to the left. Where a row has an odd number of them the last of two is made of anything, and goes where
the other is written behind it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product

from ingot.targets.routines import KINDS, SCALES, bytes_name, fixed, in_fixed_point, routine

PITCHES = (16, 64)  # elements of a row of a plane
STRIDES = (1, 2)
TAPS = 3  # of a window, along and down
PADDED = 4  # weights of a row, the last one 0


def window_name(
    strides: tuple[int, int], pitch: int, kind: str, plain: bool = False, is_fixed: bool = False
) -> str:
    """The routine for windows that move so far down and along, and results of a type; `plain`: with the
    smallest zero point of their type; `is_fixed`: scaled in fixed point.
    """
    return bytes_name(f"window_{strides[0]}_{strides[1]}_{pitch}", kind, plain, is_fixed)


def window_routines() -> Mapping[str, str]:
    """The routines by name."""
    planes = {
        f"plane_{kind}": routine(
            f"plane_{kind}",
            f"const {kind}_t *x, int16_t *plane, int rows, int columns, int down, int along, int pitch",
            _plane("ldrb" if kind == "uint8" else "ldrsb"),
            _PLANE.replace("KIND", kind),
            "Every so many bytes of rows as int16.",
        )
        for kind in ("uint8", "int8")
    }
    made = product(product(STRIDES, STRIDES), PITCHES, KINDS, (False, True), (False, True))
    return planes | {window_name(*how): _window(*how) for how in made}


# -- one channel as 16 bits


def _plane(load: str) -> Iterator[str]:
    """r0: bytes, r1: plane, r2: rows, r3: columns; r4-r7: loaded; r8: far along; r9, r10: from the end of a
    row to the next, of bytes and of the plane; r11: twice as far along, r12: three times; lr: eights left,
    the first of which is half done where fours are odd.
    """
    yield from ("push {r4-r11, lr}", "ldrd r4, r8, [sp, #36]", "ldr r5, [sp, #44]", "mls r9, r3, r8, r4")
    yield from ("sub r10, r5, r3", "lsl r10, r10, #1", "lsl r11, r8, #1", "add r12, r8, r11")
    yield from ("1:", "add lr, r3, #4", "lsrs lr, lr, #3", "beq 4f", "lsls r4, r3, #30", "bcs 3f")
    yield from ("2:", *_four_of_plane(load), "3:", *_four_of_plane(load), "subs lr, lr, #1", "bne 2b")
    yield from ("4:", "lsls lr, r3, #31", "bcc 5f", f"{load} r4, [r0]", f"{load} r5, [r0, r8]")  # N: one more
    yield from ("pkhbt r4, r4, r5, lsl #16", "str r4, [r1], #4", "add r0, r0, r11", "5:", "bpl 6f")
    yield from (f"{load} r4, [r0]", "strh r4, [r1], #2", "add r0, r0, r8", "6:")
    yield from ("add r0, r0, r9", "add r1, r1, r10", "subs r2, r2, #1", "bne 1b", "pop {r4-r11, pc}")


def _four_of_plane(load: str) -> Iterator[str]:
    yield from (f"{load} r4, [r0]", f"{load} r5, [r0, r8]", f"{load} r6, [r0, r11]", f"{load} r7, [r0, r12]")
    yield from ("pkhbt r4, r4, r5, lsl #16", "pkhbt r5, r6, r7, lsl #16", "strd r4, r5, [r1], #8")
    yield "add r0, r0, r8, lsl #2"


_PLANE = """\
    for (; rows > 0; rows--, x += down, plane += pitch) {
        const KIND_t *from = x;
        int column = 0;
        for (; column + 3 < columns; column += 4, from += 4 * along) {
            plane[column] = from[0];
            plane[column + 1] = from[along];
            plane[column + 2] = from[2 * along];
            plane[column + 3] = from[3 * along];
        }
        for (; column < columns; column++, from += along) plane[column] = *from;
    }
"""


# -- windows


def _window(strides: tuple[int, int], pitch: int, kind: str, is_plain: bool, is_fixed: bool) -> str:
    name = window_name(strides, pitch, kind, is_plain, is_fixed)
    return routine(
        name,
        f"const int16_t *plane, const int8_t *w, const int32_t *first, const {SCALES[is_fixed]} *scale,"
        f" {kind}_t *y, int rows, int columns, int down, int along, int zero",
        tuple(_assembly(strides, pitch, kind, is_plain, is_fixed)),
        "".join(_plain(strides, pitch, kind, is_fixed)),
        "Windows of a plane multiplied by three rows of four weights, the last one 0, as bytes.",
    )


def _plain(strides: tuple[int, int], pitch: int, kind: str, is_fixed: bool) -> Iterator[str]:
    """The routine in plain C: two results of a row at a time."""
    for row in range(TAPS):
        for n in range(2):
            yield f"    const uint32_t w{row}{n} = halves16(w[{4 * row + n}], w[{4 * row + n + 1}]);\n"
    yield "    const uint32_t start = (uint32_t)*first;\n"
    yield "" if is_fixed else "    const float factor = *scale;\n"
    yield f"    for (; rows > 0; rows--, plane += {strides[0] * pitch}, y += down) {{\n"
    yield f"        const int16_t *t = plane;\n        {kind}_t *to = y;\n"
    step = f"left -= 2, t += {2 * strides[1]}, to += 2 * along"
    yield f"        for (int left = columns; left > 0; {step}) {{\n"
    yield "            uint32_t a = start, b = start;\n"
    for row in range(TAPS):
        yield from _plain_row(strides[1], row, row * pitch)
    for value, where in (("b", "if (left > 1) to[along]"), ("a", "*to")):
        made = f"byte_of_sum({value}, factor, zero - ({0 if kind == 'uint8' else -128}))"
        if is_fixed:
            yield from (
                "            {\n",
                in_fixed_point(f"(int32_t){value}", "scale[0]", "scale[1]", "made", "zero", 16),
            )
            made = f"limit_byte(made, {0 if kind == 'uint8' else -128})"
        byte = made if kind == "uint8" else f"((int){made} - 128)"
        yield f"            {'    ' if is_fixed else ''}{where} = ({kind}_t){byte};\n"
        yield "            }\n" if is_fixed else ""
    yield "        }\n    }\n"


def _plain_row(along: int, row: int, at: int) -> Iterator[str]:
    """What a row of the plane adds to both results."""
    indent, w01, w12 = " " * 12, f"w{row}0", f"w{row}1"
    yield f"{indent}const uint32_t p{row} = pair16(t + {at}), q{row} = pair16(t + {at + 2});\n"
    yield f"{indent}a = low_high16(q{row}, {w12}, dual_mac16(p{row}, {w01}, a));\n"
    if along == 1:
        yield f"{indent}b = dual_mac16(q{row}, {w12}, low_high16({w01}, p{row}, b));\n"
    else:
        yield f"{indent}b = low_high16(pair16(t + {at + 4}), {w12}, dual_mac16(q{row}, {w01}, b));\n"


def _assembly(
    strides: tuple[int, int], pitch: int, kind: str, is_plain: bool, is_fixed: bool
) -> Iterator[str]:
    """Two rows of results at a time, then the one that is left, if there is one."""
    yield from _start(strides, is_fixed)
    yield from ("2:", "ldr r2, [sp, #12]", "subs r2, r2, #2", "str r2, [sp, #12]", "bmi 3f")
    yield from (*_row_start(), "1:", *_tile(strides, pitch, 2), *_limited(kind, is_plain, is_fixed, 2))
    yield from (*_next_tile(strides), "bne 1b", *_next_rows(strides, pitch), "b 2b")
    yield from ("3:", "adds r2, r2, #1", "bne 5f", *_row_start(), "4:", *_tile(strides, pitch, 1))
    yield from (*_limited(kind, is_plain, is_fixed, 1), *_next_tile(strides), "bne 4b")
    yield from ("5:", "add sp, sp, #32", "pop {r4-r11, pc}")


def _start(strides: tuple[int, int], is_fixed: bool) -> Iterator[str]:
    """r3-r8: weights 01 and 12 of three rows. s0: scale, s1: zero point, s2, s3: first value, s8: how far
    right the second result goes, where there is one; in fixed point s0: multiplier, s9: shift, s10: half of
    what it divides by. On the stack: plane and results of the last tile of the
    rows, how far right at first, rows, from tile to tile, where planes end, how far right, how far down; then
    registers; then y, rows, columns, down, along, zero.
    """
    yield from ("push {r4-r11, lr}", "sub sp, sp, #32", "vldr s0, [r3]", "vldr s2, [r2]", "vldr s3, [r2]")
    if is_fixed:
        yield from ("ldr r2, [r3, #4]", "movs r12, #1", "lsl r12, r12, r2", "lsr r12, r12, #1")
        yield from ("vmov s9, r2", "vmov s10, r12")
    yield "ldm r1, {r9, r10, r11}"
    for row in range(TAPS):
        yield from (f"sxtb16 r2, r{9 + row}", f"sxtb16 lr, r{9 + row}, ror #8")
        yield from (f"pkhbt r{3 + 2 * row}, r2, lr, lsl #16", f"pkhtb r{4 + 2 * row}, r2, lr")
    yield from ("ldr r9, [sp, #76]", "ldr r10, [sp, #84]", "sub r11, r9, #1", "lsr r11, r11, #1")
    yield from ("mul r12, r11, r10", "ldr r2, [sp, #68]", "add r2, r2, r12, lsl #1", "str r2, [sp, #4]")
    yield from (f"add r12, r0, r11, lsl #{1 + strides[1]}", "str r12, [sp]", f"sub r2, r0, #{4 * strides[1]}")
    yield from ("lsl r12, r10, #1", "strd r12, r2, [sp, #16]", "mvn r2, r9", "and r2, r2, #1")
    yield from ("mul r2, r2, r10", "ldr r9, [sp, #72]", "strd r2, r9, [sp, #8]", "vmov s8, r10")
    yield from ("ldr r2, [sp, #88]", "vmov s1, r2", "ldr r2, [sp, #80]", "str r2, [sp, #28]")


def _row_start() -> Iterator[str]:
    yield from ("ldrd r0, r1, [sp]", "ldr r2, [sp, #8]", "str r2, [sp, #24]")


def _tile(strides: tuple[int, int], pitch: int, rows: int) -> Iterator[str]:
    """Two results of one or two rows: sums in r9-r12."""
    yield from (f"vmov r{9 + 2 * n}, r{10 + 2 * n}, s2, s3" for n in range(rows))
    for row in range(strides[0] * (rows - 1) + TAPS):
        mine = [(n, row - strides[0] * n) for n in range(rows) if 0 <= row - strides[0] * n < TAPS]
        yield from _row(strides, mine, 2 * pitch * row)


def _row(strides: tuple[int, int], mine: list[tuple[int, int]], at: int) -> Iterator[str]:
    """The products of a row of the plane, for rows of results and of weights; of every other column the
    second results begin two behind.
    """
    yield f"ldrd r2, lr, [r0, #{at}]"
    for n, k in mine:
        a, b, w01, w12 = f"r{9 + 2 * n}", f"r{10 + 2 * n}", f"r{3 + 2 * k}", f"r{4 + 2 * k}"
        yield from (f"smlad {a}, r2, {w01}, {a}", f"smlabt {a}, lr, {w12}, {a}")
        if strides[1] == 1:
            yield from (f"smlatb {b}, r2, {w01}, {b}", f"smlad {b}, lr, {w12}, {b}")
        else:
            yield f"smlad {b}, lr, {w01}, {b}"
    if strides[1] != 1:
        yield f"ldr r2, [r0, #{at + 8}]"
        yield from (f"smlabt r{10 + 2 * n}, r2, r{4 + 2 * k}, r{10 + 2 * n}" for n, k in mine)


def _scaled_fixed(rows: int) -> Iterator[str]:
    """The sums in r9-r12 scaled and rounded."""
    yield "vmov r2, s0"
    for n in range(9, 9 + 2 * rows):
        yield from ("vmov lr, s10", f"lsl r{n}, r{n}, #1", *fixed(f"r{n}", "r2", "lr", "lr"))
    yield from ("vmov r2, s9", *(f"asr r{n}, r{n}, r2" for n in range(9, 9 + 2 * rows)))


def _scaled_floats(rows: int) -> Iterator[str]:
    pairs = [(f"s{4 + 2 * n}, s{5 + 2 * n}", f"r{9 + 2 * n}, r{10 + 2 * n}") for n in range(rows)]
    yield from (f"vmov {s}, {r}" for s, r in pairs)
    for how in ("vcvt.f32.s32 {0}, {0}", "vmul.f32 {0}, {0}, s0", "vcvtr.s32.f32 {0}, {0}"):
        yield from (how.format(f"s{n}") for n in range(4, 4 + 2 * rows))
    yield from (f"vmov {r}, {s}" for s, r in pairs)


def _limited(kind: str, is_plain: bool, is_fixed: bool, rows: int) -> Iterator[str]:
    """The sums as bytes, where they belong."""
    yield from _scaled_fixed(rows) if is_fixed else _scaled_floats(rows)
    made = range(9, 9 + 2 * rows)
    if not is_plain:
        yield from ("vmov r2, s1", *(f"add r{n}, r{n}, r2" for n in made))
    yield from (f"{'usat' if kind == 'uint8' or is_plain else 'ssat'} r{n}, #8, r{n}" for n in made)
    if is_plain and kind == "int8":
        yield from (f"eor r{n}, r{n}, #0x80" for n in made)
    yield "ldrd r2, lr, [sp, #24]"
    if rows == 2:
        yield from ("add lr, lr, r1", "strb r12, [lr, r2]", "strb r11, [lr]")
    yield from ("strb r10, [r1, r2]", "strb r9, [r1]")


def _next_tile(strides: tuple[int, int]) -> Iterator[str]:
    """To the tile on the left, if there is one."""
    yield from ("vstr s8, [sp, #24]", "ldrd r2, lr, [sp, #16]", "sub r1, r1, r2")
    yield from (f"sub r0, r0, #{4 * strides[1]}", "cmp r0, lr")


def _next_rows(strides: tuple[int, int], pitch: int) -> Iterator[str]:
    apart = 4 * strides[0] * pitch
    yield from ("ldr r0, [sp]", f"add r0, r0, #{apart}", "str r0, [sp]")
    yield from (f"add lr, lr, #{apart}", "str lr, [sp, #20]", "ldr r1, [sp, #4]", "ldr r2, [sp, #28]")
    yield from ("add r1, r1, r2, lsl #1", "str r1, [sp, #4]")
