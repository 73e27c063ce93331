"""The tree ensembles of ai.onnx.ml: attributes read and checked, rows sent down the trees, scores finished.

In: X [N, F] (or one row [F]) of floats or integers; integers are compared as float32, as onnxruntime does.
Out: scores, and for classifiers labels. Where the standard is silent, onnxruntime decides: a NaN goes where
the comparison fails unless the node tracks it as true (only NEQ holds for it); a class that no leaf gave
anything to is not chosen; with two classes and weights of one only, see `_two_classes`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from ingot.errors import ModelError
from ingot.formula.expr import Array, Const, Expr, Tensor, call, cast, select
from ingot.formula.types import BOOL, FLOAT32, DType
from ingot.ops.ml.classes import Ints, Strings, label_table, labelled, pick, top
from ingot.ops.ml.descent import scores
from ingot.ops.ml.forest import Forest, Mode, Split, Trees, plant
from ingot.ops.ml.transform import beside, pair, probit, rows_of, transform_of, transformed
from ingot.ops.registry import Builder, op

Floats = tuple[float, ...]
AGGREGATES = {"AVERAGE": "average", "SUM": "sum", "MIN": "min", "MAX": "max"}


# -- attributes


def numbers(f: Builder, name: str, listed: Floats, tensor: Array | None) -> Array:
    """Floats given as a list or as a tensor. Raises ModelError for both."""
    if listed and tensor is not None:
        raise ModelError(f"{f.node.label}: {name} and {name}_as_tensor are both given")
    return np.asarray(listed if tensor is None else tensor, np.float64).reshape(-1)


def _require(f: Builder, condition: bool, message: str) -> None:
    if not condition:
        raise ModelError(f"{f.node.label}: {message}")


@dataclass(frozen=True, slots=True)
class Nodes:
    """The attributes nodes_* of versions 1 and 3, names as in the standard."""

    treeids: Ints
    nodeids: Ints
    featureids: Ints
    values: Array
    modes: Strings
    truenodeids: Ints
    falsenodeids: Ints
    hitrates: Array
    missing_value_tracks_true: Ints


@dataclass(frozen=True, slots=True)
class Weights:
    """The attributes class_* or target_* of versions 1 and 3."""

    treeids: Ints
    nodeids: Ints
    ids: Ints
    weights: Array


def _listed(f: Builder, nodes: Nodes, weights: Weights, targets: int) -> Trees:
    """Versions 1 and 3: nodes are named by their tree and their number; the first of a tree is its root."""
    n, w = len(nodes.nodeids), weights
    lengths = {len(v) for v in (nodes.treeids, nodes.featureids, nodes.values, nodes.modes)}
    lengths |= {len(nodes.truenodeids), len(nodes.falsenodeids)}
    _require(f, n > 0 and lengths == {n}, f"the lists nodes_* have {sorted(lengths | {n})} elements")
    optional = {len(nodes.hitrates), len(nodes.missing_value_tracks_true)}
    _require(
        f, optional <= {0, n}, f"nodes_hitrates and tracks have {sorted(optional)} elements for {n} nodes"
    )
    given = {len(w.treeids), len(w.nodeids), len(w.ids), len(w.weights)}
    _require(f, len(given) == 1, f"the lists of weights have {sorted(given)} elements")
    names = list(zip(nodes.treeids, nodes.nodeids, strict=True))
    code = _codes(f, names, nodes.modes)

    def child(of: int, ids: Ints) -> int:
        found = code.get((nodes.treeids[of], ids[of]))
        _require(
            f,
            found is not None,
            f"node {names[of][1]} of tree {names[of][0]} leads to {ids[of]}, which is none",
        )
        assert found is not None
        return found

    tracks = nodes.missing_value_tracks_true or (0,) * n
    hits = nodes.hitrates if len(nodes.hitrates) else np.zeros(n)
    splits = [
        Split(
            nodes.featureids[i],
            Mode[nodes.modes[i]],
            (float(nodes.values[i]),),
            child(i, nodes.truenodeids),
            child(i, nodes.falsenodeids),
            tracks[i] == 1,
            float(hits[i]),
        )
        for i in range(n)
        if nodes.modes[i] != "LEAF"
    ]
    roots = {tree: code[tree, node] for tree, node in reversed(names)}
    at = []
    for tree, node in zip(w.treeids, w.nodeids, strict=True):
        _require(f, (tree, node) in code, f"a weight is for node {node} of tree {tree}, which is none")
        at.append(~code[tree, node])
    _require(
        f, all(0 <= i < targets for i in w.ids), f"a weight is for a target beyond the {targets} there are"
    )
    leaf = np.array(at, np.int64).reshape(-1)
    kept = leaf >= 0  # weights of inner nodes never count
    trees = tuple(dict.fromkeys(nodes.treeids))
    target = np.array(w.ids, np.int64)[kept]
    order = {tree: i for i, tree in enumerate(trees)}
    owner = [order[t] for t, mode in zip(nodes.treeids, nodes.modes, strict=True) if mode == "LEAF"]
    return Trees(
        splits,
        [roots[t] for t in trees],
        len(owner),
        leaf[kept],
        target,
        w.weights[kept],
        np.array(owner, np.int64),
    )


def _codes(f: Builder, names: list[tuple[int, int]], modes: Strings) -> dict[tuple[int, int], int]:
    """What stands for each node: its number among those that compare, or ~ its number among the leaves."""
    code: dict[tuple[int, int], int] = {}
    leaves = 0
    for (tree, node), mode in zip(names, modes, strict=True):
        _require(
            f, mode in Mode.__members__ and mode != "BRANCH_MEMBER", f"the node mode {mode!r} is unknown"
        )
        _require(f, (tree, node) not in code, f"node {node} of tree {tree} is given twice")
        code[tree, node] = ~leaves if mode == "LEAF" else len(code) - leaves
        leaves += mode == "LEAF"
    return code


# -- inputs and scores


def _features(f: Builder, x: Tensor) -> int:
    f.require(isinstance(x.shape[1], int), "the number of features must be static")
    assert isinstance(x.shape[1], int)
    return x.shape[1]


def _planted(f: Builder, trees: Trees, x: Tensor) -> Forest:
    try:
        return plant(trees, _features(f, x), x.type.compute)
    except ModelError as error:
        raise ModelError(f"{f.node.label}: {error}") from None


def _regression(
    f: Builder, x: Tensor, trees: Trees, targets: int, aggregate: str, base: Array, transform: str, to: DType
) -> Tensor:
    """Leaf weights of each target together, the base values, the transform.

    A single score knows no transform but PROBIT; a target that got nothing is 0 before its base value
    (which onnxruntime then forgets, and the standard does not).
    """
    _require(f, aggregate in AGGREGATES, f"aggregate_function {aggregate!r} is unknown")
    _require(f, len(base) in (0, targets), f"{len(base)} base values for {targets} targets")
    forest = _planted(f, trees, x)
    how, dtype = AGGREGATES[aggregate], x.type.compute
    total = scores(f, forest, x, targets, "sum" if how == "average" else how, dtype)
    axes = n, c = f.axes(total.shape, "n c")
    y: Expr = total[n, c]
    if how == "average":
        y = y / Const(float(len(trees.roots)), dtype)
    elif how != "sum":
        y = select(call("isnan", y), 0.0, y)
    if len(base):
        y = y + f.constant(base.astype(dtype.numpy), "base")[c]
    if targets == 1:
        return f.map(axes, cast(probit(y) if transform == "PROBIT" else y, to.compute), to)
    finished = transformed(f, f.map(axes, y, dtype, "total"), transform)
    return finished if finished.type is to else f.map(axes, cast(finished[axes], to.compute), to)


@op("TreeEnsembleRegressor", domain="ai.onnx.ml")
def tree_ensemble_regressor(
    f: Builder,
    x: Tensor,
    *,
    aggregate_function: str = "SUM",
    base_values: Floats = (),
    base_values_as_tensor: Array | None = None,
    n_targets: int = 1,
    nodes_falsenodeids: Ints = (),
    nodes_featureids: Ints = (),
    nodes_hitrates: Floats = (),
    nodes_hitrates_as_tensor: Array | None = None,
    nodes_missing_value_tracks_true: Ints = (),
    nodes_modes: Strings = (),
    nodes_nodeids: Ints = (),
    nodes_treeids: Ints = (),
    nodes_truenodeids: Ints = (),
    nodes_values: Floats = (),
    nodes_values_as_tensor: Array | None = None,
    post_transform: str = "NONE",
    target_ids: Ints = (),
    target_nodeids: Ints = (),
    target_treeids: Ints = (),
    target_weights: Floats = (),
    target_weights_as_tensor: Array | None = None,
) -> Tensor:
    """Y [N, n_targets]: what the leaves of all trees give, together (TreeEnsembleRegressor-1, -3).

    Sums are made in float32, of float64 inputs in float64. Raises ModelError for trees that are none.
    """
    nodes = Nodes(
        nodes_treeids,
        nodes_nodeids,
        nodes_featureids,
        numbers(f, "nodes_values", nodes_values, nodes_values_as_tensor),
        nodes_modes,
        nodes_truenodeids,
        nodes_falsenodeids,
        numbers(f, "nodes_hitrates", nodes_hitrates, nodes_hitrates_as_tensor),
        nodes_missing_value_tracks_true,
    )
    weight = numbers(f, "target_weights", target_weights, target_weights_as_tensor)
    weights = Weights(target_treeids, target_nodeids, target_ids, weight)
    _require(f, 0 < n_targets < 1 << 31, f"n_targets is {n_targets}")
    trees = _listed(f, nodes, weights, n_targets)
    base = numbers(f, "base_values", base_values, base_values_as_tensor)
    how = transform_of(f, post_transform)
    return _regression(f, rows_of(f, x), trees, n_targets, aggregate_function, base, how, FLOAT32)


@op("TreeEnsembleClassifier", domain="ai.onnx.ml")
def tree_ensemble_classifier(
    f: Builder,
    x: Tensor,
    *,
    base_values: Floats = (),
    base_values_as_tensor: Array | None = None,
    class_ids: Ints = (),
    class_nodeids: Ints = (),
    class_treeids: Ints = (),
    class_weights: Floats = (),
    class_weights_as_tensor: Array | None = None,
    classlabels_int64s: Ints = (),
    classlabels_strings: Strings = (),
    nodes_falsenodeids: Ints = (),
    nodes_featureids: Ints = (),
    nodes_hitrates: Floats = (),
    nodes_hitrates_as_tensor: Array | None = None,
    nodes_missing_value_tracks_true: Ints = (),
    nodes_modes: Strings = (),
    nodes_nodeids: Ints = (),
    nodes_treeids: Ints = (),
    nodes_truenodeids: Ints = (),
    nodes_values: Floats = (),
    nodes_values_as_tensor: Array | None = None,
    post_transform: str = "NONE",
) -> tuple[Tensor, Tensor]:
    """Y [N]: the label of the top class; Z [N, C]: the scores (TreeEnsembleClassifier-1, -3).

    Raises ModelError for trees that are none.
    """
    nodes = Nodes(
        nodes_treeids,
        nodes_nodeids,
        nodes_featureids,
        numbers(f, "nodes_values", nodes_values, nodes_values_as_tensor),
        nodes_modes,
        nodes_truenodeids,
        nodes_falsenodeids,
        numbers(f, "nodes_hitrates", nodes_hitrates, nodes_hitrates_as_tensor),
        nodes_missing_value_tracks_true,
    )
    weight = numbers(f, "class_weights", class_weights, class_weights_as_tensor)
    weights = Weights(class_treeids, class_nodeids, class_ids, weight)
    labels = label_table(f, classlabels_int64s, classlabels_strings)
    x = rows_of(f, x)
    trees = _listed(f, nodes, weights, labels.count)
    base = numbers(f, "base_values", base_values, base_values_as_tensor)
    how = transform_of(f, post_transform)
    if labels.count == 1:
        return _one_class(f, x, trees, base, how, labels)
    if labels.count == 2 and len(set(class_ids)) == 1:
        return _two_classes(f, x, trees, base, how, labels)
    return _many_classes(f, x, trees, base, how, labels)


# -- classes


def _based(f: Builder, total: Tensor, base: Array) -> Tensor:
    n, c = axes = f.axes(total.shape, "n c")
    if not len(base):
        return total
    return f.map(axes, total[n, c] + f.constant(base.astype(total.type.numpy), "base")[c], name="based")


def _narrowed(f: Builder, t: Tensor) -> Tensor:
    """Scores are float32, however they were summed."""
    axes = f.axes(t.shape, "n c")
    return t if t.type is FLOAT32 else f.map(axes, cast(t[axes], FLOAT32), FLOAT32, "scores")


def _many_classes(
    f: Builder, x: Tensor, trees: Trees, base: Array, how: str, labels: Tensor
) -> tuple[Tensor, Tensor]:
    _require(f, len(base) in (0, labels.count), f"{len(base)} base values for {labels.count} classes")
    forest = _planted(f, trees, x)
    seen = None  # of two classes the larger score counts, given or not: so say both oracles
    if labels.count > 2 and not len(base) and not _always_given(trees, labels.count):
        seen = f.empty(BOOL, (x.shape[0], labels.count), "seen")
    total = _based(f, scores(f, forest, x, labels.count, "sum", x.type.compute, seen), base)
    return labelled(f, top(f, total, seen), labels), _narrowed(f, transformed(f, total, how))


def _always_given(trees: Trees, targets: int) -> bool:
    """Whether every target has a tree all of whose leaves give it something."""
    leaf, target = np.unique(np.stack([trees.leaf, trees.target]), axis=1)
    pairs, found = np.unique(trees.owner[leaf] * targets + target, return_counts=True)
    whole = found == np.bincount(trees.owner)[pairs // targets]
    return len(np.unique(pairs[whole] % targets)) == targets


def _one_class(
    f: Builder, x: Tensor, trees: Trees, base: Array, how: str, labels: Tensor
) -> tuple[Tensor, Tensor]:
    """onnxruntime's: the label is 1 where the score is positive, else 0; no transform but PROBIT."""
    _require(f, len(base) in (0, 1), f"{len(base)} base values for one class")
    total = _based(f, scores(f, _planted(f, trees, x), x, 1, "sum", x.type.compute), base)
    axes = f.axes(total.shape, "n c")
    n, s = axes[0], total[axes]
    y = f.map(axes, cast(probit(s) if how == "PROBIT" else s, FLOAT32), FLOAT32, "scores")
    label = labels[0] if labels.type.is_text else cast(total[n, 0] > 0, labels.type)
    return f.map((n,), label, labels.type, "label"), y


def _two_classes(
    f: Builder, x: Tensor, trees: Trees, base: Array, how: str, labels: Tensor
) -> tuple[Tensor, Tensor]:
    """Two classes, and all weights s for one of them. The standard is silent, onnxruntime does this:

    The second label is chosen where s > 0, or > 0.5 if no weight is negative. Weights of the first class
    stand for a pair of scores: (1 - s, s) if no weight is negative, else (-s, s); LOGISTIC takes (-s, s) too,
    other transforms change nothing (of PROBIT, whose second score it leaves open, the pair is (-p, p)).
    Weights of the second class are the scores (0, s), transformed as others are; one base value is not
    theirs. With two base values the scores are (s, 0) and (0, s).
    """
    _require(f, len(base) in (0, 1, 2), f"{len(base)} base values for 2 classes")
    which = int(trees.target[0]) if len(trees.target) else 0
    least = 0.5 if bool(np.all(trees.weight >= 0)) else 0.0
    alone = replace(trees, target=np.zeros_like(trees.target))
    total = scores(f, _planted(f, alone, x), x, 1, "sum", x.type.compute)
    (n,) = f.axes(total.shape[:1], "n")
    added = base[which] if len(base) == 2 else base[0] if len(base) == 1 and which == 0 else 0.0
    s = total[n, 0] + float(added)
    label = pick(f, s > least, (n,), labels)
    if which == 0 and len(base) < 2:
        return label, _narrowed(f, pair(f, n, s, how, (1 - s if least else -s, s)))
    other = Const(0.0, total.type)
    return label, _narrowed(f, transformed(f, beside(f, n, *((s, other) if which == 0 else (other, s))), how))


# -- TreeEnsemble-5


@op("TreeEnsemble", since=5, domain="ai.onnx.ml")
def tree_ensemble(
    f: Builder,
    x: Tensor,
    *,
    aggregate_function: int = 1,
    leaf_targetids: Ints,
    leaf_weights: Array,
    membership_values: Array | None = None,
    n_targets: int = 1,
    nodes_falseleafs: Ints,
    nodes_falsenodeids: Ints,
    nodes_featureids: Ints,
    nodes_hitrates: Array | None = None,
    nodes_missing_value_tracks_true: Ints = (),
    nodes_modes: Array,
    nodes_splits: Array,
    nodes_trueleafs: Ints,
    nodes_truenodeids: Ints,
    post_transform: int = 0,
    tree_roots: Ints,
) -> Tensor:
    """Y [N, n_targets], of the type of X: what the leaves of all trees give, together (TreeEnsemble-5).

    float16 is summed in float32. Raises ModelError for trees that are none.
    """
    f.same_type((x,), "f")
    n, leaves = len(nodes_featureids), len(leaf_targetids)
    lists = (
        nodes_falseleafs,
        nodes_falsenodeids,
        nodes_modes,
        nodes_splits,
        nodes_trueleafs,
        nodes_truenodeids,
    )
    lengths = {len(v) for v in lists}
    optional = {len(nodes_missing_value_tracks_true), 0 if nodes_hitrates is None else len(nodes_hitrates)}
    _require(
        f, lengths == {n} and optional <= {0, n}, f"the lists nodes_* have {sorted(lengths | {n})} elements"
    )
    _require(f, len(leaf_weights) == leaves, f"{len(leaf_weights)} weights for {leaves} leaves")
    _require(f, 0 < n_targets < 1 << 31, f"n_targets is {n_targets}")
    _require(
        f,
        all(0 <= t < n_targets for t in leaf_targetids),
        f"a leaf has a target beyond the {n_targets} there are",
    )
    _require(f, len(tree_roots) > 0 and all(0 <= r < n for r in tree_roots), "a root is not one of the nodes")

    def child(i: int, is_leaf: int, to: int) -> int:
        _require(f, 0 <= to < (leaves if is_leaf else n), f"node {i} leads to {to}, which is none")
        return ~to if is_leaf else to

    sets = iter(_members(membership_values))
    splits = []
    for i, mode in enumerate(np.asarray(nodes_modes).tolist()):
        _require(
            f, mode in Mode.__members__.values() and mode != Mode.LEAF, f"the node mode {mode} is unknown"
        )
        values = next(sets, None) if mode == Mode.BRANCH_MEMBER else (float(nodes_splits[i]),)
        _require(f, values is not None, f"node {i} tests for members of a set that is not given")
        assert values is not None
        true = child(i, nodes_trueleafs[i], nodes_truenodeids[i])
        false = child(i, nodes_falseleafs[i], nodes_falsenodeids[i])
        tracks = bool(nodes_missing_value_tracks_true) and nodes_missing_value_tracks_true[i] == 1
        hits = 0.0 if nodes_hitrates is None else float(nodes_hitrates[i])
        splits.append(Split(nodes_featureids[i], Mode(mode), values, true, false, tracks, hits))
    target = np.array(leaf_targetids, np.int64)
    weight = np.asarray(leaf_weights, np.float64)
    trees = Trees(splits, list(tree_roots), leaves, np.arange(leaves), target, weight)
    _require(f, 0 <= aggregate_function < 4, f"aggregate_function {aggregate_function} is unknown")
    how = transform_of(f, post_transform)
    aggregate = tuple(AGGREGATES)[aggregate_function]
    return _regression(f, rows_of(f, x), trees, n_targets, aggregate, np.zeros(0), how, x.type)


def _members(values: Array | None) -> Iterator[tuple[float, ...]]:
    """The sets that NaNs end, in the order of the nodes that test for them."""
    members: list[float] = []
    for v in () if values is None else np.asarray(values, np.float64).reshape(-1).tolist():
        if v == v:
            members.append(v)
        else:
            yield tuple(members)
            members = []
