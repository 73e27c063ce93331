"""Tree ensembles beyond the rows: what no oracle does, hostile attributes, and the shape of the C."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import ingot
from ingot.check.oracle import oracle
from ingot.errors import InputError
from tests.ops.rows import Array, Row, feeds, floats, integers, model
from tests.ops.trees import MIXED, X, classifier, ensemble, grow, regressor


def run(row: Row) -> list[Array]:
    return list(ingot.compile(model(row), name="trees", target="c99").run(feeds(row)).values())


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_integers_are_compared_as_floats(dtype: Any) -> None:
    x = integers(6, 3, dtype=dtype, low=-3, high=3)
    whole, real = regressor(x, 12, trees=MIXED), regressor(x.astype(np.float32), 12, trees=MIXED)
    assert np.array_equal(run(whole)[0], run(real)[0])


def test_transforms_by_number() -> None:
    """TreeEnsemble-5 counts SOFTMAX as 1 and LOGISTIC as 2; onnxruntime has them the other way round."""
    plain, soft, logistic = (run(ensemble(X, 22, 3, post_transform=k))[0] for k in range(3))
    e = np.exp(plain)
    np.testing.assert_allclose(soft, e / e.sum(1, keepdims=True), rtol=1e-5)
    np.testing.assert_allclose(logistic, 1 / (1 + 1 / e), rtol=1e-5)


def test_two_classes_with_weights_for_both() -> None:
    """The label is that of the larger score, as for more classes."""
    label, scores = run(classifier(X, 3, 2, 2, 0.0))
    assert np.array_equal(label, np.array([-5, 2])[scores.argmax(1)])


def test_of_two_classes_one_may_get_nothing() -> None:
    """Its score is 0, which is more than what the other gets here."""
    attributes: dict[str, Any] = {
        "nodes_treeids": [0, 1, 1, 1],
        "nodes_nodeids": [0, 0, 1, 2],
        "nodes_featureids": [0, 0, 0, 0],
        "nodes_modes": ["LEAF", "BRANCH_LT", "LEAF", "LEAF"],
        "nodes_values": [0.0, 0.0, 0.0, 0.0],
        "nodes_truenodeids": [0, 1, 0, 0],
        "nodes_falsenodeids": [0, 2, 0, 0],
        "class_treeids": [0, 1],
        "class_nodeids": [0, 1],
        "class_ids": [1, 0],
        "class_weights": [-2.0, 0.5],
        "classlabels_int64s": [7, 9],
    }
    x = np.array([[-1.0], [1.0]], np.float32)
    label, scores = run(
        Row("TreeEnsembleClassifier", [x], attributes, outputs=2, opset=3, domain="ai.onnx.ml")
    )
    assert scores.tolist() == [[0.5, -2.0], [0.0, -2.0]] and label.tolist() == [7, 7]


def test_base_values_of_targets_that_get_nothing() -> None:
    """They are added, as the standard says; onnxruntime has 0 there."""
    row = regressor(X, 8, 4, 0, trees={"trees": 2}, base_values=[1.0, 2.0, 3.0, 4.0])
    plain = regressor(X, 8, 4, 0, trees={"trees": 2})
    np.testing.assert_allclose(run(row)[0], run(plain)[0] + [1, 2, 3, 4], rtol=1e-6)
    assert run(row)[0][:, 2:].tolist() == [[3.0, 4.0]] * len(X)


def chain(n: int) -> Row:
    """One node below another, n times."""
    nodes = {"nodeids": range(n + 1), "treeids": [0] * (n + 1), "featureids": [0] * (n + 1)}
    nodes |= {"truenodeids": [n] * (n + 1), "falsenodeids": [*range(1, n + 1), 0]}
    nodes |= {"values": [float(-k) for k in range(n + 1)], "modes": ["BRANCH_GT"] * n + ["LEAF"]}
    attributes = {f"nodes_{k}": list(v) for k, v in nodes.items()}
    weights = {"target_treeids": [0], "target_nodeids": [n], "target_ids": [0], "target_weights": [2.5]}
    weights["n_targets"] = 1
    return Row("TreeEnsembleRegressor", [floats(2, 1)], attributes | weights, opset=3, domain="ai.onnx.ml")


def test_a_deep_tree_does_not_recurse() -> None:
    assert run(chain(5000))[0].tolist() == [[2.5], [2.5]]


def test_an_oracle_that_crashes_is_not_the_oracle() -> None:
    """onnxruntime recurses into trees as it opens a model, until its stack ends."""
    found = oracle(model(chain(100_000)))
    assert found.name == "reference" and "it crashes" in found.reason


def first(values: list[Any], new: Any) -> list[Any]:
    return [new, *values[1:]]


def cycle(a: dict[str, Any]) -> None:
    """A leaf becomes a node that leads back to the root."""
    at = a["nodes_modes"].index("LEAF")
    a["nodes_modes"][at] = "BRANCH_LEQ"
    a["nodes_truenodeids"][at] = a["nodes_falsenodeids"][at] = 0


HOSTILE: list[tuple[Any, str]] = [
    (lambda a: a.update(nodes_truenodeids=first(a["nodes_truenodeids"], 1 << 40)), "leads to 1099511627776"),
    (lambda a: a.update(nodes_falsenodeids=first(a["nodes_falsenodeids"], -1)), "leads to -1, which is none"),
    (lambda a: a.update(nodes_truenodeids=first(a["nodes_truenodeids"], 0)), "form a cycle"),
    (cycle, "form a cycle"),
    (lambda a: a.update(nodes_values=first(a["nodes_values"], float("nan"))), "compares with NaN"),
    (lambda a: a.update(nodes_featureids=first(a["nodes_featureids"], 3)), "feature 3 of 3"),
    (lambda a: a.update(nodes_featureids=first(a["nodes_featureids"], -1)), "feature -1 of 3"),
    (lambda a: a.update(nodes_modes=first(a["nodes_modes"], "BRANCH")), "node mode 'BRANCH' is unknown"),
    (lambda a: a.update(nodes_modes=a["nodes_modes"][1:]), "the lists nodes_* have"),
    (lambda a: a.update(nodes_hitrates=[1.0]), "nodes_hitrates and tracks have"),
    (lambda a: a.update(nodes_nodeids=first(a["nodes_nodeids"], 1)), "is given twice"),
    (lambda a: a.update(target_nodeids=first(a["target_nodeids"], 99)), "a weight is for node 99"),
    (lambda a: a.update(target_ids=first(a["target_ids"], 2)), "beyond the 2 there are"),
    (lambda a: a.update(target_weights=[1.0]), "the lists of weights have"),
    (lambda a: a.update(base_values=[1.0]), "1 base values for 2 targets"),
    (lambda a: a.update(aggregate_function="MEDIAN"), "aggregate_function 'MEDIAN' is unknown"),
    (lambda a: a.update(post_transform="EXP"), "post_transform 'EXP' is not one of"),
    (lambda a: a.update(n_targets=1 << 62), "n_targets is"),
    (lambda a: a.update(nodes_featureids=3), "is of type INT, INTS is needed"),
]


@pytest.mark.parametrize(("spoil", "message"), HOSTILE, ids=[m for _, m in HOSTILE])
def test_hostile_attributes(spoil: Any, message: str) -> None:
    row = regressor(X, 1, 2, 2)
    attributes = {k: list(v) if isinstance(v, list) else v for k, v in row.attributes.items()}
    spoil(attributes)
    proto = onnx.ModelProto()
    proto.CopyFrom(model(regressor(X, 1, 2, 2)))
    node = proto.graph.node[0]
    del node.attribute[:]
    node.attribute.extend(helper.make_attribute(k, v) for k, v in attributes.items())
    with pytest.raises(InputError) as caught:
        ingot.compile(proto)
    assert message in str(caught.value) and "TreeEnsembleRegressor node" in str(caught.value)


ENSEMBLE: list[tuple[str, Any, str]] = [
    ("nodes_trueleafs", None, "is missing"),
    ("tree_roots", [99], "a root is not one of the nodes"),
    ("tree_roots", [], "a root is not one of the nodes"),
    ("leaf_targetids", [0], "weights for 1 leaves"),
    ("nodes_modes", np.full(3, 9, np.uint8), "the lists nodes_* have"),
    ("post_transform", 7, "post_transform 7 is not one of"),
    ("aggregate_function", -1, "aggregate_function -1 is unknown"),
]


@pytest.mark.parametrize(("name", "value", "message"), ENSEMBLE, ids=[f"{n}_{m}" for n, _, m in ENSEMBLE])
def test_hostile_ensemble(name: str, value: Any, message: str) -> None:
    row = ensemble(X, 22)
    attributes = {k: v for k, v in row.attributes.items() if k != name}
    if value is not None:
        is_array = isinstance(value, np.ndarray)
        attributes[name] = onnx.numpy_helper.from_array(value) if is_array else value
    try:
        proto = model(replace(row, attributes=attributes))
    except (TypeError, ValueError):
        attributes[name] = helper.make_attribute(name, value, attr_type=onnx.AttributeProto.INTS)
        proto = model(row)
        del proto.graph.node[0].attribute[:]
        rest = (helper.make_attribute(k, v) for k, v in attributes.items() if k != name)
        proto.graph.node[0].attribute.extend([*rest, attributes[name]])
    with pytest.raises(InputError) as caught:
        ingot.compile(proto)
    assert message in str(caught.value) and "TreeEnsemble node" in str(caught.value)


def test_the_walk_is_small() -> None:
    """A step of a tree is one line of C: no check, no clamp, and it ends when all are at leaves."""
    nodes, _ = grow(1, trees=16)
    assert len(set(nodes["nodes_treeids"])) == 16
    source = ingot.compile(model(regressor(X, 1, trees={"trees": 16})), name="walk").files["walk.c"].decode()
    assert (
        "if (active[0])" in source and "imin(" not in source.split("active[0] = acc")[0].split("active")[-1]
    )
