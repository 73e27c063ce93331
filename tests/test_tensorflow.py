"""The TensorFlow frontend: graphs made here, the golden case, and files that lie.

What TensorFlow itself computes is compared by `tests/tensorflow`, by hand.
"""

from __future__ import annotations

import json
import re
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from google.protobuf import text_format  # type: ignore[import-untyped]
from typer.testing import CliRunner

import ingot
from ingot.cli import app
from ingot.errors import InputError, ModelError, UnsupportedError
from ingot.frontends.canonical import is_foreign, source_files
from ingot.frontends.tensorflow import import_tensorflow
from ingot.frontends.tensorflow.protos import message
from tests.fuzz.readers import READERS
from tests.models import SECONDS, limit
from tests.tensorflow.graphs import (
    BOOL,
    FLOAT,
    INT32,
    Graph,
    Type,
    floats,
    imported,
    ops,
    run,
    save_checkpoint,
    save_model,
)

STRING = 7
INDIGO = Path(__file__).parents[2] / "shared" / "indigo"
needs_indigo = pytest.mark.skipif(not INDIGO.is_dir(), reason=f"the golden data is not at {INDIGO}")
# ---- loops and branches


def frame(g: Graph, limit: str) -> None:
    """y = x; for i in range(limit): y = 0.5 y + i, in a frame of the old kind."""
    g.const("zero", 0)
    for name, start in (("i", "zero"), ("v", "x"), ("n", limit)):
        g.node(f"{name}/enter", "Enter", start, frame_name="f", is_constant=name == "n")
    for name in ("i", "v"):
        g.node(f"{name}/merge", "Merge", f"{name}/enter", f"{name}/next")
        g.node(f"{name}/switch", "Switch", f"{name}/merge", "on")
    g.node("less", "Less", "i/merge", "n/enter", T=INT32)
    g.node("on", "LoopCond", "less")
    g.node("i/same", "Identity", "i/switch:1")
    g.const("one", 1, "^i/same")
    g.const("half", 0.5, "^i/same")
    g.node("i/more", "Add", "i/same", "one", T=INT32)
    g.node("real", "Cast", "i/same", DstT=FLOAT)
    g.node("scaled", "Mul", "v/switch:1", "half", T=FLOAT)
    g.node("sum", "Add", "scaled", "real", T=FLOAT)
    for name, made in (("i", "i/more"), ("v", "sum")):
        g.node(f"{name}/next", "NextIteration", made)
        g.node(f"{name}/exit", "Exit", f"{name}/switch")
    g.node("y", "Identity", "v/exit")


def turned(x: Any, turns: int) -> Any:
    for i in range(turns):
        x = x * np.float32(0.5) + np.float32(i)
    return x


def test_a_frame_of_known_length_is_unrolled(tmp_path: Path) -> None:
    g, x = Graph(), floats(4)
    g.input("x", 4)
    g.const("three", 3)
    frame(g, "three")
    model = imported(g, tmp_path)
    assert ops(model) == ["Mul", "Add"] * 3
    np.testing.assert_allclose(run(model, x=x), turned(x, 3), rtol=1e-6)


def test_a_frame_of_unknown_length_is_a_loop(tmp_path: Path) -> None:
    g, x = Graph(), floats(4)
    g.input("x", 4)
    g.input("turns", dtype=INT32)
    frame(g, "turns")
    model = imported(g, tmp_path)
    assert "Loop" in ops(model)
    for turns in (0, 1, 5):
        np.testing.assert_allclose(
            run(model, x=x, turns=np.array(turns, np.int32)), turned(x, turns), rtol=1e-6
        )


def functional(g: Graph, kind: str = "StatelessWhile") -> None:
    """The same loop by functions; x and turns are its operands."""
    condition = g.function("goes_on", ["i", "v", "n"], {"on": "less:z:0"})
    condition.node("less", "Less", "i", "n", T=INT32)
    body = g.function("turn", ["i", "v", "n"], {"i2": "more:z:0", "v2": "sum:z:0", "n2": "n"})
    body.const("one", 1)
    body.const("half", 0.5)
    body.node("more", "AddV2", "i", "one:output:0", T=INT32)
    body.node("real", "Cast", "i", DstT=FLOAT)
    body.node("scaled", "Mul", "v", "half:output:0", T=FLOAT)
    body.node("sum", "AddV2", "scaled:z:0", "real:y:0", T=FLOAT)
    g.const("zero", 0)
    g.node("w", kind, "zero", "x", "turns", cond=("call", "goes_on"), body=("call", "turn"))
    g.node("y", "Identity", "w:1")


@pytest.mark.parametrize("is_known", [True, False])
def test_a_functional_loop(is_known: bool, tmp_path: Path) -> None:
    g, x, turns = Graph(), floats(4), {}
    g.input("x", 4)
    if is_known:
        g.const("turns", 4)
    else:
        g.input("turns", dtype=INT32)
        turns = {"turns": np.array(4, np.int32)}
    functional(g)
    model = imported(g, tmp_path)
    assert ("Loop" in ops(model)) is not is_known
    np.testing.assert_allclose(run(model, x=x, **turns), turned(x, 4), rtol=1e-6)


@pytest.mark.parametrize("taken", [True, False])
def test_an_old_branch_whose_condition_is_known_at_run_time_only(taken: bool, tmp_path: Path) -> None:
    """One side is a constant, which only its control input puts into the branch."""
    g, x = Graph(), floats(3)
    g.input("x", 3)
    g.input("flag", dtype=BOOL)
    g.node("sides", "Switch", "x", "flag")
    g.node("which", "Switch", "flag", "flag")
    g.node("if_false", "Identity", "which")
    g.node("if_true", "Relu", "sides:1", T=FLOAT)
    g.const("other", [1.0, 2.0, 3.0], "^if_false")
    g.node("y", "Merge", "other", "if_true")
    model = imported(g, tmp_path)
    right = np.maximum(x, 0) if taken else np.array([1, 2, 3])
    np.testing.assert_array_equal(run(model, x=x, flag=np.array(taken)), right)


@pytest.mark.parametrize("taken", [True, False])
def test_an_old_branch_whose_condition_is_known(taken: bool, tmp_path: Path) -> None:
    """The branch not taken may hold what cannot be imported."""
    g = Graph()
    g.input("x", 3)
    g.const("flag", taken)
    g.node("sides", "Switch", "x", "flag")
    g.node("if_false", "Identity", "sides")
    g.node("t", "Relu" if taken else "Bessel", "sides:1", T=FLOAT)
    g.const("f", 7.0, "^if_false")
    g.node("y", "Merge", "f", "t")
    model = imported(g, tmp_path)
    assert ops(model) == (["Relu"] if taken else ["Constant"])


@pytest.mark.parametrize("taken", [True, False])
def test_a_functional_branch(taken: bool, tmp_path: Path) -> None:
    g, x = Graph(), floats(3)
    g.input("x", 3)
    g.input("flag", dtype=BOOL)
    g.function("then", ["a"], {"b": "r:activations:0"}).node("r", "Relu", "a", T=FLOAT)
    g.function("other", ["a"], {"b": "r:y:0"}).node("r", "Neg", "a", T=FLOAT)
    g.node("y", "If", "flag", "x", then_branch=("call", "then"), else_branch=("call", "other"))
    model = imported(g, tmp_path)
    assert ops(model) == ["If"]
    right = np.maximum(x, 0) if taken else -x
    np.testing.assert_array_equal(run(model, x=x, flag=np.array(taken)), right)


def arrays(g: Graph, turns: str) -> None:
    """y[i] = 2 x[i] for the first `turns` of x's five rows, by two TensorLists."""
    condition = g.function("goes_on", ["i", "out", "in", "n"], {"on": "less:z:0"})
    condition.node("less", "Less", "i", "n", T=INT32)
    body = g.function(
        "turn", ["i", "out", "in", "n"], {"i2": "m:z:0", "o2": "set:h:0", "in2": "in", "n2": "n"}
    )
    body.const("one", 1)
    body.const("two", 2.0)
    body.const("any", -1)
    body.node("m", "AddV2", "i", "one:output:0", T=INT32)
    body.node("item", "TensorListGetItem", "in", "i", "any:output:0", element_dtype=FLOAT)
    body.node("double", "Mul", "item:item:0", "two:output:0", T=FLOAT)
    body.node("set", "TensorListSetItem", "out", "i", "double:z:0", element_dtype=FLOAT)
    g.const("zero", 0)
    g.const("five", 5)
    g.const("element", [3])
    g.node("in", "TensorListFromTensor", "x", "element", element_dtype=FLOAT)
    g.node("out", "TensorListReserve", "element", "five", element_dtype=FLOAT)
    g.node("w", "While", "zero", "out", "in", turns, cond=("call", "goes_on"), body=("call", "turn"))
    g.node("y", "TensorListStack", "w:1", "element", element_dtype=FLOAT)


@pytest.mark.parametrize("is_known", [True, False])
def test_arrays_in_loops(is_known: bool, tmp_path: Path) -> None:
    g, x, turns = Graph(), floats(5, 3), {}
    g.input("x", 5, 3)
    if is_known:
        g.const("n", 3)
    else:
        g.input("n", dtype=INT32)
        turns = {"n": np.array(3, np.int32)}
    arrays(g, "n")
    right = np.concatenate([2 * x[:3], np.zeros((2, 3), np.float32)])
    np.testing.assert_array_equal(run(imported(g, tmp_path), x=x, **turns), right)


def test_a_deep_graph_needs_no_recursion(tmp_path: Path) -> None:
    g, last = Graph(), "x"
    g.input("x", 2)
    for i in range(3000):
        last = g.node(f"n{i}", "Identity" if i % 100 else "Relu", last, T=FLOAT)
    g.node("y", "Neg", last, T=FLOAT)
    assert ops(imported(g, tmp_path)) == ["Relu"] * 30 + ["Neg"]


# ---- files


def perceptron(g: Graph, variables: bool) -> dict[str, Any]:
    held = {"w": floats(4, 3), "b": floats(3)}
    g.input("x", -1, 4)
    for name, array in held.items():
        if variables:
            g.node(name, "VariableV2", dtype=FLOAT, shape=array.shape)
        else:
            g.const(name, array)
    g.node("m", "MatMul", "x", "w", T=FLOAT)
    g.node("y", "BiasAdd", "m", "b", T=FLOAT)
    return held


def test_the_text_form_and_a_configuration(tmp_path: Path) -> None:
    g, x = Graph(), floats(2, 4)
    held = perceptron(g, False)
    path = tmp_path / "net.pbtxt"
    path.write_text(text_format.MessageToString(g.proto))
    feed = 'feed { id { node_name: "x" } shape { dim { size: 2 } dim { size: 4 } } }'
    (tmp_path / "net.config.pbtxt").write_text(feed + ' fetch { id { node_name: "m" } }')
    model = import_tensorflow(path)
    assert [o.name for o in model.graph.output] == ["m"]
    np.testing.assert_allclose(run(model, x=x), x @ held["w"], rtol=1e-5)
    model = import_tensorflow(path, ["x:3x4"])
    assert [o.name for o in model.graph.output] == ["y"]
    assert [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim] == [3, 4]


@pytest.mark.parametrize("is_renamed", [True, False])
def test_a_checkpoint(is_renamed: bool, tmp_path: Path) -> None:
    """What restores a variable says its key; without a saver it is the variable's name."""
    from ingot.frontends.tensorflow.protos import message

    g, x = Graph(), floats(1, 4)
    held = perceptron(g, True)
    keys = {name: f"average/{name}" if is_renamed else name for name in held}
    if is_renamed:
        g.const("save/names", np.array([k.encode() for k in keys.values()], object))
        g.const("prefix", np.array(b"model", object))
        g.const("save/pieces", np.array([b""] * len(keys), object))
        g.node("save/restore", "RestoreV2", "prefix", "save/names", "save/pieces")
        for i, name in enumerate(keys):
            g.node(f"save/assign{i}", "Assign", name, f"save/restore:{i}", T=FLOAT)
    meta = message("MetaGraph")
    meta.graph_def.CopyFrom(g.proto)
    (tmp_path / "model.meta").write_bytes(meta.SerializeToString())
    save_checkpoint(tmp_path / "model", {keys[n]: a for n, a in held.items()})
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "/elsewhere/model"\n')
    for path in (tmp_path, tmp_path / "model.meta", tmp_path / "model.index"):
        model = import_tensorflow(path, outputs=["y"])
        np.testing.assert_allclose(run(model, x=x), x @ held["w"] + held["b"], rtol=1e-5)


def test_a_saved_model(tmp_path: Path) -> None:
    """Variables are handles that a function reads, and their keys stand in another function."""
    x, w = floats(2, 4), floats(4, 3)
    save_model(tmp_path, w, rows=2)
    for named in (tmp_path, tmp_path / "saved_model.pb"):  # the folder, or the graph in it
        model = import_tensorflow(named)
        assert (model.graph.input[0].name, model.graph.output[0].name) == ("x", "scores")
        np.testing.assert_allclose(run(model, x=x), x @ w, rtol=1e-5)
    assert source_files(tmp_path) == source_files(tmp_path / "saved_model.pb")


def test_a_saved_model_whose_input_is_text_is_cut_behind_it(tmp_path: Path) -> None:
    """As those that take serialized examples: strings are not read, the numbers that are made of them are."""
    g = Graph()
    g.input("text", 2, dtype=STRING)
    g.node("numbers", "StringToNumber", "text", out_type=Type(FLOAT))
    g.node("y", "Square", "numbers", T=FLOAT)
    saved = message("SavedModel")
    meta = saved.meta_graphs.add()
    meta.graph_def.CopyFrom(g.proto)
    meta.meta_info_def.tags.append("serve")
    entry = meta.signature_def.add(key="serving_default").value
    for part, name, kind in (("inputs", "text", STRING), ("outputs", "y", FLOAT)):
        info = getattr(entry, part).add(key=name).value
        info.name, info.dtype = f"{name}:0", kind
        info.tensor_shape.dim.add(size=2)
    (tmp_path / "saved_model.pb").write_bytes(saved.SerializeToString())
    with pytest.raises(UnsupportedError, match=r"the input .*text.*: element type STRING .*--inputs NODE"):
        import_tensorflow(tmp_path)
    made = import_tensorflow(tmp_path, inputs=["numbers:2,"], outputs=["y"])
    assert run(made, numbers=np.float32([2, -3])).tolist() == [4, 9]


def test_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    g = Graph()
    perceptron(g, False)
    path = g.save(tmp_path / "net.pb")
    monkeypatch.chdir(tmp_path)
    said = CliRunner().invoke(app, ["import", str(path), "--inputs", "x:2x4", "--json"])
    assert said.exit_code == 0 and json.loads(said.stdout)["outputs"] == [{"name": "y", "shape": [2, 3]}]
    onnx.checker.check_model(onnx.load(tmp_path / "net.onnx"), full_check=True)
    said = CliRunner().invoke(app, ["compile", str(path), "--outputs", "m", "-o", "out", "--json"])
    assert said.exit_code == 0 and json.loads((tmp_path / "out" / "net.json").read_text())["name"] == "net"
    said = CliRunner().invoke(app, ["verify", str(path)])
    assert said.exit_code == 0
    said = CliRunner().invoke(app, ["inspect", str(path), "--inputs", "x:2x4", "--outputs", "m", "--json"])
    assert said.exit_code == 0 and json.loads(said.stdout)["outputs"] == ["m: float32[2, 3]"]
    np.save(tmp_path / "x.npy", floats(2, 4))
    said = CliRunner().invoke(
        app, ["run", str(path), "--inputs", "x:2x4", "--outputs", "m", "--input", "x=x.npy", "--json"]
    )
    assert said.exit_code == 0 and [d["name"] for d in json.loads(said.stdout)] == ["m"]
    said = CliRunner().invoke(app, ["import", "net.onnx"])
    assert said.exit_code == 2 and "is the model itself" in said.stderr


def test_a_vector_may_be_written_without_a_comma(tmp_path: Path) -> None:
    for word in ("x:5", "x:5,", "x:0:5,"):
        g = Graph()
        g.node("x", "Placeholder", dtype=FLOAT)
        g.node("y", "Relu", "x", T=FLOAT)
        made = imported(g, tmp_path, inputs=[word])
        assert [d.dim_value for d in made.graph.output[0].type.tensor_type.shape.dim] == [5]


def test_a_negative_extent_is_no_unknown_one(tmp_path: Path) -> None:
    g = Graph()
    g.node("x", "Placeholder", dtype=FLOAT, shape=(-5, 4))
    g.node("y", "Relu", "x", T=FLOAT)
    with pytest.raises(InputError, match=r"Placeholder node 'x': a shape with an extent of -5"):
        imported(g, tmp_path)


def test_wrong_names_are_answered_with_similar_ones(tmp_path: Path) -> None:
    g = Graph()
    perceptron(g, False)
    g.node("probabilities", "Softmax", "y", T=FLOAT)
    with pytest.raises(
        InputError, match=r"the output 'probability' is no node .* similar names are probabilities"
    ):
        imported(g, tmp_path, "probability")
    with pytest.raises(InputError, match=r"the input 'image' is no node"):
        imported(g, tmp_path, "probabilities", inputs=["image:1x4"])
    with pytest.raises(InputError, match=r"declared as \?x4, not 1x5"):
        imported(g, tmp_path, "probabilities", inputs=["x:1x5"])
    with pytest.raises(InputError, match=r"depend on 'x', which is no input"):
        imported(g, tmp_path, "probabilities", inputs=["w:4x3"])


def test_tensorflow_is_not_imported() -> None:
    assert "tensorflow" not in sys.modules


def test_an_onnx_model_may_be_called_pb(tmp_path: Path) -> None:
    g = Graph()
    perceptron(g, False)
    made = import_tensorflow(g.save(tmp_path / "net.pb"))
    (tmp_path / "onnx.pb").write_bytes(made.SerializeToString())
    assert not is_foreign(tmp_path / "onnx.pb") and is_foreign(tmp_path / "net.pb")


# ---- the golden case


def policy(model: onnx.ModelProto, states: int) -> None:
    """Ten steps against the published lines, which are cut off after five digits."""
    expected = json.loads((INDIGO / "expected.json").read_text())
    x = np.array(expected["input_that_reproduces"], np.float32).reshape(1, 1, 9)
    bundle = ingot.compile(model)
    names = [i.name for i in model.graph.input]
    assert len(names) == 1 + states
    state = [np.zeros(t["shape"], np.float32) for t in bundle.manifest["inputs"][1:]]
    for printed in expected["seed_printed"]:
        probabilities, *state = bundle.run(dict(zip(names, [x, *state], strict=True))).values()
        off = probabilities.reshape(-1).astype(np.float64) - printed
        assert np.all((off >= -1e-7) & (off < 1.1e-5))


@needs_indigo
@pytest.mark.parametrize(("name", "states"), [("graph", 1), ("graph_addv1", 1), ("graph_meta", 2)])
def test_the_published_lines_from_frozen_graphs(name: str, states: int) -> None:
    policy(import_tensorflow(INDIGO / f"{name}.pb"), states)


@needs_indigo
def test_the_published_lines_from_the_checkpoint() -> None:
    """Only outputs are named: an unknown batch and an unknown time are 1."""
    outputs = ["global/Reshape_1", "global/rnn/while/Exit_2", "global/rnn/while/Exit_3"]
    policy(import_tensorflow(INDIGO / "checkpoint", outputs=outputs), 2)


@needs_indigo
@pytest.mark.parametrize(("name", "states"), [("indigo", 1), ("indigo_lstm", 2), ("indigo_lstm_packed", 1)])
def test_the_published_lines_from_onnx(name: str, states: int) -> None:
    policy(onnx.load(INDIGO / f"{name}.onnx"), states)


# ---- files that lie


def lie(change: Callable[[Graph], object], tmp_path: Path, outputs: str = "y") -> str:
    g = Graph()
    perceptron(g, False)
    change(g)
    with pytest.raises(InputError) as error:
        imported(g, tmp_path, outputs)
    return str(error.value)


LIES: dict[str, tuple[Callable[[Graph], object], str]] = {
    "a missing node": (lambda g: g.node("z", "Relu", "nowhere"), "'nowhere', which is no node"),
    "a cycle": (lambda g: [g.node("z", "Relu", "u"), g.node("u", "Relu", "z")], "part of a cycle"),
    "itself": (lambda g: g.node("z", "Relu", "z"), "part of a cycle"),
    "a port too far": (lambda g: g.node("z", "Relu", "y:3"), "output 3 of 'y', which has 1"),
    "too few inputs": (lambda g: g.node("z", "Add", "y"), "input 1 is read, but there are only 1"),
    "no input": (lambda g: g.node("z", "Identity"), "it has no inputs"),
    "a constant too short": (lambda g: short(g), "bytes for float32"),
    "a huge constant": (lambda g: huge(g), "impossible or too large"),
    "a huge fill": (lambda g: fill(g), "a tensor of"),
    "a huge range": (lambda g: endless(g), "the range has"),
    "an exit from nowhere": (lambda g: g.node("z", "Exit", "y"), "leaves no loop"),
    "a call of nothing": (lambda g: g.node("z", "PartitionedCall", "y", f=("call", "f")), "no function 'f'"),
    "a function that calls itself": (lambda g: recursive(g), "nested more than"),
    "a loop that does not end": (lambda g: forever(g, False), "does not end"),
    "a loop that grows": (lambda g: forever(g, True), "too large"),
    "strides of 0": (
        lambda g: window(g, [1, 0, 0, 1]),
        r"strides must be 4 positive numbers.* \[1, 0, 0, 1\]",
    ),
    "strides of one number": (lambda g: window(g, [1]), r"strides must be 4 positive numbers.* \[1\]"),
    "a shape of more than 64 bits": (lambda g: reshaped(g), "more than 64 bits hold"),
    "a bound that is no integer": (
        lambda g: sliced(g),
        "a bound must be integers, but it is of type float32",
    ),
    "a join of nothing": (lambda g: g.node("z", "ConcatV2"), "input 0 is read, but there are only 0"),
    "an attribute that Python cannot use": (lambda g: paged(g), "cannot take .* with these attributes"),
    "calls that multiply": (lambda g: doubled(g), "unrolls to more than 20000"),
    "a kernel of other rank": (lambda g: g.node("z", "Conv2D", "y", "w"), "four or five axes"),
}


COUNTED: dict[str, Callable[[Graph], object]] = {
    "Range": lambda g: counted_range(g),
    "Fill": lambda g: [g.const("n", [1 << 30]), g.const("v", 1.0), g.node("y", "Fill", "n", "v")],
    "ZerosLike": lambda g: [g.input("x", 1 << 30), g.node("y", "ZerosLike", "x", T=FLOAT)],
}


def counted_range(g: Graph) -> None:
    g.const("zero", 0)
    g.const("one", 1)
    g.const("n", (1 << 31) - 1)
    g.node("y", "Range", "zero", "n", "one")


@pytest.mark.parametrize("op", COUNTED)
def test_what_a_file_only_counts_takes_no_room(op: str, tmp_path: Path) -> None:
    """It stays an operation."""
    g = Graph()
    COUNTED[op](g)
    path = g.save(tmp_path / "g.pb")
    tracemalloc.start()
    try:
        made = import_tensorflow(path, outputs=("y",))
        assert tracemalloc.get_traced_memory()[1] < 1 << 26
    finally:
        tracemalloc.stop()
    assert [n.op_type for n in made.graph.node] == ["Range" if op == "Range" else "Expand"]


def short(g: Graph) -> None:
    g.const("z", [1.0, 2.0])
    g.proto.node[-1].attr[0].value.tensor.tensor_shape.dim[0].size = 9


def huge(g: Graph) -> None:
    g.const("z", [1.0])
    g.proto.node[-1].attr[0].value.tensor.tensor_shape.dim[0].size = 1 << 40


def fill(g: Graph) -> None:
    g.const("n", [1 << 30, 1 << 20])
    g.const("v", 1.0)
    g.node("z", "Fill", "n", "v")


def endless(g: Graph) -> None:
    for name, n in (("start", 0.0), ("stop", 1e30), ("step", 1e-30)):
        g.const(name, n)
    g.node("z", "Range", "start", "stop", "step")


def reshaped(g: Graph) -> None:
    g.const("nothing", np.zeros(0, np.float32))
    g.const("shape", np.array([1 << 63, 0], np.uint64), dtype=np.uint64)
    g.node("z", "Reshape", "nothing", "shape")


def sliced(g: Graph) -> None:
    g.const("nowhere", [float("nan")])
    g.node("z", "StridedSlice", "y", "nowhere", "nowhere", "nowhere")


def paged(g: Graph) -> None:
    g.const("parts", [], dtype=np.int32)
    g.const("axis", 0)
    g.node("z", "SplitV", "y", "parts", "axis", num_split=2)


def doubled(g: Graph) -> None:
    """Functions of two calls each: f30 stands for 2^30, and makes no node at all."""
    g.function("f0", ["a"], {"b": "c:output:0"}).node("c", "Identity", "a", T=FLOAT)
    for i in range(1, 31):
        f = g.function(f"f{i}", ["a"], {"b": "d:output:0"})
        f.node("c", "PartitionedCall", "a", f=("call", f"f{i - 1}"))
        f.node("d", "PartitionedCall", "c:output:0", f=("call", f"f{i - 1}"))
    g.node("z", "PartitionedCall", "y", f=("call", "f30"))


def recursive(g: Graph) -> None:
    g.function("f", ["a"], {"b": "c:output:0"}).node("c", "PartitionedCall", "a", f=("call", "f"))
    g.node("z", "PartitionedCall", "y", f=("call", "f"))


def forever(g: Graph, grows: bool) -> None:
    g.function("on", ["a"], {"b": "t:output:0"}).const("t", True)
    turn = g.function("turn", ["a"], {"b": "c:output:0"})
    turn.const("axis", 0)
    turn.node("c", *(("ConcatV2", "a", "a", "axis:output:0") if grows else ("Identity", "a")), T=FLOAT)
    g.node("z", "While", "y", cond=("call", "on"), body=("call", "turn"))


def window(g: Graph, strides: list[int]) -> None:
    g.input("image", 1, 4, 4, 3)
    g.const("kernel", floats(2, 2, 3, 3))
    g.node("z", "Conv2D", "image", "kernel", strides=strides, padding="SAME")


@pytest.mark.parametrize("name", LIES)
def test_a_graph_that_lies_is_one_error(name: str, tmp_path: Path) -> None:
    change, said = LIES[name]
    assert re.search(said, lie(change, tmp_path, "z"))


def test_other_bad_files(tmp_path: Path) -> None:
    path = tmp_path / "x.pb"
    path.write_bytes(b"\x0a\xff\xff\xff\xff\xff")
    with pytest.raises(ModelError, match="of no known format, or cut short"):
        import_tensorflow(path)
    path.write_bytes(b"")
    with pytest.raises(InputError, match="it is empty"):
        import_tensorflow(path)
    (tmp_path / "y.pbtxt").write_text("node { name: ")
    with pytest.raises(ModelError, match="no text form"):
        import_tensorflow(tmp_path / "y.pbtxt")
    (tmp_path / "y.pbtxt").write_text("node { }" + " " * (3 << 20))
    with pytest.raises(InputError, match="2,097,152 characters beside strings; save the model in its binary"):
        import_tensorflow(tmp_path / "y.pbtxt")
    line = "a:[1,'}',1]" * 40_000  # which is read in seconds
    (tmp_path / "y.pbtxt").write_text(f"node {{ {line} }}")
    with limit(SECONDS), pytest.raises(InputError, match="a node without a name"):
        import_tensorflow(tmp_path / "y.pbtxt")
    (tmp_path / "y.pbtxt").write_text("node { attr { value { type: 184467440737095516 } } }")
    with pytest.raises(ModelError, match="no text form"):
        import_tensorflow(tmp_path / "y.pbtxt")
    with pytest.raises(InputError, match="no such file"):
        import_tensorflow(tmp_path / "nothing.pb")


def test_one_wrong_bit_of_a_large_variable_is_noticed(tmp_path: Path) -> None:
    from ingot.frontends.tensorflow.checkpoint import open_checkpoint

    prefix, array = tmp_path / "model", floats(100, 1000)
    save_checkpoint(prefix, {"w": array})
    np.testing.assert_array_equal(open_checkpoint(prefix).read("w"), array)
    data = Path(f"{prefix}.data-00000-of-00001")
    damaged = bytearray(data.read_bytes())
    damaged[200_000] ^= 1
    data.write_bytes(damaged)
    with pytest.raises(ModelError, match="damaged"):
        open_checkpoint(prefix).read("w")


def test_bad_checkpoints(tmp_path: Path) -> None:
    from ingot.frontends.tensorflow.checkpoint import open_checkpoint

    prefix, array = tmp_path / "model", floats(3)
    save_checkpoint(prefix, {"w": array})
    np.testing.assert_array_equal(open_checkpoint(prefix).read("w"), array)
    index, data = Path(f"{prefix}.index"), Path(f"{prefix}.data-00000-of-00001")
    data.write_bytes(bytes(12))
    with pytest.raises(ModelError, match="damaged"):
        open_checkpoint(prefix).read("w")
    data.write_bytes(bytes(5))
    with pytest.raises(ModelError, match="leave model"):
        open_checkpoint(prefix).read("w")
    data.unlink()
    with pytest.raises(InputError, match="no such file"):
        open_checkpoint(prefix).read("w")
    whole = index.read_bytes()
    for i in range(len(whole)):  # any byte may be wrong: an error, or variables that can be read or not
        index.write_bytes(whole[:i] + bytes([whole[i] ^ 0xFF]) + whole[i + 1 :])
        try:
            found = open_checkpoint(prefix)
            for key in found.entries:
                found.read(key)
        except InputError:
            continue
    index.write_bytes(whole[:20])
    with pytest.raises(ModelError, match="not the index"):
        open_checkpoint(prefix)


def test_the_current_folder_may_be_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its name is the bundle's, as if it were written out."""
    saved = READERS["saved-model"]
    saved.place(tmp_path / "perceptron", saved.seeds()[0])
    monkeypatch.chdir(tmp_path / "perceptron")
    assert ingot.compile(".", target="c99", emit=("c",)).name == "perceptron"
    monkeypatch.chdir("variables")
    assert ingot.compile("..", target="c99", emit=("c",)).name == "perceptron"
