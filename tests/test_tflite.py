"""TFLite models: integers to the bit as litert's reference kernels have them (`tests/tflite/record.py`),
names, variables, branches and loops, sparse and packed constants, and files that are damaged.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import ingot
from ingot.check.litert import truth_of
from ingot.driver import front, region_of
from ingot.errors import InputError
from ingot.frontends.canonical import imported
from ingot.frontends.tflite import import_tflite
from ingot.frontends.tflite.ops import OPS
from ingot.loops.interpret import interpret
from ingot.options import Options
from tests.tflite.cases import cases, drawn, ints
from tests.tflite.writer import Array, Graph, Op, T, model

GOLDEN = Path(__file__).parent / "tflite" / "golden.npz"
CASES = cases()
COMPILED = ("CONV_2D_INT8_8_1", "FULLY_CONNECTED_INT8_8_1", "SOFTMAX_INT8", "REDUCE_PROD_INT8_1")
TOLERANCE = 2e-6
MICRO = ("LSTM_INT8",)
"""Where TFLite Micro's kernel computes otherwise than litert's, and we as Micro: at most one apart."""


@pytest.fixture(scope="module")
def golden() -> Mapping[str, Array]:
    with np.load(GOLDEN) as held:
        return {name: held[name] for name in held.files}


def read(tmp_path: Path, data: bytes, **rest: Any) -> onnx.ModelProto:
    path = tmp_path / "m.tflite"
    path.write_bytes(data)
    return import_tflite(path, **rest)


def feeds(proto: onnx.ModelProto, name: str) -> dict[str, Array]:
    inputs = {v.name for v in proto.graph.input}
    first = [t for t in proto.graph.initializer if t.name in inputs]  # what variables hold
    made = {t.name: onnx.numpy_helper.to_array(t) for t in first}
    plain = [v for v in proto.graph.input if v.name not in made]
    for i, v in enumerate(plain):
        dtype = onnx.helper.tensor_dtype_to_np_dtype(v.type.tensor_type.elem_type)
        made[v.name] = drawn(f"{name}{i}", dtype, tuple(d.dim_value for d in v.type.tensor_type.shape.dim))
    return made


def evaluated(proto: onnx.ModelProto, given: Mapping[str, Array]) -> list[Array]:
    options = Options(fuse=False)
    return interpret(region_of(front(proto, options), options), dict(given))


@pytest.mark.parametrize("name", CASES)
def test_integers_are_those_of_the_reference_kernels(
    name: str, tmp_path: Path, golden: Mapping[str, Array]
) -> None:
    proto = read(tmp_path, CASES[name])
    (found, *_), wanted = evaluated(proto, feeds(proto, name)), golden[name]
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    if wanted.dtype.kind == "f":
        assert np.abs(found - wanted).max() <= TOLERANCE * np.abs(wanted).max()
    else:
        assert np.abs(found.astype(np.int64) - wanted).max() <= int(name in MICRO)


@pytest.mark.parametrize("name", COMPILED)
def test_the_bundle_computes_the_same_integers(
    name: str, tmp_path: Path, golden: Mapping[str, Array]
) -> None:
    proto = read(tmp_path, CASES[name])
    (found,) = ingot.compile(proto).run(feeds(proto, name)).values()
    assert np.array_equal(found, golden[name])


def test_the_documentation_lists_the_operators() -> None:
    text = (Path(__file__).parent.parent / "docs" / "tflite.md").read_text()
    listed = text.partition("<!-- operators -->")[2].partition("<!-- end -->")[0]
    named = sorted(kind for kind in OPS if not kind.startswith("CUSTOM"))
    assert listed.replace("`", "").replace(",", "").split() == named


def test_every_case_is_recorded(golden: Mapping[str, Array]) -> None:
    assert set(golden) == set(CASES)


# ---- names and shapes of the edge

DOUBLED = [T("FLOAT32", (1, 3), name="serving_x:0"), T("FLOAT32", (1, 3), name="sum")]
ADD = Op("ADD", [0, 0], [1], "AddOptions")


def test_the_signature_names_inputs_and_outputs(tmp_path: Path) -> None:
    signature = {
        "inputs": [{"name": "image", "tensor_index": 0}],
        "outputs": [{"name": "scores", "tensor_index": 1}],
        "signature_key": "serving_default",
    }
    proto = read(tmp_path, model(DOUBLED, [ADD], [0], [1], signature_defs=[signature]))
    assert [v.name for v in (*proto.graph.input, *proto.graph.output)] == ["image", "scores"]
    plain = read(tmp_path, model(DOUBLED, [ADD], [0], [1]))
    assert [v.name for v in (*plain.graph.input, *plain.graph.output)] == ["serving_x:0", "sum"]


def test_a_shape_from_the_user_goes_through_the_model(tmp_path: Path) -> None:
    (tmp_path / "m.tflite").write_bytes(model(DOUBLED, [ADD], [0], [1]))
    proto = imported(tmp_path / "m.tflite", inputs=["serving_x:0:4x3"])
    assert [d.dim_value for d in proto.graph.output[0].type.tensor_type.shape.dim] == [4, 3]


def test_quantisation_of_the_edge_is_in_the_metadata(tmp_path: Path) -> None:
    t = T("INT8", (4,), scale=0.5, zero=-3, name="x")
    proto = read(
        tmp_path, model([t, T("INT8", (4,), scale=0.25, zero=1, name="y")], [Op("RELU", [0], [1])], [0], [1])
    )
    found = {p.key: p.value for p in proto.metadata_props}
    assert found == {"ingot.quantisation.x": "0.5 -3", "ingot.quantisation.y": "0.25 1"}


# ---- variables, branches, loops


def counter() -> bytes:
    """A resource that begins as [5, 5] and grows by the input."""
    handle = Op("VAR_HANDLE", [], [1], "VarHandleOptions", {"shared_name": "total"})
    tensors = [
        T("FLOAT32", (2,), name="x"),
        T("RESOURCE", ()),
        T("FLOAT32", (2,)),
        T("FLOAT32", (2,), name="y"),
    ]
    once = Op("CALL_ONCE", [], [], "CallOnceOptions", {"init_subgraph_index": 1})
    ops = [
        once,
        handle,
        Op("READ_VARIABLE", [1], [2]),
        Op("ADD", [2, 0], [3]),
        Op("ASSIGN_VARIABLE", [1, 3], []),
    ]
    first = Graph(
        [T("RESOURCE", ()), T("FLOAT32", (2,), data=np.array([5, 5], np.float32))],
        [
            Op("VAR_HANDLE", [], [0], "VarHandleOptions", {"shared_name": "total"}),
            Op("ASSIGN_VARIABLE", [0, 1], []),
        ],
        [],
        [],
    )
    return model(tensors, ops, [0], [3], first)


def test_a_variable_is_a_state_with_its_first_content(tmp_path: Path) -> None:
    proto = read(tmp_path, counter())
    graph = front(proto, Options())
    (state,) = graph.states
    assert graph.inputs[state.input].name == "total"
    assert state.initial is not None and state.initial.tolist() == [5, 5]
    x, before = np.array([1, 2], np.float32), np.array([5, 5], np.float32)
    found = evaluated(proto, {"x": x, "total": before})
    assert all(np.array_equal(y, [6, 7]) for y in found)


def conditional(inputs: int = 2) -> bytes:
    """x + x where the first element of the condition holds, else x * x."""
    x = T("FLOAT32", (3,))
    main = [T("BOOL", (1,), name="c"), T("FLOAT32", (3,), name="x"), T("FLOAT32", (3,), name="y")]
    fields = {"then_subgraph_index": 1, "else_subgraph_index": 2}
    op = Op("IF", [0, 1][:inputs], [2], "IfOptions", fields)
    branches = [Graph([x, x], [Op(kind, [0, 0], [1])], [0], [1]) for kind in ("ADD", "MUL")]
    return model(main, [op], [0, 1], [2], *branches)


def test_if_takes_one_branch(tmp_path: Path) -> None:
    proto = read(tmp_path, conditional())
    x = np.array([3, 4, 5], np.float32)
    for c, wanted in ((True, x + x), (False, x * x)):
        assert np.array_equal(evaluated(proto, {"c": np.array([c]), "x": x})[0], wanted)


def test_while_runs_until_its_condition_fails(tmp_path: Path) -> None:
    state = [T("INT32", (), name="i"), T("INT32", (), name="n")]
    less = Graph([*state, T("BOOL", ())], [Op("LESS", [0, 1], [2])], [0, 1], [2])
    one = T("INT32", (), data=np.array(1, np.int32))
    step = Graph([*state, one, T("INT32", ())], [Op("ADD", [0, 2], [3])], [0, 1], [3, 1])
    fields = {"cond_subgraph_index": 1, "body_subgraph_index": 2}
    outputs = [T("INT32", (), name="j"), T("INT32", (), name="m")]
    data = model(
        [*state, *outputs], [Op("WHILE", [0, 1], [2, 3], "WhileOptions", fields)], [0, 1], [2], less, step
    )
    proto = read(tmp_path, data)
    found = evaluated(proto, {"i": np.array(2, np.int32), "n": np.array(9, np.int32)})
    assert found[0].item() == 9


# ---- constants


def test_a_bias_may_have_the_axis_of_its_filter(tmp_path: Path) -> None:
    """As older converters write it for depthwise convolutions: the bias has no such axis."""
    scales = [0.01, 0.02, 0.03]
    filters = T("INT8", (1, 2, 2, 3), scale=scales, axis=3, data=np.arange(12, dtype=np.int8))
    made = []
    for axis in (0, 3):
        bias = T("INT32", (3,), scale=[0.5 * s for s in scales], axis=axis, data=np.int32([10, -20, 30]))
        tensors = [
            T("INT8", (1, 4, 4, 3), scale=0.5, zero=3),
            filters,
            bias,
            T("INT8", (1, 3, 3, 3), scale=0.1),
        ]
        options = {"padding": 1, "stride_w": 1, "stride_h": 1, "depth_multiplier": 1}
        op = Op("DEPTHWISE_CONV_2D", [0, 1, 2], [3], "DepthwiseConv2DOptions", options)
        made.append(read(tmp_path, model(tensors, [op], [0], [3])))
    assert made[0].SerializeToString(deterministic=True) == made[1].SerializeToString(deterministic=True)


def test_sparse_weights_are_dense(tmp_path: Path) -> None:
    """CSR along the second axis: rows [1 0 2], [0 0 3]."""
    levels = [
        {"format": 0, "dense_size": 2},
        {
            "format": 1,
            "array_segments_type": 1,
            "array_segments": ("Int32Vector", {"values": [0, 2, 3]}),
            "array_indices_type": 3,
            "array_indices": ("Uint8Vector", {"values": [0, 2, 2]}),
        },
    ]
    sparsity = {"traversal_order": [0, 1], "dim_metadata": levels}
    w = T("FLOAT32", (2, 3), data=np.array([1, 2, 3], np.float32), more={"sparsity": sparsity})
    tensors = [T("FLOAT32", (1, 3), name="x"), w, T("FLOAT32", (1, 2))]
    proto = read(tmp_path, model(tensors, [Op("FULLY_CONNECTED", [0, 1], [2])], [0], [2]))
    (found,) = evaluated(proto, {"x": np.array([[1, 10, 100]], np.float32)})
    assert found.tolist() == [[201, 300]]


def test_constants_of_16_bits_are_folded(tmp_path: Path) -> None:
    half = T("FLOAT16", (3,), data=np.array([0.5, 2, -1], np.float16))
    tensors = [T("FLOAT32", (3,), name="x"), half, T("FLOAT32", (3,)), T("FLOAT32", (3,))]
    data = model(tensors, [Op("DEQUANTIZE", [1], [2]), Op("MUL", [0, 2], [3])], [0], [3])
    proto = read(tmp_path, data)
    assert [n.op_type for n in proto.graph.node] == ["Mul"]


# ---- verify


def test_integers_are_verified_by_litert_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it the error says what to install; with it its numbers count."""
    path = tmp_path / "m.tflite"
    path.write_bytes(CASES["MEAN_INT8"])
    monkeypatch.setitem(sys.modules, "ai_edge_litert.interpreter", None)
    with pytest.raises(InputError, match=r"ingot\[tflite\]"):
        truth_of(path, import_tflite(path))
    monkeypatch.setitem(sys.modules, "ai_edge_litert.interpreter", Litert)
    found = truth_of(path, import_tflite(path))
    assert found.name == "litert's reference kernels"
    assert found.run({"t0": np.zeros((1, 2))}) == {"t2": 7}


class Litert:
    """What `litert` asks of the module: its interpreter gives 7."""

    class OpResolverType:
        BUILTIN_REF = 2

    class Interpreter:
        def __init__(self, path: str, experimental_op_resolver_type: int) -> None:
            assert Path(path).is_file() and experimental_op_resolver_type == 2

        def get_input_details(self) -> list[dict[str, int]]:
            return [{"index": 0}]

        def get_output_details(self) -> list[dict[str, int]]:
            return [{"index": 2}]

        def resize_tensor_input(self, index: int, shape: tuple[int, ...]) -> None:
            assert (index, shape) == (0, (1, 2))

        def set_tensor(self, index: int, value: Array) -> None:
            assert value.shape == (1, 2)

        def get_tensor(self, index: int) -> int:
            return 7

        def allocate_tensors(self) -> None: ...

        def invoke(self) -> None: ...


# ---- what cannot be

CASE_IMAGE = T("INT8", (1, 4, 4, 3), scale=0.5)


def refused(tmp_path: Path, data: bytes) -> str:
    with pytest.raises(InputError) as caught:
        evaluated(read(tmp_path, data), {})
    return str(caught.value)


def test_unknown_operators_are_all_named(tmp_path: Path) -> None:
    ops = [Op("FancyOp", [0], [1]), Op("LSH_PROJECTION", [0], [1])]
    found = refused(tmp_path, model(DOUBLED, ops, [0], [1]))
    assert "CUSTOM FancyOp (at 'sum')" in found and "LSH_PROJECTION" in found


@pytest.mark.parametrize(("kind", "chip"), [("ethos-u", "an Ethos-U"), ("edgetpu-custom-op", "an Edge TPU")])
def test_models_that_an_accelerators_compiler_wrote(kind: str, chip: str, tmp_path: Path) -> None:
    data = model([T("INT8", (2,), name="x"), T("INT8", (2,), name="y")], [Op(kind, [0], [1])], [0], [1])
    found = refused(tmp_path, data)
    assert f"compiled for {chip}: give the model that it was compiled from" in found


@pytest.mark.parametrize(
    "tensors, ops, word",
    [
        (
            [T("FLOAT32", (3,)), T("FLOAT32", (3,), data=bytes(8)), DOUBLED[1]],
            [Op("ADD", [0, 1], [2])],
            "8 bytes",
        ),
        ([T("FLOAT32", (3,)), T("FLOAT32", (3,)), DOUBLED[1]], [Op("ADD", [0, 1], [2])], "nothing makes"),
        ([*DOUBLED, DOUBLED[1]], [Op("ADD", [0, 7], [2])], "no tensor 7"),
        ([T("INT8", (3,)), ints(1), T("INT8", (3,), scale=0.5)], [Op("ADD", [0, 0], [2])], "without a scale"),
        ([T("FLOAT32", (1 << 30, 1 << 30)), *DOUBLED], [ADD], "too large"),
        ([T("INT8", (3,), scale=[0.5, 0.25]), *DOUBLED], [ADD], "2 scales along axis 0"),
        (
            [T("INT8", (3,), scale=0.5, axis=77), *DOUBLED],
            [ADD],
            "quantized_dimension is 77, and it has 1 axes",
        ),
        ([T("INT8", (3,), scale=[0.5] * 3, axis=1), *DOUBLED], [ADD], "quantized_dimension is 1"),
        ([T("INT8", (3,), scale=0.5, axis=-1), *DOUBLED], [ADD], "quantized_dimension is -1"),
        ([*DOUBLED, DOUBLED[1]], [ADD, Op("MUL", [0, 0], [1])], "comes from ADD operator 0 ('sum'), too"),
        ([*DOUBLED, DOUBLED[1]], [Op("ADD", [0, 0], [0])], "comes from the inputs of main, too"),
        ([*DOUBLED, ints(1)], [Op("ADD", [0, 0], [2])], "comes from a buffer of the file, too"),
        ([T("FLOAT32", (3,)), ints(4, -1), DOUBLED[1]], [Op("RESHAPE", [0, 1], [2])], "do not fill"),
        ([T("COMPLEX64", (3,)), *DOUBLED], [Op("ADD", [0, 0], [1])], "COMPLEX64"),
    ],
)
def test_a_contradiction_is_one_error(tmp_path: Path, tensors: list[T], ops: list[Op], word: str) -> None:
    assert word in refused(tmp_path, model(tensors, ops, [0], [2]))


IMAGE = T("FLOAT32", (1, 4, 4, 3))
HUGE = {"padding": 0, "stride_w": 1, "stride_h": 1, "filter_width": 1 << 30, "filter_height": 2}


@pytest.mark.parametrize(
    "tensors, op",
    [
        ([IMAGE, ints(1 << 30, 5), IMAGE], Op("RESIZE_NEAREST_NEIGHBOR", [0, 1], [2])),
        ([CASE_IMAGE, ints(1 << 30, 5), CASE_IMAGE], Op("RESIZE_BILINEAR", [0, 1], [2])),
        ([CASE_IMAGE, IMAGE, CASE_IMAGE], Op("AVERAGE_POOL_2D", [0], [2], "Pool2DOptions", HUGE)),
        ([T("FLOAT32", (1, 1 << 20)), IMAGE, IMAGE], Op("MATRIX_DIAG", [0], [2])),
        ([IMAGE, T("FLOAT32", (1, 1 << 28), is_variable=True), IMAGE], Op("ADD", [0, 1], [2])),
    ],
    ids=lambda one: one.kind if isinstance(one, Op) else "",
)
def test_sizes_in_the_file_take_no_memory(tmp_path: Path, tensors: list[T], op: Op) -> None:
    assert refused(tmp_path, model(tensors, [op], [0], [2]))


def test_subgraphs_that_call_themselves_are_refused(tmp_path: Path) -> None:
    again = Op("CALL", [0], [1], "CallOptions", {"subgraph": 0})
    assert "deep" in refused(tmp_path, model(DOUBLED, [again], [0], [1]))


@pytest.mark.parametrize("seed", range(4))
def test_a_damaged_file_is_one_error_or_another_model(tmp_path: Path, seed: int) -> None:
    """Bytes changed at random: an InputError, or a model that still means something."""
    random = np.random.default_rng(seed)
    original = [CASES["CONV_2D_INT8_4_1"], CASES["SOFTMAX_INT8"], counter(), conditional()][seed]
    errors = 0
    for _ in range(100):
        data = bytearray(original)
        for at in random.integers(0, len(data), 3):
            data[at] = random.integers(0, 256)
        if random.integers(4) == 0:
            del data[random.integers(0, len(data)) :]
        try:
            read(tmp_path, bytes(data))
        except InputError as error:
            assert str(error) and "\n" not in str(error)
            errors += 1
    assert errors > 10, "damage shows"


def test_a_long_name_is_shown_in_part(tmp_path: Path) -> None:
    """As damage makes one of what follows it."""
    kind = "A" * 3000
    tensors = [T("FLOAT32", (2,)), T("FLOAT32", (2,), name="b" * 3000)]
    with pytest.raises(InputError, match=r"A\.\.\. \(at 'b*\.\.\.'\)") as caught:
        read(tmp_path, model(tensors, [Op(kind, [0], [1])], [0], [1]))
    assert len(str(caught.value)) < 400


def test_overlapping_tables_do_not_multiply(tmp_path: Path) -> None:
    """A vector whose every entry is the same operator, and that operator's list of inputs the largest."""
    from ingot.frontends.tflite.flatbuffer import Bytes
    from ingot.frontends.tflite.schema import TABLES

    data = model(DOUBLED, [Op("ADD", [0] * 400, [1])], [0], [1])
    file = Bytes(data, TABLES)
    with pytest.raises(InputError, match="overlap"):
        for _ in range(2000):
            file.root("Model").children("subgraphs")[0].children("operators")[0].integers("inputs")
