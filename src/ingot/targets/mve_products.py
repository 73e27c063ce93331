"""Functions in assembly for products of sixteen bytes at once (Helium), and for the copies that they read.

    long2(x, row, w, first, scale, y, pairs, ...)   bytes of points, two by two, and all channels, by fours
    long1(a, w, first, scale, y, blocks, ...)       bytes of one point and all channels, by eights
    bytes2(a0, a1, to, rows, step, terms, pitch)    bytes of two points side by side, made signed
    bytes1(a0, to, rows, step, terms)               of one point

In: nothing. Out: the C of functions, by name; see `routines.py`. Products of sixteen bytes add to an even
register, of which eight are free: so many sums a tile has. Weights fill whole vectors with zeros, so that
what lies behind the last term of a copy is of no matter. `long2` copies rows of terms itself, or reads points
where they are; `bytes2` is for what has more than rows, or goes elsewhere than to results.

They round by vectors of floats, which the compiler is not given for loops of its own: such vectors take
denormals for 0, and no scaled sum of integers becomes another byte by that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product

from ingot.targets.mve import HAS_MVE, less_if_negative, packed, paired
from ingot.targets.routines import KINDS, SCALES, bytes_name, in_fixed_point, routine

SUMS = ("r0", "r2", "r4", "r6", "r8", "r10", "r12", "lr")
LONG = 16  # bytes of a vector


TURN = 4  # vectors of an iteration of the loop
UNROLLED = 9  # vectors that take no loop
NEAR = 127  # how far behind a register a vector of bytes is loaded
BEHIND = ("[r3], #16", "[r9], #16")  # where vectors of points are loaded one after the other


@dataclass(frozen=True, slots=True)
class Walk:
    """How a routine goes through the vectors of a block: `first` of them, then `turn` an iteration."""

    first: int
    turn: int = 0

    def name(self, points: int, *kinds: str, is_fixed: bool = False, plain: bool = False) -> str:
        """The routine for so many points: of results of a type, for two points of an operand's before it.
        `is_fixed`: scaled in fixed point. Then there is one for bytes whose zero point is the smallest of
        their type, if `plain`.
        """
        name = "_".join((f"long{points}", str(self.first), str(self.turn), *kinds[:-1]))
        return bytes_name(name, kinds[-1], is_fixed and plain, is_fixed)

    def reach(self, points: int) -> int:
        """Where the last vector of the last point begins that no loop reads."""
        return LONG * (points * self.first - 1)


def walk_of(vectors: int, is_small: bool) -> Walk:
    """The walk through so many vectors; code that has to be small takes them one by one."""
    if is_small:
        return Walk(1, int(vectors > 1))
    return Walk(vectors) if vectors <= UNROLLED else Walk((vectors - 1) % TURN + 1, TURN)


WALKS = (
    *(Walk(n) for n in range(1, UNROLLED + 1)),
    *(Walk(n, TURN) for n in range(1, TURN + 1)),
    Walk(1, 1),
)


@dataclass(frozen=True, slots=True)
class Scaled:
    """How a routine makes bytes of sums. If results are not moved, what is negative becomes 0 however it is
    rounded.
    """

    is_fixed: bool = False
    plain: bool = False

    def name(self, walk: Walk, points: int, *kinds: str) -> str:
        return walk.name(points, *kinds, is_fixed=self.is_fixed, plain=self.plain)

    def less_if_negative(self) -> Iterator[str]:
        return iter(()) if self.plain else less_if_negative("q2", "q0", "q1")


FLOATS, FIXED, PLAIN = Scaled(), Scaled(True), Scaled(True, True)


def long_routines() -> Mapping[str, str]:
    """The routines by name."""
    copies = {f"bytes{n}_{kind}": _copy(n, kind) for n in (1, 2) for kind in KINDS}
    one, two = {}, {}
    for walk, to, how in product(WALKS, KINDS, (FLOATS, FIXED, PLAIN)):
        one[how.name(walk, 1, to)] = _one_point(walk, to, how)
        for of in KINDS:
            two[how.name(walk, 2, of, to)] = _two_points(walk, of, to, how)
    return copies | one | two


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


def _one_point(walk: Walk, to: str, how: Scaled) -> str:
    return routine(
        how.name(walk, 1, to),
        f"const int8_t *a, const int8_t *w, const int32_t *first, const {SCALES[how.is_fixed]} *scale,"
        f" {to}_t *y, int blocks, int terms, int pitch, int zero",
        tuple(_one(walk, to, how)),
        _bytes(8, to, "terms", "", how.is_fixed),
        "Products of a point and eight channels a block, scaled, rounded and limited to bytes.",
        HAS_MVE,
    )


def _two_points(walk: Walk, of: str, to: str, how: Scaled) -> str:
    flip = " ^ 128" if of == "uint8" else ""
    plain = f"""\
    for (int n = 0; n < 2 * pairs; n++, x += along, y += step) {{
        int8_t *const copy = (int8_t *)row + n % 2 * pitch;
        for (int i = 0; i < rows * terms; i++)
            copy[i] = (int8_t)(x[i / terms * down + i % terms]{flip});
        const int8_t *const a = rows ? copy : (const int8_t *)x;
{_bytes(4, to, "(rows ? rows * terms : terms)", "    ", how.is_fixed)}    }}
"""
    return routine(
        how.name(walk, 2, of, to),
        f"const {of}_t *x, void *row, const int8_t *w, const int32_t *first,"
        f" const {SCALES[how.is_fixed]} *scale, {to}_t *y, int pairs, int along, int rows, int down,"
        " int terms, int step, int blocks, int pitch, int zero",
        tuple(_two(walk, of, to, how)),
        plain,
        "Products of two points and four channels a block, scaled, rounded and limited to bytes.",
        HAS_MVE,
    )


def _bytes(size: int, to: str, terms: str, indent: str, is_fixed: bool) -> str:
    """The bytes of a point `a` in plain C, of blocks of so many channels."""
    low, high = (0, 255) if to == "uint8" else (-128, 127)
    made = f"{' ' * 8}const int made = (int)((float)sum * scale[c] + 12582912.0f - 12582912.0f) + zero;\n"
    if is_fixed:
        made = f"{' ' * 8}const int32_t *const by = scale + c / {size} * {size} + c;\n"
        made += in_fixed_point("sum", "by[0]", f"by[{size}]", "made", "zero", 8)
    plain = f"""\
    for (int c = 0; c < {size} * blocks; c++) {{
        const int8_t *const of = w + c / {size} * {size} * pitch + c % {size} * 16;
        int32_t sum = first[c];
        for (int k = 0; k < {terms}; k++) sum += a[k] * of[k / 16 * {size * LONG} + k % 16];
{made}\
        y[c] = ({to}_t)(made < {low} ? {low} : made > {high} ? {high} : made);
    }}
"""
    return "".join(f"{indent}{line}" for line in plain.splitlines(keepends=True))


def _one(walk: Walk, to: str, how: Scaled) -> Iterator[str]:
    """r1: weights, r3: activations, r5: first values, r7: results, r9: scales, r11: their end, or turns;
    q4: the zero point. On the stack: a, turns, the end of y; registers; then y, blocks, terms, pitch, zero.
    """
    y, pitch = "[sp, #64]", "[sp, #76]"
    is_near = not walk.turn and walk.reach(1) <= NEAR
    yield from (".arch_extension mve.fp", "push {r4-r11, lr}", "vpush {d8, d9}", "sub sp, sp, #12")
    yield from ("mov r5, r2", "mov r9, r3", "mov r3, r0", f"ldrd r7, r11, {y}", "add r11, r7, r11, lsl #3")
    yield from ("str r11, [sp, #8]", *_turns(walk, pitch), "strd r0, r4, [sp]")
    yield from ("ldr r4, [sp, #80]", "vdup.16 q4, r4", "1:")
    if not is_near:
        yield "ldrd r3, r11, [sp]"
    yield from (*_sums(walk, 1, is_near), *_numbers("r5"))
    yield from ("vmov q0[2], q0[0], r0, r8", "vmov q0[3], q0[1], r4, r12")
    yield from ("vmov q1[2], q1[0], r2, r10", "vmov q1[3], q1[1], r6, lr")
    yield from ("vadd.i32 q0, q0, q2", "vadd.i32 q1, q1, q3", *_numbers("r9"))
    if how.is_fixed:
        yield from ("vqrdmulh.s32 q0, q0, q2", "vqrdmulh.s32 q1, q1, q3", *how.less_if_negative())
        yield from (*_numbers("r9"), *_shifted("q2", "q3"))
    else:
        yield from _scaled("q2", "q3")
    yield from (packed if how.is_fixed else paired)(to, "q0", "q1", "q4")
    yield "vstrb.16 q0, [r7], #8"
    yield from ("cmp r7, r11",) if is_near else ("ldr r0, [sp, #8]", "cmp r7, r0")
    yield from ("bne 1b", "add sp, sp, #12", "vpop {d8, d9}", "pop {r4-r11, pc}")


def _numbers(at: str) -> Iterator[str]:
    """Numbers of eight channels: those of the even ones in q2, of the odd ones in q3."""
    yield from (f"vld20.32 {{q2, q3}}, [{at}]", f"vld21.32 {{q2, q3}}, [{at}]!")


BELOW = 140  # bytes of the stack below the arguments of `long2`
TURNS, PAIR, GAPS, NEXT = (f"[sp, #{n}]" for n in (8, 12, 20, 32))
CONSTANTS = 40
END, RESULT = "[sp, #56]", "[sp, #64]"
SCALE, PAIRS, ALONG, DOWN, STEP, PITCH, ZERO = (f"[sp, #{BELOW + 4 * i}]" for i in (0, 2, 3, 5, 7, 9, 10))


def _two(walk: Walk, of: str, to: str, how: Scaled) -> Iterator[str]:
    """r1: weights, r5: first values, r7: scales, r3 and r9: activations, r11: results. Where points are near
    each other, r9 is where first values end; where there is a loop, r11 counts it. q4: offsets of results,
    q5: the zero point.
    """
    is_near = not walk.turn and walk.reach(2) <= NEAR
    yield from (".arch_extension mve.fp", "push {r4-r11, lr}", "vpush {d8-d11}", f"sub sp, sp, #{BELOW - 68}")
    yield from (*_prepared(walk), "1:", *_points(of), f"add r0, sp, #{CONSTANTS}")
    yield from ("ldm r0, {r1, r2, r5, r7, r9, r11}", "add r2, r2, r11", "str r2, [r0, #20]")
    if is_near:
        yield "ldr r3, [sp]"
    if walk.turn:
        yield f"str r11, {RESULT}"
    yield "6:"
    if not is_near:
        yield "ldm sp, {r3, r9, r11}" if walk.turn else "ldrd r3, r9, [sp]"
    yield from (*_sums(walk, 2, is_near), "vldrw.u32 q2, [r5], #16", "vldrw.u32 q3, [r7], #16")
    yield from ("vmov q0[2], q0[0], r0, r4", "vmov q0[3], q0[1], r2, r6")
    yield from ("vmov q1[2], q1[0], r8, r12", "vmov q1[3], q1[1], r10, lr")
    yield from ("vadd.i32 q0, q0, q2", "vadd.i32 q1, q1, q2")
    if how.is_fixed:
        yield from ("vqrdmulh.s32 q0, q0, q3", "vqrdmulh.s32 q1, q1, q3", *how.less_if_negative())
        yield from ("vldrw.u32 q3, [r7], #16", *_shifted("q3", "q3"))
    else:
        yield from _scaled("q3", "q3")
    yield from (packed if how.is_fixed else paired)(to, "q0", "q1", "q5")
    yield from (*_stored(walk, is_near), "bne 6b")
    yield from (f"ldr r0, {PAIRS}", "subs r0, r0, #1", f"str r0, {PAIRS}", "bne 1b")
    yield from (f"add sp, sp, #{BELOW - 68}", "vpop {d8-d11}", "pop {r4-r11, pc}")


def _prepared(walk: Walk) -> Iterator[str]:
    """What is the same for all pairs. On the stack: both points as they are read, turns, both in x, from row
    to row in x and in copies, terms, from pair to pair, rows; w, from pair to pair of results, first, scale,
    the end of first, y; a result, the end of first. The offsets of the second point's results are a step on.
    """
    yield from (f"ldr r4, {PITCH}", "add r5, r1, r4", "strd r1, r5, [sp]")
    if walk.turn:
        yield from (*_turns(walk, PITCH), f"str r4, {TURNS}")
    yield from (f"ldrd r4, r8, {ALONG}", "add r5, r0, r4", f"strd r0, r5, {PAIR}", "lsl r4, r4, #1")
    yield from (f"strd r4, r8, {NEXT}", f"ldrd r5, r6, {DOWN}", "add r4, r6, #15", "bic r4, r4, #15")
    yield from ("sub r5, r5, r4", "sub r4, r6, r4", f"strd r5, r4, {GAPS}", "str r6, [sp, #28]")
    yield from (f"ldrd r4, r7, {STEP}", "add r7, r3, r7, lsl #4", "lsl r5, r4, #1", f"ldrd r6, r8, {SCALE}")
    yield from (f"strd r2, r5, [sp, #{CONSTANTS}]", f"strd r3, r6, [sp, #{CONSTANTS + 8}]")
    yield from (
        f"strd r7, r8, {END}",
        "str r7, [sp, #68]",
        "lsl r4, r4, #16",
        "mov r5, #0x10001",
        "add r6, r4, r5",
    )
    yield from ("add r7, r6, r5", "add r8, r7, r5", "vmov q4[2], q4[0], r4, r7", "vmov q4[3], q4[1], r6, r8")
    yield from (f"ldr r4, {ZERO}", "vdup.16 q5, r4")


def _points(of: str) -> Iterator[str]:
    """A pair of points, where it lies if there are no rows, or copied, signed; x goes to the next pair."""
    yield from ("ldm sp, {r0-r9}", "add r10, r3, r8", "add r11, r4, r8", f"strd r10, r11, {PAIR}")
    yield from ("cmp r9, #0", "bne 2f", "strd r3, r4, [sp]", "b 5f", "2:")
    if of == "uint8":
        yield "vmov.i8 q2, #0x80"
    yield from ("3:", "dlstp.8 lr, r7", "4:", "vldrb.8 q0, [r3], #16", "vldrb.8 q1, [r4], #16")
    if of == "uint8":
        yield from ("veor q0, q0, q2", "veor q1, q1, q2")
    yield from ("vstrb.8 q0, [r0], #16", "vstrb.8 q1, [r1], #16", "letp lr, 4b", "add r3, r3, r5")
    yield from ("add r4, r4, r5", "add r0, r0, r6", "add r1, r1, r6", "subs r9, r9, #1", "bne 3b", "5:")


def _stored(walk: Walk, is_near: bool) -> Iterator[str]:
    """Eight bytes where they belong, and whether they are the last."""
    if walk.turn:
        yield from (f"ldrd r0, r2, {RESULT}", "vstrb.16 q0, [r0, q4]", "add r0, r0, #4", f"str r0, {RESULT}")
        yield "cmp r5, r2"
        return
    yield from ("vstrb.16 q0, [r11, q4]", "add r11, r11, #4")
    yield from ("cmp r5, r9",) if is_near else (f"ldr r0, {END}", "cmp r5, r0")


def _turns(walk: Walk, pitch: str) -> Iterator[str]:
    """r4: iterations of the loop."""
    yield from (f"ldr r4, {pitch}", f"sub r4, r4, #{LONG * walk.first}")
    yield f"lsr r4, r4, #{6 if walk.turn == TURN else 4}"


def _sums(walk: Walk, points: int, is_near: bool) -> Iterator[str]:
    """The products of all terms: of each point with each channel of the block."""
    for n in range(walk.first):
        loads = (f"[r3, #{LONG * (n + walk.first * p)}]" for p in range(points))
        yield from _vector("vmladava" if n else "vmladav", tuple(loads) if is_near else BEHIND[:points])
    if walk.turn:
        yield "7:"
        yield from (line for _ in range(walk.turn) for line in _vector("vmladava", BEHIND[:points]))
        yield from ("subs r11, r11, #1", "bne 7b")


def _vector(how: str, loads: tuple[str, ...]) -> Iterator[str]:
    """The products of sixteen terms, of points that are loaded so."""
    yield from (f"vldrb.8 q{p}, {load}" for p, load in enumerate(loads))
    size = len(SUMS) // len(loads)
    for c in range(size):
        yield f"vldrb.8 q{2 + c % 2}, [r1], #16"
        yield from (f"{how}.s8 {SUMS[p * size + c]}, q{p}, q{2 + c % 2}" for p in range(len(loads)))


def _scaled(low: str, high: str) -> Iterator[str]:
    """The sums in q0 and q1 as floats, by their scales."""
    yield from ("vcvt.f32.s32 q0, q0", "vcvt.f32.s32 q1, q1")
    yield from (f"vmul.f32 q0, q0, {low}", f"vmul.f32 q1, q1, {high}")


def _shifted(low: str, high: str) -> Iterator[str]:
    """The integers in q0 and q1 divided by powers of two, none of which is 1; halves up."""
    yield from (f"vneg.s32 {q}, {q}" for q in dict.fromkeys((low, high)))
    yield from (f"vrshl.s32 q0, q0, {low}", f"vrshl.s32 q1, q1, {high}")
