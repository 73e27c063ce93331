"""Models of the corpus as scikit-learn's exporter makes them: forests, support vectors, encoders, n-grams."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.corpus.cases import Case
from tests.corpus.net import Net
from tests.ops.ngrams import COUNTS, INDEXES, POOL
from tests.ops.trees import MODES, grow, samples, weighted

ML = "ai.onnx.ml"


def forest(net: Net) -> tuple[str, ...]:
    """Scaled rows, some of them with holes, through trees that compare in every way; labels and shares."""
    rows = samples(7, 5, 1)
    rows[2, 3] = rows[5, 0] = np.nan
    x = net("Scaler", net.feed("x", rows), domain=ML, offset=[0.5], scale=[2.0])
    nodes, leaves = grow(31, trees=21, depth=7, features=5, modes=MODES, missing=True)
    weights = weighted(32, "class", leaves, 4, 4, 0.0)
    labels = {"classlabels_int64s": [3, 1, 4, 15]}
    label, scores = net(
        "TreeEnsembleClassifier", x, outputs=["label", "scores"], domain=ML, **labels, **nodes, **weights
    )
    return label, str(net("Normalizer", scores, domain=ML, norm="L1"))


def boosted(net: Net) -> str:
    """Each tree for one target, in float64; what is missing goes its own way."""
    nodes, leaves = grow(33, trees=30, depth=4, features=3, missing=True)
    weights = weighted(34, "target", leaves, 5, 0)
    base = {"n_targets": 5, "base_values": [0.5, -0.5, 0.25, 1.0, 0.0]}
    x = net.feed("x", samples(4, 3, 2, np.float64))
    return str(
        net("TreeEnsembleRegressor", x, domain=ML, post_transform="SOFTMAX", **base, **nodes, **weights)
    )


def machine(net: Net) -> tuple[str, ...]:
    """Six classes, and the probabilities of fifteen pairs."""
    per, pairs = [4, 1, 2, 3, 1, 2], 15
    count = sum(per)

    def floats(n: int) -> list[float]:
        return [float(v) for v in net.random(n)]

    model: dict[str, Any] = {"kernel_type": "RBF", "kernel_params": [0.5, 0.0, 3.0], "vectors_per_class": per}
    model |= {"support_vectors": floats(count * 7), "coefficients": floats(5 * count), "rho": floats(pairs)}
    model |= {"prob_a": [-1.0 - abs(v) for v in floats(pairs)], "prob_b": floats(pairs)}
    label, shares = net(
        "SVMClassifier", net.input("x", 5, 7), outputs=["label", "shares"], domain=ML,
        classlabels_ints=list(range(6)), **model,
    )  # fmt: skip
    return label, shares


def codes(net: Net) -> tuple[str, ...]:
    """Numbers looked up, one-hot columns, and n-grams of tokens."""
    tokens = net.feed("tokens", net.rng.integers(0, 10, (6, 12)))
    keys, values = list(range(9, -1, -1)), [(7 * k) % 9 for k in range(10)]
    new = net("LabelEncoder", tokens, domain=ML, keys_int64s=keys, values_int64s=values)
    hot = net("OneHotEncoder", new, domain=ML, cats_int64s=[0, 3, 5, 6])
    grams = net(
        "TfIdfVectorizer", new, mode="TFIDF", min_gram_length=1, max_gram_length=3, max_skip_count=2,
        ngram_counts=COUNTS, ngram_indexes=INDEXES, pool_int64s=POOL, weights=[0.5 * k for k in range(9)],
    )  # fmt: skip
    return new, hot, grams


CASES = [Case("forest", forest), Case("boosted", boosted), Case("machine", machine), Case("codes", codes)]
