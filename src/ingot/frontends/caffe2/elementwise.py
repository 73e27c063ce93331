"""Operators on elements, reductions, and those that move elements."""

from __future__ import annotations

from collections.abc import Callable
from math import prod, sqrt

import numpy as np

from ingot.errors import ModelError, UnsupportedError
from ingot.formula.types import BOOL, FLOAT16, FLOAT32, INT32, INT64
from ingot.frontends.builder import extents_of
from ingot.frontends.caffe2.call import OPS, TO_NCHW, TO_NHWC, Call, named_type, row, whole
from ingot.graph.ir import Value

UNARY = {
    **{
        name: name
        for name in ("Relu", "Sigmoid", "Tanh", "Exp", "Log", "Abs", "Ceil", "Floor", "Sqrt", "Sign")
    },
    "Neg": "Neg",
    "Negative": "Neg",
    "Not": "Not",
    "Softplus": "Softplus",
    "Erf": "Erf",
    "Round": "Round",
    "Reciprocal": "Reciprocal",
    "Inverse": "Reciprocal",
}
BINARY = {"Add": "Add", "Sub": "Sub", "Mul": "Mul", "Div": "Div", "And": "And", "Or": "Or", "Xor": "Xor"} | {
    "EQ": "Equal",
    "LT": "Less",
    "Less": "Less",
    "LE": "LessOrEqual",
    "GT": "Greater",
    "GE": "GreaterOrEqual",
}
SAME = (
    "Alias Identity Copy CopyCPUToMKL CopyMKLToCPU CopyFromCPUInput EnsureCPUOutput EnsureDense StopGradient"
    " ScaleGradient Dropout"
)
LOGIT_EPSILON = 1e-6


def _unary(name: str) -> Callable[[Call], Value]:
    return lambda c: c.b.one(name, c.x())


def _binary(name: str) -> Callable[[Call], Value]:
    return lambda c: c.b.one(name, c.x(), _broadcast(c))


def _broadcast(c: Call) -> Value:
    """The second operand, its axes at those of the first from `axis` on where old nets say so."""
    second, rank = c.x(1), len(c.shape())
    inner = extents_of(second)
    if not c.integer("broadcast", 0) or "axis" not in c.args:
        return second
    behind = rank - c.axis(0) - len(inner)
    if behind < 0:
        raise ModelError(f"{c.label}: {inner} does not fit {c.shape()} from axis {c.axis(0)} on")
    return c.b.reshape(second, [*inner, *[1] * behind])


OPS.update({name: _unary(op) for name, op in UNARY.items()})
OPS.update({name: _binary(op) for name, op in BINARY.items()})
OPS.update({name: (lambda c: c.x()) for name in SAME.split()})


@row("Sum", "Max", "Min", "Mean")
def of_all(c: Call) -> Value:
    return c.b.one(c.op.type, *c.inputs)


@row("NE")
def not_equal(c: Call) -> Value:
    return c.b.one("Not", c.b.one("Equal", c.x(), _broadcast(c)))


@row("Pow")
def power(c: Call) -> Value:
    """By a number, or by another input."""
    exponent = _broadcast(c) if len(c.inputs) > 1 else c.like(c.number("exponent", 1.0), c.x())
    return c.b.one("Pow", c.x(), exponent)


@row("Sqr")
def square(c: Call) -> Value:
    return c.b.one("Mul", c.x(), c.x())


@row("Log1p")
def log1p(c: Call) -> Value:
    return c.b.one("Log", c.b.one("Add", c.x(), c.like(1, c.x())))


@row("Swish")
def swish(c: Call) -> Value:
    return c.b.one("Mul", c.x(), c.b.one("Sigmoid", c.x()))


@row("Gelu")
def gelu(c: Call) -> Value:
    """x (1 + erf(x / sqrt 2)) / 2."""
    inner = c.b.one("Erf", c.b.one("Mul", c.x(), c.like(sqrt(0.5), c.x())))
    return c.b.one("Mul", c.b.one("Mul", c.x(), c.like(0.5, c.x())), c.b.one("Add", inner, c.like(1, c.x())))


@row("Logit")
def logit(c: Call) -> Value:
    """log(x / (1 - x)), x at least eps away from 0 and 1."""
    eps = c.number("eps", LOGIT_EPSILON)
    x = c.b.one("Clip", c.x(), c.like(eps, c.x()), c.like(1 - eps, c.x()))
    return c.b.one("Log", c.b.one("Div", x, c.b.one("Sub", c.like(1, x), x)))


@row("Clip")
def clip(c: Call) -> Value:
    limit = float(np.finfo(np.float32).max)
    return c.b.one(
        "Clip", c.x(), c.like(c.number("min", -limit), c.x()), c.like(c.number("max", limit), c.x())
    )


@row("Scale")
def scale(c: Call) -> Value:
    return c.b.one("Mul", c.x(), c.like(c.number("scale", 1.0), c.x()))


@row("Mod")
def modulo(c: Call) -> Value:
    """By a number; the sign is that of x, or of the divisor."""
    divisor = c.integer("divisor", 0)
    if divisor < 1:
        raise ModelError(f"{c.label}: the divisor {divisor} is less than 1")
    return c.b.one("Mod", c.x(), c.like(divisor, c.x()), fmod=int(not c.integer("sign_follow_divisor", 0)))


@row("Cast")
def cast(c: Call) -> Value:
    return c.b.cast(c.x(), named_type(c, c.integer("to")))


@row("HalfToFloat")
def half_to_float(c: Call) -> Value:
    return c.b.cast(c.x(), FLOAT32)


@row("FloatToHalf")
def float_to_half(c: Call) -> Value:
    return c.b.cast(c.x(), FLOAT16)


@row("PRelu")
def prelu(c: Call) -> Value:
    """A slope for all elements, or one for each channel."""
    slope, extents = c.x(1), c.shape()
    count = prod(extents_of(slope))
    if count > 1 and not c.is_nhwc:
        slope = c.b.reshape(slope, [count, *[1] * (len(extents) - 2)])
    return c.b.one("PRelu", c.x(), slope)


@row("Softmax")
def softmax(c: Call) -> Value:
    """Over all axes from `axis` on, as one."""
    axis = c.axis(1)
    return c.b.reshape(c.b.one("Softmax", c.two_axes(c.x(), axis), axis=1), c.shape())


@row("ElementwiseLinear")
def linear(c: Call) -> Value:
    """x w + b, w and b along all axes from `axis` on (Caffe2), which are one."""
    axis = c.axis(1)
    count = prod(c.shape()[axis:])
    flat = c.two_axes(c.x(), axis)
    w, b = (c.b.reshape(c.x(i), [1, count]) if prod(c.shape(i)) == count else None for i in (1, 2))
    if w is None or b is None:
        raise ModelError(f"{c.label}: {c.shape(1)} weights for the axes of {c.shape()} from {axis} on")
    return c.b.reshape(c.b.one("Add", c.b.one("Mul", flat, w), b), c.shape())


@row("ReplaceNaN")
def replace_nan(c: Call) -> Value:
    return c.b.one("Where", c.b.one("IsNaN", c.x()), c.like(c.number("value", 0.0), c.x()), c.x())


@row("Bucketize")
def bucketize(c: Call) -> Value:
    """How many boundaries are less than an element."""
    wide = c.b.reshape(c.x(), [*c.shape(), 1])
    less = c.b.cast(c.b.one("Greater", wide, c.const(c.floats("boundaries"))), INT32)
    return c.b.one("ReduceSum", less, c.b.ints([-1]), keepdims=0)


@row("BatchBoxCox")
def box_cox(c: Call) -> Value:
    """ln(max(x + l2, e)) where l1 is 0, else (max(x + l2, e)^l1 - 1) / l1, by columns; e is 1e-6."""
    x, l1, l2 = c.x(), c.x(1), c.x(2)
    moved = c.b.one("Max", c.b.one("Add", x, l2), c.like(1e-6, x))
    is_zero = c.b.one("Equal", l1, c.like(0, l1))
    safe = c.b.one("Where", is_zero, c.like(1, l1), l1)
    power_ = c.b.one("Div", c.b.one("Sub", c.b.one("Pow", moved, safe), c.like(1, x)), safe)
    return c.b.one("Where", is_zero, c.b.one("Log", moved), power_)


@row("SigmoidCrossEntropyWithLogits")
def cross_entropy(c: Call) -> Value:
    """Mean over the last axis of max(x, 0) - x t + log(1 + exp(-|x|))."""
    x, t = c.x(), c.x(1)
    soft = c.b.one("Log", c.b.one("Add", c.b.one("Exp", c.b.one("Neg", c.b.one("Abs", x))), c.like(1, x)))
    terms = c.b.one("Add", c.b.one("Sub", c.b.one("Relu", x), c.b.one("Mul", x, t)), soft)
    return c.b.one("ReduceMean", terms, c.b.ints([-1]), keepdims=0)


# ---- reductions


@row("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd")
def reduce(c: Call) -> Value:
    axes = c.integers("axes")
    return c.b.one(c.op.type, c.x(), c.b.ints(axes) if axes else None, keepdims=c.integer("keepdims", 1))


@row(
    "ReduceBackSum", "ReduceBackMean", "ReduceBackMax", "ReduceFrontSum", "ReduceFrontMean", "ReduceFrontMax"
)
def reduce_end(c: Call) -> Value:
    """Over the last or the first `num_reduce_dim` axes."""
    if len(c.inputs) > 1:
        raise UnsupportedError(f"{c.label}: lengths are not supported")
    side, rank = c.op.type.removeprefix("Reduce"), len(c.shape())
    count = c.integer("num_reduce_dim", c.integer("num_reduce_dims", 1))
    if not 0 < count <= rank:
        raise ModelError(f"{c.label}: {count} axes of {rank}")
    axes = range(rank - count, rank) if side.startswith("Back") else range(count)
    op = f"Reduce{side.removeprefix('Back').removeprefix('Front')}"
    return c.b.one(op, c.x(), c.b.ints(list(axes)), keepdims=0)


@row("AveragedLoss")
def averaged(c: Call) -> Value:
    return c.b.one("ReduceMean", c.x(), None, keepdims=0)


@row("LpNorm")
def norm(c: Call) -> Value:
    """The sum of |x|, or of squares: no root is taken."""
    p = c.integer("p", 2)
    if p not in (1, 2):
        raise ModelError(f"{c.label}: p is {p}, neither 1 nor 2")
    terms = c.b.one("Abs", c.x()) if p == 1 else c.b.one("Mul", c.x(), c.x())
    op = "ReduceMean" if c.integer("average", 0) else "ReduceSum"
    return c.b.reshape(c.b.one(op, terms, None, keepdims=0), [1])


@row("ArgMin", "ArgMax")
def arg(c: Call) -> Value:
    return c.b.one(c.op.type, c.x(), axis=c.axis(-1), keepdims=c.integer("keepdims", 1))


@row("TopK")
def top_k(c: Call) -> list[Value]:
    k = int(c.elements(1, "k").reshape(-1)[0]) if len(c.inputs) > 1 else c.integer("k")
    values, places = c.b.many("TopK", 2, c.x(), c.b.ints([k]), axis=c.axis(-1))
    return [values, c.b.cast(places, INT32)]


@row("DotProduct")
def dot(c: Call) -> Value:
    """The scalar product of each row with the other's."""
    terms = c.b.one("Mul", c.x(), c.x(1))
    axes = list(range(1, len(c.shape())))
    return c.b.one("ReduceSum", terms, c.b.ints(axes), keepdims=0) if axes else terms


# ---- moves


@row("Concat")
def concat(c: Call) -> list[Value]:
    """The whole, and how much each part has of it. `add_axis` stacks along a new axis."""
    if c.integer("add_axis", 0):
        axis = c.axis(0, rank=len(c.shape()) + 1)
        axes = c.b.ints([axis])
        parts = [c.b.one("Unsqueeze", x, axes) for x in c.inputs]
    else:
        axis = c.axis(len(c.shape()) - 1 if c.is_nhwc else 1)
        parts = c.inputs
    sizes = [extents_of(p)[axis] for p in parts if axis < len(extents_of(p))]
    return [c.b.one("Concat", *parts, axis=axis), c.b.constant(np.asarray(sizes), INT32)]


@row("Split")
def split(c: Call) -> list[Value]:
    axis = c.axis(len(c.shape()) - 1 if c.is_nhwc else 1)
    count, sizes = len(c.op.output), c.integers("split")
    if len(c.inputs) > 1:
        sizes = [int(n) for n in c.elements(1, "the sizes").reshape(-1)]
    whole_, each = c.shape()[axis], c.shape()[axis] // max(count, 1)
    if sizes is None and each * count != whole_:
        raise ModelError(f"{c.label}: {whole_} elements along axis {axis} in {count} equal parts")
    return c.b.many("Split", count, c.x(), c.b.ints(sizes or [each] * count), axis=axis)


@row("Reshape")
def reshape(c: Call) -> list[Value]:
    """The result, and the old shape. 0 keeps an extent, -1 is what is left."""
    wanted = c.integers("shape")
    if len(c.inputs) > 1:
        wanted = [int(n) for n in c.elements(1, "the shape").reshape(-1)]
    if wanted is None:
        raise ModelError(f"{c.label}: no shape is given")
    return [c.b.one("Reshape", c.x(), c.b.ints(wanted)), c.b.constant(whole(c.shape()))]


@row("Flatten", "FlattenToVec")
def flatten(c: Call) -> Value:
    if c.op.type == "FlattenToVec":
        return c.b.reshape(c.x(), [prod(c.shape())])
    return c.two_axes(c.x(), c.integer("axis", 1))


@row("Squeeze")
def squeeze(c: Call) -> Value:
    return c.b.one("Squeeze", c.x(), c.b.ints(c.integers("dims") or []))


@row("ExpandDims")
def expand(c: Call) -> Value:
    return c.b.one("Unsqueeze", c.x(), c.b.ints(c.integers("dims") or []))


@row("Transpose")
def transpose(c: Call) -> Value:
    order = c.integers("axes") or list(range(len(c.shape())))[::-1]
    if sorted(order) != list(range(len(c.shape()))):
        raise ModelError(f"{c.label}: axes {order} of a tensor of {len(c.shape())}")
    return c.b.transposed(c.x(), tuple(order))


@row("NCHW2NHWC", "NHWC2NCHW")
def change_order(c: Call) -> Value:
    return c.b.one("Transpose", c.x(), perm=TO_NHWC if c.op.type == "NCHW2NHWC" else TO_NCHW)


@row("Slice")
def cut(c: Call) -> Value:
    """From `starts` to `ends`; -1 is behind the last element, -2 the last."""
    starts, ends = c.integers("starts"), c.integers("ends")
    if len(c.inputs) > 1:
        starts, ends = ([int(n) for n in c.elements(i, "the limits").reshape(-1)] for i in (1, 2))
    if starts is None or ends is None or not len(starts) == len(ends) <= len(c.shape()):
        raise ModelError(f"{c.label}: starts {starts} and ends {ends} of a tensor {c.shape()}")
    limits = [
        [n if n >= 0 else n + 1 + e for n, e in zip(ns, c.shape(), strict=False)] for ns in (starts, ends)
    ]
    return c.b.one(
        "Slice", c.x(), c.b.ints(limits[0]), c.b.ints(limits[1]), c.b.ints(list(range(len(starts))))
    )


@row("Tile")
def tile(c: Call) -> Value:
    times = [1] * len(c.shape())
    times[c.axis(0)] = c.integer("tiles", 1)
    return c.b.one("Tile", c.x(), c.b.ints(times))


@row("Gather", "BatchGather")
def gather(c: Call) -> Value:
    return c.b.one("Gather", c.x(), c.x(1), axis=1 if c.op.type == "BatchGather" else c.axis(0))


@row("ScatterAssign")
def scatter(c: Call) -> Value:
    """Rows of the first input by those of the third, at the places of the second."""
    rows = c.b.reshape(c.b.cast(c.x(1), INT64), [prod(c.shape(1)), 1])
    return c.b.one("ScatterND", c.x(), rows, c.x(2))


@row("BatchOneHot")
def batch_one_hot(c: Call) -> Value:
    """Column d of the data against the next lengths[d] values, side by side."""
    lengths = c.elements(1, "the lengths").reshape(-1)
    values = c.elements(2, "the values").reshape(-1)
    if lengths.min(initial=0) < 0 or int(lengths.sum()) != len(values) or len(lengths) != c.shape()[1]:
        raise ModelError(f"{c.label}: lengths {lengths.tolist()} for {len(values)} values of {c.shape()}")
    columns = np.repeat(np.arange(len(lengths)), lengths)
    wide = c.b.one("Gather", c.x(), c.b.ints([int(n) for n in columns]), axis=1)
    same = c.b.one("Equal", wide, c.b.constant(values, c.x().type))
    return c.b.cast(same, c.x().type or BOOL)
