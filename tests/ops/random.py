"""Rows of random operators. The oracle is the generator once more, in Python's own integers.

What the numbers are like (mean, deviation, distribution) is tested in `tests/test_random.py`.
"""

import hashlib
import math
import struct
from collections.abc import Iterator

import ml_dtypes
import numpy as np
from onnx import TensorProto

from tests.ops.rows import Array, Row, floats

MASK = 0xFFFFFFFF


def philox(counter: tuple[int, ...], key: tuple[int, ...]) -> tuple[int, ...]:
    """Philox4x32-10, as its authors describe it."""
    (a, b, c, d), (k, q) = counter, key
    for _ in range(10):
        high0, low0 = divmod(a * 0xD2511F53, 1 << 32)
        high1, low1 = divmod(c * 0xCD9E8D57, 1 << 32)
        a, b, c, d = high1 ^ b ^ k, low1, high0 ^ d ^ q, low0
        k, q = (k + 0x9E3779B9) & MASK, (q + 0xBB67AE85) & MASK
    return a, b, c, d


def key(seed: float | None) -> tuple[int, ...]:
    data = hashlib.sha256(b"y0").digest()[:8] if seed is None else struct.pack("<d", seed)
    return struct.unpack("<II", data)


def words(count: int, seed: float | None = None, call: int = 0) -> list[int]:
    blocks = (philox((i, 0, call & MASK, call >> 32 & MASK), key(seed)) for i in range(count // 4 + 1))
    return [w for block in blocks for w in block][:count]


def units(count: int, seed: float | None = None, call: int = 0, bits: int = 24) -> Array:
    return np.array([w >> (32 - bits) for w in words(count, seed, call)]) / 2.0**bits


def doubles(count: int, seed: float | None = None) -> Array:
    w = words(2 * count, seed)
    return np.array([((a >> 5 << 26) + (b >> 6)) / 2.0**53 for a, b in zip(w[::2], w[1::2], strict=True)])


def normals(count: int, seed: float | None = None) -> Array:
    pairs = words(count + 1, seed)
    out = []
    for i in range(count):
        size = math.sqrt(-2 * math.log((pairs[i // 2 * 2] + 0.5) / 2.0**32))
        turn = 2 * math.pi * (pairs[i // 2 * 2 + 1] >> 8) / 2.0**24
        out.append(size * (math.sin(turn) if i % 2 else math.cos(turn)))
    return np.array(out)


def number(n: int) -> Array:
    return np.array(n, np.int64)


def uniform() -> Iterator[Row]:
    made = units(6).reshape(2, 3).astype(np.float32)
    yield Row("RandomUniform", [], {"shape": [2, 3]}, oracle=[made])
    far = {"shape": [5], "low": -1.0, "high": 3.0, "seed": 7.5}
    yield Row("RandomUniform", [], far, oracle=[(units(5, 7.5) * 4 - 1).astype(np.float32)])
    double = {"shape": [3], "dtype": TensorProto.DOUBLE}
    yield Row("RandomUniform", [], double, oracle=[doubles(3)], tolerance=1e-15)
    half = {"shape": [9], "dtype": TensorProto.FLOAT16}
    yield Row("RandomUniform", [], half, oracle=[units(9, bits=11).astype(np.float16)], tolerance=0)
    yield Row("RandomUniform", [], {"shape": [0, 2]}, oracle=[np.zeros((0, 2), np.float32)])
    like = units(6).reshape(2, 3)
    yield Row("RandomUniformLike", [floats(2, 3)], oracle=[like.astype(np.float32)])
    yield Row(
        "RandomUniformLike", [np.zeros((2, 3), np.int64)], {"dtype": 1}, oracle=[like.astype(np.float32)]
    )
    brain = units(6, bits=8).reshape(2, 3).astype(ml_dtypes.bfloat16)
    yield Row("RandomUniformLike", [floats(2, 3).astype(ml_dtypes.bfloat16)], oracle=[brain], tolerance=0)


def normal() -> Iterator[Row]:
    yield Row("RandomNormal", [], {"shape": [7]}, oracle=[normals(7).astype(np.float32)])
    far = {"mean": 5.0, "scale": 0.5, "seed": 1.0}
    made = (normals(6, 1.0) * 0.5 + 5).reshape(3, 2).astype(np.float32)
    yield Row("RandomNormal", [], {"shape": [3, 2], **far}, oracle=[made])
    yield Row("RandomNormalLike", [floats(3, 2)], far, oracle=[made])
    yield Row(
        "RandomNormalLike",
        [floats(3, 2, dtype=np.float16)],
        oracle=[normals(6).reshape(3, 2).astype(np.float16)],
        tolerance=1e-3,
    )


SURE = np.float32([0, 1, np.nan, 0.5, 0.25, 0.75, 2, -1])
LIKELY = np.float32([[0, 1, 2, -np.inf], [-5, -np.inf, -np.inf, -np.inf], [800, 800, 0, 0]])


def chosen(x: Array, size: int) -> Array:
    share = np.exp(x.astype(np.float64) - x.max(1, keepdims=True)).cumsum(1)
    u = np.array(words(len(x) * size)).reshape(len(x), size, 1) / 2.0**32
    return (share[:, None] <= u * share[:, None, -1:]).sum(-1)


X = floats(4, 5)
HALF = units(20).reshape(4, 5) >= 0.5

ROWS = [
    *uniform(),
    *normal(),
    Row("Bernoulli", [SURE], oracle=[(units(8) < SURE).astype(np.float32)]),
    Row("Bernoulli", [SURE], {"dtype": TensorProto.BOOL, "seed": 3.0}, oracle=[units(8, 3.0) < SURE]),
    Row(
        "Bernoulli",
        [SURE.astype(np.float64)],
        {"dtype": 6},
        oracle=[(doubles(8) < SURE).astype(np.int32)],
        opset=15,
    ),
    Row("Multinomial", [LIKELY], {"sample_size": 9}, oracle=[chosen(LIKELY, 9).astype(np.int32)]),
    Row(
        "Multinomial",
        [LIKELY.astype(np.float64)],
        {"sample_size": 2, "dtype": 7},
        oracle=[chosen(LIKELY, 2)],
        opset=7,
    ),
    Row("Multinomial", [LIKELY], {"sample_size": 0}, oracle=[np.zeros((3, 0), np.int32)]),
    Row("Dropout", [X, None, np.array(True)], outputs=2, oracle=[np.where(HALF, X * 2, 0), HALF]),
    Row(
        "Dropout",
        [X, np.float32(0.25), np.array(True)],
        constant=[1, 2],
        oracle=[np.where(units(20).reshape(4, 5) >= 0.25, X / np.float32(0.75), 0)],
    ),
    Row(
        "Dropout",
        [X, np.float32(0.25), np.array(False)],
        outputs=2,
        oracle=[X, X == X],
        note="inference",
        tolerance=0,
    ),
    Row(
        "Dropout",
        [X, np.float32(0), np.array(True)],
        outputs=2,
        oracle=[X, X == X],
        note="nothing",
        tolerance=0,
    ),
    Row("Dropout", [X, np.float32(1), np.array(True)], outputs=2, oracle=[X * 0, X != X], note="everything"),
    Row(
        "Dropout",
        [X, np.float32(0), np.array(True)],
        constant=[1, 2],
        outputs=2,
        oracle=[X, X == X],
        note="known",
    ),
    Row(
        "Dropout",
        [X.astype(np.float64), np.float32(0.5), np.array(True)],
        {"seed": 3},
        opset=12,
        oracle=[np.where(doubles(20, 3).reshape(4, 5) >= 0.5, X.astype(np.float64) * 2, 0)],
    ),
]
