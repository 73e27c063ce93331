"""The ONNX reader: what the graph of a model looks like, constants, dimensions, subgraphs, functions."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnx.inliner
import onnx.shape_inference
import pytest
from onnx import helper, numpy_helper, parser

from ingot.driver import digest
from ingot.errors import InputError, ModelError
from ingot.formula.expr import Param
from ingot.formula.packing import pack
from ingot.formula.types import DTYPES
from ingot.frontends.onnx import graph as reader
from ingot.frontends.onnx import read_model
from ingot.graph.ir import Graph
from ingot.graph.onnx_types import dtype_from_onnx, dtype_to_onnx
from ingot.graph.text import graph_text
from ingot.graph.verify import verify
from ingot.ops.infer import infer
from tests.models import model, node, text

LINEAR = text(
    "{ two = Constant<value_float = 2.0>() t = MatMul(x, w) y = Mul(t, two) }",
    "(float[2,2] x, float[2,2] w) => (float[2,2] y) <float[2,2] w = {1,2,3,4}, float[2,2] t>",
)


def read(source: Any, **options: Any) -> Graph:
    return verify(read_model(source, **options))


def ops(graph: Graph) -> list[str]:
    return [n.op for n in graph.nodes]


def test_plain_graph() -> None:
    assert graph_text(read(LINEAR)).splitlines() == [
        "graph g(x: float32[2, 2]) -> y",
        "  t: float32[2, 2] = MatMul(x, w: float32[2, 2] = [[1.0, 2.0], [3.0, 4.0]])",
        "  y: float32[2, 2] = Mul(t, two: float32[] = 2.0)",
    ]


def test_every_source_gives_the_same_graph(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(LINEAR.SerializeToString())
    (tmp_path / "m.onnxtxt").write_text(onnx.printer.to_text(LINEAR))
    sources = [LINEAR, LINEAR.SerializeToString(), tmp_path / "m.onnx", tmp_path / "m.onnxtxt"]
    texts = {graph_text(read(source)) for source in [*sources, str(sources[2])]}
    assert len(texts) == 1


def test_initializer_that_is_an_input_is_a_constant_unless_kept() -> None:
    assert [v.name for v in read(LINEAR).inputs] == ["x"]
    kept = read(LINEAR, keep_inputs=True)
    assert [v.name for v in kept.inputs] == ["x", "w"]
    assert kept.nodes[0].inputs[1] is kept.inputs[1] and kept.inputs[1].constant is None


def test_attributes() -> None:
    tensor = numpy_helper.from_array(np.array([1, 2], np.int64))
    call = node(
        "Foo",
        "x",
        "y",
        i=3,
        f=0.5,
        s="text",
        b=b"\xff",
        ints=[1, 2],
        floats=[0.5],
        strings=["a", "b"],
        t=tensor,
        to=1,
    )
    found = read(model([call])).nodes[0].attributes
    assert isinstance(found["t"], np.ndarray) and found.pop("t").tolist() == [1, 2]
    plain = {"i": 3, "f": 0.5, "s": "text", "b": b"\xff", "to": 1}
    assert found == plain | {"ints": (1, 2), "floats": (0.5,), "strings": ("a", "b")}


def test_missing_inputs_and_outputs_are_none() -> None:
    call = helper.make_node("Foo", ["x", "", "x", ""], ["", "y"])
    found = read(model([call])).nodes[0]
    assert [v and v.name for v in found.inputs] == ["x", None, "x"]
    assert [v and v.name for v in found.outputs] == [None, "y"]


def test_nodes_of_any_order() -> None:
    """Files hold nodes before those they read; what needs no other place keeps its own."""
    nodes = [node("Relu", "a", "y"), node("Abs", "x", "b"), node("Neg", "b", "a"), node("Exp", "x", "z")]
    assert ops(read(model(nodes))) == ["Abs", "Neg", "Relu", "Exp"]
    sides = (
        "then_branch = t () => (float[2] p) {p = Relu(a)}, else_branch = e () => (float[2] q) {q = Abs(a)}"
    )
    inner = text(f"{{ y = If <{sides}> (c) a = Neg(x) }}", "(float[2] x, bool c) => (float[2] y)")
    assert ops(read(inner)) == ["Neg", "If"]


def test_false_shapes_are_forgotten_on_request() -> None:
    told = text("{ t = Relu(x) y = Neg(t) }", "(float[2] x) => (float[2,1] y) <float[3] t>")
    graph = infer(read(told, infer_shapes=True))
    assert [v.shape for v in graph.values()] == [(2,), (2,), (2,)]
    with pytest.raises(ModelError, match="--infer-shapes"):
        infer(read(told))


def test_false_types_are_forgotten_on_request() -> None:
    told = text("{ y = Less(x, x) }", "(float[2] x) => (float[2] y)")
    assert str(infer(read(told, infer_shapes=True)).outputs[0].type) == "bool"
    with pytest.raises(ModelError, match="--infer-shapes"):
        infer(read(told))


def test_outputs_of_training_that_nobody_reads() -> None:
    call = node("BatchNormalization", "x s b m v", "y m1 v1 m2 v2")
    weights = tuple(numpy_helper.from_array(np.ones(3, np.float32), name) for name in "sbmv")
    read_nowhere = model([call], opset=9, constants=weights)
    assert [v is None for v in infer(read(read_nowhere)).nodes[0].outputs] == [False, True, True, True, True]


def test_version_is_that_of_the_domain() -> None:
    graph = read(text("{ a = Relu(x) y = own.Foo(a) }", opset='"ai.onnx" : 13, "own" : 2'))
    assert [(n.domain, n.version) for n in graph.nodes] == [("", 13), ("own", 2)]
    call = node("Relu", "x", "y", domain="ai.onnx")
    assert [(n.domain, n.version) for n in read(model([call])).nodes] == [("", 17)]


# Constants --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("raw", [True, False])
@pytest.mark.parametrize("name", sorted(DTYPES))
def test_constant_of_every_type(name: str, raw: bool) -> None:
    dtype = DTYPES[name]
    array = np.array([[2, 1, 1], [1, 2, 1]]).astype(dtype.numpy)
    if raw:
        data = pack(array) if dtype.bits < 8 else array
        tensor = helper.make_tensor("w", dtype_to_onnx(dtype), [2, 3], data.tobytes(), raw=True)
    else:
        tensor = helper.make_tensor("w", dtype_to_onnx(dtype), [2, 3], array.reshape(-1).tolist())
    value = read(model([node("Foo", "x w", "y")], constants=(tensor,))).nodes[0].inputs[1]
    assert value is not None and value.constant is not None and value.type is dtype
    assert value.constant.dtype == dtype.numpy and (value.constant == array).all()


def test_bfloat16_keeps_its_bits() -> None:
    tensor = helper.make_tensor("w", 16, [2], np.array([0x3F81, 0xC000], np.uint16).tobytes(), raw=True)
    value = read(model([node("Foo", "x w", "y")], constants=(tensor,))).nodes[0].inputs[1]
    assert value is not None and value.constant is not None
    assert value.constant.dtype == ml_dtypes.bfloat16 and value.constant.tolist() == [1.0078125, -2.0]


def test_booleans_are_0_and_1_whatever_the_bytes() -> None:
    tensor = helper.make_tensor("w", 9, [3], b"\0\2\xff", raw=True)
    value = read(model([node("Foo", "x w", "y")], constants=(tensor,))).nodes[0].inputs[1]
    assert value is not None and value.constant is not None
    assert value.constant.view(np.uint8).tolist() == [0, 1, 1]


def test_every_type_number_round_trips() -> None:
    assert {dtype_from_onnx(dtype_to_onnx(t)) for t in DTYPES.values()} == set(DTYPES.values())
    for name, dtype in DTYPES.items():
        official = {"float32": "FLOAT", "float64": "DOUBLE"}.get(name, name.upper())
        assert onnx.TensorProto.DataType.Name(dtype_to_onnx(dtype)) == official


def test_sparse_constants() -> None:
    broken = model([node("Foo", "x w v", "y")])
    for name, indices in (("w", np.array([1, 5])), ("v", np.array([[0, 1], [1, 2]]))):
        values = numpy_helper.from_array(np.array([7, 8], np.float32), name)
        sparse = helper.make_sparse_tensor(values, numpy_helper.from_array(indices), [2, 3])
        broken.graph.sparse_initializer.append(sparse)
    for value in read(broken).nodes[0].inputs[1:]:
        assert value is not None and value.constant is not None
        assert value.constant.tolist() == [[0, 7, 0], [0, 0, 8]]


@pytest.mark.parametrize("entries", [{}, {"offset": "8"}, {"offset": "4", "length": "24"}], ids=str)
def test_external_data(entries: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "w.bin").write_bytes(np.arange(8, dtype=np.float32).tobytes())
    tensor = onnx.TensorProto(name="w", data_type=1, dims=[2, 3], data_location=onnx.TensorProto.EXTERNAL)
    for key, value in {"location": "sub/w.bin", **entries}.items():
        tensor.external_data.add(key=key, value=value)
    onnx.save(model([node("Foo", "x w", "y")], constants=(tensor,)), tmp_path / "m.onnx")
    found = read(tmp_path / "m.onnx").nodes[0].inputs[1]
    first = int(entries.get("offset", "0")) // 4
    assert found is not None and found.constant is not None
    assert found.constant.tolist() == np.arange(first, first + 6).reshape(2, 3).tolist()


def test_the_hash_of_a_model_covers_its_external_data(tmp_path: Path) -> None:
    """Other weights, another hash, even where the weights lie in an attribute of a subgraph."""
    tensor = onnx.TensorProto(name="w", data_type=1, dims=[2], data_location=onnx.TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="w.bin")
    result = [helper.make_tensor_value_info("t", 1, [2])]
    branch = helper.make_graph([helper.make_node("Constant", [], ["t"], value=tensor)], "b", [], result)
    onnx.save(model([node("If", "x", "y", then_branch=branch, else_branch=branch)]), tmp_path / "m.onnx")
    hashes = set()
    for value in (1.0, 2.0):
        (tmp_path / "w.bin").write_bytes(np.full(2, value, np.float32).tobytes())
        hashes.add(digest(tmp_path / "m.onnx"))
    assert len(hashes) == 2
    onnx.save(model([node("Relu", "x", "y")]), tmp_path / "plain.onnx")
    plain = (tmp_path / "plain.onnx").read_bytes()
    assert digest(tmp_path / "plain.onnx") == digest(plain) == hashlib.sha256(plain).hexdigest()


# Dimensions -------------------------------------------------------------------------------------------------


def test_named_dimensions_are_defined_by_the_caller() -> None:
    source = model([node("Relu", "x", "y")], {"x": ["N", "M", 3]}, {"y": ["N", "M", 3]})
    graph = read(source, define={"N": 2, "M": (1, 8)})
    assert graph.inputs[0].shape == graph.outputs[0].shape == (2, Param("M", 1, 8), 3)
    with pytest.raises(
        InputError,
        match=r"unknown dimensions M: add --define M=\.\.\.; each is a number, or a range such as 1\.\.64",
    ):
        read(source, define={"N": 2})
    with pytest.raises(InputError, match="--define K: no such dynamic dimension; the model has: N, M"):
        read(source, define={"N": 2, "M": 2, "K": 2})
    with pytest.raises(InputError, match="--define N=-1"):
        read(source, define={"N": -1, "M": 2})
    with pytest.raises(InputError, match=r"--define M=\(8, 1\)"):
        read(source, define={"N": 1, "M": (8, 1)})


@pytest.mark.parametrize("unknown", [None, -1])
def test_unnamed_dimensions_go_by_input_and_axis(unknown: int | None) -> None:
    source = model([node("Relu", "x", "y")], {"x": [unknown, 3]}, {"y": [unknown, 3]})
    assert read(source, define={"x:0": 4}).inputs[0].shape == (4, 3)


def test_what_is_not_declared_stays_open() -> None:
    graph = read(model([node("Foo", "x", "a"), node("Foo", "a", "y")], None, {"y": ["K"]}))
    assert [(v.type, v.shape) for v in graph.values()][1:] == [(None, None), (DTYPES["float32"], None)]


# Subgraphs --------------------------------------------------------------------------------------------------


def test_subgraphs_capture_the_very_values_around_them() -> None:
    graph = read(
        text(
            """{ a = Relu(x)
            y = If(c) <then_branch = t () => (float[2,3] z) { z = Add(a, x) },
                       else_branch = e () => (float[2,3] z) {
                           k = Constant<value_float = 1.0>() z = Mul(a, k) }> }""",
            "(float[2,3] x, bool c) => (float[2,3] y)",
        )
    )
    relu, branch = graph.nodes
    then, other = branch.subgraphs["then_branch"], branch.subgraphs["else_branch"]
    assert then.nodes[0].inputs == [relu.outputs[0], graph.inputs[0]]
    assert other.nodes[0].inputs[0] is relu.outputs[0]
    names = [v.name for v in (*then.values(), *other.values())]
    assert names == ["z", "z_2"], "one name, one value"


def test_loop_body() -> None:
    graph = read(
        text(
            """{ y = Loop(n, , x) <body = b (int64 i, bool go, float[2,3] s) => (bool go, float[2,3] r) {
                r = Relu(s) }> }""",
            "(float[2,3] x, int64 n) => (float[2,3] y)",
        )
    )
    body = graph.nodes[0].subgraphs["body"]
    assert [str(v.type) for v in body.inputs] == ["int64", "bool", "float32"]
    assert body.outputs[0] is body.inputs[1] and graph.nodes[0].inputs[1] is None


# Functions --------------------------------------------------------------------------------------------------

CALLS = """
<ir_version: 9, opset_import: ["" : 17, "own" : 1]>
g (float[2] x) => (float[2] y) { y = own.outer <alpha = 0.5> (x) }
"""
SCALED = """
<domain: "own", opset_import: ["" : 16]>
scaled <alpha: float = 0.25, beta> (a, skip) => (b) {
    t = Gemm<alpha: float = @alpha>(a, a) b = Foo<k: int = @beta>(t, skip) }
"""


def test_functions_of_the_model_are_put_in_place() -> None:
    source = CALLS + SCALED
    source += """
    <domain: "own", opset_import: ["" : 16, "own" : 1]>
    outer <alpha> (a) => (b) { t = own.scaled<alpha: float = @alpha>(a) b = own.scaled(t, a) }
    """
    assert graph_text(read(parser.parse_model(source))).splitlines() == [
        "graph g(x: float32[2]) -> y",
        "  y/t/t: ?? = Gemm(x, x) {alpha=0.5}",
        "  y/t: ?? = Foo(y/t/t)",
        "  y/b/t: ?? = Gemm(y/t, y/t) {alpha=0.25}",
        "  y: float32[2] = Foo(y/b/t, x)",
    ]
    assert {n.version for n in read(parser.parse_model(source)).nodes} == {16}


def test_function_that_returns_its_input_or_a_value_twice() -> None:
    source = """
    <ir_version: 9, opset_import: ["" : 17, "own" : 1]>
    g (float[2] x) => (float[2] p, float[2] q, float[2] r) { p, q, r = own.f(x) }
    <domain: "own", opset_import: ["" : 17]>
    f (a) => (a, b, b) { b = Relu(a) }
    """
    graph = read(parser.parse_model(source))
    assert [v.name for v in graph.outputs] == ["p", "q", "r"] and sorted(ops(graph)) == [
        "Identity",
        "Identity",
        "Relu",
    ]


def test_function_call_with_too_many_inputs() -> None:
    source = CALLS.replace("(x)", "(x, x, x)").replace("own.outer", "own.scaled") + SCALED
    with pytest.raises(ModelError, match="more inputs"):
        read(parser.parse_model(source))


SCHEMAS: list[tuple[onnx.NodeProto, dict[str, list[Any]]]] = [
    (node("HardSwish", "x", "y"), {"x": [2, 3]}),
    (node("Mish", "x", "y"), {"x": [2, 3]}),
    (node("Softplus", "x", "y"), {"x": [2, 3]}),
    (node("Gelu", "x", "y", approximate="tanh"), {"x": [2, 3]}),
    (node("LayerNormalization", "x s b", "y"), {"x": [2, 3], "s": [3], "b": [3]}),
    (node("MeanVarianceNormalization", "x", "y", axes=[0]), {"x": [2, 3]}),
    (node("Clip", "x lo", "y"), {"x": [2, 3], "lo": []}),
    (node("Softmax", "x", "y", axis=0), {"x": [2, 3]}),
    (node("GroupNormalization", "x s b", "y", num_groups=2), {"x": [1, 4, 3], "s": [4], "b": [4]}),
    (node("ReduceSumSquare", "x", "y"), {"x": [2, 3]}),
    (node("Attention", "x x x", "y"), {"x": [1, 2, 3, 4]}),
]


@pytest.mark.parametrize("call, inputs", SCHEMAS, ids=[call.op_type for call, _ in SCHEMAS])
def test_bodies_in_the_schemas(
    call: onnx.NodeProto, inputs: dict[str, list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against the inliner of ONNX; as if we had no definitions at all."""
    monkeypatch.setattr(reader, "find", lambda _: None)
    source = model([call], inputs, {"y": ["a"] * len(inputs["x"])}, opset=23)
    found = set(ops(read(source)))
    assert call.op_type not in found
    while True:  # ONNX's own inliner, as long as it finds something to put in place
        source = onnx.shape_inference.infer_shapes(source)
        kinds = [("", n.op_type) for n in source.graph.node]
        inlined = onnx.inliner.inline_selected_functions(source, kinds, inline_schema_functions=True)
        if [n.op_type for n in inlined.graph.node] == [n.op_type for n in source.graph.node]:
            break
        source = inlined
    assert found == {n.op_type for n in source.graph.node} - {"Constant"} | (found & {"Identity"})
