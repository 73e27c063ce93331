"""What a self-test compares of a layer: a checksum of integers, four sums of floats.

In: the elements as they were computed at compile time. Out: the numbers that C is to find, and the C that
finds them; both are defined here, side by side.

Integers are the same bits everywhere, so a hash of them is compared: a polynomial in an odd number modulo
2^32, a multiplication and an addition an element, which no single wrong element leaves as it was. It is over
values, not bytes, so that the order of bytes does not count.

Floats differ in their last digits from compiler to compiler, so what is compared has to be continuous. Some
sampled elements would say nothing of the others. Four sums of all elements, each element with a random sign,
do: an error of length |d| moves such a sum by about |d|, however it is spread. A sum counts as wrong where it
is off by more than a part (1e-4 for float32) of the length |y| of all elements: rounding, which is a hundred
times smaller, is never found; an error of ten times the part passes all four sums once in 25,000 layers. The
sums are of integers, elements scaled by a power of two to 23 bits, so that adding has no rounding of its own.
What is not finite, or far too large, is counted instead of added.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ingot.formula.expr import Array, Tensor
from ingot.formula.types import FLOAT8E8M0, DType
from ingot.loops.program import Call

FACTOR = 2654435761  # Knuth's, odd: every power of it has an inverse modulo 2^32
STEP, MORE = 1664525, 1013904223  # a generator of signs: Numerical Recipes' ranqd1
SUMS, SCALED_BITS, BEYOND = 4, 22, 1 << 28
CHUNK = 1 << 20
PART = 1e-4
APART = "__attribute__((__noinline__))"
"""Functions that stay functions: they are called behind every layer."""


@dataclass(frozen=True, slots=True)
class Sums:
    """Of floats: the power of two that scales them, the signed sums, how many are beyond, what is allowed."""

    scale: float
    sums: tuple[int, ...]
    beyond: int
    allowed: int


@dataclass(frozen=True, slots=True)
class SelfTest:
    """A run at compile time: the inputs and outputs as C has them, the extents, and what each call made: the
    checksum of integers, or the sums of floats, by its tensors (`trace.results`).
    """

    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]
    extents: tuple[int, ...]
    made: Mapping[Call, Mapping[Tensor, int | Sums]]


def part_of(t: DType) -> float:
    """How far floats of a type may be off, as a part of the largest: a few of a narrow one's last digits."""
    if t is FLOAT8E8M0:
        return 1.0
    return max(PART, 4 * 2.0**-t.format.mantissa) if t.is_narrow else PART


def checksum(array: Array) -> int:
    """The polynomial's value: h = h * FACTOR + word for each word; 64 bits are two, the lower first."""
    h = 0
    words = _words(array)
    for start in range(0, len(words), CHUNK):
        piece = words[start : start + CHUNK]
        powers = np.cumprod(np.full(len(piece), FACTOR, np.uint32), dtype=np.uint32)
        weights = np.concatenate([powers[-2::-1], np.ones(1, np.uint32)])
        h = h * int(powers[-1]) + int(np.sum(piece * weights, dtype=np.uint32))
    return h % (1 << 32)


def _words(array: Array) -> Array:
    """Elements as unsigned numbers of at most 32 bits."""
    flat = np.ascontiguousarray(array).reshape(-1)
    bits = flat.view(f"u{flat.itemsize}")
    if flat.itemsize < 8:
        return bits.astype(np.uint32)
    halves = np.stack([bits & np.uint64(0xFFFFFFFF), bits >> np.uint64(32)], 1)
    return halves.reshape(-1).astype(np.uint32)


def sums_of(array: Array, part: float) -> Sums:
    """What C finds in float32 or float64 elements, and how far it may be off."""
    flat = np.ascontiguousarray(array).reshape(-1)
    finite = np.abs(flat[np.isfinite(flat)])
    largest = float(finite.max(initial=0))
    exponent = SCALED_BITS - (math.frexp(largest)[1] if largest else 0)
    scale = 2.0 ** max(-100, min(100, exponent))
    with np.errstate(all="ignore"):
        scaled = flat * flat.dtype.type(scale)
        counts = np.abs(scaled) < BEYOND  # not NaN either
    q = np.where(counts, scaled, 0).astype(np.int64)
    length = math.sqrt(float(np.sum(q.astype(np.float64) ** 2)))
    cut = math.isqrt(len(q)) + 1  # digits: at most one of each element, of random sign
    allowed = math.ceil(part * length) + cut
    random = _random(len(q))
    negative = [(random >> np.uint32(31 - k)) & np.uint32(1) == 0 for k in range(SUMS)]
    sums = tuple(int(np.where(n, -q, q).sum()) for n in negative)
    return Sums(scale, sums, int(len(q) - counts.sum()), allowed)


def _random(n: int) -> Array:
    """The first n numbers r = r * STEP + MORE after 0."""
    powers = np.cumprod(np.full(max(n - 1, 0), STEP, np.uint32), dtype=np.uint32)
    ones = np.ones(min(n, 1), np.uint32)
    found: Array = np.cumsum(np.concatenate([ones, powers]), dtype=np.uint32) * np.uint32(MORE)
    return found


def checksum_text(name: str, bits: int) -> str:
    """The C of `checksum` for elements of so many bits: goes on from h."""
    if bits < 64:
        step = f"h = h * {FACTOR}u + x[i];"
    else:
        step = f"h = (h * {FACTOR}u + (uint32_t)x[i]) * {FACTOR}u + (uint32_t)(x[i] >> 32);"
    return (
        f"static {APART} uint32_t {name}(uint32_t h, const uint{bits}_t *x, int n) {{\n"
        f"    for (int i = 0; i < n; i++) {step}\n"
        "    return h;\n}"
    )


def sums_struct(name: str) -> str:
    """The C type of what is summed up, and the functions around it."""
    return f"""\
/* Sums of floats, scaled and with random signs, and how many are not finite or too large. */
struct {name} {{
    int64_t sums[{SUMS}];
    int64_t beyond;
    uint32_t random;
}};

static {APART} void {name}_start(struct {name} *s) {{
    for (int k = 0; k < {SUMS}; k++) s->sums[k] = 0;
    s->beyond = 0;
    s->random = 0;
}}

/* golden: the sums, how many are beyond, how far a sum may be off. */
static {APART} int {name}_differs(const struct {name} *s, const int64_t *golden) {{
    for (int k = 0; k < {SUMS}; k++) {{
        const int64_t off = s->sums[k] - golden[k];
        if (off > golden[{SUMS + 1}] || off < -golden[{SUMS + 1}]) return 1;
    }}
    return s->beyond != golden[{SUMS}];
}}"""


def sums_text(name: str, function: str, t: DType, element: str) -> str:
    """The C that adds n elements, `element` being the one at x[i] as it is computed with."""
    real = "double" if t.bits == 64 else "float"
    limit = f"{BEYOND}.0" + ("" if real == "double" else "f")
    return f"""\
static {APART} void {function}(struct {name} *s, const {t.c} *x, int n, {real} scale) {{
    for (int i = 0; i < n; i++) {{
        const {real} scaled = {element} * scale;
        s->random = s->random * {STEP}u + {MORE}u;
        if (!(scaled < {limit} && scaled > -{limit})) {{
            s->beyond++;
            continue;
        }}
        const int32_t q = (int32_t)scaled;
        for (int k = 0; k < {SUMS}; k++) s->sums[k] += s->random >> (31 - k) & 1u ? q : -q;
    }}
}}"""
