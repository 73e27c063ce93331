"""Quantised models that were compressed: products of bytes by encoded weights, and what stays encoded."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from ingot.compression.model import Wish, compress
from ingot.driver import compile_with, front, stages
from ingot.errors import InputError
from ingot.frontends.onnx import read_model
from ingot.frontends.onnx.tensors import array_of
from ingot.graph.encoding import Codebook
from ingot.loops.evaluate import run
from ingot.loops.interpret import interpret
from ingot.loops.program import Program
from ingot.loops.region import formulate_graph
from ingot.loops.verify import verify_program
from ingot.ops.infer import infer
from ingot.options import Options
from ingot.targets.records import find
from ingot.targets.toolchain import obstacle
from tests.encoded import one_node, random_codes, sparse
from tests.fuzz.levels import compiled

Array = np.ndarray[Any, Any]
ENTRIES = re.compile(r"rows in lanes|column by column|entries of a row at once")
LANES, WALKED, GATHERED = ("x86-64-v4-vnni", "aarch64"), ("c99", "armv6-m", "s390x"), ("armv8.1m",)


def quantised(
    op: str,
    x: tuple[int, ...],
    w: tuple[int, ...],
    density: float = 0.1,
    signed: bool = True,
    bits: int = 4,
    **attributes: Any,
) -> onnx.ModelProto:
    """A product of bytes with a bias that is no whole number of its units, compressed. `w`: outputs first."""
    rng = np.random.default_rng(len(x) + w[0])
    dtype = np.int8 if signed else np.uint8
    kernel = np.rint(rng.standard_normal(w) * 40).clip(-127, 127).astype(np.int8)
    weights = np.ascontiguousarray(kernel.T) if op == "MatMul" else kernel
    constants = {
        "xs": np.float32(0.02),
        "xz": dtype(3),
        "w": weights,
        "ws": rng.uniform(0.001, 0.002, w[0]).astype("f"),
        "ys": np.float32(0.05),
        "yz": dtype(7),
    }
    more = [] if op == "MatMul" else ["b"]
    constants.update({n: rng.standard_normal(w[0]).astype("f") for n in more})
    if op == "Gemm":
        attributes = {"transB": 1}
    nodes = [
        helper.make_node("DequantizeLinear", ["q", "xs", "xz"], ["d"]),
        helper.make_node("DequantizeLinear", ["w", "ws"], ["v"], axis=1 if op == "MatMul" else 0),
        helper.make_node(op, ["d", "v", *more], ["p"], "layer", **attributes),
        helper.make_node("QuantizeLinear", ["p", "ys", "yz"], ["y"]),
    ]
    kind = TensorProto.INT8 if signed else TensorProto.UINT8
    graph = helper.make_graph(
        nodes,
        "quantised",
        [helper.make_tensor_value_info("q", kind, x)],
        [helper.make_tensor_value_info("y", kind, [None] * len(x))],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    wish = Wish(density=(str(density),), bits=(str(bits),))
    return compress(model, lambda t, what: array_of(t, None, what), wish).model


def bytes_of(model: onnx.ModelProto) -> Array:
    """Random bytes for the input, half of them what stands for 0."""
    of = model.graph.input[0].type.tensor_type
    shape, rng = [d.dim_value for d in of.shape.dim], np.random.default_rng(1)
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(of.elem_type))
    info = np.iinfo(dtype)
    values = rng.integers(info.min, info.max + 1, shape).astype(dtype)
    return np.where(rng.random(shape) < 0.5, dtype.type(3), values)


def program(model: onnx.ModelProto, target: str, **options: Any) -> Program:
    """The program for a target, every access of it proved."""
    made = stages(model, Options(target=target, name="net", **options)).program
    assert verify_program(made) == []
    return made


def reads_entries(made: Program) -> bool:
    return any(ENTRIES.search(note) for k in made.kernels for note in k.notes)


LAYERS: dict[str, tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "Gemm": ("Gemm", (1, 150), (40, 150), {}),
    "Gemm of three rows": ("Gemm", (3, 130), (17, 130), {}),
    "MatMul": ("MatMul", (1, 300), (64, 300), {}),
    "Conv 1x1": ("Conv", (1, 160, 3, 5), (20, 160, 1, 1), {}),
    "Conv 3x3": ("Conv", (1, 24, 7, 6), (20, 24, 3, 3), {"pads": [1] * 4, "strides": [2, 1]}),
}


@pytest.mark.parametrize("signed", [True, False], ids=["int8", "uint8"])
@pytest.mark.parametrize("name", LAYERS)
def test_products_of_bytes_read_entries_and_keep_every_bit(name: str, signed: bool) -> None:
    op, x, w, attributes = LAYERS[name]
    model = quantised(op, x, w, signed=signed, **attributes)
    given = {"q": bytes_of(model)}
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (wanted,) = session.run(None, given)
    (formula,) = interpret(formulate_graph(front(model, Options())), given)
    np.testing.assert_array_equal(formula, wanted)
    targets = (*LANES, *WALKED, *(() if op == "Conv" else (*GATHERED, "armv7e-m")))
    for number, target in enumerate(targets):
        made = program(model, target)
        assert reads_entries(made), target
        np.testing.assert_array_equal(run(made, given)[0], wanted, f"loops for {target}")
        turn = number % 3 == (list(LAYERS).index(name) + signed) % 3
        if (turn or target == LANES[0]) and not obstacle(find(target)):
            np.testing.assert_array_equal(compiled(target)(model, given)[0], wanted, f"C for {target}")


def test_entries_take_fewer_bytes() -> None:
    model = quantised("Gemm", (1, 784), (300, 784), 0.09)
    for target, most in (("armv7e-m", 33_000), ("armv8.1m", 58_000), ("x86-64-v4-vnni", 54_000)):
        assert sum(t.bytes for t in program(model, target).constants) < most < 300 * 784 / 4


DENSE, SPARSE = ((1, 150), (40, 150)), ((1, 160, 3, 5), (20, 160, 1, 1))
REASONS: dict[str, tuple[tuple[Any, ...], dict[str, Any], dict[str, Any], str]] = {
    "many weights": (("Gemm", *DENSE, 0.4), {}, {"target": "armv7e-m"}, "it keeps 40% of its weights"),
    "size": (("Gemm", *DENSE, 0.4), {}, {"target": "armv7e-m", "optimize": "size"}, ""),
    "saturating sums": (("Gemm", *DENSE), {}, {"target": "x86-64-v3"}, "sums of two products have 16 bits"),
    "many values": (("Gemm", *DENSE), {"bits": 7}, {"target": "x86-64-v4-vnni"}, "registers of"),
    "few terms": (("Gemm", (1, 30), (9, 30)), {}, {"target": "x86-64-v4-vnni"}, "it adds 30 terms"),
    "slower": (("Conv", *SPARSE, 0.45), {}, {"target": "x86-64-v4-vnni"}, "estimated to be slower"),
    "windows": (("Conv", *SPARSE), {}, {"target": "armv7e-m"}, "--optimize size reads its entries"),
    "gathers": (("Conv", *SPARSE), {}, {"target": "armv8.1m"}, "multiplies all elements of windows"),
    "groups": (
        ("Conv", (1, 16, 9, 9), (16, 8, 3, 3)),
        {"group": 2},
        {"target": "c99"},
        "convolutions of several groups",
    ),
    "exact": (("Gemm", *DENSE), {}, {"target": "armv7e-m", "math": "exact"}, "it multiplies floats"),
    "no look-ups": (("Gemm", *DENSE), {}, {"target": "x86-64-v2"}, ""),
}


@pytest.mark.parametrize("name", REASONS)
def test_what_is_expanded_says_why(name: str) -> None:
    layer, how, options, wanted = REASONS[name]
    model = quantised(*layer, **how)
    made = stages(model, Options(name="net", **options))
    assert reads_entries(made.program) == (not wanted)
    found = made.graph.expanded
    assert [label.endswith("node 'layer'") for label in found] == [True] * bool(wanted)
    assert all(wanted in why for why in found.values()), found
    given = {"q": bytes_of(model)}
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_array_equal(run(made.program, given)[0], session.run(None, given)[0])


def test_bundles_and_variants_say_what_is_expanded() -> None:
    model = quantised("Gemm", *DENSE)
    bundle = compile_with(model, Options(target="x86-64-v3"))
    ((layer, why),) = [(x["layer"], x["why"]) for x in bundle.manifest["expanded_layers"]]
    assert layer == "QGemm node 'layer'" and why in str(bundle.tables()[1].rows)
    both = compile_with(model, Options(target="x86-64-v3+x86-64-v4-vnni"))
    assert [x["layer"] for x in both.manifest["expanded_layers"]] == ["QGemm node 'layer' on x86-64-v3"]


def test_entries_of_bytes_in_huffman_codes() -> None:
    """Dense codes of four bits too: bytes are stored in eight otherwise."""
    for density in (0.1, 1.0):
        model = quantised("Gemm", (1, 200), (150, 200), density)
        given = {"q": bytes_of(model)}
        for target in ("armv7e-m", "x86-64-v3"):
            made = program(model, target, huffman=True)
            assert any("Huffman" in n for k in made.kernels for n in k.notes)
            wanted = run(program(model, target), given)[0]
            np.testing.assert_array_equal(run(made, given)[0], wanted)
            np.testing.assert_array_equal(compiled(target, huffman=True)(model, given)[0], wanted)


def test_options_that_would_do_nothing_are_errors() -> None:
    model = quantised("Gemm", *DENSE)
    with pytest.raises(InputError, match="--activations int8 is for floats that `ingot compress` encoded"):
        front(model, Options(activations="int8"))
    grouped = quantised("Conv", (1, 16, 9, 9), (16, 8, 3, 3), group=2)
    with pytest.raises(InputError, match="--huffman does nothing: ConvInteger node 'layer': convolutions of"):
        front(grouped, Options(huffman=True))


def test_halves_that_are_cast_have_no_bytes() -> None:
    """A codebook of float32 that is cast to float16 is none of the product's."""
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    model = one_node(node, {"x": (1, 64)}, {}, {"w": sparse(random_codes((64, 300), 0.1))})
    call = next(n for n in model.graph.node if n.domain == "ingot")
    call.output[0] = "wide"
    model.graph.node.insert(1, helper.make_node("Cast", ["wide"], ["w"], to=TensorProto.FLOAT16))
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.FLOAT16
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT16
    with pytest.raises(InputError, match="--activations int8 is for floats that"):
        front(model, Options(activations="int8"))


def test_whole_numbers_that_are_cast_keep_their_codes() -> None:
    graph = infer(read_model(quantised("Gemm", *DENSE)))
    cast = next(n for n in graph.nodes if n.op == "Cast")
    (made,) = cast.outputs
    assert made is not None and made.constant is not None and isinstance(made.encoding, Codebook)
    assert made.encoding.values.dtype == np.int8
    np.testing.assert_array_equal(made.encoding.decode(), made.constant)


def test_vectors_have_no_codes() -> None:
    """QLinearMatMul takes a vector, too, which is no matrix of terms and outputs."""
    codes = random_codes((150,), 0.1)
    whole = Codebook(codes.codes, np.rint(40 * codes.values).clip(-127, 127).astype("f"))
    one, zero = np.float32(0.02), np.int8(0)
    names = ["q", "xs", "xz", "w", "xs", "xz", "ys", "xz"]
    node = helper.make_node("QLinearMatMul", names, ["y"], "dot")
    model = one_node(
        node, {"q": (3, 150)}, {"xs": one, "xz": zero, "ys": np.float32(0.5)}, {"w": whole}, rank=1
    )
    call = next(n for n in model.graph.node if n.domain == "ingot")
    call.output[0] = "wide"
    model.graph.node.insert(1, helper.make_node("Cast", ["wide"], ["w"], to=TensorProto.INT8))
    for value in (model.graph.input[0], model.graph.output[0]):
        value.type.tensor_type.elem_type = TensorProto.INT8
    given = {"q": bytes_of(model)}
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    made = stages(model, Options(target="c99", name="net"))
    np.testing.assert_array_equal(run(made.program, given)[0], session.run(None, given)[0])
    assert made.graph.expanded == {"QLinearMatMul node 'dot'": "codes are of matrices of two axes"}


def test_what_no_generator_reads_is_expanded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Generators of all elements want folded zero points: the program is made once more."""
    model = quantised("Gemm", *DENSE)
    given = {"q": bytes_of(model)}
    (wanted,) = run(program(model, "armv7e-m"), given)
    monkeypatch.setattr("ingot.loops.generate.csc", lambda *_: None)
    made = stages(model, Options(target="armv7e-m", name="net"))
    why = "its operand does not lie in memory as entries are read, or Huffman codes save nothing"
    assert made.graph.expanded == {"QGemm node 'layer'": why}
    assert [k.generators for k in made.program.kernels] == [("int_dot",)]
    np.testing.assert_array_equal(run(made.program, given)[0], wanted)
    small = quantised("Conv", (1, 3, 9, 9), (16, 3, 3, 3))
    with pytest.raises(InputError, match="--huffman does nothing: ConvInteger node 'layer': its operand"):
        stages(small, Options(target="x86-64-v3", huffman=True, name="net"))
