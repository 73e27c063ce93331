"""Decision trees as tables. In: the attributes of a tree operator, trusted in nothing; out: a `Forest`.

Every comparison becomes "x <= threshold", which for floating-point numbers loses nothing: x < t is x <= the
number below t, x >= t is the opposite of x < t. Equality and membership of a set become a small search tree.
Nodes are numbered in depth-first order, the child that is taken more often first, so that neighbours in a
path are neighbours in memory. What no root leads to is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np

from ingot.errors import ModelError
from ingot.formula.expr import Array
from ingot.formula.types import DType


class Mode(IntEnum):
    """How a node compares, by the numbers of TreeEnsemble-5; LEAF where a node does not."""

    BRANCH_LEQ = 0
    BRANCH_LT = 1
    BRANCH_GTE = 2
    BRANCH_GT = 3
    BRANCH_EQ = 4
    BRANCH_NEQ = 5
    BRANCH_MEMBER = 6
    LEAF = 7


@dataclass(slots=True)
class Split:
    """A node as the model has it. A child is a node's number, or ~leaf."""

    feature: int
    mode: Mode
    values: tuple[float, ...]
    true: int
    false: int
    missing: bool = False
    hits: float = 0.0


@dataclass(slots=True)
class Trees:
    """What a model's attributes say: nodes, roots (a node's number, or ~leaf) and the weights of leaves."""

    splits: list[Split]
    roots: list[int]
    leaves: int
    leaf: Array  # weight i is given by leaf[i] ...
    target: Array  # ... to target[i]
    weight: Array
    owner: Array = field(
        default_factory=lambda: np.zeros(0, np.int64)
    )  # the tree of each leaf, if it has one


@dataclass(frozen=True, slots=True)
class Forest:
    """Tables of places: the nodes, then the leaves. `then[p, holds]` is the place after p; a leaf stays.

    `tracks` tells where the comparison with NaN holds.
    """

    feature: Array
    threshold: Array
    tracks: Array
    then: Array
    roots: Array
    depth: int
    leaves: int
    leaf: Array
    target: Array
    weight: Array

    @property
    def nodes(self) -> int:
        return len(self.feature) - self.leaves


@dataclass(slots=True)
class _Nodes:
    """Nodes that all compare by <=, as lists that grow."""

    feature: list[int] = field(default_factory=list)
    threshold: list[float] = field(default_factory=list)
    tracks: list[bool] = field(default_factory=list)
    children: list[tuple[int, int]] = field(default_factory=list)  # (false, true)

    def add(self, feature: int, threshold: float, tracks: bool, false: int, true: int) -> int:
        self.feature.append(feature)
        self.threshold.append(threshold)
        self.tracks.append(tracks)
        self.children.append((false, true))
        return len(self.feature) - 1

    def set(self, at: int, threshold: float, tracks: bool, false: int, true: int) -> None:
        self.threshold[at], self.tracks[at], self.children[at] = threshold, tracks, (false, true)


def plant(trees: Trees, features: int, dtype: DType) -> Forest:
    """The tables for inputs of so many features, compared as `dtype`. Raises ModelError for bad trees."""
    nodes = _Nodes()
    for i, s in enumerate(trees.splits):
        _require(0 <= s.feature < features, f"node {i} asks for feature {s.feature} of {features}")
        nodes.add(s.feature, float("nan"), False, 0, 0)
    for i, s in enumerate(trees.splits):
        _compare_by_order(nodes, i, s, dtype)
    hot = [s.hits for s in trees.splits]
    numbers, leaves, depth = _visit(nodes.children, trees.roots, lambda n: hot[n] if n < len(hot) else 0.0)
    kept = np.array(sorted(numbers, key=numbers.__getitem__), np.int64)
    place = {**numbers, **{~leaf: len(kept) + at for leaf, at in leaves.items()}}
    then = [[place[c] for c in nodes.children[n]] for n in kept.tolist()]
    stay = np.arange(len(kept), len(kept) + len(leaves)).reshape(-1, 1).repeat(2, 1)
    ends = np.zeros(len(leaves))
    used = np.array([int(leaf) in leaves for leaf in trees.leaf], bool)
    return Forest(
        np.array([*(nodes.feature[n] for n in kept), *ends], np.int64),
        np.array([*(nodes.threshold[n] for n in kept), *ends], np.float64),
        np.array([*(nodes.tracks[n] for n in kept), *ends], bool),
        np.concatenate([np.array(then, np.int64).reshape(-1, 2), stay]),
        np.array([place[r] for r in trees.roots], np.int64),
        depth,
        len(leaves),
        np.array([leaves[int(leaf)] for leaf in trees.leaf[used]], np.int64),
        trees.target[used].astype(np.int64),
        trees.weight[used],
    )


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ModelError(message)


# -- comparisons


def _compare_by_order(nodes: _Nodes, at: int, s: Split, dtype: DType) -> None:
    """Write node `at`, and new nodes below it where one comparison does not do.

    x >= t == not (x < t), but for NaN: there `tracks` turns with the outcome.
    """
    if any(np.isnan(v) for v in s.values):
        raise ModelError(f"node {at} compares with NaN")
    match s.mode:
        case Mode.BRANCH_LEQ:
            nodes.set(at, _down(s.values[0], dtype), s.missing, s.false, s.true)
        case Mode.BRANCH_LT:
            nodes.set(at, _below(s.values[0], dtype), s.missing, s.false, s.true)
        case Mode.BRANCH_GTE:
            nodes.set(at, _below(s.values[0], dtype), not s.missing, s.true, s.false)
        case Mode.BRANCH_GT:
            nodes.set(at, _down(s.values[0], dtype), not s.missing, s.true, s.false)
        case Mode.BRANCH_NEQ:  # NaN is equal to nothing
            _find(nodes, at, s.feature, s.values, s.false, s.true, False, dtype)
        case _:
            _find(nodes, at, s.feature, s.values, s.true, s.false, s.missing, dtype)


def _find(
    nodes: _Nodes,
    at: int,
    feature: int,
    values: Sequence[float],
    found: int,
    other: int,
    missing: bool,
    dtype: DType,
) -> None:
    """Node `at` leads to `found` where x is one of the values, or NaN and `missing`; else to `other`.

    Halves are searched until one value v is left: x <= v and not x <= the number below v.
    """
    exact = sorted({v for v in map(float, values) if _down(v, dtype) == v})
    if not exact:
        nodes.set(at, float("nan"), missing, other, found)
        return
    if len(exact) == 1:
        nodes.set(at, exact[0], missing, other, 0)
        rest = nodes.add(feature, _below(exact[0], dtype), False, found, other)
        nodes.children[at] = (other, rest)
        return
    half = (len(exact) + 1) // 2
    low, high = (nodes.add(feature, 0.0, False, 0, 0) for _ in range(2))
    nodes.set(at, exact[half - 1], missing, high, low)
    _find(nodes, low, feature, exact[:half], found, other, missing, dtype)
    _find(nodes, high, feature, exact[half:], found, other, False, dtype)


def _down(t: float, dtype: DType) -> float:
    """The largest number of the type that is not above t."""
    to = dtype.numpy.type
    with np.errstate(over="ignore"):
        near = to(t)
    return float(np.nextafter(near, to(-np.inf)) if near > t else near)


def _below(t: float, dtype: DType) -> float:
    """The largest number of the type that is below t; NaN, which no x is at most, where there is none."""
    near = _down(t, dtype)
    if near != t:
        return near
    return (
        float("nan") if t == -np.inf else float(np.nextafter(dtype.numpy.type(t), dtype.numpy.type(-np.inf)))
    )


# -- order


def _visit(
    children: list[tuple[int, int]], roots: list[int], hits: Callable[[int], float]
) -> tuple[dict[int, int], dict[int, int], int]:
    """Numbers of the nodes and of the leaves that the roots lead to, and the longest path.

    Raises ModelError for a cycle.
    """
    height: dict[int, int] = {}
    numbers: dict[int, int] = {}
    leaves: dict[int, int] = {}
    stack = [(r, False) for r in reversed(roots)]
    while stack:
        n, done = stack.pop()
        if n < 0:
            leaves.setdefault(~n, len(leaves))
        elif done:
            height[n] = 1 + max(height.get(c, 0) for c in children[n])
        elif n not in numbers:
            numbers[n] = len(numbers)
            stack.append((n, True))
            stack.extend((c, False) for c in sorted(children[n], key=lambda c: hits(c) if c >= 0 else 0.0))
        elif n not in height:
            raise ModelError(f"the nodes of a tree form a cycle through node {n}")
    return numbers, leaves, max((height.get(r, 0) for r in roots), default=0)
