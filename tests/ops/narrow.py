"""Rows of the types below 16 bits: casts from and to each, their bits, and what moves them."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
from onnx.reference.ops.op_cast import cast_to

from ingot.formula.types import DTYPES, FLOAT8E8M0
from tests.ops.rows import Array, Row, onnx_type, special

NARROW = [t for t in DTYPES.values() if t.bits < 16 and t.is_narrow]
FLOATS = [t for t in NARROW if t.is_float]
EIGHT = [t for t in FLOATS if t.bits == 8 and t is not FLOAT8E8M0]
WIDE = ("float32", "float16", "bfloat16", "float64", "int8", "uint8", "int32", "uint64", "bool")


def codes(t: str) -> Array:
    """Every element that a narrow type has."""
    dtype = DTYPES[t]
    return np.arange(1 << dtype.bits).astype(np.uint8).view(dtype.numpy)


def values(t: str) -> Array:
    """Numbers of another type: special ones, those between two codes, small integers."""
    dtype = DTYPES[t]
    if t == "bool":
        return np.array([[True, False]])
    if dtype.is_integer:
        return np.arange(0 if dtype.kind == "u" else -20, 21).astype(dtype.numpy)
    between = [b.astype(np.float64) for f in FLOATS for b in (np.sort(codes(f.name).astype(np.float64)),)]
    halves = np.concatenate([(b[1:] + b[:-1]) / 2 for b in between])[::7]
    with np.errstate(over="ignore"):
        return np.concatenate([special(), halves.astype(np.float32)]).astype(dtype.numpy)


def power_of_two(x: Array, saturate: int = 1, round_mode: str = "up") -> Array:
    """float8e8m0 by the table of Cast-25, in numpy's own terms; of a negative number that of its size."""
    wide = np.abs(np.asarray(x, np.float64))
    with np.errstate(all="ignore"):
        fraction, exponent = np.frexp(wide)  # wide = fraction * 2^exponent, fraction in 0.5 .. 1
        up = {"up": fraction > 0.5, "nearest": fraction >= 0.75, "down": fraction > 1}[round_mode]
        power = np.where(np.isfinite(wide), exponent, 0) - 1 + up
    outside = (wide < 2.0**-127) | (power > 127) | np.isinf(wide)
    power = np.where(wide < 2.0**-127, -127, np.where(np.isinf(wide), 127, np.clip(power, -127, 127)))
    code = np.where(np.isnan(wide) | (outside & (saturate == 0)), 255, power + 127)
    return code.astype(np.uint8).view(ml_dtypes.float8_e8m0fnu)


def wanted(x: Array, to: str, saturate: int = 1, round_mode: str = "up") -> Array:
    """What the reference casts to; what it leaves to the machine is not asked for."""
    dtype = DTYPES[to]
    if dtype is FLOAT8E8M0:
        return power_of_two(x.astype(np.float64), saturate, round_mode)
    with np.errstate(all="ignore"):
        wide = x.astype(np.float32) if x.dtype.itemsize == 1 and x.dtype.kind in "fV" else x
        found: Array = cast_to(wide, onnx_type(np.zeros(1, dtype.numpy)), bool(saturate), round_mode)
    return found


def cast(x: Array, to: str, op: str = "Cast", opset: int = 25, note: str = "", **attributes: object) -> Row:
    saturate, mode = int(str(attributes.get("saturate", 1))), str(attributes.get("round_mode", "up"))
    expected = wanted(x, to, saturate, mode)
    if op == "CastLike":
        like = np.zeros(1, DTYPES[to].numpy)
        return Row(op, [x, like], dict(attributes), opset=opset, oracle=[expected], tolerance=0, note=note)
    to_ = {"to": onnx_type(np.zeros(1, DTYPES[to].numpy)), **attributes}
    return Row(op, [x], to_, opset=opset, oracle=[expected], tolerance=0, note=note)


def held(x: Array, to: str) -> Array:
    """The elements that an integer type below 8 bits holds, if it is one: else the result is undefined."""
    t = DTYPES[to]
    if t.is_float or t.kind == "b" or x.dtype.kind in "iub":
        return x
    with np.errstate(invalid="ignore"):
        wide = np.trunc(x.astype(np.float64))
        return x[np.isfinite(wide) & (wide >= float(t.lowest)) & (wide < float(t.highest) + 1)]


INTO = [cast(held(values(a), t.name), t.name, note=f"{a} to {t}") for a in WIDE for t in NARROW]
OUT_OF = [cast(held(codes(t.name), b), b, note=f"{t} to {b}") for t in NARROW for b in WIDE]
BETWEEN = [cast(held(codes(a.name), b.name), b.name, note=f"{a} to {b}") for a in NARROW for b in NARROW]
MODES = [
    *(cast(values("float32"), t.name, saturate=0, note=f"{t}") for t in EIGHT),
    *(cast(values("float16"), t.name, saturate=0, note=f"{t}") for t in EIGHT),
    *(
        cast(values(a), "float8e8m0", saturate=s, round_mode=mode, note=a)
        for a in ("float32", "float64")
        for s in (0, 1)
        for mode in ("up", "down", "nearest")
    ),
    *(cast(values("float32"), t.name, opset=19, note=f"{t}") for t in EIGHT),
]
TIES = np.array(
    [1 + 2**-4 + 2**-40, 1 + 2**-4, 1 + 3 * 2**-4 - 2**-40, 2**-10 + 2**-60, -(2**-10), 1e300, -0.0]
)


def nearest(x: Array, to: str) -> Array:
    """The code nearest to each number, of two the even one; what is too large becomes the largest."""
    dtype = DTYPES[to]
    every = np.arange(1 << dtype.bits).astype(f"u{dtype.bytes}")
    with np.errstate(invalid="ignore"):
        numbers = every.view(dtype.numpy).astype(np.float64)
    found = []
    for v in np.clip(x, -dtype.largest, dtype.largest):
        with np.errstate(invalid="ignore"):
            far = np.where(np.isfinite(numbers), np.abs(numbers - v), np.inf)
        same_sign = np.signbit(numbers) == np.signbit(v)
        found.append(min(np.flatnonzero(far == far.min()), key=lambda i: (every[i] & 1, not same_sign[i])))
    return every[found].view(dtype.numpy)


ROUNDS = [
    Row(
        "Cast",
        [TIES[:k]],
        {"to": onnx_type(np.zeros(1, t.numpy))},
        opset=25,
        tolerance=0,
        note=f"{t} once",
        oracle=[nearest(TIES[:k], t.name)],
    )
    for t, k in [*((t, 7) for t in FLOATS[:-4]), *((DTYPES[n], 5) for n in ("float16", "bfloat16"))]
    if t is not FLOAT8E8M0
]  # to float32 first, the sums would be ties
LIKE = [cast(held(values("float32"), t.name), t.name, "CastLike", note=f"{t}") for t in NARROW]


def bits(x: Array, to: str) -> Row:
    """The bytes of `x` as `to`."""
    dtype = DTYPES[to].numpy
    attributes = {"to": onnx_type(np.zeros(1, dtype))}
    return Row(
        "BitCast", [x], attributes, opset=26, oracle=[x.view(dtype)], tolerance=0, note=f"{x.dtype} {to}"
    )


BITS = [
    bits(codes(a.name), b.name)
    for a in (*NARROW, DTYPES["uint8"])
    for b in (*NARROW, DTYPES["int8"])
    if a.bits == b.bits and a is not b and a.name != "uint8"
] + [
    *(bits(np.arange(256).astype(np.uint8), t.name) for t in FLOATS if t.bits == 8),
    bits(np.arange(1 << 16).astype(np.uint16)[::37], "float16"),
    bits(np.arange(1 << 16).astype(np.int16)[::37], "bfloat16"),
    bits(values("float16"), "int16"),
]


def some(*shape: int, t: str) -> Array:
    """Codes of a type, all but NaN, in a shape."""
    every = codes(t)
    return np.resize(every[~np.isnan(every.astype(np.float32))], shape)


def moved(t: str) -> list[Row]:
    """Operators that move elements, on odd counts of them."""
    x, y = some(3, 5, t=t), some(2, 5, t=t)
    idx = np.array([2, 0, -1])
    return [
        Row("Transpose", [x], oracle=[x.T], note=t),
        Row("Reshape", [x, np.array([5, 3])], constant=[1], oracle=[x.reshape(5, 3)], note=t),
        Row("Identity", [some(7, t=t)], oracle=[some(7, t=t)], note=t),
    ] + (
        []
        if t not in ("int4", "float8e5m2", "uint2")
        else [
            Row("Identity", [x.reshape(-1)[:1].reshape(())], oracle=[x.reshape(-1)[0]], note=f"{t} scalar"),
            Row("Identity", [x[:0]], oracle=[x[:0]], note=f"{t} empty"),
            Row("Concat", [x, y], {"axis": 0}, oracle=[np.concatenate([x, y])], note=t),
            Row("Gather", [x, idx], oracle=[x[idx]], note=t),
            Row("Gather", [x, idx], constant=[0], oracle=[x[idx]], note=f"{t} packed constant"),
            Row(
                "Where",
                [np.eye(3, 5, dtype=bool), x, x[:1]],
                oracle=[np.where(np.eye(3, 5, dtype=bool), x, x[:1])],
                note=t,
            ),
            Row("Slice", [x, np.array([1]), np.array([3])], constant=[1, 2], oracle=[x[1:3]], note=t),
            Row("Split", [x], {"axis": 1, "num_outputs": 2}, outputs=2, oracle=[x[:, :3], x[:, 3:]], note=t),
        ]
    )


MOVED = [row for t in NARROW for row in moved(t.name)]


def one(t: str) -> Array:
    """A number other than 0, in a vector."""
    return np.array([1]).astype(DTYPES[t].numpy)


SHAPE = np.array([3, 5])
MADE = [
    Row(
        "ConstantOfShape",
        [SHAPE],
        {"value": onnx.numpy_helper.from_array(one(t.name))},
        constant=constant,
        oracle=[np.resize(one(t.name), (3, 5))],
        note=f"{t}",
        declared=[(3, 5)],
        opset=25,
    )
    for t in NARROW
    for constant in ([0], [])
    if constant or t.name in ("int4", "float8e5m2", "float4e2m1")
] + [
    Row(
        "EyeLike",
        [np.zeros((3, 4), np.float32)],
        {"dtype": onnx_type(np.zeros(1, t.numpy)), "k": 1},
        oracle=[np.eye(3, 4, 1).astype(t.numpy)],
        note=f"{t}",
    )
    for t in DTYPES.values()
    if t not in NARROW
]
ROWS = [*INTO, *OUT_OF, *BETWEEN, *MODES, *ROUNDS, *LIKE, *BITS, *MOVED, *MADE]
