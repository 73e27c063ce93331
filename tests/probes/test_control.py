"""If and Loop as C control flow: every level against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import parser

import ingot
from ingot.frontends.onnx import read_model
from ingot.loops.evaluate import run as run_program
from ingot.loops.interpret import interpret
from ingot.loops.lower import lower
from ingot.loops.region import formulate_graph
from ingot.loops.region_passes.fuse import fuse
from ingot.loops.region_passes.layout_assignment import assign_layouts
from ingot.ops.infer import infer
from ingot.passes.prune import prune
from ingot.targets.records import find
from tests.bundle.build import need
from tests.program import member
from tests.program import run as sanitized

Array = np.ndarray[Any, Any]
HEAD = '<ir_version: 10, opset_import: ["" : 17]>\n'
X = np.random.default_rng(3).standard_normal((2, 3)).astype(np.float32)
YES, NO = np.array(True), np.array(False)

CASES: dict[str, tuple[str, list[dict[str, Array]]]] = {
    "if": (
        """g (float[2,3] x, bool c) => (float[2,3] y) {
          r = Relu(x)
          y = If(c) <then_branch = a () => (float[2,3] p) { p = Add(r, x) },
                     else_branch = b () => (float[2,3] q) { t = Tanh(r) q = Exp(t) }>
        }""",
        [{"x": X, "c": YES}, {"x": X, "c": NO}],
    ),
    "if gives what it captured": (
        """g (float[2,3] x, bool c) => (float[2,3] y) {
          r = Relu(x)
          y = If(c) <then_branch = a () => (float[2,3] p) { p = Identity(r) },
                     else_branch = b () => (float[2,3] q) { q = Identity(x) }>
        }""",
        [{"x": X, "c": YES}, {"x": X, "c": NO}],
    ),
    "loop with a run-time trip count": (
        """g (float[2,3] x, int64 m) => (float[2,3] y) {
          yes = Constant <value = bool {1}> ()
          y = Loop(m, yes, x) <body = b (int64 i, bool c, float[2,3] v) => (bool d, float[2,3] w)
              { d = Identity(c) t = Tanh(v) w = Add(t, x) }>
        }""",
        [{"x": X, "m": np.array(n, np.int64)} for n in (0, 1, 5, -3)],
    ),
    "loop that ends itself": (
        """g (float x, int64 m) => (float y) {
          yes = Constant <value = bool {1}> () two = Constant <value = float {2.0}> ()
          limit = Constant <value = float {100.0}> ()
          y = Loop(m, yes, x) <body = b (int64 i, bool c, float v) => (bool d, float w)
              { w = Mul(v, two) d = Less(w, limit) }>
        }""",
        [{"x": np.array(v, np.float32), "m": np.array(20, np.int64)} for v in (1.0, 70.0, -1.0)],
    ),
    "scan outputs, and carried values that change places": (
        """g (float[2,3] x) => (float[2,3] a, float[2,3] b, float[4,2,3] s) {
          four = Constant <value = int64 {4}> ()
          one = Relu(x)
          a, b, s = Loop(four, , x, one) <body = h (int64 i, bool c, float[2,3] v, float[2,3] w)
              => (bool d, float[2,3] p, float[2,3] q, float[2,3] o)
              { d = Identity(c) p = Identity(w) q = Add(v, w) o = Mul(v, w) }>
        }""",
        [{"x": X}],
    ),
    "loop in a branch, branch in a loop": (
        """g (float[2,3] x, int64 m, bool c) => (float[2,3] y) {
          yes = Constant <value = bool {1}> ()
          y = If(c) <then_branch = a () => (float[2,3] p) {
                p = Loop(m, yes, x) <body = b (int64 i, bool k, float[2,3] v) => (bool d, float[2,3] w) {
                  d = Identity(k)
                  w = If(c) <then_branch = e () => (float[2,3] s) { s = Add(v, x) },
                             else_branch = f () => (float[2,3] t) { t = Sub(v, x) }> }> },
              else_branch = h () => (float[2,3] q) { q = Neg(x) }>
        }""",
        [{"x": X, "m": np.array(3, np.int64), "c": c} for c in (YES, NO)],
    ),
    "a known condition": (
        """g (float[2,3] x) => (float[2,3] y) {
          no = Constant <value = bool {0}> ()
          y = If(no) <then_branch = a () => (float[2,3] p) { p = Relu(x) },
                      else_branch = b () => (float[2,3] q) { q = Tanh(x) }>
        }""",
        [{"x": X}],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_control(name: str) -> None:
    text, feeds = CASES[name]
    proto = parser.parse_model(HEAD + text)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    bundle = ingot.compile(proto, name="net", target="c99")
    for feed in feeds:
        wanted = session.run(None, feed)
        outputs = bundle.run(feed)
        levels = {"C": list(outputs.values())}
        if name != "a known condition":  # the branch is taken by a pass of the driver's
            graph = prune(infer(read_model(proto)))
            levels["formula"] = interpret(formulate_graph(graph), feed)
            region = fuse(formulate_graph(graph))
            levels["loops"] = run_program(
                lower(region, assign_layouts(region, find("c99")), "net", find("c99")), feed
            )
        for level, found in levels.items():
            for f, w in zip(found, wanted, strict=True):
                np.testing.assert_allclose(f, w, rtol=1e-5, atol=1e-6, err_msg=level)


def test_control_under_sanitizers() -> None:
    """Every case with its first input, in one program built by gcc's sanitizers."""
    need("gcc")
    texts = [(parser.parse_model(HEAD + text), feeds[0]) for text, feeds in CASES.values()]
    for answer in sanitized([member(m, feed, f"net{i}") for i, (m, feed) in enumerate(texts)]):
        assert answer.status == 0


def test_a_loop_whose_slices_cannot_be_counted() -> None:
    text = """g (float[2] x, int64 m) => (float[2] y, float[n,2] s) {
      y, s = Loop(m, , x) <body = b (int64 i, bool c, float[2] v) => (bool d, float[2] w, float[2] o)
          { d = Identity(c) w = Tanh(v) o = Exp(v) }>
    }"""
    with pytest.raises(
        ingot.UnsupportedError, match=r"nothing bounds the number of iterations.*capacity=\{'s'"
    ):
        ingot.compile(parser.parse_model(HEAD + text))


def test_a_carried_value_that_grows() -> None:
    text = """g (float[1] x, int64 m) => (float[k] y) {
      y = Loop(m, , x) <body = b (int64 i, bool c, float[n] v) => (bool d, float[j] w)
          { d = Identity(c) w = Concat <axis = 0> (v, v) }>
    }"""
    with pytest.raises(ingot.InputError, match=r"'y' may grow from iteration to iteration.*capacity=\{'y'"):
        ingot.compile(parser.parse_model(HEAD + text))
