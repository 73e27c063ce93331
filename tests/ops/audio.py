"""Rows of TFLite Micro's audio operators. Transforms are compared with what it computes
(`tests/tflite/record_micro.py`); the others with its kernels' arithmetic in Python's integers, at the edges.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tests.ops.rows import Array, Row
from tests.tflite.micro import cases

DOMAIN: dict[str, Any] = {"domain": "ai.ingot.tflite", "opset": 1}
RANDOM = np.random.default_rng(12)
EDGES = [0, 1, 2, 3, 4, 1023, 1024, 2047, 2048, (1 << 16) - 1, 1 << 16, (1 << 31) - 1, 1 << 31, (1 << 32) - 1]
MASK = (1 << 32) - 1


def wide(count: int, bits: int) -> list[int]:
    """Numbers of all sizes."""
    return [int(RANDOM.integers(0, 1 << int(b), dtype=np.uint64)) for b in RANDOM.integers(1, bits, count)]


def unsigned() -> list[int]:
    return [*EDGES, *wide(26, 32)]


def root(x: int, bits: int) -> int:
    """The nearest; numbers below 2^32 have a root of 16 bits."""
    floor = math.isqrt(x)
    return min(floor + (x - floor * floor > floor), 0xFFFFFFFF if x >> 32 else 0xFFFF) >> bits


def logarithm(x: int, correction: int, scale: int) -> int:
    """Lines between the 128 segments of an octave."""
    x = (x << correction) & MASK
    if x < 2:
        return 0
    whole = x.bit_length() - 1
    part = ((x - (1 << whole)) << 16) >> whole
    low, high = (round((math.log2(1 + i / 128) - i / 128) * 65536) for i in (part >> 9, (part >> 9) + 1))
    log2 = (whole << 16) + part + low + ((high - low) * (part % 512) >> 16)
    natural = (round(math.log(2) * 65536) * log2 + 32768) >> 16
    return min(((scale * natural + 32768) & MASK) >> 16, 32767)


def gained(x: int, noise: int, gains: list[int], shift: int) -> int:
    """Quadratic between the powers of two of the noise."""
    gain = gains[min(noise, 2)]
    if noise > 2:
        bits = noise.bit_length()
        a, b, c = gains[4 * bits - 6 : 4 * bits - 3]
        part = (noise << 11 >> bits) & 1023
        gain = a + (((((c * part) >> 5) + b * 32) * part + (1 << 14)) >> 15)
    ratio = ((x * gain) >> shift) & MASK
    return ratio * ratio >> 20 if ratio < 8192 else (ratio >> 6) - 64


def transforms() -> Iterator[Row]:
    recorded = cases()
    with np.load(Path(__file__).parent.parent / "tflite" / "micro.npz") as held:
        for name in ("rfft 60", "irfft 60", "rfft int32 30", "irfft int32 30", "auto scale"):
            x, kind = recorded[name][1][0], name.split()[0]
            wanted = [held[f"{name}/0/{i}"] for i in range(2) if f"{name}/0/{i}" in held]
            if kind == "auto":
                yield Row("SignalFftAutoScale", [x], outputs=2, oracle=wanted, **DOMAIN)
            else:
                length = {"fft_length": int(name.split()[-1])}
                yield Row(kind.capitalize(), [x], length, oracle=wanted, note=str(x.dtype), **DOMAIN)


def points() -> Iterator[Row]:
    x = np.array([-32768, 32767, -1, 0, 1, 300, -300, 12345], np.int16)
    products = (x.astype(np.int64) * x[::-1] >> 12).clip(-32768, 32767).astype(np.int16)
    yield Row("SignalWindow", [x, x[::-1].copy()], {"shift": 12}, oracle=[products], **DOMAIN)
    squares = (x.astype(np.int64) ** 2).reshape(-1, 2).sum(1)
    squares[3] = 0
    yield Row("SignalEnergy", [x], {"start": 0, "end": 3}, oracle=[squares.astype(np.uint32)], **DOMAIN)
    many = np.array([*EDGES, *((1 << 32) + n for n in EDGES), (1 << 64) - 1, *wide(31, 64)], np.uint64)
    for bits in (0, 3):
        wanted = np.array([root(int(n), bits) for n in many], np.uint32)
        given = [many, np.array(bits, np.int32)]
        yield Row("SignalFilterBankSquareRoot", given, oracle=[wanted], note=f"by{bits}", **DOMAIN)
    for correction, scale in ((0, 64), (3, 1600)):
        how = {"input_correction_bits": correction, "output_scale": scale}
        found = np.array(unsigned(), np.uint32)
        logs = np.array([logarithm(int(n), correction, scale) for n in found], np.int16)
        yield Row("SignalFilterBankLog", [found], how, oracle=[logs], **DOMAIN)


def bands() -> Iterator[Row]:
    x = np.array(EDGES, np.uint32)
    starts = np.array([[0, 4, 9], [2, 0, 10]], np.int32)
    weights = RANDOM.integers(-4096, 4097, (2, 3, 4)).astype(np.int16)
    sums = [
        sum(int(x[starts[h, c] + k]) * int(weights[h, c, k]) for h in (0, 1) for k in range(4)) % (1 << 64)
        for c in range(3)
    ]
    yield Row("SignalFilterBank", [x, starts, weights], oracle=[np.array(sums, np.uint64)], **DOMAIN)
    signal, noise = (np.array(unsigned(), np.uint32) for _ in range(2))
    gains = [*RANDOM.integers(0, 4000, 125)]
    wanted = [gained(int(a), int(b), list(map(int, gains)), 6) for a, b in zip(signal, noise, strict=True)]
    given: list[Array] = [signal, noise, np.array(gains, np.int16)]
    yield Row("SignalPCAN", given, {"snr_shift": 6}, oracle=[np.array(wanted, np.uint32)], **DOMAIN)
    for clamping in (0, 1):
        how = {
            "smoothing": [409, 983],
            "one_minus_smoothing": [15975, 15401],
            "min_signal_remaining": 819,
            "smoothing_bits": 10,
            "spectral_subtraction_bits": 14,
            "clamping": clamping,
        }
        results = [
            subtracted(i, int(a), int(b), how) for i, (a, b) in enumerate(zip(signal, noise, strict=True))
        ]
        arrays = [np.array(a, np.uint32) for a in zip(*results, strict=True)]
        kind = "SignalFilterBankSpectralSubtraction"
        yield Row(kind, [signal, noise], how, outputs=2, oracle=arrays, **DOMAIN)


def subtracted(i: int, x: int, noise: int, how: dict[str, Any]) -> tuple[int, int]:
    scaled = (x << how["smoothing_bits"]) & MASK
    new, old, bits = (
        how["smoothing"][i % 2],
        how["one_minus_smoothing"][i % 2],
        how["spectral_subtraction_bits"],
    )
    estimate = ((scaled * new + noise * old) >> bits) & MASK
    least = ((x * how["min_signal_remaining"]) >> bits) & MASK
    taken = min(estimate, scaled)
    return max((scaled - taken) >> how["smoothing_bits"], least), taken if how["clamping"] else estimate


ROWS = [*transforms(), *points(), *bands()]
