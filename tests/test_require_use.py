"""Options that would do nothing to a model: one error each, and none where they do something."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ingot.driver import front
from ingot.errors import InputError
from ingot.options import Options
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


def test_encoded_weights_take_both(tmp_path: Path) -> None:
    model = tmp_path / "small.onnx"
    assert ingot("compress", MODEL, "--density", "0.5", "-o", model).exit_code == 0
    assert front(model, Options(huffman=True, activations="int8")).nodes
