"""What can be said of the outputs of random operators: shape, type, range and distribution, not values.

In: a model, its inputs, its outputs and those of the case. Out: what is wrong, or nothing; None where the
model draws no random numbers. Called by `judge`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx

SIGMAS = 6.0
Arrays = Sequence[Any]


def random_reason(model: onnx.ModelProto, inputs: Arrays, found: Arrays, wanted: Arrays) -> str | None:
    """Bernoulli and its function body, and Dropout in training; ratio 0 leaves nothing to chance."""
    operators = {str(n.op_type) for n in model.graph.node}
    if operators & {"Bernoulli", "RandomUniformLike"}:
        return _alike(found, wanted) or _bernoulli(np.asarray(inputs[0]), np.asarray(found[0]))
    if operators == {"Dropout"} and len(inputs) == 3 and bool(np.asarray(inputs[2])):
        ratio = float(np.asarray(inputs[1]))
        return None if ratio == 0 else _alike(found, wanted) or _dropout(inputs[0], ratio, found)
    return None


def _alike(found: Arrays, wanted: Arrays) -> str:
    for i, (a, b) in enumerate(zip(map(np.asarray, found), map(np.asarray, wanted), strict=True)):
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"output {i} is {a.dtype}{list(a.shape)} instead of {b.dtype}{list(b.shape)}"
    return ""


def _bernoulli(p: Any, y: Any) -> str:
    """Zeros and ones, with the mean of the probabilities."""
    if not np.all((y == 0) | (y == 1)):
        return "output 0 holds other values than 0 and 1"
    p = p.astype(np.float64)
    return _often(float(y.astype(np.float64).sum()), float(p.sum()), float((p * (1 - p)).sum()))


def _dropout(x: Any, ratio: float, found: Arrays) -> str:
    """Zeros, and the elements of x at their larger scale, in the numbers that the ratio says."""
    x, y = np.asarray(x, np.float64), np.asarray(found[0], np.float64)
    scaled = x / (1 - ratio) if ratio < 1 else x * 0
    keeps = np.isclose(y, scaled, rtol=1e-3) & (y != 0)
    if not np.all(keeps | (y == 0)):
        return "output 0 holds other values than 0 and scaled elements"
    if len(found) > 1 and not np.array_equal(np.asarray(found[1]) & (x != 0), keeps):
        return "the mask is not that of the elements kept"
    n = int(np.sum(x != 0))
    return _often(float(keeps.sum()), n * (1 - ratio), n * ratio * (1 - ratio))


def _often(count: float, mean: float, variance: float) -> str:
    far = abs(count - mean) > SIGMAS * math.sqrt(variance) + 1e-9
    return f"{count:g} of {mean:g} expected" if far else ""
