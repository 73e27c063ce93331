"""Rows of Cast and CastLike: from and to every type."""

import ml_dtypes
import numpy as np

from ingot.formula.operations import convert
from ingot.formula.types import DTYPES
from tests.ops.rows import Array, Row, extremes, onnx_type, special

PLAIN = [name for name, t in DTYPES.items() if t.bits > 8 or not t.is_narrow]  # others: narrow.py
FLOATING, WHOLE = ("float16", "float32", "bfloat16"), ("bool", "int8", "uint16", "int32", "uint64")
VALUES = np.array([0.0, -0.0, 1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, 3.999, 100.0, 126.5, 5.0], np.float32)


def values(t: str) -> Array:
    """What to cast from: the extremes of integers, numbers that every type can hold otherwise."""
    dtype = DTYPES[t].numpy
    if t == "bool":
        return np.array([[True, False]])
    return extremes(dtype) if DTYPES[t].is_integer else VALUES.astype(dtype)


def cast(x: Array, to: str, wanted: Array | None = None, **more: object) -> Row:
    """To `to`; expected as numpy does it unless given."""
    dtype = DTYPES[to].numpy
    if wanted is None:
        with np.errstate(over="ignore"):
            wanted = x.astype(np.float32 if x.dtype == ml_dtypes.bfloat16 else x.dtype).astype(dtype)
    return Row("Cast", [x], {"to": onnx_type(np.zeros(1, dtype))}, oracle=[wanted], tolerance=0, **more)  # type: ignore[arg-type]


def saturated(x: Array, to: str) -> Array:
    """Out of range the standard leaves the result open: ours is the nearest integer, 0 for NaN."""
    info = np.iinfo(to)
    wide = np.nan_to_num(x.astype(np.float64), posinf=1e300, neginf=-1e300).astype(object)
    return np.array([min(max(int(v), info.min), info.max) for v in wide], to)


PAIRS = [
    *(cast(values(a), b, note=f"{a} to {b}") for a in FLOATING for b in PLAIN if DTYPES[b].kind != "u"),
    *(cast(np.abs(values(a)), b, note=f"{a} to {b}") for a in FLOATING for b in ("uint8", "uint64")),
    *(cast(values("float64"), b, note=f"float64 to {b}") for b in ("float16", "int8", "int64", "bool")),
    *(
        cast(values(a), b, note=f"{a} to {b}")
        for a in WHOLE
        for b in ("float32", "float16", "int8", "uint64")
    ),
    *(cast(values("int64"), b, note=f"int64 to {b}") for b in PLAIN),
]
OUT_OF_RANGE = [
    cast(special(DTYPES[a].numpy), b, saturated(special(DTYPES[a].numpy), b), note=f"saturates {a} to {b}")
    for a in ("float32", "float64")
    for b in ("int8", "uint8", "int32", "uint32", "int64", "uint64")
    if a == "float32" or b in ("int32", "uint64")
]
FLOATS = [
    cast(special(), "float64", note="special"),
    cast(special(), "float16", note="special"),
    cast(special(), "bfloat16", note="special"),
    cast(special(), "bool", note="special"),
    cast(np.array([1e39, -1e39, 1e-46, 1 + 2.0**-24, 1 + 3 * 2.0**-24]), "float32", note="rounds"),
    cast(
        np.array([65519, 65520, 2**-25, 3 * 2**-25, 2049, 2051, 6e-8], np.float32), "float16", note="rounds"
    ),
    cast(np.array([1 + 2**-8, 1 + 3 * 2**-8, 3.4e38, 1e-40], np.float32), "bfloat16", note="rounds"),
    cast(np.array([2**24 + 1, 2**53 + 1, -(2**63)]), "float32", note="rounds"),
    cast(np.arange(1 << 16, dtype=np.uint16).view(np.float16)[:31744], "float32", note="every half"),
    cast(np.array(2.5, np.float32), "int32", note="scalar"),
    cast(np.zeros((0, 2), np.float32), "int8", note="empty"),
]
OLD = [
    Row("Cast", [VALUES], {"to": to}, opset=1, oracle=[convert(VALUES, DTYPES[name])])
    for to, name in [("DOUBLE", "float64"), ("INT32", "int32"), ("FLOAT16", "float16"), ("BOOL", "bool")]
] + [Row("Cast", [VALUES], {"to": 7}, opset=opset, note=f"opset {opset}") for opset in (6, 13)]
LIKE = [
    Row(
        "CastLike",
        [values(a), np.zeros(1, DTYPES[b].numpy)],
        oracle=[convert(values(a), DTYPES[b])],
        note=f"{a} to {b}",
    )
    for a, b in [("float32", "int32"), ("int32", "float64"), ("bool", "float16"), ("float32", "bool")]
]


def bits(x: Array, to: str) -> Row:
    """The bytes of `x` as `to`."""
    dtype = DTYPES[to].numpy
    return Row(
        "BitCast", [x], {"to": onnx_type(np.zeros(1, dtype))}, opset=26, oracle=[x.view(dtype)], tolerance=0
    )


BITS = [
    bits(special(), "int32"),
    bits(special(np.float64), "uint64"),
    bits(np.array([0, 1, -1, 2**30, -(2**31)], np.int32), "float32"),
    bits(extremes(np.uint8), "int8"),
    bits(extremes(np.int16), "uint16"),
    bits(extremes(np.int64), "int64"),
]
ROWS = [*BITS, *PAIRS, *OUT_OF_RANGE, *FLOATS, *OLD, *LIKE]
