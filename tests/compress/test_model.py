"""Compressed models: which weights are found, and that onnxruntime runs what is written."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.version_converter
import pytest
from onnx import helper, numpy_helper, parser

from ingot.compression.encode import Form
from ingot.compression.layers import is_encoded, layers_of
from ingot.compression.model import Wish, compress
from ingot.errors import InputError, ModelError, UnsupportedError
from ingot.formula.expr import Array
from ingot.graph.encoding import Codebook, Sparse
from tests.compress.models import answers, model, read, with_weights

IMAGE, ROW = "(float[1,3,6,6] x) => (float[1,4,4,4] y)", "(float[2,24] x) => (float[2,30] y)"
CONV = ("w", [4, 3, 3, 3])
HALF = np.random.default_rng(1).standard_normal((24, 30)).astype(np.float16)
CONSTANT = ", ".join(f"{n:.3f}" for n in np.random.default_rng(2).standard_normal(24 * 30))
SEQUENCE = "(float[5,1,12] x) => (float[5,1,1,16] y)"
SQUARE = "(float[2,24] x) => (float[2,24] y)"
SMALL = ", ".join(f"{n:.3f}" for n in np.random.default_rng(3).standard_normal(24 * 24) / 5)
TURNS = """{ n = Constant <value = int64 {3}> () t = Constant <value = bool {1}> ()
  y = Loop (n, t, x) < body = b (int64 i, bool c, float[2,24] h) => (bool d, float[2,24] k) <WEIGHTS>
  { d = Identity(c) k = MatMul(h, w) } > }"""
SINGLE = np.zeros((24, 30), np.float32)
SINGLE[3, 4] = 5
TABLE = """{ i = Constant <value = int64[2] {3, 4}> () g = Gather(w, i)
  m = MatMul(x, w) y = Add(m, g) }"""
CHOICE = """{ y = If (c) <
  then_branch = a () => (float[2,30] p) { p = MatMul(x, w) },
  else_branch = b () => (float[2,30] q) <float[24,30] v = {NUMBERS}> { q = MatMul(x, v) } > }"""

MODELS: dict[str, tuple[str, str, dict[str, Any], dict[str, int], list[str]]] = {
    # what for: signature, body, weights, other options, the layers
    "conv": (IMAGE, "{ y = Conv(x, w) }", dict([CONV]), {}, ["w"]),
    "gemm": (ROW, "{ y = Gemm <transB = 1> (x, w, b) }", {"w": [30, 24], "b": [30]}, {}, ["w"]),
    "matmul": (ROW, "{ y = MatMul(x, w) }", {"w": [24, 30]}, {}, ["w"]),
    "left": (ROW, "{ t = Transpose(x) r = MatMul(w, t) y = Transpose(r) }", {"w": [30, 24]}, {}, ["w"]),
    "lstm": (
        SEQUENCE,
        "{ y = LSTM <hidden_size = 16> (x, w, r) }",
        {"w": [1, 64, 12], "r": [1, 64, 16]},
        {},
        ["w", "r"],
    ),
    "gru": (
        SEQUENCE,
        "{ y = GRU <hidden_size = 16> (x, w, r) }",
        {"w": [1, 48, 12], "r": [1, 48, 16]},
        {},
        ["w", "r"],
    ),
    "transposed": (ROW, "{ i = Identity(w) t = Transpose(i) y = MatMul(x, t) }", {"w": [30, 24]}, {}, ["w"]),
    "reshaped": (
        ROW,
        "{ t = Reshape(w, s) y = MatMul(x, t) }",
        {"w": [24, 5, 6], "s": np.array([24, 30])},
        {},
        ["w"],
    ),
    "shared": (ROW, "{ s = MatMul(x, w) t = MatMul(x, w) y = Add(s, t) }", {"w": [24, 30]}, {}, ["w"]),
    "constant": (
        ROW,
        f"{{ w = Constant <value = float[24,30] {{{CONSTANT}}}> () y = MatMul(x, w) }}",
        {},
        {},
        ["w"],
    ),
    "branches": (
        "(float[2,24] x, bool c) => (float[2,30] y)",
        CHOICE.replace("NUMBERS", CONSTANT),
        {"w": [24, 30]},
        {},
        ["w", "v"],
    ),
    "a loop": (SQUARE, TURNS.replace("WEIGHTS", f"float[24,24] w = {{{SMALL}}}"), {}, {}, ["w"]),
    "a loop from outside": (SQUARE, TURNS.replace("<WEIGHTS>", ""), {"w": [24, 24]}, {}, ["w"]),
    "einsum": (ROW, '{ y = Einsum <equation = "ij,jk->ik"> (x, w) }', {"w": [24, 30]}, {}, ["w"]),
    "a table too": (ROW, TABLE, {"w": [24, 30]}, {}, ["w"]),
    "zeros": (ROW, "{ y = MatMul(x, w) }", {"w": np.zeros((24, 30), np.float32)}, {}, ["w"]),
    "a single weight": (ROW, "{ y = MatMul(x, w) }", {"w": SINGLE}, {}, ["w"]),
    "half": (
        "(float16[2,24] x) => (float16[2,30] y)",
        "{ y = MatMul(x, w) }",
        {"w": HALF},
        {},
        ["w"],
    ),
    "cast from half": (ROW, "{ v = Cast <to = 1> (w) y = MatMul(x, v) }", {"w": HALF}, {}, ["w"]),
    "opset 13": (ROW, "{ m = MatMul(x, w) y = Softmax(m) }", {"w": [24, 30]}, {"opset": 13, "ir": 7}, ["w"]),
    "opset 7": (IMAGE, "{ m = Conv(x, w) y = Relu(m) }", dict([CONV]), {"opset": 7, "ir": 4}, ["w"]),
    "opset 24": (ROW, "{ y = MatMul(x, w) }", {"w": [24, 30]}, {"opset": 24, "ir": 11}, ["w"]),
    "a default of an input": (
        "(float[2,24] x, float[24,30] w) => (float[2,30] y)",
        "{ y = MatMul(x, w) }",
        {"w": [24, 30]},
        {},
        ["w"],
    ),
    "an output too": (
        "(float[2,24] x) => (float[2,30] y, float[24,30] w)",
        "{ y = MatMul(x, w) }",
        {"w": [24, 30]},
        {},
        ["w"],
    ),
}


@pytest.mark.parametrize("form", ["auto", "sparse", "codebook"])
@pytest.mark.parametrize("case", MODELS)
def test_onnxruntime_runs_what_is_written(case: str, form: Form) -> None:
    signature, body, weights, options, names = MODELS[case]
    before = model(signature, body, weights, **options)
    gap_bits = () if form == "codebook" else ("2",)
    wish = Wish(density=("0.3",), bits=("3",), gap_bits=gap_bits, form=form)
    made = compress(with_weights(before, {}), read, wish)
    onnx.checker.check_model(made.model, full_check=True)
    assert [s.name for s in made.account.layers] == names
    kinds = {"auto": (Sparse, Codebook), "sparse": Sparse, "codebook": Codebook}[form]
    assert all(isinstance(e, kinds) for e in made.encodings.values())
    decoded = {name: encoding.decode() for name, encoding in made.encodings.items()}
    assert list(decoded) == names
    for found, wanted in zip(answers(made.model), answers(with_weights(before, decoded)), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-3 if case == "half" else 1e-5, atol=1e-5)


def test_a_compressed_model_is_compressed_again() -> None:
    before = model(ROW, "{ y = MatMul(x, w) }", {"w": [24, 30]})
    once = compress(before, read, Wish(density=("0.5",), bits=("4",)))
    twice = compress(with_weights(once.model, {}), read, Wish(density=("0.2",), bits=("2",)))
    assert sum(map(is_encoded, twice.model.graph.node)) == 1 and len(twice.model.functions) == 2
    assert twice.account.layers[0].kept == round(0.2 * 24 * 30)
    assert len(twice.model.graph.initializer) == 4
    kept = once.encodings["w"].decode()[twice.encodings["w"].decode() != 0]
    assert np.abs(kept).min() >= np.sort(np.abs(once.encodings["w"].decode()), axis=None)[-kept.size]
    same = compress(with_weights(once.model, {}), read, Wish(bits=("4",)))
    np.testing.assert_array_equal(same.encodings["w"].decode(), once.encodings["w"].decode())


def test_weights_inside_a_function_of_the_models_own() -> None:
    inner = helper.make_function(
        "mine",
        "Dense",
        ["x", "w"],
        ["y"],
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        [helper.make_opsetid("", 21)],
    )
    before = model(ROW, "{ y = Identity(x) }", {"w": [24, 30]})
    before.graph.node[0].CopyFrom(helper.make_node("Dense", ["x", "w"], ["y"], domain="mine"))
    before.opset_import.append(helper.make_opsetid("mine", 1))
    before.functions.append(inner)
    made = compress(with_weights(before, {}), read, Wish(density=("0.2",)))
    decoded = with_weights(before, {"w": made.encodings["w"].decode()})
    np.testing.assert_allclose(answers(made.model)[0], answers(decoded)[0], rtol=1e-5, atol=1e-5)


NEGATED = """Codebook (codes, values) => (W)
  { i = Cast <to = 7> (codes) g = Gather(values, i) W = Neg(g) }"""
TWICE = "Twice (a) => (b) { b = Add(a, a) }"


def test_functions_of_the_domain_that_are_not_ours() -> None:
    """One has an encoding's name and another body, one another name: both are computed, as before."""
    weights = {
        "values": [16],
        "codes": np.arange(24 * 30, dtype=np.uint8).reshape(24, 30) % 16,
        "v": [30, 30],
    }
    before = model(
        ROW, "{ w = Codebook(codes, values) h = MatMul(x, w) m = MatMul(h, v) y = Twice(m) }", weights
    )
    before.opset_import.append(helper.make_opsetid("ingot", 1))
    for node, text in ((before.graph.node[0], NEGATED), (before.graph.node[3], TWICE)):
        node.domain = "ingot"
        before.functions.append(parser.parse_function(f'<opset_import: ["" : 21], domain: "ingot"> {text}'))
    made = compress(with_weights(before, {}), read, Wish())
    assert list(made.encodings) == ["v"]
    assert {f.name for f in made.model.functions} == {"Codebook", "Sparse"}
    decoded = with_weights(before, {"v": made.encodings["v"].decode()})
    np.testing.assert_allclose(answers(made.model)[0], answers(decoded)[0], rtol=1e-5, atol=1e-4)


def test_each_of_many_branches_has_weights_of_its_own() -> None:
    """A search that forgets a branch's constants mistakes the next one's for them."""

    def branch(n: int) -> onnx.GraphProto:
        weights = numpy_helper.from_array(np.random.default_rng(n).standard_normal((24, 30)), f"w{n}")
        out = helper.make_tensor_value_info(f"p{n}", onnx.TensorProto.DOUBLE, [2, 30])
        return helper.make_graph(
            [helper.make_node("MatMul", ["x", f"w{n}"], [f"p{n}"])], "b", [], [out], [weights]
        )

    made = model("(double[2,24] x, bool c) => (double[2,30] y)", "{ y = Identity(x) }", {})
    del made.graph.node[:]
    for n in range(0, 8, 2):
        arms = {"then_branch": branch(n), "else_branch": branch(n + 1)}
        made.graph.node.append(helper.make_node("If", ["c"], [f"y{n}"], **arms))
    assert sorted(layer.name for layer in layers_of(made, read)) == [f"w{n}" for n in range(8)]


def test_names_already_taken_are_left_alone() -> None:
    weights = {"w": [24, 30], "w.codes": [1, 30], "w.values": [1]}
    before = model(ROW, "{ m = MatMul(x, w) a = Add(m, other) y = Add(a, another) }", weights)
    before.graph.node[1].input[1], before.graph.node[2].input[1] = "w.codes", "w.values"
    made = compress(with_weights(before, {}), read, Wish(density=("0.2",)))
    decoded = with_weights(before, {"w": made.encodings["w"].decode()})
    np.testing.assert_allclose(answers(made.model)[0], answers(decoded)[0], rtol=1e-5, atol=1e-5)


def test_equal_weights_are_one_layer() -> None:
    """The first three are; the fourth is an output, the fifth half as precise, the branch has a `c` too."""
    w = np.random.default_rng(8).standard_normal((24, 30)).astype(np.float16).astype(np.float32)
    body = """{ r = MatMul(x, a) s = MatMul(x, b) t = If(q) <
      then_branch = p () => (float[2,30] u) { u = MatMul(x, c) },
      else_branch = p () => (float[2,30] v) <float[24,30] e = {NUMBERS}> { v = MatMul(x, e) } >
      m = MatMul(x, d) h = Cast <to = 1> (f) n = MatMul(x, h) y = Sum(r, s, t, m, n) }"""
    weights = {**dict.fromkeys("abcde", w), "f": w.astype(np.float16)}
    signature = "(float[2,24] x, bool q) => (float[2,30] y, float[24,30] d)"
    before = model(signature, body.replace("NUMBERS", CONSTANT), weights)
    made = compress(with_weights(before, {}), read, Wish(density=("0.3",)))
    assert sorted(made.encodings) == ["a", "d", "e", "f"]
    decoded = with_weights(before, {n: made.encodings[n if n in "def" else "a"].decode() for n in "abcdf"})
    inner = decoded.graph.node[2].attribute[1].g.initializer[0]
    inner.CopyFrom(numpy_helper.from_array(made.encodings["e"].decode(), "e"))
    for found, wanted in zip(answers(made.model), answers(decoded), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4)


def test_a_layer_that_would_not_shrink_stays_as_it_is() -> None:
    body, weights = "{ a = MatMul(x, w)  y = MatMul(a, v) }", {"w": [24, 30], "v": [30, 30]}
    made = compress(model(ROW, body, weights), read, Wish(bits=("w=32,v=4",)))
    sizes = {s.name: s for s in made.account.layers}
    assert list(made.encodings) == ["v"] and sizes["w"].coded_bits == sizes["w"].before_bits
    before = made.model.SerializeToString()
    again = compress(made.model, read, Wish(bits=("v=32,w=4",)))
    assert again.account.layers[1] == sizes["v"] and again.account.other_bits == 0, "v is encoded already"
    assert list(again.encodings) == ["w", "v"] and len(again.model.SerializeToString()) < len(before)
    small = model("(float[2,2] x) => (float[2,2] y)", "{ y = MatMul(x, w) }", {"w": [2, 2]})
    assert not compress(small, read, Wish(bits=("8",))).encodings


def test_models_that_hold_no_weights() -> None:
    with pytest.raises(InputError, match="no weights to compress; these are constants with two axes"):
        compress(model("(float[2,3] x) => (float[2,3] y)", "{ y = Relu(x) }", {}), read, Wish())


@pytest.mark.parametrize(
    "bad", [np.float32(np.nan), np.float32(np.inf), np.float64(1e300)], ids=lambda bad: f"{bad}"
)
def test_weights_that_no_code_stands_for(bad: np.float32 | np.float64) -> None:
    weights = {"w": np.full((24, 30), bad), "v": np.ones((24, 30), bad.dtype)}
    signature = ROW.replace("float", "double" if bad.dtype == np.float64 else "float")
    before = model(signature, "{ s = MatMul(x, w) t = MatMul(x, v) y = Add(s, t) }", weights)
    with pytest.raises(ModelError, match=r"'w' hold NaN or infinity .* --bits w=32 leaves them as they are"):
        compress(with_weights(before, {}), read, Wish())
    assert list(compress(before, read, Wish(bits=("w=32",))).encodings) == ["v"]


def test_a_node_that_makes_nothing() -> None:
    before = model(ROW, "{ y = MatMul(x, w) }", {"w": [24, 30]})
    before.graph.node.add(op_type="MatMul", input=["x", "w"])
    assert layers_of(before, read)[0].nodes == ["y", "MatMul"]


def test_functions_in_a_circle() -> None:
    before = model(ROW, "{ h = A(x) y = MatMul(h, w) }", {"w": [24, 30]})
    before.graph.node[0].domain = "mine"
    before.opset_import.append(helper.make_opsetid("mine", 1))
    for name, other in ("AB", "BA"):
        node = helper.make_node(other, ["x"], ["y"], domain="mine")
        imports = [helper.make_opsetid("mine", 1)]
        before.functions.append(helper.make_function("mine", name, ["x"], ["y"], [node], imports))
    with pytest.raises(ModelError, match=r"functions of the model cannot be inlined: Cycle"):
        compress(before, read, Wish())


@pytest.mark.parametrize(
    ("part", "array", "message"),
    [
        ("w.values", np.zeros(5, np.float32), "weights 'w': 5 values"),
        ("w.values", np.zeros(16, np.float64), "'w.values' is float64, where float32 belongs"),
        ("w.codes", np.full(144, 300, np.int64), "'w.codes' is int64, where uint4 or uint8 belongs"),
        ("w.codes", np.zeros(7, np.uint8), "one list each"),
        ("w.shape", np.array([1 << 40, 1 << 40]), "no tensor has the shape"),
        ("w.shape", np.array([-1, 24]), "no tensor has the shape"),
        ("w.shape", np.array([2, 2]), "the entries reach to"),
    ],
)
def test_an_encoding_that_contradicts_itself(part: str, array: Array, message: str) -> None:
    wish = Wish(density=("0.2",), form="sparse")
    made = compress(model(ROW, "{ y = MatMul(x, w) }", {"w": [24, 30]}), read, wish)
    for tensor in made.model.graph.initializer:
        if tensor.name == part:
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    with pytest.raises(ModelError, match=message):
        layers_of(made.model, read)


def test_a_model_that_cannot_be_converted_keeps_its_opset(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("no adapter")

    monkeypatch.setattr(onnx.version_converter, "convert_version", fail)
    before = model(ROW, "{ y = MatMul(x, w) }", {"w": [24, 30]}, opset=13, ir=7)
    made = compress(with_weights(before, {}), read, Wish(density=("0.2",)))
    types = {t.name: t.data_type for t in made.model.graph.initializer}
    assert types["w.codes"] == onnx.TensorProto.UINT8 and made.model.opset_import[0].version == 13
    onnx.checker.check_model(made.model, full_check=True)
    decoded = with_weights(before, {"w": made.encodings["w"].decode()})
    np.testing.assert_allclose(answers(made.model)[0], answers(decoded)[0], rtol=1e-5, atol=1e-5)
    old = model(ROW, "{ y = MatMul(x, w) }", {"w": [24, 30]}, opset=9, ir=4)
    with pytest.raises(UnsupportedError, match="opset 9, sparse weights need 11"):
        compress(old, read, Wish(density=("0.2",)))


def test_a_malformed_model_never_meets_the_converter() -> None:
    """ONNX's converter crashes on a RegexFullMatch of what no node makes."""
    body = '{ y = MatMul(x, w) s = Identity(x) m = RegexFullMatch<pattern="a">(s) }'
    before = model(ROW, body, {"w": [24, 30]}, opset=20, ir=9)
    before.graph.node[2].input[0] = "nobody"
    made = compress(with_weights(before, {}), read, Wish(density=("0.2",)))
    assert made.model.opset_import[0].version == 20


QDQ = """{ q = QuantizeLinear(x, s, z)
  d = DequantizeLinear(q, s, z)
  v = DequantizeLinear<axis = 1>(w, t ZERO)
  y = MatMul(d, v) }"""


def quantised(zero: str = "", **more: Array) -> onnx.ModelProto:
    """A product of bytes; `zero` names the zero points of its weights."""
    rng = np.random.default_rng(3)
    given = {
        "s": np.float32(0.05),
        "z": np.uint8(128),
        "w": rng.integers(-127, 128, (64, 32)).astype(np.int8),
        "t": rng.uniform(0.01, 0.02, 32).astype(np.float32),
    }
    body = QDQ.replace("ZERO", zero)
    return model(
        "(float[3, 64] x) => (float[3, 32] y)", body, {k: np.asarray(v) for k, v in {**given, **more}.items()}
    )


@pytest.mark.parametrize("zero", ["", ", o"])
@pytest.mark.parametrize("wish", [Wish(density=("0.3",)), Wish(bits=("3",)), Wish(ratio="4")], ids=str)
def test_weights_of_int8_share_whole_numbers(zero: str, wish: Wish) -> None:
    """Once and again: what was compressed is still of the grid."""
    made = compress(quantised(zero, **({"o": np.zeros(32, np.int8)} if zero else {})), read, wish)
    for _ in range(2):
        (encoding,) = made.encodings.values()
        whole = encoding.decode()
        np.testing.assert_array_equal(whole, np.rint(whole))
        assert 0 < len(np.unique(whole)) <= 16 and made.account.total.before_bits == 8 * 64 * 32
        wanted = answers(quantised(w=whole.astype(np.int8)))
        np.testing.assert_allclose(answers(made.model), wanted, rtol=1e-5, atol=1e-5)
        made = compress(made.model, read, Wish(bits=("2",)))
    assert made.account.ratio > 3


def test_weights_of_int8_that_stay_are_bytes() -> None:
    made = compress(quantised(), read, Wish(bits=("8",)))
    assert made.encodings == {} and made.account.ratio == 1.0
    assert [n.op_type for n in made.model.graph.node].count("Cast") == 0


def test_int8_with_zero_points_or_for_floats_alone_is_refused() -> None:
    with pytest.raises(InputError, match="INT8 behind DequantizeLinear without zero points"):
        compress(quantised(", o", o=np.ones(32, np.int8)), read, Wish())
    with pytest.raises(InputError, match="--from is for weights of floats, and 'w' has INT8"):
        compress(quantised(), read, Wish(container=b""))
