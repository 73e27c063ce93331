"""Options that would do nothing to a model: one error each, and none where they do something."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from onnx import helper, parser

from ingot.driver import front, stages
from ingot.errors import InputError
from ingot.options import Options
from tests.encoded import one_node, random_codes
from tests.test_cli import MODEL, ingot


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"activations": "int8"},
            "and the model has none; to compute in int8, quantise the model first",
        ),
        (
            {"huffman": True},
            "--huffman is for weights that `ingot compress` encoded, and the model has none; ingot compress",
        ),
        ({"seed_input": True}, "--seed-input: no operator of the model draws numbers"),
        ({"capacity": {"scores": 64}}, "--capacity scores: its extents are known"),
        ({"string_bytes": 32}, "--string-bytes 32: the model has no strings"),
        ({"state": {"nothing": "scores"}}, "--state nothing=scores: the model has no output 'nothing'"),
    ],
    ids=lambda x: next(iter(x)) if isinstance(x, dict) else "",
)
def test_an_option_that_would_do_nothing(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as error:
        front(MODEL, Options(**options))
    assert message in str(error.value)


def test_a_capacity_of_nothing_is_said(tmp_path: Path) -> None:
    said = "--capacity does nothing: no value of the model has extents that only the data tells"
    assert said in ingot("inspect", MODEL, "--capacity", "64").stderr
    some = tmp_path / "some.onnx"
    text = '<ir_version: 10, opset_import: ["" : 21]> g (float[4] x) => (int64[1, N] y) { y = NonZero(x) }'
    some.write_bytes(parser.parse_model(text).SerializeToString())
    assert said not in ingot("inspect", some, "--capacity", "64").stderr


def test_encoded_weights_take_both(tmp_path: Path) -> None:
    model = tmp_path / "small.onnx"
    assert ingot("compress", MODEL, "--density", "0.5", "-o", model).exit_code == 0
    assert front(model, Options(huffman=True, activations="int8")).nodes
    with pytest.raises(InputError, match="--huffman is of entries, and --math exact multiplies zeros too"):
        front(model, Options(huffman=True, math="exact"))


@pytest.mark.parametrize("size, said", [(9, True), (300, False)])
def test_huffman_codes_that_save_nothing_are_said(
    size: int, said: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    codes = random_codes((size, size), 0.1)
    stages(one_node(node, {"x": (1, size)}, {}, {"w": codes}), Options(target="c99", huffman=True))
    assert ("--huffman does nothing" in capsys.readouterr().err) == said
