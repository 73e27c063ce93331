"""Branches and turns whose tensors differ in shape, and sequences that pass through them: every level."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import parser

import ingot
from ingot.errors import InputError
from tests.probes.test_sequences import HEAD, THREE, Feeds, check, floats, number

YES, NO = np.array(True), np.array(False)

CASES: dict[str, tuple[str, dict[str, Any], list[Feeds]]] = {
    "branches of different extents": (
        """g (float[2,3] x, float[4,3] z, bool c) => (float[n,3] y, float[m] s) {
          y = If(c) <then_branch = a () => (float[2,3] p) { p = Relu(x) },
                     else_branch = b () => (float[4,3] q) { q = Tanh(z) }>
          axes = Constant <value_ints = [1]> ()
          s = ReduceSum <keepdims = 0> (y, axes)
        }""",
        {},
        [{"x": floats(2, 3), "z": floats(4, 3), "c": c} for c in (YES, NO)],
    ),
    "a branch whose extents are data": (
        """g (float[5] x, bool[5] k, bool c) => (float[n] y) {
          y = If(c) <then_branch = a () => (float[m] p) { p = Compress(x, k) },
                     else_branch = b () => (float[5] q) { q = Neg(x) }>
        }""",
        {},
        [
            {"x": floats(5), "k": np.array(k), "c": c}
            for c in (YES, NO)
            for k in ([True, False] * 2 + [True],)
        ],
    ),
    "extents that a branch takes from outside": (
        """g (float[5] x, bool[5] k, bool c) => (float[n] y) {
          s = Compress(x, k)
          y = If(c) <then_branch = a () => (float[m] p) { p = Relu(s) },
                     else_branch = b () => (float[m] q) { q = Neg(s) }>
        }""",
        {},
        [{"x": floats(5), "k": np.array([True, False, False, True, True]), "c": c} for c in (YES, NO)],
    ),
    "branches in branches": (
        """g (float[6] x, bool c, bool d) => (float[n] y) {
          k = Constant <value_ints = [2]> () z = Constant <value_ints = [0]> ()
          four = Constant <value_ints = [4]> ()
          y = If(c) <then_branch = a () => (float[m] p) {
                p = If(d) <then_branch = e () => (float[2] r) { r = Slice(x, z, k) },
                           else_branch = f () => (float[4] t) { t = Slice(x, z, four) }> },
              else_branch = b () => (float[6] q) { q = Neg(x) }>
        }""",
        {},
        [{"x": floats(6), "c": c, "d": d} for c in (YES, NO) for d in (YES, NO)],
    ),
    "slices of as many turns as asked for": (
        """g (float[2] x, int64 m) => (float[2] y, float[n,2] s) {
          y, s = Loop(m, , x) <body = b (int64 i, bool c, float[2] v) => (bool d, float[2] w, float[2] o)
              { d = Identity(c) w = Tanh(v) o = Exp(v) }>
        }""",
        {"capacity": {"s": 5}},
        [{"x": floats(2), "m": number(m)} for m in (1, 3, 5)],
    ),
    "no slices at all": (
        """g (float[2] x, int64 m) => (float[n,2] s) {
          y, s = Loop(m, , x) <body = b (int64 i, bool c, float[2] v) => (bool d, float[2] w, float[2] o)
              { d = Identity(c) w = Tanh(v) o = Exp(v) }>
        }""",
        {"capacity": {"": 4}},
        [{"x": floats(2), "m": number(m)} for m in (0, 4, -2)],
    ),
    "slices until a condition fails": (
        """g (float x, int64 m) => (float y, float[n] s) {
          yes = Constant <value = bool {1}> () two = Constant <value = float {2.0}> ()
          limit = Constant <value = float {100.0}> ()
          y, s = Loop(, yes, x) <body = b (int64 i, bool c, float v) => (bool d, float w, float o)
              { w = Mul(v, two) d = Less(w, limit) o = Identity(v) }>
        }""",
        {"capacity": {"s": (9,)}},
        [{"x": np.array(v, np.float32), "m": number(0)} for v in (1.0, 70.0, 0.6)],
    ),
    "slices that the model declares": (
        """g (float[2] x, int64 m) => (float[3,2] s) {
          y, s = Loop(m, , x) <body = b (int64 i, bool c, float[2] v) => (bool d, float[2] w, float[2] o)
              { d = Identity(c) w = Tanh(v) o = Exp(v) }>
        }""",
        {},
        [{"x": floats(2), "m": number(3)}],
    ),
    "extents that the body declares": (
        """g (float[5] x, int64 m, float[1] z) => (float[1] y, float[2,1] s) {
          one = Constant <value_ints = [1]> () shape = Constant <value_ints = [1]> ()
          y, s = Loop(m, , z) <body = b (int64 i, bool c, float[1] v) => (bool d, float[1] w, float[1] o)
              { d = Identity(c) k = Reshape(i, shape) e = Add(k, one) p = Slice(x, k, e)
                w = Add(v, p) o = Identity(w) }>
        }""",
        {},
        [{"x": floats(5), "m": number(2), "z": floats(1, seed=1)}],
    ),
    "a carried value that grows by a known number of turns": (
        """g (float[1,2] x) => (float[n,2] y) {
          four = Constant <value = int64 {4}> ()
          y = Loop(four, , x) <body = b (int64 i, bool c, float[k,2] v) => (bool d, float[j,2] w)
              { d = Identity(c) t = Tanh(v) w = Concat <axis = 0> (t, x) }>
        }""",
        {},
        [{"x": floats(1, 2)}],
    ),
    "a carried value that doubles": (
        """g (float[1] x) => (float[n] y) {
          three = Constant <value = int64 {3}> ()
          y = Loop(three, , x) <body = b (int64 i, bool c, float[k] v) => (bool d, float[j] w)
              { d = Identity(c) t = Neg(v) w = Concat <axis = 0> (v, t) }>
        }""",
        {},
        [{"x": floats(1)}],
    ),
    "a carried value that grows as far as there is room": (
        """g (float[1] x, int64 m) => (float[n] y) {
          y = Loop(m, , x) <body = b (int64 i, bool c, float[k] v) => (bool d, float[j] w)
              { d = Identity(c) w = Concat <axis = 0> (v, v) }>
        }""",
        {"capacity": {"y": 8}},
        [{"x": floats(1), "m": number(m)} for m in (0, 1, 3)],
    ),
    "a carried value that shrinks": (
        """g (float[5] x, int64 m) => (float[n] y) {
          z = Constant <value_ints = [1]> () e = Constant <value_ints = [100]> ()
          y = Loop(m, , x) <body = b (int64 i, bool c, float[k] v) => (bool d, float[j] w)
              { d = Identity(c) w = Slice(v, z, e) }>
        }""",
        {},
        [{"x": floats(5), "m": number(m)} for m in (0, 2, 5, 9)],
    ),
    "a loop in a loop, both growing": (
        """g (float[1] x, int64 m) => (float[n] y) {
          two = Constant <value = int64 {2}> ()
          y = Loop(m, , x) <body = b (int64 i, bool c, float[k] v) => (bool d, float[j] w) {
              d = Identity(c)
              w = Loop(two, , v) <body = e (int64 l, bool p, float[q] s) => (bool r, float[t] u)
                  { r = Identity(p) u = Concat <axis = 0> (s, x) }> }>
        }""",
        {"capacity": {"": 9}},
        [{"x": floats(1), "m": number(m)} for m in (0, 1, 4)],
    ),
    "a scan of any length": (
        """g (float[N,2] x, float[2] z) => (float[2] y, float[N,2] s) {
          y, s = Scan <num_scan_inputs = 1, body = b (float[2] v, float[2] e) => (float[2] w, float[2] o)
              { w = Add(v, e) o = Mul(w, e) }> (z, x)
        }""",
        {"define": {"N": (0, 6)}},
        [{"x": floats(n, 2), "z": floats(2)} for n in (1, 4, 6)],
    ),
    "a scan of as many steps as the data tells": (
        """g (float[6,2] x, bool[6] k, float[2] z) => (float[2] y, float[n,2] s) {
          c = Compress <axis = 0> (x, k)
          y, s = Scan <num_scan_inputs = 1, scan_input_directions = [1], scan_output_directions = [1],
              body = b (float[2] v, float[2] e) => (float[2] w, float[2] o) { w = Add(v, e) o = Mul(w, e) }>
              (z, c)
        }""",
        {},
        [{"x": floats(6, 2), "z": floats(2), "k": np.arange(6) % k == 0} for k in (1, 2, 6)],
    ),
    "a sequence in a branch": (
        """g (float[2] x, float[3] z, bool c) => (seq(float[n]) y) {
          y = If(c) <then_branch = a () => (seq(float[2]) p) { p = SequenceConstruct(x) },
                     else_branch = b () => (seq(float[k]) q) { q = SequenceConstruct(z, x, z) }>
        }""",
        {},
        [{"x": floats(2), "z": floats(3), "c": c} for c in (YES, NO)],
    ),
    "an empty sequence in a branch": (
        """g (int64[2] x, bool c) => (seq(int64[n]) y) {
          y = If(c) <then_branch = a () => (seq(int64[2]) p) { p = SequenceConstruct(x) },
                     else_branch = b () => (seq(int64[k]) q) { q = SequenceEmpty <dtype = 7> () }>
        }""",
        {},
        [{"x": np.array([1, 2]), "c": c} for c in (YES, NO)],
    ),
    "a sequence that a loop fills": (
        """g (float[4] x) => (seq(float[n]) y, int64 k) {
          e = SequenceEmpty () three = Constant <value = int64 {3}> () one = Constant <value_ints = [1]> ()
          zero = Constant <value_ints = [0]> ()
          y = Loop(three, , e) <body = b (int64 i, bool c, seq(float[j]) s) => (bool d, seq(float[j]) t)
              { d = Identity(c) n = Reshape(i, one) m = Add(n, one) p = Slice(x, zero, m)
                t = SequenceInsert(s, p) }>
          k = SequenceLength(y)
        }""",
        {},
        [{"x": floats(4)}],
    ),
    "a sequence that a loop fills as far as there is room": (
        """g (float[4] x, int64 m) => (seq(float[4]) y) {
          e = SequenceEmpty ()
          y = Loop(m, , e) <body = b (int64 i, bool c, seq(float[j]) s) => (bool d, seq(float[j]) t)
              { d = Identity(c) p = Neg(x) t = SequenceInsert(s, p) }>
        }""",
        {"capacity": {"y": (3, 4)}},
        [{"x": floats(4), "m": number(m)} for m in (0, 1, 3)],
    ),
    "a sum over a sequence": (
        """g (seq(float[A,B]) s) => (float y) {
          n = SequenceLength(s) zero = Constant <value = float {0.0}> ()
          y = Loop(n, , zero) <body = b (int64 i, bool c, float v) => (bool d, float w)
              { d = Identity(c) x = SequenceAt(s, i) r = ReduceSum <keepdims = 0> (x) w = Add(v, r) }>
        }""",
        {"capacity": {"s": (4, 4, 3)}},
        [{"s": s} for s in ([], THREE[:1], THREE)],
    ),
    "slices, one per element": (
        """g (seq(float[A,B]) s) => (float[n] y) {
          n = SequenceLength(s) yes = Constant <value = bool {1}> ()
          y = Loop(n, yes) <body = b (int64 i, bool c) => (bool d, float o)
              { d = Identity(c) x = SequenceAt(s, i) o = ReduceSum <keepdims = 0> (x) }>
        }""",
        {"capacity": {"s": (4, 4, 3)}},
        [{"s": s} for s in (THREE[:1], THREE)],
    ),
    "a body for each element": (
        """g (seq(float[A,B]) s, float[1,1] x) => (seq(float[A,B]) y, seq(int64[2]) z) {
          y, z = SequenceMap(s, x) <body = b (float[A,B] e, float[1,1] f) => (float[A,B] g, int64[2] h)
              { g = Mul(e, f) h = Shape(e) }>
        }""",
        {"capacity": {"s": (4, 4, 3)}},
        [{"s": s, "x": floats(1, 1)} for s in (THREE[:1], THREE)],
    ),
    "a body for each element of a list": (
        """g (float[2,3] x, float[1,3] z) => (float[3,3] y) {
          s = SequenceConstruct(x, z)
          t = SequenceMap(s) <body = b (float[A,B] e) => (float[A,B] f) { f = Exp(e) }>
          y = ConcatFromSequence <axis = 0> (t)
        }""",
        {},
        [{"x": floats(2, 3), "z": floats(1, 3)}],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_turns(name: str) -> None:
    text, options, feeds = CASES[name]
    check(parser.parse_model(HEAD + text), options, feeds)


BAD: dict[str, tuple[str, Feeds]] = {
    "more slices than there is room for": (
        "slices of as many turns as asked for",
        {"x": floats(2), "m": number(6)},
    ),
    "other than the model declares": ("slices that the model declares", {"x": floats(2), "m": number(2)}),
    "more than the model declares": ("slices that the model declares", {"x": floats(2), "m": number(4)}),
    "a value that outgrows its room": (
        "a carried value that grows as far as there is room",
        {"x": floats(1), "m": number(4)},
    ),
    "a sequence that outgrows its room": (
        "a sequence that a loop fills as far as there is room",
        {"x": floats(4), "m": number(4)},
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_outgrows_its_room(name: str) -> None:
    case, feed = BAD[name]
    text, options, _ = CASES[case]
    bundle = ingot.compile(parser.parse_model(HEAD + text), name="net", target="c99", **options)
    with pytest.raises(InputError, match="ERR_CAPACITY"):
        bundle.run(feed)


def test_a_scan_of_no_steps() -> None:
    """Neither oracle takes one."""
    text, options, _ = CASES["a scan of any length"]
    bundle = ingot.compile(parser.parse_model(HEAD + text), name="net", target="c99", **options)
    outputs = bundle.run({"x": floats(0, 2), "z": floats(2)})
    np.testing.assert_array_equal(outputs["y"], floats(2))
    assert outputs["s"].shape == (0, 2)
