"""Fusion on text: what joins, and what must not."""

from __future__ import annotations

import re

import numpy as np
import pytest
from onnx import parser

import ingot
from ingot.frontends.onnx import read_model
from ingot.loops.region import formulate_graph, groups
from ingot.loops.region_passes.fuse import fuse
from ingot.ops.infer import infer
from ingot.passes.prune import prune
from tests.here import require_runs

HEAD = '<ir_version: 10, opset_import: ["" : 17]>\n'


def fused(text: str) -> list[str]:
    """The nodes of each group after fusion, by their operators' first letters."""
    graph = prune(infer(read_model(parser.parse_model(HEAD + text))))
    return ["+".join(g.nodes) for g in groups(fuse(formulate_graph(graph)))]


CASES = {
    "chain": (
        "g (float[4] x) => (float[4] y) { a = Relu(x) b = Tanh(a) y = Exp(b) }",
        ["Relu+Tanh+Exp"],
    ),
    "residual": (
        "g (float[2,3] x, float[3,3] w) => (float[2,3] y) { a = MatMul(x, w) b = Add(a, x) y = Relu(b) }",
        ["MatMul+Add+Relu"],
    ),
    "a gate and what it gates": (
        "g (float[2,3] x, float[3,3] w) => (float[2,3] y) { a = MatMul(x, w) b = Sigmoid(a) y = Mul(a, b) }",
        ["MatMul+Sigmoid+Mul"],
    ),
    "a tensor twice among the parts": (
        "g (float[2,3] x, float[3,3] w) => (float[4,3] y) "
        "{ a = MatMul(x, w) c = Concat<axis=0>(a, a) y = Neg(c) }",
        ["MatMul", "Neg", "Neg", "Concat"],
    ),
    "a map read twice is not computed twice": (
        "g (float[4] x) => (float[4] y) { a = Relu(x) b = Sigmoid(a) y = Mul(a, b) }",
        ["Relu", "Sigmoid+Mul"],
    ),
    "two readers": (
        "g (float[4] x) => (float[4] y, float[4] z) { a = Relu(x) y = Tanh(a) z = Exp(a) }",
        ["Relu", "Tanh", "Exp"],
    ),
    "an output of the model": (
        "g (float[4] x) => (float[4] a, float[4] y) { a = Relu(x) y = Tanh(a) }",
        ["Relu", "Tanh"],
    ),
    "broadcast makes more points": (
        "g (float[1,3] x, float[2,3] z) => (float[2,3] y) { a = Relu(x) y = Add(a, z) }",
        ["Relu", "Add"],
    ),
    "a tensor put together": (
        "g (float[2,3] x, float[4,3] z) => (float[6,3] y) { a = Concat<axis=0>(x, z) y = Relu(a) }",
        ["Relu", "Relu", "Concat"],
    ),
    "the maker of a part": (
        "g (float[2,3] x) => (float[4,3] y) { s = Exp(x) a = Concat<axis=0>(x, s) y = Relu(a) }",
        ["Relu", "Exp+Relu", "Concat"],
    ),
    "a part that others read": (
        "g (float[2,3] x) => (float[4,3] y, float[2,3] z) "
        "{ s = Exp(x) a = Concat<axis=0>(x, s) y = Relu(a) z = Tanh(s) }",
        ["Exp", "Relu", "Relu", "Concat", "Tanh"],
    ),
    "a copy of a copy puts nothing together": (
        "g (float[1,6,2] x) => (float[1,6,2] y) "
        "<float[6] roi = {0, 0, 0, 1, 1, 1}, int64[3] shape = {1, 6, 2}> "
        '{ a = Resize<coordinate_transformation_mode = "tf_crop_and_resize">(x, roi, , shape) y = Relu(a) }',
        ["Resize+Relu"],
    ),
    "a maker of several values cannot move down": (
        "g (float[4] x) => (float[2] y, float[2] z) { a, b = Split<axis=0>(x) y = Relu(a) z = Tanh(b) }",
        ["Split", "Relu", "Tanh"],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_fuse(name: str) -> None:
    text, wanted = CASES[name]
    assert fused(text) == wanted


def test_a_long_chain_is_cut() -> None:
    steps = " ".join(f"x{i + 1} = Relu(x{i})" for i in range(500))
    assert len(fused(f"g (float[4] x0) => (float[4] x500) {{ {steps} }}")) < 100


# fmt: off
UNARY = [
    "Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Celu", "Ceil", "Cos", "Cosh", "Elu",
    "Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish", "IsInf", "IsNaN", "LeakyRelu", "Log",
    "Mish", "Neg", "Reciprocal", "Relu", "Round", "Selu", "Sigmoid", "Sign", "Sin", "Sinh",
    "Softplus", "Softsign", "Sqrt", "Tan", "Tanh", "ThresholdedRelu",
]
# fmt: on


@pytest.mark.parametrize("target", ["x86-64", "x86-64-v3", "x86-64-v4", "aarch64"])
def test_whatever_follows_a_product_has_a_form_in_its_registers(target: str) -> None:
    require_runs(target)
    outputs = ", ".join(f"{'bool' if op.startswith('Is') else 'float'}[3,19] y{op}" for op in UNARY)
    weights = "".join(f", float[5,19] w{op}" for op in UNARY)
    nodes = " ".join(f"t{op} = MatMul(x, w{op}) y{op} = {op}(t{op})" for op in UNARY)
    text = f'<ir_version: 10, opset_import: ["" : 20]> g (float[3,5] x{weights}) => ({outputs}) {{ {nodes} }}'
    model, rng = parser.parse_model(text), np.random.default_rng(4)
    given = {
        i.name: rng.standard_normal((3 if i.name == "x" else 5, i.type.tensor_type.shape.dim[1].dim_value))
        for i in model.graph.input
    }
    feeds = {name: array.astype(np.float32) for name, array in given.items()}
    found, wanted = (ingot.compile(model, target=t).run(feeds) for t in (target, "c99"))
    for name, array in wanted.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-4, atol=1e-5, err_msg=name)


CONDITIONS = {
    "bool": "y = Less(t, c)",
    "less": "b = Less(t, c) y = Cast<to=1>(b)",
    "twice": "b = Less(t, c) d = Greater(t, e) f = And(b, d) y = Cast<to=1>(f)",
    "either": "b = Less(t, c) d = Greater(t, e) f = Xor(b, d) y = Cast<to=1>(f)",
    "alike": "b = Less(t, c) d = Greater(t, e) f = Equal(b, d) y = Cast<to=1>(f)",
    "not": "b = Less(t, c) d = Not(b) y = Cast<to=1>(d)",
    "masked": "b = Less(t, c) d = Cast<to=1>(b) y = Mul(t, d)",
    "chosen": "b = Less(t, c) d = Greater(t, e) f = Xor(b, d) y = Where(f, t, c)",
    "nan": "b = IsNaN(t) d = Not(b) y = Cast<to=1>(d)",
    "zero": "b = Cast<to=9>(t) y = Cast<to=1>(b)",
    "whole": "b = Cast<to=6>(t) d = Abs(b) f = Equal(d, i) y = Cast<to=1>(f)",
    "wide": "b = Cast<to=7>(t) d = Cast<to=7>(c) f = Less(b, d) y = Cast<to=1>(f)",
    "limits": "b = Mul(t, large) d = Cast<to=6>(b) y = Cast<to=1>(d)",
}
PRODUCTS = {
    "MatMul": ("float[5,8] x, float[8,19] w", "t = MatMul(x, w)", "5,19"),
    "few columns": ("float[630,2] x", "t = MatMul(x, k)", "630,4"),
    "narrow": ("float[6,8] x, float[8,5] w", "t = MatMul(x, w)", "6,5"),
    "transposed": ("float[5,8] x, float[19,8] w", "t = Gemm<transB=1>(x, w)", "5,19"),
    "Conv": ("float[1,16,9,7] x, float[16,16,3,3] w", "t = Conv<pads=[1,1,1,1]>(x, w)", "1,16,9,7"),
    "depthwise": ("float[1,16,9,7] x, float[16,1,3,3] w", "t = Conv<group=16>(x, w)", "1,16,7,5"),
    "mean": ("float[1,16,9,7] x, float[1] w", "t = AveragePool<kernel_shape=[3,3]>(x)", "1,16,7,5"),
}


@pytest.mark.parametrize("target", ["x86-64-v4", "aarch64"])
@pytest.mark.parametrize("product", PRODUCTS)
def test_conditions_after_a_product(target: str, product: str) -> None:
    """Comparisons and casts, which registers of sums have no form for, are made element by element."""
    require_runs(target)
    inputs, made, shape = PRODUCTS[product]
    constants = (
        "<float c = {0.2}, float e = {-0.3}, int32 i = {1}, float large = {1e10}, "
        "float[2,4] k = {1, -2, 0.5, 3, -1, 0.25, 2, 1}>"
    )
    outputs = ", ".join(f"{'bool' if n == 'bool' else 'float'}[{shape}] y_{n}" for n in CONDITIONS)
    nodes = " ".join(
        re.sub(r"\b[tbdfy]\b", rf"\g<0>_{name}", f"{made} {after}") for name, after in CONDITIONS.items()
    )
    text = f'<ir_version: 10, opset_import: ["" : 20]> g ({inputs}) => ({outputs}) {constants} {{ {nodes} }}'
    model, rng = parser.parse_model(text), np.random.default_rng(4)
    feeds = {
        i.name: rng.standard_normal([d.dim_value for d in i.type.tensor_type.shape.dim], np.float32)
        for i in model.graph.input
    }
    found, wanted = (ingot.compile(model, target=t).run(feeds) for t in (target, "c99"))
    for name, array in wanted.items():
        near = 1e-4 * max(1.0, float(array.max()))
        np.testing.assert_allclose(found[name], array, rtol=0, atol=near, err_msg=name)
