"""Support vector machines: a kernel of rows and support vectors, then sums with coefficients.

In: X [N, F] (or one row) of floats or integers, computed in float32. Out: scores, and labels of classes.
Classes are compared in pairs i < j; the coefficients of a vector of class i stand in row j - 1, those of a
vector of class j in row i. Without support vectors the coefficients are the vectors, as liblinear has it.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from ingot.errors import ModelError
from ingot.formula.expr import (
    Array,
    Const,
    Expr,
    Tensor,
    Var,
    binary,
    call,
    cast,
    equal,
    maximum,
    minimum,
    select,
    static,
)
from ingot.formula.types import BOOL, FLOAT32, FLOAT64, INDEX, INT32
from ingot.ops.ml.classes import Ints, Strings, label_table, labelled, top
from ingot.ops.ml.linear import Floats
from ingot.ops.ml.transform import logistic, pair, rows_as, transform_of, transformed
from ingot.ops.registry import Builder, op

KERNELS = ("LINEAR", "POLY", "RBF", "SIGMOID")
CERTAIN = 1e-7
"""Probabilities of pairs stay this far from 0 and 1."""
FEW = 4
"""So many classes are compared by one product, most of whose coefficients are not 0."""
TURNS = 100
"""At most so many times the probabilities of all classes are refined."""


def _require(f: Builder, condition: bool, message: str) -> None:
    if not condition:
        raise ModelError(f"{f.node.label}: {message}")


def kernel(f: Builder, x: Tensor, vectors: Array, kind: str, params: Floats) -> Tensor:
    """k[n, v]: the kernel of row n and vector v. LINEAR is their product p, POLY (gamma p + coef0)^degree,
    SIGMOID tanh(gamma p + coef0), RBF exp(-gamma times the square of their distance).
    """
    _require(f, kind in KERNELS, f"kernel_type {kind!r} is not one of {', '.join(KERNELS)}")
    _require(f, len(params) in (0, 3), f"kernel_params has {len(params)} elements instead of 3")
    gamma, coef0, degree = params or (0.0, 0.0, 0.0)
    n, v = f.axes((x.shape[0], len(vectors)), "n v")
    k = Var("k", x.shape[1])
    a, b = x[n, k], f.constant(vectors, "vectors")[v, k]
    if kind == "RBF":
        far = a - b
        return f.reduce("sum", (n, v), (k,), far * far, post=lambda s: call("exp", s * -gamma), name="kernel")

    def post(p: Expr) -> Expr:
        if kind == "LINEAR":
            return p
        p = p * gamma + coef0
        return call("tanh", p) if kind == "SIGMOID" else _power(p, degree)

    return f.reduce("sum", (n, v), (k,), a * b, post=post, name="kernel")


def _power(p: Expr, degree: float) -> Expr:
    if degree in (2, 3):
        return p * p if degree == 2 else p * p * p
    return binary("pow", p, degree)


def _vectors(f: Builder, x: Tensor, flat: Floats, count: int) -> Array:
    _require(
        f,
        len(flat) == count * static(x.shape[1]),
        f"{len(flat)} elements for {count} vectors of {x.shape[1]}",
    )
    return np.array(flat, np.float32).reshape(count, -1)


@op("SVMRegressor", domain="ai.onnx.ml")
def svm_regressor(
    f: Builder,
    x: Tensor,
    *,
    coefficients: Floats = (),
    kernel_params: Floats = (),
    kernel_type: str = "LINEAR",
    n_supports: int = 0,
    one_class: int = 0,
    post_transform: str = "NONE",
    rho: Floats = (),
    support_vectors: Floats = (),
) -> Tensor:
    """y[n] = rho + sum over vectors v of coefficients[v] * kernel(n, v) (SVMRegressor-1).

    With `one_class` it is 1 where that is positive, else -1. onnxruntime transforms nothing here.
    """
    transform_of(f, post_transform)
    rows = rows_as(f, x, FLOAT32)
    _require(f, len(rho) >= 1, "rho is missing")
    if n_supports > 0:
        _require(
            f, len(coefficients) == n_supports, f"{len(coefficients)} coefficients for {n_supports} vectors"
        )
        vectors = _vectors(f, rows, support_vectors, n_supports)
        k = kernel(f, rows, vectors, kernel_type, kernel_params)
        weight = f.constant(np.array(coefficients, np.float32), "coefficients")
    else:
        k, weight = rows, f.constant(_vectors(f, rows, coefficients, 1)[0], "coefficients")
    n, c = f.axes((rows.shape[0], 1), "n c")
    v = Var("v", k.shape[1])

    def post(acc: Expr) -> Expr:
        y = acc + rho[0]
        return select(y > 0, Const(1.0, FLOAT32), -1.0) if one_class else y

    return f.reduce("sum", (n, c), (v,), k[n, v] * weight[v], post=post)


@op("SVMClassifier", domain="ai.onnx.ml")
def svm_classifier(
    f: Builder,
    x: Tensor,
    *,
    classlabels_ints: Ints = (),
    classlabels_strings: Strings = (),
    coefficients: Floats = (),
    kernel_params: Floats = (),
    kernel_type: str = "LINEAR",
    post_transform: str = "NONE",
    prob_a: Floats = (),
    prob_b: Floats = (),
    rho: Floats = (),
    support_vectors: Floats = (),
    vectors_per_class: Ints = (),
) -> tuple[Tensor, Tensor]:
    """Labels [N] of the classes that win most pairs, and scores: of pairs, or with prob_a and prob_b the
    probabilities [N, C] (SVMClassifier-1).

    Two classes without probabilities have the scores (-s, s), or what `pair` says of (1 - s, s). A pair's
    score of 0 counts for the second class; of equal votes the first class wins.
    """
    labels = label_table(f, classlabels_ints, classlabels_strings)
    how, rows = transform_of(f, post_transform), rows_as(f, x, FLOAT32)
    if sum(vectors_per_class) <= 0:
        return _linear(f, rows, coefficients, rho, labels, how)
    classes = labels.count
    fits = len(vectors_per_class) == classes and min(vectors_per_class) >= 0
    _require(f, fits, f"vectors_per_class is {list(vectors_per_class)} for {classes} classes")
    _require(f, classes >= 2, "one class cannot be told from another")
    pairs = classes * (classes - 1) // 2
    _require(f, len(rho) == pairs, f"rho has {len(rho)} elements for {pairs} pairs of classes")
    _require(f, len(prob_a) == len(prob_b) and len(prob_a) in (0, pairs), "prob_a and prob_b do not fit rho")
    vectors = _vectors(f, rows, support_vectors, sum(vectors_per_class))
    _require(f, len(coefficients) == (classes - 1) * len(vectors), f"{len(coefficients)} coefficients")
    k = kernel(f, rows, vectors, kernel_type, kernel_params)
    weight = np.array(coefficients, np.float32).reshape(classes - 1, -1)
    scores = _pairs(f, k, weight, vectors_per_class, rho)
    label = labelled(f, _most_votes(f, scores, classes), labels)
    if prob_a:
        return label, transformed(f, _probabilities(f, scores, classes, prob_a, prob_b), how)
    if classes > 2:
        return label, transformed(f, scores, how)
    (n,) = f.axes(scores.shape[:1], "n")
    s = scores[n, 0]
    return label, pair(f, n, s, how, (-s if how == "NONE" else 1 - s, s))


def _linear(
    f: Builder, rows: Tensor, coefficients: Floats, rho: Floats, labels: Tensor, how: str
) -> tuple[Tensor, Tensor]:
    """One vector and one score for each class. Of two the second is chosen, as onnxruntime has it, where the
    larger score is positive, or at least 0.5 if no coefficient is negative; else that of the larger score.
    """
    _require(f, len(rho) >= 1, "rho is missing")
    w = f.constant(_vectors(f, rows, coefficients, labels.count), "coefficients")
    n, c = f.axes((rows.shape[0], labels.count), "n c")
    k = Var("k", rows.shape[1])
    scores = f.reduce("sum", (n, c), (k,), rows[n, k] * w[c, k], post=lambda s: s + rho[0], name="products")
    at = top(f, scores)
    if labels.count == 2:
        most = maximum(scores[n, 0], scores[n, 1])
        second = most >= 0.5 if min(coefficients) >= 0 else most > 0
        at = f.map((n,), select(second, Const(1, INT32), at[n]), name="chosen")
    finished = scores if labels.count == 1 and how != "PROBIT" else transformed(f, scores, how)
    return labelled(f, at, labels), finished


def _pairs(f: Builder, k: Tensor, weight: Array, per_class: Ints, rho: Floats) -> Tensor:
    """scores[n, pair] of classes i < j in order, summed in float64 as onnxruntime does.

    Few pairs are one product. Of many, sums[n, i, r] holds what row r gives to the vectors of class i.
    """
    classes = len(per_class)
    first, second = _sides(f, classes)
    n, p = f.axes((k.shape[0], first.count), "n p")
    v = Var("v", k.shape[1])
    owner, kernel_ = np.repeat(np.arange(classes), per_class), cast(k[n, v], FLOAT64)
    shift = f.constant(np.array(rho, np.float32), "rho")
    if classes <= FEW:
        rows = [
            np.where(owner == i, weight[j - 1], 0) + np.where(owner == j, weight[i], 0)
            for i, j in combinations(range(classes), 2)
        ]
        both = f.constant(np.array(rows, np.float64), "coefficients")[p, v]
        total = f.reduce("sum", (n, p), (v,), kernel_ * both, name="sums")
        return f.map((n, p), cast(total[n, p] + cast(shift[p], FLOAT64), FLOAT32), name="pairs")
    c, r = f.axes((classes, classes - 1), "c r")
    sums = f.map((n, c, r), Const(0.0, FLOAT64), name="sums")
    row = f.constant(weight.T.astype(np.float64), "coefficients")
    of = f.constant(owner.astype(np.int32), "owner")

    def add() -> None:
        at = (n, cast(of[v], INDEX), r)
        f.put(sums, (n, r), at, sums[at] + kernel_ * row[v, r])

    f.scan(v, (sums,), add)
    i, j = cast(first[p], INDEX), cast(second[p], INDEX)
    score = sums[n, i, j - 1] + sums[n, j, i]
    return f.map((n, p), cast(score + cast(shift[p], FLOAT64), FLOAT32), name="pairs")


def _sides(f: Builder, classes: int) -> tuple[Tensor, Tensor]:
    """The first and the second class of every pair."""
    i, j = np.triu_indices(classes, 1)
    return f.constant(i.astype(np.int32), "first"), f.constant(j.astype(np.int32), "second")


def _most_votes(f: Builder, scores: Tensor, classes: int) -> Tensor:
    """at[n]: the first of the classes that win most of their pairs."""
    first, second = _sides(f, classes)
    n, c = f.axes((scores.shape[0], classes), "n c")
    p = Var("p", first.count)
    votes = f.map((n, c), Const(0, INT32), name="votes")

    def vote() -> None:
        at = (n, select(scores[n, p] > 0, cast(first[p], INDEX), cast(second[p], INDEX)))
        f.put(votes, (n,), at, votes[at] + 1)

    f.scan(p, (votes,), vote)
    return top(f, votes)


def _probabilities(f: Builder, scores: Tensor, classes: int, prob_a: Floats, prob_b: Floats) -> Tensor:
    """p[n, c] from the probabilities r[i, j] that i wins over j, by Wu, Lin and Weng's second method
    ("Probability estimates for multi-class classification by pairwise coupling", 2004, algorithm 2).
    """
    which = np.zeros((classes, classes), np.int32)
    above = np.triu_indices(classes, 1)
    which[above] = which.T[above] = np.arange(len(above[0]))
    n, i, j = f.axes((scores.shape[0], classes, classes), "n i j")
    at = cast(f.constant(which, "pair")[i, j], INDEX)
    a, b = (f.constant(np.array(t, np.float32), name) for t, name in ((prob_a, "prob_a"), (prob_b, "prob_b")))
    r = 1 - logistic(scores[n, at] * a[at] + b[at])
    r = minimum(maximum(r, CERTAIN), 1 - CERTAIN)
    wins = f.map((n, i, j), select(i < j, r, 1 - r), name="wins")
    return _coupled(f, wins, classes)


def _coupled(f: Builder, wins: Tensor, classes: int) -> Tensor:
    """The p that best agree with all pairs: each in turn is set to its best value, until they are settled."""
    n, i = f.axes((wins.shape[0], classes), "n i")
    j, t, turn = Var("j", classes), Var("t", classes), Var("turn", TURNS)
    others = select(equal(i, t), 0.0, wins[n, t, i] * wins[n, t, i])
    diagonal = f.reduce("sum", (n, i), (t,), others, name="diagonal")
    cross = -(wins[n, j, i] * wins[n, i, j])
    q = f.map((n, i, j), select(equal(i, j), diagonal[n, i], cross), name="q")
    p = f.map((n, i), Const(1 / classes, FLOAT32), name="p")
    live = f.map((n,), Const(True, BOOL), name="live")
    active = f.map((), Const(True, BOOL), name="active")

    def refine() -> None:
        qp = f.reduce("sum", (n, i), (j,), q[n, i, j] * p[n, j], name="qp")
        pqp = f.reduce("sum", (n,), (i,), p[n, i] * qp[n, i], name="pqp")
        error = f.reduce("max", (n,), (i,), call("abs", qp[n, i] - pqp[n]), name="error")
        f.put(live, (n,), (n,), live[n] & binary("ge", error[n], 0.005 / classes))
        f.reduce("or", (), (n,), live[n], init=False, into=(active, ()))
        f.scan(t, (p, qp, pqp), lambda: improve(qp, pqp))

    def improve(qp: Tensor, pqp: Tensor) -> None:
        step = f.map((n,), select(live[n], (pqp[n] - qp[n, t]) / q[n, t, t], 0.0), name="step")
        d = step[n]
        f.put(pqp, (n,), (n,), (pqp[n] + d * (d * q[n, t, t] + qp[n, t] * 2)) / (1 + d) / (1 + d))
        f.put(qp, (n, i), (n, i), (qp[n, i] + d * q[n, t, i]) / (1 + d))
        f.put(p, (n, i), (n, i), select(equal(i, t), p[n, i] + d, p[n, i]) / (1 + d))

    f.scan(turn, (p, live, active), refine, active)
    return p
