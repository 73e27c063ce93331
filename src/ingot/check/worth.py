"""A compressed model beside the one before, on data. In: both, and samples; out: a `Worth`.

The oracle runs both models; where only encodings differ, it also runs the model before with one layer
compressed at a time. Called by the driver for `ingot compress --evaluate`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import onnx

from ingot.check.evidence import LabelledData, evidence_of
from ingot.check.sensitivity import by_outputs
from ingot.compression.layers import Layer
from ingot.compression.model import Compressed
from ingot.compression.worth import Worth
from ingot.log import announce
from ingot.options import Options
from ingot.quantization.evidence import Evidence


def worth(
    source: Any, before: onnx.ModelProto, layers: Sequence[Layer], made: Compressed, data: LabelledData
) -> Worth:
    """Compare `made` with the model `before`, whose constants become inputs.

    `source` is the model as it was given. `layers` are those of `before` that are to be judged alone, none if
    weights changed otherwise too. Raises InputError for data that does not fit the model.
    """
    evidence = evidence_of(source, Options(), data)
    plain = replace(evidence, labels=None)
    announce("evaluate", 0, len(layers) + 1)
    wanted, found = plain.answers(before), plain.answers(made.model)
    scores = () if evidence.labels is None else _scores(evidence, before, made.model)
    alone = {}
    if layers:
        judge = by_outputs(before, layers, evidence.feeds)
        for n, layer in enumerate(layers, 1):
            announce(f"evaluate {layer.name}", n, len(layers) + 1)
            if layer.name in made.encodings:
                alone[layer.name] = judge({layer.name: made.encodings[layer.name].decode()})
    return Worth(len(evidence.feeds), plain.loss(wanted, found), alone, *scores)


def _scores(evidence: Evidence, before: onnx.ModelProto, after: onnx.ModelProto) -> tuple[float, float]:
    first, second = (100 * evidence.score(evidence.answers(m)) for m in (before, after))
    return first, second
