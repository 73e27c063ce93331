"""Functions of one tensor of bytes are tables: onnxruntime's bytes but at ties, the same on every target."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import parser

import ingot
from ingot.driver import front, region_of, stages
from ingot.formula.expr import Array
from ingot.loops.evaluate import run
from ingot.loops.program import calls
from ingot.loops.region import Group
from ingot.options import Options
from tests.here import require_runs
from tests.oracles import exact_session

TARGETS = ("c99", "x86-64", "x86-64-v3", "x86-64-v4", "x86-64-v4-vnni", "aarch64", "cortex-m3")
FUNCTIONS = {
    "Sigmoid": "a = Sigmoid(x)",
    "Tanh": "a = Tanh(x)",
    "Elu": "a = Elu<alpha=0.7>(x)",
    "Selu": "a = Selu(x)",
    "Gelu": "a = Gelu(x)",
    "Erf": "a = Erf(x)",
    "Exp": "a = Exp(x)",
    "Softplus": "a = Softplus(x)",
    "Mish": "a = Mish(x)",
    "Sqrt": "b = Abs(x) a = Sqrt(b)",
    "HardSwish": "a = HardSwish(x)",
    "LeakyRelu": "a = LeakyRelu<alpha=0.1>(x)",
    "Swish": "b = Sigmoid(x) a = Mul(x, b)",
    "Pow": "two = Constant<value_float=2.0>() a = Pow(x, two)",
}
LENGTH = 330  # five vectors of the longest, and a rest


def model(kind: str, rest: str, shape: str = str(LENGTH), step: float = 0.0171) -> onnx.ModelProto:
    """A function between what is dequantised and what is quantised."""
    zero = {"uint8": 131, "int8": -9}[kind]
    return parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 20, "com.microsoft" : 1]>
        g ({kind}[{shape}] q) => ({kind}[{shape}] y)
        <float s = {{0.0437}}, {kind} z = {{{zero}}}, float t = {{{step}}}, {kind} u = {{{zero // 2}}}> {{
            x = DequantizeLinear(q, s, z) {rest} y = QuantizeLinear(a, t, u) }}"""
    )


def every_byte(kind: str) -> Array:
    return (np.arange(LENGTH) % 256 + np.iinfo(kind).min).astype(kind)


def oracle(proto: onnx.ModelProto, q: Array) -> Array:
    """What onnxruntime makes of the nodes as they stand: fused ones have tables of other floats."""
    plain = onnxruntime.SessionOptions()
    plain.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    (wanted,) = exact_session(proto, plain).run(None, {"q": q})
    return np.asarray(wanted)


def assert_like(got: Array, wanted: Array, near: Array, name: str) -> None:
    """The same bytes, or the neighbours of a number half-way between two."""
    off = got.astype(int) - wanted
    assert np.abs(off).max() <= 1, name
    fraction = np.abs(near - np.floor(near) - 0.5)
    assert (fraction[off != 0] < 1e-4).all(), name


def in_floats(proto: onnx.ModelProto, q: Array) -> Array:
    """What onnxruntime rounds: the operand of the last QuantizeLinear over its scale."""
    shown = onnx.ModelProto()
    shown.CopyFrom(proto)
    del shown.graph.output[:]
    shown.graph.output.append(onnx.helper.make_tensor_value_info("a", onnx.TensorProto.FLOAT, None))
    a = oracle(shown, q)
    (step,) = (onnx.numpy_helper.to_array(t) for t in proto.graph.initializer if t.name == "t")
    return a.astype(np.float64) / step


@pytest.mark.parametrize("kind", ["uint8", "int8"])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_byte(function: str, kind: str) -> None:
    """onnxruntime, the evaluator of loops for several kinds of vectors, and C."""
    proto, q = model(kind, FUNCTIONS[function]), every_byte(kind)
    wanted = oracle(proto, q)
    near = in_floats(proto, q)
    base: Array | None = None
    for name in ("c99", "x86-64-v3", "x86-64-v4", "x86-64-v4-vnni", "aarch64", "cortex-m55"):
        (got,) = run(stages(proto, Options(target=name)).program, {"q": q})
        base = got if base is None else base
        np.testing.assert_array_equal(got, base, name)
    assert base is not None
    assert_like(base, wanted, near, function)
    np.testing.assert_array_equal(ingot.compile(proto, target="x86-64-v3").run({"q": q})["y"], base)


@pytest.mark.parametrize("kind", ["uint8", "int8"])
@pytest.mark.parametrize("name", TARGETS)
def test_compiled(name: str, kind: str) -> None:
    require_runs(name)
    proto, q = model(kind, FUNCTIONS["Tanh"]), every_byte(kind)
    wanted = oracle(proto, q)
    got = ingot.compile(proto, target=name).run({"q": q})["y"]
    assert_like(got, wanted, in_floats(proto, q), name)


OPERATORS = {
    "QLinearSigmoid": "y = com.microsoft.QLinearSigmoid(q, s, z, t, z)",
    "QLinearLeakyRelu": "y = com.microsoft.QLinearLeakyRelu<alpha=0.1>(q, s, z, t, z)",
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operators(name: str) -> None:
    proto = parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 20, "com.microsoft" : 1]>
        g (uint8[{LENGTH}] q) => (uint8[{LENGTH}] y)
        <float s = {{0.0437}}, uint8 z = {{101}}, float t = {{0.0071}}> {{ {OPERATORS[name]} }}"""
    )
    q = every_byte("uint8")
    wanted = oracle(proto, q)
    made = stages(proto, Options(target="x86-64-v3")).program
    assert families(made) == {"byte_table"}
    (got,) = run(made, {"q": q})
    assert np.abs(got.astype(int) - wanted).max() <= 1
    for target in ("c99", "aarch64"):
        np.testing.assert_array_equal(run(stages(proto, Options(target=target)).program, {"q": q})[0], got)


def families(program: ingot.loops.program.Program) -> set[str]:
    return {name for c in calls(program.steps) for name in c.kernel.generators}


IMAGE = "1,24,9,7"
CHAIN = "b = Sigmoid(x) c = QuantizeLinear(b, r, z) d = DequantizeLinear(c, r, z) a = Mul(x, d)"


def test_bytes_between_are_part_of_the_table() -> None:
    """x * sigmoid(x), whose sigmoid is quantised too: one table, of which the first byte alone is read."""
    proto = model("uint8", CHAIN, IMAGE)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.array(1 / 256, np.float32), "r"))
    made = stages(proto, Options(target="x86-64-v3")).program
    assert families(made) == {"byte_table"} and len(list(calls(made.steps))) == 1
    q = np.random.default_rng(0).integers(0, 256, (1, 24, 9, 7)).astype(np.uint8)
    wanted = oracle(proto, q)
    assert_like(run(made, {"q": q})[0], wanted, in_floats(proto, q), "chain")


def tables(proto: onnx.ModelProto, options: Options) -> int:
    """How many tensors of 256 entries a region reads."""
    region = region_of(front(proto, options), options)
    read = {t for i in region.items if isinstance(i, Group) for t in i.reads}
    return sum(t.value is not None and t.shape == (256,) for t in read)


@pytest.mark.parametrize(
    "rest, shape, count",
    [
        ("a = Sigmoid(x)", "3", 1),  # targets would round it otherwise
        ("a = LeakyRelu(x)", "3", 0),  # no target does: a table for three elements does not pay
        ("a = LeakyRelu(x)", IMAGE, 1),
        ("a = Identity(x)", IMAGE, 0),  # a change of scale takes few operations
        ("a = Relu(x)", IMAGE, 0),
        ("a = PRelu(x, k)", IMAGE, 0),  # a slope for each channel
        ("b = Sigmoid(x) c = Transpose<perm=[0,1,3,2]>(b) a = Reshape(c, n)", IMAGE, 0),
    ],
)
def test_what_becomes_a_table(rest: str, shape: str, count: int) -> None:
    proto = model("int8", rest, shape)
    for name, value in (("k", np.full((24, 1, 1), 0.1, np.float32)), ("n", np.array([1, 24, 9, 7]))):
        if name in {i for n in proto.graph.node for i in n.input}:
            proto.graph.initializer.append(onnx.numpy_helper.from_array(value, name))
    assert tables(proto, Options(target="c99")) == count
    assert tables(proto, Options(target="c99", math="exact")) == 0


def test_a_table_of_the_model() -> None:
    """Gather of 256 entries by a byte needs no check; of fewer, the bundle still says what is no index."""
    text = """<ir_version: 8, opset_import: ["" : 20]> g (uint8[40,9] q) => (uint8[40,9] y) {
        i = Cast<to=6>(q) y = Gather(entries, i) }"""
    for count in (256, 200):
        proto = parser.parse_model(text)
        entries = np.random.default_rng(1).integers(0, 256, count).astype(np.uint8)
        proto.graph.initializer.append(onnx.numpy_helper.from_array(entries, "entries"))
        made = stages(proto, Options(target="x86-64-v3")).program
        assert ("byte_table" in families(made)) == (count == 256)
        q = np.random.default_rng(2).integers(0, 200, (40, 9)).astype(np.uint8)
        np.testing.assert_array_equal(run(made, {"q": q})[0], entries[q])


def test_neighbours_keep_their_vectors() -> None:
    """Convolutions before and behind a table are what they would be without it."""
    proto = parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 20]> g (uint8[1,16,12,12] q) => (uint8[1,16,10,10] y)
        <float s = {0.02}, uint8 z = {120}, float t = {0.05}, uint8 u = {10}, int8 o = {0}> {
            x = DequantizeLinear(q, s, z) k = DequantizeLinear(w, s, o) c = Conv<pads=[1,1,1,1]>(x, k)
            d = QuantizeLinear(c, t, z) e = DequantizeLinear(d, t, z) f = Sigmoid(e)
            h = QuantizeLinear(f, s, u) i = DequantizeLinear(h, s, u) j = Conv(i, k)
            y = QuantizeLinear(j, t, z)
        }"""
    )
    random = np.random.default_rng(0)
    weights = random.integers(-127, 128, (16, 16, 3, 3)).astype(np.int8)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    q = random.integers(0, 256, (1, 16, 12, 12)).astype(np.uint8)
    wanted = oracle(proto, q)
    for target in ("x86-64-v3", "x86-64-v4-vnni", "aarch64", "cortex-m4"):
        made = stages(proto, Options(target=target)).program
        (got,) = run(made, {"q": q})
        assert np.abs(got.astype(int) - wanted).max() <= 1 and (got != wanted).sum() <= 2, target
        assert target == "cortex-m4" or families(made) == {"transpose", "contract", "byte_table"}
