"""Rows of TFLite's fixed-point arithmetic. The oracle is written down here in Python's integers, as gemmlowp
and TFLite document their functions: by a quotient that truncates, a nudge and a threshold, where the
definitions shift.
"""

from __future__ import annotations

import math
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

import numpy as np

from ingot.frontends.tflite.activations import exp_table, log_table
from tests.ops.rows import Row
from tests.tflite.cases import Draw, drawn

DOMAIN: dict[str, Any] = {"domain": "ai.ingot.tflite", "opset": 1}
RANDOM = np.random.default_rng(11)
EDGES = np.array([0, 1, -1, 3, -3, 1 << 30, -(1 << 30), (1 << 31) - 1, -(1 << 31)], np.int32)


def truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def high_mul(a: int, b: int) -> int:
    """SaturatingRoundingDoublingHighMul."""
    if a == b == -(1 << 31):
        return (1 << 31) - 1
    product = a * b
    return truncated(product + ((1 << 30) if product >= 0 else 1 - (1 << 30)), 1 << 31)


def divide(x: int, exponent: int) -> int:
    """RoundingDivideByPOT."""
    mask = (1 << exponent) - 1
    return (x >> exponent) + ((x & mask) > (mask >> 1) + (x < 0))


def wrapped(x: int) -> int:
    return (x + (1 << 31)) % (1 << 32) - (1 << 31)


def multiply(x: int, multiplier: int, shift: int) -> int:
    """MultiplyByQuantizedMultiplier of int32."""
    return divide(high_mul(wrapped(x << max(shift, 0)), multiplier), max(-shift, 0))


def multiply_wide(x: int, multiplier: int, shift: int) -> int:
    """The same of int64."""
    short = (multiplier + (1 << 15)) >> 16 if multiplier < 0x7FFF0000 else 0x7FFF
    total = 15 - shift
    return wrapped((x * short + (1 << (total - 1))) >> total)


def each(f: Any, *arrays: Any) -> Any:
    return np.vectorize(lambda *a: f(*map(int, a)), otypes=[np.int32])(*arrays)


def one_over_one_plus(a: int) -> int:
    """Of no integer bits, by Newton's method."""
    total = a + (1 << 31) - 1
    half = truncated(total + (1 if total >= 0 else -1), 2)
    x = 1515870810 + high_mul(half, -1010580540)
    for _ in range(3):
        x += clip32(high_mul(x, (1 << 29) - high_mul(half, x)) * 4)
    return clip32(x * 2)


def clip32(x: int) -> int:
    return min(max(x, -(1 << 31)), (1 << 31) - 1)


def softmax(row: list[int], table: list[int], bits: int, least: int) -> list[int]:
    top = max(row)
    total = sum(divide(table[top - q], 12) for q in row)
    zeros = 32 - total.bit_length()
    scale = one_over_one_plus((total << zeros) - (1 << 31))
    terms = [divide(high_mul(scale, table[top - q]), 12 - zeros + 31 - bits) + least for q in row]
    return [min(max(y, least), least + (1 << bits) - 1) for y in terms]


def inverse_root(x: int) -> tuple[int, int]:
    """GetInvSqrtQuantizedMultiplierExp, the shift to the left."""
    if x <= 1:
        return (1 << 31) - 1, 0
    shift = 11
    while x >= 1 << 29:
        x, shift = truncated(x, 4), shift + 1
    pairs = (32 - x.bit_length() - 1) // 2 - 1
    shift, x = shift - pairs, x << 2 * pairs
    half, root = divide(x >> 1, 1), 1 << 28
    for _ in range(5):
        cube = clip32(high_mul(high_mul(root, root), root) * 64)
        root = clip32((high_mul((1 << 28) + (1 << 27), root) - high_mul(half, cube)) * 8)
    root = high_mul(root, 1518500250)
    return (root << -shift, 0) if shift < 0 else (root, -shift)


def normalized(row: list[int], before: bool) -> list[int]:
    inverse, shift = inverse_root(sum(x * x for x in row))
    if before:
        return [multiply(128 * x, inverse, shift) for x in row]
    return [multiply(x, inverse, shift + 7) for x in row]


def multiplied() -> list[Row]:
    rows = []
    x = np.concatenate([EDGES, RANDOM.integers(-(1 << 31), 1 << 31, 23)]).astype(np.int32).reshape(4, 8)
    for multiplier, shift in ((1 << 30, -5), ((1 << 31) - 1, 0), (1518500250, 3), (1, -31), (-(1 << 31), 0)):
        m, s = np.int32(multiplier), np.int32(shift)
        wanted = [each(multiply, x, m, s)]
        rows.append(
            Row("FixedPointMultiply", [x, m, s], {}, oracle=wanted, note=f"{multiplier}_{shift}", **DOMAIN)
        )
    m = RANDOM.integers(1 << 30, 1 << 31, (1, 8)).astype(np.int32)
    s = RANDOM.integers(-12, 3, (1, 8)).astype(np.int32)
    near = (x >> 8).astype(np.int32)
    rows.append(
        Row(
            "FixedPointMultiply", [near, m, s], {}, oracle=[each(multiply, near, m, s)], note="axis", **DOMAIN
        )
    )
    wide = RANDOM.integers(-(1 << 40), 1 << 40, (4, 8))
    down = (s - 8).astype(np.int32)
    wanted = [each(multiply_wide, wide, m, down)]
    rows.append(Row("FixedPointMultiply", [wide, m, down], {}, oracle=wanted, note="wide", **DOMAIN))
    return rows


def shifted() -> list[Row]:
    x = np.concatenate([EDGES, np.arange(-20, 20)]).astype(np.int32)
    exponent = np.arange(49, dtype=np.int32) % 5
    return [
        Row(
            "RoundingShift", [x, np.int32(3)], {}, oracle=[each(divide, x, np.int32(3))], note="one", **DOMAIN
        ),
        Row("RoundingShift", [x, exponent], {}, oracle=[each(divide, x, exponent)], note="each", **DOMAIN),
    ]


def away() -> list[Row]:
    """Ties, what lies just below one, and floats that have no fraction."""
    near = [0.0, 0.5, 1.5, 2.5, 0.49999997, 0.99999994, 8388607.5, 8388609.0, 3e9, np.inf]
    rows = []
    for dtype in (np.float32, np.float64):
        x = np.array([*near, np.nextafter(dtype(0.5), dtype(0)), *RANDOM.uniform(-9, 9, 21)], dtype)
        x = np.concatenate([x, -x, [dtype(np.nan)]]).astype(dtype)
        wanted = np.array([c_round(v) for v in x.tolist()], dtype)
        rows.append(Row("RoundAway", [x], {}, oracle=[wanted], note=np.dtype(dtype).name, **DOMAIN))
    return rows


def c_round(x: float) -> float:
    """C's round, by decimal arithmetic that is exact."""
    if not math.isfinite(x):
        return x
    return math.copysign(float(Decimal(x).copy_abs().quantize(Decimal(1), ROUND_HALF_UP)), x)


def leading() -> list[Row]:
    x = np.array([0, 1, 2, 3, 255, 1 << 16, (1 << 30) - 1, 1 << 30, (1 << 31) - 1], np.int32)
    wanted = each(lambda n: 32 - n.bit_length(), x)
    return [Row("LeadingZeros", [x], {}, oracle=[wanted], note="edges", **DOMAIN)]


def rows_of_bytes() -> list[Row]:
    rows = []
    table = np.round(2.0**31 * np.exp(-np.arange(256) * 0.05)).clip(0, 2**31 - 1).astype(np.int32)
    for dtype, number in ((np.int8, 3), (np.uint8, 2)):
        info = np.iinfo(dtype)
        x = RANDOM.integers(info.min, info.max + 1, (3, 2, 9)).astype(dtype)
        made = [softmax(r.tolist(), table.tolist(), 8, info.min) for r in x.reshape(-1, 9)]
        wanted = np.array(made).reshape(x.shape).astype(dtype)
        rows.append(
            Row("Softmax", [x, table], {"to": number}, oracle=[wanted], note=dtype.__name__, **DOMAIN)
        )
    x = np.vstack([RANDOM.integers(-255, 256, (5, 7)), [[1, *[0] * 6]], [[0] * 7]]).astype(np.int32)
    for before in (0, 1):
        wanted = np.array([normalized(r, bool(before)) for r in x.tolist()], np.int32)
        rows.append(
            Row("L2Normalize", [x], {"before": before}, oracle=[wanted], note=f"before{before}", **DOMAIN)
        )
    return rows


def logarithms() -> list[Row]:
    """With the tables of its operator of TFLite, beside what litert's reference kernel gives of it."""
    d, name = Draw("LOG_SOFTMAX_INT8"), "LOG_SOFTMAX_INT8"
    scale = d.like("INT8", (4, 40)).scale
    assert isinstance(scale, float)
    exponentials, least = exp_table(scale)
    differences, divisor, shift = log_table(scale, least)
    with np.load(Path(__file__).parent.parent / "tflite" / "golden.npz") as held:
        wanted = held[name]
    given = [drawn(f"{name}0", np.int8, (4, 40)), exponentials, differences]
    how = {"least": -least, "divisor": divisor, "shift": shift}
    return [Row("LogSoftmax", given, how, oracle=[wanted], **DOMAIN)]


def products() -> list[Row]:
    x = RANDOM.integers(-(1 << 15), 1 << 15, (1, 4, 6, 5)).astype(np.int16)
    w = RANDOM.integers(-127, 128, (6, 2, 3, 3)).astype(np.int8)
    wanted = np.zeros((1, 6, 3, 3), np.int64)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))).astype(np.int64)
    for oc, oh, ow in np.ndindex(6, 3, 3):
        window = padded[0, oc // 3 * 2 : oc // 3 * 2 + 2, 2 * oh : 2 * oh + 3, 2 * ow : 2 * ow + 3]
        wanted[0, oc, oh, ow] = np.sum(window * w[oc])
    how = {"group": 2, "pads": [1, 1, 1, 1], "strides": [2, 2]}
    a = RANDOM.integers(-200, 200, (1, 2, 3, 4)).astype(np.int32)
    b = RANDOM.integers(-127, 128, (2, 3, 3, 3)).astype(np.int32)
    full = np.zeros((1, 3, 7, 9), np.int32)
    for c, oh, ow in np.ndindex(2, 3, 4):
        full[0, :, 2 * oh : 2 * oh + 3, 2 * ow : 2 * ow + 3] += a[0, c, oh, ow] * b[c]
    cut = {"strides": [2, 2], "pads": [1, 0, 0, 1]}
    return [
        Row("ConvInteger", [x, w], how, oracle=[wanted], note="groups", **DOMAIN),
        Row("ConvTranspose", [a, b], cut, oracle=[full[:, :, 1:, :-1].copy()], note="cut", **DOMAIN),
    ]


def sums() -> list[Row]:
    images = [RANDOM.integers(-128, 128, (2, 3, 5, 4)), RANDOM.integers(0, 256, (1, 8, 1, 6))]
    return [
        Row("GlobalSum", [x], {}, oracle=[x.sum((2, 3), np.int32, keepdims=True)], **DOMAIN)
        for x in (images[0].astype(np.int8), images[1].astype(np.uint8), images[0].astype(np.int16))
    ]


ROWS = [*multiplied(), *shifted(), *away(), *leading(), *rows_of_bytes(), *logarithms(), *products(), *sums()]
