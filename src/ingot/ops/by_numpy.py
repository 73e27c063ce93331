"""Operators whose constants numpy folds: definitions that go step by step, which the evaluator does slowly.

In: a node whose inputs are constants. Out: the elements of all its outputs, the same to the last bit as what
its formula gives, or None where there is no such form. `infer` asks before it evaluates the formula.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ingot.formula.expr import Array
from ingot.formula.operations import convert
from ingot.formula.types import dtype_of
from ingot.graph.ir import Node

Form = Callable[[Node, Sequence[Array]], "tuple[Array, ...] | None"]


def by_numpy(node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...] | None:
    """All outputs of the node."""
    form = FORMS.get(node.op) if node.domain == "" else None
    known = [a for a in inputs if a is not None]
    if form is None or len(known) < len(inputs) or known[0].dtype.kind in "OSU":
        return None
    with np.errstate(all="ignore"):
        return form(node, known)


def _attribute(node: Node, name: str, default: int) -> int:
    found = node.attributes.get(name, default)
    assert isinstance(found, int)
    return found


def _comparable(x: Array) -> Array:
    """The elements in a type that numpy can sort; narrow floats and integers are all float32's."""
    return x.astype(np.float32) if x.dtype.kind == "V" else x


# -- running sums and products


def _running(combine: np.ufunc, start: int) -> Form:
    """Carried in the type that is computed in, from 0 or 1 on, as the formula does: -0 becomes 0."""

    def form(node: Node, inputs: Sequence[Array]) -> tuple[Array, ...]:
        x, axis = inputs[0], int(inputs[1].item())
        step = -1 if _attribute(node, "reverse", 0) else 1
        rows = np.moveaxis(x, axis, 0)[::step].astype(dtype_of(x).compute.numpy)
        begin = np.full((1, *rows.shape[1:]), start, rows.dtype)
        totals = combine.accumulate(np.concatenate([begin, rows]), axis=0, dtype=rows.dtype)
        kept = totals[:-1] if _attribute(node, "exclusive", 0) else totals[1:]
        return (np.ascontiguousarray(np.moveaxis(convert(kept[::step], dtype_of(x)), 0, axis)),)

    return form


# -- orders


def _top(node: Node, inputs: Sequence[Array]) -> tuple[Array, ...] | None:
    """None for NaN, and where zeros of both signs might change places."""
    x, axis = inputs[0], _attribute(node, "axis", -1)
    k = int(inputs[1].item()) if len(inputs) > 1 else _attribute(node, "k", 0)
    rows, last = _comparable(np.moveaxis(x, axis, -1)), x.shape[axis] - 1
    if rows.dtype.kind == "f" and (np.isnan(rows).any() or np.signbit(rows[rows == 0]).any()):
        return None
    if _attribute(node, "largest", 1):  # ties in order: the last of an ascending order, counted from the end
        order = last - np.argsort(rows[..., ::-1], axis=-1, kind="stable")[..., ::-1]
    else:
        order = np.argsort(rows, axis=-1, kind="stable")
    places = np.moveaxis(order[..., :k], -1, axis)
    return np.take_along_axis(x, places, axis), np.ascontiguousarray(places, np.int64)


def _unique(node: Node, inputs: Sequence[Array]) -> tuple[Array, ...]:
    """Zeros are one, NaNs are one; of equal items the first is taken."""
    x, axis = inputs[0], node.attributes.get("axis")
    assert axis is None or isinstance(axis, int)
    n = x.size if axis is None else x.shape[axis]
    items = x.reshape(n, 1) if axis is None else np.moveaxis(x, axis, 0).reshape(n, x.size // max(n, 1))
    columns = _comparable(items)
    order = np.lexsort(columns.T[::-1]) if columns.shape[1] else np.arange(n)
    ordered = columns[order]
    a, b = ordered[1:], ordered[:-1]
    alike = (a == b) | ((a != a) & (b != b))  # NaN
    begins = np.concatenate([np.ones(min(n, 1), bool), ~alike.all(1)])
    first = order[begins]
    inverse = np.empty(n, np.int64)
    inverse[order] = np.cumsum(begins) - 1
    if not _attribute(node, "sorted", 1):
        by_place = np.argsort(first)
        rank = np.empty(len(first), np.int64)
        rank[by_place] = np.arange(len(first))
        first, inverse = first[by_place], rank[inverse]
    counts = np.bincount(inverse, minlength=len(first))
    y = items[first, 0] if axis is None else np.take(x, first, axis)
    return y, first.astype(np.int64), inverse, counts.astype(np.int64)


def _places(node: Node, inputs: Sequence[Array]) -> tuple[Array, ...] | None:
    (x,) = inputs
    return None if x.ndim == 0 else (np.array(np.nonzero(_comparable(x)), np.int64),)


FORMS: dict[str, Form] = {
    "CumSum": _running(np.add, 0),
    "CumProd": _running(np.multiply, 1),
    "TopK": _top,
    "Unique": _unique,
    "NonZero": _places,
}
