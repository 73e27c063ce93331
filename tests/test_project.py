"""`ingot.toml`: read where no model is typed, checked, and overridden by what is typed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import msgspec
import numpy as np
import pytest
from typer.main import get_command

from ingot.cli import app
from ingot.cli.project import COMMON, FILE, Project, Quantize, read_project, typed
from tests.test_cli import MODEL, TINY, ingot


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    shutil.copy(MODEL, tmp_path / "digits.onnx")
    return tmp_path


def manifest(*arguments: str) -> dict[str, object]:
    result = ingot("compile", *arguments, "--json")
    assert result.exit_code == 0, result.output
    found: dict[str, object] = json.loads(result.stdout)["manifest"]
    return found


def test_init_writes_what_compile_reads(folder: Path) -> None:
    (folder / "tiny.onnxtxt").write_text(TINY)
    assert ingot("init", "tiny.onnxtxt", "--target", "c99").exit_code == 0
    assert read_project(FILE).define == {"N": 1}
    made = manifest("--name", "other")
    assert (made["target"], made["name"]) == ("c99", "other")
    again = ingot("init", "tiny.onnxtxt")
    assert again.exit_code == 2 and "ingot.toml exists; edit it, or replace it with --force" in again.stderr
    assert ingot("init", "tiny.onnxtxt", "--force", "--target", "z80").exit_code == 2
    FILE.unlink()
    FILE.symlink_to("nowhere")
    assert ingot("init", "tiny.onnxtxt").exit_code == 2 and FILE.is_symlink()


def test_what_is_typed_goes_before_the_file() -> None:
    FILE.write_text(
        'model = "digits.onnx"\ntarget = "c99"\nemit = ["c", "obj"]\nname = "net"\nmath = "exact"\n'
    )
    made = manifest("--math", "standard", "-o", "out")
    assert (made["target"], made["name"]) == ("c99", "net")
    options = made["options"]
    assert isinstance(options, dict) and options["math"] == "standard" and options["emit"] == ["c", "obj"]
    assert manifest("digits.onnx", "-o", "plain")["name"] == "digits"  # a model of its own: no project


def test_models_that_are_named_are_the_only_ones() -> None:
    np.savez("x.npz", image=np.zeros((2, 1, 8, 8), np.float32), labels=np.zeros(2, np.int64))
    FILE.write_text('model = "digits.onnx"\n')
    shutil.copy("digits.onnx", "other.onnx")
    named = ingot("evaluate", "other.onnx", "--inputs", "x.npz")
    assert named.exit_code == 0 and "other" in named.stdout and "digits" not in named.stdout
    assert "digits" in ingot("evaluate", "--inputs", "x.npz").stdout


def test_every_command_that_compiles_reads_it() -> None:
    FILE.write_text('model = "digits.onnx"\ntarget = "c99"\nname = "net"\noutput = "dir"\n')
    assert "on c99" in ingot("verify").stdout
    assert "conv1" in ingot("inspect", "--stage", "plan").stdout
    assert ingot("report", "--no-time", "--no-assembly").exit_code == 0
    assert Path("report.html").is_file()  # `output` is where compile writes


def test_several_models_are_compiled_together() -> None:
    FILE.write_text('model = "digits.onnx"\nwith = ["other.onnx"]\nname = "both"\ntarget = "c99"\n')
    shutil.copy("digits.onnx", "other.onnx")
    assert ingot("compile").exit_code == 0
    assert {"both.c", "digits.h", "other.h"} <= {p.name for p in Path("both").iterdir()}
    assert ingot("verify").exit_code == 0  # of the project's first model
    missing = ingot("compile", "-o", "again", "--with", "third.onnx")
    assert missing.exit_code == 2 and "third.onnx" in missing.stderr  # what is typed goes before


def test_sizes_and_tables_are_as_typed() -> None:
    text = """model = "m"
max-ram = "96K"
memory = {tcm = "64K", sram = 262144}
[define]
N = "1..8"
M = 4
[fix]
sr = 16000
mask = [[true, false]]
[capacity]
"" = 64
y = "8x64"
[quantize]
profile = "p.yaml"
keep-float = ["fc", "Softmax"]
per-tensor = true
"""
    FILE.write_text(text)
    project = read_project(FILE)
    said = typed(project, "compile")
    assert said["memory"] == "tcm:64K,sram:262144" and said["max-ram"] == "96K"
    assert said["define"] == ["N=1..8", "M=4"] and said["fix"] == ["sr=16000", "mask=[[true,false]]"]
    assert (
        said["capacity"] == ["64", "y=8x64"]
        and said["keep-float"] == ["fc", "Softmax"]
        and said["per-tensor"]
    )
    assert set(typed(project, "verify")) == {"define", "fix", "capacity"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            'model = "m"\ntaget = "c99"',
            "'taget' is not an option of a project; did you mean 'target'?",
        ),
        ('model = "m"\nmax_ram = 3', "'max_ram' is not an option of a project; did you mean 'max-ram'?"),
        (
            '[quantize]\nscheme = "x"',
            "[quantize] 'scheme' is not an option of a project; did you mean 'schema'?",
        ),
        ('model = "m"\nmath = "fast"', "ingot.toml: math: invalid enum value 'fast'"),
        ("model = 3", "ingot.toml: model: expected `str | null`, got `int`"),
        ("model =", "ingot.toml is not valid TOML"),
        (f"model = {'9' * 5000}", "ingot.toml is not valid TOML: Exceeds the limit"),
        (f"{'a.' * 20_000}a = 1", "ingot.toml is not valid TOML: a name has more than 64 parts"),
        ('target = "c99"', 'ingot.toml names no model; add model = "FILE" at its top'),
    ],
)
def test_a_wrong_file_is_one_clear_error(text: str, message: str) -> None:
    FILE.write_text(text)
    result = ingot("compile")
    assert result.exit_code == 2 and message in result.stderr and result.stderr.count("\n") == 1


def test_the_keys_are_options_of_the_commands() -> None:
    """No key does nothing: `compile` has all of them."""
    compile_ = get_command(app).commands["compile"]  # type: ignore[attr-defined]
    flags = {opt.removeprefix("--") for p in compile_.params for opt in p.opts}
    keys = {f.encode_name for schema in (Project, Quantize) for f in msgspec.structs.fields(schema)}
    assert keys - {"model", "quantize"} <= flags and keys >= COMMON


def test_without_a_file_a_model_is_asked_for() -> None:
    result = ingot("compile")
    assert result.exit_code == 2 and "there is no MODEL; name one, or write an ingot.toml" in result.stderr


def test_what_is_no_model_is_not_taken_from_the_file() -> None:
    FILE.write_text('model = "model.onnx"\n')
    assert ingot("targets").exit_code == 0
    assert "exists; edit it" in ingot("init").stderr
