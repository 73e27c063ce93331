"""The models that the bundle tests compile, and their bundles, each compiled once."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import ingot

Array = np.ndarray[Any, Any]


def random(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32) / 4


def made(
    nodes: list[onnx.NodeProto],
    inputs: dict[str, tuple[Any, ...]],
    outputs: dict[str, tuple[Any, ...]],
    constants: dict[str, Array],
    types: dict[str, int] | None = None,
) -> onnx.ModelProto:
    """A float32 model; `types` names the exceptions."""

    def infos(values: dict[str, tuple[Any, ...]]) -> list[onnx.ValueInfoProto]:
        kinds = types or {}
        return [
            helper.make_tensor_value_info(n, kinds.get(n, TensorProto.FLOAT), s) for n, s in values.items()
        ]

    held = [numpy_helper.from_array(a, n) for n, a in constants.items()]
    graph = helper.make_graph(nodes, "net", infos(inputs), infos(outputs), held)
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])


def small(image: str = "image", scores: str = "scores") -> onnx.ModelProto:
    """Convolution, ReLU, dense layer, softmax."""
    nodes = [
        helper.make_node("Conv", [image, "kernel", "bias"], ["c"], name="conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"], name="relu"),
        helper.make_node("Flatten", ["r"], ["f"], name="flatten"),
        helper.make_node("Gemm", ["f", "matrix", "offset"], ["z"], name="dense"),
        helper.make_node("Softmax", ["z"], [scores], name="softmax"),
    ]
    constants = {
        "kernel": random(3, 1, 3, 3, seed=1),
        "bias": random(3, seed=2),
        "matrix": random(108, 5, seed=3),
        "offset": random(5, seed=4),
    }
    return made(nodes, {image: (1, 1, 6, 6)}, {scores: (1, 5)}, constants)


def recurrent() -> onnx.ModelProto:
    """One step of a net whose state the caller carries: h' = tanh(xW + hU + b), p = softmax(h'V)."""
    nodes = [
        helper.make_node("MatMul", ["x", "W"], ["xw"], name="input"),
        helper.make_node("MatMul", ["state_in", "U"], ["hu"], name="hidden"),
        helper.make_node("Add", ["xw", "hu"], ["s"], name="sum"),
        helper.make_node("Add", ["s", "b"], ["z"], name="shift"),
        helper.make_node("Tanh", ["z"], ["state_out"], name="tanh"),
        helper.make_node("MatMul", ["state_out", "V"], ["l"], name="policy"),
        helper.make_node("Softmax", ["l"], ["action"], name="softmax"),
    ]
    inputs, outputs = {"x": (1, 9), "state_in": (1, 32)}, {"action": (1, 5), "state_out": (1, 32)}
    return made(nodes, inputs, outputs, recurrent_weights())


def recurrent_weights() -> dict[str, Array]:
    return {
        "W": random(9, 32, seed=5),
        "U": random(32, 32, seed=6),
        "b": random(32, seed=7),
        "V": random(32, 5, seed=8) * 4,
    }


def recurrent_runs(runs: int) -> list[Array]:
    """The actions of `runs` steps from state 0, x = 0.1 * i, in float64."""
    w = {k: v.astype(np.float64) for k, v in recurrent_weights().items()}
    x, h, out = 0.1 * np.arange(9)[None], np.zeros((1, 32)), []
    for _ in range(runs):
        h = np.tanh(x @ w["W"] + h @ w["U"] + w["b"])
        e = np.exp(h @ w["V"])
        out.append((e / e.sum())[0])
    return out


def image() -> Array:
    return (np.arange(36) % 7 / 4 - 0.5).astype(np.float32).reshape(1, 1, 6, 6)


@functools.cache
def bundle(name: str = "net", *, of: str = "small", **options: Any) -> ingot.Bundle:
    """The bundle of one of the models above; every file that does not cost a second compilation."""
    options.setdefault("emit", ("c", "obj", "weights-bin", "weights-txt"))
    return ingot.compile({"small": small, "recurrent": recurrent}[of](), name=name, **options)


@functools.cache
def scores() -> Array:
    """What `small` answers to `image()`, from onnx's reference evaluator."""
    from onnx.reference import ReferenceEvaluator

    found: Array = ReferenceEvaluator(small()).run(None, {"image": image()})[0]
    return found
