"""The sources of a commit, the process that emits C with them, and what they have emitted before.

A tree is known by the content of its compiler, so a working copy is one like any other. What a tree emitted
for a model is kept by target, compressed, in the user's cache; of trees that nobody asked for lately only the
last few stay.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

HERE = Path(__file__).parents[2]
EMIT = Path("tests/replay/emit.py")
KEPT = 12
Texts = dict[str, str]
"""The emitted text by target."""


@dataclass(frozen=True)
class Tree:
    """A directory with the sources of a commit."""

    root: Path

    @cached_property
    def digest(self) -> str:
        """Of every file of the compiler and of what asks it."""
        package = self.root / "src" / "ingot"
        files = (p for p in package.rglob("*") if p.is_file() and "__pycache__" not in p.parts)
        found = hashlib.sha256(self.emit.read_bytes())
        for path in sorted(files):
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            found.update(f"{path.relative_to(package)} {content}\n".encode())
        return found.hexdigest()[:24]

    @property
    def emit(self) -> Path:
        """Its own way of emitting; this one's where the commit is older than replays."""
        own = self.root / EMIT
        return own if own.exists() else HERE / EMIT


@contextmanager
def tree_of(commit: str) -> Iterator[Tree]:
    """The sources of a commit of this repository, for as long as the block runs."""
    command = ["git", "-C", str(HERE), "archive", commit, "src"]
    if (
        subprocess.run([*command[:3], "cat-file", "-e", f"{commit}:{EMIT}"], capture_output=True).returncode
        == 0
    ):
        command.append(str(EMIT))
    done = subprocess.run(command, capture_output=True)
    if done.returncode:
        raise SystemExit(f"replay: no sources of {commit!r}: {done.stderr.decode().strip()}")
    with TemporaryDirectory(prefix="ingot-replay-") as folder:
        with tarfile.open(fileobj=BytesIO(done.stdout)) as archive:
            archive.extractall(folder, filter="data")
        yield Tree(Path(folder))


@contextmanager
def snapshot(root: Path) -> Iterator[Tree]:
    """The sources of a working copy as they are now: who edits meanwhile changes nothing."""
    with TemporaryDirectory(prefix="ingot-replay-") as folder:
        shutil.copytree(root / "src", Path(folder) / "src", ignore=shutil.ignore_patterns("__pycache__"))
        (Path(folder) / EMIT).parent.mkdir(parents=True)
        shutil.copy(root / EMIT, Path(folder) / EMIT)
        yield Tree(Path(folder))


class Emitter:
    """A process that runs a tree's compiler; started when it is first asked."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._process: subprocess.Popen[bytes] | None = None

    def emit(self, model: bytes, options: Mapping[str, Any], targets: Sequence[str]) -> Texts:
        """The text for each target."""
        self._process = self._process or self._start()
        request = {"bytes": len(model), "options": dict(options), "targets": list(targets)}
        assert self._process.stdin and self._process.stdout
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n" + model)
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # it has ended: there is no answer either
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit(f"replay: {self._tree.emit} ended with exit code {self._process.wait()}")
        texts: Texts = json.loads(answer)
        return texts

    def _start(self) -> subprocess.Popen[bytes]:
        paths = {"PYTHONPATH": str(self._tree.root / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
        environment = {**os.environ, **paths, "INGOT_CHECK": "0"}  # verifiers change no text
        command = [sys.executable, "-W", "ignore", str(self._tree.emit)]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)

    def close(self) -> None:
        if self._process:
            with self._process:  # closes its input, which ends it
                pass


class Store:
    """What trees have emitted, by tree and model."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def load(self, tree: Tree, key: str) -> Texts:
        """What is known, which may be nothing."""
        path = self._path(tree, key)
        if not path.exists():
            return {}
        texts: Texts = json.loads(zlib.decompress(path.read_bytes()))
        return texts

    def save(self, tree: Tree, key: str, texts: Texts) -> None:
        path = self._path(tree, key)
        path.parent.mkdir(parents=True, exist_ok=True)
        own = path.with_suffix(f".{os.getpid()}")
        own.write_bytes(zlib.compress(json.dumps(texts).encode(), 1))
        own.replace(path)

    def keep(self, trees: Sequence[Tree]) -> None:
        """Forget all but these and those that were asked for last."""
        for tree in trees:
            folder = self._folder / tree.digest
            folder.mkdir(parents=True, exist_ok=True)
            os.utime(folder)
        asked = sorted(self._folder.iterdir(), key=lambda p: p.stat().st_mtime)
        for folder in asked[:-KEPT]:
            shutil.rmtree(folder, ignore_errors=True)

    def _path(self, tree: Tree, key: str) -> Path:
        return self._folder / tree.digest / key


def model_key(model: bytes, options: Mapping[str, Any]) -> str:
    """What identifies a request in the store."""
    said = json.dumps(options, sort_keys=True, default=list).encode()
    return hashlib.sha256(hashlib.sha256(model).digest() + said).hexdigest()[:24]
