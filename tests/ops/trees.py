"""Rows of the tree ensembles: seeded random trees, every mode, aggregate, transform and kind of classes."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, helper

from tests.ops.rows import Array, Row, integers

ML = "ai.onnx.ml"
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
POSTS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
THRESHOLDS = np.array([-1.0, -0.5, 0.0, 0.25, 0.5, 1.0], np.float32)


def grow(
    seed: int,
    trees: int = 3,
    depth: int = 4,
    features: int = 3,
    modes: tuple[str, ...] = MODES[:1],
    missing: bool = False,
) -> tuple[dict[str, Any], list[tuple[int, int]]]:
    """nodes_* attributes of random trees, and their leaves as (tree, node)."""
    rng = np.random.default_rng(seed)
    nodes: list[dict[str, Any]] = []
    leaves: list[tuple[int, int]] = []

    def node(tree: int, left: int) -> int:
        at = len(nodes)
        here: dict[str, Any] = {"treeids": tree, "nodeids": at - first, "hitrates": float(rng.random())}
        here |= {"featureids": int(rng.integers(features)), "values": float(rng.choice(THRESHOLDS))}
        here |= {"missing_value_tracks_true": int(rng.integers(2)), "truenodeids": 0, "falsenodeids": 0}
        is_leaf = left == 0 or (left < depth and rng.random() < 0.2)
        here["modes"] = "LEAF" if is_leaf else str(rng.choice(modes))
        nodes.append(here)
        if here["modes"] == "LEAF":
            leaves.append((tree, here["nodeids"]))
        else:
            here["truenodeids"] = node(tree, left - 1) - first
            here["falsenodeids"] = node(tree, left - 1) - first
        return at

    for tree in range(trees):
        first = len(nodes)
        node(tree, depth)
    kept = [k for k in nodes[0] if missing or k != "missing_value_tracks_true"]
    return {f"nodes_{k}": [n[k] for n in nodes] for k in kept}, leaves


def weighted(
    seed: int, prefix: str, leaves: list[tuple[int, int]], targets: int, each: int, lo: float = -1.0
) -> dict[str, Any]:
    """`each` weights from lo to 1 for different targets of every leaf (0: for one target, tree by tree)."""
    rng = np.random.default_rng(seed)
    out: dict[str, Any] = {f"{prefix}_{k}": [] for k in ("treeids", "nodeids", "ids", "weights")}
    for tree, node in leaves:
        chosen = sorted(rng.permutation(targets)[:each].tolist()) if each else [tree % targets]
        for target in chosen:
            row = zip(out, (tree, node, target, float(np.float32(rng.uniform(lo, 1)))), strict=True)
            for key, value in row:
                out[key].append(value)
    return out


def samples(n: int = 9, features: int = 3, seed: int = 0, dtype: Any = np.float32) -> Array:
    """Values among which the thresholds are."""
    rng = np.random.default_rng(seed)
    near = rng.choice(THRESHOLDS, (n, features))
    return np.where(rng.random((n, features)) < 0.5, near, near + rng.standard_normal((n, features))).astype(
        dtype
    )


def regressor(
    x: Array,
    seed: int = 1,
    targets: int = 1,
    each: int = 1,
    trees: dict[str, Any] | None = None,
    **more: Any,
) -> Row:
    nodes, leaves = grow(seed, **(trees or {}))
    weights = weighted(seed, "target", leaves, targets, each)
    attributes = {**more, "n_targets": targets, **nodes, **weights}
    note = f"{x.dtype}_{seed}_{targets}_{each}_{'_'.join(map(str, more.values()))}"
    return Row("TreeEnsembleRegressor", [x], attributes, opset=3, domain=ML, note=note)


def classifier(
    x: Array,
    seed: int = 1,
    classes: int = 3,
    each: int = 1,
    lo: float = -1.0,
    only: int | None = None,
    trees: dict[str, Any] | None = None,
    text: bool = False,
    **more: Any,
) -> Row:
    """`only`: all weights are for this class. `text`: labels are strings."""
    nodes, leaves = grow(seed, **(trees or {}))
    weights = weighted(seed, "class", leaves, classes, each, lo)
    if only is not None:
        weights["class_ids"] = [only] * len(weights["class_ids"])
    names = [c * "Größe" + str(c) for c in range(classes)]
    labels = (
        {"classlabels_strings": names}
        if text
        else {"classlabels_int64s": [7 * c - 5 for c in range(classes)]}
    )
    attributes = {**labels, **more, **nodes, **weights}
    note = f"{x.dtype}_{seed}_{classes}_{each}_{lo}_{only}_{text}_{'_'.join(map(str, more.values()))}"
    return Row("TreeEnsembleClassifier", [x], attributes, outputs=2, opset=3, domain=ML, note=note)


X = samples()
STRANGE = np.array([[np.nan, 0, 1], [np.inf, -np.inf, np.nan], [-0.0, 1e-40, np.nan], [0.5, np.nan, -np.inf]])
ODD = STRANGE.astype(np.float32)
MIXED = {"modes": MODES, "depth": 5, "trees": 11}

REGRESSORS = [
    *(regressor(X, i, trees={"modes": (mode,)}) for i, mode in enumerate(MODES)),
    *(regressor(ODD, i, trees={"modes": (mode,)}) for i, mode in enumerate(MODES)),
    *(regressor(ODD, i, trees={"modes": (mode,), "missing": True}) for i, mode in enumerate(MODES)),
    *(regressor(X, seed, trees=MIXED) for seed in range(3)),
    *(regressor(ODD, seed, trees={**MIXED, "missing": True}) for seed in range(3)),
    *(regressor(X, 4, 3, 2, aggregate_function=a, trees=MIXED) for a in ("SUM", "AVERAGE", "MIN", "MAX")),
    *(regressor(X, 5, 1, 1, aggregate_function=a, base_values=[0.5]) for a in ("AVERAGE", "MIN", "MAX")),
    *(regressor(X, 6, 3, 3, post_transform=p, base_values=[0.25, -1.0, 2.0]) for p in POSTS[:4]),
    *(regressor(X, 7, post_transform=p) for p in POSTS[:4]),
    regressor(X, 8, 4, 0, trees={"trees": 9}),
    regressor(X[:1], 9, trees={"trees": 17}),
    regressor(X[:0], 9),
    regressor(X, 10, trees={"depth": 0}),
    regressor(X.astype(np.float64), 11, 2, 2, trees=MIXED),
    regressor(X, 13, trees={"depth": 9, "trees": 40, "features": 3}),
]


def doubles(row: Row) -> Row:
    """The row with its lists of floats as tensors of doubles."""
    attributes = {}
    for k, v in row.attributes.items():
        is_listed = isinstance(v, list) and v and isinstance(v[0], float) and k != "nodes_hitrates"
        tensor = helper.make_tensor(k, TensorProto.DOUBLE, [len(v)], v) if is_listed else None
        attributes[k if tensor is None else f"{k}_as_tensor"] = v if tensor is None else tensor
    attributes.pop("nodes_hitrates", None)
    return Row(
        row.op, row.inputs, attributes, outputs=row.outputs, opset=3, domain=ML, note=row.note + "_doubles"
    )


TWO = {"trees": 3, "depth": 3}
CLASSIFIERS = [
    *(classifier(X, 1, 3, 3, post_transform=p) for p in POSTS[:4]),
    classifier(X, 2, 5, 5, 0.0, trees=MIXED),
    classifier(X, 3, 4, 0, trees={"trees": 8}, base_values=[0.1, -0.5, 0.25, 1.0]),
    classifier(X, 4, 4, 0, trees={"trees": 8}),
    classifier(X, 5, 5, 1, -1.0),
    classifier(X, 5, 5, 1, -1.0, trees={"trees": 1, "depth": 2}),
    classifier(X[:1], 6, 3, 3),
    classifier(ODD, 7, 3, 2, trees={**MIXED, "missing": True}),
    classifier(X.astype(np.float64), 8, 3, 3, trees=MIXED),
    classifier(integers(5, 3, dtype=np.int64, low=-3, high=3), 9, 3, 3, trees=MIXED),
    *(
        classifier(X, 10, 2, 1, lo, 0, trees=TWO, post_transform=p, **base)
        for lo in (-1.0, 0.0)
        for p in POSTS[:4]
        for base in ({}, {"base_values": [0.125]}, {"base_values": [0.25, -0.5]})
    ),
    *(classifier(X, 11, 2, 1, lo, 1, trees=TWO, post_transform=p) for lo in (-1.0, 0.0) for p in POSTS[:4]),
    classifier(X, 11, 2, 1, -1.0, 1, trees=TWO, base_values=[0.125]),
    classifier(X, 13, 4, 4, text=True),
    classifier(X, 13, 2, 1, -1.0, 0, text=True, trees=TWO),
    *(
        classifier(X, 12, 1, 1, -1.0, 0, post_transform=p, **b)
        for p in POSTS[:2]
        for b in ({}, {"base_values": [0.5]})
    ),
]


def ensemble(
    x: Array, seed: int, targets: int = 2, modes: tuple[str, ...] = MODES, member: bool = False, **more: Any
) -> Row:
    """TreeEnsemble-5 of the same kind of trees; with `member`, EQ tests for members of sets instead."""
    nodes, leaves = grow(seed, **{"trees": 5, "depth": 4, "modes": modes, **more.pop("trees", {})})
    rng = np.random.default_rng(seed)
    inner = [i for i, mode in enumerate(nodes["nodes_modes"]) if mode != "LEAF"]
    names = list(zip(nodes["nodes_treeids"], nodes["nodes_nodeids"], strict=True))
    number = {names[i]: k for k, i in enumerate(inner)} | {name: k for k, name in enumerate(leaves)}
    codes = {m: 6 if member and m == "BRANCH_EQ" else k for k, m in enumerate(MODES)}
    modes_ = np.array([codes[nodes["nodes_modes"][i]] for i in inner], np.uint8)
    values = np.array([nodes["nodes_values"][i] for i in inner])
    a: dict[str, Any] = {"n_targets": targets, **more, "nodes_featureids": []}
    for side in ("true", "false"):
        to = [(names[i][0], nodes[f"nodes_{side}nodeids"][i]) for i in inner]
        a[f"nodes_{side}nodeids"] = [number[t] for t in to]
        a[f"nodes_{side}leafs"] = [int(t in leaves) for t in to]
    a["nodes_featureids"] = [nodes["nodes_featureids"][i] for i in inner]
    if "nodes_missing_value_tracks_true" in nodes:
        a["nodes_missing_value_tracks_true"] = [nodes["nodes_missing_value_tracks_true"][i] for i in inner]
    a["tree_roots"] = [next(k for k, i in enumerate(inner) if names[i][0] == t) for t in range(5)]
    a["leaf_targetids"] = rng.integers(0, targets, len(leaves)).tolist()
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    if member:
        sets = [
            [*rng.choice(THRESHOLDS[THRESHOLDS != 0], rng.integers(1, 6)), np.nan] for m in modes_ if m == 6
        ]
        flat = np.concatenate(sets)
        a["membership_values"] = helper.make_tensor("m", kind, flat.shape, flat.astype(x.dtype))
    a["nodes_modes"] = helper.make_tensor("modes", TensorProto.UINT8, modes_.shape, modes_)
    a["nodes_splits"] = helper.make_tensor("splits", kind, values.shape, values.astype(x.dtype))
    weight = rng.uniform(-1, 1, len(leaves)).astype(x.dtype)
    a["leaf_weights"] = helper.make_tensor("weights", kind, weight.shape, weight)
    oracle = "reference" if x.dtype == np.float16 or member else "ort"
    exact = 3e-3 if x.dtype == np.float16 else 1e-5
    note = f"{x.dtype}_{seed}_{member}_{'_'.join(map(str, more.values()))}"
    return Row("TreeEnsemble", [x], a, opset=5, domain=ML, oracle=oracle, note=note, tolerance=exact)


ENSEMBLES = [
    *(ensemble(X, seed) for seed in (20, 22, 23)),
    ensemble(X.astype(np.float64), 20),
    ensemble(X.astype(np.float16), 20),
    ensemble(ODD, 22, trees={"missing": True}),
    *(ensemble(X, seed, 3, ("BRANCH_EQ", "BRANCH_LEQ"), member=True) for seed in (20, 22)),
    ensemble(ODD, 22, 3, ("BRANCH_EQ", "BRANCH_LEQ"), member=True, trees={"missing": True}),
    *(ensemble(X, 22, 1, aggregate_function=k) for k in range(4)),
    *(ensemble(X, 22, 3, aggregate_function=k) for k in (0, 2, 3)),
    ensemble(X, 22, 3, post_transform=3),
]

ROWS = [
    *ENSEMBLES,
    *REGRESSORS,
    *CLASSIFIERS,
    doubles(regressor(X.astype(np.float64), 14, 2, 2, base_values=[0.1, 0.7], trees=MIXED)),
    doubles(classifier(X.astype(np.float64), 15, 3, 3, trees=MIXED)),
]
