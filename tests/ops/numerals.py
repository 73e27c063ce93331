"""Rows of casts between strings and numbers: every digit and every rounding is exact."""

from typing import Any

import ml_dtypes
import numpy as np
from onnx import TensorProto

from tests.ops.rows import Array, Row, extremes, onnx_type, special, texts

PLAIN_BELOW = {"float16": 1e3, "float64": 1e16}
INTEGERS = ("int8", "uint8", "int16", "int32", "uint32", "int64", "uint64")


def written(v: Any) -> str:
    """As numpy 2.4 writes it; narrow types that it does not know as float32."""
    w = v if v.dtype.name in ("float16", "float32", "float64") else np.float32(v)
    if not np.isfinite(w):
        return str(float(w))
    if w == 0 or 1e-4 <= abs(float(w)) < PLAIN_BELOW.get(v.dtype.name, 1e6):
        return np.format_float_positional(w, unique=True, trim="0")
    return np.format_float_scientific(w, unique=True, trim="-", exp_digits=2)


def to_text(x: Array, wanted: list[str] | None = None, note: str = "") -> Row:
    made = texts(*(map(written, x) if wanted is None else wanted))
    return Row("Cast", [x], {"to": TensorProto.STRING}, oracle=[made], note=f"{x.dtype} to string {note}")


def to_number(words: list[str], dtype: Any, wanted: list[Any], note: str = "") -> Row:
    y = np.array(wanted, dtype)
    attributes = {"to": onnx_type(y)}
    return Row(
        "Cast", [texts(*words)], attributes, oracle=[y], tolerance=0, note=f"string to {y.dtype} {note}"
    )


FLOATS = [0.1, 1e-4, 9.99e-5, 999999.5, 1e6, 1e15, 9999999999999998.0, 1e16, 123456789.0, 2.0**-44, 9.5, 1e22]
EDGES = [5e-324, 1.7976931348623157e308, 2.2250738585072014e-308, 2.0**-1022, 2.0**1000]
WORDS = [
    "1",
    " -2.5\t",
    "+7",
    ".5",
    "5.",
    "1e3",
    "1E+2",
    "-0",
    "0",
    "0e99999",
    "inf",
    "-Infinity",
    "NaN",
    "1e-5",
]
DOUBLES = [
    *("0.1", "9007199254740993", "9007199254740992.99999", "123456789012345678901234567890e-40", "1e22"),
    *("1e400", "-1e400", "1e-400", "4.9406564584124654e-324", "2.4703282292062327e-324"),
    *(
        "2.4703282292062328e-324",
        "1.7976931348623158e308",
        "1.7976931348623159e308",
        "1" * 63,
        "0." + "0" * 60 + "9",
    ),
]
SINGLES = {
    "3.4028235677973367e38": np.inf,
    "3.4028235677973366e38": np.finfo(np.float32).max,
    "7.006492321624085e-46": 0.0,  # half the least, rounded to even
    "7.0064923216240862e-46": 1e-45,
    "16777217": 16777216.0,
    "16777217.0000000000000000000000000000000000001": 16777218.0,
}

ROWS = [
    Row(
        "Cast",
        [np.array("-2.5", object)],
        {"to": TensorProto.DOUBLE},
        oracle=[np.array(-2.5)],
        tolerance=0,
        note="scalar",
    ),
    to_text(np.array(FLOATS, np.float32)),
    to_text(special(np.float32), note="special"),
    to_text(np.array([*FLOATS, 2.0**60])),
    to_text(np.array([*EDGES, -0.0, np.inf, -np.inf, np.nan]), note="edges"),
    to_text(special(np.float16)),
    to_text(np.array([0.1, 1e-3, 3e38, -1.5, np.inf], ml_dtypes.bfloat16)),
    to_text(np.array([0.1, 448, 1.75], ml_dtypes.float8_e4m3fn)),
    *(to_text(extremes(t), [str(v) for v in extremes(t)]) for t in INTEGERS),
    to_text(np.array([True, False]), ["True", "False"]),
    Row("Cast", [np.float32(2.5)], {"to": 8}, oracle=[texts("2.5", shape=())], note="scalar to string"),
    Row(
        "Cast",
        [np.zeros((0, 2), np.float32)],
        {"to": 8},
        oracle=[texts(shape=(0, 2))],
        note="empty to string",
    ),
    Row("CastLike", [np.arange(3.0), texts("")], oracle=[texts("0.0", "1.0", "2.0")], note="to string"),
    to_number(WORDS, np.float32, [float(w) for w in WORDS]),
    to_number(WORDS, np.float64, [float(w) for w in WORDS]),
    to_number(DOUBLES, np.float64, [float(w) for w in DOUBLES], "edges"),
    to_number(list(SINGLES), np.float32, list(SINGLES.values()), "edges"),
    to_number(["1.000488281250000000000000000001", "65520", "1e-8"], np.float16, [1.0009765625, np.inf, 0]),
    to_number(["0.1", "-3e38", "1e39"], ml_dtypes.bfloat16, [0.1, -3e38, np.inf]),
    *(to_number([str(v) for v in extremes(t)], t, list(extremes(t))) for t in INTEGERS),
    to_number([" +12 ", "5.9", "-5.9", "007", "-0"], np.int32, [12, 5, -5, 7, 0]),
    to_number(["0", "1", "-3", "0.0"], np.bool_, [False, True, True, False]),
    Row("CastLike", [texts("1.5", "-2"), np.zeros(1, np.float32)], oracle=[np.array([1.5, -2], np.float32)]),
]
