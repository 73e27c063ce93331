"""Rows of QuantizeLinear, DequantizeLinear, QLinearMatMul on every type: per tensor, per axis and blocked."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx

from ingot.formula.types import DTYPES, FLOAT8E8M0
from tests.ops.narrow import EIGHT, NARROW, some, wanted
from tests.ops.rows import Array, Row, onnx_type

INTEGERS = [DTYPES[f"{sign}int{bits}"] for sign in ("", "u") for bits in (2, 4, 8, 16)]
QUANTISED = [*INTEGERS, *(t for t in NARROW if t.is_float and t is not FLOAT8E8M0)]
X = np.random.default_rng(7).normal(0, 4, (4, 6)).astype(np.float32)
X.reshape(-1)[:6] = [0.0, -0.0, 1e9, -1e9, 0.25, -0.75]
GRAINS: list[tuple[tuple[int, ...], dict[str, int]]] = [
    ((), {}),
    ((6,), {"axis": 1}),
    ((4,), {"axis": -2}),
    ((4, 2), {"axis": 1, "block_size": 3}),
    ((2, 6), {"axis": 0, "block_size": 3}),
]


def scales(shape: tuple[int, ...], dtype: str) -> Array:
    """Powers of two times 1, 3, 5: quotients are exact or far from halves."""
    count = int(np.prod(shape))
    values = np.resize([0.25, 0.5, 0.75, 1.25, 2.0], count).reshape(shape)
    return values.astype(np.float32).astype(DTYPES[dtype].numpy)


def zeros(shape: tuple[int, ...], to: str) -> Array:
    t = DTYPES[to]
    values = np.zeros(shape) if t.is_float else np.resize([1, 0, 2, 3], int(np.prod(shape))).reshape(shape)
    return np.minimum(values, float(t.highest)).astype(t.compute.numpy).astype(t.numpy)


def quantised(
    x: Array, scale: Array, zero: Array, axis: int = 1, block_size: int = 0, saturate: int = 1
) -> Array:
    """round(x / scale) + zero point within the type, the quotient a float32."""
    with np.errstate(all="ignore"):
        y = x.astype(np.float32) / spread(scale, x.shape, axis, block_size)
        t = next(d for d in DTYPES.values() if d.numpy == zero.dtype)
        if t.is_float:
            return wanted(y, t.name, saturate)
        moved = np.rint(y).astype(np.float64) + spread(zero, x.shape, axis, block_size)
        return np.clip(moved, t.lowest, t.highest).astype(t.compute.numpy).astype(t.numpy)


def spread(a: Array, shape: tuple[int, ...], axis: int, block: int) -> Array:
    """A scale or zero point beside every element, as float32."""
    wide = a.astype(np.float32)
    if a.ndim == 0:
        return np.broadcast_to(wide, shape)
    if block:
        return np.repeat(wide, block, axis).take(np.arange(shape[axis]), axis)
    return np.broadcast_to(
        wide.reshape([-1 if d == axis % len(shape) else 1 for d in range(len(shape))]), shape
    )


def quantize(to: str, kind: str, grain: int, opset: int = 25, **more: int) -> Row:
    shape, attributes = GRAINS[grain]
    with np.errstate(over="ignore"):
        x = X.astype(DTYPES[kind].numpy)
    inputs = [x, scales(shape, kind), zeros(shape, to)]
    expected = quantised(*inputs, **attributes, **more)  # type: ignore[arg-type]
    note = f"{kind} to {to} {grain}"
    return Row(
        "QuantizeLinear",
        inputs,
        {**attributes, **more},
        opset=opset,
        oracle=[expected],
        tolerance=0,
        note=note,
    )


def dequantize(t: str, kind: str, grain: int, opset: int = 25, output: str = "") -> Row:
    shape, attributes = GRAINS[grain]
    x = some(4, 6, t=t) if DTYPES[t] in NARROW else np.arange(24).reshape(4, 6).astype(DTYPES[t].numpy)
    s, z = scales(shape, kind), zeros(shape, t)
    axis, block = attributes.get("axis", 1), attributes.get("block_size", 0)
    difference = x.astype(np.float32) - spread(z, x.shape, axis, block)
    y = difference * spread(s, x.shape, axis, block)
    to = {"output_dtype": onnx_type(np.zeros(1, DTYPES[output].numpy))} if output else {}
    y = y.astype(DTYPES[output or kind].numpy)
    note = f"{t} to {output or kind} {grain}"
    return Row(
        "DequantizeLinear", [x, s, z], {**attributes, **to}, opset=opset, oracle=[y], tolerance=0, note=note
    )


QUANTIZE = [
    *(quantize(t.name, "float32", g) for t in QUANTISED for g in range(5)),
    *(quantize(t.name, k, 1) for t in QUANTISED for k in ("float16", "bfloat16")),
    *(quantize(t.name, "float32", 2, saturate=0) for t in EIGHT),
    *(quantize(t, "float32", 3, opset=o) for o in (21, 23, 24) for t in ("int4", "float8e5m2")),
    *(quantize(t, "float32", 1, opset=19) for t in ("int8", "float8e4m3fn")),
    Row(
        "QuantizeLinear",
        [X, scales((), "float32")],
        {"output_dtype": onnx.TensorProto.INT4},
        opset=25,
        oracle=[quantised(X, scales((), "float32"), np.zeros((), ml_dtypes.int4))],
        note="no zero point",
    ),
    Row(
        "QuantizeLinear",
        [np.arange(-9, 9, dtype=np.int32), np.array(2, np.int32), np.array(1, np.int8)],
        opset=25,
        oracle=[(np.rint(np.arange(-9, 9) / 2) + 1).astype(np.int8)],
        note="int32 scale",
    ),
    Row(
        "QuantizeLinear",
        [X, np.array([1, 2, 4, 8, 0.5, 0.25]).astype(ml_dtypes.float8_e8m0fnu), zeros((6,), "float4e2m1")],
        opset=25,
        oracle=[quantised(X, np.array([1, 2, 4, 8, 0.5, 0.25], np.float32), zeros((6,), "float4e2m1"))],
        note="scale is a power of two",
    ),
    Row(
        "QuantizeLinear",
        [np.array([3.4995, 2.4995, 1.0], np.float32), np.array(1, np.float32), np.array(0, np.int8)],
        {"precision": onnx.TensorProto.FLOAT16},
        opset=25,
        oracle=[np.array([4, 2, 1], np.int8)],
        note="divides in float16",
    ),
]
DEQUANTIZE = [
    *(dequantize(t.name, "float32", g) for t in QUANTISED for g in range(5)),
    *(dequantize(t.name, k, 3) for t in QUANTISED for k in ("float16", "bfloat16")),
    *(
        dequantize(t, "float32", 4, output=k)
        for t in ("int4", "float8e4m3fn")
        for k in ("float16", "bfloat16")
    ),
    *(dequantize(t, "float32", 3, opset=o) for o in (21, 23, 24) for t in ("int4", "float8e5m2")),
    dequantize("float4e2m1", "float8e8m0", 3, output="float32"),
]


def product(a: str, b: str, y: str, scale: str = "float32") -> Row:
    """QLinearMatMul of numbers, sums and scales that every type has."""
    x, w = (np.resize([1, 2, 0, 3, 1, 0, 2], n).reshape(s) for n, s in ((8, (2, 4)), (12, (4, 3))))
    none = np.zeros(())
    ones = np.array(0.5).astype(DTYPES[scale].numpy)
    numbers = ((x, a), (w, b), (none, a), (none, b), (none, y))
    arrays = [v.astype(np.float32).astype(DTYPES[t].numpy) for v, t in numbers]
    inputs = [arrays[0], ones, arrays[2], arrays[1], ones, arrays[3], ones, arrays[4]]
    expected = (x @ w) * 0.5
    out = np.rint(expected) if not DTYPES[y].is_float else expected
    return Row(
        "QLinearMatMul",
        inputs,
        opset=21,
        oracle=[wanted(out.astype(np.float32), y)],
        note=f"{a} {b} {y} {scale}",
    )


PRODUCTS = [
    *(product(t.name, t.name, t.name) for t in EIGHT),
    *(product(t.name, "int8", "uint8") for t in EIGHT),
    *(product("uint8", t.name, "int8", "bfloat16") for t in EIGHT),
    *(product("int8", "int8", t.name, "float16") for t in EIGHT),
]
ROWS = [*QUANTIZE, *DEQUANTIZE, *PRODUCTS]
