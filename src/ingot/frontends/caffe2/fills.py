"""Operators that make constants, mostly of the init net: what lies in the net itself, or is one number."""

from __future__ import annotations

from math import prod

import numpy as np

from ingot.errors import ModelError
from ingot.formula.expr import Array
from ingot.formula.types import FLOAT32, INT8, INT32, INT64
from ingot.frontends.caffe2.call import SHIFT, Call, named_type, row
from ingot.graph.ir import Value

FILLED_LIMIT = 1 << 27
"""Elements of a constant that is not written out in the net: half a gigabyte of floats."""


def _shape(c: Call) -> list[int]:
    """The shape that the arguments say, or an input: its own, or its elements."""
    extra = c.integers("extra_shape") or []
    if not c.inputs:
        found = c.integers("shape") or []
    elif c.integer("input_as_shape", 0):
        found = [int(n) for n in c.elements(0, "the shape").reshape(-1)]
    else:
        found = c.shape()
    found = [*found, *extra]
    if min(found, default=0) < 0 or prod(found) >= FILLED_LIMIT:
        raise ModelError(f"{c.label}: the shape {found} is negative or too large")
    return found


def _given(c: Call, array: Array) -> Value:
    shape = _shape(c)
    if array.size != prod(shape):
        raise ModelError(f"{c.label}: {array.size} values for the shape {shape}")
    return c.b.constant(array.reshape(shape))


@row("GivenTensorFill", "GivenTensorDoubleFill")
def given(c: Call) -> Value:
    return _given(c, np.asarray(c.floats("values"), np.float64 if "Double" in c.op.type else np.float32))


@row("GivenTensorFp16Fill")
def given_half(c: Call) -> Value:
    return _given(c, np.asarray(c.floats("values"), np.float32).astype(np.float16))


@row("GivenTensorIntFill", "GivenTensorInt64Fill", "GivenTensorInt16Fill", "GivenTensorBoolFill")
def given_integers(c: Call) -> Value:
    types = {"IntFill": np.int32, "Int64Fill": np.int64, "Int16Fill": np.int16, "BoolFill": np.bool_}
    wanted = np.dtype(types[c.op.type.removeprefix("GivenTensor")])
    values = np.asarray(c.integers("values") or [], np.int64)
    if wanted.kind == "i" and not np.array_equal(values.astype(wanted), values):
        raise ModelError(f"{c.label}: a value does not fit {wanted}")
    return _given(c, values.astype(wanted))


@row("GivenTensorByteStringToUInt8Fill")
def given_bytes(c: Call) -> Value:
    a = c.args.get("values")
    data = b"" if a is None else b"".join(a.strings) or a.s
    return _given(c, np.frombuffer(data, np.uint8))


@row("Int8GivenTensorFill")
def given_quantised(c: Call) -> Value:
    """Bytes with a zero point; both are int8 from here on."""
    a = c.args.get("values")
    data = np.frombuffer(b"" if a is None else a.s, np.uint8)
    made = _given(c, (data.astype(np.int16) - SHIFT).astype(INT8.numpy))
    c.quantised[made] = c.output()
    return made


@row("Int8GivenIntTensorFill")
def given_bias(c: Call) -> Value:
    """int32 sums, mostly a bias."""
    made = _given(c, np.asarray(c.integers("values") or [], np.int64).astype(INT32.numpy))
    c.quantised[made] = (c.number("Y_scale", 1.0), c.integer("Y_zero_point", 0))
    return made


@row("ConstantFill")
def constant_fill(c: Call) -> Value:
    dtype = named_type(c, c.integer("dtype", 1))
    value = c.number("value", 0.0) if dtype.kind == "f" else c.integer("value", 0)
    return c.b.constant(np.full(_shape(c), value, dtype.numpy))


@row("GaussianFill")
def normal(c: Call) -> Value:
    """Numbers that are drawn when the bundle runs."""
    how = {"mean": c.number("mean", 0.0), "scale": c.number("std", 1.0)}
    return c.b.one("RandomNormal", shape=_shape(c), dtype=FLOAT32, **how)


@row("UniformFill")
def uniform(c: Call) -> Value:
    """Numbers that are drawn when the bundle runs."""
    how = {"low": c.number("min", 0.0), "high": c.number("max", 1.0)}
    return c.b.one("RandomUniform", shape=_shape(c), dtype=FLOAT32, **how)


@row("Shape")
def shape(c: Call) -> Value:
    axes = c.integers("axes")
    extents = c.shape()
    return c.b.constant(np.asarray([extents[a] for a in axes] if axes else extents), INT64)
