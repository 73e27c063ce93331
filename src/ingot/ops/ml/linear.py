"""Linear models of ai.onnx.ml: a matrix product, the intercepts and a transform.

In: X [N, F] (or one row) of floats or integers, computed in float32. Out: scores, and labels of classes.
"""

from __future__ import annotations

import numpy as np

from ingot.errors import ModelError
from ingot.formula.expr import Expr, Tensor, Var, cast
from ingot.formula.types import FLOAT32
from ingot.ops.ml.classes import Ints, Strings, label_table, labelled, pick, top
from ingot.ops.ml.transform import pair, probit, rows_as, transform_of, transformed
from ingot.ops.registry import Builder, op

Floats = tuple[float, ...]


def product(f: Builder, x: Tensor, coefficients: Floats, intercepts: Floats, count: int) -> Tensor:
    """scores[n, c] = intercepts[c] + sum over k of x[n, k] * coefficients[c, k]. Raises ModelError."""
    features = x.shape[1]
    if not isinstance(features, int) or len(coefficients) != features * count:
        given = f"{len(coefficients)} coefficients for {features} features and {count} scores"
        raise ModelError(f"{f.node.label}: {given}")
    if len(intercepts) not in (0, count):
        raise ModelError(f"{f.node.label}: {len(intercepts)} intercepts for {count} scores")
    w = f.constant(np.array(coefficients, np.float32).reshape(count, features), "coefficients")
    n, c = f.axes((x.shape[0], count), "n c")
    k = Var("k", features)

    def post(acc: Expr) -> Expr:
        return acc + f.constant(np.array(intercepts, np.float32), "intercepts")[c] if intercepts else acc

    return f.reduce("sum", (n, c), (k,), x[n, k] * w[c, k], post=post, name="products")


@op("LinearClassifier", domain="ai.onnx.ml")
def linear_classifier(
    f: Builder,
    x: Tensor,
    *,
    classlabels_ints: Ints = (),
    classlabels_strings: Strings = (),
    coefficients: Floats,
    intercepts: Floats = (),
    multi_class: int = 0,
    post_transform: str = "NONE",
) -> tuple[Tensor, Tensor]:
    """Labels [N] of the largest scores, and the scores [N, C] (LinearClassifier-1).

    One score s for two classes: the second where s > 0; the scores are (1 - s, s), of LOGISTIC those of -s
    and s (onnxruntime's way). `multi_class` changes nothing.
    """
    labels = label_table(f, classlabels_ints, classlabels_strings)
    how, rows = transform_of(f, post_transform), rows_as(f, x, FLOAT32)
    one = labels.count == 2 and (len(intercepts) == 1 or len(coefficients) == rows.shape[1])
    scores = product(f, rows, coefficients, intercepts, 1 if one else labels.count)
    if not one:
        return labelled(f, top(f, scores), labels), transformed(f, scores, how)
    (n,) = f.axes(scores.shape[:1], "n")
    s = scores[n, 0]
    return pick(f, s > 0, (n,), labels), pair(f, n, s, how, (1 - s, s))


@op("LinearRegressor", domain="ai.onnx.ml")
def linear_regressor(
    f: Builder,
    x: Tensor,
    *,
    coefficients: Floats,
    intercepts: Floats = (),
    post_transform: str = "NONE",
    targets: int = 1,
) -> Tensor:
    """Scores [N, targets] (LinearRegressor-1); one score knows no transform but PROBIT, as in onnxruntime."""
    if not 0 < targets <= len(coefficients):
        raise ModelError(f"{f.node.label}: {len(coefficients)} coefficients for {targets} targets")
    how = transform_of(f, post_transform)
    scores = product(f, rows_as(f, x, FLOAT32), coefficients, intercepts, targets)
    return finished(f, scores, how)


def finished(f: Builder, scores: Tensor, how: str) -> Tensor:
    """Scores [N, C] transformed; one alone by PROBIT only."""
    if scores.shape[1] != 1:
        return transformed(f, scores, how)
    axes = f.axes(scores.shape, "n c")
    value = probit(scores[axes]) if how == "PROBIT" else scores[axes]
    return f.map(axes, cast(value, FLOAT32), FLOAT32, "scores")
