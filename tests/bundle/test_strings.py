"""Strings at the edge of a bundle: Python's in every form, C's as chars, and what does not fit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, parser

import ingot
from ingot.errors import InputError
from ingot.onnx_backend import prepare

from .build import STRICT, compile_c, link, run, write

WORDS = ["", "dog", "Größe", 'a"?%s\\']
TARGETS = ("c99", "x86-64-v3", "s390x")
PROGRAM = """
#include <stdio.h>
#include <string.h>
#include "net.h"

int main(void) {
    char x[3][NET_STRING_BYTES], both[6][NET_STRING_BYTES];
    unsigned char same[NET_SAME_COUNT];
    memset(x, 'z', sizeof x); /* what stands behind a zero does not count */
    strcpy(x[0], "cat");
    strcpy(x[1], "dog");
    strcpy(x[2], "");
    if (net(*x, *both, same, NULL) != NET_OK) return 1;
    for (int i = 0; i < 3; i++) printf("%d", same[i]);
    for (int i = 0; i < 6; i++) printf(" <%s>", both[i]);
    return 0;
}
"""


def model() -> onnx.ModelProto:
    made = parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 21]>
        g (string[3] x) => (string[6] both, bool[3] same)
        { both = Concat<axis = 0>(x, w) same = Equal(x, w) }"""
    )
    made.graph.initializer.append(helper.make_tensor("w", 8, [3], [b"cat", b"a?", b""]))
    return made


@pytest.mark.parametrize("target", TARGETS)
def test_every_form_that_numpy_has(target: str) -> None:
    bundle = ingot.compile(model(), target=target)
    for x in (np.array(WORDS[:3]), np.array(WORDS[:3], object), np.array([w.encode() for w in WORDS[:3]])):
        found = bundle.run({"x": x})
        assert found["both"].dtype == object
        assert found["both"].tolist() == [*WORDS[:3], "cat", "a?", ""]
        assert found["same"].tolist() == [False, False, False]


@pytest.mark.parametrize("api", ["direct", "static", "dynamic", "argument"])
def test_golden_vectors(api: str, tmp_path: Path) -> None:
    ingot.compile(model(), name="net", api=api, emit=("c", "obj", "weights-txt", "main")).save(tmp_path)
    assert run(["make", "-s", "run"], tmp_path).endswith("OK\n")


@pytest.mark.parametrize("kind", ["gcc", "clang"])
def test_chars_of_a_c_program(kind: str, tmp_path: Path) -> None:
    ingot.compile(model(), name="net").save(tmp_path)
    write(tmp_path, {"main.c": PROGRAM})
    main = compile_c(kind, tmp_path, "main.c", "-std=c99", *STRICT)
    assert run([link(tmp_path, [main, "net.o"])], tmp_path) == "101 <cat> <dog> <> <cat> <a?> <>"


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (["x" * 64, "", ""], "takes 64 bytes and the zero at its end"),
        (["a\0b", "", ""], "holds a zero"),
        ([1, "", ""], "1 is not a string"),
        ([b"\xff", "", ""], "is not UTF-8"),
        (["", ""], "the model takes"),
    ],
)
def test_what_no_string_can_be(values: list[object], words: str) -> None:
    bundle = ingot.compile(model(), target="c99")
    with pytest.raises(InputError, match=words):
        bundle.run({"x": np.array(values, object)})
    with pytest.raises(InputError, match="the model takes"):
        bundle.run({"x": np.zeros(3, np.float32)})


def test_capacity_is_an_option_and_grows_with_constants() -> None:
    assert ingot.compile(model(), string_bytes=8).manifest["inputs"][0]["dtype"] == "string8"
    long = model()
    long.graph.initializer[0].string_data[1] = b"y" * 300
    bundle = ingot.compile(long)
    assert bundle.manifest["inputs"][0]["dtype"] == "string304"
    assert bundle.run({"x": np.array(["x" * 303, "", ""])})["both"].tolist() == [
        *("x" * 303, "", "", "cat"),
        *("y" * 300, ""),
    ]
    with pytest.raises(InputError, match="a capacity must be between"):
        ingot.compile(model(), string_bytes=1)


def test_onnx_backend() -> None:
    both, same = prepare(model()).run([np.array(["cat", "b", ""], object)])
    assert both.tolist() == ["cat", "b", "", "cat", "a?", ""]
    assert same.tolist() == [True, False, True]


CONTROL = {
    "loop": """(string[2] x) => (string[2] y, string[4,2] ys) {
        k = Constant<value_int = 4>() t = Constant<value = bool {1}>() s = Constant<value_string = "-">()
        y, ys = Loop(k, t, x)<body = b (int64 i, bool c, string[2] p) => (bool d, string[2] q, string[2] r)
        { d = Identity(c) q = StringConcat(p, s) r = Identity(p) }> }""",
    "if": """(string[2] x) => (string[2] y) {
        e = Constant<value_string = "a">() i = Constant<value_int = 0>() f = Gather(x, i) c = Equal(f, e)
        y = If(c)<then_branch = t () => (string[2] p) { p = Identity(x) },
        else_branch = o () => (string[2] q) { q = StringConcat(x, x) }> }""",
    "views": """(string[2] x) => (string[2] y, string[2,1] z, string[2] w) {
        y = Identity(x) z = Reshape(y, s) s = Constant<value_ints = [2, 1]>() w = StringConcat(y, y) }""",
}


@pytest.mark.parametrize("which", CONTROL)
def test_control_flow_and_views(which: str) -> None:
    made = parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> g {CONTROL[which]}')
    bundle, session = ingot.compile(made), onnxruntime.InferenceSession(made.SerializeToString())
    for x in (np.array(["a", "é"], object), np.array(["", "b"], object)):
        found = bundle.run({"x": x})
        for array, wanted in zip(found.values(), session.run(None, {"x": x}), strict=True):
            np.testing.assert_array_equal(array, wanted)


@pytest.mark.parametrize("count", [0, 1, 3, 8])
def test_bounded_number_of_strings(count: int) -> None:
    """What is left is at least one string, and at most as many as came in."""
    made = parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 21]> g (string[N] x) => (string[M] y, string[K] z)
        { y = StringNormalizer<stopwords = ["1"], is_case_sensitive = 1>(x)
          e = Constant<value_string = "1">() c = Equal(x, e) z = Compress(x, c) }"""
    )
    words = [str(i % 3) for i in range(count)]
    found = ingot.compile(made, define={"N": (0, 8)}).run({"x": np.array(words, object)})
    assert found["y"].tolist() == [w for w in words if w != "1"] or [""]
    assert found["z"].tolist() == [w for w in words if w == "1"]


def test_what_no_bundle_can_take() -> None:
    """A concatenation that does not fit, a text that is no number: an error of the bundle, not a part."""
    twice = parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 21]> g (string[1] x) => (string[1] y, int8[1] n)
        { y = StringConcat(x, x) n = Cast<to = 3>(y) }"""
    )
    bundle = ingot.compile(twice, string_bytes=8)
    assert bundle.run({"x": np.array(["1"])})["n"].tolist() == [11]
    for word, error in (("1234", "ERR_CAPACITY"), ("13", "ERR_INDEX"), ("-", "ERR_INDEX"), ("", "ERR_INDEX")):
        with pytest.raises(InputError, match=error):
            bundle.run({"x": np.array([word])})


def test_pattern_that_explodes() -> None:
    made = parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 21]> g (string[1] x) => (bool[1] y)
        { y = RegexFullMatch<pattern = "(a|b)*a(a|b){20}">(x) }"""
    )
    with pytest.raises(InputError, match="needs more than 4096 states"):
        ingot.compile(made)


def test_a_sequence_of_single_strings() -> None:
    made = parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 21]>
        g (string a, string b) => (seq(string) y) { y = SequenceConstruct(a, b) }"""
    )
    found = ingot.compile(made, target="c99").run({"a": np.array("cat", object), "b": np.array("", object)})
    assert [(v.dtype, v.shape, v.item()) for v in found["y"]] == [(object, (), "cat"), (object, (), "")]
