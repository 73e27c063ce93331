"""The command line: what it prints, where, and how it exits."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from typer.main import get_command
from typer.testing import CliRunner, Result

from ingot.cli import app
from ingot.cli.examples import EXAMPLES
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


def test_options_stand_in_panels_with_examples_below(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = ingot("compile", "--help").stdout
    for panel in ("How the model is read", "The target and the arithmetic", "Memory", "What is written"):
        assert f"─ {panel} ─" in text
    assert "ingot compile model.onnx --target cortex-m4 --max-ram 96K" in text
    assert all(len(line) <= 80 for line in text.splitlines())
    assert "compile [OPTIONS] [MODEL]" in text and "[required]" not in text
    assert "[required]" in ingot("audit", "--help").stdout


@pytest.mark.parametrize("command", EXAMPLES)
def test_examples_name_options_that_exist(command: str) -> None:
    """Each word that begins with dashes is an option of the command."""
    known = {
        opt
        for parameter in get_command(app).commands[command].params  # type: ignore[attr-defined]
        for opt in (*parameter.opts, *parameter.secondary_opts)
    }
    for example in EXAMPLES[command]:
        words = example.split()
        assert words[:2] == ["ingot", command]
        assert {w for w in words if w.startswith("-")} <= known, example


def test_every_command_has_an_example() -> None:
    assert set(get_command(app).commands) - {"import", "eie"} == set(EXAMPLES)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", MODEL, "--inputs", "image=x.npy"], "the elements of an input are --input image=x.npy"),
        (["run", MODEL, "--input", "image="], "--input image= names no file; write NAME=FILE.npy"),
        (["run", MODEL, "--input", "image:1x1x8x8"], "write NAME=FILE.npy; the model's inputs are: image"),
        (
            ["run", MODEL, "--input", "picture=x.npy"],
            "the model has no such input; the model's inputs are: image",
        ),
        (
            ["run", MODEL, "--inputs", "image:8x8"],
            "--inputs is for models of TFLite and Keras and TensorFlow;",
        ),
        (
            ["run", MODEL],
            "input 'image' is missing; add --input image=FILE.npy, an array of float32 of shape 1x1x8x8",
        ),
    ],
)
def test_input_and_inputs_are_told_apart(arguments: list[str], message: str) -> None:
    result = ingot(*arguments)
    assert result.exit_code == 2 and message in result.stderr


def test_names_that_are_others_in_c_are_said(tmp_path: Path) -> None:
    path = tmp_path / "m.onnxtxt"
    path.write_text(TINY.replace("float[N, 4] x", "float[N, 4] int").replace("Add(x", "Add(int"))
    result = ingot("compile", path, "-o", tmp_path / "out", "--name", "1st", "--target", "c99")
    assert result.exit_code == 0
    assert "the bundle is called" in result.stderr and "'int' is " in result.stderr


def test_costs_of_variants_and_of_weights_that_the_caller_brings(tmp_path: Path) -> None:
    external = ingot("compile", MODEL, "-o", tmp_path / "e", "--weights", "external", "--json")
    sizes = json.loads(external.stdout)["manifest"]["sizes"]
    shown = ingot("inspect", tmp_path / "e").stdout
    assert "no weights" in shown and f"{sizes['weights_bytes']:,} bytes" in shown
    several = ingot("compile", MODEL, "-o", tmp_path / "v", "--target", "x86-64+x86-64-v3")
    assert "digits on x86-64+x86-64-v3" in several.stdout and "of 2 variants" in several.stdout
    found = json.loads((tmp_path / "v" / "digits.json").read_text())["sizes"]
    assert found["code_bytes"] + found["weights_bytes"] <= found["flash_bytes"]
    alone = json.loads(ingot("compile", MODEL, "-o", tmp_path / "a", "--target", "x86-64", "--json").stdout)
    assert found["weights_bytes"] > alone["manifest"]["sizes"]["weights_bytes"]


def test_a_target_that_does_not_run_here_is_not_timed() -> None:
    result = ingot("bench", MODEL, "--target", "cortex-m4")
    assert result.exit_code == 2 and result.stderr.count("\n") == 1
    assert "armv7e-m cannot be timed on this machine" in result.stderr


def test_a_bundle_is_verified_with_its_model(bundle: Path) -> None:
    result = ingot("verify", bundle, "--model", MODEL)
    assert result.exit_code == 0 and "the bundle agrees with the oracle" in result.stderr
    alone = ingot("verify", bundle)
    assert alone.exit_code == 2 and "add --model with the file that it was compiled from" in alone.stderr


@pytest.mark.parametrize("command", [("verify",), ("bench", "--seconds", "0.1")], ids=["verify", "bench"])
def test_the_remedy_of_false_shapes_is_an_option_of_every_command(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    net = '<ir_version: 8, opset_import: ["" : 17]> net (float[2] x) => (float[2, 1] y) { y = Relu(x) }'
    onnx.save(onnx.parser.parse_model(net), tmp_path / "net.onnx")
    refused = ingot(*command, tmp_path / "net.onnx", "--target", "c99")
    assert refused.exit_code == 2 and "--infer-shapes" in refused.output
    found = ingot(*command, tmp_path / "net.onnx", "--target", "c99", "--infer-shapes")
    assert found.exit_code == 0, found.output


def test_a_bundle_in_the_place_of_a_model_is_called_one(bundle: Path, tmp_path: Path) -> None:
    package = tmp_path / "package"
    assert ingot("compile", MODEL, "--package", "cmake", "-o", package).exit_code == 0
    for folder in (bundle, package):
        result = ingot("bench", folder)
        assert result.exit_code == 2
        assert "is a bundle, which holds no model; name what it was compiled from" in result.stderr


def test_lists_are_pages_that_one_can_search(tmp_path: Path) -> None:
    assert ingot("ops", "--html", tmp_path / "ops.html").exit_code == 0
    page = (tmp_path / "ops.html").read_text()
    assert page.count("<tr>") == len(json.loads(ingot("ops", "--json").stdout)) + 1
    assert '<input type="search"' in page and "<td>Conv</td>" in page
    assert ingot("targets", "--html", tmp_path / "targets.html").exit_code == 0
    assert "stm32f4" in (tmp_path / "targets.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--emit", "shared", "--target", "stm32f4"],
            "has no system that loads shared libraries; --emit obj",
        ),
        (["--target", "cortex-m44"], "did you mean 'cortex-m4', which is armv7e-m?"),
        (["--target", "esp8266"], "no target 'esp8266': its core is an Xtensa"),
        (["--target", "z80"], "unknown target 'z80'; ingot targets lists them"),  # no near chip is it
    ],
)
def test_what_cannot_be_made_is_said(arguments: list[str], message: str) -> None:
    result = ingot("compile", MODEL, *arguments)
    assert result.exit_code == 2 and message in result.stderr


def test_dimensions_without_a_name_and_without_elements(tmp_path: Path) -> None:
    """As sklearn's converter writes them; a batch of 0 is valid, and said."""
    path = tmp_path / "m.onnxtxt"
    path.write_text(TINY.replace("float[N, 4]", "float[?, 4]"))
    free = ingot("compile", path, "-o", tmp_path / "a", "--target", "c99")
    assert free.exit_code == 0 and "batch dimension x:0 is 1; --define x:0=... changes it" in free.stderr
    named = ingot("compile", path, "-o", tmp_path / "b", "--target", "c99", "--define", "x:0=3", "--json")
    assert json.loads(named.stdout)["manifest"]["inputs"][0]["shape"] == [3, 4]
    none = ingot("compile", path, "-o", tmp_path / "c", "--target", "c99", "--define", "x:0=0")
    assert none.exit_code == 0 and "note: --define x:0=0 leaves tensors without elements" in none.stderr


def test_dimensions_that_are_all_called_by_a_question_mark(tmp_path: Path) -> None:
    """As PaddlePaddle's converter writes them: they are different dimensions."""
    head, body = TINY.splitlines()[0], "y = MaxPool<kernel_shape=[2, 2]>(x)"
    model = onnx.parser.parse_model(f"{head} g (float[B, 3, H, W] x) => (float[B, 3, h, w] y) {{ {body} }}")
    for dim in list(model.graph.input[0].type.tensor_type.shape.dim)[2:]:
        dim.dim_param = "?"
    onnx.save(model, tmp_path / "m.onnx")
    ran = ingot("compile", tmp_path / "m.onnx", "-o", tmp_path / "a", "--target", "c99")
    assert ran.exit_code == 2 and "--define x:2=... --define x:3=..." in ran.stderr
    sizes = ["--define", "x:2=8", "--define", "x:3=6"]
    ran = ingot("compile", tmp_path / "m.onnx", "-o", tmp_path / "a", "--target", "c99", *sizes, "--json")
    assert json.loads(ran.stdout)["manifest"]["inputs"][0]["shape"] == [1, 3, 8, 6]


def test_long_attributes_are_cut(tmp_path: Path) -> None:
    keys = ", ".join(map(str, range(500)))
    values = ", ".join(f"{n}.5" for n in range(500))
    path = tmp_path / "m.onnxtxt"
    path.write_text(
        '<ir_version: 10, opset_import: ["" : 21, "ai.onnx.ml" : 4]>\nm (int64[2] x) => (float[2] y) '
        f"{{ y = ai.onnx.ml.LabelEncoder<keys_int64s=[{keys}], values_floats=[{values}]>(x) }}"
    )
    text = ingot("inspect", path).stdout
    assert "keys_int64s=[0, 1, 2" in text and "15, ... 500 in all]" in text
    assert max(map(len, text.splitlines())) < 400
