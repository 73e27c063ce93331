"""`.npz` files as arrays: what `numpy.savez` writes, and what anybody may have named so; and back.

In: a path. Out: arrays by name, read one at a time, or one InputError. An archive's own sizes are not
trusted: a member is read only if its header and its size agree, and what expands has a limit.
"""

from __future__ import annotations

import io
import os
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ingot.data.arrays import FILE_BYTES, parse_array
from ingot.errors import InputError
from ingot.files import open_file

if TYPE_CHECKING:
    from ingot.formula.expr import Array

MEMBERS = 4096
SHOWN = 20  # names in a message
EXPANDED_BYTES = 1 << 32  # of a compressed member
EXPANDED_ANYHOW = 1 << 28  # of one, however little it takes in the file
EXPANSION = 64  # times what it takes in the file: beyond, it is hardly data
CHUNK = 1 << 20
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_FAILURES = (zipfile.BadZipFile, zlib.error, EOFError, ValueError, NotImplementedError, RuntimeError, OSError)


def archive_of(arrays: Mapping[str, Array]) -> bytes:
    """Return arrays as a `.npz` file: types that numpy lacks as their bits, strings as Unicode."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, array in arrays.items():
            plain = array.astype(np.str_) if array.dtype.kind in "OS" else array
            if plain.dtype.kind not in "fiubU":
                plain = plain.view(f"u{plain.dtype.itemsize}")
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.ascontiguousarray(plain), allow_pickle=False)
    return made.getvalue()


def member_names(path: Path) -> list[str]:
    """Return the names of the arrays in an archive, in its order. Raises InputError."""
    with _opened(path) as archive:
        return [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]


def read_member(path: Path, name: str) -> Array:
    """Return one array of an archive. Raises InputError."""
    with _opened(path) as archive:
        try:
            info = archive.getinfo(f"{name}.npy")
            _require_modest(path, info)
            data = _expanded(archive, info)
        except KeyError:
            known = ", ".join(repr(n.removesuffix(".npy")) for n in archive.namelist()[:SHOWN])
            raise InputError(f"{path} has no array {name!r}", remedy=f"its arrays: {known}") from None
        except _FAILURES as error:
            raise InputError(f"{path} is damaged at array {name!r}: {error}") from None
    return parse_array(data, f"{name!r} in {path}")


def _expanded(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytearray:
    """A member's bytes, which are in memory once."""
    data, at = bytearray(info.file_size), 0
    with archive.open(info) as member:
        while chunk := member.read(CHUNK):
            data[at : at + len(chunk)] = chunk
            at += len(chunk)
    if at != len(data):
        raise ValueError(f"it has {at:,} bytes, not {len(data):,}")
    return data


def _require_modest(path: Path, info: zipfile.ZipInfo) -> None:
    limit = min(EXPANDED_BYTES, max(EXPANDED_ANYHOW, EXPANSION * info.compress_size))
    if info.compress_type == zipfile.ZIP_STORED:
        limit = FILE_BYTES
    stored = info.compress_type == zipfile.ZIP_STORED and info.file_size != info.compress_size
    if info.compress_type not in METHODS or stored:
        raise ValueError("it is not stored as numpy does it")
    if info.file_size > limit:
        raise InputError(
            f"{path}: {info.filename!r} expands from {info.compress_size:,} bytes to {info.file_size:,}; "
            f"at most {limit:,} are read",
            remedy="save it with numpy.savez, which does not compress",
        )


@contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    with os.fdopen(open_file(path, FILE_BYTES), "rb") as file:
        try:
            archive = zipfile.ZipFile(file)
        except _FAILURES as error:
            raise InputError(f"{path} is not a .npz archive: {error}") from None
        names = archive.namelist()
        if len(names) > MEMBERS:
            raise InputError(f"{path} has more than {MEMBERS:,} members")
        if len(set(names)) < len(names):
            raise InputError(f"{path} has two members called {Counter(names).most_common(1)[0][0]!r}")
        yield archive
