"""Files that commands read, and those they write: complete, or not at all."""

from __future__ import annotations

import os
import tempfile
from errno import EISDIR
from pathlib import Path

from ingot.cli.show import note
from ingot.errors import InputError


def read_file(path: Path) -> bytes:
    """A file's bytes. Raises InputError where there is none."""
    if not path.is_file():
        raise InputError(f"cannot read {str(path)!r}: {'not a regular' if path.exists() else 'no such'} file")
    return path.read_bytes()


def write_file(path: Path, data: bytes) -> None:
    """Write a file by way of a temporary one beside it; folders that are missing are made.

    Raises InputError where it cannot."""
    try:
        if path.is_dir():
            raise IsADirectoryError(EISDIR, os.strerror(EISDIR))
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".ingot-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            os.chmod(name, 0o644)
            os.replace(name, path)
        except BaseException:
            os.unlink(name)
            raise
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from None


def write_text(path: Path, text: str) -> None:
    """Write text, and say so; what UTF-8 has no bytes for is escaped."""
    write_file(path, text.encode(errors="backslashreplace"))
    note(f"wrote {path}")
