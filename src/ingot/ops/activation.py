"""Activations: functions of one element (and of a slope), one line each.

Those whose ONNX function body would cancel or overflow are written in a stable form: log(1 + e^x) and e^x - 1
go through log1p and expm1.
"""

from __future__ import annotations

import math

from ingot.formula.expr import Const, Expr, Tensor, call, cast, maximum, minimum, select
from ingot.formula.types import FLOAT64
from ingot.ops.registry import Builder, broadcast_map, elementwise, op


def softplus(x: Expr) -> Expr:
    """log(1 + e^x) == max(x, 0) + log(1 + e^-|x|), which cannot overflow."""
    return maximum(x, 0) + call("log1p", call("exp_nonpositive", -call("abs", x)))


def sigmoid(x: Expr) -> Expr:
    return call("sigmoid", x)


def elu(x: Expr, alpha: float) -> Expr:
    """x above zero, alpha * (e^x - 1) below."""
    return select(x > 0, x, call("expm1", x) * alpha)


def gelu(x: Expr, *, approximate: str = "none") -> Expr:
    """x * Phi(x): through erf, or through tanh (Gelu-20, approximate)."""
    if approximate == "tanh":
        inner = (x + x * x * x * 0.044715) * math.sqrt(2 / math.pi)
        return x * 0.5 * (call("tanh", inner) + 1)
    assert approximate == "none", f"approximate={approximate!r}"
    return x * 0.5 * (call("erf", x * math.sqrt(0.5)) + 1)


def hard_sigmoid(x: Expr, *, alpha: float = 0.2, beta: float = 0.5) -> Expr:
    return maximum(minimum(x * alpha + beta, 1), 0)


elementwise("Relu", lambda x: maximum(x, 0), kinds="fi")
elementwise("LeakyRelu", lambda x, *, alpha=0.01: select(x < 0, x * alpha, x), kinds="f")
elementwise("ThresholdedRelu", lambda x, *, alpha=1.0: select(x > alpha, x, 0), kinds="f")
elementwise("Elu", lambda x, *, alpha=1.0: elu(x, alpha), kinds="f")
elementwise(
    "Selu",
    lambda x, *, alpha=1.6732631921768188, gamma=1.0507010221481323: elu(x, alpha) * gamma,
    kinds="f",
)
elementwise(
    "Celu",
    lambda x, *, alpha=1.0: maximum(x, 0) + minimum(call("expm1", x / alpha) * alpha, 0),
    kinds="f",
)
elementwise("Gelu", gelu, kinds="f")
elementwise("Sigmoid", sigmoid, kinds="f")
elementwise("HardSigmoid", hard_sigmoid, kinds="f")
elementwise("HardSwish", lambda x: x * hard_sigmoid(x, alpha=1 / 6), kinds="f")
elementwise("Swish", lambda x, *, alpha=1.0: x * sigmoid(x * alpha), kinds="f")
elementwise("SwiGLU", lambda a, b, *, alpha=1.0: a * sigmoid(a * alpha) * b, kinds="f")
elementwise("Mish", lambda x: x * call("tanh", softplus(x)), kinds="f")
elementwise("Softplus", softplus, kinds="f")
elementwise("Softsign", lambda x: x / (call("abs", x) + 1), kinds="f")


def _shrink(x: Expr, *, bias: float = 0.0, lambd: float = 0.5) -> Expr:
    """x moved by bias towards zero outside -lambd .. lambd, 0 inside; integers by way of float64."""
    wide = cast(x, x.dtype if x.dtype.is_float else FLOAT64)
    return cast(select(wide < -lambd, wide + bias, select(wide > lambd, wide - bias, 0)), x.dtype)


elementwise("Shrink", _shrink)


@op("PRelu", since=7)
def prelu(f: Builder, x: Tensor, slope: Tensor) -> Tensor:
    """slope * x below zero, x elsewhere; the slope broadcasts to x."""
    f.same_type((x, slope), "fiu")
    y = broadcast_map(f, (x, slope), lambda a, s: select(a < 0, a * s, a))
    f.require(y.shape == x.shape, f"slope {slope.shape} does not broadcast to {x.shape}")
    return y


@op("PRelu")
def prelu_1(f: Builder, x: Tensor, slope: Tensor) -> Tensor:
    """Before opset 7 the slope is one number or one per channel, axis 1."""
    f.same_type((x, slope), "f")
    f.require(slope.rank == 1 and slope.shape[0] in (1, *x.shape[1:2]), f"slope {slope.shape} for {x.shape}")
    axes = f.axes(x.shape)
    s = slope[(Const(0) if slope.shape[0] == 1 else axes[1],)]
    return f.map(axes, select(x[axes] < 0, x[axes] * s, x[axes]), x.type)


# -- Clip: the bounds were attributes before opset 11


@op("Clip", since=11)
def clip(f: Builder, x: Tensor, min: Tensor | None = None, max: Tensor | None = None) -> Tensor:
    """min(max(x, lowest), highest): where the bounds cross, the upper one wins; one left out is no bound."""
    bounds = tuple(t for t in (min, max) if t is not None)
    f.same_type((x, *bounds), "fiu")
    f.require(all(t.count == 1 for t in bounds), "the bounds must be scalars")
    axes = f.axes(x.shape)
    y: Expr = x[axes]
    if min is not None:
        y = maximum(y, min[(0,) * min.rank])
    if max is not None:
        y = minimum(y, max[(0,) * max.rank])
    return f.map(axes, y, x.type)


FLOAT_MAX = 3.4028234663852886e38


@op("Clip")
def clip_1(f: Builder, x: Tensor, *, min: float = -FLOAT_MAX, max: float = FLOAT_MAX) -> Tensor:
    """Clip-6: without bounds infinities become the largest float32."""
    f.same_type((x,), "f")
    return broadcast_map(f, (x,), lambda a: minimum(maximum(a, min), max))
