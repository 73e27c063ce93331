"""Operators of com.microsoft that are functions of ONNX's own, beside onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest

import ingot
from ingot.errors import UnsupportedError

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(5)


def floats(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def integers(kind: Any, *shape: int) -> Array:
    info = np.iinfo(kind)
    return RNG.integers(info.min, int(info.max) + 1, shape).astype(kind)


SCALE, SCALES = np.float32(0.001), np.float32([0.01, 0.02, 0.005, 0.1])
W = integers(np.int8, 3, 4)
CASES: dict[str, tuple[str, list[Array], list[Array]]] = {
    # attributes, inputs, constants
    "QuantizeLinear int16": ("", [floats(2, 4)], [SCALE, np.int16(-7)]),
    "QuantizeLinear uint16 by columns": (
        "<axis = 1>",
        [floats(2, 4)],
        [SCALES / 100, np.uint16([0, 30000, 65535, 9])],
    ),
    "DequantizeLinear int16": ("", [integers(np.int16, 2, 4)], [SCALE, np.int16(300)]),
    "DequantizeLinear int8 by rows": (
        "<axis = 0>", [integers(np.int8, 4, 3)], [SCALES, np.int8([0, 1, -5, 9])]
    ),
    "DynamicQuantizeMatMul": ("", [floats(5, 3)], [W, np.float32([0.01]), np.int8([3])]),
    "DynamicQuantizeMatMul with a bias": (
        "", [floats(2, 5, 3)], [W, SCALES, np.zeros(4, np.int8), floats(4)]
    ),
    "MatMulIntegerToFloat": (
        "",
        [integers(np.uint8, 5, 3)],
        [W, np.float32([0.02]), SCALES, np.uint8([100]), np.zeros(4, np.int8), floats(4)],
    ),
    "MatMulIntegerToFloat without a bias": (
        "", [integers(np.uint8, 5, 3)], [W, np.float32([0.02]), np.float32([0.03])]
    ),
    "FusedGemm": (
        '<activation = "Relu", transB = 1, alpha = 0.5>', [floats(2, 3)], [floats(4, 3), floats(4)]
    ),
    "FusedGemm leaky": (
        '<activation = "LeakyRelu", activation_alpha = 0.25>', [floats(2, 3)], [floats(3, 4), floats(4)]
    ),
    "Trilu": ("<upper = 0>", [floats(4, 4)], [np.int64(-1)]),
    "ExpandDims": ("", [floats(2, 3)], [np.int32(1)]),
}  # fmt: skip
KINDS = {"float32": "float"}


def written(operator: str, attributes: str, given: list[Array], held: list[Array], made: str = "") -> Any:
    names = [f"x{i}" for i in range(len(given))], [f"c{i}" for i in range(len(held))]
    kinds = ", ".join(
        f"{KINDS.get(str(a.dtype), a.dtype)}[{','.join(map(str, a.shape))}] {n}"
        for n, a in zip(names[0], given, strict=True)
    )
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]> g ({kinds}) => (float[] y)'
        f"{{ y = com.microsoft.{operator} {attributes} ({', '.join(names[0] + names[1])}) }}"
    )
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(np.asarray(a), n) for n, a in zip(names[1], held, strict=True)
    )
    model.graph.output[0].ClearField("type")
    return model


@pytest.mark.parametrize("name", CASES)
def test_it_is_onnxruntimes(name: str) -> None:
    attributes, given, held = CASES[name]
    model = written(name.split()[0], attributes, given, held)
    inputs = {f"x{i}": a for i, a in enumerate(given)}
    (wanted,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, inputs)
    found = ingot.compile(model, target="c99").run(inputs)["y"]
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (("QuantizeLinear", "<block_size = 2>"), "QuantizeLinear node 'y': the attribute 'block_size'"),
        (("FusedGemm", '<activation = "Softmax">'), "FusedGemm node 'y': the activation 'Softmax'"),
    ],
)
def test_what_is_not_read_is_refused(call: tuple[str, str], words: str) -> None:
    with pytest.raises(UnsupportedError, match=words):
        ingot.compile(written(*call, [floats(2, 2)], [floats(2, 2), floats(2)]))
