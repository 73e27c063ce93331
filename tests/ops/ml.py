"""Rows of ai.onnx.ml but trees: features, encoders, linear models, support vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, helper

from tests.ops.rows import Array, Row, floats, integers, special, texts

ML = "ai.onnx.ml"
POSTS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
X = floats(5, 3)
D = floats(5, 3, dtype=np.float64)
I64, I32 = integers(5, 3, low=-4, high=5), integers(5, 3, low=-4, high=5, dtype=np.int32)
ODD = special().reshape(5, 5)
NAN = np.where(X > 0, X, np.float32(np.nan)).astype(np.float32)


def ml(op: str, *inputs: Array, opset: int = 1, note: str = "", **more: Any) -> Row:
    names = ("outputs", "oracle", "tolerance", "constant")
    rest = {k: more.pop(k) for k in names if k in more}
    label = f"{note}_{'_'.join(map(str, more.values()))}_{'_'.join(str(a.dtype) for a in inputs)}"[:90]
    return Row(op, list(inputs), more, opset=opset, domain=ML, note=label, **rest)


def at(*values: int) -> Array:
    return np.array(values, np.int64)


WORDS = texts("a", "", "Größe", "b", "a", "unknown").reshape(2, 3)

FEATURES = [
    *(ml("ArrayFeatureExtractor", x, at(2, 0, 2)) for x in (X, D, I64, I32, WORDS)),
    ml("ArrayFeatureExtractor", X, at(1, 0), constant=[1], note="constant"),
    ml("ArrayFeatureExtractor", X[0], at(1, 1)),
    ml("ArrayFeatureExtractor", floats(2, 3, 4), at(3, 1, 0, 2).reshape(2, 2)),
    ml("ArrayFeatureExtractor", X, at(1).reshape(1, 1)),
    *(
        ml("Binarizer", x, threshold=0.5, oracle="ort" if x.dtype == np.float32 else "reference")
        for x in (X, D)
    ),
    ml("Binarizer", ODD, oracle="reference"),
    *(ml("Binarizer", x, threshold=1.5, oracle=[(x > 1.5).astype(x.dtype)]) for x in (I64, I32)),
    ml("FeatureVectorizer", X, inputdimensions=[3]),
    ml("FeatureVectorizer", X, floats(5, 2), inputdimensions=[2, 4]),
    ml("FeatureVectorizer", I64, I64[:, :1], inputdimensions=[0, 3]),
    ml("FeatureVectorizer", I32, inputdimensions=[2]),
    ml("FeatureVectorizer", D, inputdimensions=[4]),
    ml("FeatureVectorizer", X[0], X[1], inputdimensions=[2, 4]),
    ml("FeatureVectorizer", floats(2, 2, 2), inputdimensions=[3]),
    ml("FeatureVectorizer", floats(2, 2, 2), inputdimensions=[6]),
    *(
        ml("Imputer", NAN, imputed_value_floats=v, replaced_value_float=float("nan"))
        for v in ([7.0], [1.0, 2.0, 3.0])
    ),
    ml("Imputer", ODD, imputed_value_floats=[9.0], replaced_value_float=0.0),
    ml("Imputer", I64, imputed_value_int64s=[9, 8, 7], replaced_value_int64=-2),
    ml("Imputer", I64[0], imputed_value_int64s=[9], replaced_value_int64=int(I64[0, 1])),
    ml("Imputer", I32, imputed_value_int64s=[9], replaced_value_int64=1, oracle=[np.where(I32 == 1, 9, I32)]),
    ml("Imputer", np.nan_to_num(D), imputed_value_floats=[9.0], replaced_value_float=1.0, oracle="reference"),
    *(
        ml("Normalizer", x, norm=n)
        for n in ("MAX", "L1", "L2")
        for x in (X, D, I64, I32, X[0], np.zeros_like(X))
    ),
    *(ml("Normalizer", np.abs(ODD[:4, :3]), norm=n) for n in ("MAX", "L1", "L2")),
    ml("Normalizer", -np.abs(X), norm="MAX", note="negative"),
    *(ml("Scaler", x, offset=[1.0, -0.5, 2.0], scale=[2.0, 0.1, 3.0]) for x in (X, D, I64, I32, X[1])),
    *(ml("Scaler", x, offset=[0.25], scale=[4.0]) for x in (X, I64, floats(2, 3, 4))),
    ml("Scaler", ODD, offset=[0.25], scale=[4.0]),
]

FLAT = at(3, 1, 4, 1, 5, -9, 2, 6).reshape(2, 4)
ENCODERS = [
    ml("LabelEncoder", WORDS, classes_strings=["b", "a", "Größe", "a"]),
    ml("LabelEncoder", WORDS, classes_strings=["b", "a"], default_int64=7),
    ml("LabelEncoder", FLAT, classes_strings=["zero", "one", "two", "three", "four"], default_string="?"),
    ml("LabelEncoder", FLAT, opset=2, keys_int64s=[3, 1, -9, 3], values_strings=["c", "a", "m", "x"]),
    ml(
        "LabelEncoder",
        FLAT,
        opset=2,
        keys_int64s=[3, 1, -9],
        values_floats=[0.5, 1.5, 2.5],
        default_float=-1.0,
    ),
    ml("LabelEncoder", FLAT, opset=2, keys_int64s=list(range(-20, 20)), values_int64s=list(range(40, 0, -1))),
    ml("LabelEncoder", FLAT, opset=2, keys_int64s=[5], values_int64s=[50], note="one"),
    ml("LabelEncoder", WORDS, opset=2, keys_strings=["a", "b", ""], values_int64s=[1, 2, 3], default_int64=0),
    ml("LabelEncoder", WORDS, opset=2, keys_strings=["a", "b", ""], values_floats=[1.0, 2.0, 3.0]),
    ml("LabelEncoder", WORDS, opset=2, keys_strings=["a", "Größe"], values_strings=["A", "ß"]),
    ml("LabelEncoder", ODD, opset=2, keys_floats=[0.0, 1.0, -2.5, 88.0], values_strings=["0", "1", "x", "y"]),
    ml("LabelEncoder", ODD, opset=2, keys_floats=[0.5, -0.5], values_int64s=[5, -5]),
    ml("LabelEncoder", ODD, opset=4, keys_floats=[0.5, float("nan"), 1e4], values_floats=[5.0, 7.0, 8.0]),
    ml("LabelEncoder", NAN, opset=4, keys_floats=[float("nan")], values_int64s=[1], default_int64=0),
    ml("LabelEncoder", np.zeros((0, 2), np.int64), opset=4, keys_int64s=[1], values_int64s=[2]),
    ml("LabelEncoder", at(4).reshape(()), opset=4, keys_int64s=[4], values_int64s=[2]),
    ml("CategoryMapper", WORDS, cats_strings=["a", "b", "Größe"], cats_int64s=[10, -3, 4]),
    ml(
        "CategoryMapper", FLAT, cats_strings=["a", "b", "Größe"], cats_int64s=[1, 6, 4], default_string="none"
    ),
    ml("CategoryMapper", FLAT, cats_strings=["a", "b", "Größe"], cats_int64s=[1, 6, 1], note="twice"),
    *(ml("OneHotEncoder", x, cats_int64s=[2, -1, 0, 3]) for x in (I64, X * 3, D * 3, I64[0])),
    ml(
        "OneHotEncoder",
        I32,
        cats_int64s=[2, -1, 0],
        oracle=[(I32[..., None] == [2, -1, 0]).astype(np.float32)],
    ),
    ml("OneHotEncoder", I64, cats_int64s=[2, -1, 2, 0], note="twice"),
    ml("OneHotEncoder", WORDS, cats_strings=["b", "a", "", "b"]),
    ml("OneHotEncoder", WORDS[:, :1], cats_strings=["a", "b"], zeros=0),
    ml("OneHotEncoder", I64, cats_int64s=list(range(-4, 6)), zeros=0),
]


def tensors(dtype: Any, out: Any) -> Row:
    """LabelEncoder-4 with keys, values and default as tensors."""
    keys, values = np.array([3, 1, 2, 1], dtype), np.array([7, 5, 6, 4], out)
    arrays = {"keys_tensor": keys, "values_tensor": values, "default_tensor": np.array([9], out)}
    attributes = {
        k: helper.make_tensor(k, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape, v)
        for k, v in arrays.items()
    }
    x = np.array([[1, 2, 3], [4, 0, 1]], dtype)
    wanted = np.array([[5, 6, 7], [9, 9, 5]], out)
    note = f"{np.dtype(dtype)}_{np.dtype(out)}"
    return Row("LabelEncoder", [x], attributes, opset=4, domain=ML, oracle=[wanted], note=note)


KEYS = (np.int64, np.int32, np.int16, np.float32, np.float64)
ENCODERS += [tensors(a, b) for a in KEYS for b in KEYS]
ENCODERS.append(
    Row(
        "LabelEncoder",
        [WORDS],
        {
            "keys_tensor": helper.make_tensor("k", TensorProto.STRING, [2], [b"a", b"b"]),
            "values_tensor": helper.make_tensor("v", TensorProto.INT64, [2], [4, 5]),
        },
        opset=4,
        domain=ML,
        oracle=[at(4, -1, -1, 5, 4, -1).reshape(2, 3)],
        note="string tensors",
    )
)


def weights(count: int, seed: int = 0) -> list[float]:
    return [float(v) for v in floats(count, seed=seed) * 0.5]


def linear(x: Array, classes: int, count: int = 0, note: str = "", **more: Any) -> Row:
    n = count or classes
    labels = {"classlabels_ints": [3 * c + 2 for c in range(classes)]}
    model = {"coefficients": weights(3 * n, 1), "intercepts": weights(n, 2)}
    return ml("LinearClassifier", x, outputs=2, note=f"{note}{classes}_{n}", **{**more, **labels, **model})


def regression(x: Array, targets: int, **more: Any) -> Row:
    model = {"coefficients": weights(3 * targets, 1), "intercepts": weights(targets, 2)}
    return ml("LinearRegressor", x, targets=targets, **{**more, **model})


P = np.abs(floats(5, 3, seed=3)) * 0.1
HALF = {"coefficients": [0.3, 0.2, 0.1, 0.2, 0.1, 0.3], "intercepts": [0.2, 0.3]}
LINEAR = [
    *(linear(X, 3, post_transform=p) for p in POSTS[:4]),
    *(linear(X, 2, post_transform=p) for p in POSTS[:4]),
    *(linear(X, 2, 1, post_transform=p) for p in POSTS[:4]),
    *(linear(x, 4) for x in (D, I64, I32, X[0], X[:1], floats(40, 3))),
    ml("LinearClassifier", P, classlabels_ints=[1, 2], post_transform="PROBIT", outputs=2, **HALF),
    ml("LinearClassifier", X, classlabels_strings=["no", "Größe"], outputs=2, note="strings", **HALF),
    ml(
        "LinearClassifier",
        X,
        classlabels_strings=["no", "yes"],
        coefficients=[0.5, 1.0, -1.0],
        intercepts=[0.1],
        outputs=2,
    ),
    *(regression(X, 2, post_transform=p) for p in POSTS[:4]),
    *(regression(X, 1, post_transform=p) for p in POSTS[:4]),
    ml("LinearRegressor", P, targets=2, post_transform="PROBIT", **HALF),
    ml(
        "LinearRegressor",
        P,
        targets=1,
        post_transform="PROBIT",
        coefficients=[0.3, 0.2, 0.1],
        intercepts=[0.1],
    ),
    ml("LinearRegressor", X, targets=2, coefficients=weights(6)),
    regression(X[0], 2),
]

KERNELS = {
    "LINEAR": [0.0, 0.0, 0.0],
    "POLY": [0.5, 0.25, 3.0],
    "RBF": [0.7, 0.0, 3.0],
    "SIGMOID": [0.3, 0.1, 3.0],
}


def machine(kind: str) -> dict[str, Any]:
    return {"kernel_type": kind, "kernel_params": KERNELS[kind]}


def svr(x: Array, kind: str, n: int = 4, **more: Any) -> Row:
    vectors = {"support_vectors": weights(3 * n, 5), "n_supports": n} if n else {}
    model = {"coefficients": weights(n or 3, 6), "rho": [0.125], **machine(kind)}
    return ml("SVMRegressor", x, note=f"{kind}_{n}", **{**more, **model, **vectors})


def svc(x: Array, kind: str, per: list[int], proba: bool = False, note: str = "", **more: Any) -> Row:
    """`per`: how many vectors each class has."""
    c, v = len(per), sum(per)
    pairs = c * (c - 1) // 2
    model: dict[str, Any] = {"vectors_per_class": per, "rho": weights(pairs, 9), **machine(kind)}
    model |= {"support_vectors": weights(3 * v, 7), "coefficients": weights((c - 1) * v, 8)}
    if proba:
        model |= {"prob_a": [-1.0 - 0.1 * k for k in range(pairs)], "prob_b": weights(pairs, 10)}
    labels = {} if "classlabels_strings" in more else {"classlabels_ints": [2 * k + 1 for k in range(c)]}
    return ml(
        "SVMClassifier", x, outputs=2, note=f"{kind}_{per}_{proba}{note}", **{**more, **labels, **model}
    )


def liblinear(classes: int, lo: float = -1.0, **more: Any) -> Row:
    w = [float(v) for v in np.random.default_rng(classes).uniform(lo, 1, 3 * classes).astype(np.float32)]
    labels = [2 * k + 1 for k in range(classes)]
    note = f"liblinear_{classes}_{lo}"
    model = {"coefficients": w, "rho": [0.1], "classlabels_ints": labels, **machine("LINEAR")}
    return ml("SVMClassifier", X, outputs=2, note=note, **{**more, **model})


VECTORS = [
    *(svr(X, kind) for kind in KERNELS),
    svr(X, "RBF", one_class=1),
    svr(X, "RBF", post_transform="LOGISTIC"),
    svr(X, "LINEAR", 0),
    svr(X[0], "POLY"),
    svr(floats(20, 3), "RBF", 33),
    ml(
        "SVMRegressor",
        X,
        **machine("POLY") | {"kernel_params": [0.5, 6.0, 1.5]},
        coefficients=[1.0, -0.5],
        rho=[0.0],
        n_supports=2,
        support_vectors=[0.5, 0.1, 0.2, -0.3, 0.4, 0.1],
    ),
    *(svc(X, kind, [2, 3]) for kind in KERNELS),
    *(svc(X, kind, [2, 3, 1]) for kind in KERNELS),
    *(svc(X, "RBF", [2, 3], post_transform=p) for p in POSTS[1:4]),
    *(svc(X, "RBF", [2, 0, 3], post_transform=p) for p in POSTS[1:4]),
    *(svc(X, "RBF", per, True) for per in ([2, 3], [2, 3, 1], [1, 2, 3, 4], [4, 1, 2, 3, 1, 2])),
    *(svc(X, "RBF", [2, 3, 1], True, post_transform=p) for p in POSTS[1:]),
    svc(X, "RBF", [4, 1, 2, 3, 1, 2]),
    svc(floats(9, 3, seed=4), "LINEAR", [1, 2, 1, 2, 1]),
    *(svc(x, "POLY", [2, 3, 1]) for x in (D, I64, I32, X[0])),
    svc(X, "RBF", [2, 3, 1], classlabels_strings=["a", "b", "Größe"], note="strings"),
    *(liblinear(c, lo, post_transform=p) for c in (2, 3) for lo in (-1.0, 0.0) for p in POSTS[:4]),
    liblinear(1),
]

ROWS = [*FEATURES, *ENCODERS, *LINEAR, *VECTORS]
