"""Numbers by integer weights: operands are brought to bytes when the model runs (TFLite's hybrid kernels).

In: rows of numbers; out: int8, and of each row its zero point and scale.
"""

from __future__ import annotations

from ingot.formula.types import FLOAT32, FLOAT64, INT8, INT32
from ingot.frontends.builder import extents_of
from ingot.frontends.orders import Builder, like
from ingot.frontends.tflite.ops.table import Call
from ingot.graph.ir import Value


def quantised_rows(c: Call, x: Value, is_asymmetric: bool = False) -> tuple[Value, Value, Value]:
    """Each index of axis 0 on its own. Symmetric: the largest size is 127."""
    b, rank = c.b, len(extents_of(x))
    axes = b.ints(list(range(1, rank)))
    if is_asymmetric:
        return _asymmetric(c, x, axes)
    size = b.one("ReduceMax", b.one("Abs", x), axes, keepdims=1)
    is_zero = b.one("Equal", size, like(b, size, 0))
    scale = b.one("Where", is_zero, like(b, size, 1), b.one("Div", size, like(b, size, 127)))
    inverse = b.one("Where", is_zero, like(b, size, 0), b.one("Div", like(b, size, 127), size))
    whole = _away(b, b.one("Mul", x, inverse))
    q = b.cast(b.one("Clip", whole, like(b, x, -127), like(b, x, 127)), INT8)
    return q, b.constant(0, INT32), scale


def _asymmetric(c: Call, x: Value, axes: Value) -> tuple[Value, Value, Value]:
    """The range, which holds 0, in 255 steps (AsymmetricQuantizeFloats); the zero point nearest to exact."""
    b = c.b
    zero = b.constant(0.0, FLOAT64)
    low = b.one("Min", b.cast(b.one("ReduceMin", x, axes, keepdims=1), FLOAT64), zero)
    high = b.one("Max", b.cast(b.one("ReduceMax", x, axes, keepdims=1), FLOAT64), zero)
    span = b.one("Sub", high, low)
    is_zero = b.one("Equal", span, zero)
    step = b.one("Where", is_zero, like(b, span, 1), b.one("Div", span, like(b, span, 255)))
    below, above = (b.one("Div", side, step) for side in (low, high))
    low_error = b.one("Add", like(b, span, 128), b.one("Abs", below))
    high_error = b.one("Add", like(b, span, 127), b.one("Abs", above))
    from_low, from_high = b.one("Sub", like(b, span, -128), below), b.one("Sub", like(b, span, 127), above)
    point = b.one("Where", b.one("Less", low_error, high_error), from_low, from_high)
    point = _away(b, b.one("Clip", point, like(b, span, -128), like(b, span, 127)))
    point = b.cast(b.one("Where", is_zero, zero, point), FLOAT32)
    scale = b.cast(step, FLOAT32)
    inverse = b.one("Where", is_zero, like(b, x, 0), b.one("Div", like(b, x, 1), scale))
    whole = _away(b, b.one("Add", point, b.one("Mul", x, inverse)))
    q = b.cast(b.one("Clip", whole, like(b, x, -128), like(b, x, 127)), INT8)
    return q, b.cast(point, INT32), scale


def _away(b: Builder, x: Value) -> Value:
    """Halves away from 0, in ONNX's own operators: runtimes of ONNX take models of numbers."""
    whole = b.one("Floor", b.one("Abs", x))
    more = b.one("GreaterOrEqual", b.one("Sub", b.one("Abs", x), whole), like(b, x, 0.5))
    assert x.type is not None, "every value of the importer is inferred"
    size = b.one("Add", whole, b.cast(more, x.type))
    return b.one("Mul", size, b.one("Sign", x))
