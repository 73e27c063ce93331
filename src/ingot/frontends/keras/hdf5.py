"""HDF5 files as Keras writes them, believed in nothing. In: a file; out: attributes and arrays by path.

The library behind h5py may crash on a damaged file, so `hdf5_child` reads in a process of its own. It follows
hard links only, each once, so that no link leads out of the file or in circles; data in other files, virtual
data sets and filters that are plug-ins are refused. Called by `archive` and `weights`.
"""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path

import ml_dtypes
import msgspec
import numpy as np

from ingot.errors import InputError, ModelError, ToolchainError, UnsupportedError
from ingot.files import conform, parse_json
from ingot.formula.expr import Array
from ingot.targets.process import produce

SIGNATURE = b"\x89HDF\r\n\x1a\n"
CHILD = Path(__file__).with_name("hdf5_child.py")
PARTS_LIMIT = 10_000  # of a list of names, which is cut where it is too long for an attribute
KINDS = "fiub"
INSTALL = "install it: pip install 'ingot[keras]'"
Attribute = str | list[str] | None


class Head(msgspec.Struct, forbid_unknown_fields=True):
    """What the child says: arrays are (type, shape, first byte)."""

    error: str
    attributes: dict[str, dict[str, Attribute]]
    arrays: dict[str, tuple[str, list[int], int]]
    refused: dict[str, str]


@dataclass(frozen=True, slots=True)
class Hdf5:
    """A file that was read: `label` is what errors call it, `data` what its arrays lie in."""

    head: Head
    data: memoryview
    label: str

    def has(self, path: str) -> bool:
        """Whether something of this name is in the file itself."""
        path = _clean(path)
        return path in self.head.attributes or path in self.head.arrays or path in self.head.refused

    def names(self, path: str) -> list[str]:
        """The arrays that a group holds, by name."""
        start = f"{_clean(path)}/"
        found = (*self.head.arrays, *self.head.refused)
        return [p.removeprefix(start) for p in found if p.startswith(start) and "/" not in p[len(start) :]]

    def attribute(self, path: str, name: str) -> Attribute:
        """An attribute of a group; None where there is none, or of another type than text."""
        return self.head.attributes.get(self._allowed(path), {}).get(name)

    def listed(self, path: str, name: str) -> list[str] | None:
        """A list of names, which long ones cut into `name0`, `name1`, ...; None where there is none."""
        whole = self.attribute(path, name)
        if isinstance(whole, list):
            return whole
        found: list[str] = []
        for i in range(PARTS_LIMIT):
            part = self.attribute(path, f"{name}{i}")
            if not isinstance(part, list):
                return found if i else None
            found += part
        raise ModelError(f"{self.label}: {path!r} has too many parts of {name!r}")

    def array(self, path: str) -> Array:
        """The elements of a data set. Raises ModelError or UnsupportedError."""
        path = self._allowed(path)
        if path not in self.head.arrays:
            raise ModelError(f"{self.label}: there are no weights {path!r}")
        kind, shape, at = self.head.arrays[path]
        try:
            dtype = np.dtype(ml_dtypes.bfloat16) if kind == "bfloat16" else np.dtype(kind)
        except TypeError:
            dtype = np.dtype(object)
        if dtype.kind not in KINDS and kind != "bfloat16":
            raise ModelError(f"{self.label}: the weights {path!r} are of type {kind[:40]}")
        count = int(np.prod(shape, dtype=np.int64))
        made = np.frombuffer(self.data, dtype, count, at).reshape(shape)
        return made.astype(dtype.newbyteorder("="), copy=False)

    def _allowed(self, path: str) -> str:
        """The path, no part of which is refused."""
        path = _clean(path)
        parts = path.split("/")
        for i in range(len(parts)):
            start = "/".join(parts[: i + 1])
            if start in self.head.refused:
                raise UnsupportedError(f"{self.label}: {start!r} {self.head.refused[start]}")
        return path


def open_hdf5(source: bytes | Path, label: str) -> Hdf5:
    """The file at a path, or that these bytes are. Raises InputError."""
    if not _is_installed():
        raise InputError(f"reading {label} needs h5py", remedy=INSTALL)
    files = {CHILD.name: CHILD, "model.h5": source if isinstance(source, bytes) else source.resolve()}
    try:
        made = produce((sys.executable, "-I", CHILD.name), files, "read.bin", version="")
    except (ToolchainError, OSError):
        raise ModelError(f"{label} is a damaged HDF5 file: h5py fails on it") from None
    size = int.from_bytes(made[:8], "little")
    where = f"what is in {label}"
    head = conform(parse_json(made[8 : 8 + size].decode(), where), Head, where)
    if head.error:
        raise ModelError(f"{label} is a damaged HDF5 file: {head.error}")
    return Hdf5(head, memoryview(made)[8 + size :], label)


def _is_installed() -> bool:
    try:
        return importlib.util.find_spec("h5py") is not None
    except ValueError:  # a module that is None: somebody hides it
        return False


def _clean(path: str) -> str:
    return "/".join(p for p in path.split("/") if p)
