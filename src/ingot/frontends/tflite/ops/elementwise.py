"""Elements to elements, numbers only: what TensorFlow has too, and tables of bytes for the integers of it."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ingot.formula.types import FLOAT32, INT32
from ingot.frontends.orders import aligned, like
from ingot.frontends.tensorflow.ops.table import Result
from ingot.frontends.tensorflow.values import Tensor
from ingot.frontends.tflite.activations import rsqrt_table
from ingot.frontends.tflite.fixed import in_float32, rounded, table_of
from ingot.frontends.tflite.ops.requantise import centred, finished, rescaled
from ingot.frontends.tflite.ops.table import OPS, Call, op
from ingot.frontends.tflite.schema import TABLES
from ingot.graph.ir import Value

UNARY = {
    "CEIL": "Ceil",
    "COS": "Cos",
    "SIN": "Sin",
    "FLOOR": "Floor",
    "LOGICAL_NOT": "LogicalNot",
    "ROUND": "Round",
    "SIGN": "Sign",
}
BINARY = {
    "ATAN2": "Atan2",
    "BITWISE_XOR": "BitwiseXor",
    "FLOOR_DIV": "FloorDiv",
    "FLOOR_MOD": "FloorMod",
    "LOGICAL_AND": "LogicalAnd",
    "LOGICAL_OR": "LogicalOr",
    "POW": "Pow",
}
COMPARED = {
    "EQUAL": "Equal",
    "NOT_EQUAL": "NotEqual",
    "LESS": "Less",
    "LESS_EQUAL": "LessEqual",
    "GREATER": "Greater",
    "GREATER_EQUAL": "GreaterEqual",
}
TABULATED: dict[str, tuple[str, Callable[[float], float]]] = {
    "EXP": ("Exp", math.exp),
    "LOG": ("Log", lambda x: math.log(x) if x > 0 else -math.inf),
}
"""Of bytes, TFLite tabulates these in float32 (LUTPopulate)."""


def _enter(name: str, standard: str) -> None:
    OPS[name] = lambda c: c.standard(standard)


for _name, _standard in BINARY.items():
    _enter(_name, _standard)


def looked_up(c: Call, x: Tensor, table: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> Tensor:
    """The entry of each byte of x; those of negative ones stand at the end of the table."""
    b = c.b
    return Tensor(b.one("Gather", b.constant(table), b.cast(x.value, INT32), axis=0), x.order)


def mapped(c: Call, x: Tensor, write: Callable[[Value], Value]) -> Tensor:
    """What `write` makes of every element: of bytes a table, computed now."""
    if x.dtype.bits != 8:
        return Tensor(write(x.value), x.order)
    every = table_of(lambda q: q, x.dtype)
    table = write(c.b.constant(every)).constant
    assert table is not None, "what follows from constants is one"
    return looked_up(c, x, table)


def tabulated(c: Call, f: Callable[[float], float]) -> Tensor:
    """A function of numbers on bytes: each computed in float32, rounded, limited (LUTPopulate)."""
    t, to = c.info(0), c.result()
    if t.dtype.bits != 8 or to.kind != t.kind:
        raise c.refuse(f"{t.kind} to {to.kind} is not supported")
    (scale, zero), (to_scale, to_zero) = c.scale(t), c.scale(to)
    inverse = np.float32(1) / np.float32(to_scale)
    low, high = int(to.dtype.lowest), int(to.dtype.highest)

    def entry(q: int) -> int:
        x = np.float32(scale) * np.float32(q - zero)
        y = np.float32(f(float(x)))
        if not np.isfinite(y):
            return high if y > 0 else low
        return min(max(rounded(float(y * inverse)) + to_zero, low), high)

    return looked_up(c, c.tensor(0), table_of(entry, to.dtype))


def _tabulated(name: str, standard: str, f: Callable[[float], float]) -> None:
    OPS[name] = lambda c: tabulated(c, f) if c.is_quantised(c.info(0)) else c.standard(standard)


for _name, (_standard, _f) in TABULATED.items():
    _tabulated(_name, _standard, _f)


@op("ABS")
def abs_(c: Call) -> Result:
    """Of integers: the size of what they stand for, at the result's scale."""
    x, t, to = c.tensor(0), c.info(0), c.result()
    if not c.is_quantised(t):
        return c.standard("Abs")
    factor = in_float32([c.scale(t)[0]], c.scale(to)[0])

    def write(v: Value) -> Value:
        size = c.b.one("Abs", centred(c, v, t))
        size = size if factor == 1 else rescaled(c.b, size, factor)
        return finished(c, size, to, 0)

    return mapped(c, x, write)


@op("RSQRT")
def rsqrt(c: Call) -> Result:
    """Of bytes, by a table: 1/sqrt of the integer in fixed point, then at the result's scale."""
    t = c.info(0)
    if not c.is_quantised(t):
        return c.standard("Rsqrt")
    return looked_up(c, c.tensor(0), rsqrt_table(c.scale(t), c.scale(c.result()), t.dtype))


@op("SQRT")
def sqrt(c: Call) -> Result:
    return _numbers(c, "Sqrt")


@op("SQUARE")
def square(c: Call) -> Result:
    return _numbers(c, "Square")


def _numbers(c: Call, standard: str) -> Result:
    """What TFLite has of numbers only."""
    if c.is_quantised(c.info(0)):
        raise c.refuse(f"{c.info(0).kind} is not supported")
    return c.standard(standard)


@op("NEG")
def neg(c: Call) -> Result:
    return _numbers(c, "Neg")


@op("RIGHT_SHIFT")
def right_shift(c: Call) -> Result:
    """Arithmetic: of negative numbers rounded down."""
    (x, y), order = aligned(c.b, [c.tensor(0), c.tensor(1)])
    b = c.b
    if not (x.type is not None and x.type.kind == "i"):
        return Tensor(b.one("BitShift", x, y, direction="RIGHT"), order)
    # floor(x / 2^y): for a negative x it is not(not(x) / 2^y)
    power = b.one("Pow", like(b, y, 2), y)
    is_negative = b.one("Less", x, like(b, x, 0))
    size = b.one("Where", is_negative, b.one("BitwiseNot", x), x)
    made = b.one("Div", size, power)
    return Tensor(b.one("Where", is_negative, b.one("BitwiseNot", made), made), order)


def _enter_numbers(name: str, standard: str) -> None:
    OPS[name] = lambda c: _numbers(c, standard)


for _name, _standard in UNARY.items():
    _enter_numbers(_name, _standard)


def _compared(name: str, standard: str) -> None:
    OPS[name] = lambda c: compare(c, standard)


def compare(c: Call, standard: str) -> Result:
    """Of integers that stand for numbers: both brought to one scale, shifted left by eight."""
    if not c.is_quantised(c.info(0)):
        return c.standard(standard)
    if c.info(0).dtype.bits != 8:
        raise c.refuse(f"{c.info(0).kind} is not supported")
    if c.scale(c.info(0)) == c.scale(c.info(1)):
        return c.standard(standard)
    items = []
    for i in range(2):
        x, factor = c.tensor(i), c.scale(c.info(i))[0]
        wide = c.b.one("Mul", centred(c, x.value, c.info(i)), c.b.constant(256, INT32))
        items.append(Tensor(rescaled(c.b, wide, factor), x.order))
    return c.standard(standard, list(items))


for _name, _standard in COMPARED.items():
    _compared(_name, _standard)


@op("BUCKETIZE")
def bucketize(c: Call) -> Result:
    """How many boundaries, ascending, are not above each element."""
    options = c.operator.options
    c.require(options is not None and "boundaries" in TABLES[options.name], "the boundaries are missing")
    assert options is not None
    edges = options.numbers("boundaries").astype(np.float32)
    x = c.tensor(0)
    if not len(edges):
        return c.b.constant(np.zeros(x.shape, np.int32))
    wide = c.b.reshape(c.b.cast(c.b.plain(x), FLOAT32), (*x.shape, 1))
    above = c.b.cast(c.b.one("GreaterOrEqual", wide, c.b.constant(edges)), INT32)
    return c.b.one("ReduceSum", above, c.b.ints([x.rank]), keepdims=0)
