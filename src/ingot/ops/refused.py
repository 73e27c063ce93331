"""Operators that Ingot knows and refuses, and why: freestanding C for inference cannot express them.

In: nodes without a definition. Out: one error that names them. Called by `infer`.
"""

from __future__ import annotations

from collections.abc import Iterable

from ingot.errors import UnsupportedError
from ingot.graph.ir import Node

TRAINING = "ai.onnx.preview.training"
REFUSED = {
    ("", "ImageDecoder"): (
        "decoding a file (JPEG, PNG, WebP, ...) needs a codec, which a freestanding bundle cannot call",
        "decode the file before the call, and make the pixels an input of the model",
    ),
    (TRAINING, "Gradient"): (
        "only a training framework can differentiate the graph around it",
        "train the model in the framework that it comes from, and export it for inference",
    ),
}
"""By domain and operator: the reason, and what to do instead."""


def refuse(nodes: Iterable[Node]) -> None:
    """Raise UnsupportedError for the first of the nodes that is refused on purpose."""
    for node in nodes:
        if (node.domain, node.op) in REFUSED:
            reason, remedy = REFUSED[node.domain, node.op]
            raise UnsupportedError(f"{node.label} cannot be compiled: {reason}", remedy=remedy)
