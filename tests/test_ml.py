"""ai.onnx.ml beyond the rows: attributes that contradict themselves, and what a bundle refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingot
from ingot.errors import InputError
from tests.ops.ml import I64, WORDS, X, linear, ml, svc, svr
from tests.ops.ngrams import X as TOKENS
from tests.ops.ngrams import grams
from tests.ops.rows import Row, feeds, inside, model


def spoiled(row: Row, **attributes: Any) -> Row:
    """The row with other attributes; None takes one away."""
    row.attributes.update(attributes)
    for k in [k for k, v in row.attributes.items() if v is None]:
        del row.attributes[k]
    return row


HUGE = 1 << 62
CASES: list[tuple[Row, str]] = [
    (ml("ArrayFeatureExtractor", X, np.array([3]), constant=[1]), "an index is out of range for 3 elements"),
    (ml("Binarizer", WORDS), "an input is string"),
    (ml("FeatureVectorizer", X, inputdimensions=[1, 2]), "2 sizes for 1 inputs"),
    (ml("FeatureVectorizer", X, inputdimensions=[-1]), "sizes [-1]"),
    (ml("FeatureVectorizer", X, X[:2], inputdimensions=[1, 1]), "the rows differ"),
    (ml("Imputer", X, imputed_value_floats=[1.0, 2.0]), "2 values for 3 float32 features"),
    (ml("Imputer", I64, imputed_value_floats=[1.0]), "0 values for 3 int64 features"),
    (ml("Normalizer", X, norm="L3"), "norm 'L3' is unknown"),
    (ml("Scaler", X, scale=[1.0, 2.0], offset=[0.0]), "scale has 2 elements"),
    (
        ml("LabelEncoder", X, opset=2, keys_int64s=[1], values_int64s=[1]),
        "the keys are int64, the input is float32",
    ),
    (ml("LabelEncoder", I64, opset=2, keys_int64s=[1, 2], values_int64s=[1]), "2 keys for 1 values"),
    (ml("LabelEncoder", I64, opset=2, keys_int64s=[1]), "0 lists of values are given instead of one"),
    (
        ml("LabelEncoder", I64, opset=2, keys_int64s=[1], keys_floats=[1.0], values_int64s=[1]),
        "2 lists of keys",
    ),
    (ml("CategoryMapper", I64, cats_int64s=[1, 2], cats_strings=["a"]), "2 keys for 1 values"),
    (ml("OneHotEncoder", I64), "one list of categories is needed"),
    (ml("OneHotEncoder", I64, cats_strings=["a"]), "the input is int64, the categories are not"),
    (spoiled(linear(X, 3), intercepts=[1.0, 2.0]), "2 intercepts for 3 scores"),
    (spoiled(linear(X, 3), coefficients=[1.0]), "1 coefficients for 3 features and 3 scores"),
    (spoiled(linear(X, 3), classlabels_ints=None), "labels must be given either as integers or as strings"),
    (spoiled(linear(X, 3), post_transform="TANH"), "post_transform 'TANH' is not one of"),
    (ml("LinearRegressor", X, coefficients=[1.0], targets=HUGE), "1 coefficients for"),
    (spoiled(svr(X, "RBF"), n_supports=HUGE), "4 coefficients for"),
    (spoiled(svr(X, "RBF"), kernel_type="COSINE"), "kernel_type 'COSINE' is not one of"),
    (spoiled(svr(X, "RBF"), kernel_params=[1.0]), "kernel_params has 1 elements"),
    (spoiled(svr(X, "RBF"), rho=None), "rho is missing"),
    (spoiled(svr(X, "RBF"), support_vectors=[1.0]), "1 elements for 4 vectors of 3"),
    (spoiled(svc(X, "RBF", [2, 3, 1]), rho=[1.0]), "rho has 1 elements for 3 pairs"),
    (
        spoiled(svc(X, "RBF", [2, 3, 1]), vectors_per_class=[2, 3]),
        "vectors_per_class is [2, 3] for 3 classes",
    ),
    (spoiled(svc(X, "RBF", [2, 3, 1]), vectors_per_class=[HUGE, -HUGE, 6]), "vectors_per_class is"),
    (spoiled(svc(X, "RBF", [2, 3, 1]), prob_a=[1.0]), "prob_a and prob_b do not fit"),
    (spoiled(svc(X, "RBF", [2, 3, 1]), coefficients=[1.0]), "1 coefficients"),
    (grams(TOKENS, "TF", (2, 1), 0), "2- to 1-grams"),
    (grams(TOKENS, "TF", (1, 9), 0), "1- to 9-grams"),
    (grams(TOKENS, "FT", (1, 2), 0), "mode 'FT' is unknown"),
    (grams(TOKENS, "TF", (1, 2), -1), "max_skip_count is -1"),
    (grams(TOKENS, "TF", (1, 2), 0, ngram_counts=[0, 4, HUGE]), "2-grams of the pool of 15"),
    (grams(TOKENS, "TF", (1, 2), 0, ngram_indexes=[0]), "ngram_indexes do not fit"),
    (grams(TOKENS, "TF", (1, 3), 0, ngram_indexes=[-1] * 9), "ngram_indexes do not fit"),
    (
        grams(TOKENS, "TF", (1, 1), 0, pool_int64s=[2, 2, 5, 4, 5, 6, 7, 8, 6, 7, 2, 2, 5, 6, 7]),
        "n-gram twice",
    ),
    (grams(TOKENS, "IDF", (1, 3), 0, weights=[1.0]), "1 weights for 9 n-grams"),
    (grams(TOKENS.astype(np.float32), "TF", (1, 2), 0), "an input is float32"),
]


@pytest.mark.parametrize(("row", "message"), CASES, ids=[f"{r.op}-{m}" for r, m in CASES])
def test_error(row: Row, message: str) -> None:
    with pytest.raises(InputError) as caught:
        ingot.compile(model(row))
    assert message in str(caught.value) and f"{row.op} node" in str(caught.value)


def test_a_value_of_no_category_is_refused() -> None:
    row = ml("OneHotEncoder", I64, cats_int64s=[1, 2], zeros=0)
    bundle = ingot.compile(model(row), name="encoder", target="c99")
    assert bundle.run({"x0": np.full((5, 3), 2, np.int64)})["y0"].sum() == 15
    with pytest.raises(InputError, match="INDEX"):
        bundle.run({"x0": np.full((5, 3), 3, np.int64)})


def test_a_feature_that_is_not_there_is_refused() -> None:
    row = ml("ArrayFeatureExtractor", X, np.array([3]))
    with pytest.raises(InputError, match="INDEX"):
        ingot.compile(model(row), name="extractor", target="c99").run(feeds(row))


def test_many_keys_are_found_in_few_steps() -> None:
    """A lookup among 5000 strings is a loop of 13 turns."""
    keys = [f"key {k}" for k in range(5000)]
    words = np.array(["key 17", "key 4999", "nothing", ""], object)
    row = ml("LabelEncoder", words, opset=2, keys_strings=keys, values_int64s=list(range(5000)))
    bundle = ingot.compile(model(row), name="words", target="c99")
    assert bundle.run({"x0": inside(words)})["y0"].tolist() == [17, 4999, -1, -1]
    assert "step < 13" in bundle.files["words.c"].decode()
