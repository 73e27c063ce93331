"""--max-ram and --max-flash: a bundle that takes more is refused by name and number."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser
from typer.testing import CliRunner

import ingot
from ingot.cli import app
from ingot.errors import InputError
from tests.corpus import CASES

TEXT = """<ir_version: 10, opset_import: ["" : 21]>
g (float[1,64] x) => (float[1,4] y) 
{ wide = MatMul (x, first) bent = Tanh (wide) y = MatMul (bent, second) }"""


def model() -> onnx.ModelProto:
    made = parser.parse_model(TEXT)
    for name, shape in (("first", (64, 200)), ("second", (200, 4))):
        made.graph.initializer.append(numpy_helper.from_array(np.ones(shape, np.float32), name))
    return made


def test_what_fits_is_as_without_limits() -> None:
    plain = ingot.compile(model(), target="cortex-m4", name="net")
    sizes = plain.manifest["sizes"]
    limits = {"max_ram": sizes["arena_bytes"], "max_flash": sizes["flash_bytes"]}
    assert ingot.compile(model(), target="cortex-m4", name="net", **limits).object[:64] == plain.object[:64]


def test_what_does_not_fit_is_named() -> None:
    with pytest.raises(InputError) as caught:
        ingot.compile(model(), target="cortex-m4", name="net", max_ram=500)
    said = str(caught.value)
    assert "of RAM on armv7e-m" in said and "more than max_ram=500" in said and "'bent' (832 bytes)" in said
    with pytest.raises(InputError, match=r"more than max_flash=1,024: .* 'first' \(51,200 bytes\)"):
        ingot.compile(model(), target="cortex-m4", name="net", max_flash=1024)
    with pytest.raises(InputError, match=r"more than max_flash=20,000: "):
        ingot.compile(model(), target="cortex-m4", name="net", max_flash=20_000, weights="external")


def test_sizes_on_the_command_line(tmp_path: Path) -> None:
    onnx.save(model(), tmp_path / "net.onnx")
    words = ["compile", str(tmp_path / "net.onnx"), "-o", str(tmp_path / "b"), "--target", "cortex-m4"]
    assert CliRunner().invoke(app, [*words, "--max-ram", "1M", "--max-flash", "96K"]).exit_code == 0
    for word, message in (("0.5K", "write a number of bytes"), ("32K", "more than --max-flash 32,768")):
        result = CliRunner().invoke(app, [*words, "--max-flash", word])
        assert result.exit_code == 2 and message in result.output


def test_networks_of_bytes_are_not_told_to_quantize() -> None:
    """Their few floats are scales and biases."""
    (case,) = (c for c in CASES if c.name == "resnet_bytes")
    for limits in ({"max_flash": 1024}, {"flash": {"code": 1024}}):
        with pytest.raises(InputError, match="ingot compress prunes") as caught:
            ingot.compile(case.model, target="cortex-m4", name="net", **limits)
        assert "ingot quantize" not in str(caught.value)
    with pytest.raises(InputError, match="ingot quantize makes floats bytes"):
        ingot.compile(model(), target="cortex-m4", name="net", max_flash=1024)
