"""A wheel of this tree, environments to install it in, and the probe run there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from tests.install.models import write_models

ROOT = Path(__file__).parent.parent.parent
PROBE = Path(__file__).parent / "probe.py"


def build_wheel(folder: Path) -> Path:
    """Build the wheel of the tree as it is, changed files included, into a folder; return its path."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    (wheel,) = folder.glob("*.whl")
    return wheel


def environment(folder: Path, python: str = sys.executable) -> Path:
    """Make an environment without pip or anything else; return its Python."""
    subprocess.run([python, "-m", "venv", "--clear", "--without-pip", str(folder)], check=True)
    return folder / "bin" / "python"


def install(python: Path, *what: str) -> None:
    """Install into an environment by the pip of ours."""
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", *what]
    subprocess.run(command, check=True)


def borrow_dependencies(python: Path) -> None:
    """Let an environment import what ours has installed, but not the tree that ours installed as editable.

    A path that a .pth file names has its own .pth files left alone, and the editable install is such a file.
    """
    ask = [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    site = Path(subprocess.run(ask, check=True, capture_output=True, text=True).stdout.strip())
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")


def prepare(folder: Path) -> Path:
    """Write what the probe reads into a folder; return it."""
    folder.mkdir(exist_ok=True)
    write_models(folder)
    shutil.copy(ROOT / "examples" / "digits" / "digits.onnx", folder)
    return folder


def probe(python: Path, what: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run one part of the probe, from its folder and without a PYTHONPATH."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    command = [str(python), str(PROBE), what, str(folder)]
    return subprocess.run(command, cwd=folder, env=clean, capture_output=True, text=True)
