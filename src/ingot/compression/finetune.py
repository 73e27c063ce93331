"""Pruning and weight sharing with training between. In: layers, their choices, a training script; out:
encodings.

    rounds of: prune a little more, train the weights that are left
    rounds of: cluster, train weights that the network sees shared, so that they may change their cluster
               (`straight`, or `entropic`, which also prunes)
    at last:   cluster, train the centroids: the gradient of each is the sum of the gradients of its weights

All of this is hooks on tensors, of which the script's own `train` knows nothing. A gradient is 0 where a
weight is pruned; for shared weights it is the sum over their cluster, so that weights that begin equal stay
equal under any optimiser that treats elements alike. Called by `compress`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from ingot.compression.bonds import Bond, bind, bind_named
from ingot.compression.encode import FLOAT_BITS, UNCHANGED, Choice, encode, share
from ingot.compression.entropic import Entropic, Shared
from ingot.compression.layers import Layer
from ingot.compression.prune import kept_by, largest
from ingot.compression.script import Script, load_script
from ingot.compression.straight import Straight
from ingot.errors import InputError
from ingot.formula.expr import Array
from ingot.graph.encoding import Encoding
from ingot.log import announce

ROUNDS, STEPS = 4, 1000
Build = Callable[[onnx.ModelProto], Any]


@dataclass(frozen=True, slots=True)
class Training:
    """A script and its plan: rounds of pruning and of sharing, and steps of the optimiser in each of them.

    With a `ratio`, weights share the values that cost least in loss and in bits, so that the layers become
    that many times smaller, instead of being pruned first. `build` makes the network of scripts that make
    none: a torch.nn.Module whose `constants` are tensors by the names of the model's constants.
    """

    script: Path | Script
    rounds: int = ROUNDS
    steps: int = STEPS
    share_rounds: int = 1
    build: Build | None = None
    ratio: float | None = None


def planned(
    script: Path,
    rounds: int | None = None,
    steps: int | None = None,
    share_rounds: int | None = None,
    entropic: bool = False,
) -> Training:
    """The training with what is usual where nothing is said: entropy-constrained, it does not prune first."""
    usual = (0, 2) if entropic else (ROUNDS, 1)
    pruning = usual[0] if rounds is None else rounds
    return Training(script, pruning, steps or STEPS, share_rounds or usual[1])


@dataclass(slots=True, eq=False)
class Trained:
    """What training leaves: encodings, the elements of all other constants, and how good the network was
    when.

    `frozen` are parameters that no constant of the model has; they were not trained.
    """

    encodings: dict[Layer, Encoding] = field(default_factory=dict)
    constants: dict[str, Array] = field(default_factory=dict)
    scores: list[tuple[str, float]] = field(default_factory=list)
    frozen: list[str] = field(default_factory=list)


def finetune(
    model: onnx.ModelProto,
    layers: Sequence[Layer],
    choices: Sequence[Choice],
    constants: Mapping[str, Array],
    training: Training,
) -> Trained:
    """Prune, share and train. `constants`: the floats of the model, by name.

    Raises InputError for a script that fails, and for layers whose weights its network does not have.
    """
    script = training.script if isinstance(training.script, Script) else load_script(training.script)
    network, bonds = paired(script, model, constants, training.build)
    script.prepare(network)
    jobs = [
        _Job(la, c, _bond(la, bonds, script))
        for la, c in zip(layers, choices, strict=True)
        if (_encoded(la, c) if training.ratio is None else c.bits != UNCHANGED)
    ]
    trained = Trained(frozen=_freeze(network, bonds))
    _score(trained, "before", script, network)
    for number in range(1, training.rounds + 1):
        announce("prune and train", number - 1, training.rounds + training.share_rounds)
        _train(script, network, training.steps, [job.prune(number / training.rounds) for job in jobs])
        _score(trained, f"pruned, round {number}", script, network)
    if not training.rounds:
        _project([job.prune(1.0) for job in jobs])
    loose = None if training.ratio is None else _entropic(jobs, layers, training.ratio)
    for number in range(1, training.share_rounds + 1):
        announce("train centroids", training.rounds + number - 1, training.rounds + training.share_rounds)
        is_last = number == training.share_rounds
        if not is_last:
            held = [job.loose() for job in jobs] if loose is None else [loose]
            _train_straight(script, network, training.steps, held)
            _score(trained, f"shared, round {number}", script, network)
            continue
        if loose is not None:
            loose.settle()
        hooks = [job.share() for job in jobs]
        _project(hooks)
        _score(trained, "shared", script, network)
        _train(script, network, training.steps, hooks)
    trained.encodings = {job.layer: job.finish() for job in jobs}
    _score(trained, "centroids trained", script, network)
    trained.constants = {name: bond.read() for name, bond in bonds.items()}
    return trained


def paired(
    script: Script, model: onnx.ModelProto, constants: Mapping[str, Array], build: Build | None
) -> tuple[Any, dict[str, Bond]]:
    """The network to train, the script's own if it makes one, and its tensors by the constants' names."""
    if script.has_model or build is None:
        network = script.model()
        return network, bind(network, constants)
    network = build(model)
    return network, bind_named(network.constants)


Hook = Callable[[Any], Any]


@dataclass(slots=True, eq=False)
class _Job:
    """One layer on its way. `kept`: bool of the constant's shape; `found`: its encoding once shared."""

    layer: Layer
    choice: Choice
    bond: Bond
    kept: Array = field(default_factory=lambda: np.ones(0, np.bool_))
    found: Encoding | None = None
    straight: Straight | None = None
    entropic: Shared | None = None

    def prune(self, progress: float) -> tuple[Bond, Hook, Hook]:
        """Leave the largest weights; the density falls in equal factors to what was chosen."""
        weights = self.bond.read()
        self.kept = largest(weights, kept_by(weights, self.choice.density**progress))
        mask = self._tensor(self.kept)

        def project(tensor: Any) -> Any:
            return tensor * mask

        return self.bond, project, project

    def loose(self) -> Straight:
        """The tensor for the rounds in which weights may still change their cluster: the same in all."""
        if self.straight is None:
            found = share(self.bond.read(), self.kept, self.choice)
            self.straight = Straight(self.bond.tensor, self._tensor(self.kept), found.values)
        return self.straight

    def share(self) -> tuple[Bond, Hook, Hook]:
        """Tie the weights of each cluster."""
        import torch

        if self.entropic is None:
            self.found = share(self.bond.read(), self.kept, self.choice)
        else:
            self.found = self._coded(self.entropic)
            self.kept = self.found.codes != 0
        codes = self._tensor(self.found.dense().codes.astype(np.int64)).reshape(-1)
        mask, count = self._tensor(self.kept).reshape(-1), len(self.found.values)
        sizes = torch.bincount(codes[mask], minlength=count).clamp(min=1)

        def project(tensor: Any) -> Any:
            return (_sums(tensor) / sizes)[codes].mul(mask).reshape(tensor.shape)

        def gradient(tensor: Any) -> Any:
            return _sums(tensor)[codes].mul(mask).reshape(tensor.shape)

        def _sums(tensor: Any) -> Any:
            flat = tensor.reshape(-1) * mask
            return torch.zeros(count, dtype=flat.dtype, device=flat.device).index_add_(0, codes, flat)

        return self.bond, project, gradient

    def _coded(self, shared: Shared) -> Encoding:
        """A code for every weight, where code 0 stands for 0."""
        return shared.encoding(shared.codes[self.bond.at].reshape(self.bond.shape))

    def finish(self) -> Encoding:
        """The encoding with the centroids as trained."""
        assert self.found is not None, "layers are shared before they are finished"
        codes, weights = self.found.dense().codes.reshape(-1), self.bond.read().reshape(-1)
        values = self.found.values.copy()
        used = np.unique(codes[self.kept.reshape(-1)])
        first = np.zeros(len(values), np.int64)
        first[codes[::-1]] = np.arange(len(codes))[::-1]
        values[used] = weights[first[used]]
        return replace(self.found, values=values)

    def _tensor(self, array: Array) -> Any:
        """As a tensor beside the parameter."""
        import torch

        return torch.from_numpy(np.ascontiguousarray(self.bond.turned(array))).to(self.bond.tensor.device)


def _train(script: Script, network: Any, steps: int, held: Sequence[tuple[Bond, Hook, Hook]]) -> None:
    """Train while each tensor keeps its form: projected before and after, its gradients meanwhile."""
    _project(held)
    handles = [bond.tensor.register_hook(gradient) for bond, _, gradient in held]
    try:
        script.train(network, steps)
    finally:
        for handle in handles:
            handle.remove()
    _project(held)


def _train_straight(script: Script, network: Any, steps: int, tensors: Sequence[Straight | Entropic]) -> None:
    """Train tensors that the network sees shared; afterwards they are."""
    handles = [handle for tensor in tensors for handle in tensor.attach(network)]
    try:
        script.train(network, steps)
    finally:
        for handle in handles:
            handle.remove()
    for tensor in tensors:
        tensor.share()


def _project(held: Sequence[tuple[Bond, Hook, Hook]]) -> None:
    """Give each tensor its form."""
    import torch

    with torch.no_grad():
        for bond, onto, _ in held:
            bond.tensor.copy_(onto(bond.tensor))


def _entropic(jobs: Sequence[_Job], layers: Sequence[Layer], ratio: float) -> Entropic:
    """All tensors to be shared at one price of a bit."""
    for job in jobs:
        job.entropic = Shared(job.bond.tensor, job.choice.bits)
    held = {job.layer for job in jobs}
    other_bits = sum(FLOAT_BITS * layer.weights.size for layer in layers if layer not in held)
    return Entropic([job.entropic for job in jobs if job.entropic is not None], ratio, other_bits)


def _encoded(layer: Layer, choice: Choice) -> bool:
    return encode(layer.weights, choice) is not None


def _bond(layer: Layer, bonds: Mapping[str, Bond], script: Script) -> Bond:
    if layer.name not in bonds:
        raise InputError(
            f"{script.path}: no parameter of model() has the weights of layer {layer.name!r}",
            shapes=[tuple(layer.weights.shape)],
            remedy="model() must return the network of the ONNX file, with its weights; where an exporter "
            "folds batch normalisation into them, export without, or fold it in model() too",
        )
    return bonds[layer.name]


def _freeze(network: Any, bonds: Mapping[str, Bond]) -> list[str]:
    """Keep what could not be written back from changing."""
    known = {id(bond.tensor) for bond in bonds.values()}
    frozen = [name for name, p in network.named_parameters() if id(p) not in known]
    for name, parameter in network.named_parameters():
        if name in frozen:
            parameter.requires_grad_(False)
    return frozen


def _score(trained: Trained, when: str, script: Script, network: Any) -> None:
    trained.scores.append((when, script.evaluate(network)))
