"""Rows of the steps of optimisers: one weight and several, the first step and later ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.rows import Row, floats

DOMAIN: dict[str, Any] = {"domain": "ai.onnx.preview.training", "opset": 1, "oracle": "reference"}


def stepped(op: str, states: int, number: int, *shapes: tuple[int, ...], **how: Any) -> Row:
    """A row of one step on weights of these shapes; states are not negative, as sums of squares are."""
    scalars = [np.array(0.1, np.float32), np.array(number, np.int64)]
    plain = [floats(*shape, seed=k) for k in range(2) for shape in shapes]
    kept = [np.abs(floats(*shape, seed=2 + k)) for k in range(states) for shape in shapes]
    outputs = (1 + states) * len(shapes)
    return Row(op, [*scalars, *plain, *kept], how, outputs=outputs, note=f"step{number}", **DOMAIN)


SOME: dict[str, Any] = {"norm_coefficient": 0.001}
MOMENTUM: dict[str, Any] = {"alpha": 0.95, "beta": 0.1, **SOME}
ROWS = [
    stepped("Adagrad", 1, 0, (3, 5), epsilon=1e-5, decay_factor=0.1, **SOME),
    stepped("Adagrad", 1, 7, (2,), (3, 4), epsilon=1e-5, decay_factor=0.1, **SOME),
    stepped("Adam", 2, 0, (3, 5), alpha=0.95, beta=0.1, epsilon=1e-7, **SOME),
    stepped(
        "Adam", 2, 3, (2,), (3, 4), alpha=0.95, beta=0.85, epsilon=1e-2, norm_coefficient_post=0.01, **SOME
    ),
    stepped("Momentum", 1, 0, (3, 5), mode="standard", **MOMENTUM),
    stepped("Momentum", 1, 2, (2,), (3, 4), mode="standard", **MOMENTUM),
    stepped("Momentum", 1, 0, (2, 3), mode="nesterov", **MOMENTUM),
    stepped("Momentum", 1, 4, (2, 3), mode="nesterov", **MOMENTUM),
]
