"""Two operands: numbers, and integers that stand for numbers, which are brought to one scale first."""

from __future__ import annotations

import math

from ingot.formula.types import INT32
from ingot.frontends.orders import aligned
from ingot.frontends.tensorflow.ops.table import Result
from ingot.frontends.tensorflow.values import Tensor
from ingot.frontends.tflite.fixed import in_float32
from ingot.frontends.tflite.ops.quotient import div_quantised
from ingot.frontends.tflite.ops.requantise import (
    centred,
    divided_by_power,
    finished,
    limits,
    narrowed,
    rescaled,
)
from ingot.frontends.tflite.ops.table import Call, activated, op, single
from ingot.graph.ir import Value

SHIFTS = {8: 20, 16: 15}
"""How far integers of so many bits are shifted left before they are scaled."""
STANDARD = {"ADD": "AddV2", "SUB": "Sub", "MUL": "Mul", "DIV": "Div"}


@op("ADD", "SUB")
def add(c: Call) -> Result:
    if c.is_quantised(c.result()):
        return add_quantised(c)
    return activated(c, single(c.standard(STANDARD[c.operator.kind])))


@op("ADD_N")
def add_n(c: Call) -> Result:
    """Of integers as ADD, all at once."""
    return add_quantised(c) if c.is_quantised(c.result()) else c.standard("AddN")


def add_quantised(c: Call) -> Tensor:
    """Every operand at twice the largest scale, then the sum at the result's (AddFunc)."""
    to, infos = c.result(), [c.info(i) for i in range(len(c.items))]
    scales = [c.scale(t)[0] for t in infos]
    if _is_power_of_two(c):
        return _add_by_shifts(c)
    bits, twice = SHIFTS[to.dtype.bits], 2 * max(scales)
    values, order = aligned(c.b, c.tensors)
    terms = []
    for x, t, scale in zip(values, infos, scales, strict=True):
        wide = c.b.one("Mul", centred(c, x, t), c.b.constant(1 << bits, INT32))
        terms.append(rescaled(c.b, wide, scale / twice))
    total = terms[0]
    for term in terms[1:]:
        total = c.b.one("Sub" if c.operator.kind == "SUB" else "Add", total, term)
    made = rescaled(c.b, total, twice / ((1 << bits) * c.scale(to)[0]))
    return Tensor(finished(c, made, to, 0 if c.operator.kind == "ADD_N" else None), order)


def _is_power_of_two(c: Call) -> bool:
    """Whether int16 is added by shifts alone, as old converters wrote it."""
    to = c.result()
    if to.kind != "INT16" or c.operator.kind == "ADD_N" or not c.option("pot_scale_int16", 1):
        return False
    every = [c.scale(t) for t in (*(c.info(i) for i in range(len(c.items))), to)]
    if any(zero for _, zero in every):
        return False
    return all(math.frexp(scale)[0] == 0.5 for scale, _ in every)


def _add_by_shifts(c: Call) -> Tensor:
    """int16 whose scales are powers of two: one operand is shifted right (Add16POT)."""
    (x, y), order = aligned(c.b, [c.tensor(0), c.tensor(1)])
    exponents = [math.frexp(c.scale(t)[0])[1] for t in (c.info(0), c.info(1), c.result())]
    shifts = [exponents[2] - e for e in exponents[:2]]
    c.require(0 in shifts and min(shifts) >= 0, "scales of powers of two do not fit")
    x, y = (_shifted_right(c, v, s) for v, s in zip((x, y), shifts, strict=True))
    made = c.b.one("Sub" if c.operator.kind == "SUB" else "Add", x, y)
    return Tensor(narrowed(c.b, made, *limits(c, c.result()), c.result().dtype), order)


def _shifted_right(c: Call, x: Value, by: int) -> Value:
    wide = c.b.cast(x, INT32)
    return divided_by_power(c.b, wide, by) if by else wide


@op("MUL")
def mul(c: Call) -> Result:
    """The product of two integers at the result's scale."""
    to = c.result()
    if not c.is_quantised(to):
        return activated(c, single(c.standard("Mul")))
    (x, y), order = aligned(c.b, [c.tensor(0), c.tensor(1)])
    product = c.b.one("Mul", centred(c, x, c.info(0)), centred(c, y, c.info(1)))
    factor = in_float32([c.scale(c.info(0))[0], c.scale(c.info(1))[0]], c.scale(to)[0])
    return Tensor(finished(c, rescaled(c.b, product, factor), to), order)


@op("DIV")
def div(c: Call) -> Result:
    if c.is_quantised(c.result()):
        return div_quantised(c)
    return activated(c, single(c.standard("Div")))


@op("MAXIMUM", "MINIMUM")
def larger(c: Call) -> Result:
    return c.standard("Maximum" if c.operator.kind == "MAXIMUM" else "Minimum")


@op("SQUARED_DIFFERENCE")
def squared_difference(c: Call) -> Result:
    """Of int8: both at twice the larger scale, shifted left by 7; the square at the result's."""
    to = c.result()
    if not c.is_quantised(to):
        return c.standard("SquaredDifference")
    (x, y), order = aligned(c.b, [c.tensor(0), c.tensor(1)])
    scales = [c.scale(c.info(i))[0] for i in range(2)]
    bits, twice = 7 if to.dtype.bits == 8 else 0, 2 * max(scales)
    sides = []
    for i, v in enumerate((x, y)):
        wide = c.b.one("Mul", centred(c, v, c.info(i)), c.b.constant(1 << bits, INT32))
        sides.append(rescaled(c.b, wide, scales[i] / twice))
    difference = c.b.one("Sub", *sides)
    square = c.b.one("Mul", difference, difference)
    made = rescaled(c.b, square, twice * twice / ((1 << (2 * bits)) * c.scale(to)[0]))
    return Tensor(finished(c, made, to, 0), order)
