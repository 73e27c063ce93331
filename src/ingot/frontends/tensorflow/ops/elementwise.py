"""Elements to elements: the operators hold whatever order of axes their operands have."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ingot.frontends.orders import Builder, aligned, like
from ingot.frontends.tensorflow.ops.table import OPS, Call, Result, op
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
        raise c.refuse("it has no inputs, but needs at least one")
    return c.items[0]


@op("IdentityN")
def identity_n(c: Call) -> Result:
    return list(c.items)


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
    """e^x - 1 == tanh(x/2) * (e^x + 1): nothing cancels near 0."""

    def write(b: Builder, x: Value) -> Value:
        half = b.one("Tanh", b.one("Mul", x, like(b, x, 0.5)))
        return b.one("Mul", half, b.one("Add", b.one("Exp", x), like(b, x, 1)))

    return unary(c, write)


@op("Log1p")
def log1p(c: Call) -> Result:
    """log(1 + x) == 2 * atanh(x / (x + 2)) near 0, where 1 + x would lose digits of x."""

    def write(b: Builder, x: Value) -> Value:
        ratio = b.one("Div", x, b.one("Add", x, like(b, x, 2)))
        near = b.one("Mul", b.one("Atanh", ratio), like(b, x, 2))
        is_near = b.one("Less", b.one("Abs", x), like(b, x, 0.5))
        return b.one("Where", is_near, near, b.one("Log", b.one("Add", x, like(b, x, 1))))

    return unary(c, write)


@op("Erfc")
def erfc(c: Call) -> Result:
    return unary(c, lambda b, x: b.one("Sub", like(b, x, 1), b.one("Erf", x)))


@op("IsFinite")
def is_finite(c: Call) -> Result:
    return unary(c, lambda b, x: b.one("Not", b.one("Or", b.one("IsNaN", x), b.one("IsInf", x))))


@op("OnesLike", "ZerosLike")
def filled_like(c: Call) -> Result:
    x = c.tensor(0)
    return c.b.filled(x.shape, int(c.node.op == "OnesLike"), x.dtype)


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
    """Of integers: the quotient towards zero, less one where the two remainders differ."""

    def write(b: Builder, x: Value, y: Value) -> Value:
        assert x.type is not None, "every value of the importer is inferred"
        quotient = b.one("Div", x, y)
        if x.type.is_float:
            return b.one("Floor", quotient)
        same = b.one("Equal", b.one("Mod", x, y), b.one("Mod", x, y, fmod=1))
        return b.one("Sub", quotient, b.cast(b.one("Not", same), x.type))

    return binary(c, write)


@op("FloorMod")
def floor_mod(c: Call) -> Result:
    """The result has the divisor's sign, as that of ONNX's Mod of integers."""

    def write(b: Builder, x: Value, y: Value) -> Value:
        if x.type is None or not x.type.is_float:
            return b.one("Mod", x, y)
        rest, zero = b.one("Mod", x, y, fmod=1), like(b, x, 0)
        differs = b.one("Xor", b.one("Less", rest, zero), b.one("Less", y, zero))
        moves = b.one("And", differs, b.one("Not", b.one("Equal", rest, zero)))
        return b.one("Where", moves, b.one("Add", rest, y), rest)

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
    c.require(bias.rank == 1, f"the bias must have one axis, but it has {bias.rank}")
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
    c.require(bool(np.all(low < high)), "min must be less than max, for each channel where there are several")
    c.require(
        first < last <= 1 << 16, f"num_bits must lie between 2 and 16, but {last + 1} levels are asked for"
    )
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
    """By the quadrant: the angle of |y| over |x| is mirrored where x, and then where y is negative."""

    def write(b: Builder, y: Value, x: Value) -> Value:
        zero, height, width = like(b, x, 0), b.one("Abs", y), b.one("Abs", x)
        same = b.one("Where", b.one("Equal", height, zero), zero, like(b, x, 1))  # of 0, 0 and of infinities
        ratio = b.one("Where", b.one("Equal", height, width), same, b.one("Div", height, width))
        angle = b.one("Atan", ratio)
        mirrored = b.one("Sub", like(b, x, np.pi), angle)
        turned = b.one("Where", _is_negative(b, x), mirrored, angle)
        return b.one("Where", _is_negative(b, y), b.one("Neg", turned), turned)

    return binary(c, write)


def _is_negative(b: Builder, x: Value) -> Value:
    """By the sign bit: 1/x is infinite for a zero and has its sign."""
    zero = like(b, x, 0)
    signed = b.one("Where", b.one("Equal", x, zero), b.one("Reciprocal", x), x)
    return b.one("Less", signed, zero)
