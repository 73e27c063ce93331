"""Labels of classifiers. In: scores [N, C]; out: the label of each row's class."""

from __future__ import annotations

import numpy as np

from ingot.errors import ModelError
from ingot.formula.expr import Const, Expr, Tensor, Var, call, cast, select
from ingot.formula.types import INDEX, INT32
from ingot.ops.ml.descent import clamped
from ingot.ops.registry import Builder

Ints = tuple[int, ...]
Strings = tuple[str, ...]


def label_table(f: Builder, ints: Ints, strings: Strings) -> Tensor:
    """The labels as a constant [C]: exactly one of the lists is given. Raises ModelError."""
    if bool(ints) == bool(strings):
        raise ModelError(f"{f.node.label}: labels must be given either as integers or as strings")
    if strings:
        return f.texts(strings, "labels")
    return f.constant(np.array(ints, np.int64), "labels")


def top(f: Builder, scores: Tensor, seen: Tensor | None = None) -> Tensor:
    """at[n]: the first of the largest scores of row n. Where `seen` is given, of those it marks.

    As onnxruntime has it, NaN is larger than nothing, but stays where it is met first.
    """
    n, c = f.axes(scores.shape, "n c")
    at = f.map((n,), Const(0, INT32), name="at")
    best = f.map((n,), scores[n, 0], name="best")
    found = None if seen is None else f.map((n,), seen[n, 0], name="found")
    later = Var("later", c.extent)

    def compare() -> None:
        s = scores[n, later]
        better: Expr = s > best[n]
        if found is not None and seen is not None:
            better = seen[n, later] & (better | call("not", found[n]))
        f.put(at, (n,), (n,), select(better, cast(later, INT32), at[n]))
        f.put(best, (n,), (n,), select(better, s, best[n]))
        if found is not None and seen is not None:
            f.put(found, (n,), (n,), found[n] | seen[n, later])

    f.scan(later, (at, best) if found is None else (at, best, found), compare)
    return at


def labelled(f: Builder, at: Tensor, labels: Tensor) -> Tensor:
    """labels[at[n]] for every row."""
    (n,) = f.axes(at.shape, "n")
    last = labels.count - 1
    return f.map((n,), labels[clamped(at[n], 0, last)], labels.type, "label")


def pick(f: Builder, positive: Expr, axes: tuple[Var, ...], labels: Tensor) -> Tensor:
    """The second label where `positive` holds, else the first."""
    return f.map(axes, labels[cast(positive, INDEX)], labels.type, "label")
