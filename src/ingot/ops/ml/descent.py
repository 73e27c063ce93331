"""Rows that walk down trees, as formulas. In: a `Forest` and inputs [N, F]; out: scores [N, targets].

Several trees take a step together, until all are at leaves: the steps of different trees do not wait for
each other. A place at a leaf stays where it is, so there is nothing to decide but the comparison. Whatever
the tables hold is known now, so every index into them is proved rather than checked.
"""

from __future__ import annotations

import numpy as np

from ingot.errors import UnsupportedError
from ingot.formula.expr import Array, Const, Expr, Tensor, Var, call, cast, maximum, minimum, select
from ingot.formula.index import upper
from ingot.formula.types import BOOL, INDEX, INT32, UINT16, DType
from ingot.ops.ml.forest import Forest
from ingot.ops.registry import Builder

TABLE_LIMIT = 1 << 28
TOGETHER = 8


def smallest(table: Array) -> Array:
    """The table in the narrowest integer type that holds it."""
    lo, hi = int(np.min(table, initial=0)), int(np.max(table, initial=0))
    fits = (
        t for t in (np.uint8, np.int8, np.uint16, np.int16) if np.iinfo(t).min <= lo and hi <= np.iinfo(t).max
    )
    return table.astype(next(fits, np.int32))


def scores(
    f: Builder, forest: Forest, x: Tensor, targets: int, how: str, dtype: DType, seen: Tensor | None = None
) -> Tensor:
    """What the leaves that each row comes to give to each target: their sum, or the min or max of them.

    Weights add up in the order of the trees. Of a min or max that nothing is given to, NaN stands. `seen` is
    written too, where it is given: whether anything was.
    """
    (n,) = f.axes(x.shape[:1], "n")
    y = f.empty(dtype, (*x.shape[:1], targets), "scores")

    def row() -> None:
        place = descend(f, forest, x, n)
        if how == "sum" and seen is None and _is_dense(forest, targets):
            _dense(f, forest, place, y, n)
        else:
            _sparse(f, forest, place, y, n, how, seen)

    f.scan(n, (), row)
    return y


def descend(f: Builder, forest: Forest, x: Tensor, row: Var) -> Tensor:
    """place[t]: where one row ends in each tree.

    TOGETHER trees step down together until all have come to leaves; what is short of that many stays at one.
    """
    groups = -(-len(forest.roots) // TOGETHER)
    roots = np.full(groups * TOGETHER, forest.nodes)
    roots[: len(forest.roots)] = forest.roots
    last = len(forest.feature) - 1
    dtype = UINT16 if last < 1 << 16 else INT32
    place = f.empty(dtype, roots.shape, "place", within=(0, last))
    first = f.constant(roots.astype(dtype.numpy), "roots")
    then = f.constant(forest.then.astype(dtype.numpy), "then")
    group, level, tree = Var("group", groups), Var("level", forest.depth), Var("t", TOGETHER)
    t = group * TOGETHER + tree
    active = f.empty(BOOL, (), "active")

    def down() -> None:
        at = cast(place[t], INDEX)
        f.put(place, (tree,), (t,), then[at, cast(_holds(f, forest, at, x, row), INDEX)])
        f.reduce("or", (), (tree,), place[t] < forest.nodes, init=False, into=(active, ()))

    def together() -> None:
        f.put(place, (tree,), (t,), first[t])
        if forest.depth:
            f.put(active, (), (), Const(True, BOOL))
            f.scan(level, (place, active), down, active)

    f.scan(group, (), together)
    return place


def _holds(f: Builder, forest: Forest, at: Expr, x: Tensor, row: Var) -> Expr:
    """Whether what the node at a place compares holds for a row."""
    value = x[row, cast(f.constant(smallest(forest.feature), "feature")[at], INDEX)]
    threshold = f.constant(forest.threshold.astype(x.type.compute.numpy), "threshold")
    holds = value <= threshold[at]
    if forest.tracks.any():
        holds = holds | (call("isnan", value) & f.constant(forest.tracks, "tracks")[at])
    return holds


def clamped(place: Expr, first: int, last: int) -> Expr:
    """place - first as an index from 0 to last."""
    return minimum(maximum(cast(place, INDEX) - first, 0), last)


def _is_dense(forest: Forest, targets: int) -> bool:
    return targets == 1 or forest.leaves * targets <= 2 * len(forest.weight)


def _require_small(f: Builder, elements: int) -> None:
    if elements * 8 > TABLE_LIMIT:
        raise UnsupportedError(f"{f.node.label}: a table of {elements} weights of leaves is too large")


def _dense(f: Builder, forest: Forest, place: Tensor, y: Tensor, row: Var) -> None:
    """y[row, c] = the sum over trees of a table [leaves, targets]."""
    table = np.zeros((max(forest.leaves, 1), upper(y.shape[1])), y.type.numpy)
    np.add.at(table, (forest.leaf, forest.target), forest.weight)
    weights = f.constant(table, "weights")
    t, c = f.axes((len(forest.roots), y.shape[1]), "t c")
    leaf = clamped(place[t], forest.nodes, len(table) - 1)
    f.reduce("sum", (c,), (t,), weights[leaf, c], into=(y, (row, c)))


def _sparse(
    f: Builder, forest: Forest, place: Tensor, y: Tensor, row: Var, how: str, seen: Tensor | None
) -> None:
    """Each leaf gives to few targets: target[leaf, k] gets weight[leaf, k], tree by tree."""
    nothing = 0.0 if how == "sum" else float("nan")
    slot, width = slots(forest)
    _require_small(f, forest.leaves * width)
    weight = np.full((max(forest.leaves, 1), width), nothing, y.type.numpy)
    target = np.zeros(weight.shape, np.int64)
    weight[forest.leaf, slot], target[forest.leaf, slot] = forest.weight, forest.target
    given = np.zeros(weight.shape, bool)
    given[forest.leaf, slot] = True
    weights, targets = f.constant(weight, "weights"), f.constant(smallest(target), "targets")
    gives = f.constant(given, "gives")
    (c,) = f.axes(y.shape[1:], "c")
    f.put(y, (c,), (row, c), Const(nothing, y.type))
    if seen is not None:
        f.put(seen, (c,), (row, c), Const(False, BOOL))
    t, k = f.axes((len(forest.roots), width), "t k")

    def give() -> None:
        leaf = clamped(place[t], forest.nodes, len(weight) - 1)
        to, w = (row, cast(targets[leaf, k], INDEX)), weights[leaf, k]
        if seen is not None:
            f.put(seen, (), to, seen[to] | gives[leaf, k])
        old = y[to]
        if how == "sum":
            f.put(y, (), to, old + w)
        else:
            better = w < old if how == "min" else w > old
            f.put(y, (), to, select(call("isnan", old) | better, w, old))

    carried = (y,) if seen is None else (y, seen)
    f.scan(t, carried, lambda: f.scan(k, carried, give))


def slots(forest: Forest) -> tuple[Array, int]:
    """Which of its leaf's weights each weight is, and the most that a leaf has."""
    order = np.argsort(forest.leaf, kind="stable")
    sorted_leaf = forest.leaf[order]
    first = np.searchsorted(sorted_leaf, sorted_leaf)
    slot = np.empty(len(order), np.int64)
    slot[order] = np.arange(len(order)) - first
    return slot, int(np.max(slot, initial=-1)) + 1 or 1
