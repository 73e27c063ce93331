"""Rows of the activations, PRelu, Clip and Dropout."""

import numpy as np

from tests.ops.rows import Array, Row, extremes, floats, integers, special

HALF = {"oracle": "reference", "tolerance": 2e-3, "note": "f16"}
X = np.linspace(-6, 6, 24, dtype=np.float32).reshape(2, 3, 4)


def activation(op: str, double: object = "reference", opset: int = 21, **attributes: object) -> list[Row]:
    """Special values, an ordinary range in both float types, attributes."""
    short = [Row(op, [X], dict(attributes), opset=opset)] if attributes else []
    return [
        *short,
        Row(op, [special()], opset=opset, note="special"),
        Row(op, [X], opset=opset),
        Row(op, [X.astype(np.float64)], opset=opset, oracle=double, tolerance=1e-7, note="f64"),
    ]


ACTIVATIONS = [
    *activation("Relu"),
    *activation("LeakyRelu", alpha=0.3),
    *activation("ThresholdedRelu", alpha=2.0),
    *activation("Elu", alpha=0.7),
    *activation("Selu", alpha=1.1, gamma=0.9),
    *activation("Celu", alpha=0.7),
    *activation("Gelu", approximate="tanh"),
    *activation("Sigmoid"),
    *activation("HardSigmoid", alpha=0.3, beta=0.4),
    *activation("HardSwish"),
    *activation("Mish"),
    *activation("Softplus"),
    *activation("Softsign"),
    *activation("Shrink", lambd=1.5, bias=0.5),
]
# attributes are float32, also those that are left out and those of a double's operator
DEFAULTS = [
    Row("HardSigmoid", [X.astype(np.float64)], oracle="reference", tolerance=1e-12, note="default_f64")
]
SWISH = [
    Row("Swish", [values], attributes, opset=24, oracle="reference", note=values.dtype.name)
    for values in (X, X.astype(np.float64))
    for attributes in ({}, {"alpha": 0.5})
]
GATED = [
    Row("SwiGLU", [X, X[::-1].copy()], opset=28, oracle="reference"),
    Row("SwiGLU", [X, X[::-1].copy()], {"alpha": 1.7}, opset=28, oracle="reference"),
    Row("SwiGLU", [special(), special()], opset=28, oracle="reference", note="special"),
]
HALVES = [Row(op, [X.astype(np.float16)], **HALF) for op in ("Relu", "Gelu", "HardSwish")]
SHAPES = [Row(op, [x]) for op in ("Relu", "Mish") for x in (floats(), floats(0, 3))]
INTEGERS = [
    *(Row("Relu", [extremes(t)], oracle=[np.maximum(extremes(t), 0)]) for t in (np.int8, np.int16, np.int64)),
    Row("Relu", [extremes(np.int32)]),
    *(
        Row(
            "Shrink",
            [integers(9, dtype=t, low=0, high=9)],
            {"lambd": 2.0, "bias": 1.0},
            note=np.dtype(t).name,
        )
        for t in (np.int8, np.int32, np.uint8, np.int64)
    ),
]
PRELU = [
    Row("PRelu", [special(), np.array([0.25], np.float32)]),
    Row("PRelu", [floats(2, 3, 4), floats(3, 1, seed=1)]),
    Row("PRelu", [floats(2, 3, 4), floats(seed=1)]),
    Row("PRelu", [floats(2, 3, dtype=np.float64), floats(3, dtype=np.float64)], oracle="reference"),
    Row("PRelu", [floats(2, 3, dtype=np.float16), floats(3, dtype=np.float16)], **HALF),
    Row("PRelu", [integers(9, dtype=np.int32, low=-9, high=9), np.array([2], np.int32)], oracle="reference"),
    *(
        Row("PRelu", [floats(2, 3, 4), s], opset=6, oracle=[np.where(x < 0, x * s[:, None], x)])
        for x in [floats(2, 3, 4)]
        for s in (floats(3, seed=1), floats(1, seed=1))
    ),
]


def clip(x: Array, lo: object, hi: object, **more: object) -> Row:
    """Bounds of None are absent."""
    bounds = [None if b is None else np.array(b, x.dtype) for b in (lo, hi)]
    return Row("Clip", [x, *bounds], **more)  # type: ignore[arg-type]


CLIP = [
    clip(special(), -1, 2),
    # a bound left out is no bound, as in the standard's function body; onnxruntime clips to the largest float
    *(clip(special(), lo, hi, oracle="reference") for lo, hi in [(-1, None), (None, 2), (None, None)]),
    clip(special(), 2, -1, note="crossed"),
    clip(special(), -1, 2, constant=[1, 2], note="constant"),
    *(
        clip(np.tile(special(), 3), *bounds, constant=constant, oracle="reference", note=f"nan{bounds}")
        for bounds in ((np.nan, 2), (-1, np.nan))
        for constant in ((), (1, 2))
    ),
    clip(floats(5, dtype=np.float64), -0.5, 0.5, note="f64"),
    clip(floats(5, dtype=np.float16), -0.5, 0.5, **HALF),
    clip(floats(), -0.5, 0.5),
    clip(floats(0, 3), -0.5, 0.5),
    *(
        clip(extremes(t), 1, 5, note=np.dtype(t).name)
        for t in (np.int8, np.uint8, np.int32, np.int64, np.uint64)
    ),
    *(
        Row("Clip", [special()], attributes, opset=6)
        for attributes in ({}, {"min": -1.0}, {"min": -1.0, "max": 2.0})
    ),
    Row("Clip", [X], {"min": -1.0, "max": 2.0}, opset=1, oracle=[np.clip(X, -1, 2)]),
]
DROPOUT = [Row("Dropout", [X], outputs=2, opset=opset) for opset in (21, 12)] + [
    Row("Dropout", [X], outputs=2, opset=10, oracle=[X, X == X]),
    Row("Dropout", [X, np.array(0.7, np.float32)], outputs=2),
    Row("Dropout", [X, np.array(0.7, np.float32), np.array(False)], outputs=2, constant=[2]),
    Row("Dropout", [X, np.array(0.0, np.float32), np.array(True)], outputs=2, constant=[1, 2]),
    Row("Dropout", [X], {"ratio": 0.3}, opset=7),
    Row("Dropout", [X], {"ratio": 0.3}, opset=7, outputs=2, oracle=[X, np.ones_like(X)]),
    Row("Dropout", [X], {"ratio": 0.3, "is_test": 1}, opset=6, outputs=2, oracle=[X, np.ones_like(X)]),
    Row("Dropout", [X.astype(np.float16)], outputs=2, oracle="reference", note="f16"),
]
ROWS = [*ACTIVATIONS, *DEFAULTS, *SWISH, *GATED, *HALVES, *SHAPES, *INTEGERS, *PRELU, *CLIP, *DROPOUT]
