"""Normalisations: by saved statistics, or by those of each input."""

from __future__ import annotations

from math import prod

from ingot.formula.types import FLOAT32, FLOAT64, DType
from ingot.frontends.keras.configs import Layer
from ingot.frontends.keras.settings import Settings
from ingot.frontends.keras.table import Call, Result, layer
from ingot.frontends.keras.weights import Spec
from ingot.frontends.orders import Tensor, channels_first, like
from ingot.graph.ir import Value


def _scaled(layer: Layer, settings: Settings) -> Spec:
    names = (("gamma", "scale", True), ("beta", "center", True))
    return Spec(tuple(name for name, flag, default in names if settings.flag(flag, default)))


def _layer_weights(layer: Layer, settings: Settings) -> Spec:
    if settings.flag("rms_scaling"):
        return Spec(("gamma",) if settings.flag("scale", True) else ())
    return _scaled(layer, settings)


def _batch_weights(layer: Layer, settings: Settings) -> Spec:
    if settings.flag("renorm"):
        more = ("renorm_mean", "renorm_stddev") if layer.module else _renorm(settings)
        return Spec(_scaled(layer, settings).own, ("moving_mean", "moving_variance", *more))
    return Spec(_scaled(layer, settings).own, ("moving_mean", "moving_variance"))


def _renorm(settings: Settings) -> tuple[str, ...]:
    return ("moving_stddev", "renorm_mean", "renorm_stddev")


def wide(dtype: DType) -> DType:
    """Statistics are computed in 32 bits or more."""
    return FLOAT64 if dtype is FLOAT64 else FLOAT32


def axes_of(c: Call, x: Tensor, default: int | list[int] = -1) -> list[int]:
    """The axes that the layer names, from the front, in order."""
    s = c.settings
    found = s.get("axis", default)
    axes = s.integers("axis", None, default) if isinstance(found, list) else [s.integer("axis", default)]
    c.require(bool(axes) and all(-x.rank <= a < x.rank for a in axes), f"axes {axes} of {x.rank}")
    return sorted({a % x.rank for a in axes})


@layer("BatchNormalization", "SyncBatchNormalization", weights=_batch_weights, mask="keep")
def batch_normalization(c: Call) -> Result:
    """(x - mean) / sqrt(variance + epsilon) gamma + beta, along one axis."""
    x, s = c.x, c.settings
    axes = axes_of(c, x)
    c.require(len(axes) == 1 and axes[0] > 0, f"a normalisation along {axes}")
    axis, dtype = axes[0], wide(x.dtype)
    count = x.shape[axis]
    values = [_or(c, name, flag, count, dtype) for name, flag in (("gamma", "scale"), ("beta", "center"))]
    values += [c.weight(name, [count], dtype) for name in ("moving_mean", "moving_variance")]
    order = channels_first(x.rank) if axis == x.rank - 1 else None
    if order is None and axis != 1:
        return _turned(c, x, axis, values, s.number("epsilon", 1e-3))
    held = c.b.cast(c.b.held(x, order), dtype)
    made = c.b.one("BatchNormalization", held, *values, epsilon=s.number("epsilon", 1e-3))
    return Tensor(c.b.cast(made, x.dtype), order)


def _turned(c: Call, x: Tensor, axis: int, values: list[Value], epsilon: float) -> Tensor:
    """An axis in the middle: it is brought to the front and back."""
    order = (0, axis, *(a for a in range(1, x.rank) if a != axis))
    held = c.b.cast(c.b.transposed(c.plain(x), order), wide(x.dtype))
    made = c.b.cast(c.b.one("BatchNormalization", held, *values, epsilon=epsilon), x.dtype)
    return Tensor(made, tuple(order.index(a) for a in range(x.rank)))


def _or(c: Call, name: str, flag: str, count: int, dtype: DType) -> Value:
    """The variable, or what leaves numbers as they are."""
    if c.settings.flag(flag, True):
        return c.weight(name, [count], dtype)
    return c.b.filled([count], 1.0 if name == "gamma" else 0.0, dtype)


# ---- by the input's own statistics


def standardized(c: Call, x: Value, axes: list[int], epsilon: float) -> Value:
    """(x - mean) / sqrt(variance + epsilon)"""
    off = c.b.one("Sub", x, c.b.one("ReduceMean", x, c.b.ints(axes), keepdims=1))
    return c.b.one("Div", off, root(c, off, axes, epsilon))


def root(c: Call, x: Value, axes: list[int], epsilon: float) -> Value:
    """sqrt(mean of squares + epsilon)"""
    square = c.b.one("ReduceMean", c.b.one("Mul", x, x), c.b.ints(axes), keepdims=1)
    return c.b.one("Sqrt", c.b.one("Add", square, like(c.b, square, epsilon)))


def along(c: Call, name: str, x: Tensor, axes: list[int], dtype: DType) -> Value:
    """A variable over these axes, with an axis of 1 for each other one."""
    found = c.weight(name, [x.shape[a] for a in axes], dtype)
    return c.b.reshape(found, [n if a in axes else 1 for a, n in enumerate(x.shape)])


@layer("LayerNormalization", weights=_layer_weights, mask="keep")
def layer_normalization(c: Call) -> Result:
    """Over one axis or several; with rms_scaling the mean is not taken off, and there is no beta."""
    x, s = c.x, c.settings
    axes, dtype = axes_of(c, x), wide(x.dtype)
    held, epsilon = c.b.cast(c.plain(x), dtype), s.number("epsilon", 1e-3)
    is_scaled, is_moved = s.flag("scale", True), s.flag("center", True)
    if s.flag("rms_scaling"):
        off = c.b.one("Sub", held, c.b.one("ReduceMean", held, c.b.ints(axes), keepdims=1))
        y = c.b.one("Div", held, root(c, off, axes, epsilon))  # by the variance all the same
        y = c.b.one("Mul", y, along(c, "gamma", x, axes, dtype)) if is_scaled else y
        return Tensor(c.b.cast(y, x.dtype))
    if axes == list(range(axes[0], x.rank)) and is_scaled:
        given = [c.weight(n, [x.shape[a] for a in axes], dtype) for n in ("gamma", "beta")[: 1 + is_moved]]
        y = c.b.one("LayerNormalization", held, *given, axis=axes[0], epsilon=epsilon)
        return Tensor(c.b.cast(y, x.dtype))
    y = standardized(c, held, axes, epsilon)
    y = c.b.one("Mul", y, along(c, "gamma", x, axes, dtype)) if is_scaled else y
    y = c.b.one("Add", y, along(c, "beta", x, axes, dtype)) if is_moved else y
    return Tensor(c.b.cast(y, x.dtype))


@layer("GroupNormalization", weights=_scaled, mask="keep")
def group_normalization(c: Call) -> Result:
    """Channels in groups, each with all places of the image; -1 groups are as many as channels."""
    x, s = c.x, c.settings
    axes, dtype = axes_of(c, x), wide(x.dtype)
    axis = axes[0]
    count, groups = x.shape[axis], s.integer("groups", 32)
    groups = count if groups == -1 else groups
    c.require(len(axes) == 1 and axis > 0 and groups > 0 and count % groups == 0, f"{groups} groups")
    split = [*x.shape[:axis], groups, count // groups, *x.shape[axis + 1 :]]
    held = c.b.reshape(c.b.cast(c.plain(x), dtype), split)
    over = [a for a in range(1, len(split)) if a != axis]
    y = c.b.reshape(standardized(c, held, over, s.number("epsilon", 1e-3)), x.shape)
    y = c.b.one("Mul", y, along(c, "gamma", x, [axis], dtype)) if s.flag("scale", True) else y
    y = c.b.one("Add", y, along(c, "beta", x, [axis], dtype)) if s.flag("center", True) else y
    return Tensor(c.b.cast(y, x.dtype))


@layer("UnitNormalization", mask="keep")
def unit_normalization(c: Call) -> Result:
    """x by its length, which is at least 1e-12 in Keras 3, and 1e-6 in Keras 2."""
    x = c.x
    axes, dtype = axes_of(c, x), wide(x.dtype)
    held = c.b.cast(c.plain(x), dtype)
    square = c.b.one("ReduceSum", c.b.one("Mul", held, held), c.b.ints(axes), keepdims=1)
    length = c.b.one("Sqrt", c.b.one("Max", square, like(c.b, square, 1e-24 if c.world.is_3 else 1e-12)))
    return Tensor(c.b.cast(c.b.one("Div", held, length), x.dtype))


def _rms_weights(layer: Layer, settings: Settings) -> Spec:
    return Spec(("scale",))


@layer("RMSNormalization", weights=_rms_weights)
def rms_normalization(c: Call) -> Result:
    x = c.x
    axes, dtype = axes_of(c, x), wide(x.dtype)
    held = c.b.cast(c.plain(x), dtype)
    y = c.b.one("Div", held, root(c, held, axes, c.settings.number("epsilon", 1e-6)))
    shape = [x.shape[a] for a in axes]
    c.require(prod(shape) > 0, "an empty axis")
    y = c.b.one("Mul", y, along(c, "scale", x, axes, dtype))
    return Tensor(c.b.cast(y, x.dtype))
