"""`ingot compress`: what it prints and writes, and how it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.compress.models import answers
from tests.test_cli import MODEL, ingot


def test_the_digits_model(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "small.onnx"
    result = ingot(
        "compress", MODEL, "--density", "conv*=60%,fc=0.3", "--bits", "conv=5", "-o", path, "--json"
    )
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report["bytes"] == path.stat().st_size < Path(MODEL).stat().st_size
    kept = [layer["kept"] / layer["weights"] for layer in report["layers"]]
    np.testing.assert_allclose(kept, [0.6, 0.6, 0.6, 0.3], atol=0.003)
    assert 4 < report["plain_ratio"] < report["ratio"] < 8
    (found,), (wanted,) = (answers(onnx.load(p)) for p in (path, MODEL))
    assert found.shape == wanted.shape and "total" in ingot("compress", MODEL, "-o", path).stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--density", "fc6=0.1"], "no such layer; it has 'conv1.weight' (conv: conv1), 'conv2.weight'"),
        (["--density", "conv1=0"], "above 0, at most 1"),
        (["--density", "conv1=x"], "above 0, at most 1"),
        (["--bits", "fc=9"], "codes have 1 to 8 bits; 32 leaves"),
        (["--gap-bits", "0"], "gaps have 1 to 8 bits"),
    ],
)
def test_refusals_are_one_line(arguments: list[str], message: str, tmp_path: Path) -> None:
    result = ingot("compress", MODEL, *arguments, "-o", tmp_path / "out.onnx")
    assert result.exit_code == 2, result.output
    assert message in result.stderr and result.stderr.count("\n") == 1
    assert not (tmp_path / "out.onnx").exists()


def test_the_closest_name_counts(tmp_path: Path) -> None:
    words = "dense=0.5,fc=0.1,0.2,conv?.weight=0.3,conv2.weight=0.4"
    result = ingot("compress", MODEL, "--density", words, "--form", "sparse", "-o", tmp_path / "x", "--json")
    kept = [layer["kept"] / layer["weights"] for layer in json.loads(result.stdout)["layers"]]
    np.testing.assert_allclose(kept, [0.3, 0.4, 0.3, 0.5], atol=0.01)
