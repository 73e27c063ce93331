"""QDQ models compute on integers: as onnxruntime's own rewriting does, and only where that means the same."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import parser
from onnx.reference import ReferenceEvaluator

import ingot
from ingot.driver import front, stages
from ingot.formula.expr import Array
from ingot.loops.evaluate import run
from ingot.loops.program import Call, calls
from ingot.options import Options
from tests.oracles import exact_session

TARGETS = ("x86-64-v3", "x86-64-v4-vnni", "aarch64-dotprod", "armv7e-m", "c99")
RANDOM = np.random.default_rng(7)


def weights(*shape: int) -> Array:
    return RANDOM.integers(-127, 128, shape).astype(np.int8)


CONSTANTS: dict[str, Array] = {
    "s": np.array(0.03, np.float32),
    "s2": np.array(0.05, np.float32),
    "big": np.array(0.9, np.float32),
    "six": np.array(6 / 255, np.float32),
    "z": np.array(128, np.uint8),
    "z0": np.array(0, np.uint8),
    "z3": np.array(3, np.uint8),
    "zi": np.array(-5, np.int8),
    "w": weights(8, 4, 3, 3),
    "dw": weights(4, 1, 3, 3),
    "ws": np.array(0.004, np.float32),
    "wss": RANDOM.uniform(0.001, 0.004, 8).astype(np.float32),
    "wz": np.array(0, np.int8),
    "wzs": np.zeros(8, np.int8),
    "b": RANDOM.integers(-3000, 3000, 8).astype(np.int32),
    "bs": np.array(0.03 * 0.004, np.float32),
    "bz": np.array(0, np.int32),
    "fb": RANDOM.standard_normal(8).astype(np.float32),
    "m": weights(36, 8),
    "mt": weights(8, 36),
    "zero": np.array(0, np.float32),
    "top": np.array(6, np.float32),
    "low": np.array(0.1, np.float32),
    "flat": np.array([2, 36], np.int64),
    "axes": np.array([2, 3], np.int64),
    "wider": np.array([2, 4, 6, 8], np.int64),
}


def model(nodes: str, used: tuple[str, ...] = ()) -> onnx.ModelProto:
    """The nodes on x, uint8 images of four channels, with the constants that they name."""
    kind = "int8" if nodes.endswith("zi)") else "uint8"
    proto = parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 21]> g (uint8[2,4,9,7] qx) => ({kind} y) {{
        x = DequantizeLinear(qx, s, z)
        {nodes} }}"""
    )
    names = {i for n in proto.graph.node for i in n.input}
    arrays = [onnx.numpy_helper.from_array(a, n) for n, a in CONSTANTS.items() if n in names]
    proto.graph.initializer.extend(arrays)
    del proto.graph.output[0].type.tensor_type.shape.dim[:]
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    return proto


def feed() -> dict[str, Array]:
    return {"qx": np.random.default_rng(8).integers(0, 256, (2, 4, 9, 7)).astype(np.uint8)}


CONV = "fw = DequantizeLinear(w, ws, wz) "
PER_CHANNEL = "fw = DequantizeLinear<axis=0>(w, wss, wzs) "
BIAS = "f = DequantizeLinear(b, bs, bz) "
EXACT = {
    "convolution": CONV + "c = Conv<pads=[1,1,1,1]>(x, fw) y = QuantizeLinear(c, big, z)",
    "a bias": CONV + BIAS + "c = Conv<pads=[0,1,2,0]>(x, fw, f) y = QuantizeLinear(c, big, z)",
    "a scale per channel": PER_CHANNEL + "c = Conv<strides=[2,2]>(x, fw) y = QuantizeLinear(c, big, z)",
    "relu from zero on": CONV
    + "c = Conv(x, fw) r = Relu(c) y = QuantizeLinear(c1, s2, z0)".replace("c1", "r"),
    "relu above the lowest integer": CONV + "c = Conv(x, fw) r = Relu(c) y = QuantizeLinear(r, s2, z3)",
    "relu of six": CONV + "c = Conv(x, fw) r = Clip(c, zero, top) y = QuantizeLinear(r, six, z0)",
    "depthwise": "fw = DequantizeLinear(dw, ws, wz) "
    "c = Conv<group=4, pads=[1,1,1,1]>(x, fw) y = QuantizeLinear(c, s2, z)",
    "pooling": "p = MaxPool<kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]>(x) "
    "y = QuantizeLinear(p, s, z)",
    "moves": "t = Transpose<perm=[0,2,3,1]>(x) r = Flatten(t) y = QuantizeLinear(r, s, z)",
    "a clip of what is dequantised": "r = Relu(x) y = QuantizeLinear(r, s, z)",
    "two in a row": CONV + "c = Conv(x, fw) r = Relu(c) q = QuantizeLinear(r, s2, z0) "
    "d = DequantizeLinear(q, s2, z0) p = MaxPool<kernel_shape=[2,2]>(d) k = QuantizeLinear(p, s2, z0) "
    "e = DequantizeLinear(k, s2, z0) t = Transpose<perm=[0,2,3,1]>(e) y = QuantizeLinear(t, s2, z0)",
}
DENSE = (
    "p = MaxPool<kernel_shape=[3,3], strides=[3,3]>(x) t = Slice(p, first, last, axis) "
    "v = Reshape(t, flat) k = QuantizeLinear(v, s, z) i = DequantizeLinear(k, s, z) "
)
CONSTANTS |= {
    "one": np.array(1, np.float32),
    "signs": RANDOM.integers(-1, 2, (8, 4, 3, 3)).astype(np.int8),
    "few": RANDOM.standard_normal(4).astype(np.float32),
}
CONSTANTS |= {"first": np.array([0]), "last": np.array([4]), "axis": np.array([1])}
CONSTANTS["flat"] = np.array([2, -1], np.int64)
CONSTANTS["m"], CONSTANTS["mt"] = weights(24, 8), weights(8, 24)
EXACT |= {
    "a product": DENSE + "fw = DequantizeLinear(m, ws, wz) c = MatMul(i, fw) y = QuantizeLinear(c, big, z)",
    "dense": DENSE
    + "fw = DequantizeLinear(mt, ws, wz) "
    + BIAS
    + "c = Gemm<transB=1>(i, fw, f) y = QuantizeLinear(c, big, z)",
    "dense, a scale per output": DENSE + "fw = DequantizeLinear<axis=0>(mt, wss, wzs) "
    "c = Gemm<transB=1>(i, fw) r = Relu(c) y = QuantizeLinear(r, big, z0)",
    "a product of uint8 that is int8": DENSE
    + "fw = DequantizeLinear(m, ws, wz) c = MatMul(i, fw) y = QuantizeLinear(c, big, zi)",
    "dense of uint8 that is int8": DENSE
    + "fw = DequantizeLinear(mt, ws, wz) "
    + BIAS
    + "c = Gemm<transB=1>(i, fw, f) y = QuantizeLinear(c, big, zi)",
}


def operators(proto: onnx.ModelProto) -> list[str]:
    return [n.op for n in front(proto, Options()).nodes]


@pytest.mark.parametrize("name", EXACT)
def test_the_same_bytes_as_onnxruntime(name: str) -> None:
    proto = model(EXACT[name])
    (wanted,) = exact_session(proto).run(None, feed())
    assert not {"Conv", "Gemm", "MatMul", "QuantizeLinear", "DequantizeLinear"} & {*operators(proto)}
    for target in TARGETS:
        (got,) = run(stages(proto, Options(target=target)).program, feed())
        np.testing.assert_array_equal(got, wanted, target)
    for target in ("x86-64-v3", "c99"):
        got = ingot.compile(proto, target=target).run(feed())["y"]
        np.testing.assert_array_equal(got, wanted, f"C for {target}")


LIMITED = {
    "a sum": "a = Add(x, x) r = Relu(a) y = QuantizeLinear(r, s2, z0)",
    "zero within the integers": "a = Add(x, x) r = Relu(a) y = QuantizeLinear(r, s2, z3)",
    "limits between the integers": "a = Neg(x) r = Clip(a, low, top) y = QuantizeLinear(r, s2, z3)",
}


@pytest.mark.parametrize("name", LIMITED)
def test_what_is_quantised_is_limited_as_integers(name: str) -> None:
    proto = model(LIMITED[name])
    (wanted,) = exact_session(proto).run(None, feed())
    found = operators(proto)
    assert "Relu" not in found and "Clip" not in found[: found.index("QuantizeLinear")]
    for target in TARGETS:
        (got,) = run(stages(proto, Options(target=target)).program, feed())
        np.testing.assert_array_equal(got, wanted, target)
    np.testing.assert_array_equal(ingot.compile(proto, target="c99").run(feed())["y"], wanted)


BIASED = {
    "between the steps of the sums": (
        "o = DequantizeLinear(qx, one, z) fw = DequantizeLinear(signs, one, wz) c = Conv(o, fw, fb) "
        "y = QuantizeLinear(c, big, z)"
    ),
    "a convolution's": CONV + "c = Conv<pads=[0,1,2,0]>(x, fw, fb) y = QuantizeLinear(c, big, z)",
    "a scale per channel, relu": PER_CHANNEL
    + "c = Conv<strides=[2,2]>(x, fw, fb) r = Relu(c) y = QuantizeLinear(r, s2, z3)",
    "groups": "fw = DequantizeLinear(dw, ws, wz) "
    "c = Conv<group=4, pads=[1,1,1,1]>(x, fw, few) y = QuantizeLinear(c, s2, z)",
    "dense": DENSE + "fw = DequantizeLinear<axis=0>(mt, wss, wzs) "
    "c = Gemm<transB=1>(i, fw, fb) r = Clip(c, zero, top) y = QuantizeLinear(r, six, z0)",
    "dense of uint8 that is int8": DENSE
    + "fw = DequantizeLinear(m, ws, wz) c = Gemm(i, fw, fb) y = QuantizeLinear(c, big, zi)",
}


@pytest.mark.parametrize("name", BIASED)
def test_a_float_bias_is_added_to_scaled_sums(name: str) -> None:
    """Rounded to units of the sums, as onnxruntime's optimisations do, it moved what is near a tie."""
    proto, bytes_of = model(BIASED[name]), np.random.default_rng(9)
    as_written = onnxruntime.SessionOptions()
    as_written.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    oracle = exact_session(proto, as_written)
    assert {"ConvInteger", "QGemm"} & {*operators(proto)}
    programs = {t: stages(proto, Options(target=t)).program for t in TARGETS}
    for _ in range(4):
        fed = {"qx": bytes_of.integers(0, 256, (2, 4, 9, 7)).astype(np.uint8)}
        (wanted,) = oracle.run(None, fed)
        for target, program in programs.items():
            np.testing.assert_array_equal(run(program, fed)[0], wanted, target)


@pytest.mark.parametrize("target", (*TARGETS, "armv8.1m", "riscv64"))
@pytest.mark.parametrize("rows", (1, 2, 5))
def test_a_bias_for_each_row(target: str, rows: int) -> None:
    """What a sum begins with belongs to its row: tiles of two rows took that of the first for both."""
    bias = np.random.default_rng(rows).integers(-30000, 30000, (rows, 1)).astype(np.int32)
    proto = parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]> g (uint8[{rows},24] q) => (uint8 y)
        {{ y = com.microsoft.QGemm <transB=1> (q, s, z0, mt, ws, wz, rows, big, z) }}"""
    )
    arrays = {n: CONSTANTS[n] for n in ("s", "z0", "mt", "ws", "wz", "big", "z")} | {"rows": bias}
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(a, n) for n, a in arrays.items())
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    fed = {"q": np.random.default_rng(8).integers(0, 256, (rows, 24)).astype(np.uint8)}
    (wanted,) = exact_session(proto).run(None, fed)
    (got,) = run(stages(proto, Options(target=target)).program, fed)
    np.testing.assert_array_equal(got, wanted)


KEPT: dict[str, tuple[str, set[str]]] = {
    "others read the product": (
        CONV + "c = Conv(x, fw) r = Relu(c) a = Add(c, r) y = QuantizeLinear(a, big, z)",
        {"ConvInteger"},
    ),
    "weights that are data": (
        "a = MatMul(x, x7) y = QuantizeLinear(a, big, z)".replace("x7", "xt"),
        {"MatMul"},
    ),
    "another scale behind": (
        "p = MaxPool<kernel_shape=[2,2]>(x) y = QuantizeLinear(p, s2, z)",
        {"DequantizeLinear", "QuantizeLinear"},
    ),
    "a clip between integers": (
        "c = Clip(x, low, top) e = Exp(c) y = QuantizeLinear(e, big, z0)",
        {"Clip", "DequantizeLinear"},
    ),
    "a relu that others read": (
        CONV + "c = Conv(x, fw) r = Relu(c) q = QuantizeLinear(r, s2, z0) d = DequantizeLinear(q, s2, z0) "
        "a = Add(d, r) y = QuantizeLinear(a, big, z)",
        {"ConvInteger"},
    ),
}
CONSTANTS |= {
    "vector": weights(7),
    "vs": RANDOM.uniform(0.001, 0.004, 7).astype(np.float32),
    "vz": np.zeros(7, np.int8),
}
KEPT |= {
    "a vector with scales along its terms": (
        "fv = DequantizeLinear<axis=0>(vector, vs, vz) c = MatMul(x, fv) y = QuantizeLinear(c, s2, z)",
        {"MatMul"},
    ),
}
KEPT["weights that are data"] = (
    "xt = Transpose<perm=[0,1,3,2]>(x) a = MatMul(x, xt) y = QuantizeLinear(a, big, z)",
    {"MatMul"},
)


@pytest.mark.parametrize("name", KEPT)
def test_what_does_not_mean_the_same_stays(name: str) -> None:
    text, kept = KEPT[name]
    proto = model(text)
    assert kept <= {*operators(proto)}
    (wanted,) = exact_session(proto).run(None, feed())
    (got,) = run(stages(proto, Options(target="x86-64-v3")).program, feed())
    assert np.abs(got.astype(int) - wanted.astype(int)).max() <= 1


def test_a_residual_block_has_no_floats_in_memory() -> None:
    """What two branches make is dequantised, added and quantised in registers."""
    text = (
        "fw = DequantizeLinear(w4, ws, wz) c = Conv<pads=[1,1,1,1]>(x, fw) q = QuantizeLinear(c, s2, z) "
        "d = DequantizeLinear(q, s2, z) a = Add(d, x) r = Relu(a) y = QuantizeLinear(r, s2, z0)"
    )
    CONSTANTS["w4"] = weights(4, 4, 3, 3)
    proto = model(text)
    (wanted,) = exact_session(proto).run(None, feed())
    program = stages(proto, Options(target="x86-64-v4-vnni")).program
    (got,) = run(program, feed())
    assert np.abs(got.astype(int) - wanted.astype(int)).max() <= 1
    floats = [p.name for k in program.kernels for p in k.parameters if p.type.is_float and p.count > 8]
    assert not floats


@pytest.mark.parametrize("target", TARGETS[:3])
def test_layers_behind_a_pooling_of_one_scale_go_in_vectors(target: str) -> None:
    """Nothing is left of what dequantises before it and quantises alike behind it."""
    text = (
        "p = MaxPool<kernel_shape=[2,2]>(x) k = QuantizeLinear(p, s, z) d = DequantizeLinear(k, s, z) "
        "fw = DequantizeLinear(w, ws, wz) c = Conv<pads=[1,1,1,1]>(d, fw) y = QuantizeLinear(c, s2, z)"
    )
    proto = model(text)
    (wanted,) = exact_session(proto).run(None, feed())
    program = stages(proto, Options(target=target)).program
    assert np.abs(run(program, feed())[0].astype(int) - wanted.astype(int)).max() <= 1
    assert [k.generators for k in program.kernels if k.name in ("p", "k", "c")] == [
        ("elementwise",),
        ("contract",),
    ]


@pytest.mark.parametrize("target", TARGETS)
def test_layers_behind_a_view_read_an_import(target: str) -> None:
    """A view is dense: what a window leaves is copied into a halo, as inputs are."""
    text = (
        "p = MaxPool<kernel_shape=[2,2]>(x) r = Reshape(p, wider) fw = DequantizeLinear(w, ws, wz) "
        "e = Conv<pads=[1,1,1,1]>(r, fw) y = QuantizeLinear(e, s2, z)"
    )
    proto = model(text)
    (wanted,) = exact_session(proto).run(None, feed())
    program = stages(proto, Options(target=target)).program
    assert np.abs(run(program, feed())[0].astype(int) - wanted.astype(int)).max() <= 1
    layer = next(k for k in program.kernels if k.name == "e")
    assert "naive" not in layer.generators


@pytest.mark.parametrize("stride", [2, 3])
@pytest.mark.parametrize("channels", [1, 2])
def test_transposed_convolutions_to_few_channels_go_in_vectors(channels: int, stride: int) -> None:
    """Their sums read floats, each about once; of bytes made floats in the sum there is no vector."""
    proto = parser.parse_model(f"""<ir_version: 10, opset_import: ["" : 21]>
        g (uint8[1,4,9,7] qx) => (float[] y) {{
        x = DequantizeLinear(qx, s, z) fw = DequantizeLinear(tw, ws, wz)
        c = ConvTranspose<strides=[{stride}, {stride}]>(x, fw) k = QuantizeLinear(c, s2, z)
        y = DequantizeLinear(k, s2, z) }}""")
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    tw = np.arange(-18, 36 * channels - 18, dtype=np.int8).reshape(4, channels, 3, 3)
    constants = {"tw": tw, **{n: CONSTANTS[n] for n in ("s", "z", "ws", "wz", "s2")}}
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(a, n) for n, a in constants.items())
    qx = np.random.default_rng(5).integers(0, 256, (1, 4, 9, 7)).astype(np.uint8)
    (wanted,) = exact_session(proto).run(None, {"qx": qx})
    for target in ("x86-64-v4-vnni", "x86-64-v3", "aarch64"):
        program = stages(proto, Options(target=target)).program
        (got,) = run(program, {"qx": qx})
        assert np.abs(got - wanted).max() <= 0.051  # a step
        assert {"sliding_window", "contract"} & {g for k in program.kernels for g in k.generators}
    scalar = stages(proto, Options(target="cortex-m4")).program
    (got,) = run(scalar, {"qx": qx})
    assert np.abs(got - wanted).max() <= 0.051
    inside = {t for call in calls(scalar.steps) for t in call.arguments} - {*scalar.outputs}
    floats = [t.name for t in inside if t.value is None and t.type.is_float]
    assert not floats  # bytes are multiplied as they are


@pytest.mark.parametrize("stride", [2, 3])
@pytest.mark.parametrize("channels", [1, 2, 4])
def test_transposed_convolutions_to_bytes_of_few_channels_go_in_vectors(channels: int, stride: int) -> None:
    """Sums of floats go along rows, and whole rows of them are rounded."""
    proto = parser.parse_model(f"""<ir_version: 10, opset_import: ["" : 21]>
        g (uint8[1,4,9,11] qx) => (uint8[] y) {{
        x = DequantizeLinear(qx, s, z) fw = DequantizeLinear(tw, ws, wz)
        c = ConvTranspose<strides=[{stride}, {stride}]>(x, fw) t = Tanh(c) y = QuantizeLinear(t, ws, z) }}""")
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    tw = np.arange(-18, 36 * channels - 18, dtype=np.int8).reshape(4, channels, 3, 3)
    constants = {"tw": tw, **{n: CONSTANTS[n] for n in ("s", "z", "ws", "wz")}}
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(a, n) for n, a in constants.items())
    qx = np.random.default_rng(5).integers(0, 256, (1, 4, 9, 11)).astype(np.uint8)
    (wanted,) = exact_session(proto).run(None, {"qx": qx})
    for target in ("x86-64-v4-vnni", "x86-64-v3", "aarch64", "cortex-m4"):
        program = stages(proto, Options(target=target)).program
        (got,) = run(program, {"qx": qx})
        assert np.abs(got.astype(int) - wanted.astype(int)).max() <= 1
        if target != "cortex-m4":
            assert {"sliding_window", "contract"} & {g for k in program.kernels for g in k.generators}


@pytest.mark.parametrize("target", ["x86-64", "x86-64-v3", "x86-64-v4-vnni", "aarch64"])
def test_products_of_two_tensors_go_in_vectors(target: str) -> None:
    """Zero points that were floats first became integers one element at a time."""
    proto = parser.parse_model(
        """<ir_version: 10, opset_import: ["com.microsoft" : 1]>
        g (uint8[3,9,50] p, uint8[3,9,50] q) => (uint8 y)
        { y = com.microsoft.QLinearMul(p, s, z3, q, s2, z, big, z0) }"""
    )
    arrays = {n: CONSTANTS[n] for n in ("s", "z3", "s2", "z", "big", "z0")}
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(a, n) for n, a in arrays.items())
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    random = np.random.default_rng(3)
    fed = {n: random.integers(0, 256, (3, 9, 50)).astype(np.uint8) for n in "pq"}
    (wanted,) = exact_session(proto).run(None, fed)
    program = stages(proto, Options(target=target, strict_speed=True)).program
    np.testing.assert_array_equal(run(program, fed)[0], wanted)


def test_exact_arithmetic_keeps_the_floats() -> None:
    proto = model(EXACT["convolution"])
    assert "Conv" in [n.op for n in front(proto, Options(math="exact")).nodes]


def test_weights_are_bytes_in_the_bundle() -> None:
    made = ingot.compile(model(EXACT["convolution"]), target="x86-64-v3")
    assert made.manifest["sizes"]["weights_bytes"] < 2 * CONSTANTS["w"].size + 200


def test_sums_that_may_leave_int32_stay_floats() -> None:
    many = np.full((70000, 2), 127, np.int8)
    text = """<ir_version: 10, opset_import: ["" : 21]> g (uint8[1,70000] qx) => (uint8[1,2] y) {
        x = DequantizeLinear(qx, s, z0) fw = DequantizeLinear(many, ws, wz)
        c = MatMul(x, fw) y = QuantizeLinear(c, big, z0) }"""
    proto = parser.parse_model(text)
    arrays = {**{n: CONSTANTS[n] for n in ("s", "z0", "ws", "wz", "big")}, "many": many}
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(a, n) for n, a in arrays.items())
    assert "MatMul" in operators(proto)


@pytest.mark.parametrize("op", ["Relu(x)", "Clip(x, zero, top)", "MaxPool<kernel_shape=[2, 2]>(x)"])
@pytest.mark.parametrize("kind", ["uint8", "int16", "uint16", "int32"])
def test_what_is_dequantised_of_any_integers_and_given_out(kind: str, op: str) -> None:
    text = f"""<ir_version: 10, opset_import: ["" : 21]> g ({kind}[1,4,5,6] q) => (float y) {{
        x = DequantizeLinear(q, s) y = {op} }}"""
    proto = parser.parse_model(text)
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    proto.graph.initializer.extend(
        onnx.numpy_helper.from_array(CONSTANTS[n], n) for n in ("s", "zero", "top") if n == "s" or n in op
    )
    info = np.iinfo(kind)
    q = np.random.default_rng(4).integers(info.min, info.max, (1, 4, 5, 6), endpoint=True).astype(kind)
    (wanted,) = ReferenceEvaluator(proto).run(None, {"q": q})
    for target in ("x86-64", *TARGETS):
        (got,) = run(stages(proto, Options(target=target)).program, {"q": q})
        np.testing.assert_allclose(got, wanted, rtol=1e-6, err_msg=target)


@pytest.mark.parametrize("opset", [10, 13, 19])
def test_older_opsets(opset: int) -> None:
    text = CONV + "c = Conv(x, fw) q = QuantizeLinear(c, big, z) d = DequantizeLinear(q, big, z) "
    text += "p = MaxPool<kernel_shape=[2,2]>(d) y = QuantizeLinear(p, big, z)"
    proto = model(text)
    proto.opset_import[0].version = opset
    assert operators(proto) == ["QLinearConv", "MaxPool", "Identity"]
    (wanted,) = exact_session(model(text)).run(None, feed())
    (got,) = run(stages(proto, Options(target="x86-64-v3")).program, feed())
    np.testing.assert_array_equal(got, wanted)


RESHAPED = (
    "y = MatMul(f, f)",
    "y = Softmax(f)",
    "y = Identity(f)",
    "t = Transpose<perm=[1,0]>(f) y = MatMul(t, f)",
    "a, b = Split<axis=1, num_outputs=2>(f) y = Mul(a, b)",
)


@pytest.mark.parametrize("rest", RESHAPED)
@pytest.mark.parametrize("target", ["x86-64-v3", "c99"])
def test_a_view_of_what_is_dequantised_keeps_its_base(rest: str, target: str) -> None:
    """The bytes are an input: the view has the floats' memory, which must be written."""
    shape = "[6,3]" if "Split" in rest else "[6,6]"
    proto = parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 21]> g (uint8[4,9] x) => (float{shape} y)
        <int64[2] sizes = {{6, 6}}> {{ c = Cast<to=1>(x) f = Reshape(c, sizes) {rest} }}"""
    )
    x = np.random.default_rng(0).integers(0, 256, (4, 9)).astype(np.uint8)
    (wanted,) = exact_session(proto).run(None, {"x": x})
    (got,) = run(stages(proto, Options(target=target)).program, {"x": x})
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(
        ingot.compile(proto, target=target).run({"x": x})["y"], wanted, rtol=1e-5, atol=1e-7
    )


CONSTANTS["odd"] = np.array(0.0437, np.float32)  # no sum of integers stands between two of its steps
POOLED = (
    "p = GlobalAveragePool(x) y = QuantizeLinear(p, odd, z)",
    "p = ReduceMean(x, axes) y = QuantizeLinear(p, odd, z)",
    "p = AveragePool<kernel_shape=[3,3], strides=[3,3], pads=[0,1,0,1]>(x) y = QuantizeLinear(p, odd, z)",
    "p = AveragePool<kernel_shape=[2,3], strides=[2,3], pads=[1,1,0,1], count_include_pad=1>(x) "
    "y = QuantizeLinear(p, odd, z3)",
    'p = AveragePool<kernel_shape=[2,2], auto_pad="SAME_UPPER">(x) y = QuantizeLinear(p, odd, z)',
    "p = AveragePool<kernel_shape=[3,3], pads=[1,1,1,1]>(x) y = QuantizeLinear(p, odd, zi)",
    "p = GlobalAveragePool(x) y = QuantizeLinear(p, odd, zi)",
)
FLOATS = (
    "p = AveragePool<kernel_shape=[2,2], dilations=[2,1]>(x) y = QuantizeLinear(p, odd, z)",
    "p = AveragePool<kernel_shape=[2,2], strides=[2,2], ceil_mode=1, count_include_pad=1>(x) "
    "y = QuantizeLinear(p, odd, z)",
    "p = ReduceMean<keepdims=0>(x, axes) y = QuantizeLinear(p, odd, z)",
    "p = ReduceMean(x, axis) y = QuantizeLinear(p, odd, z)",
)
"""Means that no operator computes on integers."""


@pytest.mark.parametrize("nodes", FLOATS)
def test_other_averages_stay_floats(nodes: str) -> None:
    proto = model(nodes)
    assert not any("QLinear" in n.op for n in front(proto, Options(target="c99")).nodes)
    plain = onnxruntime.SessionOptions()  # optimised, it writes attributes that its operators do not have
    plain.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    (wanted,) = exact_session(proto, plain).run(None, feed())
    np.testing.assert_array_equal(ingot.compile(proto, target="c99").run(feed())["y"], wanted)


@pytest.mark.parametrize("scale", [0.023529412, 0.03, 0.7, 1.0])
@pytest.mark.parametrize("target", ["x86-64-v3", "c99", "armv7e-m"])
def test_a_mean_half_way_between_two_integers_is_rounded_to_the_even_one(scale: float, target: str) -> None:
    proto = parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 21]> agraph (int8[1,1,2,300] q) => (int8[1,1,1,100] y)'
        f"<float s = {{{scale}}}, int8 z = {{0}}> {{ x = DequantizeLinear(q, s, z) "
        "p = AveragePool<kernel_shape=[2,3], strides=[2,3]>(x) y = QuantizeLinear(p, s, z) }"
    )
    q = np.zeros((1, 1, 2, 300), np.int8)
    q[0, 0, 0, ::3] = np.arange(-50, 50)  # six times the mean
    q[0, 0, 1, ::3] = q[0, 0, 1, 1::3] = np.arange(-50, 50)
    wanted = np.rint(np.arange(-50, 50) / 2).astype(np.int8)
    (got,) = run(stages(proto, Options(target=target)).program, {"q": q})
    np.testing.assert_array_equal(got.ravel(), wanted)


@pytest.mark.parametrize("nodes", POOLED)
@pytest.mark.parametrize("target", ["x86-64-v3", "c99"])
def test_averages_read_bytes(nodes: str, target: str) -> None:
    """Nothing is stored as floats: what lies outside an image is the byte that stands for 0."""
    proto = model(nodes)
    (wanted,) = exact_session(proto).run(None, feed())
    program = stages(proto, Options(target=target)).program
    touched = {t for k in program.kernels for t in k.parameters}
    assert all(t.type.bytes == 1 for t in touched if t.value is None and t.count != 1)
    (got,) = run(program, feed())
    np.testing.assert_array_equal(got, wanted)
    np.testing.assert_array_equal(ingot.compile(proto, target=target).run(feed())["y"], wanted)


@pytest.mark.parametrize("target", ["c99", "armv7e-m", "armv8.1m", "riscv64", "i386"])
@pytest.mark.parametrize(("kind", "zero"), [("uint8", 0), ("uint8", 255), ("int8", -7), ("uint8", 3)])
def test_what_is_rounded_goes_to_the_even_integer(target: str, kind: str, zero: int) -> None:
    """Scalar code limits before it rounds, or has an instruction: halves, and sums far beyond the limits."""
    sums = np.array([[-(2**30), -513, -5, -3, -1, 0, 1, 3, 5, 7, 509, 511, 513, 2**24 + 1, 2**30]], np.int32)
    proto = parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 21]> g (int32[1,15] x) => ({kind}[1,15] y)
        <float s = {{0.5}}, float one = {{1.0}}, {kind} z = {{{zero}}}>
        {{ f = DequantizeLinear(x, s) y = QuantizeLinear(f, one, z) }}"""
    )
    info = np.iinfo(kind)
    wanted = np.clip(
        np.rint(sums.astype(np.float32) * np.float32(0.5)).astype(np.int64) + zero, info.min, info.max
    )
    (got,) = run(stages(proto, Options(target=target)).program, {"x": sums})
    np.testing.assert_array_equal(got, wanted)
    if target != "riscv64":
        np.testing.assert_array_equal(ingot.compile(proto, target=target).run({"x": sums})["y"], wanted)


def chain(lowest: tuple[int, ...]) -> onnx.ModelProto:
    """QLinearConv layers of one shape behind each other, the least of their weights as given. Otherwise they
    have the same numbers, the channels in another order: what range sums have does not tell them apart.
    """
    layers, inits, x, rng = [], {}, "x", np.random.default_rng(7)
    numbers = rng.integers(-90, 91, (4, 4, 3, 3)), rng.integers(-3000, 3000, 4), rng.uniform(0.001, 0.01, 4)
    for i, least in enumerate(lowest):
        w, b, scales = (np.roll(n, i, axis=0) for n in numbers)
        w[:, 0] = least
        inits |= {
            f"w{i}": w.astype(np.int8),
            f"wz{i}": np.zeros(4, np.int8),
            f"b{i}": b.astype(np.int32),
            f"ws{i}": scales.astype(np.float32),
        }
        layers.append(f"q{i} = QLinearConv<pads=[1,1,1,1]>({x}, s, z0, w{i}, ws{i}, wz{i}, s2, z0, b{i})")
        x = f"q{i}"
    proto = parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 21]> g (uint8[1,4,9,7] x) => (uint8[1,4,9,7] {x})
        {{ {" ".join(layers)} }}"""
    )
    known = {**inits, **{n: CONSTANTS[n] for n in ("s", "z0", "s2")}}
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(a, n) for n, a in known.items())
    return proto


@pytest.mark.parametrize("target", ["c99", "x86-64-v3", "armv7e-m"])
@pytest.mark.parametrize(
    "lowest", [(-127, -127, -99, -127), (-100, -100, -128, -100)], ids=["fits", "lowest"]
)
def test_equal_layers_of_integers_share_a_kernel(target: str, lowest: tuple[int, ...]) -> None:
    """Whatever their weights, biases and scales; but a weight of -128 is multiplied in another way."""
    proto, x = chain(lowest), {"x": feed()["qx"][:1]}
    (wanted,) = exact_session(proto).run(None, x)
    program = stages(proto, Options(target=target)).program
    called = [s.kernel for s in program.steps if isinstance(s, Call) and "Conv" in str(s.kernel.nodes)]
    assert len(called) - len(set(called)) == (1 if -128 in lowest else 2)
    np.testing.assert_array_equal(run(program, x)[0], wanted)
    (got,) = ingot.compile(proto, target=target).run(x).values()
    np.testing.assert_array_equal(got, wanted)


def test_integers_that_are_divided_are_not_interchangeable() -> None:
    """C divides numbers that are never negative as it does; others round down."""
    proto = parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 21]> g (int32[4] x) => (int32[4] y, int32[4] v)
        <int32[4] a = {7, 8, 9, 10}, int32[4] b = {-7, 8, -9, 10}>
        { p = Max(x, a) q = Max(x, b) y = Mod(a, p) v = Mod(b, q) }"""
    )
    x = {"x": np.array([3, 3, 4, 4], np.int32)}
    wanted = exact_session(proto).run(None, x)
    for got, expected in zip(ingot.compile(proto, target="c99").run(x).values(), wanted, strict=True):
        np.testing.assert_array_equal(got, expected)


def test_constant_indices_are_not_interchangeable() -> None:
    """Two gathers that differ in their indices only: each is proved for its own."""
    proto = parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 21]> g (float[9,7] x) => (float[3,7] y, float[3,7] v)
        <int64[3] i = {0, 1, 2}, int64[3] j = {8, 3, 5}> { y = Gather(x, i) v = Gather(x, j) }"""
    )
    x = np.random.default_rng(0).standard_normal((9, 7)).astype(np.float32)
    program = stages(proto, Options(target="c99")).program
    got = run(program, {"x": x})
    np.testing.assert_array_equal(got[0], x[[0, 1, 2]])
    np.testing.assert_array_equal(got[1], x[[8, 3, 5]])
