"""Running one program in a private directory, and remembering what it made.

In: a command with relative file names and its input files. Out: the bytes of one output file. Called by
`toolchain.py`, `audit/listing.py` and `audit/features.py`. No shell, a minimal environment, names that
never change: equal inputs give equal bytes.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import os
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from ..errors import InputError, ToolchainError
from ..files import write_file

Content = str | bytes | Path
"""Text, bytes, or a file to be seen under another name without copying it."""


@cache
def zig_home() -> Path:
    """Directory of the `ziglang` wheel, which holds an unmodified clang, lld and ar."""
    spec = importlib.util.find_spec("ziglang")
    if spec is None or spec.origin is None:
        raise ToolchainError("the C compiler is missing: pip install ziglang")
    return Path(spec.origin).parent


def zig(*arguments: str) -> tuple[str, ...]:
    """Command of one of zig's tools: clang, ld.lld, wasm-ld, ar."""
    return (str(zig_home() / "zig"), *arguments)


def produce(
    command: Sequence[str],
    files: Mapping[str, Content],
    output: str,
    *,
    version: str,
    cache_dir: Path | None = None,
    prefix_map: bool = False,
    faster: Callable[[], Sequence[str]] = tuple,
) -> bytes:
    """Run `command` beside `files`; what it leaves in `output`. Known results come from the cache.

    The cache is `cache_dir` or the directory in INGOT_CACHE, if any; `version` identifies the tool in it.
    `faster` is asked, only where the command runs, for options that change nothing of what it makes.
    """
    entry = _entry(command, files, output, version, cache_dir)
    if entry and entry.is_file():
        return entry.read_bytes()
    made = _produce((*command, *faster()), files, output, prefix_map)
    if entry:
        with suppress(InputError):  # a cache that cannot be written costs the time again
            write_file(entry, made)
    return made


def remembered(
    command: Sequence[str],
    files: Mapping[str, Content],
    output: str,
    *,
    version: str,
    cache_dir: Path | None = None,
) -> Path | None:
    """Where the cache has what `produce` answers to the same; None where there is no cache to be written."""
    if entry := _entry(command, files, output, version, cache_dir):
        produce(command, files, output, version=version, cache_dir=cache_dir)
    return entry if entry and entry.is_file() else None


def _entry(
    command: Sequence[str], files: Mapping[str, Content], output: str, version: str, cache_dir: Path | None
) -> Path | None:
    directory = cache_dir or os.environ.get("INGOT_CACHE")
    return Path(directory).absolute() / _key((version, *command[1:], output), files) if directory else None


def _produce(command: Sequence[str], files: Mapping[str, Content], output: str, prefix_map: bool) -> bytes:
    with tempfile.TemporaryDirectory(prefix="ingot-") as name:
        directory = Path(name)
        for file, content in files.items():
            _place(directory / file, content)
        # Only debug information and __FILE__ would name the directory; the map takes it out of both.
        extra = (f"-ffile-prefix-map={directory.resolve()}=.",) if prefix_map else ()
        run((*command, *extra), directory)
        return (directory / output).read_bytes()


def _place(path: Path, content: Content) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, Path):
        path.symlink_to(content.resolve())
    elif isinstance(content, bytes):
        path.write_bytes(content)
    else:
        path.write_text(content, encoding="utf-8", newline="\n")


def run(command: Sequence[str], directory: Path, stdin: bytes = b"", timeout: float | None = None) -> bytes:
    """Standard output of a program that must succeed."""
    try:
        done = subprocess.run(
            command,
            cwd=directory,
            env=_environment(directory),
            input=stdin,
            capture_output=True,
            timeout=timeout,
        )
    except OSError as error:
        raise ToolchainError(f"cannot run '{command[0]}': {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise ToolchainError(f"'{shlex.join(command)}' did not end within {timeout} s") from error
    if done.returncode != 0:
        raise ToolchainError(_failure(command, done.returncode, done.stderr.decode(errors="replace")))
    return done.stdout


def check(command: Sequence[str], files: Mapping[str, Content]) -> str:
    """What a program says of its files on standard error; it may fail."""
    with tempfile.TemporaryDirectory(prefix="ingot-") as name:
        directory = Path(name)
        for file, content in files.items():
            _place(directory / file, content)
        done = subprocess.run(command, cwd=directory, env=_environment(directory), capture_output=True)
    return done.stderr.decode(errors="replace")


def _environment(directory: Path) -> dict[str, str]:
    """Only what finds programs: no CPATH, no locale, nothing that changes what a compiler makes."""
    kept = {name: os.environ[name] for name in ("HOME", "SYSTEMROOT") if name in os.environ}
    return kept | {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TMPDIR": str(directory)}


def _failure(command: Sequence[str], status: int, report: str) -> str:
    """The lines that say "error" and the command, so that it can be repeated by hand."""
    lines = [line for line in report.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower() or "undefined" in line.lower()] or lines
    text = "\n  ".join(errors[:8]) or "(it said nothing)"
    tool = Path(command[0]).name + (f" {command[1]}" if Path(command[0]).name == "zig" else "")
    how = f"was ended by signal {-status}" if status < 0 else f"failed with status {status}"
    return f"{tool} {how}:\n  {text}\ncommand: {shlex.join(command)}"


def _key(words: Sequence[str], files: Mapping[str, Content]) -> str:
    """Hash of everything the result depends on: version of the tool, arguments, files."""
    digest = hashlib.sha256()
    for part in words:
        digest.update(part.encode() + b"\0")
    for name, content in sorted(files.items()):
        data = content.read_bytes() if isinstance(content, Path) else content
        data = data.encode() if isinstance(data, str) else data
        digest.update(f"{name}\0{len(data)}\0".encode() + data)
    return digest.hexdigest()


@cache
def zig_version() -> str:
    """Version of the wheel, which fixes every tool in it."""
    return f"ziglang {importlib.metadata.version('ziglang')}"


@cache
def tool_version(command: tuple[str, ...]) -> str:
    """First line of `command --version`: "gcc (Debian 12.2.0-14) 12.2.0"."""
    return _first_line((*command, "--version"))


@cache
def machine_of(command: tuple[str, ...]) -> str:
    """What a compiler of C builds for, as gcc and clang say it: "arm-none-eabi"; empty: it does not say."""
    try:
        return _first_line((*command, "-dumpmachine"))
    except ToolchainError:
        return ""


def _first_line(command: tuple[str, ...]) -> str:
    with tempfile.TemporaryDirectory(prefix="ingot-") as directory:
        said = run(command, Path(directory)).decode(errors="replace")
    return said.partition("\n")[0].strip()
