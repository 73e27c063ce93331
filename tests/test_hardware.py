"""The accelerator's Verilog as far as it needs no other tools: the host's words, machines that cannot be.

`make rtl` runs the hardware itself.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from ingot.cli import app
from ingot.eie import fixed
from ingot.eie.columns import encode
from ingot.eie.machine import Machine
from ingot.eie.rtl import host
from ingot.eie.rtl.verilog import verilog
from ingot.errors import InputError

MACHINE = Machine(pes=4, matrix_bytes=256, pointer_bytes=64, registers=8)
ARITHMETIC = fixed.Arithmetic(np.arange(16), 16, 8, 8, 8)
DIGITS = str(Path(__file__).parent.parent / "examples" / "digits" / "digits.onnx")
HAS_AMARANTH = importlib.util.find_spec("amaranth") is not None


def test_what_a_host_writes_is_the_layer() -> None:
    rng = np.random.default_rng(0)
    codes = (rng.integers(1, 16, (13, 9)) * (rng.random((13, 9)) < 0.6)).astype(np.uint8)
    columns, activations = encode(codes, MACHINE.pes), rng.integers(-9, 9, 9)
    written = list(host.layer(columns, ARITHMETIC, activations, MACHINE, rng.integers(0, 9, 13)))
    found = np.zeros_like(codes)
    for pe in range(MACHINE.pes):
        own = {(c.space, c.address): c.data for c in written if c.pe == pe}
        for column in range(9):
            begin, end = (own[host.Space.POINTER, column + n] for n in range(2))
            row = -1
            for at in range(begin, end):
                entry = own[host.Space.MATRIX, at // MACHINE.line] >> 8 * (at % MACHINE.line) & 0xFF
                row += (entry >> 4) + 1
                if entry & 15:
                    found[row * MACHINE.pes + pe, column] = entry & 15
    np.testing.assert_array_equal(found, codes)
    sources = [c.data for c in written if c.space is host.Space.SOURCE]
    assert sources == [*activations.tolist(), 0, 0, 0]
    last = written[-1]
    assert (last.space, last.address) == (host.Space.CONTROL, host.Control.START)


def test_what_does_not_fit_the_hardware() -> None:
    few, many = (encode(np.ones(shape, np.uint8), 4) for shape in ((4, 4), (33, 4)))
    wide, full = (encode(np.ones(shape, np.uint8), 4) for shape in ((4, 32), (32, 31)))
    for columns, arithmetic, message in (
        (many, ARITHMETIC, "33 accumulators, where the hardware has room for 32"),
        (wide, ARITHMETIC, "33 pointers, where the hardware has room for 32"),
        (few, fixed.Arithmetic(np.arange(16), 16, 8, 8, 17), "shifts products to the right only"),
    ):
        with pytest.raises(InputError, match=message):
            list(host.loading(columns, arithmetic, MACHINE))
    small = Machine(pes=4, matrix_bytes=200, pointer_bytes=64, registers=8)
    with pytest.raises(InputError, match="248 entries of the matrix, where the hardware has room for 200"):
        list(host.loading(full, ARITHMETIC, small))


@pytest.mark.parametrize(
    "machine, message",
    [
        (Machine(sram_width=128), "128 bits cannot be built"),
        (Machine(sram_width=24), "24 bits cannot be built"),
        (Machine(pes=1), "at least two PEs"),
    ],
)
def test_machines_that_cannot_be_built(machine: Machine, message: str) -> None:
    with pytest.raises(InputError, match=message):
        verilog(machine)


def test_the_command_line(tmp_path: Path) -> None:
    """Writes the files, or says what to install."""
    said = CliRunner().invoke(app, ["eie", "rtl", "-o", str(tmp_path / "made"), "--pes", "4"])
    if HAS_AMARANTH:
        assert said.exit_code == 0
        assert "module eie_array(" in (tmp_path / "made" / "eie_array.v").read_text()
        assert (tmp_path / "made" / "testbench.cpp").is_file()
    else:
        assert said.exit_code == 2 and not (tmp_path / "made").exists()


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where files go; they are short, and made without Amaranth. There is neither Verilator nor Yosys."""
    monkeypatch.setattr("ingot.eie.rtl.verilog.verilog", lambda machine: {"a.v": "a", "b.v": "b"})
    monkeypatch.setattr("shutil.which", lambda name: None)
    return tmp_path / "made"


def _refused(made: Path, *words: str) -> str:
    said = CliRunner().invoke(app, ["eie", "rtl", "-o", str(made), "--pes", "2", *words])
    assert said.exit_code == 2, said.output
    return " ".join(said.output.split())


@pytest.mark.parametrize(
    "words, message",
    [
        (["--synthesize"], "cells are counted by Yosys"),
        (["--model", "no.onnx"], "cannot read 'no.onnx'"),
        (["--model", DIGITS], "nothing of digits.onnx runs on the accelerator"),
        (["--model", DIGITS, "--define", "N=2"], "--define N: no such dynamic dimension"),
        (["--model", DIGITS, "--fix", "q=1"], "--fix q: the model has no such input"),
        (["--model", DIGITS, "--capacity", "q=1"], "--capacity q"),
    ],
)
def test_a_refused_run_writes_no_verilog(made: Path, words: list[str], message: str) -> None:
    assert message in _refused(made, *words)
    assert not made.exists()


@pytest.mark.parametrize(
    "words", [("--input", "x=x.npy"), ("--define", "N=2"), ("--fix", "x=1"), ("--capacity", "4")]
)
def test_options_of_a_model_need_one(made: Path, words: tuple[str, str]) -> None:
    assert f"{words[0]} is of a model" in _refused(made, *words)
    assert not made.exists()


@pytest.mark.parametrize("words", [("sweep", "--svg"), ("paper", "-o")])
def test_a_sweep_asks_for_its_place_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, str]
) -> None:
    """A sweep takes minutes; that its picture finds no place is known before."""
    for entry in ("ingot.eie.sweep.sweep", "ingot.eie.paper.evaluate"):
        monkeypatch.setattr(entry, lambda *_: pytest.fail("computed before its place was known"))
    (tmp_path / "eie.html").mkdir()
    place = tmp_path if words[0] == "paper" else tmp_path / "eie.html"
    said = CliRunner().invoke(app, ["eie", *words, str(place)])
    assert said.exit_code == 2 and "Is a directory" in said.output, said.output
