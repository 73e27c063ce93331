"""Quantised models run in any runtime, answer nearly as the float ones, and become integer layers."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import ingot
from ingot.driver import front
from ingot.errors import InputError
from ingot.options import Options
from ingot.quantization.quantize import quantize
from ingot.quantization.scheme import Scheme, parse_calibration
from tests.quantize.nets import answers, images, net, normal, profile_of, quantized, residual, sqnr

RNG = np.random.default_rng(3)
MODEL = residual(RNG)
FEEDS = images(RNG, 24, 1, 3, 8, 8)
PROFILE = profile_of(MODEL, FEEDS)
FLOATS = answers(MODEL, FEEDS)
SCHEMAS = {"asymmetric": 20, "symmetric": 17, "symmetric_with_uint8": 20, "symmetric_with_power2_scale": 14}
"""The least signal to noise of the small net, in decibels."""
METHODS = ("minmax", "mse", "entropy", "percentile", "percentile:99.9")


def made(**scheme: object) -> onnx.ModelProto:
    return quantize(MODEL, PROFILE, Scheme(**scheme), {}).model  # type: ignore[arg-type]


def operators(model: onnx.ModelProto) -> set[str]:
    return {n.op for n in front(model, Options()).nodes}


@pytest.mark.parametrize("schema", SCHEMAS)
def test_schemas_answer_nearly_as_floats_do(schema: str) -> None:
    model = made(schema=schema)
    onnx.checker.check_model(model, full_check=True)
    assert sqnr(FLOATS, answers(model, FEEDS)) > SCHEMAS[schema]
    assert not {"Conv", "Gemm", "MatMul"} & operators(model)
    scales = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer if "_scale" in t.name}
    zeros = [onnx.numpy_helper.to_array(t) for t in model.graph.initializer if "_zero_point" in t.name]
    if schema != "asymmetric":
        assert not any(a.any() for a in zeros)
    if schema == "symmetric_with_power2_scale":
        assert all((np.frexp(a)[0] == 0.5).all() for a in scales.values())
    assert (schema == "symmetric_with_uint8") == (np.dtype(np.uint8) in {a.dtype for a in zeros})


@pytest.mark.parametrize("method", METHODS)
def test_calibrations_answer_nearly_as_floats_do(method: str) -> None:
    assert sqnr(FLOATS, answers(made(calibration=parse_calibration(method)), FEEDS)) > 14


@pytest.mark.parametrize(
    ("target", "scheme"),
    [("x86-64-v3", {}), ("c99", {"schema": "symmetric_with_uint8", "edge": "int8"})],
)
def test_a_bundle_has_the_bytes_of_onnxruntime(target: str, scheme: dict[str, str]) -> None:
    """Also where operands are uint8 and results int8."""
    model = net(
        "c = Conv<pads=[1,1,1,1]>(x, w) r = Relu(c) p = MaxPool<kernel_shape=[2,2], strides=[2,2]>(r) "
        "v = Flatten(p) y = Gemm(v, m, b)",
        {"w": normal(RNG, 8, 3, 3, 3), "m": normal(RNG, 128, 10), "b": normal(RNG, 10)},
        "(float[1,3,8,8] x) => (float[1,10] y)",
    )
    made = quantized(model, FEEDS, **scheme)
    found, how = made.model, made.plan.tensors["x"]
    assert not {"Conv", "Gemm", "Relu"} & operators(found)
    bundle = ingot.compile(found, target=target)
    feeds = [{"x": how.quantised(f["x"])} if "edge" in scheme else f for f in FEEDS[:4]]
    for feed, wanted in zip(feeds, answers(found, feeds), strict=True):
        np.testing.assert_array_equal(bundle.run(feed)["y"], wanted)


def test_tensors_keep_their_names_and_biases_their_units() -> None:
    model = made()
    results = {name for node in model.graph.node for name in node.output}
    assert {"r0", "r1", "r2", "p", "v", "o", "y"} <= results
    assert not {"c0", "c1", "f"} & results  # folded
    arrays = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}
    biases = [node for node in model.graph.node if node.op_type == "DequantizeLinear" and "bias" in node.name]
    assert biases and all(arrays[n.input[0]].dtype == np.int32 for n in biases)
    assert all(
        a.dtype == np.int8 for name, a in arrays.items() if name.startswith("w") and "quantized" in name
    )


def test_moves_share_what_they_move() -> None:
    tensors = quantize(MODEL, PROFILE, Scheme(), {}).plan.tensors
    assert tensors["m"] is tensors["p"] is tensors["t"] is tensors["v"]
    assert not {"n0", "a", "d", "s3", "y"} & set(tensors)  # in registers, or the caller's


@pytest.mark.parametrize("edge", ["int8", "uint8"])
def test_the_edge_in_integers(edge: str) -> None:
    model = made(edge=edge)
    kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(edge))
    assert {v.type.tensor_type.elem_type for v in (*model.graph.input, *model.graph.output)} == {kind}
    how = quantize(MODEL, PROFILE, Scheme(edge=edge), {}).plan.tensors  # type: ignore[arg-type]
    given = [{"x": how["x"].quantised(feed["x"])} for feed in FEEDS]
    assert sqnr(FLOATS, how["y"].numbers(answers(model, given))) > 20


def test_sixteen_bits_lose_nearly_nothing() -> None:
    assert sqnr(FLOATS, answers(made(precision="int16x8"), FEEDS)) > 30


def test_outputs_may_leave_their_shape_open_in_a_newer_opset() -> None:
    """ONNX's checker, which guards its converter of opsets, asks for shapes that no runtime needs."""
    model = onnx.ModelProto()
    model.CopyFrom(MODEL)
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")
    found = quantize(model, profile_of(model, FEEDS), Scheme(precision="int16x8"), {}).model
    assert found.opset_import[0].version == 21
    assert not found.graph.output[0].type.tensor_type.HasField("shape")


@pytest.mark.parametrize("bits", ["int16", "int8"])
def test_biases_of_fewer_bits(bits: str) -> None:
    model = made(bias_precision=bits)
    assert sqnr(FLOATS, answers(model, FEEDS)) > 15
    kinds = {t.data_type for t in model.graph.initializer if "bias" in t.name and "quantized" in t.name}
    assert kinds == {onnx.helper.np_dtype_to_tensor_dtype(np.dtype(bits))}


def test_one_scale_for_a_weight() -> None:
    model = made(per_tensor=True)
    assert not any(a.name == "axis" for n in model.graph.node if "Dequ" in n.op_type for a in n.attribute)
    assert sqnr(FLOATS, answers(made(), FEEDS)) > sqnr(FLOATS, answers(model, FEEDS)) > 8


def test_nodes_are_kept_float_by_pattern() -> None:
    found = quantize(MODEL, PROFILE, Scheme(keep_float=("Gemm", "r1*", "s?")), {})
    assert found.plan.floats == {"o": "asked for"} | dict.fromkeys(
        ("s0", "s1", "s2", "s3", "r1"), "asked for"
    )
    assert {n.op_type for n in found.model.graph.node if "o" in n.output} == {"Gemm"}
    with pytest.raises(InputError, match="--keep-float conv9: no node has such a name"):
        made(keep_float=("conv9",))


def test_all_or_an_error_that_names_them() -> None:
    assert not quantize(MODEL, PROFILE, Scheme(assert_all=True), {}).plan.floats
    with pytest.raises(InputError, match=r"1 nodes stay float: r0 \(Relu\): asked for"):
        made(assert_all=True, keep_float=("r0",))


def test_bias_correction_takes_the_mean_error_away() -> None:
    """Coarse weights and operands whose means are far from 0: what Nagel et al. correct."""
    rng = np.random.default_rng(5)
    weights = normal(rng, 16, 8, 3, 3, size=0.02)
    weights[:, 0, 0, 0] = 2.0  # the rest has few levels
    model = net("y = Conv(x, w)", {"w": weights}, "(float[1,8,6,6] x) => (float[1,16,4,4] y)")
    feeds = [{"x": np.abs(f["x"]) + 2} for f in images(rng, 16, 1, 8, 6, 6)]
    wanted = answers(model, feeds)
    off = {
        is_on: np.abs(
            (answers(quantized(model, feeds, bias_correction=is_on).model, feeds) - wanted).mean((0, 1, 3, 4))
        )
        for is_on in (True, False)
    }
    assert off[True].mean() < off[False].mean() / 4


def test_a_profile_must_know_the_tensors() -> None:
    other = net("y = Conv(x, w)", {"w": normal(RNG, 4, 3, 3, 3)}, "(float[1,3,8,8] x) => (float[1,4,6,6] y)")
    renamed = net(
        "z = Conv(x, w)", {"w": normal(RNG, 4, 3, 3, 3)}, "(float[1,3,8,8] x) => (float[1,4,6,6] z)"
    )
    with pytest.raises(InputError, match="does not say what tensor 'z' holds"):
        quantize(renamed, profile_of(other, FEEDS[:1]), Scheme(), {})


def test_attention_multiplies_integers() -> None:
    """Products with biases over more than two axes are dense layers; softmax has a fixed range."""
    rng = np.random.default_rng(2)
    constants = {f"w{i}": normal(rng, 16, 16, size=0.25) for i in range(4)}
    constants |= {f"b{i}": normal(rng, 16, size=0.1) for i in range(4)}
    constants |= {"scale": np.array(0.25, np.float32), "gamma": np.ones(16, np.float32)}
    model = net(
        "n = LayerNormalization(x, gamma) q0 = MatMul(n, w0) q = Add(q0, b0) k0 = MatMul(n, w1) "
        "k = Add(b1, k0) v0 = MatMul(n, w2) v = Add(v0, b2) t = Transpose<perm=[0,2,1]>(k) s = MatMul(q, t) "
        "z = Mul(s, scale) p = Softmax(z) a = MatMul(p, v) o = MatMul(a, w3) f = Add(o, b3) y = Add(f, x)",
        constants,
        "(float[2,6,16] x) => (float[2,6,16] y)",
    )
    feeds = images(rng, 16, 2, 6, 16)
    found = quantized(model, feeds)
    assert sqnr(answers(model, feeds), answers(found.model, feeds)) > 30
    assert found.plan.tensors["p"].scale == np.float32(1 / 256) and "n" in found.plan.tensors
    assert not {"y", "q0", "z"} & set(found.plan.tensors)
    kinds = [n.op for n in front(found.model, Options()).nodes]
    assert kinds.count("QGemm") == 4 and kinds.count("MatMul") == 2


def test_a_node_named_as_another_s_result() -> None:
    rng = np.random.default_rng(2)
    model = net(
        "a = Gemm(x, w1) b = Relu(a) y = Gemm(b, w2)",
        {"w1": normal(rng, 8, 8), "w2": 9 * normal(rng, 8, 8)},
        "(float[4,8] x) => (float[4,8] y)",
    )
    model.graph.node[2].name = "a"
    feeds = images(rng, 8, 4, 8)
    assert sqnr(answers(model, feeds), answers(quantized(model, feeds).model, feeds)) > 30


def test_a_model_without_float32_is_refused() -> None:
    halves = {"w": normal(RNG, 4, 3, 3, 3).astype(np.float16)}
    model = net("y = Conv(x, w)", halves, "(float16[1,3,8,8] x) => (float16[1,4,6,6] y)")
    with pytest.raises(InputError, match="no float32 layer to quantise"):
        quantize(model, PROFILE, Scheme(), {})
