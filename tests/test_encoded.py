"""Models with encoded weights: what is read, what the generators make of it, what hostile ones get."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from ingot.driver import stages
from ingot.errors import ModelError
from ingot.formula.expr import Expr, Pick, walk
from ingot.formula.statements import expressions, flatten
from ingot.frontends.onnx import read_model
from ingot.graph.encoding import Codebook, Encoding, Sparse, codes_of
from ingot.loops.evaluate import run
from ingot.loops.program import Program
from ingot.loops.verify import verify_program
from ingot.ops.infer import infer
from ingot.options import Options
from ingot.targets.records import find
from ingot.targets.toolchain import obstacle
from tests.encoded import encode, one_node, packed, random_codes, sparse
from tests.fuzz.levels import compiled
from tests.ops.rows import check

Array = np.ndarray[Any, Any]


def oracle(model: onnx.ModelProto, **inputs: Array) -> list[Array]:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return [np.asarray(a) for a in session.run(None, inputs)]


def gemm(encoding: Encoding, **attributes: int) -> onnx.ModelProto:
    """y = x W', x of one row."""
    columns = encoding.shape[1 if attributes.get("transB") else 0]
    return one_node(
        helper.make_node("Gemm", ["x", "w"], ["y"], **attributes), {"x": (1, columns)}, {}, {"w": encoding}
    )


@pytest.mark.parametrize("kind", ["codebook", "sparse"])
def test_a_call_is_read_as_a_constant_and_any_runtime_computes_the_same(kind: str) -> None:
    dense = random_codes((7, 40), 0.2)
    encoding: Encoding = dense if kind == "codebook" else sparse(dense)
    model = gemm(encoding, transB=1)
    onnx.checker.check_model(model)
    (node,) = read_model(model).nodes
    weights = node.inputs[1]
    assert weights is not None and weights.constant is not None and weights.encoding is not None
    np.testing.assert_array_equal(weights.constant, dense.decode())
    x = np.random.default_rng(1).standard_normal((1, 40)).astype("f")
    np.testing.assert_allclose(oracle(model, x=x)[0], x @ dense.decode().T, atol=1e-5)


def test_a_call_of_computed_inputs_is_its_body() -> None:
    model = gemm(random_codes((7, 40), 0.2), transB=1)
    model.graph.initializer.remove(next(t for t in model.graph.initializer if t.name == "w_values"))
    model.graph.input.append(helper.make_tensor_value_info("w_values", TensorProto.FLOAT, (16,)))
    assert [n.op for n in read_model(model).nodes] == ["Cast", "Gather", "Gemm"]


def test_a_function_of_the_name_with_another_body_is_inlined() -> None:
    """Whatever the model calls its values and however it writes its constants: ours are known by what they
    do; what does something else is computed."""
    dense = random_codes((7, 40), 0.2)
    for of, encoding in (("Codebook", dense), ("Sparse", sparse(dense))):
        model = gemm(encoding, transB=1)
        function = next(f for f in model.functions if f.name == of)
        for node in function.node:
            node.name = f"of {node.output[0]}"
            for names in (node.input, node.output):
                names[:] = [n and f"{n}_" for n in names]
        function.input[:], function.output[:] = (
            [f"{n}_" for n in s] for s in (function.input, function.output)
        )
        assert [n.op for n in read_model(model).nodes] == ["Gemm"]
        last = function.node[-1]
        last.output[0] = "positive"
        function.node.append(helper.make_node("Neg", ["positive"], list(function.output)))
        graph = read_model(model)
        assert len(graph.nodes) > 1 and all(v.encoding is None for n in graph.nodes for v in n.inputs if v)
        x = np.random.default_rng(1).standard_normal((1, 40)).astype("f")
        wanted = -x @ dense.decode().T
        np.testing.assert_allclose(oracle(model, x=x)[0], wanted, atol=1e-5)
        check(run(program(model, "c99"), {"x": x}), [wanted], 1e-5, "loops")


def test_transposed_and_reshaped_weights_keep_their_codebook() -> None:
    dense = random_codes((6, 8), 0.5)
    model = gemm(dense)
    turn = helper.make_node("Transpose", ["w"], ["turned"], perm=[1, 0])
    shape = numpy_helper.from_array(np.array([4, 12], np.int64), "shape")
    model.graph.initializer.append(shape)
    model.graph.node.insert(1, turn)
    model.graph.node.insert(2, helper.make_node("Reshape", ["turned", "shape"], ["reshaped"]))
    model.graph.node[3].input[1] = "reshaped"
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 4
    graph = infer(read_model(model))
    weights = graph.nodes[-1].inputs[1]
    assert weights is not None and isinstance(weights.encoding, Codebook)
    np.testing.assert_array_equal(weights.encoding.decode(), dense.decode().T.reshape(4, 12))


def test_codes_are_found_to_the_bit() -> None:
    values = np.array([0.0, -0.0, np.nan, 1.5], "f")
    array = np.array([[1.5, -0.0], [np.nan, 0.0]], "f")
    codes = codes_of(array, values)
    assert codes is not None
    np.testing.assert_array_equal(codes, [[3, 1], [2, 0]])
    assert codes_of(array + 1, values) is None
    assert codes_of(array.astype("d"), values) is None
    assert all(codes_of(np.zeros((2, 3), narrow), values) is None for narrow in (np.int8, np.float16))


SPARSE = sparse(random_codes((4, 20), 0.3))
DENSE = random_codes((4, 20), 0.3)
HOSTILE: dict[str, tuple[Encoding, str]] = {
    "a code too many": (replace(DENSE, codes=DENSE.codes | 15, values=DENSE.values[:8]), "stands for none"),
    "three values": (replace(DENSE, codes=DENSE.codes & 1, values=DENSE.values[:3]), "a power of two"),
    "no values": (replace(DENSE, codes=DENSE.codes & 0, values=DENSE.values[:0]), "a power of two"),
    "entries beyond the end": (replace(SPARSE, shape=(4, 4)), "the entries reach to"),
    "fewer gaps": (replace(SPARSE, gaps=SPARSE.gaps[1:]), "should be one list each"),
    "wide gaps": (replace(SPARSE, gap_bits=2), "gaps do not fit"),
    "no gap bits": (replace(SPARSE, gap_bits=0), "gaps do not fit"),
    "a filler that is not 0": (replace(SPARSE, values=SPARSE.values + 1), "should be 0"),
    "a negative extent": (replace(SPARSE, shape=(-4, -20)), "no tensor has the shape"),
    "a huge shape": (replace(SPARSE, shape=(1 << 40, 1 << 40)), "no tensor has the shape"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_encodings_are_one_clear_error(name: str) -> None:
    encoding, message = HOSTILE[name]
    model = one_node(helper.make_node("Relu", ["w"], ["y"]), {}, {}, {})
    with pytest.raises(ModelError, match=f"{'Sparse' if isinstance(encoding, Sparse) else 'Codebook'} node"):
        read_model(encode(model, {"w": encoding}))
    with pytest.raises(ModelError, match=message):
        read_model(encode(one_node(helper.make_node("Relu", ["w"], ["y"]), {}, {}, {}), {"w": encoding}))


def test_small_files_of_huge_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kilobyte could claim a gigabyte, again and again."""
    monkeypatch.setattr("ingot.graph.onnx_form.MOST_ELEMENTS", 4096)
    empty = Sparse((32, 32), *np.zeros((2, 1), np.uint8), np.zeros(16, "f"), 4)
    model = encode(one_node(helper.make_node("Relu", ["w0"], ["y"]), {}, {}, {}), {"w0": empty})
    assert len(read_model(model).nodes) == 1
    for n in range(1, 5):
        call = helper.make_node("Sparse", model.graph.node[0].input, [f"w{n}"], gap_bits=4, domain="ingot")
        model.graph.node.append(call)
    with pytest.raises(ModelError, match="have more than 4,096 elements"):
        read_model(model)


def test_parts_of_other_types_are_one_clear_error() -> None:
    model = one_node(helper.make_node("Relu", ["w"], ["y"]), {}, {}, {"w": DENSE})
    broken = onnx.ModelProto.FromString(model.SerializeToString())
    broken.graph.initializer[0].CopyFrom(numpy_helper.from_array(DENSE.codes.astype("f"), "w_codes"))
    with pytest.raises(ModelError, match="'w_codes' is float32, where uint4 or uint8 belongs"):
        read_model(broken)
    broken = onnx.ModelProto.FromString(model.SerializeToString())
    broken.graph.initializer[1].CopyFrom(packed(DENSE.codes[0, :16], "w_values", 4))
    with pytest.raises(ModelError, match="'w_values' is uint4, where float32 belongs"):
        read_model(broken)


def program(model: onnx.ModelProto, target: Any, **options: Any) -> Program:
    """The program for a target, every access of it proved."""
    made = stages(model, Options(target=target, name="net", **options)).program
    assert verify_program(made) == []
    return made


VECTORS = ("x86-64-v4-vnni", "x86-64-v4", "x86-64-v3", "aarch64")
WALKED = ("c99", "armv7e-m", "x86-64")
SHAPES = [(1, 40, 128), (3, 17, 150), (1, 33, 300), (2, 16, 130)]
CASES = [(shape, density) for shape in SHAPES for density in (0.0, 0.05, 0.3, 1.0)]


def dense_layer(
    shape: tuple[int, int, int], density: float, rectified: bool = False, bits: int = 4
) -> tuple[onnx.ModelProto, Array, Array]:
    """y = x W' + b, an input, and the result, summed in double precision."""
    batch, rows, columns = shape
    codes, rng = random_codes((rows, columns), density, rows, bits), np.random.default_rng(2)
    bias, x = (rng.standard_normal(s).astype("f") for s in ((rows,), (batch, columns)))
    x = np.maximum(x, 0) if rectified else x
    node = helper.make_node("Gemm", ["x", "w", "b"], ["y"], transB=1)
    model = one_node(node, {"x": x.shape}, {"b": bias}, {"w": sparse(codes)})
    return model, x, (x.astype("d") @ codes.decode().T + bias).astype("f")


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Zeros are skipped though it may not pay."""
    monkeypatch.setattr("ingot.loops.choice.cheapest", lambda *_: "entries")


@pytest.mark.parametrize("activations", ["float", "int8"])
@pytest.mark.parametrize("shape, density", CASES, ids=str)
def test_products_with_encoded_matrices(
    shape: tuple[int, int, int], density: float, activations: str, always: None
) -> None:
    model, x, wanted = dense_layer(shape, density, rectified=activations == "int8")
    most = 1e-5 if activations == "float" else 1e-2
    for target in VECTORS:
        made = program(model, target, activations=activations)
        check(run(made, {"x": x}), [wanted], most, f"loops for {target}")
        # of floats aarch64 has no look-up; layers that would lose too much stay float
        is_walked = target == "aarch64" and not any(t.name.endswith("_sums") for t in made.constants)
        assert is_walked or any(isinstance(n, Pick) for n in nodes(made))
    target = VECTORS[CASES.index((shape, density)) % len(VECTORS)]
    if not obstacle(find(target)):
        outputs = compiled(target, activations=activations)(model, {"x": x})
        check(outputs, [wanted], most, f"C for {target}")


@pytest.mark.parametrize("activations", ["float", "int8"])
@pytest.mark.parametrize(
    "shape, density",
    [
        ((1, 40, 128), 0.05),
        ((2, 17, 30), 0.2),
        ((1, 300, 9), 0.01),
        ((1, 400, 300), 0.01),
        ((5, 60, 200), 0.2),
    ],
)
def test_columns_of_encoded_matrices(
    shape: tuple[int, int, int], density: float, activations: str, always: None
) -> None:
    model, x, wanted = dense_layer(shape, density, rectified=True)
    for target in WALKED:
        made = program(model, target, activations=activations)
        check(run(made, {"x": x}), [wanted], 1e-2 if activations == "int8" else 1e-5, f"loops for {target}")
        assert any(t.name.endswith("_entries") for t in made.constants)
        if not obstacle(find(target)):
            outputs = compiled(target, activations=activations)(model, {"x": x})
            check(outputs, run(made, {"x": x}), 1e-6, f"C for {target}")


@pytest.mark.parametrize("density", [0.0, 0.02, 0.2])
@pytest.mark.parametrize("shape", [(1, 40, 128), (2, 17, 30), (1, 33, 700), (3, 5, 16)], ids=str)
def test_rows_of_encoded_matrices(shape: tuple[int, int, int], density: float) -> None:
    """Windows of as many columns as there are and of fewer, rows without an entry."""
    model, x, wanted = dense_layer(shape, density)
    for threads in (True, False):
        made = program(model, "armv8.1m", activations="int8", threads=threads)
        check(run(made, {"x": x}), [wanted], 1e-2, "loops")
        assert any(isinstance(n, Pick) for n in nodes(made)) == (density > 0)
    if not obstacle(find("armv8.1m")):
        outputs = compiled("armv8.1m", activations="int8")(model, {"x": x})
        check(outputs, run(made, {"x": x}), 1e-6, "C")


def is_huffman(made: Program) -> bool:
    return any("Huffman" in n for k in made.kernels for n in k.notes)


@pytest.mark.parametrize("activations", ["float", "int8"])
@pytest.mark.parametrize(
    "shape, density, bits", [((1, 60, 90), 0.1, 5), ((2, 300, 5), 0.9, 8), ((1, 600, 2), 0.6, 1)]
)
def test_entries_in_huffman_codes(
    shape: tuple[int, int, int],
    density: float,
    bits: int,
    activations: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rings of one column and of many, tables of one symbol and of 256; also where they save nothing."""
    monkeypatch.setattr("ingot.loops.choice.saved_bytes", lambda _: 1)
    model, x, wanted = dense_layer(shape, density, rectified=True, bits=bits)
    for target, also in (("armv7e-m", "s390x"), ("x86-64-v4-vnni", "c99")):
        made = program(model, target, activations=activations, huffman=True)
        assert is_huffman(made)
        looped = run(made, {"x": x})
        check(looped, [wanted], 1e-2 if activations == "int8" else 1e-5, f"loops for {target}")
        for name in (target, also):
            if not obstacle(find(name)):
                outputs = compiled(name, activations=activations, huffman=True)(model, {"x": x})
                check(outputs, looped, 1e-2 if activations == "int8" else 1e-6, f"C for {name}")


def test_huffman_codes_of_convolutions_and_recurrent_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stream is read once for all points, and in every step."""
    monkeypatch.setattr("ingot.loops.choice.saved_bytes", lambda _: 1)
    w = random_codes((20, 12, 3, 3), 0.2, bits=6)
    node = helper.make_node("Conv", ["x", "w"], ["y"], strides=[2, 2])
    model = one_node(node, {"x": (1, 12, 9, 7)}, {}, {"w": sparse(w)}, rank=4)
    x = np.random.default_rng(1).standard_normal((1, 12, 9, 7)).astype("f")
    r, v = random_codes((1, 80, 20), 0.2, bits=6), random_codes((1, 80, 16), 0.2, 1, 6)
    node = helper.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=20)
    recurrent = one_node(node, {"x": (3, 1, 16)}, {}, {"w": sparse(v), "r": r}, rank=4)
    steps = np.random.default_rng(1).standard_normal((3, 1, 16)).astype("f")
    for made, given in ((model, x), (recurrent, steps)):
        wanted = oracle(made, x=given)
        for target in ("armv7e-m", "x86-64-v3"):
            for threads in (False, True):
                found = program(made, target, huffman=True, threads=threads)
                assert is_huffman(found)
                check(run(found, {"x": given}), wanted, 1e-5, f"loops for {target}")
                outputs = compiled(target, huffman=True, threads=threads)(made, {"x": given})
                check(outputs, wanted, 1e-5, f"{target}, threads: {threads}")


CODED = ("x86-64-v4", "x86-64-v3", "c99")


def kept_codes(made: Program) -> bool:
    """Whether all large weights of a program are bytes; a bias of 300 may have a rest of a vector more."""
    return all(t.type.bytes == 1 or t.count < 316 for t in made.constants)


@pytest.mark.parametrize("shape", [(1, 40, 128), (5, 17, 30), (1, 300, 9), (3, 50, 33)], ids=str)
def test_products_with_codebooks(shape: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ingot.loops.choice.cheapest", lambda *_: "codes")
    model, x, wanted = dense_layer(shape, 0.7)
    for target in CODED:
        made = program(model, target, math="exact")
        check(run(made, {"x": x}), [wanted], 1e-5, f"loops for {target}")
        assert kept_codes(made)
        if not obstacle(find(target)):
            check(compiled(target)(model, {"x": x}), run(made, {"x": x}), 1e-6, f"C for {target}")


@pytest.mark.parametrize("how", ["entries", "codes"])
@pytest.mark.parametrize("density", [0.1, 0.9])
def test_convolutions_with_encoded_weights(how: str, density: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Channels last inside, the weights transposed; windows that leave the image, strides."""
    monkeypatch.setattr("ingot.loops.choice.cheapest", lambda *_: how)
    w, w2 = random_codes((20, 12, 3, 3), density), random_codes((33, 20, 1, 1), density, seed=1)
    first = helper.make_node("Conv", ["x", "w"], ["h"], pads=[1, 1, 1, 1], strides=[2, 2])
    model = one_node(first, {"x": (1, 12, 9, 7)}, {}, {"w": sparse(w), "w2": w2}, rank=4)
    model.graph.node.append(helper.make_node("Relu", ["h"], ["r"]))
    model.graph.node.append(helper.make_node("Conv", ["r", "w2"], ["y"]))
    model.graph.output[0].name = "y"
    x = np.random.default_rng(1).standard_normal((1, 12, 9, 7)).astype("f")
    wanted = oracle(model, x=x)
    for target in ("x86-64-v4", "x86-64-v3", "c99", "aarch64"):
        made = program(model, target, math="standard")
        check(run(made, {"x": x}), wanted, 1e-5, f"loops for {target}")
        assert not target.startswith("x86") or any(k.notes for k in made.kernels)
    for target in ("x86-64-v3", "c99"):
        check(compiled(target)(model, {"x": x}), wanted, 1e-5, f"C for {target}")


@pytest.mark.parametrize("density", [0.1, 0.9])
def test_recurrent_layers_with_encoded_weights(density: float) -> None:
    w, r = (random_codes((1, 4 * 40, n), density, seed=n) for n in (64, 40))
    node = helper.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=40)
    model = one_node(node, {"x": (6, 1, 64)}, {}, {"w": sparse(w), "r": r}, rank=4)
    x = np.random.default_rng(1).standard_normal((6, 1, 64)).astype("f")
    wanted = oracle(model, x=x)
    for target in ("x86-64-v4", "x86-64-v3", "c99"):
        check(run(program(model, target), {"x": x}), wanted, 1e-5, f"loops for {target}")
    check(compiled("x86-64-v3")(model, {"x": x}), wanted, 1e-5, "C")


def test_matmul_of_many_rows_by_an_encoded_matrix() -> None:
    w = random_codes((70, 48), 0.1)
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    model = one_node(node, {"x": (2, 3, 70)}, {}, {"w": sparse(w)}, rank=3)
    x = np.random.default_rng(1).standard_normal((2, 3, 70)).astype("f")
    for target in ("x86-64-v4", "x86-64-v3", "c99"):
        check(run(program(model, target), {"x": x}), [x @ w.decode()], 1e-5, f"loops for {target}")


@pytest.mark.parametrize("bits", [1, 5, 8])
def test_codes_of_other_widths(bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Registers hold 32 values at most, tables in memory all there can be."""
    model, x, wanted = dense_layer((1, 33, 150), 0.2, rectified=True, bits=bits)
    ways = [("x86-64-v4-vnni", "int8", "entries"), ("x86-64-v4", "float", "entries")]
    ways += [("c99", "float", "entries"), ("c99", "float", "codes")]
    for target, activations, how in ways:
        monkeypatch.setattr("ingot.loops.choice.cheapest", lambda *_, how=how: how)
        made = program(model, target, activations=activations)
        check(run(made, {"x": x}), [wanted], 1e-2 if activations == "int8" else 1e-5, target)
        assert bits > 5 or any(k.notes for k in made.kernels)
    check(compiled("c99")(model, {"x": x}), [wanted], 1e-5, "C")


ODD = replace(DENSE, codes=np.resize(DENSE.codes, (12, 160)))
ODD_CASES: dict[str, Codebook] = {
    "no elements": random_codes((5, 0), 1.0),
    "a NaN": replace(ODD, values=np.where(np.arange(16) == 3, np.float32(np.nan), ODD.values)),
    "an infinity": replace(ODD, values=np.where(np.arange(16) == 3, np.float32(np.inf), ODD.values)),
    "equal values": replace(ODD, values=np.ones(16, "f")),
    "only zeros": replace(ODD, values=np.zeros(16, "f")),
}


@pytest.mark.parametrize("name", ODD_CASES)
def test_odd_codebooks(name: str) -> None:
    model = gemm(ODD_CASES[name], transB=1)
    x = np.maximum(np.random.default_rng(1).standard_normal((1, ODD_CASES[name].shape[1])), 0).astype("f")
    wanted = oracle(model, x=x)
    for target in ("x86-64-v4-vnni", "c99"):
        for activations in ("float", "int8"):
            made = program(model, target, activations=activations)
            check(run(made, {"x": x}), wanted, 1e-2, f"{target} {activations}")


def test_a_batch_that_only_the_run_tells() -> None:
    model, x, wanted = dense_layer((3, 256, 256), 0.05, rectified=True)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "N"
    for target, activations in (
        ("x86-64-v4-vnni", "int8"),
        ("x86-64-v4", "float"),
        ("c99", "float"),
        ("armv8.1m", "int8"),
    ):
        made = program(model, target, activations=activations, define={"N": (1, 4)})
        check(run(made, {"x": x}, {"N": 3}), [wanted], 1e-2 if activations == "int8" else 1e-5, target)
        assert any(k.notes for k in made.kernels)


@pytest.mark.parametrize("activations", ["float", "int8"])
@pytest.mark.parametrize("target", ["x86-64-v4-vnni", "x86-64-v4", "x86-64-v3", "c99"])
@pytest.mark.parametrize("shape", [(24, 9, 3, 3), (24, 16, 1, 1)], ids=["3x3", "1x1"])
def test_a_convolution_over_a_batch_that_only_the_run_tells(
    shape: tuple[int, ...], target: str, activations: str
) -> None:
    node = helper.make_node("Conv", ["x", "w"], ["y"])
    x = np.random.default_rng(2).standard_normal((3, shape[1], 7, 8)).astype("f")
    model = one_node(node, {"x": x.shape}, {}, {"w": sparse(random_codes(shape, 0.1))})
    wanted = oracle(model, x=x)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "N"
    made = program(model, target, activations=activations, define={"N": (1, 4)})
    check(run(made, {"x": x}, {"N": 3}), wanted, 1e-2 if activations == "int8" else 1e-5, target)


def test_zeros_are_skipped_where_that_pays() -> None:
    def is_sparse(shape: tuple[int, int], density: float, target: str, **options: Any) -> bool:
        model, _, _ = dense_layer((1, *shape), density)
        notes = [n for k in program(model, target, **options).kernels for n in k.notes]
        assert all(f" {shape[0]}x{shape[1]}" in n and " bytes" in n for n in notes)
        return any("%" in n for n in notes)

    for target in ("x86-64-v4", "x86-64-v3", "c99", "armv7e-m"):
        assert is_sparse((512, 1024), 0.05, target)
        assert not is_sparse((64, 128), 0.9, target)
        assert not is_sparse((512, 1024), 0.05, target, math="exact")
    for target in ("x86-64-v4-vnni", "armv7e-m", "armv8.1m"):
        assert is_sparse((512, 1024), 0.05, target, math="exact", activations="int8")


def nodes(of: Program) -> Iterator[Expr]:
    """Every expression of every kernel."""
    for kernel in of.kernels:
        yield from (n for s in flatten(kernel.body) for e in expressions(s) for n in walk(e))
