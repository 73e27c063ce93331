"""Models that are broken, hostile or absurd: each gets one clear error in time, or is accepted, nothing else.

The corpus is made here. A case is accepted or refused with an InputError of the given kind whose message, on
one line, contains the given words.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper, parser

from ingot.errors import InputError, ModelError, ShapeError, UnsupportedError
from ingot.frontends.onnx import read_model, read_proto
from ingot.graph.verify import verify
from tests.models import SECONDS, limit, model, node, refuse, take, text

DIGITS = Path(__file__).parent.parent / "examples" / "digits" / "digits.onnx"
RELU = node("Relu", "x", "y")

# The file itself --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tenth", range(10))
def test_truncated(tenth: int) -> None:
    data = DIGITS.read_bytes()
    refuse(data[: len(data) * tenth // 10], ModelError, "not an ONNX model")


@pytest.mark.parametrize("seed", range(40))
def test_flipped_byte(seed: int) -> None:
    data, choice = bytearray(DIGITS.read_bytes()), random.Random(seed)
    end = 1200 if seed % 2 else len(data)  # the nodes come first, the weights behind them
    data[choice.randrange(end)] ^= 1 << choice.randrange(8)
    try:
        take(bytes(data))
    except InputError as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize("data", [b"", b"\0" * 64, b"PK\3\4"[::-1], b"{", os.urandom(999)])
def test_not_onnx(data: bytes) -> None:
    refuse(data, InputError, "the model is ")


@pytest.mark.parametrize("path", ["no/such/file.onnx", "src", "/dev/zero", "a\0b.onnx"])
def test_not_a_file(path: str) -> None:
    refuse(path, InputError, "cannot read")


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"\xff\xfe", b"g (", b"<ir_version: 8>\ng () => () {", b"\0" * 9),
        b'<ir_version: 8, opset_import: ["" : 99999999999999999999]>\ng () => () {}',
    ],
)
def test_not_text(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "m.onnxtxt"
    path.write_bytes(content)
    refuse(path, InputError, "")


def test_text_without_end(tmp_path: Path) -> None:
    """A gigabyte of nothing, which takes no room on the disk."""
    path = tmp_path / "m.onnxtxt"
    path.write_bytes(b"<ir_version: 8>" + b" " * (1 << 16))
    with path.open("ab") as file:
        file.truncate(1 << 30)
    refuse(path, InputError, "at most 134,217,728 are read of such a file")


def test_quotes_without_end(tmp_path: Path) -> None:
    """Each of them might begin a string that ends nowhere."""
    path = tmp_path / "m.onnxtxt"
    path.write_text('<ir_version: 10, doc_string: "' + '\\"' * 500_000)
    with limit(SECONDS):
        refuse(path, ModelError, "is not ONNX text: [ParseError")


def test_backslashes_without_end(tmp_path: Path) -> None:
    """Protobuf's reader takes time by the square of a run of them."""
    path = tmp_path / "m.pbtxt"
    path.write_text('ir_version: 10 graph { node { input: "' + "\\" * 300_001 + '" } }')
    with limit(SECONDS):
        refuse(path, ModelError, "is no text form of an ONNX model")
    path.write_text('ir_version: 10 graph { name: "' + "\\" * 40_000 + '" }')
    assert read_proto(path).graph.name == "\\" * 20_000


def test_axes_without_end_are_refused() -> None:
    """A thousand loops in each other are no program; a resized axis of 2e9 needs no table of 2e9 places."""
    refuse(model([RELU], {"x": [1] * 65}, {"y": [1] * 65}), ModelError, "65 axes, more than 64")
    axes = numpy_helper.from_array(np.arange(64), "a")
    unsqueeze = helper.make_node("Unsqueeze", ["x", "a"], ["y"])
    refuse(model([unsqueeze], {"x": [1]}, {"x": [1]}, (axes,)), ShapeError, "65 axes, more than 64")
    scales = numpy_helper.from_array(np.array([1, 1, 1e9, 1e9], np.float32), "s")
    resize = helper.make_node("Resize", ["x", "", "s"], ["y"])
    refuse(
        model([resize], {"x": [1, 1, 2, 2]}, {"x": [1, 1, 2, 2]}, (scales,)), ShapeError, "axis 2 is resized"
    )


# Names ------------------------------------------------------------------------------------------------------

NAMES = [
    *(
        "*/ int x; /*",
        "//",
        "\\",
        '"',
        "'",
        "%s%n",
        "??/",
        "a\nb",
        "a\rb",
        "a\0b",
        "#include",
        " ",
        "é",
        "\u202e",
    ),
    *(
        "int",
        "main",
        "memcpy",
        "NULL",
        "restrict",
        "_Bool",
        "0",
        "9a",
        "__x",
        "a" * 20_000,
        "\U0001f600",
        "a\tb",
    ),
    *('"); system("touch /tmp/x"); ("', "../../etc/passwd", "${HOME}", "`id`", "<script>", "\x7f", "x;y"),
]


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_hostile_names_are_accepted(name: str) -> None:
    nodes = [
        helper.make_node("Relu", [name], [name + "1"], name=name),
        helper.make_node("Add", [name + "1", name + "c"], [name + "2"]),
    ]
    constant = numpy_helper.from_array(np.ones(3, np.float32), name + "c")
    graph = take(model(nodes, {name: [2, 3]}, {name + "2": [2, 3]}, (constant,)))
    assert [v.name for v in (*graph.inputs, *graph.outputs)] == [name, name + "2"]


def test_names_that_mangle_alike_are_accepted() -> None:
    names = ["a/b", "a_b", "a.b", "a:b", "a b", "a__b", "A_B"]
    nodes = [helper.make_node("Relu", [a], [b]) for a, b in zip(["x", *names], [*names, "y"], strict=True)]
    assert [v.name for v in take(model(nodes)).values()] == ["x", *names, "y"]


def test_a_dimension_of_a_megabyte_is_a_short_remark(capsys: pytest.CaptureFixture[str]) -> None:
    take(model([RELU], {"x": ["N\n" * 500_000, 3]}, {"y": [1, 3]}))
    said = capsys.readouterr().err
    assert said.startswith("ingot: note: batch dimension N?N?") and len(said) < 1100 and said.count("\n") == 1


def test_names_that_are_not_utf8() -> None:
    data = model([RELU], {"x": [2, 3]}).SerializeToString().replace(b"Relu", b"R\xff\xfeu")
    refuse(data, ModelError, "not UTF-8")


# The graph --------------------------------------------------------------------------------------------------


def _output_twice() -> onnx.ModelProto:
    made = model([RELU])
    made.graph.output.append(helper.make_tensor_value_info("y", 1, [2, 3, 1]))
    return made


def _ml_opset(version: int) -> onnx.ModelProto:
    made = model([node("Binarizer", "x", "y", domain="ai.onnx.ml")])
    made.opset_import.add(domain="ai.onnx.ml", version=version)
    return made


GRAPHS: dict[str, tuple[Callable[[], onnx.ModelProto], type[InputError], str]] = {
    "cycle": (
        lambda: model([node("Add", "x b", "a"), node("Relu", "a", "b"), node("Relu", "b", "y")]),
        ModelError,
        "'b'",
    ),
    "self loop": (lambda: model([node("Add", "x y", "y")]), ModelError, "Add node 'y' reads 'y'"),
    "missing input": (lambda: model([node("Relu", "z", "y")]), ModelError, "'z'"),
    "output not produced": (lambda: model([RELU], None, {"z": [2, 3]}), ModelError, "'z'"),
    "no outputs": (lambda: model([RELU], None, {}), ModelError, "no outputs"),
    "empty graph": (lambda: model([]), ModelError, "'y'"),
    "no graph": (lambda: onnx.ModelProto(ir_version=8), ModelError, "no graph"),
    "value made twice": (lambda: model([RELU, RELU]), ModelError, "'y' is defined twice"),
    "input made again": (
        lambda: model([node("Relu", "x", "x")], None, {"x": [2, 3]}),
        ModelError,
        "defined twice",
    ),
    "output of a node twice": (
        lambda: model([node("Split", "x", "y y", axis=0)]),
        ModelError,
        "defined twice",
    ),
    "node without outputs": (lambda: model([node("Relu", "x", ""), RELU]), ModelError, "makes nothing"),
    "nameless input": (lambda: model([RELU], {"x": [2, 3], "": [1]}), ModelError, "no name"),
    "opset 0": (lambda: model([RELU], opset=0), ModelError, "opset 0"),
    "opset -1": (lambda: model([RELU], opset=-1), ModelError, "opset -1"),
    "opset 999": (lambda: model([RELU], opset=999), UnsupportedError, "999"),
    "ir_version 0": (lambda: model([RELU], ir_version=0), ModelError, "ir_version is 0"),
    "ir_version -5": (lambda: model([RELU], ir_version=-5), ModelError, "ir_version is -5"),
    "ir_version 2^40": (lambda: model([RELU], ir_version=1 << 40), UnsupportedError, "ir_version is 109951"),
    "opset 9999 of another domain": (
        lambda: _ml_opset(9999),
        UnsupportedError,
        "9999 of domain 'ai.onnx.ml'",
    ),
    "no opset": (lambda: model([RELU], opset=None), ModelError, "no opset"),
    "foreign domain": (lambda: model([node("Relu", "x", "y", domain="com.acme")]), ModelError, "com.acme"),
    "attribute twice": (lambda: _twice(node("Softmax", "x", "y", axis=1)), ModelError, "given twice"),
    "declared shape is false": (
        lambda: model([RELU], None, {"y": [2, 4]}),
        ModelError,
        "declared as float32[2, 4]",
    ),
    "declared rank is false": (lambda: model([RELU], None, {"y": [6]}), ModelError, "declared as float32[6]"),
    "declared type is false": (
        lambda: text("{ y = Relu(x) }", "(float[2] x) => (int32[2] y)"),
        ModelError,
        "declared",
    ),
    "an input declared in two shapes": (
        lambda: text("{ y = Relu(x) }", "(float[2] x) => (float[2] y) <float[3] x>"),
        ModelError,
        "'x' is declared twice, as float32[3] and as float32[2]",
    ),
    "an input declared in two types": (
        lambda: text("{ y = Relu(x) }", "(float[2] x) => (float[2] y) <int64[2] x>"),
        ModelError,
        "'x' is declared twice, as int64[2] and as float32[2]",
    ),
    "an output declared in two ranks": (
        _output_twice,
        ModelError,
        "'y' is declared twice, as float32[2, 3] and as float32[2, 3, 1]",
    ),
    "inner shape is false": (
        lambda: text("{ a = Relu(x) y = Relu(a) }", "(float[2] x) => (float[2] y) <float[3] a>"),
        ModelError,
        "'a' is declared as float32[3]",
    ),
    "mixed types": (
        lambda: text("{ y = Add(x, w) }", "(float[2] x, int64[2] w) => (float[2] y)"),
        ModelError,
        "Add node 'y': the inputs are of different types, float32 and int64",
    ),
    "shapes do not fit": (
        lambda: text("{ y = Add(x, w) }", "(float[2] x, float[3] w) => (float[2] y)"),
        ShapeError,
        "[2]",
    ),
    "too few inputs": (lambda: model([node("Add", "x", "y")]), ModelError, "Add"),
    "too many inputs": (lambda: model([node("Add", "x x x x", "y")]), ModelError, "Add"),
    "no inputs": (lambda: model([node("Relu", "", "y")]), ModelError, "Relu"),
    "too many outputs": (lambda: model([node("Relu", "x", "y z")]), ModelError, "2 outputs"),
    "attribute of a wrong type": (
        lambda: model([node("Softmax", "x", "y", axis="one")]),
        ModelError,
        "Softmax",
    ),
    "an integer for a float": (
        lambda: model([node("Elu", "x", "y", alpha=5)]),
        ModelError,
        "'alpha' is of type INT, FLOAT is needed",
    ),
    "floats for integers": (
        lambda: text(
            "{ y = MaxPool<kernel_shape=[2.0, 2.0]>(x) }", "(float[1,1,4,4] x) => (float[1,1,3,3] y)"
        ),
        ModelError,
        "'kernel_shape' is of type FLOATS, INTS is needed",
    ),
    "an attribute that holds another type": (
        lambda: _attribute(type=onnx.AttributeProto.FLOAT, i=5),
        ModelError,
        "its type is FLOAT, but it holds i",
    ),
    "an attribute of no function": (
        lambda: _attribute(type=onnx.AttributeProto.FLOAT, ref_attr_name="slope"),
        ModelError,
        "refers to 'slope' of a function, but stands in none",
    ),
    "a shape of floats": (
        lambda: text(
            "{ s = Constant<value_floats=[2.0]>() y = Reshape(x, s) }", "(float[2] x) => (float[2] y)"
        ),
        ModelError,
        "'shape' is float32, integers are needed",
    ),
    "a shape of thousands of axes": (
        lambda: model(
            [node("Unsqueeze", "x a", "y")], constants=(numpy_helper.from_array(np.arange(3000), "a"),)
        ),
        ShapeError,
        "axes, more than 64",
    ),
    "an empty tensor of a huge axis": (
        lambda: text(
            "{ s = Constant<value_ints=[0, 4611686018427387904]>() z = ConstantOfShape(s) y = Add(x, z) }",
            "(float[2] x) => (float[2] y)",
        ),
        ShapeError,
        "too large",
    ),
    "a layout that there is not": (
        lambda: text(
            "{ y = LSTM<hidden_size=3, layout=9>(x, w, r) }",
            "(float[2,1,4] x, float[1,12,4] w, float[1,12,3] r) => (float[2,1,1,3] y)",
        ),
        ShapeError,
        "layout 9",
    ),
    "a direction that there is not": (
        lambda: text(
            "{ s, y = Scan<num_scan_inputs=1, scan_input_directions=[7], body = b (float[2] a, float[2] c) =>"
            " (float[2] d, float[2] e) { d = Add(a, c) e = Neg(d) }>(t, x) }",
            "(float[2] t, float[3,2] x) => (float[3,2] y)",
        ),
        ModelError,
        "[7]: 0 is forwards and 1 backwards",
    ),
    "inputs of a Scan that end at different places": (
        lambda: text(
            "{ y = Scan<num_scan_inputs=2, body = b (float a, float c) => (float d)"
            " { d = Add(a, c) }>(x, z) }",
            "(float[4] x, float[5] z) => (float[4] y)",
        ),
        ModelError,
        "different numbers of slices: 4 of 'x', 5 of 'z'",
    ),
    "an attribute that If has not": (
        lambda: text(
            "{ y = If(c) <then_branch = a () => (float[1] p) { p = Relu(x) }, middle = 3,"
            " else_branch = b () => (float[1] q) { q = Neg(x) }> }",
            "(float[1] x, bool c) => (float[1] y)",
        ),
        UnsupportedError,
        "attribute middle is not supported",
    ),
    "a sequence declared as a tensor": (
        lambda: text("{ y = SequenceConstruct(x) }", "(float[2] x) => (float[2] y)"),
        ModelError,
        "the output 'y' is declared as a tensor, but is a sequence",
    ),
    "a tensor declared as a sequence": (
        lambda: text("{ y = Relu(x) }", "(float[2] x) => (seq(float[2]) y)"),
        ModelError,
        "the output 'y' is declared as a sequence, but is a tensor",
    ),
    "a matrix for a shape": (
        lambda: model(
            [node("Reshape", "x s", "y")], constants=(numpy_helper.from_array(np.ones((2, 2), int), "s"),)
        ),
        ShapeError,
        "'shape' is no vector: [2, 2]",
    ),
    "a branch with inputs": (
        lambda: text(
            "{ y = If(c) <then_branch = a (float[1] z) => (float[1] p) { p = Relu(x) },"
            " else_branch = b () => (float[1] q) { q = Neg(x) }> }",
            "(float[1] x, bool c) => (float[1] y)",
        ),
        ModelError,
        "then_branch has inputs",
    ),
    "two opsets of a domain": (lambda: _two_opsets(), ModelError, "opsets 21 and 7 of domain ''"),
    "a negative index of a sparse tensor": (lambda: _sparse([-1]), ModelError, "one is negative"),
    "an index of a sparse tensor twice": (lambda: _sparse([1, 1]), ModelError, "stands there twice"),
    "attribute of a wrong length": (
        lambda: text("{ y = MaxPool<kernel_shape=[2]>(x) }", "(float[1,1,4,4] x) => (float[1,1,3,3] y)"),
        InputError,
        "MaxPool",
    ),
    "unknown attribute": (lambda: model([node("Relu", "x", "y", slope=1.0)]), UnsupportedError, "slope"),
    "axis out of range": (lambda: model([node("Softmax", "x", "y", axis=7)]), ShapeError, "axis 7"),
    "undefined symbol": (
        lambda: model([RELU], {"x": ["N", "M"]}),
        InputError,
        "unknown dimensions M: add --define M=...",
    ),
    "unnamed dimension": (lambda: model([RELU], {"x": [2, None]}), InputError, "--define x:1=..."),
    "no rank": (lambda: text("{ y = Relu(x) }", "(float x) => (float y)"), InputError, ""),
    "sequence input": (
        lambda: text("{ y = Relu(x) }", "(seq(float[2]) x) => (float[2] y)"),
        InputError,
        "--capacity x=NxA",
    ),
    "a sequence to an operator on tensors": (
        lambda: text("{ s = SequenceConstruct(x) y = Relu(s) }", "(float[2] x) => (float[2] y)"),
        ModelError,
        "'s' is a sequence",
    ),
    "a tensor to an operator on sequences": (
        lambda: text("{ y = SequenceLength(x) }", "(float[2] x) => (int64 y)"),
        ModelError,
        "input 0 is not a sequence",
    ),
    "turns counted in int32": (
        lambda: text(
            "{ y = Loop(m, , x) <body = b (int64 i, bool c, float[1] v) => (bool d, float[1] w)"
            " { d = Identity(c) w = Neg(v) }> }",
            "(float[1] x, int32 m) => (float[1] y)",
        ),
        ModelError,
        "the number of iterations is int32[], one int64 is needed",
    ),
    "a condition of two elements": (
        lambda: text(
            "{ y = If(c) <then_branch = a () => (float[1] p) { p = Relu(x) },"
            " else_branch = b () => (float[1] q) { q = Neg(x) }> }",
            "(float[1] x, bool[2] c) => (float[1] y)",
        ),
        ModelError,
        "one bool is needed",
    ),
    "beyond a sequence": (
        lambda: text(
            "{ k = Constant <value_int = 1> () s = SequenceConstruct(x) y = SequenceAt(s, k) }",
            "(float[2] x) => (float[2] y)",
        ),
        ShapeError,
        "position 1 is out of range for 1 elements",
    ),
    "string input": (
        lambda: text("{ y = Relu(x) }", "(string[2] x) => (string[2] y)"),
        ModelError,
        "an input is string64, the operator takes floats",
    ),
    "string that is not UTF-8": (lambda: _constant_string(b"a\xff"), InputError, "is not UTF-8"),
    "string with a zero": (lambda: _constant_string(b"a\0b"), InputError, "holds a zero"),
    "string of 3 MB": (lambda: _constant_string(b"a" * 3_000_000), InputError, "a string of 3000000 bytes"),
    "string as raw bytes": (lambda: _raw_string(), InputError, "holds 0 elements"),
}


def _constant_string(value: bytes) -> onnx.ModelProto:
    call = helper.make_node("Constant", [], ["y"], value_strings=[b"fine", value])
    return model([call])


def _raw_string() -> onnx.ModelProto:
    made = model([helper.make_node("Identity", ["w"], ["y"])])
    made.graph.initializer.append(onnx.TensorProto(name="w", data_type=8, dims=[2], raw_data=b"abcdefgh"))
    return made


def _attribute(**fields: Any) -> onnx.ModelProto:
    made = model([node("Elu", "x", "y")])
    made.graph.node[0].attribute.add(name="alpha", **fields)
    return made


def _two_opsets() -> onnx.ModelProto:
    made = model([RELU])
    del made.opset_import[:]
    made.opset_import.extend([helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx", 7)])
    return made


def _sparse(indices: list[int]) -> onnx.ModelProto:
    made = model([node("Add", "x w", "y")])
    values = numpy_helper.from_array(np.ones(len(indices), np.float32), "w")
    places = numpy_helper.from_array(np.array(indices, np.int64))
    made.graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, [4]))
    return made


def _twice(call: onnx.NodeProto) -> onnx.ModelProto:
    call.attribute.append(call.attribute[0])
    return model([call])


@pytest.mark.parametrize("case", GRAPHS)
def test_graph(case: str) -> None:
    make, kind, words = GRAPHS[case]
    if case == "no rank":
        broken = make()
        broken.graph.input[0].type.tensor_type.ClearField("shape")
        refuse(broken, InputError, "no declared rank")
    else:
        refuse(make(), kind, words)


def test_two_outputs_of_one_name() -> None:
    broken = model([RELU])
    broken.graph.output.append(broken.graph.output[0])
    refuse(broken, ModelError, "two graph outputs have the name 'y'")


def test_unknown_operators_are_listed_at_once() -> None:
    refuse(
        model([node("Foo", "x", "a", name="first"), node("Bar", "a", "y", name="second")]),
        UnsupportedError,
        "Bar (opset 17), Foo (opset 17); at Foo node 'first', Bar node 'second'",
    )


def test_input_without_a_type() -> None:
    broken = model([RELU])
    broken.graph.input[0].ClearField("type")
    refuse(broken, ModelError, "'x' has no type")


@pytest.mark.parametrize("number", [29, 999, -1])
def test_input_of_an_unknown_type(number: int) -> None:
    broken = model([RELU])
    broken.graph.input[0].type.tensor_type.elem_type = number
    refuse(broken, ModelError, f"{number} is not an ONNX element type")


# Sizes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [-5, 1 << 31, 1 << 40, 1 << 62])
def test_dimension(size: int) -> None:
    refuse(model([RELU], {"x": [size, 3]}, {"y": [size, 3]}), ModelError, str(size))


def test_dimensions_whose_product_is_too_large() -> None:
    refuse(model([RELU], {"x": [1 << 20, 1 << 20]}, {"y": [1 << 20, 1 << 20]}), InputError, "too large")


@pytest.mark.parametrize(
    "attributes",
    [
        {"strides": [0, 0]},
        {"strides": [-1, 1]},
        {"strides": [1]},
        {"dilations": [0, 1]},
        {"group": 0},
        {"group": 3},
        {"group": -1},
        {"pads": [1 << 31] * 4},
        {"pads": [-9] * 4},
        {"pads": [1, 1]},
        {"kernel_shape": [5, 5]},
        {"auto_pad": "SOMETIMES"},
        {"strides": 1.5},
        {"group": "two"},
    ],
    ids=str,
)
def test_convolution(attributes: dict[str, Any]) -> None:
    conv = node("Conv", "x w", "y", **attributes)
    refuse(
        model([conv], {"x": [1, 4, 8, 8], "w": [4, 4, 3, 3]}, {"y": ["a", "b", "c", "d"]}), InputError, "Conv"
    )


@pytest.mark.parametrize("dims", [[1 << 40], [1 << 20] * 2, [-1], [1 << 62, 1 << 62]], ids=str)
def test_constant_of_shape(dims: list[int]) -> None:
    shape = numpy_helper.from_array(np.array(dims, np.int64), "s")
    refuse(
        model([node("ConstantOfShape", "s", "y")], None, {"y": ["a"] * len(dims)}, (shape,)), InputError, ""
    )


# Length and depth -------------------------------------------------------------------------------------------


def test_long_chain() -> None:
    count = 20_000
    nodes = [node("Relu", f"v{i}", f"v{i + 1}") for i in range(count)]
    assert len(take(model(nodes, {"v0": [4]}, {f"v{count}": [4]})).nodes) == count


def test_many_subgraphs_of_one_naming() -> None:
    branch = helper.make_graph(
        [node("Relu", "x", "z")], "b", [], [helper.make_tensor_value_info("z", 1, [2, 3])]
    )
    nodes = [node("If", "c", f"y{i}", then_branch=branch, else_branch=branch) for i in range(4000)]
    broken = model(nodes, {"x": [2, 3], "c": []}, {"y0": [2, 3]})
    with limit(SECONDS):
        graph = verify(read_model(broken))
    names = [v.name for n in graph.nodes for sub in n.subgraphs.values() for v in sub.values()]
    assert len(set(names)) == len(names) == 8000


def _nested(depth: int) -> str:
    leaf = "b () => (float[2] y) { y = Relu(x) }"
    opening = f"b () => (float[2] y) {{ y = If(c) <else_branch = {leaf}, then_branch = "
    head = '<ir_version: 8, opset_import: ["" : 17]>\ng (float[2] x, bool c) => (float[2] y)'
    first = f"{{ y = If(c) <else_branch = {leaf}, then_branch = "
    return f"{head} {first}{opening * depth}{leaf}{'> }' * (depth + 1)}"


def test_nested_subgraphs() -> None:
    with limit(SECONDS):
        graph = verify(read_model(parser.parse_model(_nested(24))))
    depth = 0
    while graph.nodes[0].subgraphs:
        graph, depth = graph.nodes[0].subgraphs["then_branch"], depth + 1
    assert depth == 25


@pytest.mark.parametrize("depth", [33, 60, 200, 100_000])
def test_subgraphs_nested_too_deeply(depth: int, tmp_path: Path) -> None:
    path = tmp_path / "m.onnxtxt"
    path.write_text(_nested(depth))
    refuse(path, UnsupportedError, "nested too deeply")


FUNCTIONS = """
<ir_version: 8, opset_import: ["" : 17, "own" : 1]>
g (float[2] x) => (float[2] y) {{ y = own.f{last}(x) }}
"""


def _function(name: str, body: str) -> str:
    return f'<domain: "own", opset_import: ["" : 17, "own" : 1]>\n{name} (a) => (b) {{ {body} }}\n'


def test_recursive_function() -> None:
    source = FUNCTIONS.format(last=0) + _function("f0", "b = own.f0(a)")
    refuse(parser.parse_model(source), ModelError, "the function 'f0' calls itself")


def test_a_recursive_function_that_nobody_calls() -> None:
    """onnx's inference, which is asked for the body of the loss, looks at all functions of a model."""
    steps = "l = Constant <value = int64[2] {0, 1}> () y = SoftmaxCrossEntropyLoss (x, l)"
    source = '<ir_version: 8, opset_import: ["" : 17, "own" : 1]>\ng (float[2,3] x) => (float y)'
    take(parser.parse_model(f"{source} {{ {steps} }}" + _function("f0", "b = own.f0(a)")))


def test_two_functions_of_one_name() -> None:
    twice = _function("f0", "b = Relu(a)") + _function("f0", "b = Neg(a)")
    source = FUNCTIONS.format(last=0) + twice
    refuse(parser.parse_model(source), ModelError, "the function 'f0' is defined twice")


def test_functions_of_which_each_calls_one_twice() -> None:
    """What 2^26 nodes are is known without expanding any, and without asking onnx's inference."""
    source = FUNCTIONS.format(last=26) + _function("f0", "b = Relu(a)")
    for i in range(1, 27):
        source += _function(f"f{i}", f"c = own.f{i - 1}(a) b = own.f{i - 1}(c)")
    refuse(parser.parse_model(source), UnsupportedError, "expand to more than")


def test_functions_that_multiply() -> None:
    source = FUNCTIONS.format(last=9) + _function("f0", "b = Relu(a)")
    for i in range(1, 10):
        calls = " ".join(f"{'b' if k == 9 else f'v{k}'} = own.f{i - 1}(a)" for k in range(10))
        source += _function(f"f{i}", calls)
    refuse(parser.parse_model(source), UnsupportedError, "expand to more than")


def test_an_equation_on_which_shape_inference_never_ends() -> None:
    """A function body that depends on types makes us ask onnx for types; a stray dot loops there for ever."""
    steps = """{
        a = Einsum <equation = "i.j->i"> (x)
        labels = Constant <value = int64[2] {0, 1}> ()
        y = SoftmaxCrossEntropyLoss (a, labels)
    }"""
    refuse(text(steps, opset='"" : 18'), InputError, "unsupported")


def test_the_same_equation_in_a_function() -> None:
    """The function is called behind the loss, whose types make us ask onnx's inference."""
    source = '<ir_version: 8, opset_import: ["" : 18, "own" : 1]>\ng (float[2,3] x) => (float y, float z)'
    steps = "l = Constant <value = int64[2] {0, 1}> () y = SoftmaxCrossEntropyLoss (x, l) z = own.f0 (x)"
    body = 'b = Einsum <equation = "i.j->"> (a)'
    refuse(parser.parse_model(f"{source} {{ {steps} }}" + _function("f0", body)), InputError, "unsupported")
