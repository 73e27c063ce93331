"""DynamicQuantizeLSTM, as onnxruntime's quantize_dynamic writes it, beside onnxruntime with one thread.

With several threads onnxruntime quantises the hidden states of a batch in parts, one for each.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest

import ingot
from ingot.errors import InputError

CASES = {
    "forward": ("forward", "b,,,", (1,), np.int8, 1),
    "backwards, with states": ("reverse", "b,,h0,c0", (1,), np.int8, 3),
    "both, no bias, unsigned": ("bidirectional", ",,,", (2,), np.uint8, 1),
    "a scale for each column": ("forward", "b,,h0,c0", (1, 16), np.int8, 2),
}
STEPS, WIDTH, UNITS = 5, 3, 4


def written(
    direction: str, given: str, scales: tuple[int, ...], kind: Any, batch: int, more: str = ""
) -> Any:
    random, turns = np.random.default_rng(len(given) + batch), scales[0]
    low, high, zero = (0, 256, 128) if kind == np.uint8 else (-128, 128, 0)
    held = {
        "w": random.integers(low, high, (turns, WIDTH, 4 * UNITS)).astype(kind),
        "r": random.integers(low, high, (turns, UNITS, 4 * UNITS)).astype(kind),
        "b": random.standard_normal((turns, 8 * UNITS)).astype(np.float32),
        "h0": random.standard_normal((turns, batch, UNITS)).astype(np.float32),
        "c0": random.standard_normal((turns, batch, UNITS)).astype(np.float32),
        **{name: random.uniform(0.005, 0.02, scales).astype(np.float32) for name in ("ws", "rs")},
        **{name: np.full(scales, zero, kind) for name in ("wz", "rz")},
    }
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>'
        f"g (float[{STEPS},{batch},{WIDTH}] x) => (float[{STEPS},{turns},{batch},{UNITS}] y,"
        f" float[{turns},{batch},{UNITS}] last, float[{turns},{batch},{UNITS}] cell)"
        f"{{ y, last, cell = com.microsoft.DynamicQuantizeLSTM"
        f' <direction = "{direction}", hidden_size = {UNITS}{more}>'
        f" (x, w, r, {given}, , ws, wz, rs, rz) }}"
    )
    for name, array in held.items():
        if name in model.graph.node[0].input:
            model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    return model


@pytest.mark.parametrize("name", CASES)
def test_it_is_onnxruntimes(name: str) -> None:
    model = written(*CASES[name])
    x = np.random.default_rng(1).standard_normal((STEPS, CASES[name][4], WIDTH)).astype(np.float32)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    found = ingot.compile(model, target="c99").run({"x": x})
    for (y, made), wanted in zip(found.items(), session.run(None, {"x": x}), strict=True):
        np.testing.assert_allclose(made, wanted, atol=1e-6, err_msg=y)


@pytest.mark.parametrize(
    ("given", "more", "words"),
    [
        ("b, lengths,,", "", "lengths of sequences are not supported"),
        ("b,,,", ", clip = 3.0", "clip and input_forget are not supported"),
        ("b,,,", ', activations = ["Relu", "Tanh", "Tanh"]', "only Sigmoid, Tanh and Tanh"),
        ("b,,,", ", layout = 1", "the attribute 'layout' is not supported"),
    ],
)
def test_other_cells_are_refused(given: str, more: str, words: str) -> None:
    model = written("forward", given, (1,), np.int8, 1, more)
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.int32([3]), "lengths"))
    with pytest.raises(InputError, match=f"^DynamicQuantizeLSTM node 'y': .*{words}"):
        ingot.compile(model)
