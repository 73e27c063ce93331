"""Layers around another layer."""

from __future__ import annotations

from ingot.frontends.keras.configs import Layer, layer_of
from ingot.frontends.keras.network import spec_of
from ingot.frontends.keras.settings import Settings
from ingot.frontends.keras.table import Call, Result, layer, mapped
from ingot.frontends.keras.weights import Spec
from ingot.frontends.orders import Tensor


def _inside(layer: Layer, settings: Settings) -> Spec:
    return Spec(inside=(("layer", spec_of(layer_of(settings.inner("layer"), layer.label))),))


@layer("TimeDistributed", weights=_inside, mask="keep")
def time_distributed(c: Call) -> Result:
    """The layer at every step: steps are a batch. What depends on the batch's extent is called step by
    step.
    """
    inner, tree = layer_of(c.settings.inner("layer"), c.layer.label), c.tree.child("layer")
    given = c.tensors
    steps = given[0].shape[1] if given[0].rank > 1 else 0
    c.require(steps > 0 and all(t.rank > 1 and t.shape[1] == steps for t in given), "sequences are needed")
    batch = given[0].shape[0]

    def merged(t: Tensor) -> Tensor:
        return Tensor(c.b.reshape(c.plain(t), (batch * steps, *t.shape[2:])))

    def split(t: Tensor) -> Tensor:
        c.require(t.rank > 0 and t.shape[0] == batch * steps, f"{inner.label} does not keep the batch")
        return Tensor(c.b.reshape(c.plain(t), (batch, steps, *t.shape[1:])))

    made = c.inner(inner, tree, (mapped(c.args[0] if c.args else given, merged),))
    return mapped(made, split)


def _normalized(layer: Layer, settings: Settings) -> Spec:
    """The vector is the wrapper's own; a kernel is saved normalised."""
    return Spec((), ("vector_u",), _inside(layer, settings).inside, repeated=1)


@layer("SpectralNormalization", weights=_normalized)
def spectral(c: Call) -> Result:
    """At inference the layer with the kernel as it was saved."""
    return c.inner(layer_of(c.settings.inner("layer"), c.layer.label), c.tree.child("layer"), c.args)


@layer("Wrapper", weights=_inside)
def wrapper(c: Call) -> Result:
    raise c.refuse("a wrapper of your own", "say what it computes: ingot.frontends.keras.register")
