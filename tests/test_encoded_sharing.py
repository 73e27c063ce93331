"""Encoded layers of equal shape are one function of C, which is given weights, codes and values."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

import ingot
from tests.encoded import one_node, random_codes, sparse
from tests.fuzz.levels import compiled
from tests.ops.rows import check

DEPTH, SIZE = 3, 40


def chain(kind: str, densities: tuple[float, ...]) -> onnx.ModelProto:
    """Gemm and Relu, so many times, with weights of so many entries."""
    codes = {f"w{i}": random_codes((SIZE, SIZE), d, seed=i) for i, d in enumerate(densities)}
    weights = {n: sparse(c) if kind == "sparse" else c for n, c in codes.items()}
    last = len(densities) - 1
    first = helper.make_node("Gemm", ["x", "w0"], ["h0"], "fc0", transB=1)
    model = one_node(first, {"x": (1, SIZE)}, {}, weights)
    for i in range(len(densities)):
        if i:
            model.graph.node.append(
                helper.make_node("Gemm", [f"r{i - 1}", f"w{i}"], [f"h{i}"], f"fc{i}", transB=1)
            )
        model.graph.node.append(helper.make_node("Relu", [f"h{i}"], [f"r{i}"]))
    model.graph.output[0].name = f"r{last}"
    return model


def functions(bundle: ingot.Bundle) -> set[str]:
    """The functions of the kernels that multiply."""
    return {k["name"] for k in bundle.manifest["kernels"] if k["macs"]}


@pytest.mark.parametrize(
    ("kind", "target"),
    [
        ("sparse", "c99"),
        ("sparse", "armv7e-m"),
        ("sparse", "x86-64-v4"),
        ("codebook", "c99"),
        ("codebook", "armv7e-m"),
    ],
)
def test_layers_of_equal_shape_share_a_function(kind: str, target: str) -> None:
    """However many entries each has; the manifest says of each layer how its own weights are stored."""
    model = chain(kind, (0.2, 0.25, 0.2) if kind == "sparse" else (0.99, 0.95, 0.9))
    made = ingot.compile(model, target=target, name="net", emit=("c",))
    assert len(functions(made)) == 1
    notes = [k["notes"] for k in made.manifest["kernels"] if k["macs"]]
    assert [note[0].partition(":")[0] for note in notes] == ["w0", "w1", "w2"]
    (name,) = functions(made)
    text = made.files["net.c"].decode()
    assert text.count(f"void {name}(") == 1 and text.count(f"    {name}(") == DEPTH


@pytest.mark.parametrize("kind", ["sparse", "codebook"])
def test_what_is_shared_computes_each_layer(kind: str) -> None:
    model = chain(kind, (0.2, 0.3, 0.1))
    x = np.abs(np.random.default_rng(1).standard_normal((1, SIZE))).astype(np.float32)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for target in ("c99", "x86-64-v3"):
        check(compiled(target)(model, {"x": x}), session.run(None, {"x": x}), 1e-5, f"C for {target}")


def test_layers_in_other_forms_have_their_own_functions() -> None:
    """An entry of eight bits and a code for each weight are not read alike."""
    made = ingot.compile(chain("sparse", (0.2, 0.9, 0.2)), target="c99", name="net", emit=("c",))
    assert len(functions(made)) == 2
