"""Trains a network that tells how a file is read: in order, in strides, or anywhere.

In: nothing, the data are made here. Out: `build/kernel/access.onnx`: eight gaps between pages read one after
the other, float32 [1,8], to three probabilities, float32 [1,3]. Needs numpy and onnx, which Ingot needs too.
"""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OUTPUT = Path("build/kernel/access.onnx")
CLASSES = ("in order", "in strides", "anywhere")
GAPS, HIDDEN, SAMPLES, EPOCHS, BATCH = 8, 16, 6000, 60, 50
REQUIRED_ACCURACY = 0.97

Weights = dict[str, np.ndarray]


def sample(rng: np.random.Generator, kind: int) -> np.ndarray:
    """Eight gaps in pages of one kind of reading; one gap in ten is somebody else's."""
    if kind == 0:
        gaps = np.ones(GAPS)
    elif kind == 1:
        gaps = np.full(GAPS, rng.choice((-1, 1)) * rng.integers(2, 65))
    else:
        gaps = rng.integers(-4096, 4097, GAPS)
    return np.where(rng.random(GAPS) < 0.1, rng.integers(-4096, 4097, GAPS), gaps).astype(np.float32)


def data(rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Gaps [count,8] and their kinds [count]."""
    kinds = rng.integers(0, len(CLASSES), count)
    return np.stack([sample(rng, kind) for kind in kinds]), kinds


def scaled(gaps: np.ndarray) -> np.ndarray:
    """Large gaps made small, their signs kept."""
    return np.sign(gaps) * np.log(np.abs(gaps) + 1)


def forward(w: Weights, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Hidden values and probabilities."""
    hidden = np.tanh(x @ w["in"] + w["in_bias"])
    logits = hidden @ w["out"] + w["out_bias"]
    odds = np.exp(logits - logits.max(1, keepdims=True))
    return hidden, odds / odds.sum(1, keepdims=True)


def gradients(w: Weights, x: np.ndarray, kinds: np.ndarray) -> Weights:
    """Of the mean cross entropy."""
    hidden, p = forward(w, x)
    d_logits = (p - np.eye(len(CLASSES))[kinds]) / len(x)
    d_hidden = (d_logits @ w["out"].T) * (1 - hidden**2)
    return {
        "in": x.T @ d_hidden,
        "in_bias": d_hidden.sum(0),
        "out": hidden.T @ d_logits,
        "out_bias": d_logits.sum(0),
    }


def train(rng: np.random.Generator, x: np.ndarray, kinds: np.ndarray) -> Weights:
    """Stochastic gradient descent with momentum."""
    w: Weights = {
        "in": rng.normal(0, 0.3, (GAPS, HIDDEN)),
        "in_bias": np.zeros(HIDDEN),
        "out": rng.normal(0, 0.3, (HIDDEN, len(CLASSES))),
        "out_bias": np.zeros(len(CLASSES)),
    }
    speed = {name: np.zeros_like(value) for name, value in w.items()}
    for _ in range(EPOCHS):
        for chosen in rng.permutation(len(x)).reshape(-1, BATCH):
            for name, gradient in gradients(w, x[chosen], kinds[chosen]).items():
                speed[name] = 0.9 * speed[name] - 0.02 * gradient
                w[name] += speed[name]
    return {name: value.astype(np.float32) for name, value in w.items()}


def model(w: Weights) -> onnx.ModelProto:
    """The network as ONNX, the scaling of its inputs included."""
    nodes = [
        helper.make_node("Abs", ["gaps"], ["sizes"]),
        helper.make_node("Add", ["sizes", "one"], ["above"]),
        helper.make_node("Log", ["above"], ["logs"]),
        helper.make_node("Sign", ["gaps"], ["signs"]),
        helper.make_node("Mul", ["signs", "logs"], ["x"]),
        helper.make_node("Gemm", ["x", "in", "in_bias"], ["sums"]),
        helper.make_node("Tanh", ["sums"], ["hidden"]),
        helper.make_node("Gemm", ["hidden", "out", "out_bias"], ["logits"]),
        helper.make_node("Softmax", ["logits"], ["kinds"]),
    ]
    constants = {"one": np.ones(1, np.float32), **w}
    graph = helper.make_graph(
        nodes,
        "access",
        [helper.make_tensor_value_info("gaps", TensorProto.FLOAT, [1, GAPS])],
        [helper.make_tensor_value_info("kinds", TensorProto.FLOAT, [1, len(CLASSES)])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.checker.check_model(made, full_check=True)
    return made


def main() -> None:
    """Make data, train, check on data not seen, write the model."""
    rng = np.random.default_rng(7)
    gaps, kinds = data(rng, SAMPLES)
    w = train(rng, scaled(gaps), kinds)
    unseen, right = data(rng, 2000)
    accuracy = float(np.mean(forward(w, scaled(unseen))[1].argmax(1) == right))
    print(f"accuracy on 2000 samples not seen: {accuracy:.3f}")
    if accuracy < REQUIRED_ACCURACY:
        raise SystemExit(f"accuracy is below {REQUIRED_ACCURACY}: nothing written")
    OUTPUT.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model(w), OUTPUT)
    print(f"wrote {OUTPUT}")


if __name__ == "__main__":
    main()
