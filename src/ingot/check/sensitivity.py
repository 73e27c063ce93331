"""What it costs to prune each layer alone: a scan over layers and densities.

In: the layers of a model, densities, and who judges a model some of whose constants have other elements.
Out: a `Scan`. Two judge: the model's own outputs on inputs, as the oracle computes them, and the `evaluate`
of a training script. Called by `ingot sensitivity`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper

from ingot.check.oracle import oracle
from ingot.compression.finetune import Build, paired
from ingot.compression.layers import Layer, take_out
from ingot.compression.prune import kept_by, largest
from ingot.compression.script import Script
from ingot.errors import InputError, ModelError
from ingot.formula.expr import Array
from ingot.log import announce

DENSITIES = (0.8, 0.6, 0.4, 0.3, 0.2, 0.1, 0.05, 0.02)
Judge = Callable[[Mapping[str, Array]], float]
"""What the model is worth, or how far off it is, when these constants have these elements."""


@dataclass(frozen=True, slots=True)
class Curve:
    """A layer, and what the judge says where only it is pruned, one value for each density."""

    name: str
    kind: str
    weights: int
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Scan:
    """`before` is what the judge says of the model as it is; `is_score`: the larger the better."""

    densities: tuple[float, ...]
    before: float
    is_score: bool
    curves: tuple[Curve, ...]

    def within(self, allowed: float) -> dict[str, float]:
        """For each layer the least density from which on no value is worse than before by more; 1 where all
        are."""
        return {curve.name: self._least(curve, allowed) for curve in self.curves}

    def _least(self, curve: Curve, allowed: float) -> float:
        least, sign = 1.0, -1 if self.is_score else 1
        for density, value in sorted(zip(self.densities, curve.values, strict=True), reverse=True):
            if not sign * (value - self.before) <= allowed:
                break
            least = density
        return least


def scan(layers: Sequence[Layer], densities: Sequence[float], judge: Judge, is_score: bool) -> Scan:
    """Prune every layer to every density, one at a time, by magnitude."""
    for layer in layers:
        if not np.isfinite(layer.weights).all():
            raise ModelError(
                f"the weights {layer.name!r} hold NaN or infinity (as float32): none of them is the smallest"
            )
    before, curves = judge({}), []
    for n, layer in enumerate(layers):
        announce(f"prune {layer.name}", n, len(layers))
        values = tuple(judge({layer.name: pruned(layer.weights, d)}) for d in densities)
        curves.append(Curve(layer.name, layer.kind, layer.weights.size, values))
    return Scan(tuple(densities), before, is_score, tuple(curves))


def pruned(weights: Array, density: float) -> Array:
    """The weights with the smallest of them zero."""
    return np.where(largest(weights, kept_by(weights, density)), weights, np.float32(0))


def by_outputs(
    model: onnx.ModelProto, layers: Sequence[Layer], feeds: Sequence[Mapping[str, Array]]
) -> Judge:
    """How far the outputs are off, relative to their size: the root of the sum of squares over all inputs of
    `feeds`, of the worst output; of outputs that are no floats the share of elements that differ; 1 where a
    shape has changed; NaN where any output's is.

    The layers' constants become inputs of `model`. Raises InputError where two of them have the same name.
    """
    names = [layer.name for layer in layers]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"two constants of inner graphs have the name {name!r}: their layers look alike")
    for layer in layers:
        take_out(layer)
        model.graph.input.append(helper.make_tensor_value_info(layer.name, layer.dtype, layer.weights.shape))
    truth = oracle(model)
    given = {layer.name: _as(layer, layer.weights) for layer in layers}
    known = {layer.name: layer for layer in layers}
    exact = [truth.run({**given, **feed}) for feed in feeds]

    def judge(changed: Mapping[str, Array]) -> float:
        others = {name: _as(known[name], array) for name, array in changed.items()}
        found = [truth.run({**given, **others, **feed}) for feed in feeds]
        errors = [_off([f[n] for f in found], [e[n] for e in exact]) for n in exact[0]]
        return float(np.max(errors, initial=0.0))  # NaN wins

    return judge


def _as(layer: Layer, array: Array) -> Array:
    return array.astype(helper.tensor_dtype_to_np_dtype(layer.dtype))


def _off(found: Sequence[Array], exact: Sequence[Array]) -> float:
    """How far the runs of one output are off; 1 where a shape has changed."""
    if any(f.shape != e.shape for f, e in zip(found, exact, strict=True)):
        return 1.0
    if any(np.asarray(e).dtype.kind != "f" for e in exact):
        parts = [np.mean(f != e) if f.size else 0.0 for f, e in zip(found, exact, strict=True)]
        return float(np.mean(parts))
    pairs = [(f.astype(np.float64), e.astype(np.float64)) for f, e in zip(found, exact, strict=True)]
    size = sum(float((e * e).sum()) for _, e in pairs)
    apart = sum(float(((f - e) ** 2).sum()) for f, e in pairs)
    return float(np.sqrt(apart / size)) if size else float(apart > 0)


def by_script(
    script: Script,
    model: onnx.ModelProto,
    layers: Sequence[Layer],
    constants: Mapping[str, Array],
    build: Build | None = None,
) -> Judge:
    """What the script's `evaluate` says. `constants`: the floats of the model, by name; `build` makes the
    network of a script that makes none.

    Raises InputError for a layer whose weights its network does not have.
    """
    import torch

    network, bonds = paired(script, model, constants, build)
    script.prepare(network)
    for layer in layers:
        if layer.name not in bonds:
            raise InputError(
                f"{script.path}: no parameter of model() has the weights of layer {layer.name!r}"
            )

    def judge(changed: Mapping[str, Array]) -> float:
        kept = {name: bonds[name].tensor.detach().clone() for name in changed}
        with torch.no_grad():
            for name, array in changed.items():
                bonds[name].tensor.copy_(torch.from_numpy(bonds[name].turned(array)))
        try:
            return script.evaluate(network)
        finally:
            with torch.no_grad():
                for name, tensor in kept.items():
                    bonds[name].tensor.copy_(tensor)

    return judge
