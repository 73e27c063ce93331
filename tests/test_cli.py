"""The command line: what it prints, where, and how it exits."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from ingot.cli import app
from ingot.targets.records import FAMILIES

DIGITS = Path(__file__).parent.parent / "examples" / "digits"
MODEL = str(DIGITS / "digits.onnx")
TINY = """<ir_version: 10, opset_import: ["" : 21]>
tiny (float[N, 4] x, float[N, 4] b) => (float[N, 4] y) { s = Add(x, b) y = Relu(s) }"""


def ingot(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the compiled digits model, with a file in it that is not ours."""
    directory = tmp_path_factory.mktemp("bundle") / "out"
    directory.mkdir()
    (directory / "foreign.txt").write_text("mine")
    result = ingot("compile", MODEL, "-o", directory, "--name", "net", "--json")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report["manifest"]["name"] == "net"
    assert set(report["files"]) <= {p.name for p in directory.iterdir()}
    return directory


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.onnxtxt"
    path.write_text(TINY)
    return path


def test_compile_leaves_foreign_files_alone(bundle: Path) -> None:
    assert (bundle / "foreign.txt").read_text() == "mine"
    assert not list(bundle.glob(".ingot-*"))


def test_a_name_of_any_length_makes_no_long_message(tmp_path: Path) -> None:
    path = tmp_path / "m.onnxtxt"
    path.write_text(
        TINY.replace("s = Add", f"s = own.{'o' * 70_000}").replace('"" : 21', '"" : 21, "own" : 1')
    )
    result = ingot("compile", path, "-o", tmp_path / "out", "--define", "N=1")
    assert result.exit_code == 2 and not (tmp_path / "out").exists()
    assert result.stderr.count("\n") == 1 and len(result.stderr) < 1600
    assert "unsupported operators: own.ooo" in result.stderr and "lists what is supported" in result.stderr


def test_run_a_bundle_and_the_model(bundle: Path, tmp_path: Path) -> None:
    with np.load(DIGITS / "test_images.npz") as tests:
        image, scores = tests["images"][:1].astype(np.float32), tests["scores"][:1]
    np.save(tmp_path / "image.npy", image)
    given = f"image={tmp_path / 'image.npy'}"
    result = ingot("run", bundle, "--input", given, "--output", tmp_path / "out", "--json")
    assert result.exit_code == 0, result.output
    (found,) = json.loads(result.stdout)
    np.testing.assert_allclose(found["values"], scores, atol=1e-5)
    np.testing.assert_allclose(np.load(found["file"]), scores, atol=1e-5)
    assert "scores" in ingot("run", MODEL, "--input", given).stdout


def test_a_dynamic_dimension_is_defined_on_the_command_line(tiny: Path, tmp_path: Path) -> None:
    x = np.array([[-1, 2, -3, 4]], np.float32)
    np.save(tmp_path / "x.npy", x)
    inputs = [word for n in "xb" for word in ("--input", f"{n}={tmp_path / 'x.npy'}")]
    result = ingot("run", tiny, "--define", "N=1", *inputs, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)[0]["values"] == [[0, 4, 0, 8]]
    for _ in range(2):  # every command says it
        free = ingot("run", tiny, *inputs)
        assert free.exit_code == 0
        assert "note: batch dimension N is 1; --define N=... changes it" in free.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["compile", "nothere.onnx"], "nothere.onnx"),
        (["compile", MODEL, "--define", "N"], "SYMBOL=N"),
        (["compile", MODEL, "--define", "N=1..x"], "LO..HI"),
        (["compile", MODEL, "--define", "N=3"], "no such dynamic dimension"),
        (["compile", MODEL, "--emit", "c,foo"], "foo"),
        (["compile", MODEL, "--target", "z80"], "z80"),
        (["compile", MODEL, "--rename", "a"], "OLD=NEW"),
        (["compile", MODEL, "--cflags", "'"], "--cflags"),
        (["compile", MODEL, "-o", MODEL], "not a directory"),
        (["run", MODEL], "image"),
        (["run", MODEL, "--input", "other=x.npy"], "the model's inputs are: image"),
        (["run", MODEL, "--input", "image=x.npy"], "x.npy"),
        (["run", MODEL, "--input", f"image={MODEL}"], "not a .npy file"),
        (["run", str(DIGITS)], "holds no bundle"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments: list[str], message: str) -> None:
    result = ingot(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stderr.startswith("ingot: error: ") and result.stderr.count("\n") == 1
    assert message in result.stderr and not result.stdout


def test_a_compiler_that_is_missing_is_exit_code_3(tmp_path: Path) -> None:
    result = ingot("compile", MODEL, "-o", tmp_path / "out", "--cc", "no-such-compiler")
    assert result.exit_code == 3, result.output
    assert "no-such-compiler" in result.stderr and not (tmp_path / "out").exists()


def test_names_cannot_write_to_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "hostile.onnxtxt"
    path.write_text(TINY.replace("Relu", '"\x1b[2J[red]"'))
    result = ingot("compile", path, "--define", "N=1")
    assert result.exit_code == 2 and "\x1b" not in result.output


def test_targets_and_operators_are_listed() -> None:
    targets = json.loads(ingot("targets", "--json").stdout)
    assert sum(t["native"] for t in targets) == 1 and {"c99", "aarch64"} <= {t["name"] for t in targets}
    operators = json.loads(ingot("ops", "--json").stdout)
    assert {"Conv", "Relu"} <= {o["name"] for o in operators}
    assert "Conv" in ingot("ops").stdout and "aarch64" in ingot("targets").stdout
    known = json.loads(ingot("targets", "stm32f4", "--json").stdout)
    assert known["name"] == "armv7e-m" and "nrf52840" in known["aliases"]


def test_the_list_of_targets_fits_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ingot.cli.show.WIDE", 80)
    shown = ingot("targets").stdout
    assert all(len(line) <= 80 for line in shown.splitlines())
    assert all(family in shown and t.name in shown for family, row in FAMILIES.items() for t in row)


def test_the_program_starts_at_once() -> None:
    """As a process of its own; onnx and numpy are not loaded for a help text."""
    code = "import sys, ingot.cli as c; sys.argv[1:] = ['-h']\ntry: c.main()\nfinally: print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    assert "typer" in loaded and not {"numpy", "onnx", "ingot.driver"} & set(loaded)
    version = subprocess.run(
        [sys.executable, "-m", "ingot", "--version"], capture_output=True, text=True, check=True
    )
    assert version.stdout == "ingot 0.1.0\n"
