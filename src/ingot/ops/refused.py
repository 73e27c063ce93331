"""Operators that Ingot knows and refuses, and why: what no bundle of freestanding C for inference can mean.

In: nodes without a definition. Out: one error that names them. Called by `infer`.
"""

from __future__ import annotations

from collections.abc import Iterable

from ingot.errors import UnsupportedError
from ingot.graph.ir import Node

TRAINING = "ai.onnx.preview.training"
_OPTIMISER = "it updates weights, which are constants in a bundle: bundles are for inference"
_REMEDY = "train with the framework the model comes from, and export it for inference"

REFUSED = {
    ("", "ImageDecoder"): (
        "it decodes files (JPEG, PNG, WebP, ...), each by a codec that no freestanding bundle can call",
        "decode before the call, and make the pixels an input of the model",
    ),
    (TRAINING, "Gradient"): (
        "it differentiates the graph around it, which only a training framework does",
        _REMEDY,
    ),
    (TRAINING, "Adagrad"): (_OPTIMISER, _REMEDY),
    (TRAINING, "Adam"): (_OPTIMISER, _REMEDY),
    (TRAINING, "Momentum"): (_OPTIMISER, _REMEDY),
}
"""By domain and operator: the reason, and what to do instead."""


def refuse(nodes: Iterable[Node]) -> None:
    """Raise UnsupportedError for the first of the nodes that is refused on purpose."""
    for node in nodes:
        if (node.domain, node.op) in REFUSED:
            reason, remedy = REFUSED[node.domain, node.op]
            raise UnsupportedError(f"{node.label}: {node.op} is not compiled, for {reason}", remedy=remedy)
