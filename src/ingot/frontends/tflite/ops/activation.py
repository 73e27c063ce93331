"""Activations and softmax: of numbers ONNX's, of bytes tables, of 16 bits lines between a table's places."""

from __future__ import annotations

import math

from ingot.formula.types import INT8, INT32, UINT8
from ingot.frontends.orders import aligned, like
from ingot.frontends.tensorflow.ops.table import Result
from ingot.frontends.tensorflow.values import Tensor
from ingot.frontends.tflite.activations import exp_table, hard_swish_table, log_table, sigmoid_table
from ingot.frontends.tflite.fixed import in_float32
from ingot.frontends.tflite.ops.elementwise import looked_up, mapped, tabulated
from ingot.frontends.tflite.ops.requantise import (
    DOMAIN,
    centred,
    finished,
    limits,
    narrowed,
    rescaled,
)
from ingot.frontends.tflite.ops.sigmoid16 import sigmoid16
from ingot.frontends.tflite.ops.softmax16 import softmax16
from ingot.frontends.tflite.ops.table import NONE, RELU, RELU6, RELU_N1_TO_1, Call, activated, op
from ingot.graph.ir import Value

RELU_0_TO_1 = 7
FUSED = {"RELU": RELU, "RELU6": RELU6, "RELU_N1_TO_1": RELU_N1_TO_1}


@op("RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1")
def relu(c: Call) -> Result:
    """Integers are brought to the result's scale, then limited."""
    x, t, to = c.tensor(0), c.info(0), c.result()
    if not c.is_quantised(t):
        if c.operator.kind == "RELU_0_TO_1":
            return Tensor(c.b.one("Clip", x.value, like(c.b, x.value, 0), like(c.b, x.value, 1)), x.order)
        return activated(c, x, FUSED[c.operator.kind])
    factor = in_float32([c.scale(t)[0]], c.scale(to)[0])
    low, high = _limits(c)

    def write(v: Value) -> Value:
        made = finished(c, rescaled(c.b, centred(c, v, t), factor), to, NONE)
        return narrowed(c.b, c.b.cast(made, INT32), low, high, to.dtype)

    return mapped(c, x, write)


def _limits(c: Call) -> tuple[int, int]:
    to = c.result()
    if c.operator.kind != "RELU_0_TO_1":
        return limits(c, to, FUSED[c.operator.kind])
    scale, zero = c.scale(to)
    return max(int(to.dtype.lowest), zero), min(int(to.dtype.highest), zero + math.floor(1 / scale + 0.5))


@op("ELU")
def elu(c: Call) -> Result:
    if c.is_quantised(c.info(0)):
        return tabulated(c, lambda x: math.expm1(x) if x < 0 else x)
    return c.standard("Elu")


@op("GELU")
def gelu(c: Call) -> Result:
    """By the error function, or by tanh."""
    approximate = bool(c.option("approximate"))
    if c.is_quantised(c.info(0)):
        return tabulated(c, _gelu_tanh if approximate else _gelu)
    x, b = c.tensor(0), c.b
    half = b.one("Mul", x.value, like(b, x.value, 0.5))
    if approximate:
        cube = b.one("Mul", b.one("Mul", x.value, x.value), x.value)
        inner = b.one("Add", x.value, b.one("Mul", cube, like(b, x.value, 0.044715)))
        bent = b.one("Tanh", b.one("Mul", inner, like(b, x.value, math.sqrt(2 / math.pi))))
    else:
        bent = b.one("Erf", b.one("Mul", x.value, like(b, x.value, math.sqrt(0.5))))
    return Tensor(b.one("Mul", half, b.one("Add", bent, like(b, x.value, 1))), x.order)


def _gelu(x: float) -> float:
    return 0.5 * x * math.erfc(-x * math.sqrt(0.5))


def _gelu_tanh(x: float) -> float:
    return 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


@op("LOGISTIC", "TANH")
def sigmoid(c: Call) -> Result:
    t = c.info(0)
    if not c.is_quantised(t):
        return c.standard("Sigmoid" if c.operator.kind == "LOGISTIC" else "Tanh")
    if t.dtype.bits == 8:
        return looked_up(c, c.tensor(0), sigmoid_table(*c.scale(t), t.dtype, c.operator.kind))
    scale, zero = c.scale(t)
    c.require(zero == 0 and c.scale(c.result())[1] == 0, "int16 has the zero point 0")
    x = c.tensor(0)
    made = sigmoid16(c.b, c.b.cast(x.value, INT32), scale, c.operator.kind == "TANH")
    return Tensor(c.b.cast(made, c.result().dtype), x.order)


@op("HARD_SWISH")
def hard_swish(c: Call) -> Result:
    x, t = c.tensor(0), c.info(0)
    if not c.is_quantised(t):
        return Tensor(c.b.one("HardSwish", x.value), x.order)
    if t.dtype.bits != 8:
        raise c.refuse(f"{t.kind} is not supported, as in TFLite")
    return looked_up(c, x, hard_swish_table(c.scale(t), c.scale(c.result()), t.dtype))


@op("LEAKY_RELU")
def leaky_relu(c: Call) -> Result:
    x, t, to = c.tensor(0), c.info(0), c.result()
    alpha = float(c.option("alpha"))
    if not c.is_quantised(t):
        return Tensor(c.b.one("LeakyRelu", x.value, alpha=alpha), x.order)
    factor = in_float32([c.scale(t)[0]], c.scale(to)[0])
    slope = in_float32([c.scale(t)[0], alpha], c.scale(to)[0])

    def write(v: Value) -> Value:
        off = centred(c, v, t)
        below = rescaled(c.b, off, abs(slope))
        below = c.b.one("Neg", below) if slope < 0 else below
        is_negative = c.b.one("Less", off, like(c.b, off, 0))
        return finished(c, c.b.one("Where", is_negative, below, rescaled(c.b, off, factor)), to, NONE)

    return mapped(c, x, write)


@op("PRELU")
def prelu(c: Call) -> Result:
    """The slopes broadcast against the operand, as numpy does."""
    t, to = c.info(0), c.result()
    (x, slope), order = aligned(c.b, [c.tensor(0), c.tensor(1)])
    b = c.b
    if not c.is_quantised(t):
        is_negative = b.one("Less", x, like(b, x, 0))
        return Tensor(b.one("Where", is_negative, b.one("Mul", x, slope), x), order)
    (scale, _), (to_scale, _) = c.scale(t), c.scale(to)
    off, by = centred(c, x, t), centred(c, slope, c.info(1))
    below = rescaled(b, b.one("Mul", off, by), in_float32([scale, c.scale(c.info(1))[0]], to_scale))
    above = rescaled(b, off, in_float32([scale], to_scale))
    is_negative = b.one("Less", off, like(b, off, 0))
    return Tensor(finished(c, b.one("Where", is_negative, below, above), to, NONE), order)


@op("SOFTMAX")
def softmax(c: Call) -> Result:
    x, t, to = c.tensor(0), c.info(0), c.result()
    beta = float(c.option("beta", 1.0))
    if not c.is_quantised(t):
        scaled = x.value if beta == 1 else c.b.one("Mul", x.value, like(c.b, x.value, beta))
        return c.standard("Softmax", [Tensor(scaled, x.order)])
    if t.dtype not in (INT8, UINT8):
        return softmax16(c, beta)
    table, _ = exp_table(beta * c.scale(t)[0])
    attributes = {"to": to.dtype}
    return c.b.one(f"{DOMAIN}.Softmax", c.b.plain(x), c.b.constant(table), **attributes)


@op("LOG_SOFTMAX")
def log_softmax(c: Call) -> Result:
    t, b = c.info(0), c.b
    if not c.is_quantised(t):
        return c.standard("LogSoftmax")
    if t.dtype is not INT8:
        raise c.refuse(f"{t.kind} is not supported")
    c.require(
        c.scale(c.result()) == (1 / 16, 127), "the result of int8 has the scale 1/16 and the zero point 127"
    )
    table, least = exp_table(c.scale(t)[0])
    differences, divisor, shift = log_table(c.scale(t)[0], least)
    tables = (b.constant(a) for a in (table, differences))
    return b.one(
        f"{DOMAIN}.LogSoftmax", b.plain(c.tensor(0)), *tables, least=-least, divisor=divisor, shift=shift
    )
