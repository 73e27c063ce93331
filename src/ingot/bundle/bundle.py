"""A bundle in memory: its files, its manifest, and the shipped object made callable."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ingot.bundle.containers import Value, packed, values_of
from ingot.bundle.costs import cost_table, left_tables
from ingot.bundle.run import NOTHING, Runner, runner
from ingot.bundle.schema import sealed, text_of
from ingot.bundle.session import Session
from ingot.bundle.stored import read_stored, store
from ingot.formula.expr import Array
from ingot.tables import Result, Table


class Bundle(Result):
    """A compiled model, as `ingot.compile` returns it. `files` maps names to contents; `manifest` is the
    content of NAME.json.

    `parts` has what is needed to run the bundle but is not in `files`: the object, if only the C was asked
    for.
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
        """Return the costs of the bundle, and the layers that could not be computed in bytes."""
        return [cost_table(self.manifest), *left_tables(self.manifest)]

    @property
    def inputs(self) -> tuple[Value, ...]:
        """The inputs of the model: names, types and shapes."""
        return values_of(self.manifest, "inputs")

    @property
    def outputs(self) -> tuple[Value, ...]:
        """The outputs of the model: names, types and shapes."""
        return values_of(self.manifest, "outputs")

    @property
    def object(self) -> bytes:
        """The object from the pinned compiler (or the user's own), whether `files` contains it or not."""
        return self._parts[f"{self.name}.o"]

    @property
    def runner(self) -> Runner:
        """The shipped object, linked into this process on first use."""
        if self._runner is None:
            self._runner = runner(self.name, self._parts, self.manifest)
        return self._runner

    def session(self) -> Session:
        """Return a session, whose runs keep the state from one to the next."""
        return Session(self.runner, self.manifest)

    def run(self, inputs: Mapping[str, Any], out: Mapping[str, Array] = NOTHING) -> dict[str, Any]:
        """Execute the shipped object. A bundle with a state starts from the initial state.

        `inputs` has arrays by the model's names, lists for sequences, and None for an optional without an
        element. `out` has arrays of the caller's for some or all outputs, by name: the object writes into
        them, and they are returned. Raises InputError for inputs that are missing, have the wrong shape, or
        are out of range, and for arrays of `out` that do not fit.
        """
        return self.session().run(inputs, out)

    def time(self, inputs: Mapping[str, Any], repeat: int = 100) -> list[float]:
        """Return the seconds per inference of `repeat` samples, measured in a C loop around the shipped
        object.
        """
        return self.runner.time(packed(self.manifest, inputs), repeat)

    def profile(self, inputs: Mapping[str, Any], runs: int = 20) -> list[float]:
        """Return the least seconds of each kernel call in the manifest, and of the copies between them.

        Only for a bundle that was compiled with `profile`. The time of reading the clock is subtracted.
        """
        return self.runner.profile(packed(self.manifest, inputs), runs)

    def save(self, directory: str | Path, *, force: bool = False) -> Path:
        """Write the files into a directory: all of them, or none if anything fails.

        Files of an earlier save that this bundle does not have are removed, such as a golden program for
        other weights. Files that no bundle wrote, or that were edited since, are never deleted, and are
        replaced only with `force`. Otherwise InputError names them.
        """
        store(Path(directory), self.name, self.files, force)
        return Path(directory)


def load(directory: str | Path) -> Bundle:
    """Read a bundle that `save` wrote; if a directory has several, name the manifest instead of the
    directory.

    Raises InputError if there is no bundle, if the manifest, header, object or weights have changed, and if
    the manifest does not belong to the object.
    """
    manifest, files = read_stored(Path(directory))
    return Bundle(str(manifest["name"]), files, manifest)
