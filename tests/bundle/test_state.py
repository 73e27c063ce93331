"""`--state`: outputs that come back as inputs, in every convention, and the examples of docs/state.md."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, parser

import ingot
from benchmarks.decoder_model import Shape, onnx_model, states
from ingot.check.verify import verify
from ingot.driver import compile_with
from ingot.errors import InputError
from ingot.options import Options

from .build import STRICT, compile_c, link, run, write

Array = np.ndarray[Any, Any]
DOCUMENT = (Path(__file__).parent.parent.parent / "docs" / "state.md").read_text()
C = dict(re.findall(r"^```c (\w+)\n(.*?)^```", DOCUMENT, re.S | re.M))
PYTHON = dict(re.findall(r"^```python (\w+)\n(.*?)^```", DOCUMENT, re.S | re.M))
HEADER = '<ir_version: 10, opset_import: ["" : 21]>\n'
# acc is still read when acc_next is there; left and right change places; Gather may fail
MODEL = """
g (float[4] x, int64[2] at, float[4] acc, float[2] left, float[2] right, int8[3] i8, double[2] f64)
  => (float[4] y, float[2] z, float[4] acc_next, float[2] to_left, float[2] to_right, int8[3] n8,
      double[2] n64)
<float[4] acc={1,2,3,4}, int8[3] i8={-128,127,0}, float[2] right={5,6}>
{ acc_next = Add(x, acc) y = Mul(acc_next, acc) z = Gather(acc_next, at) to_left = Identity(right)
  to_right = Identity(left) n8 = Max(i8, i8) n64 = Sub(f64, f64) }
"""
PAIRS = {"acc_next": "acc", "to_left": "left", "to_right": "right", "n8": "i8", "n64": "f64"}
WAYS: dict[str, dict[str, Any]] = {
    "direct": {},
    "static": {"api": "static"},
    "dynamic": {"api": "dynamic"},
    "argument": {"api": "argument"},
    "external": {"weights": "external"},
    "threads": {"threads": True},
    "variants": {"target": "x86-64+x86-64-v3"},
    "aarch64": {"target": "aarch64"},
    "s390x": {"target": "s390x"},  # big-endian, in a process of its own
    "plain": {"fuse": False, "target": "c99"},
}


def made(text: str) -> onnx.ModelProto:
    return parser.parse_model(HEADER + text)


def document_model() -> Any:
    names: dict[str, Any] = {}
    exec(PYTHON["model"], names)
    return names["model"]


@pytest.mark.parametrize("way", WAYS)
def test_a_session_keeps_what_a_run_leaves(way: str) -> None:
    bundle = ingot.compile(made(MODEL), name="net", state=PAIRS, **WAYS[way])
    session = bundle.session()
    first, acc, x = session.state, np.array([1, 2, 3, 4], np.float32), np.ones(4, np.float32)
    assert {n: a.tolist() for n, a in first.items()} == {
        "acc": [1, 2, 3, 4], "left": [0, 0], "right": [5, 6], "i8": [-128, 127, 0], "f64": [0, 0]
    }  # fmt: skip
    fed = {"x": x, "at": np.array([3, 0])}
    for step in range(3):
        found = session.run(fed)
        np.testing.assert_array_equal(found["y"], (acc + x) * acc)
        acc += x
        np.testing.assert_array_equal(found["z"], acc[[3, 0]])
        assert session.state["left"].tolist() == ([5, 6] if step % 2 == 0 else [0, 0])
    twin = session.copy()
    np.testing.assert_array_equal(twin.run(fed)["y"], session.run(fed)["y"])
    with pytest.raises(InputError, match="ERR_INDEX"):
        twin.run({"x": x, "at": np.array([4, 0])})
    assert all(np.array_equal(twin.state[n], a) for n, a in session.state.items()), "an error changes nothing"
    session.reset()
    np.testing.assert_array_equal(session.run(fed)["y"], bundle.run(fed)["y"])
    session.state = first
    np.testing.assert_array_equal(session.run(fed)["y"], bundle.run(fed)["y"])


@pytest.mark.parametrize(
    "way", ["direct", "static", "dynamic", "argument", "threads", "external", "variants"]
)
@pytest.mark.parametrize("kind", ["c", "obj"])
def test_the_golden_program_starts_and_checks_the_state(way: str, kind: str, tmp_path: Path) -> None:
    if way == "variants" and kind == "c":
        kind = "lib"  # variants are linked as an object
    bundle = ingot.compile(made(MODEL), name="net", state=PAIRS, emit=(kind, "main"), **WAYS[way])
    bundle.save(tmp_path)
    strict = f"CC=gcc {' '.join(STRICT)} -Wshadow"
    shown = run(["make", "--no-print-directory", "run", *([strict] if way != "variants" else [])], tmp_path)
    assert shown.splitlines()[-1] == "OK" and shown.count("0 of") == 2 * 7


def test_manifest_and_rename() -> None:
    bundle = ingot.compile(made(MODEL), name="net", state=PAIRS, rename={"left": "port", "x": "signal"})
    found = [(t["name"], t["symbol"], t["next"], t["shape"]) for t in bundle.manifest["state"]]
    assert found[0] == ("acc", "acc", "acc_next", [4]) and found[1] == ("left", "port", "to_left", [2])
    assert [t["name"] for t in bundle.manifest["inputs"]] == ["x", "at"]
    assert [t["name"] for t in bundle.manifest["outputs"]] == ["y", "z"]
    assert "net_state_init" in bundle.manifest["symbols"]
    assert bundle.manifest["sizes"]["state_bytes"] == 4 * 4 + 2 * 8 + 3 + 2 * 8
    header = bundle.files["net.h"].decode()
    assert re.search(r"struct net_state \{\s+double f64\[2\];.*\s+float acc\[4\];", header), "by alignment"


def test_hostile_names_become_members() -> None:
    """A keyword, our own words, the end of a comment."""
    model, other = made(MODEL), {"acc": "state", "left": "int", "right": "net_state", "i8": "*/ evil"}
    for value in (*model.graph.input, *model.graph.initializer):
        value.name = other.get(value.name, value.name)
    for node in model.graph.node:
        node.input[:] = [other.get(n, n) for n in node.input]
    pairs = {after: other.get(before, before) for after, before in PAIRS.items()}
    session = ingot.compile(model, name="net", state=pairs).session()
    assert session.run({"x": np.ones(4, np.float32), "at": np.array([0, 1])})["y"].tolist() == [2, 6, 12, 20]
    found = {name: session.state[name].tolist() for name in other.values()}
    assert found == {"state": [2, 3, 4, 5], "int": [5, 6], "net_state": [0, 0], "*/ evil": [-128, 127, 0]}


def test_in_place_where_it_shows_nowhere() -> None:
    """A cache that is read before its next content is made costs no copy; one that is read after it does."""
    apart = "g (float[64] x, float[64] s) => (float[64] y, float[64] n) { y = Softmax(s) n = Neg(x) }"
    later = "g (float[64] x, float[64] s) => (float[64] y, float[64] n) { n = Softmax(x) y = Add(s, n) }"
    fail = """g (float[64] x, int64[2] i, float[64] s) => (float[2] y, float[64] n)
              { n = Softmax(x) t = Neg(n) y = Gather(t, i) }"""
    copied = {}
    for name, text in (("apart", apart), ("later", later), ("fail", fail)):
        bundle = ingot.compile(made(text), name="net", state={"n": "s"}, fuse=False)
        code = bundle.files["net.c"].decode()
        entry = code[code.index("int net(") : code.index("void net_state_init")]
        copied[name] = "state->s[i] =" in entry
    assert copied == {"apart": False, "later": True, "fail": True}


def test_an_initializer_that_is_no_input() -> None:
    text = "g (float[2] x) => (float[2] y, float[2] n) <float[2] v={3,4}> { y = Mul(x, v) n = Add(x, v) }"
    session = ingot.compile(made(text), name="net", state={"n": "v"}).session()
    two = np.full(2, 2, np.float32)
    assert session.run({"x": two})["y"].tolist() == [6, 8]
    assert session.run({"x": two})["y"].tolist() == [10, 12]
    assert verify(made(text), Options(state={"n": "v"}), compile_with).ok


def test_an_output_that_is_listed_by_no_node_of_its_own() -> None:
    """The state itself as its next content, a view of it, and a constant."""
    text = """g (float[2] x, float[2,3] s, float[1] k, float[2] c)
              => (float[2] y, float[2,3] s2, float[1] k2, float[2] c2)
              { c2 = Constant <value_floats=[7.0,8.0]> () y = Add(x, c) k2 = Identity(k) s2 = Identity(s) }"""
    session = ingot.compile(made(text), name="net", state={"s2": "s", "k2": "k", "c2": "c"}).session()
    session.state = {**session.state, "s": np.arange(6, dtype=np.float32).reshape(2, 3)}
    assert session.run({"x": np.zeros(2, np.float32)})["y"].tolist() == [0, 0]
    assert session.run({"x": np.zeros(2, np.float32)})["y"].tolist() == [7, 8]
    assert session.state["s"].ravel().tolist() == [0, 1, 2, 3, 4, 5]


PLAIN = """g (float[N,4] x, float[4] a, float[2,2] b, int32[4] i) => (float[N,4] y, float[4] n)
           { y = Add(x, a) n = Neg(a) z = Abs(b) w = Abs(i) }"""


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"nn": "a"}, "state={'nn': 'a'}: the model has no output 'nn'; its outputs: 'n'"),
        ({"n": "aa"}, "state={'n': 'aa'}: the model has no input 'aa'; its inputs: 'a'"),
        ({"n": "b"}, "the two differ in type or shape: n: float32.4., b: float32.2, 2."),
        ({"n": "i"}, "the two differ in type or shape: n: float32.4., i: int32.4."),
        ({"y": "x"}, "state={'y': 'x'}: the shape of x: float32.* is known at run time only; a state keeps"),
        ({"n": "a", "y": "a"}, "state={'y': 'a'}: the two differ"),
    ],
)
def test_pairs_that_cannot_be(state: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        ingot.compile(made(PLAIN), define={"N": (1, 4)}, state=state)


def test_a_value_is_paired_once() -> None:
    text = "g (float[4] a, float[4] b) => (float[4] m, float[4] n) { m = Neg(a) n = Abs(b) }"
    with pytest.raises(InputError, match="the input 'a' is in two pairs"):
        ingot.compile(made(text), state={"m": "a", "n": "a"})


def test_verify_feeds_the_oracle_by_hand() -> None:
    options = Options(state={"hn": "h", "cn": "c"}, define={"T": (1, 8)})
    found = verify(document_model(), options, compile_with)
    assert found.ok and [c.step for c in found.cases] == [0, 1, 2, 0, 1, 2]
    assert {d.name for d in found.cases[0].outputs} == {"y", "hn", "cn"}


# -- docs/state.md


@pytest.mark.parametrize("which", C)
def test_c_example(which: str, tmp_path: Path) -> None:
    define = {"T": (1, 64)} if which == "state" else {"T": 4}
    api: Any = "direct" if which == "state" else which
    bundle = ingot.compile(
        document_model(), name="lstm", define=define, state={"hn": "h", "cn": "c"}, api=api
    )
    bundle.save(tmp_path / "build")
    write(tmp_path, {"main.c": C[which]})
    for kind in ("gcc", "clang"):
        main = compile_c(kind, tmp_path, "main.c", "-std=c99", *STRICT, "-Ibuild", "-I.")
        run([link(tmp_path, [main, "build/lstm.o"])], tmp_path)


def test_c_example_under_sanitizers(tmp_path: Path) -> None:
    bundle = ingot.compile(
        document_model(),
        name="lstm",
        target="x86-64-v3",
        define={"T": (1, 64)},
        state={"hn": "h", "cn": "c"},
    )
    bundle.save(tmp_path / "build")
    write(tmp_path, {"main.c": C["state"]})
    flags = ("-std=c99", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    flags = (*flags, "-mavx2", "-mfma", "-fno-strict-aliasing", "-ffp-contract=off", "-Ibuild")
    sources = ("main.c", "build/lstm.c", "build/lstm_weights.c")
    objects = [compile_c("gcc", tmp_path, source, *flags) for source in sources]
    run([link(tmp_path, objects, "-fsanitize=address,undefined")], tmp_path)


def test_python_example() -> None:
    names: dict[str, Any] = {}
    exec(PYTHON["model"] + PYTHON["session"], names)
    parts = np.concatenate([*names["first"], names["rest"]])
    np.testing.assert_array_equal(parts, names["whole"])
    np.testing.assert_array_equal(names["again"], names["rest"])
    assert names["session"].state.keys() == {"h", "c"}


def test_the_struct_of_the_document_is_the_header_s() -> None:
    bundle = ingot.compile(document_model(), name="lstm", define={"T": (1, 64)}, state={"hn": "h", "cn": "c"})
    header = bundle.files["lstm.h"].decode()
    shown = DOCUMENT[DOCUMENT.index("    struct lstm_state {") :].split("\n\n")[0]
    for line in map(str.strip, shown.splitlines()):
        assert line in header, line


def test_a_state_of_strings() -> None:
    info, text = helper.make_tensor_value_info, onnx.TensorProto.STRING
    nodes = [helper.make_node("Where", ["m", "x", "s"], ["n"]), helper.make_node("Identity", ["s"], ["y"])]
    inputs = [info("m", onnx.TensorProto.BOOL, [2]), info("x", text, [2]), info("s", text, [2])]
    first = helper.make_tensor("s", text, [2], [b'a"', "öß".encode()])
    graph = helper.make_graph(nodes, "g", inputs, [info("y", text, [2]), info("n", text, [2])], [first])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    session = ingot.compile(model, name="net", state={"n": "s"}).session()
    fed = {"m": np.array([True, False]), "x": np.array(["p", "q"], object)}
    assert session.run(fed)["y"].tolist() == ['a"', "öß"] and session.state["s"].tolist() == ["p", "öß"]
    assert session.run(fed)["y"].tolist() == ["p", "öß"]


def test_a_cache_of_keys_that_fills_up() -> None:
    """Attention over all that was seen, in chunks of any length; what does not fit changes nothing."""
    text = """g (float[1,2,S,8] q, float[1,2,S,8] k, int64[1] seen, float[1,2,16,8] past, int64[1] count)
      => (float[1,2,S,8] y, float[1,2,16,8] now, int64[1] after)
      { now = TensorScatter <axis=2> (past, k, count) y = Attention(q, now, now, , , , seen)
        n = Shape <start=2, end=3> (q) after = Add(count, n) }"""
    model = parser.parse_model('<ir_version: 10, opset_import: ["" : 24]>\n' + text)
    pairs = {"now": "past", "after": "count"}
    session = ingot.compile(model, name="kv", define={"S": (1, 8)}, state=pairs).session()
    cache, rng = np.zeros((1, 2, 0, 8), np.float32), np.random.default_rng(0)
    for n in (3, 1, 8, 4):
        q, k = rng.standard_normal((2, 1, 2, n, 8)).astype(np.float32)
        cache = np.concatenate([cache, k], axis=2)
        found = session.run({"q": q, "k": k, "seen": np.array([cache.shape[2]])})["y"]
        scores = np.exp(np.einsum("bhsd,bhtd->bhst", q, cache) / np.sqrt(8))
        wanted = np.einsum("bhst,bhtd->bhsd", scores / scores.sum(-1, keepdims=True), cache)
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    with pytest.raises(InputError, match="ERR_INDEX"):
        session.run({"q": q, "k": k, "seen": np.array([16])})
    np.testing.assert_array_equal(session.state["past"], cache)
    assert session.state["count"] == [16]


@pytest.mark.parametrize("target", [None, "c99"])
def test_caches_of_chunks_change_where_they_are(target: str | None) -> None:
    """Up to four tokens a run: every layer checks the same numbers, so that only the first can fail."""
    shape = Shape(width=64, layers=2, heads=2, shared=1, inner=32, words=40, context=8)
    model, how = onnx_model(shape), {} if target is None else {"target": target}
    for edge in (model.graph.input[0], model.graph.output[0]):
        edge.type.tensor_type.shape.dim[1].dim_param = "S"
    kept = ingot.compile(
        model, name="net", define={"S": (1, 4)}, state=states(shape), emit=("obj", "c"), **how
    )
    assert not re.search(
        r"state->\w+\[i\] =", kept.files["net.c"].decode().partition("void net_state_init")[0]
    )
    token_by_token, chunks = (kept.session() for _ in range(2))
    words, used = np.arange(3, 40, 5)[None], 0
    for n in (3, 1, 4):
        part = words[:, used : used + n]
        found = chunks.run({"token": part, "used": np.array([used + n - 1], np.int32)})["logits"]
        one = [{"token": part[:, [i]], "used": np.array([used + i], np.int32)} for i in range(n)]
        wanted = [token_by_token.run(fed)["logits"] for fed in one]
        np.testing.assert_allclose(found, np.concatenate(wanted, axis=1), rtol=1e-4, atol=1e-5)
        used += n
    with pytest.raises(InputError, match="ERR_INDEX"):
        chunks.run({"token": words[:, :4], "used": np.array([8], np.int32)})
    for name, cache in token_by_token.state.items():
        np.testing.assert_allclose(chunks.state[name], cache, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("target", [None, "c99"])
def test_caches_of_a_decoder_change_where_they_are(target: str | None) -> None:
    """Keys and values of two layers: nothing is copied, and an error leaves them as they were."""
    shape = Shape(width=64, layers=2, heads=2, shared=1, inner=32, words=40, context=8)
    model, how = onnx_model(shape), {} if target is None else {"target": target}
    plain = ingot.compile(model, name="net", **how)
    kept = ingot.compile(model, name="net", state=states(shape), emit=("obj", "c"), **how)
    assert not re.search(
        r"state->\w+\[i\] =", kept.files["net.c"].decode().partition("void net_state_init")[0]
    )
    session, caches = kept.session(), {b: np.zeros((1, 1, 8, 32), np.float32) for b in states(shape).values()}
    for step in range(8):
        fed = {"token": np.array([[3 * step]]), "used": np.array([step], np.int32)}
        found, wanted = session.run(fed), plain.run({**fed, **caches})
        np.testing.assert_allclose(found["logits"], wanted["logits"], rtol=1e-5, atol=1e-6)
        caches = {before: wanted[after] for after, before in states(shape).items()}
    with pytest.raises(InputError, match="ERR_INDEX"):
        session.run({"token": np.array([[0]]), "used": np.array([8], np.int32)})
    for name, cache in caches.items():
        np.testing.assert_allclose(session.state[name], cache, rtol=1e-5, atol=1e-6)
