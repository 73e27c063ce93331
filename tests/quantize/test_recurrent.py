"""LSTM, GRU and RNN by int8 matrices: the QDQ form, and what Ingot makes of it."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import ingot
from ingot.driver import front
from ingot.options import Options
from tests.quantize.nets import answers, images, net, quantized, sqnr

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
HIDDEN, WIDTH, STEPS = 24, 12, 10


def recurrent(op: str, directions: int = 1) -> onnx.ModelProto:
    rng = np.random.default_rng(11)
    rows = GATES[op] * HIDDEN

    def drawn(*shape: int) -> np.ndarray:  # type: ignore[type-arg]
        return (rng.uniform(-1.5, 1.5, shape) / np.sqrt(HIDDEN)).astype(np.float32)

    direction = "bidirectional" if directions == 2 else "forward"
    return net(
        f'ys, h = {op}<hidden_size={HIDDEN}, direction="{direction}">(x, W, R, B) '
        "t = Transpose<perm=[1,0,2]>(h) v = Flatten(t) y = Gemm(v, M, b)",
        {
            "W": drawn(directions, rows, WIDTH),
            "R": drawn(directions, rows, HIDDEN),
            "B": drawn(directions, 2 * rows),
            "M": drawn(directions * HIDDEN, 6),
            "b": drawn(6),
        },
        f"(float[{STEPS},1,{WIDTH}] x) => (float[1,6] y)",
    )


@pytest.mark.parametrize(
    ("op", "directions", "target"),
    [("LSTM", 1, "x86-64-v3"), ("GRU", 1, "c99"), ("RNN", 1, "c99"), ("LSTM", 2, "c99")],
)
def test_matrices_are_bytes_in_the_file_and_in_the_bundle(op: str, directions: int, target: str) -> None:
    model = recurrent(op, directions)
    feeds = images(np.random.default_rng(1), 16, STEPS, 1, WIDTH)
    wanted, found = answers(model, feeds), quantized(model, feeds).model
    oracle = answers(found, feeds)
    assert sqnr(wanted, oracle) > 30
    assert {n.domain for n in front(found, Options()).nodes if n.op == op} == {"ingot"}
    bundle = ingot.compile(found, target=target)
    np.testing.assert_array_equal(np.stack([bundle.run(feed)["y"] for feed in feeds]), oracle)
    floats = ingot.compile(model, target=target).manifest["sizes"]["weights_bytes"]
    assert bundle.manifest["sizes"]["weights_bytes"] < floats / 2  # biases stay floats


def test_exact_math_leaves_the_operator_as_it_is() -> None:
    found = quantized(recurrent("GRU"), images(np.random.default_rng(1), 4, STEPS, 1, WIDTH)).model
    assert {n.domain for n in front(found, Options(math="exact")).nodes if n.op == "GRU"} == {""}
