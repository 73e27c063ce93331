"""Where a quantised model loses what its float original has: signal to noise, tensor by tensor.

In: both models, samples. Out: a `Noise` for each float tensor that both have, the worst first. A quantiser
keeps the names of what it dequantises; both models are compiled and run by Ingot. Called by `ingot verify
--quantized`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ingot.check.calibrate import Subject, observed, subject
from ingot.check.layers import Build
from ingot.check.metrics import decibels
from ingot.data.samples import open_samples
from ingot.errors import InputError
from ingot.formula.expr import Array
from ingot.log import announce
from ingot.options import Options

CAP = 200.0  # decibels of a tensor that is the same, so that differences are numbers


@dataclass(frozen=True, slots=True)
class Noise:
    """One tensor: the power of the float values over that of the error, in decibels, at most 200.

    `node` and `op` make it in the float model. `lost`: how much better the worst of the tensors is that it
    is made of, which is what a layer itself costs; None where those are exact.
    """

    tensor: str
    node: str
    op: str
    decibels: float
    lost: float | None


def ranked(
    model: Path, against: Path, words: Sequence[str], options: Options, build: Build
) -> tuple[Noise, ...]:
    """Compare every tensor that both models have, over all samples. Raises InputError where there is none."""
    exact, lossy = subject(against, options), subject(model, options)
    common = set(lossy.observed)
    names = [name for name in exact.observed if name in common]
    if not names:
        raise InputError(
            f"{model.name} and {against.name} have no float tensor of the same name",
            remedy="compare what `ingot quantize` made with the model that it was made of",
        )
    samples = [open_samples(words, of.inputs) for of in (exact, lossy)]
    builds = [list(observed(of, names, build)) for of in (exact, lossy)]
    power = {name: np.zeros(2) for name in names}
    for run in range(samples[0].runs):
        announce("samples", run, samples[0].runs)
        fed = [s.read(run) for s in samples]
        for right, found in zip(*builds, strict=True):
            wanted, got = right.run(fed[0]), found.run(fed[1])
            for name, array in wanted.items():
                power[name] += _powers(name, array, got[name])
    each = {name: float(np.clip(decibels(*p), -CAP, CAP)) for name, p in power.items()}
    return _sorted(exact, each)


def _powers(name: str, right: Array, found: Array) -> Array:
    """The sums of the squares of the values and of their errors."""
    if right.shape != found.shape:
        raise InputError(f"tensor {name!r} is {list(right.shape)} in float and {list(found.shape)} quantised")
    x = right.astype(np.float64)
    return np.array([np.square(x).sum(), np.square(found.astype(np.float64) - x).sum()])


def _sorted(of: Subject, each: dict[str, float]) -> tuple[Noise, ...]:
    """The tensors, the worst first; of equal ones the first in the graph's order."""
    found = []
    before: dict[str, float] = {}  # of tensors that are not compared, what they are made of
    for node in of.graph.nodes:
        operands = [v for v in node.inputs if v is not None and v.constant is None]
        worst = min((before.get(v.name, CAP) for v in operands), default=CAP)
        for value in (v for v in node.outputs if v is not None):
            own = each.get(value.name, worst)
            before[value.name] = own
            if value.name in each:
                lost = max(worst - own, 0.0) if worst < CAP else None
                found.append(Noise(value.name, node.name or node.op, node.op, own, lost))
    return tuple(sorted(found, key=lambda n: n.decibels if not math.isnan(n.decibels) else -CAP))
