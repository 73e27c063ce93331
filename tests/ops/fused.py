"""Rows of the operators that onnxruntime's optimiser makes of several: contractions with what follows them,
normalised sums, embeddings.
"""

from typing import Any

import numpy as np

from tests.ops.rows import Row, floats, integers

DOMAIN: dict[str, Any] = {"domain": "com.microsoft", "opset": 1}


def convolved(activation: str = "", *parameters: float, z: bool = False, note: str = "", **more: Any) -> Row:
    """A row of FusedConv over a small image."""
    kernel = floats(4, 3 // more.get("group", 1), 3, 3, seed=1, scale=0.3)
    if more.get("group", 1) == 3:
        kernel = floats(6, 1, 3, 3, seed=1, scale=0.3)
    inputs = [floats(2, 3, 6, 7), kernel, floats(len(kernel), seed=2)]
    if z:
        inputs.append(floats(2, len(kernel), 6, 7, seed=3))
    how: dict[str, Any] = {"pads": [1] * 4, **more}
    if activation:
        how["activation"] = activation
    if parameters:
        how["activation_params"] = list(parameters)
    return Row("FusedConv", inputs, how, constant=(1, 2), note=f"{activation}{note}", **DOMAIN)


def multiplied(a: tuple[int, ...], b: tuple[int, ...], note: str = "", **how: Any) -> Row:
    """A row of FusedMatMul."""
    return Row("FusedMatMul", [floats(*a), floats(*b, seed=1)], how, note=note, **DOMAIN)


def skipped(op: str, x: tuple[int, ...], skip: tuple[int, ...], *given: str, **how: Any) -> Row:
    """A row of a normalisation of a sum: its result and, last, the sum."""
    n = x[-1]
    inputs: list[Any] = [floats(*x), floats(*skip, seed=1), floats(n, seed=2)]
    if op == "SkipLayerNormalization":
        inputs.append(floats(n, seed=3) if "beta" in given else None)
    inputs.append(floats(n, seed=4) if "bias" in given else None)
    while inputs[-1] is None:
        inputs.pop()
    outputs = [True, False, False, True] if "sum" in given else 1
    return Row(op, inputs, how, constant=(2,), outputs=outputs, note="_".join(given), **DOMAIN)


def embedded(*given: str, outputs: Any = (True, True)) -> Row:
    """A row of EmbedLayerNormalization: 3 sequences of 5 words."""
    ids = {"dtype": np.int32, "low": 0}
    mask = np.array([[1, 1, 1, 0, 0], [1] * 5, [0] * 5], np.int32)
    segments = "segments" in given
    inputs: list[Any] = [
        integers(3, 5, high=11, **ids),
        integers(3, 5, high=2, seed=1, **ids) if segments else None,
        *(floats(11, 8), floats(7, 8, seed=1), floats(2, 8, seed=2) if segments else None),
        *(floats(8, seed=3), floats(8, seed=4)),
        mask if "mask" in given else None,
        integers(3, 5, high=7, seed=2, **ids) if "positions" in given else None,
    ]
    while inputs[-1] is None:
        inputs.pop()
    note = "_".join(given)
    return Row(
        "EmbedLayerNormalization", inputs, constant=(2, 3, 4, 5, 6), outputs=outputs, note=note, **DOMAIN
    )


ROWS = [
    Row("Gelu", [floats(3, 7)], note="erf", **DOMAIN),
    Row("FastGelu", [floats(3, 7)], **DOMAIN),
    Row("FastGelu", [floats(2, 3, 8), floats(8, seed=1)], constant=(1,), **DOMAIN),
    convolved(),
    *(convolved(a) for a in ("Relu", "Tanh", "Sigmoid")),
    convolved("LeakyRelu", 0.2),
    convolved("Clip", -0.5, 0.75),
    convolved("HardSigmoid", 0.3, 0.4),
    convolved("Relu", z=True, note="sum"),
    convolved("Relu", group=3, note="depthwise", strides=[2, 2]),
    multiplied((3, 4, 5), (5, 6), alpha=0.5),
    multiplied((3, 5, 4), (3, 5, 6), transA=1),
    multiplied((2, 3, 4, 5), (2, 3, 6, 5), transB=1, alpha=0.125),
    multiplied((5, 4), (6, 5), transA=1, transB=1),
    multiplied((4, 3, 5), (3, 5, 6), transBatchA=1, note="batch_last"),
    multiplied((4, 3, 5), (6, 3, 4), transBatchA=1, transA=1, transBatchB=1, transB=1, note="all"),
    multiplied((5,), (5, 6), transA=1, note="vector"),
    Row("SimplifiedLayerNormalization", [floats(2, 5, 8), floats(8, seed=1)], constant=(1,), outputs=2),
    Row(
        "SimplifiedLayerNormalization",
        [floats(2, 3, 4), floats(3, 4, seed=1)],
        {"axis": 1, "epsilon": 1e-3},
        constant=(1,),
    ),
    skipped("SkipLayerNormalization", (2, 5, 8), (2, 5, 8), "beta", "bias", "sum"),
    skipped("SkipLayerNormalization", (2, 5, 8), (5, 8), "beta", epsilon=1e-3),
    skipped("SkipLayerNormalization", (2, 5, 8), (1, 5, 8)),
    skipped("SkipSimplifiedLayerNormalization", (2, 5, 8), (2, 5, 8), "bias", "sum"),
    skipped("SkipSimplifiedLayerNormalization", (5, 8), (5, 8), epsilon=1e-3),
    embedded("segments", "mask"),
    embedded("segments", "positions", outputs=(True, False, True)),
    embedded(),
]
