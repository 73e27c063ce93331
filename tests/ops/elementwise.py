"""Rows of arithmetic and the elementary functions."""

import math
from typing import Any

import ml_dtypes
import numpy as np

from tests.ops.rows import Array, Row, extremes, floats, integers, special

INTEGERS = (np.int8, np.uint16, np.int32, np.uint64)  # every width, both kinds
HALF = {"oracle": "reference", "tolerance": 2e-3, "note": "f16"}


def pairs(values: Array) -> tuple[Array, Array]:
    """Every value against every value."""
    return values[:, None], values[None, :]


def within(lo: float, hi: float, dtype: type = np.float64) -> Array:
    return np.linspace(lo, hi, 24, dtype=dtype).reshape(2, 3, 4)


def function(op: str, lo: float, hi: float, double: object = "ort", **more: object) -> list[Row]:
    """An elementary function: special values, its domain in both float types."""
    return [
        Row(op, [special()], note="special", **more),  # type: ignore[arg-type]
        Row(op, [within(lo, hi, np.float32)], tolerance=1e-6),
        Row(op, [within(lo, hi)], oracle=double, tolerance=1e-13, note="f64"),
    ]


FUNCTIONS = [
    *function("Exp", -5, 5),
    *function("Log", 1e-3, 50),
    *function("Sqrt", 0, 50),
    *function("Reciprocal", 0.5, 9),
    *function("Sin", -9, 9),
    *function("Cos", -9, 9),
    *function("Tan", -1.5, 1.5, "reference"),
    *function("Asin", -1, 1, "reference"),
    *function("Acos", -1, 1, "reference"),
    *function("Atan", -6, 6, "reference"),
    *function("Sinh", -4, 4, "reference"),
    *function("Cosh", -4, 4, "reference"),
    *function("Tanh", -4, 4),
    *function("Asinh", -9, 9, "reference"),
    *function("Acosh", 1, 9, "reference"),
    *function("Atanh", -0.99, 0.99, "reference"),
    *function("Erf", -3, 3, [np.vectorize(math.erf)(within(-3, 3))]),
    *(
        Row("Erf", [np.array([-9, -5, 0, 5, 9]).astype(t)], oracle=[np.array(y).astype(t)])
        for t, y in (
            *((t, [-1, 0, 0, 0, 1]) for t in ("int8", "int16", "int32", "int64")),
            *((t, [1, 1, 0, 0, 1]) for t in ("uint8", "uint16", "uint32", "uint64")),
        )
    ),
    *function("Floor", -4, 4),
    *function("Ceil", -4, 4),
    *function("Round", -4, 4),
    *function("Neg", -4, 4),
    *function("Abs", -4, 4),
    *function("Sign", -4, 4),
]
# Neighbours of multiples of pi/2 among them (`tests/test_math.py` has all), beyond any reduction by parts.
LARGE = np.array(
    [2.0**18 + 1, 1e6, 10741887 * 2.0**11, 1e15, 9012376 * 2.0**53, 16367173 * 2.0**72, 3e38], np.float32
)
CIRCULAR = [
    Row(op, [x], oracle=[f(x.astype(wide)).astype(x.dtype)], tolerance=tolerance, note=f"large {x.dtype}")
    for op, f in (("Sin", np.sin), ("Cos", np.cos), ("Tan", np.tan))
    for x, wide, tolerance in (
        (np.concatenate([LARGE, -LARGE]), np.float64, 2e-7),
        (np.array([1e15, -1e22, 6381956970095103 * 2.0**797, 1e300]), np.longdouble, 4e-16),
    )
]
ARITHMETIC = [
    Row(op, pairs(special().astype(t)), note=f"special {np.dtype(t).name}")
    for op in ("Add", "Sub", "Mul", "Div")
    for t in (np.float32, np.float64)
]
SHAPES = [
    *(Row(op, [within(-4, 4, np.float16)], **HALF) for op in ("Exp", "Tanh", "Floor", "Neg")),
    *(Row(op, [floats()]) for op in ("Exp", "Floor", "Neg")),
    *(Row(op, [floats(2, 0, 3)]) for op in ("Exp", "Floor", "Neg")),
    Row("Add", [floats(2, 3, 4), floats(3, 1, seed=1)]),
    Row("Sub", [floats(4), floats(2, 3, 1, seed=1)]),
    Row("Mul", [floats(), floats(2, 3, seed=1)]),
    Row("Div", [floats(), floats(seed=1)]),
    Row("Add", [floats(2, 0, 3), floats(1, 1, seed=1)]),
    Row("Sub", [floats(1), floats(0, seed=1)]),
    Row("Add", [floats(3, 4), floats(4, seed=1)], constant=[1]),
    *(
        Row(op, [floats(5, dtype=np.float16), floats(2, 1, dtype=np.float16)], **HALF)
        for op in ("Add", "Div")
    ),
]
WRAPPING = [
    Row(op, pairs(extremes(t)), oracle="reference", note=np.dtype(t).name)
    for op in ("Add", "Sub", "Mul")
    for t in INTEGERS
]
MANY = [
    Row(op, [floats(3, 1), floats(4, seed=1), floats(2, 1, 1, seed=2)])
    for op in ("Sum", "Mean", "Max", "Min")
] + [
    *(Row(op, [special()], note="one input") for op in ("Sum", "Mean", "Max", "Min")),
    *(Row(op, pairs(special()), note="special") for op in ("Sum", "Mean", "Max", "Min")),
    *(Row(op, [floats(4, dtype=np.float64)] * 2, note="f64") for op in ("Sum", "Max", "Min")),
    Row("Mean", [floats(4, dtype=np.float64), floats(4, seed=1, dtype=np.float64)], oracle="reference"),
    *(Row(op, [floats(4, dtype=np.float16)] * 3, **HALF) for op in ("Sum", "Mean", "Max", "Min")),
    *(Row(op, [floats(3, 4), floats(3, 4, seed=1)], opset=6) for op in ("Sum", "Mean", "Max", "Min")),
    *(
        Row(op, pairs(extremes(t)), oracle="reference", note=np.dtype(t).name)
        for op in ("Max", "Min")
        for t in INTEGERS
    ),
]
UNARY_INTEGERS = [
    *(Row(op, [extremes(t)], note=np.dtype(t).name) for op in ("Abs", "Sign") for t in INTEGERS),
    *(Row("Neg", [extremes(t)], note=np.dtype(t).name) for t in (np.int8, np.int32, np.int64)),
    Row("Neg", [extremes(np.int16)], oracle=[-extremes(np.int16)], note="int16"),
]


def quotients(t: type) -> Array:
    """Truncating quotients of every extreme by every other, 0 by zero; the one overflow wraps."""
    a, b = (v.astype(object) for v in pairs(extremes(t)))
    divisor = np.where(b == 0, 1, b)
    quotient = abs(a) // abs(divisor) * np.where((a < 0) == (b < 0), 1, -1)
    bits = np.iinfo(t).bits
    return np.where(b == 0, 0, quotient % (1 << bits)).astype(f"uint{bits}").astype(t)


def remainders(t: type, fmod: int) -> Array:
    """Of the sign of the divisor, or with fmod of the dividend; 0 by zero."""
    a, b = (v.astype(object) for v in pairs(extremes(t)))
    divisor = np.where(b == 0, 1, b)
    found = abs(a) % abs(divisor) * np.where(a < 0, -1, 1) if fmod else a % divisor
    return np.where(b == 0, 0, found).astype(t)


def remote(t: Any) -> list[Array]:
    """Pairs of random bits, most of whose quotients have more digits than the type."""
    size = np.dtype(t).itemsize
    random = np.random.default_rng(7)
    bits = random.integers(0, 1 << 8 * size, (2, 300), np.uint64, endpoint=False).astype(f"u{size}").view(t)
    a, b = np.abs(bits)
    a = np.copysign(a, random.choice([-1, 1], 300).astype(t))
    with np.errstate(invalid="ignore"):
        return [*np.where(np.isfinite(bits) & (bits != 0), np.stack([a, b]), np.array(3, t))]


def exact_remainders(t: Any, fmod: int) -> Array:
    """fmod is exact in any type; the sum of the other remainder is rounded."""
    a, b = (v.astype(np.float64) for v in remote(t))
    r = np.fmod(a, b)
    r = r if fmod else np.where((r != 0) & (a < 0), r.astype(t) + b.astype(t), r)
    return r.astype(t)


FINITE = np.array([0.0, -0.0, 1, -1, 2.5, -2.5, 7, -7, 1e-3], np.float32)
REMOTE: dict[str, Any] = {
    **{str(np.dtype(t)): t for t in (np.float32, np.float64, np.float16)},
    "bfloat16": ml_dtypes.bfloat16,
}
DIVISION = [
    *(Row("Div", pairs(extremes(t)), oracle=[quotients(t)], note=np.dtype(t).name) for t in INTEGERS),
    *(
        Row("Mod", pairs(extremes(t)), {"fmod": m}, oracle=[remainders(t, m)], note=np.dtype(t).name)
        for m in (0, 1)
        for t in INTEGERS
    ),
    *(
        Row("Div", [integers(9, dtype=t), integers(9, dtype=t, low=1, high=99, seed=1)], note="ort")
        for t in (np.int32, np.int64, np.int8)
    ),
    *(
        Row(
            "Mod",
            [integers(9, dtype=t), integers(9, dtype=t, low=1, high=99, seed=1)],
            {"fmod": m},
            note="ort",
        )
        for t in (np.int32, np.uint8)
        for m in (0, 1)
    ),
    *(
        Row(
            "Mod", remote(t), {"fmod": 1}, oracle=[exact_remainders(t, 1)], tolerance=0, note=f"remote {name}"
        )
        for name, t in REMOTE.items()
    ),
    *(
        Row("Mod", remote(t), oracle=[exact_remainders(t, 0)], tolerance=0, opset=28, note=f"remote {name}")
        for name, t in REMOTE.items()
    ),
    Row("Mod", pairs(special()), {"fmod": 1}, note="special"),
    Row("Mod", pairs(special(np.float64)), {"fmod": 1}, note="special f64"),
    Row("Mod", [floats(5, 1, scale=9), floats(7, seed=1)], {"fmod": 1}, tolerance=1e-6),
    Row("Mod", [floats(5, 1, scale=9, dtype=np.float16), floats(7, dtype=np.float16)], {"fmod": 1}, **HALF),
    Row("Mod", [floats(5, 1, scale=9), floats(7, seed=1)], opset=28, oracle="reference"),
    Row(
        "Mod",
        [FINITE[:, None], FINITE[2:]],
        opset=28,
        oracle=[np.mod(FINITE[:, None], FINITE[2:])],
        note="signs",
    ),
]
BASES = np.array([0.0, -0.0, 1, -1, 2, -2, 0.5, -0.5, 3.7, -3.7, np.inf, -np.inf, np.nan], np.float32)
POWERS = [
    Row("Pow", pairs(BASES), note="special"),
    Row("Pow", pairs(BASES.astype(np.float64)), tolerance=1e-14, note="special f64"),
    Row("Pow", [within(0, 9, np.float32), within(-3, 3, np.float32)], tolerance=1e-6),
    Row("Pow", [within(-9, 9, np.float16), np.array(2, np.float16)], constant=[1], **HALF),
    *(
        Row("Pow", [special(), np.array(e, np.float32)], constant=[1], note=f"to {e}")
        for e in (0, 1, 2, 3, 0.5, -1)
    ),
    *(
        Row("Pow", [within(-9, 9, np.float32), np.array([-2, 0, 1, 5], t)], note=np.dtype(t).name)
        for t in (np.int32, np.int64, np.float64)
    ),
    Row("Pow", [within(1, 9), np.array([-2, 0, 1, 5], np.float32)], note="f64 to f32"),
    Row("Pow", [np.arange(-4, 5, dtype=np.int32)[:, None], np.arange(6, dtype=np.int32)], note="int32"),
    Row("Pow", [np.arange(-4, 5)[:, None], np.arange(6)], note="int64"),
    Row("Pow", [np.arange(-4, 5)[:, None], np.arange(6, dtype=np.int32)], note="int64 to int32"),
    Row(
        "Pow",
        [np.arange(-2, 3)[:, None], np.array([-1, -2])],
        oracle=[np.array([[0, 0], [-1, 1], [0, 0], [1, 1], [0, 0]])],
        note="negative exponents",
    ),
    *(
        Row(
            "Pow",
            [np.array([0, 1, 3, 2**64 - 1], np.uint64)[:, None], np.array([0, 1, 3, 2**40], np.uint64)],
            oracle=[
                np.array([[pow(b, e, 2**64) for e in (0, 1, 3, 2**40)] for b in (0, 1, 3, 2**64 - 1)], "u8")
            ],
            constant=constant,
            note=f"uint64 wraps {len(constant)}",
        )
        for constant in ((), (0, 1))
    ),
    Row("Pow", [np.arange(-4, 5), np.array(2)], constant=[1], note="int64 square"),
]
WHERE = [
    Row("Where", [np.array([[True], [False]]), special(), -special()]),
    *(
        Row(
            "Where",
            [np.array([[True], [False]]), extremes(t), extremes(t)[::-1].copy()],
            note=np.dtype(t).name,
        )
        for t in (np.uint8, np.int32, np.int64)
    ),
    *(
        Row(
            "Where",
            [np.array([[True], [False]]), values, values[::-1].copy()],
            oracle="reference",
            note=values.dtype.name,
        )
        for values in (extremes(np.int8), floats(4, dtype=np.float16), floats(4, dtype=np.float64))
    ),
    Row("Where", [np.array(True), np.array(False), np.array([True, False])], oracle="reference", note="bool"),
    Row("Where", [np.ones((0, 2), bool), floats(2), floats(1, 2)]),
]
OLD = [
    Row(
        op,
        [floats(2, 3, 4), b],
        {"broadcast": 1, **attributes},
        opset=opset,
        oracle=[f(floats(2, 3, 4), wide)],
    )
    for opset, op, f, attributes, b, wide in [
        (6, "Add", np.add, {}, floats(3, 4, seed=1), floats(3, 4, seed=1)),
        (6, "Sub", np.subtract, {"axis": 1}, floats(3, seed=1), floats(3, 1, seed=1)),
        (1, "Mul", np.multiply, {"axis": 0}, floats(2, 3, seed=1), floats(2, 3, 1, seed=1)),
        (6, "Div", np.divide, {"axis": -2}, floats(3, 1, seed=1), floats(3, 1, seed=1)),
        (6, "Add", np.add, {}, floats(seed=1), floats(seed=1)),
    ]
] + [
    Row(
        "Add", [floats(2, 3), floats(2, 3, seed=1)], {"consumed_inputs": [0, 0]}, opset=1, oracle="reference"
    ),
    Row("Pow", [within(0, 2, np.float32), within(0, 2, np.float32)], opset=1, oracle="reference"),
    Row(
        "Pow",
        [within(0, 2, np.float32), floats(3)],
        {"broadcast": 1, "axis": 1},
        opset=1,
        oracle=[within(0, 2, np.float32) ** floats(3)[:, None]],
    ),
    *(
        Row(op, [floats(4)], {"consumed_inputs": [0]}, opset=1, oracle="reference")
        for op in ("Exp", "Neg", "Floor", "Abs")
    ),
]
IDENTITY = [
    *(Row("Identity", [extremes(t)], note=np.dtype(t).name) for t in INTEGERS),
    Row("Identity", [special()]),
    Row("Identity", [floats(2, 0)]),
    Row("Identity", [np.array(True)], note="bool"),
]
ROWS = [
    *(*FUNCTIONS, *CIRCULAR, *ARITHMETIC, *SHAPES, *WRAPPING, *MANY, *UNARY_INTEGERS, *DIVISION),
    *(*POWERS, *WHERE, *OLD, *IDENTITY),
]
