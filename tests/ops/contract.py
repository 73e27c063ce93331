"""Rows of convolutions and matrix products."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.rows import Array, Row, floats, integers

X1, X2, X3 = floats(3, 4, 11), floats(1, 4, 7, 9), floats(2, 2, 5, 4, 6)
W1, W2, W3 = floats(5, 4, 3, seed=1), floats(6, 4, 3, 2, seed=1), floats(3, 2, 3, 2, 3, seed=1)


def bias(n: int) -> Array:
    return floats(n, seed=2)


def conv(x: Array, w: Array, attributes: dict[str, Any], *rest: Array, **more: Any) -> Row:
    return Row("Conv", [x, w, *rest], attributes, **more)


CONV = [
    *(conv(x, w, {}, bias(w.shape[0])) for x, w in ((X1, W1), (X2, W2), (X3, W3))),
    *(conv(x, w, {}) for x, w in ((X1, W1), (X2, W2), (X3, W3))),
    conv(X1, W1, {"strides": [3], "pads": [2, 0]}),
    conv(X1, W1, {"dilations": [4], "pads": [1, 3]}),
    conv(X2, W2, {"strides": [2, 1], "pads": [1, 0, 2, 3], "kernel_shape": [3, 2]}, bias(6)),
    conv(X2, W2, {"strides": [2, 3], "dilations": [2, 3], "pads": [2, 2, 2, 2]}),
    *(
        conv(x, w, {"auto_pad": a, "strides": s})
        for a in ("SAME_UPPER", "SAME_LOWER", "VALID")
        for x, w, s in ((X1, W1, [2]), (X2, W2, [1, 3]), (X3, W3, [1, 2, 2]))
    ),
    conv(X2, W2, {"auto_pad": "SAME_LOWER", "dilations": [2, 1]}, bias(6), opset=11, oracle="reference"),
    conv(X3, W3, {"strides": [1, 2, 3], "pads": [1, 0, 2, 0, 1, 1]}, bias(3)),
    conv(X3, W3, {"dilations": [2, 3, 1], "pads": [1, 1, 1, 1, 1, 1]}),
    conv(X2, floats(6, 2, 3, 3), {"group": 2, "pads": [1, 1, 1, 1]}, bias(6), note="groups"),
    conv(
        X2,
        floats(4, 1, 3, 3),
        {"group": 4, "strides": [2, 2], "pads": [1, 1, 1, 1]},
        bias(4),
        note="depthwise",
    ),
    conv(X2, floats(8, 1, 3, 3), {"group": 4, "pads": [0, 1, 2, 1]}, note="multiplier"),
    conv(X1, floats(4, 1, 5), {"group": 4, "pads": [2, 2]}, note="depthwise"),
    conv(X3, floats(2, 1, 3, 3, 3), {"group": 2, "pads": [1] * 6}, note="depthwise"),
    conv(X2, floats(5, 4, 1, 1), {}, bias(5), note="pointwise"),
    conv(X2, floats(5, 4, 1, 1), {"strides": [2, 2], "pads": [1, 1, 0, 0]}, note="pointwise"),
    conv(
        floats(3, 3, 13, 17),
        floats(17, 3, 5, 5),
        {"pads": [2, 2, 2, 2]},
        bias(17),
        constant=(1, 2),
        note="constants",
    ),
    conv(X2, W2, {"kernel_shape": [3, 2]}, opset=1),
    conv(
        X2.astype(np.float64),
        W2.astype(np.float64),
        {"pads": [1, 1, 1, 1]},
        oracle="reference",
        tolerance=1e-12,
        note="f64",
    ),
    conv(
        *(X2.astype(np.float16), W2.astype(np.float16), {"pads": [1, 1, 1, 1]}),
        oracle="reference",
        tolerance=4e-3,
        opset=22,
        note="f16",
    ),
]

# Tails of every kind: channels of one lane, half a vector, some vectors and more; points no tile divides.
TAILS = (
    (5, 10, 7, 7),
    (3, 24, 13, 13),
    (16, 58, 5, 5),
    (4, 40, 3, 11),
    (2, 1, 6, 6),
    (7, 17, 1, 1),
    (3, 33, 2, 29),
)
TILES = [
    *(
        conv(floats(1, c, h, w), floats(k, c, 1, 1, seed=1), {}, bias(k), constant=(1, 2), note="constants")
        for c, k, h, w in TAILS
    ),
    conv(floats(3, 4, 5, 5), floats(9, 4, 1, 1), {}, bias(9), constant=(1, 2), note="batch"),
    conv(floats(1, 3, 65, 83), floats(37, 3, 3, 3), {}, bias(37), constant=(1, 2), note="rows first"),
    conv(floats(1, 3, 15, 9), floats(20, 3, 3, 3), {"pads": [1] * 4, "dilations": [1, 2]}, constant=(1,)),
    conv(floats(1, 5, 31), floats(20, 5, 7), {"pads": [3, 3], "strides": [2]}, constant=(1,)),
    *(Row("Gemm", [floats(1, k), floats(k, n, seed=1), bias(n)]) for k, n in ((37, 3), (100, 10), (64, 150))),
    *(Row("MatMul", [floats(2, 13, 9), floats(2, 9, n, seed=1)]) for n in (8, 10, 12, 20, 36)),
]

A, BM = floats(3, 7), floats(7, 5, seed=1)


def whole(*shape: int, dtype: Any, seed: int = 0) -> Array:
    """Integers large enough that products wrap."""
    return integers(*shape, dtype=dtype, seed=seed)


GEMM = [
    Row("Gemm", [A, BM]),
    *(Row("Gemm", [A, BM, floats(*c, seed=2)]) for c in ((3, 5), (5,), (1, 5), (3, 1), (1,), ())),
    Row("Gemm", [A, BM, floats(5, seed=2)], {"alpha": 0.5, "beta": 2.0}),
    Row("Gemm", [A, BM, np.array([np.inf], np.float32)], {"beta": 0.0}, note="no bias"),
    Row("Gemm", [A.T.copy(), BM, floats(5, seed=2)], {"transA": 1}),
    Row("Gemm", [A, BM.T.copy(), floats(5, seed=2)], {"transB": 1}, opset=9),
    Row(
        "Gemm",
        [A.T.copy(), BM.T.copy(), floats(3, 1, seed=2)],
        {"transA": 1, "transB": 1, "alpha": 3.0},
        opset=7,
    ),
    Row("Gemm", [A, BM, floats(5, seed=2)], {"broadcast": 1}, opset=6, oracle=[A @ BM + floats(5, seed=2)]),
    Row("Gemm", [A, BM, floats(3, 5, seed=2)], opset=6, oracle=[A @ BM + floats(3, 5, seed=2)]),
    Row("Gemm", [floats(1, 33), floats(33, 17), bias(17)], constant=(1, 2), note="constants"),
    Row("Gemm", [A.astype(np.float64), BM.astype(np.float64)], tolerance=1e-12, note="f64"),
    *(
        Row(
            "Gemm",
            [whole(3, 7, dtype=t), whole(7, 5, dtype=t, seed=1), whole(5, dtype=t, seed=2)],
            oracle=[whole(3, 7, dtype=t) @ whole(7, 5, dtype=t, seed=1) + whole(5, dtype=t, seed=2)],
            note=t.__name__,
        )
        for t in (np.int32, np.uint64)
    ),
]
SHAPES = [
    ((3, 4), (4, 5)),
    ((4,), (4, 5)),
    ((3, 4), (4,)),
    ((4,), (4,)),
    ((2, 3, 4), (2, 4, 5)),
    ((2, 3, 4), (4, 5)),
    ((3, 4), (2, 4, 5)),
    ((2, 1, 3, 4), (3, 4, 5)),
    ((2, 1, 3, 4), (1, 3, 4, 1)),
    ((2, 3, 4), (4,)),
    ((4,), (2, 4, 5)),
    ((1, 1), (1, 1)),
    ((1, 33), (33, 17)),
]
MATMUL = [
    *(Row("MatMul", [floats(*a), floats(*b, seed=1)]) for a, b in SHAPES),
    Row("MatMul", [floats(2, 3, 9), floats(9, 18)], constant=(1,), opset=9, note="constants"),
    Row(
        "MatMul",
        [floats(3, 4, dtype=np.float64), floats(4, 5, dtype=np.float64)],
        tolerance=1e-12,
        note="f64",
    ),
    *(
        Row("MatMul", [whole(2, 3, 4, dtype=t), whole(4, 5, dtype=t, seed=1)], note=t.__name__)
        for t in (np.int32, np.int64, np.uint32, np.uint64)
    ),
    Row(
        "MatMul",
        [floats(3, 9, dtype=np.float16), floats(9, 5, dtype=np.float16, seed=1)],
        oracle="reference",
        tolerance=2e-3,
        note="f16",
    ),
]
EQUATIONS: list[tuple[str, list[tuple[int, ...]]]] = [
    ("ij,jk->ik", [(3, 4), (4, 5)]),
    ("ij,jk", [(3, 4), (4, 5)]),
    ("ij->ji", [(3, 4)]),
    ("ba", [(3, 4)]),
    ("ii->i", [(4, 4)]),
    ("ii", [(4, 4)]),
    ("ij->", [(3, 4)]),
    ("i,i", [(5,), (5,)]),
    ("i,j->ij", [(3,), (4,)]),
    ("...ij,...jk->...ik", [(2, 1, 3, 4), (1, 3, 4, 5)]),
    ("...ii->...i", [(3, 4, 4)]),
    ("i...,ij->...j", [(3, 2, 2), (3, 4)]),
    ("b...h,h->b...", [(2, 3, 4), (4,)]),
    ("...i,...i", [(2, 3), (2, 3)]),
    (" b i d , b j d -> b i j ", [(2, 3, 4), (2, 5, 4)]),
    ("bhwc,hkc->bhwk", [(2, 3, 4, 5), (3, 6, 5)]),
    ("ij,jk,kl->il", [(3, 4), (4, 5), (5, 2)]),
    ("a,ab,abc->abc", [(2,), (2, 3), (2, 3, 4)]),
    ("Aa,aB->AB", [(3, 4), (4, 5)]),
    ("abcd,hi->biah", [(2, 3, 4, 5), (6, 3)]),
    ("ab,bc,cd->a", [(2, 3), (3, 4), (4, 5)]),
    ("aab,c->c", [(3, 3, 2), (4,)]),
    ("...ab,...c->...c", [(2, 3, 4), (1, 5)]),
]
EINSUM = [
    Row(
        "Einsum",
        [floats(2, 3, seed=k).astype(np.float16) for k in range(3)],
        {"equation": "ab,ab,ab->b"},
        oracle="reference",
        tolerance=4e-3,
        note="three_halves",
    ),
    Row(
        "Einsum",
        [floats(2, 1, 3, 4), floats(3, 4, 5, seed=1)],
        {"equation": "...ij,...jk->...ik"},
        oracle=[np.matmul(floats(2, 1, 3, 4), floats(3, 4, 5, seed=1))],
        note="ranks",
    ),
    *(
        Row("Einsum", [floats(*s, seed=i) for i, s in enumerate(shapes)], {"equation": e})
        for e, shapes in EQUATIONS
    ),
    Row(
        "Einsum",
        [whole(3, 4, dtype=np.int64), whole(4, 5, dtype=np.int64, seed=1)],
        {"equation": "ij,jk->ik"},
        note="i64",
    ),
    Row(
        "Einsum",
        [floats(3, 4, dtype=np.float64), floats(4, dtype=np.float64)],
        {"equation": "ij,j->i"},
        note="f64",
    ),
]
ROWS = [*CONV, *TILES, *GEMM, *MATMUL, *EINSUM]
