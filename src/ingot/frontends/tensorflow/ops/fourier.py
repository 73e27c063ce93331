"""Fourier transforms of real numbers, and what becomes of their complex results.

What is complex is held as pairs [..., 2] of real and imaginary parts; only the operators here, and TFLite's
Reshape, take such a value.
"""

from __future__ import annotations

import numpy as np

from ingot.formula.types import FLOAT32, FLOAT64
from ingot.frontends.builder import extents_of
from ingot.frontends.orders import Builder
from ingot.frontends.tensorflow.ops.table import OPS as STANDARD
from ingot.frontends.tensorflow.ops.table import Call, Result, op
from ingot.frontends.tensorflow.values import Complex, Tensor
from ingot.graph.ir import Value

REAL, IMAGINARY = 0, 1


def pairs(c: Call, i: int) -> Value:
    """The parts of input i, which is complex."""
    found = c.items[i] if i < len(c.items) else None
    if not isinstance(found, Complex):
        raise c.refuse("complex numbers that a Fourier transform makes are supported, no others")
    return found.pairs


@op("RFFT")
def rfft(c: Call) -> Result:
    """n elements, cut or followed by zeros up to the length, to length // 2 + 1 complex ones."""
    x, length = c.plain(0), c.ints(1, "the length")
    c.require(len(extents_of(x)) > 0 and len(length) == 1, f"one length is needed, {list(length)} is given")
    return Complex(transformed(c, x, length[0]))


def transformed(c: Call, x: Value, length: int) -> Value:
    """The pairs of the transform along the last axis."""
    shape = extents_of(x)
    c.require(x.type in (FLOAT32, FLOAT64), f"a transform of {x.type} is not supported")
    c.require(
        length > 0 and c.b.is_modest([*shape[:-1], length], FLOAT32), f"a transform of {length} elements"
    )
    rows = c.b.reshape(_fitted(c.b, x, length), (-1, length, 1))
    made = c.b.one("DFT", rows, c.b.constant(np.int64(length)), axis=1, onesided=1)
    return c.b.reshape(made, (*shape[:-1], length // 2 + 1, 2))


@op("IRFFT")
def irfft(c: Call) -> Result:
    """The way back, divided by the length: of what is no transform of real numbers, as if it were one."""
    b, found, lengths = c.b, pairs(c, 0), c.ints(1, "the length")
    shape, length = extents_of(found), lengths[0] if lengths else 0
    c.require(len(lengths) == 1 and length > 0, f"a length of {list(lengths)}")
    count = length // 2 + 1
    half = b.reshape(
        _fitted(b, b.reshape(b.transposed(found, _parts_first(shape)), (-1, shape[-2])), count),
        (2, -1, count),
    )
    half = b.transposed(half, (1, 2, 0))
    # the other half is the conjugate, the other way round; the ends have no imaginary part
    others = b.constant(np.arange((length - 1) // 2, 0, -1))
    conjugate = b.one("Mul", b.one("Gather", half, others, axis=1), _constant(b, [1, -1], half))
    ends = np.ones((count, 2))
    ends[:: count - 1 if length % 2 == 0 and count > 1 else count, IMAGINARY] = 0
    whole = b.one("Concat", b.one("Mul", half, _constant(b, ends, half)), conjugate, axis=1)
    made = b.one("DFT", whole, b.constant(np.int64(length)), axis=1, inverse=1)
    return b.reshape(_part(b, made, REAL), (*shape[:-2], length))


def _parts_first(shape: list[int]) -> tuple[int, ...]:
    rank = len(shape)
    return (rank - 1, *range(rank - 1))


def _fitted(b: Builder, x: Value, length: int) -> Value:
    """The last axis cut, or followed by zeros."""
    n, rank = extents_of(x)[-1], len(extents_of(x))
    if n > length:
        return b.one("Slice", x, b.ints([0]), b.ints([length]), b.ints([rank - 1]))
    return b.one("Pad", x, b.ints([0] * (2 * rank - 1) + [length - n])) if n < length else x


def _part(b: Builder, found: Value, which: int) -> Value:
    return b.one("Gather", found, b.constant(np.int64(which)), axis=len(extents_of(found)) - 1)


def _constant(b: Builder, numbers: object, beside: Value) -> Value:
    return b.constant(np.asarray(numbers), beside.type)


@op("Complex")
def of_parts(c: Call) -> Result:
    real, imaginary = c.plain(0), c.plain(1)
    c.require(extents_of(real) == extents_of(imaginary), "both parts must have one shape")
    ends = [c.b.reshape(v, (*extents_of(v), 1)) for v in (real, imaginary)]
    return Complex(c.b.one("Concat", *ends, axis=len(extents_of(real))))


@op("Conj")
def conjugate(c: Call) -> Result:
    found = pairs(c, 0)
    return Complex(c.b.one("Mul", found, _constant(c.b, [1, -1], found)))


@op("Real")
def real(c: Call) -> Result:
    return _part(c.b, pairs(c, 0), REAL)


@op("Imag")
def imaginary(c: Call) -> Result:
    return _part(c.b, pairs(c, 0), IMAGINARY)


@op("ComplexAbs")
def absolute(c: Call) -> Result:
    return c.b.one("ReduceL2", pairs(c, 0), c.b.ints([-1]), keepdims=0)


@op("Angle")
def angle(c: Call) -> Result:
    found = pairs(c, 0)
    parts = [Tensor(_part(c.b, found, which)) for which in (IMAGINARY, REAL)]
    return STANDARD["Atan2"](Call(c.b, c.node, list(parts)))
