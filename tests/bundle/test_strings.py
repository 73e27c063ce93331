"""Strings at the edge of a bundle: Python's in every form, C's as chars, and what does not fit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
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
    with pytest.raises(InputError, match="a capacity lies between"):
        ingot.compile(model(), string_bytes=1)


def test_onnx_backend() -> None:
    both, same = prepare(model()).run([np.array(["cat", "b", ""], object)])
    assert both.tolist() == ["cat", "b", "", "cat", "a?", ""]
    assert same.tolist() == [True, False, True]
