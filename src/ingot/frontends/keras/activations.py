"""Activation functions, by the names and settings under which Keras saves them. In: a tensor; out: a tensor.

Keras 2 and 3 differ in `hard_sigmoid`: 0.2 x + 0.5, or x / 6 + 0.5, both within 0 and 1.
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import Any

import numpy as np

from ingot.errors import ModelError, UnsupportedError
from ingot.formula.types import FLOAT32
from ingot.frontends.keras.configs import Layer, layer_of
from ingot.frontends.orders import Builder, Tensor, like
from ingot.graph.ir import Value

Elementwise = Callable[[Builder, Value], Value]
SAME = {
    "relu": "Relu",
    "sigmoid": "Sigmoid",
    "tanh": "Tanh",
    "softplus": "Softplus",
    "softsign": "Softsign",
    "exponential": "Exp",
    "selu": "Selu",
    "elu": "Elu",
    "celu": "Celu",
}
SELU_ALPHA, SELU_SCALE = 1.6732632423543772, 1.0507009873554805
IDENTITY = ("linear", "")


def swish(b: Builder, x: Value) -> Value:
    return b.one("Mul", x, b.one("Sigmoid", x))


def mish(b: Builder, x: Value) -> Value:
    return b.one("Mul", x, b.one("Tanh", b.one("Softplus", x)))


def gelu(b: Builder, x: Value) -> Value:
    """x times the normal distribution's integral up to x."""
    integral = b.one("Add", b.one("Erf", b.one("Mul", x, like(b, x, 1 / sqrt(2)))), like(b, x, 1))
    return b.one("Mul", b.one("Mul", x, like(b, x, 0.5)), integral)


def gelu_by_tanh(b: Builder, x: Value) -> Value:
    """Its approximation, x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))."""
    cube = b.one("Mul", b.one("Mul", x, x), x)
    inner = b.one("Add", x, b.one("Mul", cube, like(b, x, 0.044715)))
    bent = b.one("Tanh", b.one("Mul", inner, like(b, x, sqrt(2 / np.pi))))
    return b.one("Mul", b.one("Mul", x, like(b, x, 0.5)), b.one("Add", bent, like(b, x, 1)))


def clipped(b: Builder, x: Value, low: float | None, high: float | None) -> Value:
    """x within limits; None: no limit."""
    return b.one("Clip", x, *(None if n is None else like(b, x, n) for n in (low, high)))


def hard_sigmoid(b: Builder, x: Value) -> Value:
    return b.one("HardSigmoid", x, alpha=1 / 6, beta=0.5)


def old_hard_sigmoid(b: Builder, x: Value) -> Value:
    return b.one("HardSigmoid", x, alpha=0.2, beta=0.5)


def hard_swish(b: Builder, x: Value) -> Value:
    return b.one("HardSwish", x)


def leaky(b: Builder, x: Value, slope: float = 0.2) -> Value:
    return b.one("LeakyRelu", x, alpha=slope)


def squareplus(b: Builder, x: Value) -> Value:
    """(x + sqrt(x^2 + 4)) / 2"""
    root = b.one("Sqrt", b.one("Add", b.one("Mul", x, x), like(b, x, 4)))
    return b.one("Mul", b.one("Add", x, root), like(b, x, 0.5))


def log_sigmoid(b: Builder, x: Value) -> Value:
    return b.one("Neg", b.one("Softplus", b.one("Neg", x)))


def hard_shrink(b: Builder, x: Value) -> Value:
    return b.one("Shrink", x, lambd=0.5, bias=0.0)


def soft_shrink(b: Builder, x: Value) -> Value:
    return b.one("Shrink", x, lambd=0.5, bias=0.5)


def tanh_shrink(b: Builder, x: Value) -> Value:
    return b.one("Sub", x, b.one("Tanh", x))


def sparse_plus(b: Builder, x: Value) -> Value:
    """0 up to -1, (x + 1)^2 / 4 up to 1, then x."""
    up = b.one("Add", clipped(b, x, -1, 1), like(b, x, 1))
    bow = b.one("Mul", b.one("Mul", up, up), like(b, x, 0.25))
    return b.one("Add", bow, b.one("Relu", b.one("Sub", x, like(b, x, 1))))


def sparse_sigmoid(b: Builder, x: Value) -> Value:
    return clipped(b, b.one("Mul", b.one("Add", x, like(b, x, 1)), like(b, x, 0.5)), 0, 1)


FUNCTIONS: dict[str, Elementwise] = {
    "relu6": lambda b, x: clipped(b, x, 0, 6),
    "leaky_relu": leaky,
    "swish": swish,
    "silu": swish,
    "gelu": gelu,
    "mish": mish,
    "hard_sigmoid": hard_sigmoid,
    "hard_swish": hard_swish,
    "hard_silu": hard_swish,
    "hard_tanh": lambda b, x: clipped(b, x, -1, 1),
    "hard_shrink": hard_shrink,
    "soft_shrink": soft_shrink,
    "tanh_shrink": tanh_shrink,
    "squareplus": squareplus,
    "log_sigmoid": log_sigmoid,
    "sparse_plus": sparse_plus,
    "sparse_sigmoid": sparse_sigmoid,
}
ALONG_LAST = {"softmax": "Softmax", "log_softmax": "LogSoftmax"}


def elementwise(name: str, is_3: bool) -> Elementwise | None:
    """The function of this name that treats every element alike, or None."""
    if name in IDENTITY:
        return lambda b, x: x
    if name == "hard_sigmoid" and not is_3:
        return old_hard_sigmoid
    if name in SAME:
        return lambda b, x: b.one(SAME[name], x)
    return FUNCTIONS.get(name)


def named(document: Any, label: str) -> str | Layer:
    """What an `activation` of a configuration is: a name, or a layer. Raises ModelError."""
    if document is None:
        return "linear"
    if isinstance(document, str):
        return document
    if isinstance(document, dict):
        inside = document.get("config")
        if isinstance(inside, str):
            return inside
        if document.get("class_name") == "function":
            raise UnsupportedError(f"{label}: its activation is a function of your own")
        return layer_of(document, label)
    raise ModelError(f"{label}: its activation is {str(document)[:60]!r}")


def applied(b: Builder, x: Tensor, name: str, is_3: bool, label: str) -> Tensor:
    """The activation of this name. Raises UnsupportedError for a name that is not known."""
    found = elementwise(name, is_3)
    if found is not None:
        return Tensor(found(b, x.value), x.order)
    if name in ALONG_LAST:
        return along(b, ALONG_LAST[name], x, x.rank - 1)
    if name == "glu":
        return Tensor(glu(b, b.plain(x), x.rank - 1))
    remedy = "say what it computes: make it a registered layer, see docs/keras.md"
    raise UnsupportedError(f"{label}: the activation {name!r} is not known", remedy=remedy)


def along(b: Builder, op: str, x: Tensor, axis: int) -> Tensor:
    """Softmax or LogSoftmax along an axis of the framework's."""
    held = x.order[axis] if x.order else axis
    wide = x.value if x.dtype.bits >= 32 else b.cast(x.value, FLOAT32)
    return Tensor(b.cast(b.one(op, wide, axis=held), x.dtype), x.order)


def glu(b: Builder, x: Value, axis: int) -> Value:
    """The first half times the sigmoid of the second."""
    left, right = b.many("Split", 2, x, axis=axis, num_outputs=2)
    return b.one("Mul", left, b.one("Sigmoid", right))
