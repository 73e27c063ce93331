"""A bundle in memory: its files, its manifest, and the shipped object made callable."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ingot.bundle.run import Runner
from ingot.errors import InputError
from ingot.formula.expr import Array


class Bundle:
    """What `ingot.compile` returns. `files` maps names to contents; `manifest` is the content of NAME.json."""

    def __init__(self, name: str, files: Mapping[str, bytes], manifest: dict[str, Any]) -> None:
        self.name = name
        self.manifest = manifest
        text = json.dumps(manifest, indent=2) + "\n"
        self.files = {**files, f"{name}.json": text.encode()}
        self._runner: Runner | None = None

    @property
    def runner(self) -> Runner:
        """The shipped object, linked as it is on first use."""
        if self._runner is None:
            self._runner = Runner(self.name, self.files, self.manifest)
        return self._runner

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Execute the shipped object. Raises InputError for a missing, misshapen or wrongly typed input."""
        return self.runner.run(inputs)

    def time(self, inputs: Mapping[str, Array], repeat: int = 100) -> list[float]:
        """Seconds per inference of `repeat` samples, measured in a C loop around the shipped object."""
        return self.runner.time(inputs, repeat)

    def save(self, directory: str | Path) -> Path:
        """Write the files; they appear whole or not at all, and files that are not the bundle's stay."""
        target = Path(directory)
        if target.exists() and not target.is_dir():
            raise InputError(f"{target} is not a directory")
        target.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target, prefix=".ingot-") as staging:
            for name, content in self.files.items():
                (Path(staging) / name).write_bytes(content)
            for name in self.files:
                os.replace(Path(staging) / name, target / name)
        return target


def load(directory: str | Path) -> Bundle:
    """Read a bundle that `save` wrote. Raises InputError where there is none."""
    folder = Path(directory)
    for candidate in sorted(folder.glob("*.json")):
        manifest = json.loads(candidate.read_text())
        if isinstance(manifest, dict) and "schema" in manifest and "name" in manifest:
            name = str(manifest["name"])
            files = {p.name: p.read_bytes() for p in folder.glob(f"{name}*") if p.is_file()}
            files.pop(f"{name}.json")
            return Bundle(name, files, manifest)
    raise InputError(f"{folder} holds no bundle: no manifest of the form NAME.json")
