"""Building and running C programs around bundles, with gcc and with the pinned clang."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from ingot.targets.process import zig_home

STRICT = ("-Wall", "-Wextra", "-Werror", "-pedantic")
_SYSTEM = ("/usr/include", "/usr/include/x86_64-linux-gnu", "/usr/include/aarch64-linux-gnu")
CLANG = (
    str(zig_home() / "zig"),
    *("clang", "-target", f"{os.uname().machine}-linux-gnu", "-nostdinc"),
    *("-isystem", str(zig_home() / "lib" / "include")),
    *(word for path in _SYSTEM if Path(path).is_dir() for word in ("-isystem", path)),
)
COMPILERS: dict[str, tuple[str, ...]] = {"gcc": ("gcc",), "clang": CLANG}


def need(command: str) -> None:
    """The tests of C need a C compiler: a missing one is a failure, not a skip."""
    assert shutil.which(command), f"{command} is not installed: apt-get install {command}"


def write(folder: Path, files: Mapping[str, bytes | str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)


def run(command: Sequence[str], folder: Path, status: int = 0) -> str:
    """Standard output; both streams are shown where the exit code is another."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    shown = f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}"
    assert done.returncode == status, f"exit code {done.returncode}, expected {status}: {shown}"
    return done.stdout


def compile_c(kind: str, folder: Path, source: str, *flags: str) -> str:
    """An object beside the source, named so that two compilers do not meet."""
    output = f"{Path(source).stem}.{kind}.o"
    run([*COMPILERS[kind], *flags, "-c", source, "-o", output], folder)
    return output


def link(folder: Path, objects: Sequence[str], *flags: str) -> str:
    run(["gcc", *objects, "-o", "program", *flags], folder)
    return "./program"
