"""Layers that are activation functions, and the activation that another layer has."""

from __future__ import annotations

from typing import Any

from ingot.formula.types import BOOL
from ingot.frontends.keras.activations import along, applied, clipped, gelu, gelu_by_tanh, leaky, named
from ingot.frontends.keras.configs import Layer
from ingot.frontends.keras.settings import Settings
from ingot.frontends.keras.table import Call, Result, layer
from ingot.frontends.keras.weights import Spec, Tree
from ingot.frontends.orders import Tensor, like
from ingot.graph.ir import Value


def activated(c: Call, x: Tensor, document: Any = None) -> Tensor:
    """The layer's own activation behind what it computed."""
    found = named(c.layer.config.get("activation") if document is None else document, c.layer.label)
    if isinstance(found, Layer):
        made = c.inner(found, Tree(), (x,))
        assert isinstance(made, Tensor)
        return made
    return applied(c.b, x, found, c.world.is_3, c.layer.label)


def same(c: Call, made: Value) -> Tensor:
    """An elementwise result, in the order in which the input is held."""
    return Tensor(made, c.x.order)


@layer("Activation", mask="keep")
def activation(c: Call) -> Result:
    return activated(c, c.x)


@layer("ReLU", mask="keep")
def relu(c: Call) -> Result:
    """max_value above, negative_slope (x - threshold) below the threshold, x between them."""
    s, x = c.settings, c.x
    high, slope = s.maybe("max_value"), s.number("negative_slope", s.number("alpha", 0.0))
    threshold = s.number("threshold", 0.0)
    return same(c, bent(c, x.value, slope, threshold, high))


def bent(c: Call, x: Value, slope: float, threshold: float, high: float | None) -> Value:
    """The general ReLU of Keras."""
    if threshold == 0 and slope == 0:
        return c.b.one("Relu", x) if high is None else clipped(c.b, x, 0, high)
    limit = like(c.b, x, threshold)
    above = x if high is None else clipped(c.b, x, None, high)
    below = c.b.one("Mul", c.b.one("Sub", x, limit), like(c.b, x, slope))
    if threshold == 0 and high is None:
        return leaky(c.b, x, slope)
    return c.b.one("Where", c.b.one("GreaterOrEqual", x, limit), above, below)


@layer("LeakyReLU", mask="keep")
def leaky_relu(c: Call) -> Result:
    s = c.settings
    return same(c, leaky(c.b, c.x.value, s.number("negative_slope", s.number("alpha", 0.3))))


@layer("ELU", mask="keep")
def elu(c: Call) -> Result:
    return same(c, c.b.one("Elu", c.x.value, alpha=c.settings.number("alpha", 1.0)))


@layer("ThresholdedReLU", mask="keep")
def thresholded(c: Call) -> Result:
    """x where it is above theta, else 0."""
    x = c.x.value
    above = c.b.one("Greater", x, like(c.b, x, c.settings.number("theta", 1.0)))
    return same(c, c.b.one("Where", above, x, like(c.b, x, 0)))


@layer("Softmax", mask="keep")
def softmax(c: Call) -> Result:
    """Along one axis or several; what a mask hides has no share."""
    s, x = c.settings, c.args[0] if c.args else c.x
    found = s.get("axis", -1)
    axes = s.integers("axis") if isinstance(found, list) else [s.integer("axis", -1)]
    c.require(isinstance(x, Tensor) and all(-x.rank <= a < x.rank for a in axes), f"softmax along {axes}")
    mask = c.tensor_at(1, "mask")
    hidden = c.plain(mask) if mask is not None else c.mask_of(x)
    if hidden is not None:
        x = Tensor(hide(c, c.plain(x), hidden))
    if len(axes) == 1:
        return along(c.b, "Softmax", x, axes[0] % x.rank)
    return _over_several(c, c.plain(x), [a % x.rank for a in axes])


def hide(c: Call, x: Value, mask: Value) -> Value:
    """x where the mask is true, else so low a number that nothing of it is left behind a softmax."""
    assert x.type is not None
    least = -3e4 if x.type.bits == 16 else -1e9
    return c.b.one("Where", c.b.cast(mask, BOOL), x, c.b.constant(least, x.type))


def _over_several(c: Call, x: Value, axes: list[int]) -> Tensor:
    """exp(x - max) / sum, both over all the axes."""
    highest = c.b.one("ReduceMax", x, c.b.ints(axes), keepdims=1)
    raised = c.b.one("Exp", c.b.one("Sub", x, highest))
    return Tensor(c.b.one("Div", raised, c.b.one("ReduceSum", raised, c.b.ints(axes), keepdims=1)))


def _alpha(layer: Layer, settings: Settings) -> Spec:
    return Spec(("alpha",))


@layer("PReLU", weights=_alpha, mask="keep")
def prelu(c: Call) -> Result:
    """A slope for each place, shared along `shared_axes`, which count from the batch."""
    x, s = c.x, c.settings
    shared = s.integers("shared_axes") if s.has("shared_axes") else []
    shape = [1 if i + 1 in shared else n for i, n in enumerate(x.shape[1:])]
    slope = c.b.reshape(c.weight("alpha", shape), [1, *shape])
    return same(c, c.b.one("PRelu", x.value, c.b.held(Tensor(slope), x.order)))


def _gamma(layer: Layer, settings: Settings) -> Spec:
    return Spec(("gamma",))


@layer("LayerScale", weights=_gamma)
def layer_scale(c: Call) -> Result:
    """x times a factor for each channel: the layer that keras.applications defines for ConvNeXt."""
    factor = c.weight("gamma", [c.x.shape[-1]])
    return Tensor(c.b.one("Mul", c.plain(c.x), factor))


@layer("Gelu", "GELU", mask="keep")
def gelu_layer(c: Call) -> Result:
    write = gelu_by_tanh if c.settings.flag("approximate") else gelu
    return same(c, write(c.b, c.x.value))
