"""Quotients of integers that stand for numbers: by a reciprocal in fixed point."""

from __future__ import annotations

from collections.abc import Callable

from ingot.formula.types import INT32
from ingot.frontends.orders import aligned, like
from ingot.frontends.tensorflow.values import Tensor
from ingot.frontends.tflite.activations import one_over_one_plus
from ingot.frontends.tflite.fixed import in_float32, multiplier_of, table_of
from ingot.frontends.tflite.ops.elementwise import looked_up
from ingot.frontends.tflite.ops.requantise import DOMAIN, centred, finished
from ingot.frontends.tflite.ops.table import Call
from ingot.graph.ir import Value


def div_quantised(c: Call) -> Tensor:
    """x / y of bytes: the reciprocal of each y and its exponent are tables (DivElementwise)."""
    b, to = c.b, c.result()
    t = c.info(1)
    if t.dtype.bits != 8:
        raise c.refuse(f"quotients of {t.kind} are not supported")
    zero = c.scale(t)[1]
    inverse, exponent = (table_of(f(zero), t.dtype, INT32) for f in (_inverse, _exponent))
    divisor = c.tensor(1)
    parts = [looked_up(c, divisor, table) for table in (inverse, exponent)]
    (x, by, shift, y), order = aligned(b, [c.tensor(0), *parts, divisor])
    is_negative = b.one("Less", centred(c, y, t), b.constant(0, INT32))
    x = centred(c, x, c.info(0))
    x = b.one("Where", is_negative, b.one("Neg", x), x)
    return Tensor(finished(c, _quotient(c, x, by, shift), to), order)


def _quotient(c: Call, x: Value, by: Value, shift: Value) -> Value:
    """Shifted left as far as it goes, times the reciprocal, then scaled and shifted back."""
    b = c.b
    scales = [c.scale(t)[0] for t in (c.info(0), c.info(1), c.result())]
    below = in_float32([scales[1], scales[2]], 1)
    multiplier, exponent = multiplier_of(in_float32([scales[0]], below))
    zero = like(b, x, 0)
    size = b.one("Where", b.one("Less", x, zero), b.one("BitwiseNot", x), x)
    headroom = b.one("Sub", b.one(f"{DOMAIN}.LeadingZeros", size), like(b, x, 1))
    raised = b.one(f"{DOMAIN}.FixedPointMultiply", x, by, headroom)
    total = b.one("Sub", b.one("Sub", b.constant(exponent, INT32), shift), headroom)
    return b.one(f"{DOMAIN}.FixedPointMultiply", raised, b.constant(multiplier, INT32), total)


def _inverse(zero: int) -> Callable[[int], int]:
    return lambda q: _reciprocal(abs(q - zero))[0]


def _exponent(zero: int) -> Callable[[int], int]:
    return lambda q: _reciprocal(abs(q - zero))[1]


def _reciprocal(x: int) -> tuple[int, int]:
    """1 / x as a multiplier and how many bits x has above the point at bit 31 (GetReciprocal); of 0, 0."""
    if x == 0:
        return 0, 0
    headroom = 32 - x.bit_length()
    return one_over_one_plus((x << headroom) - (1 << 31)), 31 - headroom
