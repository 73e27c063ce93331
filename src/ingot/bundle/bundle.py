"""A bundle in memory: its files, its manifest, and the shipped object made callable."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ingot.bundle.containers import packed
from ingot.bundle.run import Runner, runner
from ingot.bundle.session import Session
from ingot.errors import InputError


class Bundle:
    """What `ingot.compile` returns. `files` maps names to contents; `manifest` is the content of NAME.json.

    `parts` holds what running needs beside `files`: the object of a bundle that was asked for its C only.
    """

    def __init__(
        self,
        name: str,
        files: Mapping[str, bytes],
        manifest: dict[str, Any],
        parts: Mapping[str, bytes] | None = None,
    ) -> None:
        self.name = name
        self.manifest = manifest
        text = json.dumps(manifest, indent=2) + "\n"
        self.files = {**files, f"{name}.json": text.encode()}
        self._parts = parts or files
        self._runner: Runner | None = None

    @property
    def object(self) -> bytes:
        """The code as the pinned compiler (or the user's own) made it, among `files` or not."""
        return self._parts[f"{self.name}.o"]

    @property
    def runner(self) -> Runner:
        """The shipped object, linked as it is on first use."""
        if self._runner is None:
            self._runner = runner(self.name, self._parts, self.manifest)
        return self._runner

    def session(self) -> Session:
        """Runs in a row, each of which finds the state that the one before it left."""
        return Session(self.runner, self.manifest)

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Execute the shipped object, from the start of its state if it has one.

        Arrays by the model's names; lists for sequences, None for an optional without an element.
        InputError for inputs that are missing, misshapen or out of range.
        """
        return self.session().run(inputs)

    def time(self, inputs: Mapping[str, Any], repeat: int = 100) -> list[float]:
        """Seconds per inference of `repeat` samples, measured in a C loop around the shipped object."""
        return self.runner.time(packed(self.manifest, inputs), repeat)

    def profile(self, inputs: Mapping[str, Any], runs: int = 20) -> list[float]:
        """The least seconds of each kernel call of the manifest, and of the copies between them.

        Of a bundle compiled with `profile` only; the times of the clock itself are taken off.
        """
        return self.runner.profile(packed(self.manifest, inputs), runs)

    def save(self, directory: str | Path) -> Path:
        """Write the files; they appear whole or not at all.

        What an earlier save of this bundle left and this one does not bring is removed: a golden program of
        other weights, say. Files that no bundle wrote, or that were edited since, are never touched:
        InputError if one stands where a file of ours belongs.
        """
        target = Path(directory)
        if target.exists() and not target.is_dir():
            raise InputError(f"{target} is not a directory")
        ours = _written_by_us(target)
        for name in self.files:
            if (target / name).exists() and name not in ours:
                raise InputError(f"{target / name} exists and is no file of a bundle", remedy="move it away")
        target.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target, prefix=".ingot-") as staging:
            for name, content in self.files.items():
                (Path(staging) / name).write_bytes(content)
            for name in _left_over(target / f"{self.name}.json") - self.files.keys():
                (target / name).unlink()
            for name in self.files:
                os.replace(Path(staging) / name, target / name)
        return target


def _manifests(folder: Path) -> dict[Path, dict[str, Any]]:
    """The manifests in a directory; other JSON files are passed over."""
    found = {}
    for path in sorted(folder.glob("*.json")):
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(content, dict) and {"schema", "name", "files", "symbols"} <= content.keys():
            found[path] = content
    return found


def _left_over(path: Path) -> set[str]:
    """The files that a manifest lists, as they were written, and that no other bundle beside it has too."""
    found = _manifests(path.parent)
    mine = found.pop(path, {"files": {}})["files"]
    shared = {n for m in found.values() for n in m["files"]}
    listed = {n: h for n, h in mine.items() if n not in shared and Path(n).name == n}
    return {n for n, h in listed.items() if _hash(path.parent / n) == h}


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


def _written_by_us(folder: Path) -> set[str]:
    return {n for path, m in _manifests(folder).items() for n in (path.name, *m["files"])}


def load(directory: str | Path) -> Bundle:
    """Read a bundle that `save` wrote; where a directory holds several, name the manifest instead of it.

    Raises InputError where there is none, and where object or weights are not those that were written.
    """
    path = Path(directory)
    folder = path if path.is_dir() else path.parent
    found = {p: m for p, m in _manifests(folder).items() if path in (folder, p)}
    if not found:
        raise InputError(f"{path} holds no bundle: no manifest of the form NAME.json")
    if len(found) > 1:
        raise InputError(f"{path} holds {len(found)} bundles", remedy=f"name one: {next(iter(found))}")
    manifest = next(iter(found.values()))
    listed = {n: h for n, h in manifest["files"].items() if Path(n).name == n and (folder / n).is_file()}
    return Bundle(str(manifest["name"]), {n: _read(folder / n, h) for n, h in listed.items()}, manifest)


def _read(path: Path, sha256: str) -> bytes:
    """A file of the bundle; what runs must be what was compiled, the C may have been edited."""
    data = path.read_bytes()
    if path.suffix in (".o", ".bin") and _hash(path) != sha256:
        raise InputError(f"{path} is not the file that was written", remedy="compile the model again")
    return data
