"""Sequences and optionals: every level against onnxruntime or the reference evaluator; hostile callers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, parser
from onnx.reference import ReferenceEvaluator
from typer.testing import CliRunner

import ingot
from ingot.bundle.containers import packed, unpacked
from ingot.check.verify import verify
from ingot.cli import app
from ingot.driver import compile_with
from ingot.errors import InputError
from ingot.frontends.onnx import read_model
from ingot.graph.ir import Graph
from ingot.loops.evaluate import run as run_program
from ingot.loops.interpret import interpret
from ingot.loops.lower import lower
from ingot.loops.region import formulate_graph
from ingot.loops.region_passes.fuse import fuse
from ingot.loops.region_passes.layout_assignment import assign_layouts
from ingot.ops.infer import infer
from ingot.options import Options
from ingot.passes.inline_if import inline_if
from ingot.passes.prune import prune
from ingot.targets.records import find

Array = np.ndarray[Any, Any]
Feeds = dict[str, Any]
HEAD = '<ir_version: 10, opset_import: ["" : 18]>\n'


def floats(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng([7, seed, *shape]).standard_normal(shape).astype(np.float32)


def number(n: int) -> Array:
    return np.array(n, np.int64)


THREE = [floats(2, 3), floats(1, 3, seed=1), floats(4, 2, seed=2)]
SAME = [floats(2, 3), floats(2, 3, seed=1), floats(2, 3, seed=2)]
ROOM = {"s": (4, 4, 3)}

CASES: dict[str, tuple[str, dict[str, Any], list[Feeds]]] = {
    "a list that is known": (
        """g (float[2,3] x, float[1,3] y) => (float[2,3] a, float[3,3] b, int64 n) {
          one = Constant <value = int64 {1}> () last = Constant <value = int64 {-1}> ()
          s = SequenceConstruct (y, x)
          t = SequenceInsert (s, y, one)
          u = SequenceErase (t, one)
          a = SequenceAt (u, last)
          n = SequenceLength (t)
          b = ConcatFromSequence <axis = 0> (u)
        }""",
        {},
        [{"x": floats(2, 3), "y": floats(1, 3)}],
    ),
    "lists are given out": (
        """g (float[2,3] x, float[1,3] y) => (seq(float[N,3]) s) {
          e = SequenceEmpty ()
          t = SequenceInsert (e, x)
          s = SequenceInsert (t, y)
        }""",
        {},
        [{"x": floats(2, 3), "y": floats(1, 3)}],
    ),
    "a position known at run time": (
        """g (seq(float[A,B]) s, int64 k) => (float[A,B] y) { y = SequenceAt (s, k) }""",
        {"capacity": ROOM},
        [{"s": THREE, "k": number(k)} for k in (0, 1, 2, -1, -3)],
    ),
    "a position in a list": (
        """g (float[2,3] x, float[2,3] y, int64 k) => (float[2,3] z) {
          s = SequenceConstruct (x, y) e = SequenceAt (s, k) z = Relu (e)
        }""",
        {},
        [{"x": floats(2, 3), "y": floats(2, 3, seed=1), "k": number(k)} for k in (0, 1, -1, -2)],
    ),
    "insert at run time": (
        """g (seq(float[A,B]) s, float[5,1] x, int64 k) => (seq(float[A,B]) t, int64 n) {
          t = SequenceInsert (s, x, k) n = SequenceLength (t)
        }""",
        {"capacity": ROOM},
        [{"s": THREE, "x": floats(5, 1), "k": number(k)} for k in (0, 1, 3, -1, -3)]
        + [{"s": [], "x": floats(5, 1), "k": number(0)}],
    ),
    "append": (
        """g (seq(float[A,B]) s, float[5,1] x) => (seq(float[A,B]) t) { t = SequenceInsert (s, x) }""",
        {"capacity": ROOM},
        [{"s": s, "x": floats(5, 1)} for s in ([], THREE[:1], THREE)],
    ),
    "insert into a list": (
        """g (float[2,3] x, float[1,4] y, int64 k) => (seq(float[A,B]) t) {
          s = SequenceConstruct (x, y, x) t = SequenceInsert (s, y, k)
        }""",
        {},
        [{"x": floats(2, 3), "y": floats(1, 4), "k": number(k)} for k in (0, 2, -1)],
    ),
    "erase": (
        """g (seq(float[A,B]) s, int64 k) => (seq(float[A,B]) t, seq(float[A,B]) u) {
          t = SequenceErase (s, k) u = SequenceErase (s)
        }""",
        {"capacity": ROOM},
        [{"s": THREE, "k": number(k)} for k in (0, 1, 2, -1, -3)],
    ),
    "erase from a list": (
        """g (float[2,3] x, float[1,4] y, int64 k) => (seq(float[A,B]) t) {
          s = SequenceConstruct (x, y, x) t = SequenceErase (s, k)
        }""",
        {},
        [{"x": floats(2, 3), "y": floats(1, 4), "k": number(k)} for k in (0, 2, -1)],
    ),
    "concatenate": (
        """g (seq(float[A,3]) s) => (float[M,3] y) { y = ConcatFromSequence <axis = 0> (s) }""",
        {"capacity": {"s": (4, 4, 3)}},
        [{"s": s} for s in (THREE[:1], THREE[:2], [*THREE[:2], floats(4, 3), floats(3, 3)])],
    ),
    "concatenate along the last axis": (
        """g (seq(float[2,A]) s) => (float[2,M] y) { y = ConcatFromSequence <axis = -1> (s) }""",
        {"capacity": {"s": (3, 2, 5)}},
        [{"s": [floats(2, n) for n in ns]} for ns in ((5,), (1, 2), (2, 5, 3))],
    ),
    "stack": (
        """g (seq(float[A,B]) s) => (float[A,M,B] y) {
          y = ConcatFromSequence <axis = 1, new_axis = 1> (s)
        }""",
        {"capacity": ROOM},
        [{"s": s} for s in (SAME, THREE[2:], THREE[1:2] * 4)],
    ),
    "elements of one shape": (
        """g (seq(float[2,3]) s, int64 k) => (float[2,3] y, float[2,3] z) {
          y = SequenceAt (s, k) one = Constant <value = int64 {1}> () e = SequenceAt (s, one) z = Tanh (e)
        }""",
        {"capacity": {"s": (4, 2, 3)}},
        [{"s": SAME, "k": number(k)} for k in (0, -1)],
    ),
    "split into slices": (
        """g (float[2,5] x, int64 k) => (float[2] y, seq(float[2]) s) {
          s = SplitToSequence <axis = 1, keepdims = 0> (x) y = SequenceAt (s, k)
        }""",
        {},
        [{"x": floats(2, 5), "k": number(k)} for k in (0, 4, -2)],
    ),
    "split by sizes": (
        """g (float[2,6] x, int64[3] n) => (seq(float[2,A]) s) { s = SplitToSequence <axis = 1> (x, n) }""",
        {},
        [{"x": floats(2, 6), "n": np.array(n, np.int64)} for n in ((1, 2, 3), (6, 0, 0), (2, 2, 2))],
    ),
    "split into chunks": (
        """g (float[5,2] x, int64 n) => (seq(float[A,2]) s, int64 m) {
          s = SplitToSequence <axis = 0> (x, n) m = SequenceLength (s)
        }""",
        {},
        [{"x": floats(5, 2), "n": number(n)} for n in (1, 2, 3, 5, 7)],
    ),
    "more parts than a list has": (
        """g (float[600] x, int64 k) => (float[1] y, float[7] z) {
          s = SplitToSequence (x) y = SequenceAt (s, k)
          seven = Constant <value = int64 {7}> () last = Constant <value = int64 {-2}> ()
          t = SplitToSequence (x, seven) z = SequenceAt (t, last)
        }""",
        {},
        [{"x": floats(600), "k": number(k)} for k in (0, -1, 444)],
    ),
    "parts of what is of any length": (
        """g (float[N,2] x, int64 k) => (float[A,2] y, int64 n) {
          three = Constant <value = int64 {3}> ()
          s = SplitToSequence (x, three) y = SequenceAt (s, k) n = SequenceLength (s)
        }""",
        {"define": {"N": (1, 8)}},
        [{"x": floats(n, 2), "k": number(k)} for n in (1, 3, 5, 8) for k in (0, -1)],
    ),
    "split by a constant": (
        """g (float[5,2] x) => (float[1,2] y, seq(float[A,2]) s) {
          two = Constant <value = int64 {2}> () last = Constant <value = int64 {-1}> ()
          s = SplitToSequence <axis = 0> (x, two) y = SequenceAt (s, last)
        }""",
        {},
        [{"x": floats(5, 2)}],
    ),
    "an optional tensor": (
        """g (optional(float[2]) o, float[2] x) => (bool b, optional(float[2]) p) {
          b = OptionalHasElement (o) p = Optional (x)
        }""",
        {},
        [{"o": floats(2), "x": floats(2)}, {"o": None, "x": floats(2)}],
    ),
    "an optional sequence": (
        """g (optional(seq(float[A,B])) o) => (seq(float[A,B]) s) { s = OptionalGetElement (o) }""",
        {"capacity": {"o": (4, 4, 3)}},
        [{"o": THREE}, {"o": []}],
    ),
    "the element of an optional": (
        """g (optional(float[2]) o) => (float[2] y) { x = OptionalGetElement (o) y = Neg (x) }""",
        {},
        [{"o": floats(2)}],
    ),
}


def oracle(proto: ModelProto, feed: Feeds) -> list[Any]:
    """onnxruntime's answer, or the reference evaluator's where onnxruntime takes no such inputs."""
    try:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(proto.SerializeToString(), options)
        return list(session.run(None, feed))
    except Exception:
        return list(ReferenceEvaluator(proto).run(None, feed))


def same(found: Any, wanted: Any, where: str) -> None:
    """Lists element by element; arrays of one type and shape."""
    if isinstance(wanted, list):
        assert isinstance(found, list), f"{where}: {found} instead of a list"
        assert len(found) == len(wanted), f"{where}: {len(found)} elements instead of {len(wanted)}"
        for k, (f, w) in enumerate(zip(found, wanted, strict=True)):
            same(f, w, f"{where}, element {k}")
    elif wanted is None:
        assert found is None, f"{where}: {found} instead of nothing"
    else:
        wanted = np.asarray(wanted)
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape), where
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6, err_msg=where)


def extents_of(bundle: ingot.Bundle, inputs: dict[str, Array]) -> dict[str, int]:
    """The values of the dynamic dimensions."""
    names = {p["symbol"]: p["name"] for p in bundle.manifest["params"]}
    return {
        names[n]: size
        for t in bundle.manifest["inputs"]
        for n, size in zip(t["shape"], inputs[t["name"]].shape, strict=True)
        if n in names
    }


def check(proto: ModelProto, options: dict[str, Any], feeds: list[Feeds]) -> None:
    """Formula, loops and C agree with the oracle on every feed."""
    bundle = ingot.compile(proto, name="net", target="c99", **options)
    graph = prune(inline_if(infer(read_model(proto, **options))))
    formula = formulate_graph(graph)
    region = fuse(formulate_graph(graph))
    program = lower(region, assign_layouts(region, find("c99")), "net", find("c99"))
    for feed in feeds:
        wanted = oracle(proto, feed)
        raw = packed(bundle.manifest, feed)
        params = extents_of(bundle, raw)
        levels = {
            "formula": (interpret(formula, raw, params), formula.outputs),
            "loops": (run_program(program, raw, params), program.outputs),
        }
        for level, (arrays, tensors) in levels.items():
            named = {t.name: np.asarray(a) for t, a in zip(tensors, arrays, strict=True)}
            found = unpacked(bundle.manifest, named)
            for o, w in zip(proto.graph.output, wanted, strict=True):
                same(found[o.name], w, f"{level}: {o.name}")
        outputs = bundle.run(feed)
        for o, w in zip(proto.graph.output, wanted, strict=True):
            same(outputs[o.name], w, f"C: {o.name}")


@pytest.mark.parametrize("name", CASES)
def test_sequences(name: str) -> None:
    text, options, feeds = CASES[name]
    check(parser.parse_model(HEAD + text), options, feeds)


def operators_in(graph: Graph) -> set[tuple[str, str]]:
    found = {(n.domain, n.op) for n in graph.nodes}
    return found.union(*(operators_in(g) for n in graph.nodes for g in n.subgraphs.values()))


def covered(cases: dict[str, tuple[str, dict[str, Any], list[Feeds]]]) -> set[tuple[str, str]]:
    """The operators that cases come to: they need no rows of their own."""
    found: set[tuple[str, str]] = set()
    for text, options, _ in cases.values():
        found |= operators_in(infer(read_model(parser.parse_model(HEAD + text), **options)))
    return found


BAD: dict[str, tuple[str, Feeds, str]] = {
    "position": ("a position known at run time", {"s": THREE, "k": number(3)}, "ERR_INDEX"),
    "far position": ("a position known at run time", {"s": THREE, "k": number(-(1 << 63))}, "ERR_INDEX"),
    "nothing to take": ("a position known at run time", {"s": [], "k": number(0)}, "ERR_INDEX"),
    "nothing to erase": ("erase", {"s": [], "k": number(0)}, "ERR_INDEX"),
    "insert": ("insert at run time", {"s": THREE, "x": floats(5, 1), "k": number(4)}, "ERR_INDEX"),
    "in a list": ("a position in a list", {"x": SAME[0], "y": SAME[1], "k": number(2)}, "ERR_INDEX"),
    "nothing to concatenate": ("concatenate", {"s": []}, "ERR_CAPACITY"),
    "different shapes": ("stack", {"s": THREE}, "ERR_CAPACITY"),
    "sizes": ("split by sizes", {"x": floats(2, 6), "n": np.array([1, 2, 4], np.int64)}, "ERR_INDEX"),
    "negative sizes": (
        "split by sizes",
        {"x": floats(2, 6), "n": np.array([-1, 1, 6])},
        "ERR_INDEX",
    ),
    "chunks of nothing": ("split into chunks", {"x": floats(5, 2), "n": number(0)}, "ERR_INDEX"),
    "no element": ("an optional sequence", {"o": None}, "ERR_INDEX"),
    "no tensor": ("the element of an optional", {"o": None}, "ERR_INDEX"),
}


@pytest.mark.parametrize("name", BAD)
def test_errors_of_the_bundle(name: str) -> None:
    case, feed, error = BAD[name]
    text, options, _ = CASES[case]
    bundle = ingot.compile(parser.parse_model(HEAD + text), name="net", target="c99", **options)
    with pytest.raises(InputError, match=error):
        bundle.run(feed)


HOSTILE = {"s.length": 5, "s.extents": 5, "huge": 1 << 62, "negative": -1}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_sequence_that_contradicts_itself(what: str) -> None:
    """A length or extents beyond what there is room for: an error, and nothing is touched."""
    text, options, _ = CASES["insert at run time"]
    bundle = ingot.compile(parser.parse_model(HEAD + text), name="net", target="c99", **options)
    raw = packed(bundle.manifest, {"s": THREE, "x": floats(5, 1), "k": number(0)})
    name = what if what in raw else "s.length"
    raw[name] = np.full_like(raw[name], HOSTILE[what])
    status, _ = bundle.runner.call(raw)
    assert status == -4


def test_what_does_not_fit_is_said() -> None:
    text, options, _ = CASES["a position known at run time"]
    proto = parser.parse_model(HEAD + text)
    with pytest.raises(InputError, match=r"capacity={'s': NxAxB"):
        ingot.compile(proto)
    bundle = ingot.compile(proto, target="c99", **options)
    for bad in (THREE * 2, [floats(5, 1)], [floats(1, 1).astype(np.float64)], floats(1, 1)[0, 0], None):
        with pytest.raises(InputError):
            bundle.run({"s": bad, "k": number(0)})


def test_verify_and_golden_vectors_know_sequences(tmp_path: Path) -> None:
    """Random lists for the oracle and the bundle alike; the program of golden vectors gets valid ones."""
    text, options, _ = CASES["insert at run time"]
    proto = parser.parse_model(HEAD + text)
    found = verify(proto, Options(target="c99", **options), compile_with, layers=True)
    assert found.ok, found.verdict
    assert {d.name for d in found.cases[0].outputs} == {"t[0]", "t[1]", "t[2]", "t[3]", "n"}
    bundle = ingot.compile(proto, name="net", target="x86-64", emit=("c", "main"), **options)
    assert "if (status != 0)" in bundle.files["net_main.c"].decode()


def test_command_line(tmp_path: Path) -> None:
    """A file for each element; outputs element by element."""
    text, _, _ = CASES["insert at run time"]
    model = tmp_path / "m.onnxtxt"
    model.write_text(HEAD + text)
    words = ["run", str(model), "--capacity", "s=4x4x3", "--target", "c99", "--json"]
    for name, array in (("s", floats(2, 3)), ("s", floats(1, 3)), ("x", floats(5, 1)), ("k", number(1))):
        path = tmp_path / f"{len(words)}.npy"
        np.save(path, array)
        words += ["--input", f"{name}={path}"]
    answer = CliRunner().invoke(app, words)
    assert answer.exit_code == 0, answer.output
    shown = {o["name"]: o["shape"] for o in json.loads(answer.stdout)}
    assert shown == {"t[0]": [2, 3], "t[1]": [5, 1], "t[2]": [1, 3], "n": []}
