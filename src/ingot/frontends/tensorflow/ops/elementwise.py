"""Elements to elements: the operators hold whatever order of axes their operands have."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ingot.frontends.tensorflow.builder import Builder
from ingot.frontends.tensorflow.ops.table import OPS, Call, Result, aligned, op
from ingot.frontends.tensorflow.values import Item, Tensor
from ingot.graph.ir import Value

SAME = (
    *("Relu", "Elu", "Selu", "Sigmoid", "Tanh", "Exp", "Log", "Sqrt", "Neg", "Abs", "Sign", "Floor", "Ceil"),
    *("Erf", "Softplus", "Softsign", "Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh"),
    *("Asinh", "Acosh", "Atanh", "Reciprocal"),
)
RENAMED = {
    "LogicalNot": "Not",
    "Round": "Round",  # halves to the even number, as ONNX's
    "Rint": "Round",
    "Inv": "Reciprocal",
    "IsNan": "IsNaN",
    "Invert": "BitwiseNot",
}
BINARY = {
    "Add": "Add",
    "AddV2": "Add",
    "Sub": "Sub",
    "Mul": "Mul",
    "RealDiv": "Div",
    "TruncateDiv": "Div",
    "Pow": "Pow",
    "Equal": "Equal",
    "Less": "Less",
    "LessEqual": "LessOrEqual",
    "Greater": "Greater",
    "GreaterEqual": "GreaterOrEqual",
    "LogicalAnd": "And",
    "LogicalOr": "Or",
    "LogicalXor": "Xor",
    "BitwiseAnd": "BitwiseAnd",
    "BitwiseOr": "BitwiseOr",
    "BitwiseXor": "BitwiseXor",
    "Maximum": "Max",
    "Minimum": "Min",
}
UNCHANGED = (
    *(
        "Identity",
        "Snapshot",
        "StopGradient",
        "PreventGradient",
        "CheckNumerics",
        "DebugIdentity",
        "EnsureShape",
    ),
    *("NextIteration", "RefNextIteration", "RefIdentity", "LoopCond", "PlaceholderWithDefault", "Print"),
    "ReadVariableOp",
)


def unary(c: Call, write: Callable[[Builder, Value], Value]) -> Result:
    """One operand, in the order in which it is held."""
    x = c.tensor(0)
    return Tensor(write(c.b, x.value), x.order)


def binary(c: Call, write: Callable[[Builder, Value, Value], Value]) -> Result:
    (a, b), order = aligned(c.b, [c.tensor(0), c.tensor(1)])
    return Tensor(write(c.b, a, b), order)


def _enter_unary(name: str, onnx: str) -> None:
    OPS[name] = lambda c: unary(c, lambda b, x: b.one(onnx, x))


def _enter_binary(name: str, onnx: str) -> None:
    OPS[name] = lambda c: binary(c, lambda b, x, y: b.one(onnx, x, y))


for _name in SAME:
    _enter_unary(_name, _name)
for _name, _onnx in RENAMED.items():
    _enter_unary(_name, _onnx)
for _name, _onnx in BINARY.items():
    _enter_binary(_name, _onnx)


@op(*UNCHANGED)
def unchanged(c: Call) -> Item:
    """What goes in comes out, arrays and variables too."""
    if not c.items:
        raise c.refuse("an input is missing")
    return c.items[0]


@op("IdentityN")
def identity_n(c: Call) -> Result:
    return list(c.items)


def like(b: Builder, x: Value, number: float) -> Value:
    """A constant of x's type."""
    assert x.type is not None, "every value of the importer is inferred"
    return b.constant(number, x.type)


@op("Relu6")
def relu6(c: Call) -> Result:
    return unary(c, lambda b, x: b.one("Clip", x, like(b, x, 0), like(b, x, 6)))


@op("LeakyRelu")
def leaky_relu(c: Call) -> Result:
    return unary(c, lambda b, x: b.one("LeakyRelu", x, alpha=c.node.number("alpha", 0.2)))


@op("Rsqrt")
def rsqrt(c: Call) -> Result:
    return unary(c, lambda b, x: b.one("Reciprocal", b.one("Sqrt", x)))


@op("Square")
def square(c: Call) -> Result:
    return unary(c, lambda b, x: b.one("Mul", x, x))


@op("Expm1")
def expm1(c: Call) -> Result:
    return unary(c, lambda b, x: b.one("Sub", b.one("Exp", x), like(b, x, 1)))


@op("Log1p")
def log1p(c: Call) -> Result:
    return unary(c, lambda b, x: b.one("Log", b.one("Add", x, like(b, x, 1))))


@op("Erfc")
def erfc(c: Call) -> Result:
    return unary(c, lambda b, x: b.one("Sub", like(b, x, 1), b.one("Erf", x)))


@op("IsFinite")
def is_finite(c: Call) -> Result:
    return unary(c, lambda b, x: b.one("Not", b.one("Or", b.one("IsNaN", x), b.one("IsInf", x))))


@op("OnesLike", "ZerosLike")
def filled_like(c: Call) -> Result:
    x = c.tensor(0)
    return c.b.constant(np.full(x.shape, int(c.node.op == "OnesLike")), x.dtype)


@op("NotEqual")
def not_equal(c: Call) -> Result:
    return binary(c, lambda b, x, y: b.one("Not", b.one("Equal", x, y)))


@op("SquaredDifference")
def squared_difference(c: Call) -> Result:
    def write(b: Builder, x: Value, y: Value) -> Value:
        difference = b.one("Sub", x, y)
        return b.one("Mul", difference, difference)

    return binary(c, write)


@op("Div")
def div(c: Call) -> Result:
    """Of integers, towards zero."""
    return binary(c, lambda b, x, y: b.one("Div", x, y))


@op("FloorDiv")
def floor_div(c: Call) -> Result:
    """Of integers: x - floormod(x, y) is a multiple of y."""

    def write(b: Builder, x: Value, y: Value) -> Value:
        if x.type is not None and x.type.is_float:
            return b.one("Floor", b.one("Div", x, y))
        return b.one("Div", b.one("Sub", x, b.one("Mod", x, y)), y)

    return binary(c, write)


@op("FloorMod")
def floor_mod(c: Call) -> Result:
    """The result has the divisor's sign, as that of ONNX's Mod of integers."""

    def write(b: Builder, x: Value, y: Value) -> Value:
        if x.type is not None and x.type.is_float:
            return b.one("Sub", x, b.one("Mul", b.one("Floor", b.one("Div", x, y)), y))
        return b.one("Mod", x, y)

    return binary(c, write)


@op("Mod", "TruncateMod")
def truncate_mod(c: Call) -> Result:
    return binary(c, lambda b, x, y: b.one("Mod", x, y, fmod=1))


def _unless_zero(b: Builder, zero_where: Value, result: Value) -> Value:
    """0 where the operand is 0, else the result."""
    is_zero = b.one("Equal", zero_where, like(b, zero_where, 0))
    return b.one("Where", is_zero, like(b, zero_where, 0), result)


@op("DivNoNan")
def div_no_nan(c: Call) -> Result:
    return binary(c, lambda b, x, y: _unless_zero(b, y, b.one("Div", x, y)))


@op("MulNoNan")
def mul_no_nan(c: Call) -> Result:
    return binary(c, lambda b, x, y: _unless_zero(b, y, b.one("Mul", x, y)))


@op("Xdivy")
def xdivy(c: Call) -> Result:
    return binary(c, lambda b, x, y: _unless_zero(b, x, b.one("Div", x, y)))


@op("Xlogy")
def xlogy(c: Call) -> Result:
    return binary(c, lambda b, x, y: _unless_zero(b, x, b.one("Mul", x, b.one("Log", y))))


@op("LeftShift", "RightShift")
def shift(c: Call) -> Result:
    direction = "LEFT" if c.node.op == "LeftShift" else "RIGHT"
    return binary(c, lambda b, x, y: b.one("BitShift", x, y, direction=direction))


@op("AddN", "AccumulateNV2")
def add_n(c: Call) -> Result:
    values, order = aligned(c.b, c.tensors)
    return Tensor(values[0] if len(values) == 1 else c.b.one("Sum", *values), order)


@op("BiasAdd", "BiasAddV1")
def bias_add(c: Call) -> Result:
    """The bias goes along the channels, the last axis unless data_format says NCHW."""
    return biased(c, c.tensor(0), c.tensor(1))


def biased(c: Call, x: Tensor, bias: Tensor) -> Tensor:
    """x with the bias of each channel added."""
    c.require(bias.rank == 1, "the bias has one axis")
    if c.node.text("data_format", "NHWC").startswith("NC") and x.rank > 2:
        spread = c.b.reshape(c.b.plain(bias), (-1, *(1,) * (x.rank - 2)))
        bias = Tensor(spread)
    (a, b), order = aligned(c.b, [x, bias])
    return Tensor(c.b.one("Add", a, b), order)


@op("Select", "SelectV2")
def select(c: Call) -> Result:
    """Select's condition of one axis goes along the first axis of the others, SelectV2's broadcasts."""
    condition, x, y = c.tensor(0), c.tensor(1), c.tensor(2)
    if c.node.op == "Select" and condition.rank == 1 and x.rank > 1:
        condition = Tensor(c.b.reshape(c.b.plain(condition), (*condition.shape, *(1,) * (x.rank - 1))))
    values, order = aligned(c.b, [condition, x, y])
    return Tensor(c.b.one("Where", *values), order)


@op("ClipByValue")
def clip_by_value(c: Call) -> Result:
    (x, low), order = aligned(c.b, [c.tensor(0), c.tensor(1)])
    (y, high), order = aligned(c.b, [Tensor(c.b.one("Max", x, low), order), c.tensor(2)])
    return Tensor(c.b.one("Min", y, high), order)


@op("FakeQuantWithMinMaxVars", "FakeQuantWithMinMaxArgs", "FakeQuantWithMinMaxVarsPerChannel")
def fake_quant(c: Call) -> Result:
    """To the nearest of 2^bits numbers between bounds that are moved until 0 is one of them."""
    if c.node.op == "FakeQuantWithMinMaxArgs":
        low, high = np.float32(c.node.number("min", -6.0)), np.float32(c.node.number("max", 6.0))
    else:
        low, high = c.known(1, "the minimum"), c.known(2, "the maximum")
    first, last = int(c.node.flag("narrow_range")), (1 << c.node.integer("num_bits", 8)) - 1
    c.require(bool(np.all(low < high)) and first < last <= 1 << 16, "the bounds are in the wrong order")
    scale = ((high - low) / np.float32(last - first)).astype(np.float32)
    zero = np.clip(np.round(first - low / scale), first, last).astype(np.float32)
    bounds = [((n - zero) * scale).astype(np.float32) for n in (first, last)]
    x = c.plain(0)
    low_value, high_value, step = (c.b.constant(a) for a in (*bounds, scale))
    inside = c.b.one("Min", c.b.one("Max", x, low_value), high_value)
    steps = c.b.one("Div", c.b.one("Sub", inside, low_value), step)
    whole = c.b.one("Floor", c.b.one("Add", steps, like(c.b, x, 0.5)))
    return c.b.one("Add", c.b.one("Mul", whole, step), low_value)


@op("Cast")
def cast(c: Call) -> Result:
    return unary(c, lambda b, x: b.cast(x, c.node.dtype("DstT")))


@op("Atan2")
def atan2(c: Call) -> Result:
    """By the quadrant: atan(y/x), and pi added or subtracted where x is negative."""

    def write(b: Builder, y: Value, x: Value) -> Value:
        zero, pi = like(b, x, 0), like(b, x, np.pi)
        is_left, is_below = b.one("Less", x, zero), b.one("Less", y, zero)
        is_upright = b.one("Equal", x, zero)
        angle = b.one("Atan", b.one("Div", y, b.one("Where", is_upright, like(b, x, 1), x)))
        turned = b.one("Add", angle, b.one("Where", is_below, b.one("Neg", pi), pi))
        upright = b.one("Mul", b.one("Sign", y), like(b, x, np.pi / 2))
        return b.one("Where", is_upright, upright, b.one("Where", is_left, turned, angle))

    return binary(c, write)
