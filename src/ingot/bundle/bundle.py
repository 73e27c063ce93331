"""A bundle in memory: its files, its manifest, and the shipped object made callable."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ingot.bundle.containers import packed
from ingot.bundle.costs import cost_table, float_table
from ingot.bundle.run import Runner, runner
from ingot.bundle.schema import sealed, text_of
from ingot.bundle.session import Session
from ingot.bundle.stored import read_stored, store
from ingot.tables import Result, Table


class Bundle(Result):
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
        self.manifest = sealed(manifest)
        self.files = {**files, f"{name}.json": text_of(self.manifest).encode()}
        self._parts = parts or files
        self._runner: Runner | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return plain data: the manifest, and the bytes of each file."""
        files = {file: len(content) for file, content in sorted(self.files.items())}
        return {"files": files, "manifest": self.manifest}

    def tables(self) -> list[Table]:
        """Return what the bundle costs, and which layers that were to be in bytes are not."""
        return [cost_table(self.manifest), *float_table(self.manifest)]

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

    def save(self, directory: str | Path, *, force: bool = False) -> Path:
        """Write the files: all of them whole, or none.

        What an earlier save of this bundle left and this one does not bring is removed: a golden program of
        other weights, say. Files that no bundle wrote, or that were edited since, are never deleted, and
        replaced only with `force`: InputError names those that stand where a file of ours belongs.
        """
        store(Path(directory), self.name, self.files, force)
        return Path(directory)


def load(directory: str | Path) -> Bundle:
    """Read a bundle that `save` wrote; where a directory holds several, name the manifest instead of it.

    Raises InputError where there is none, where manifest, header, object or weights are not those that were
    written, and where the manifest is not of the object.
    """
    manifest, files = read_stored(Path(directory))
    return Bundle(str(manifest["name"]), files, manifest)
