"""The README's first screen: every command, with the base install and with its extra; its C program."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.here import require_program
from tests.install.wheel import ROOT, borrow_dependencies, environment, install

README = (ROOT / "README.md").read_text()
COMMANDS = re.findall(r"^    \.venv/bin/ingot (.*?)(?: +# first: tools/bootstrap\.sh (\w+))?$", README, re.M)
EXTRAS = {"onnxruntime", "jinja2", "PIL", "h5py", "ai_edge_litert"}
WITHOUT = f"""
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {EXTRAS!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
"""


def tree(folder: Path) -> Path:
    """A folder in which the commands of a checkout find what they name."""
    (folder / "examples").symlink_to(ROOT / "examples")
    (folder / "build").mkdir()
    return folder


@pytest.fixture(scope="module", params=["base", "extras"])
def installed(
    request: pytest.FixtureRequest, wheel: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Path]:
    """The wheel in an environment of its own, without what extras install or with all of it."""
    folder = tree(tmp_path_factory.mktemp(request.param))
    python = environment(folder / ".venv")
    install(python, "--no-deps", str(wheel))
    borrow_dependencies(python)
    if request.param == "base":
        (site,) = (folder / ".venv" / "lib").glob("python*/site-packages")
        (site / "sitecustomize.py").write_text(WITHOUT)
    return request.param, folder


def test_the_screen_has_commands() -> None:
    assert [c.split()[0] for c, _ in COMMANDS] == ["compile", "verify", "inspect", "report", "bench"]


@pytest.mark.parametrize("command, extra", COMMANDS, ids=[c.split()[0] for c, _ in COMMANDS])
def test_a_command_does_what_it_says_of_its_extra(
    command: str, extra: str, installed: tuple[str, Path]
) -> None:
    which, folder = installed
    line = f".venv/bin/ingot {command}"
    done = subprocess.run(line.split(), cwd=folder, capture_output=True, text=True)
    assert "Traceback" not in done.stderr
    if extra and which == "base":
        assert done.returncode == 2 and "pip install" in done.stderr, done.stdout + done.stderr
    else:
        assert done.returncode == 0, done.stdout + done.stderr
        reference = "onnx's reference evaluator" in done.stderr
        assert reference == (which == "base" and command.startswith("verify")), done.stderr


def test_the_program_runs(installed: tuple[str, Path]) -> None:
    require_program("cc")
    folder = installed[1]
    (program,) = re.findall(r"^```c\n(.*?)^```", README, re.M | re.S)
    (line,) = re.findall(r"^    (cc .*)$", README, re.M)
    (folder / "main.c").write_text(program)
    compile_line = f".venv/bin/ingot {COMMANDS[0][0]}"
    subprocess.run(compile_line.split(), cwd=folder, check=True, capture_output=True)
    done = subprocess.run(["sh", "-c", line], cwd=folder, capture_output=True, text=True)
    assert re.fullmatch(r"this is a \d \(\d+\.\d %\)\n", done.stdout), done.stdout + done.stderr
