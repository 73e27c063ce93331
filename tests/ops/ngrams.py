"""Rows of TfIdfVectorizer: every mode, skips, rows and vectors, integers and strings."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.rows import Array, Row, integers, texts

POOL = [2, 3, 5, 4, 5, 6, 7, 8, 6, 7, 2, 2, 5, 6, 7]
COUNTS = [0, 4, 12]
INDEXES = [0, 1, 3, 2, 4, 5, 6, 7, 8]
X = np.array([[1, 1, 3, 3, 3, 7, 2, 2], [8, 6, 7, 5, 6, 8, 6, 7]], np.int64)
WORDS = ["a", "b", "Größe", "c"]


def grams(x: Array, mode: str, lengths: tuple[int, int], skips: int, note: str = "", **more: Any) -> Row:
    attributes: dict[str, Any] = {"mode": mode, "min_gram_length": lengths[0], "max_gram_length": lengths[1]}
    attributes |= {
        "max_skip_count": skips,
        "ngram_counts": COUNTS,
        "ngram_indexes": INDEXES,
        "pool_int64s": POOL,
    }
    name = f"{mode}_{lengths}_{skips}{note}_{x.dtype}"
    return Row("TfIdfVectorizer", [x], {**attributes, **more}, opset=9, note=name)


def words(x: Array, mode: str, **more: Any) -> Row:
    """1- and 2-grams of strings."""
    pool = {"pool_int64s": [], "pool_strings": [*WORDS, "a", "b", "Größe", "a"], "ngram_counts": [0, 4]}
    row = grams(x, mode, (1, 2), 1, "words", **{**pool, "ngram_indexes": list(range(6)), **more})
    del row.attributes["pool_int64s"]
    return row


WEIGHTS = [0.5 * k - 1.0 for k in range(9)]
TEXT = texts("a", "b", "x", "Größe", "a", "a", "", "b").reshape(2, 4)

ROWS = [
    *(grams(X, "TF", n, s) for n in ((1, 1), (2, 2), (1, 2), (1, 3), (2, 3), (3, 3)) for s in (0, 1, 5)),
    *(grams(X, m, (1, 3), 2, weights=WEIGHTS) for m in ("TF", "IDF", "TFIDF")),
    *(grams(X, m, (1, 3), 2, "plain") for m in ("IDF", "TFIDF")),
    grams(X.astype(np.int32), "TF", (1, 3), 1),
    grams(X[1], "TF", (1, 3), 1),
    grams(X, "TFIDF", (1, 2), 1, "shared", ngram_indexes=[0, 1, 1, 2, 0, 3, 4, 0, 0], weights=WEIGHTS),
    grams(X[:, :0], "TF", (1, 3), 1, "none"),
    grams(integers(4, 20, low=2, high=9), "TFIDF", (1, 3), 4, weights=WEIGHTS),
    *(words(x, m) for x in (TEXT, TEXT[0]) for m in ("TF", "IDF")),
    words(TEXT, "TFIDF", weights=[0.25 * k for k in range(6)]),
]
