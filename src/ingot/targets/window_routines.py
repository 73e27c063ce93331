"""Functions in assembly for depthwise windows of three by three bytes or fewer, one channel after the other.

    plane(x, plane, rows, columns, down, along)             one channel as 16 bits, in rows of their own
    planes4(x, plane, rows, columns, down, along)           four channels that lie side by side, of short rows
    window(plane, w, first, scale, y, rows, columns, ...)   results of one channel as bytes

In: nothing. Out: the C of functions, by name; see `routines.py`. In a plane neighbours of one channel are
neighbours in memory, so that one instruction multiplies two of them. Results are made two by two, from the
right to the left. Where a row has an odd number of them the last of two is made of anything, and goes where
the other is written behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import product

from ingot.targets.plain_pairs import PLAIN_PAIRS
from ingot.targets.routines import KINDS, bytes_name, routine

PITCH = 64  # elements of a row of a plane
NARROW = 26  # of a plane that takes little memory
LANES, LANE = 4, 16  # channels whose rows share one, and elements of each
STRIDES = (1, 2)
MOST_SHIFTED = 23
"""Bits by which plain routines shift at most: before, they add a byte as far to the left."""
TAPS = 3  # of a window, along and down
PADDED = 4  # weights of a row, the last one 0


def window_name(
    strides: tuple[int, int], kind: str, is_fixed: bool = False, pitch: int = PITCH, plain: bool = False
) -> str:
    """The routine for windows that move so far down and along, and results of a type; `is_fixed`: scaled in
    fixed point. Then there is one for bytes whose zero point is the smallest of their type, if `plain`.
    """
    name = bytes_name(f"window_{strides[0]}_{strides[1]}", kind, is_fixed and plain, is_fixed)
    return of_pitch(name, pitch)


def of_pitch(name: str, pitch: int) -> str:
    """The routine for planes whose rows are so far apart: those of windows that move by one may be narrow."""
    return name if pitch == PITCH else f"{name}_narrow"


def window_routines() -> Mapping[str, str]:
    """The routines by name."""
    planes = {
        of_pitch(f"{name}_{kind}", pitch): routine(
            of_pitch(f"{name}_{kind}", pitch),
            f"const {kind}_t *x, int16_t *plane, int rows, int columns, int down, int along",
            assembly(kind, pitch),
            plain.replace("KIND", kind).replace("PITCH", str(pitch)),
            what,
        )
        for name, assembly, plain, what, pitches in (
            ("plane", _plane, _PLANE, "Every so many bytes of rows as int16.", (PITCH, NARROW)),
            ("planes4", _planes4, _PLANES4, "Four bytes of every so many in rows as int16, apart.", (PITCH,)),
        )
        for kind, pitch in product(("uint8", "int8"), pitches)
    }
    pitches = (*product(product(STRIDES, STRIDES), (PITCH,)), ((1, 1), NARROW))
    scaled = ((False, False), (True, False), (True, True))
    every = product(pitches, KINDS, scaled)
    ways = [(strides, kind, fixed, pitch, plain) for (strides, pitch), kind, (fixed, plain) in every]
    return planes | {window_name(*how): _window(*how) for how in ways}


def fixed_windows() -> Mapping[str, str]:
    """Those of windows scaled in fixed point, for cores without floats, and what their C is made of, which is
    the same for all zero points.
    """
    texts = {n: text for n, text in window_routines().items() if "plain" not in n}
    return {**PLAIN_PAIRS, **{n: text for n, text in texts.items() if n.startswith(("fixed_", "plane"))}}


# -- one channel as 16 bits


def _plane(kind: str, pitch: int) -> Iterator[str]:
    """r0: bytes, r1: plane, r2: rows, r3: columns; r4-r7: loaded; r8: far along; r9, r10: from the end of a
    row to the next, of bytes and of the plane; r11: twice as far along, r12: three times; lr: eights left,
    the first of which is half done where fours are odd. A row that begins within a word has a first element
    apart.
    """
    load = "ldrb" if kind == "uint8" else "ldrsb"
    yield from ("push {r4-r11, lr}", "ldrd r4, r8, [sp, #36]", "mls r9, r3, r8, r4")
    yield from (f"rsb r10, r3, #{pitch}", "lsl r10, r10, #1", "lsl r11, r8, #1", "add r12, r8, r11")
    yield from ("ubfx lr, r1, #1, #1", "sub r3, r3, lr", "1:", "lsls lr, r1, #31", "bcc 7f")
    yield from (f"{load} r4, [r0]", "strh r4, [r1], #2", "add r0, r0, r8", "7:")
    yield from ("add lr, r3, #4", "lsrs lr, lr, #3", "beq 4f", "lsls r4, r3, #30", "bcs 3f")
    yield from ("2:", *_four_of_plane(load), "3:", *_four_of_plane(load), "subs lr, lr, #1", "bne 2b")
    yield from ("4:", "lsls lr, r3, #31", "bcc 5f", f"{load} r4, [r0]", f"{load} r5, [r0, r8]")  # N: one more
    yield from ("pkhbt r4, r4, r5, lsl #16", "str r4, [r1], #4", "add r0, r0, r11", "5:", "bpl 6f")
    yield from (f"{load} r4, [r0]", "strh r4, [r1], #2", "add r0, r0, r8", "6:")
    yield from ("add r0, r0, r9", "add r1, r1, r10", "subs r2, r2, #1", "bne 1b", "pop {r4-r11, pc}")


def _four_of_plane(load: str) -> Iterator[str]:
    yield from (f"{load} r4, [r0]", f"{load} r5, [r0, r8]", f"{load} r6, [r0, r11]", f"{load} r7, [r0, r12]")
    yield from ("pkhbt r4, r4, r5, lsl #16", "pkhbt r5, r6, r7, lsl #16", "strd r4, r5, [r1], #8")
    yield "add r0, r0, r8, lsl #2"


def _planes4(kind: str, pitch: int) -> Iterator[str]:
    """r0: bytes, r1: plane, r3: columns, r8: far along, r11: three times as far; on the stack: rows, from the
    end of a row to the next of bytes and of the plane; registers; then far down.
    """
    yield from (
        "push {r4-r11, lr}",
        "ldrd r4, r8, [sp, #36]",
        "mls r9, r3, r8, r4",
        "add r11, r8, r8, lsl #1",
    )
    yield from (f"rsb r10, r3, #{pitch}", "lsl r10, r10, #1", "push {r2, r9, r10, r12}")
    yield from ("ubfx r4, r1, #1, #1", "sub r3, r3, r4", "1:", "lsls lr, r1, #31", "bcc 6f")
    yield from (*_one_of_planes(kind), "6:", "lsrs lr, r3, #2", "beq 3f")
    yield from ("2:", "ldr r4, [r0]", "ldr r5, [r0, r8]")
    yield from ("ldr r6, [r0, r8, lsl #1]", "ldr r7, [r0, r11]", "add r0, r0, r8, lsl #2")
    yield from (*_turned(kind, "r4", "r5", ("r4", "r9", "r5", "r10")),)
    yield from (*_turned(kind, "r6", "r7", ("r6", "r12", "r7", "r2")),)
    for lane, pair in enumerate(("r4, r6", "r9, r12", "r5, r7", "r10, r2")):
        yield f"strd {pair}, [r1, #{2 * LANE * lane}]"
    yield from ("adds r1, r1, #8", "subs lr, lr, #1", "bne 2b", "3:", "lsls lr, r3, #31", "bcc 4f")  # C: two
    yield from ("ldr r4, [r0]", "ldr r5, [r0, r8]", "add r0, r0, r8, lsl #1")
    yield from (*_turned(kind, "r4", "r5", ("r4", "r9", "r5", "r10")),)
    yield from (f"str {r}, [r1, #{2 * LANE * lane}]" for lane, r in enumerate(("r4", "r9", "r5", "r10")))
    yield from ("adds r1, r1, #4", "4:", "lsls lr, r3, #31", "bpl 5f", *_one_of_planes(kind))
    yield from ("5:", "ldm sp, {r2, r9, r10}", "add r0, r0, r9", "add r1, r1, r10")
    yield from ("subs r2, r2, #1", "str r2, [sp]", "bne 1b", "add sp, sp, #16", "pop {r4-r11, pc}")


def _one_of_planes(kind: str) -> Iterator[str]:
    """One column of four channels."""
    yield from ("ldr r4, [r0]", "add r0, r0, r8")
    yield from (*_turned(kind, "r4", "r4", ("r4", "r9", "r5", "r10")),)
    yield from (f"strh {r}, [r1, #{2 * LANE * lane}]" for lane, r in enumerate(("r4", "r9", "r5", "r10")))
    yield "adds r1, r1, #2"


def _turned(kind: str, first: str, second: str, to: tuple[str, ...]) -> Iterator[str]:
    """Four channels of two columns as pairs of columns; `to` begins with the first word, and its third may be
    the second.
    """
    extend = "uxtb16" if kind == "uint8" else "sxtb16"
    yield from (f"pkhbt {to[1]}, {first}, {second}, lsl #16", f"pkhtb {to[3]}, {second}, {first}, asr #16")
    yield from (f"{extend} {to[0]}, {to[1]}", f"{extend} {to[1]}, {to[1]}, ror #8")
    yield from (f"{extend} {to[2]}, {to[3]}", f"{extend} {to[3]}, {to[3]}, ror #8")


_PLANES4 = f"""\
    for (; rows > 0; rows--, x += down, plane += PITCH) {{
        const KIND_t *from = x;
        for (int column = 0; column < columns; column++, from += along) {{
            plane[column] = from[0];
            plane[column + {LANE}] = from[1];
            plane[column + {2 * LANE}] = from[2];
            plane[column + {3 * LANE}] = from[3];
        }}
    }}
"""


_PLANE = """\
    for (; rows > 0; rows--, x += down, plane += PITCH) {
        const KIND_t *from = x;
        int16_t *to = plane;
        for (int fours = columns >> 2; fours > 0; fours--, from += 4 * along, to += 4) {
            to[0] = from[0];
            to[1] = from[along];
            to[2] = from[2 * along];
            to[3] = from[3 * along];
        }
        for (int rest = columns & 3; rest > 0; rest--, from += along) *to++ = *from;
    }
"""


# -- windows


def _window(strides: tuple[int, int], kind: str, is_fixed: bool, pitch: int, plain: bool) -> str:
    name = window_name(strides, kind, is_fixed, pitch, plain)
    return routine(
        name,
        "const int16_t *plane, const int8_t *w, const int32_t *first, const int32_t *scale,"
        f" {kind}_t *y, int rows, int columns, int down, int along, int zero",
        tuple(_assembly(strides, kind, is_fixed, pitch, plain)),
        "".join(_plain(strides, kind, is_fixed, pitch, plain)),
        "Windows of a plane multiplied by three rows of four weights, the last one 0, as bytes.",
    )


def _plain(strides: tuple[int, int], kind: str, is_fixed: bool, pitch: int, plain: bool) -> Iterator[str]:
    """The routine in plain C. That of cores without floats, whose code is all C, has few registers."""
    most = 1 if is_fixed and not plain else 2
    for row in range(TAPS):
        for n in range(2):
            low, high = (f"{'2 * ' * is_fixed}w[{4 * row + m}]" for m in (n, n + 1))
            yield f"    const uint32_t w{row}{n} = halves16({low}, {high});\n"
    yield f"    const uint32_t start = {'2 * ' * is_fixed}(uint32_t)*first;\n"
    if is_fixed:
        yield "    const int32_t by = scale[0], shift = scale[1];\n"
        made = f"limit_{kind}(fixed_product(sum, by, shift) + zero)"
        if plain:
            yield "    const int32_t moved = (2 * zero + 1) * (int32_t)(1u << (shift - 1));\n"
            made = f"limit_{kind}((high_product(sum, by) + moved) >> shift)"
        yield from _plain_loops(strides, kind, pitch, most, f"                TO = ({kind}_t){made};\n")
        return
    zero, lowest = ("zero", "") if kind == "uint8" else ("zero + 128", " - 128")
    by_word = f"limit_{kind}(high_product(sum, by) + zero)"
    yield "    const int32_t by = *scale;\n    if (by >= 0) {\n"
    yield from _plain_loops(strides, kind, pitch, most, f"                TO = ({kind}_t){by_word};\n")
    yield "    } else {\n        const float factor = -word_float(by);\n"
    by_float = f"byte_of_sum((uint32_t)sum, factor, {zero})"
    yield from _plain_loops(
        strides, kind, pitch, most, f"                TO = ({kind}_t)((int){by_float}{lowest});\n"
    )
    yield "    }\n"


def _plain_loops(strides: tuple[int, int], kind: str, pitch: int, most: int, scaled: str) -> Iterator[str]:
    """The loops for a way to scale, which makes a byte at TO of a sum: as the assembly goes, two results of
    so many rows at a time, then of one, from the right; where there is one result the other goes to the same
    place before it.
    """
    for rows in range(most, 0, -1):
        yield f"    for (; rows >= {rows}; rows -= {rows}, plane += {rows * strides[0] * pitch},"
        yield f" y += {rows} * down) {{\n"
        yield "        const int last = (columns - 1) & ~1;\n"
        yield f"        {kind}_t *to = y + along * last;\n"
        yield f"        const int16_t *t = plane + {strides[1]} * last;\n"
        yield "        int far = columns % 2 ? 0 : along;\n        for (;;) {\n"
        yield f"            uint32_t {', '.join(f'{n} = start' for n in 'abcd'[: 2 * rows])};\n"
        yield from _plain_tile(strides, pitch, rows)
        for row in reversed(range(rows)):
            yield from _plain_result("bd"[row], f"to[{'down + ' * row}far]", scaled)
            yield from _plain_result("ac"[row], f"to[{'down' if row else 0}]", scaled)
        yield f"            if (t == plane) break;\n            t -= {2 * strides[1]};\n"
        yield "            to -= 2 * along;\n            far = along;\n        }\n    }\n"


def _plain_result(value: str, to: str, scaled: str) -> Iterator[str]:
    yield f"            {{\n                const int32_t sum = (int32_t){value};\n"
    yield from (scaled.replace("TO", to), "            }\n")


def _plain_tile(strides: tuple[int, int], pitch: int, rows: int) -> Iterator[str]:
    """What the rows of the plane add to two results of one or two rows."""
    for row in range(strides[0] * (rows - 1) + TAPS):
        mine = [(n, row - strides[0] * n) for n in range(rows) if 0 <= row - strides[0] * n < TAPS]
        at = row * pitch
        yield f"            const uint32_t p{row} = pair16(t + {at}), q{row} = pair16(t + {at + 2});\n"
        if strides[1] != 1:
            yield f"            const uint32_t o{row} = pair16(t + {at + 4});\n"
        for n, k in mine:
            a, b, w01, w12 = "ac"[n], "bd"[n], f"w{k}0", f"w{k}1"
            second = f"{b} = low_high16(o{row}, {w12}, dual_mac16(q{row}, {w01}, {b}))"
            if strides[1] == 1:
                second = f"{b} = dual_mac16(q{row}, {w12}, low_high16({w01}, p{row}, {b}))"
            yield f"            {a} = low_high16(q{row}, {w12}, dual_mac16(p{row}, {w01}, {a}));\n"
            yield f"            {second};\n"


def _assembly(strides: tuple[int, int], kind: str, is_fixed: bool, pitch: int, plain: bool) -> Iterator[str]:
    """The loops for what the scale is: of fixed point, or an integer, or behind that a float."""
    yield from _start(strides, is_fixed, pitch, plain)
    if is_fixed:
        yield from _loops(strides, kind, pitch, _scaled_plain if plain else _scaled_fixed)
        return
    yield from ("vmov r2, s0", "cmp r2, #0", "bmi 9f", *_loops(strides, kind, pitch, _scaled_whole))
    yield from ("9:", *_loops(strides, kind, pitch, _scaled_floats))


def _loops(
    strides: tuple[int, int], kind: str, pitch: int, scaled: Callable[[int], Iterator[str]]
) -> Iterator[str]:
    """Two rows of results at a time, then the one that is left, if there is one; lr: rows left, less two."""
    yield from ("cmp lr, #0", "bmi 3f", "1:", *_tile(strides, pitch, 2), *scaled(2), *_stored(kind, 2))
    yield from (
        *_next_tile(strides),
        "bne 1b",
        *_next_rows(strides, pitch),
        "bpl 1b",
        "3:",
        "adds lr, lr, #1",
    )
    yield from (
        "bne 5f",
        "4:",
        *_tile(strides, pitch, 1),
        *scaled(1),
        *_stored(kind, 1),
        *_next_tile(strides),
    )
    yield from ("bne 4b", "5:", "add sp, sp, #48", "pop {r4-r11, pc}")


def _start(strides: tuple[int, int], is_fixed: bool, pitch: int, plain: bool) -> Iterator[str]:
    """r3-r8: weights 01 and 12 of three rows. s0: scale in a word, s1: zero point, s8: how far right the
    second result goes, where there is one; in fixed point s0: multiplier, s9: shift, and sums are doubled; if
    `plain`, s1: the zero point and a half, shifted to the left. On the stack: first value, four times; how
    far right and down the other results go; from tile to tile, where planes end; from the end of rows to the
    next, of planes and results; how far right at first, rows left; then registers; then y, rows, columns,
    down, along, zero.
    """
    yield from ("push {r4-r11, lr}", "sub sp, sp, #48", "vldr s0, [r3]", "ldr r2, [r2]")
    if is_fixed:
        yield from ("lsls r2, r2, #1", "vldr s9, [r3, #4]")
    yield from ("strd r2, r2, [sp]", "strd r2, r2, [sp, #8]")
    yield "ldm r1, {r9, r10, r11}"
    for row in range(TAPS):
        yield from (f"sxtb16 r2, r{9 + row}", f"sxtb16 lr, r{9 + row}, ror #8")
        yield from (f"pkhbt r{3 + 2 * row}, r2, lr, lsl #16", f"pkhtb r{4 + 2 * row}, r2, lr")
    if is_fixed:  # what is doubled here is not doubled result by result
        yield from (f"sadd16 r{n}, r{n}, r{n}" for n in range(3, 9))
    apart, tile = 4 * strides[0] * pitch, 1 + strides[1]
    yield from ("add r12, sp, #84", "ldm r12, {r1, r2, r9-r12}")
    if plain:
        yield from (
            "vmov lr, s9",
            "sub lr, lr, #1",
            "lsl r12, r12, #1",
            "add r12, r12, #1",
            "lsl r12, r12, lr",
        )
    yield from ("vmov s1, r12", "vmov s8, r11")
    yield from ("sub lr, r9, #1", "lsr lr, lr, #1", f"sub r12, r0, #{4 * strides[1]}", "eor r9, r9, #1")
    yield from ("and r9, r9, #1", "mul r9, r9, r11", "strd r9, r10, [sp, #16]", "lsl r11, r11, #1")
    yield from ("strd r11, r12, [sp, #24]", "mla r1, lr, r11, r1", f"add r0, r0, lr, lsl #{tile}")
    yield from ("add lr, lr, #1", f"lsl r12, lr, #{tile}", f"add r12, r12, #{apart}", "mul lr, lr, r11")
    yield from ("add lr, lr, r10, lsl #1", "strd r12, lr, [sp, #32]", "sub lr, r2, #2")
    yield "strd r9, lr, [sp, #40]"


def _tile(strides: tuple[int, int], pitch: int, rows: int) -> Iterator[str]:
    """Two results of one or two rows: sums in r9-r12."""
    yield f"ldm sp, {{r9-r{8 + 2 * rows}}}"
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


def _scaled_whole(rows: int) -> Iterator[str]:
    """The sums in r9-r12 scaled, rounded and moved."""
    yield from ("vmov r2, lr, s0, s1", *(f"smmlar r{n}, r{n}, r2, lr" for n in range(9, 9 + 2 * rows)))


def _scaled_fixed(rows: int) -> Iterator[str]:
    """The same of doubled sums in fixed point; the carry of a shift is what it rounds up."""
    made = range(9, 9 + 2 * rows)
    yield "vmov r2, s0"
    for n in made:
        yield from (f"asr lr, r{n}, #31", f"smmlar r{n}, r{n}, r2, lr")
    yield from ("vmov r2, s9", "vmov lr, s1")
    for n in made:
        yield from (f"asrs r{n}, r{n}, r2", f"adc r{n}, r{n}, lr")


def _scaled_plain(rows: int) -> Iterator[str]:
    """The same where no result is below the zero point: what is becomes it, whichever way it is rounded."""
    made = range(9, 9 + 2 * rows)
    yield from ("vmov r2, lr, s0, s1", *(f"smmlar r{n}, r{n}, r2, lr" for n in made), "vmov r2, s9")
    yield from (f"asr r{n}, r{n}, r2" for n in made)


def _scaled_floats(rows: int) -> Iterator[str]:
    """The same by the float in s0, which is negative."""
    pairs = [(f"s{4 + 2 * n}, s{5 + 2 * n}", f"r{9 + 2 * n}, r{10 + 2 * n}") for n in range(rows)]
    yield from (f"vmov {s}, {r}" for s, r in pairs)
    for how in ("vcvt.f32.s32 {0}, {0}", "vnmul.f32 {0}, {0}, s0", "vcvtr.s32.f32 {0}, {0}"):
        yield from (how.format(f"s{n}") for n in range(4, 4 + 2 * rows))
    yield from (f"vmov {r}, {s}" for s, r in pairs)
    yield from ("vmov r2, s1", *(f"add r{n}, r{n}, r2" for n in range(9, 9 + 2 * rows)))


def _stored(kind: str, rows: int) -> Iterator[str]:
    """The results as bytes, where they belong."""
    yield from (f"{'usat' if kind == 'uint8' else 'ssat'} r{n}, #8, r{n}" for n in range(9, 9 + 2 * rows))
    yield "ldrd r2, lr, [sp, #16]"
    if rows == 2:
        yield from ("add lr, lr, r1", "strb r12, [lr, r2]", "strb r11, [lr]")
    yield from ("strb r10, [r1, r2]", "strb r9, [r1]")


def _next_tile(strides: tuple[int, int]) -> Iterator[str]:
    """To the tile on the left, if there is one."""
    yield from ("vstr s8, [sp, #16]", "ldrd r2, lr, [sp, #24]", "sub r1, r1, r2")
    yield from (f"sub r0, r0, #{4 * strides[1]}", "cmp r0, lr")


def _next_rows(strides: tuple[int, int], pitch: int) -> Iterator[str]:
    """To the tile on the right of the next two rows, if there are two; lr: rows left, less two."""
    yield from (f"add lr, lr, #{4 * strides[0] * pitch}", "str lr, [sp, #28]", "ldrd r2, lr, [sp, #32]")
    yield from ("add r0, r0, r2", "add r1, r1, lr", "ldrd r2, lr, [sp, #40]", "str r2, [sp, #16]")
    yield from ("subs lr, lr, #2", "str lr, [sp, #44]")
